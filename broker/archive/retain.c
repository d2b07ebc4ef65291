#include "broker/archive/retain.h"

#include "broker/base/clock.h"
#include "broker/base/diag.h"

/* Lists in one commit: it writes one row whatever their number, but their files
 * have to be looked at. The next ones come in the next round. */
#define STEP_LISTS 256

/* How many of the oldest lists are too many. */
static uint64_t
over_number(struct set *set, const struct head *head)
{
    uint64_t retain =
        atomic_load_explicit(&set->retain_lists, memory_order_relaxed);
    uint64_t closed = head->list - head->first_list;

    return retain > 0 && closed > retain ? closed - retain : 0;
}

/* Lists that ended before it are too old; INT64_MIN: none is. */
static int64_t
too_old_us(struct set *set)
{
    int64_t age_us =
        atomic_load_explicit(&set->retain_age_us, memory_order_relaxed);

    return age_us > 0 ? clock_now_us() - age_us : INT64_MIN;
}

/* Could there be a list that is too old? Not while the oldest one is known not
 * to be. */
static bool
may_be_old(const struct set *set, const struct head *head, int64_t before_us)
{
    return before_us != INT64_MIN && head->list > head->first_list &&
           (set->oldest_list != head->first_list ||
            set->oldest_until_us < before_us);
}

static enum status
retire(struct set *set, const struct head *head, uint64_t over,
       int64_t before_us, struct problem *why)
{
    struct log *log = registry_log(set->registry);
    struct list_info lists[STEP_LISTS];
    size_t n = STEP_LISTS, going = 0;
    enum status rc = log_lists(log, set->log, head->first_list, lists, &n, why);

    if (rc || n == 0)
        return rc;
    set->oldest_list = lists[0].number;
    set->oldest_until_us = lists[0].until_us;
    while (going < n && lists[going].is_filed &&
           (going < over || lists[going].until_us < before_us))
        going++;
    if (going == 0)
        return STATUS_OK;
    return log_retire(log, set->log, lists, going,
                      registry_config(set->registry)->remove_grace_us, why);
}

static bool
retain_set(struct set *set, const struct head *head, void *user)
{
    struct problem why = {""};
    uint64_t over = over_number(set, head);
    int64_t before_us = too_old_us(set);
    enum status rc;

    (void)user;
    if (over == 0 && !may_be_old(set, head, before_us))
        return true;
    rc = retire(set, head, over, before_us, &why);
    if (rc && rc != STATUS_STOPPED && rc != STATUS_GONE)
        diag(DIAG_WARNING, "archive",
             "%s: old lists stay, and will be tried again: %s", set->name,
             why.text);
    return rc != STATUS_STOPPED;
}

void
retain_all(struct registry *registry)
{
    struct set *framework = registry_framework_set(registry);
    struct head head;

    registry_each(registry, retain_set, NULL);
    if (log_head(framework->log, &head))
        retain_set(framework, &head, NULL);
}
