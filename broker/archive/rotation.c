#include "broker/archive/rotation.h"

#include "broker/base/metrics.h"

/* The pause after a failure to file a list. */
#define AGAIN_US 1000000

/* Time for filing in a turn of the archive thread: as much as a fold has. */
#define STEP_US 1000000

/* A request to close a list. */
struct asked {
    struct post post;
    struct rotation *rotation;
};

/* Log thread. */
static void
on_closed(struct post *post)
{
    struct asked *a = list_entry(post, struct asked, post);

    if (post->status && post->status != STATUS_GONE) /* the set was removed */
        DIAG(DIAG_WARNING, "archive", "a list could not be closed",
             diag_text("error", post->why.text));
    subtract_relaxed(&a->rotation->n_asked, 1);
    free(a);
}

static bool
close_if_old(struct set *set, const struct head *head, void *user)
{
    struct rotation *rotation = user;
    int64_t age_us = load_relaxed(&set->rotate_age_us);
    uint64_t n = 0;
    struct asked *a;

    if (age_us == 0 || head_list_is_empty(head))
        return true;
    /* The part of a tenth of the age by which this set's lists close later: the
     * same for as long as the set lives. */
    for (size_t i = 0; i < EPOCH_SIZE; i++)
        n = n * 31 + (unsigned char)head->epoch[i];
    if (clock_now_us() - head->list_first_us <
        age_us + (int64_t)(n % 1024) * (age_us / 10) / 1024)
        return true;
    a = memory_new(1, sizeof(*a));
    a->rotation = rotation;
    a->post.kind = POST_CLOSE;
    a->post.set = set->log;
    a->post.list = head->list; /* not a later one */
    a->post.done = on_closed;
    add_relaxed(&rotation->n_asked, 1);
    if (log_submit(set->registry->log, &a->post, NULL)) {
        subtract_relaxed(&rotation->n_asked, 1);
        free(a);
        return false;
    }
    return true;
}

static void
rotate_by_age(struct chore *chore)
{
    struct rotation *rotation = list_entry(chore, struct rotation, chore);

    if (!rotation->registry->config->cluster_read_only &&
        load_relaxed(&rotation->n_asked) == 0)
        registry_each(rotation->registry, close_if_old, rotation);
}

static bool
file_some(struct chore *chore)
{
    struct rotation *rotation = list_entry(chore, struct rotation, chore);
    struct log *log = rotation->registry->log;
    int64_t end_us = clock_steady_us() + STEP_US;

    while (!load_relaxed(log_ending(log)) &&
           clock_steady_us() >= rotation->again_us) {
        struct problem why = {""};
        bool is_done = true;
        enum status rc = log_file_list(log, &is_done, &why);

        /* Reports the first failure, and the first success after it. */
        if (!rc && atomic_exchange_explicit(&rotation->n_failures, 0,
                                            memory_order_relaxed) > 0)
            diag(DIAG_WARNING, "archive", "closed lists are filed again");
        if (rc && rc != STATUS_STOPPED) {
            rotation->again_us = clock_steady_us() + AGAIN_US;
            metrics_add(METRIC_FILES_FAILED, 1);
            if (add_relaxed(&rotation->n_failures, 1) == 0)
                DIAG(DIAG_WARNING, "archive",
                     "a closed list could not be filed, and will be tried "
                     "again",
                     diag_text("error", why.text));
        }
        if (rc || is_done)
            return false;
        if (clock_steady_us() >= end_us)
            return true;
    }
    return false;
}

void
rotation_init(struct rotation *rotation, struct registry *registry)
{
    *rotation = (struct rotation){
        .chore = {.look = rotate_by_age, .step = file_some},
        .registry = registry,
    };
}
