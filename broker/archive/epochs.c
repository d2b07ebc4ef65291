#include "broker/archive/epochs.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/array.h"
#include "broker/access/checkpoint_keys.h"
#include "broker/archive/checkpoints.h"
#include "broker/archive/set_progress.h"

struct lost {
    struct set **all; /* that get a new epoch */
    size_t n, capacity;
    bool is_restored;
    enum status rc;
};

static bool
look_at_set(struct set *set, const struct head *head, void *user)
{
    struct lost *lost = user;

    if (!lost->is_restored && checkpoint_filed(set, head) <= head->last)
        return true;
    if (!ONE_MORE(lost->all, &lost->capacity, lost->n))
        lost->rc = STATUS_MEMORY;
    else
        lost->all[lost->n++] = set;
    return !lost->rc;
}

enum status
epochs_begin(struct registry *registry, struct problem *why)
{
    struct log *log = registry->log;
    struct file_path mark =
        file_path("%s/" LOG_NEW_EPOCHS, registry->config->data);
    struct lost lost = {.is_restored = !access(mark.text, F_OK)};
    const char *because = lost.is_restored
                              ? "this data directory was restored"
                              : "the key has signed more entries than the log "
                                "has, as of an older copy";
    struct journal_place place;
    enum status rc;

    /* A copy of a cluster, whose place is set, gets what it lacks from the
     * journal. Another one that was restored begins the cluster. */
    log_place(log, &place);
    if (!journal_place_is_set(&place) &&
        (lost.is_restored || !log_is_shared(log)))
        registry_each(registry, look_at_set, &lost);
    rc = lost.rc ? problem_memory(why) : STATUS_OK;
    for (size_t i = 0; !rc && i < lost.n; i++) {
        rc = log_begin_epoch(log, lost.all[i]->log, because, why);
        lost.all[i]->progress->tree.has_new_epoch = true;
    }
    if (!rc && lost.n > 0 && lost.is_restored)
        rc = log_begin_epoch(log, registry->framework->log, because, why);
    if (!rc && lost.is_restored && unlink(mark.text))
        rc = problem_errno(why, "cannot remove", mark.text);
    free(lost.all);
    return rc;
}

static bool
look_for_signed(struct set *set, const struct head *head, void *user)
{
    struct set **signed_one = user;

    if (checkpoint_filed(set, head) > 0)
        *signed_one = set;
    return !*signed_one;
}

enum status
epochs_check_key(struct registry *registry, struct problem *why)
{
    struct set *one = NULL;

    if (!access(
            file_path("%s/" CHECKPOINT_KEYS_FILE, registry->config->data).text,
            F_OK))
        return STATUS_OK;
    registry_each(registry, look_for_signed, &one);
    return one ? problem(why, STATUS_INVALID,
                         CHECKPOINT_KEYS_FILE
                         " is not there, and its key has signed checkpoints "
                         "of %s: bring the file back from a copy; if it is "
                         "lost, tidingsd key rotate --only --data %s makes "
                         "another key, which readers have to be given",
                         one->name, registry->config->data)
               : STATUS_OK;
}
