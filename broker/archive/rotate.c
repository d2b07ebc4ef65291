#include "broker/archive/rotate.h"

#include <stdlib.h>

#include "broker/base/clock.h"
#include "broker/base/diag.h"

static void
on_closed(struct post *post)
{
    if (post->status)
        diag(DIAG_WARNING, "archive", "a list could not be closed: %s",
             post->why.text);
    free(post);
}

/* The part of a tenth of the age by which this set's lists close later: the
 * same for as long as the set lives. */
static int64_t
spread(const struct head *head, int64_t age_us)
{
    uint64_t n = 0;

    for (size_t i = 0; i < EPOCH_SIZE; i++)
        n = n * 31 + (unsigned char)head->epoch[i];
    return (int64_t)(n % 1024) * (age_us / 10) / 1024;
}

static bool
close_if_old(struct set *set, void *user)
{
    int64_t now_us = *(const int64_t *)user;
    int64_t age_us = registry_config(set->registry)->rotate_age_us;
    struct post *post;
    struct head head;

    if (!log_head(set->log, &head) || lists_is_empty(&head) ||
        now_us - head.list_first_us < age_us + spread(&head, age_us))
        return true;
    post = calloc(1, sizeof(*post));
    if (!post)
        return false;
    post->kind = POST_CLOSE;
    post->set = set->log;
    post->list = head.list; /* not the next one, if this comes twice */
    post->done = on_closed;
    if (log_submit(registry_log(set->registry), post)) {
        free(post);
        return false;
    }
    return true;
}

void
rotate_by_age(struct registry *registry)
{
    int64_t now_us = clock_now_us();

    if (registry_config(registry)->rotate_age_us > 0)
        registry_each(registry, close_if_old, &now_us);
}

bool
rotate_file_one(struct registry *registry)
{
    struct problem why = {""};
    bool is_done = true;

    if (log_file_list(registry_log(registry), &is_done, &why)) {
        diag(DIAG_WARNING, "archive",
             "a closed list could not be filed, and will be tried again: %s",
             why.text);
        return false;
    }
    return !is_done;
}
