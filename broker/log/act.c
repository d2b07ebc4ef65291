#include "broker/log/act.h"

#include "base/array.h"
#include "broker/log/batch.h"
#include "broker/log/log_set.h"

/* An ordered list has the number of its order. */
static bool
generation_follows(const struct generation *build, const struct head *head)
{
    const struct generations *of_kind = &head->generations[build->kind];
    bool is_ordered = !generation_is_order(build) && build->number > 0 &&
                      build->number == of_kind->ordered.number;

    return (is_ordered || build->number > of_kind->last) &&
           build->seq <= head->last;
}

bool
act_follows(const struct act *act, const struct head *head)
{
    const struct list_info *info = &act->list_end.info;
    const struct batch *b = act->entries.batch;

    if (act->kind == ACT_BIRTH)
        return !head->exists && !head->is_removed && act->birth.start_list > 0;
    if (!head->exists)
        return false;
    switch (act->kind) {
    case ACT_BATCH:
        return b->first == head->last + 1 && b->last >= b->first &&
               b->before_us == head->last_us && b->last_us > b->before_us &&
               digest_is_equal(&b->before, &head->digest) &&
               b->list == head->list;
    case ACT_LIST_END:
        return !head_list_is_empty(head) && info->number == head->list &&
               info->last == head->last &&
               digest_is_equal(&info->digest, &head->digest);
    case ACT_RETIREMENT:
        return act->retirement.first == head->first_list &&
               act->retirement.last >= head->first_list &&
               act->retirement.last < head->list &&
               act->retirement.earliest <= head->last;
    case ACT_GENERATION:
        return generation_follows(&act->generation.build, head);
    case ACT_UNARCHIVED:
        return act->unarchived.n <=
               head->generations[act->unarchived.kind].n_archived;
    case ACT_CONTENT:
        return act->content.seq <= head->last;
    case ACT_EPOCH:
        return head_list_is_empty(head) && act->epoch.after == head->last;
    default:
        return true;
    }
}

void
act_move(const struct act *act, int64_t at_us, struct head *head)
{
    const struct batch *b = act->entries.batch;
    const struct generation *build = &act->generation.build;
    struct generations *of_kind;

    switch (act->kind) {
    case ACT_BIRTH:
        head_start(head, act->birth.epoch, act->birth.created_us);
        head_number_lists(head, act->birth.start_list);
        break;
    case ACT_BATCH:
        if (head_list_is_empty(head))
            head->list_first_us = at_us; /* its age counts from here */
        head->last = b->last;
        head->last_us = b->last_us;
        head->digest = b->digest;
        head->list_bytes = b->list_bytes;
        head->commit_after = act->entries.commit_after;
        break;
    case ACT_LIST_END:
        head_end_list(head);
        break;
    case ACT_SETTINGS:
        head->changed_us = act->settings.changed_us;
        break;
    case ACT_RETIREMENT:
        head->first_list = act->retirement.last + 1;
        head->earliest = act->retirement.earliest;
        head->file_bytes = act->retirement.file_bytes;
        break;
    case ACT_REMOVAL:
        head->exists = false;
        head->is_removed = true;
        head->changed_us = act->removal.removed_us;
        break;
    case ACT_GENERATION:
        of_kind = &head->generations[build->kind];
        of_kind->last = build->number;
        if (generation_is_order(build)) {
            of_kind->ordered = *build;
            break;
        }
        of_kind->current = *build;
        of_kind->ordered = (struct generation){.number = 0};
        of_kind->n_archived = act->generation.n_archived;
        of_kind->first_archived = act->generation.first_archived;
        break;
    case ACT_UNARCHIVED:
        of_kind = &head->generations[act->unarchived.kind];
        of_kind->n_archived = act->unarchived.n_archived;
        of_kind->first_archived = act->unarchived.first_archived;
        break;
    case ACT_EPOCH:
        head_change_epoch(head, act->epoch.name, act->epoch.builds);
        break;
    case ACT_FILED:
        head->file_bytes = act->filed.file_bytes;
        head->filed = act->filed.list;
        break;
    case ACT_KEY: /* no head has them */
    case ACT_HARVEST:
    case ACT_CONTENT:
    case ACT_TAKEN:
    case ACT_PURGED:
    case ACT_SWEPT:
    case ACT_GUARD:
    case ACT_KINDS:
        break;
    }
}

static void
free_header(const struct act *act)
{
    if (act->kind == ACT_LIST_END)
        free((char *)(uintptr_t)act->list_end.header.data);
}

enum status
acts_add(struct acts *acts, struct log_set *set, const struct act *act)
{
    struct act *added;

    if (!ONE_MORE(acts->all, &acts->capacity, acts->n)) {
        free_header(act);
        return STATUS_MEMORY;
    }
    added = &acts->all[acts->n++];
    *added = *act;
    if (set) {
        added->set = set;
        added->set_id = set->id;
        added->name = set->name;
    }
    if (added->kind == ACT_KEY) {
        added->previous_key = acts->last_key;
        acts->last_key = acts->n;
    }
    acts->n_of[added->kind]++;
    return STATUS_OK;
}

/* One after the other: a round has fewer keys than ROUND_BYTES /
 * IDEMPOTENCY_COMMIT_BYTES, some 400, though it can have many thousand acts. */
const struct act_key *
acts_find_key(const struct acts *acts, const struct digest *id)
{
    for (size_t i = acts->last_key; i > 0; i = acts->all[i - 1].previous_key) {
        const struct act_key *key = &acts->all[i - 1].key;

        if (digest_is_equal(&key->id, id))
            return key;
    }
    return NULL;
}

void
acts_clear(struct acts *acts)
{
    for (size_t i = 0; i < acts->n; i++)
        free_header(&acts->all[i]);
    acts->n = acts->last_key = 0;
    memset(acts->n_of, 0, sizeof(acts->n_of));
}

void
acts_fini(struct acts *acts)
{
    acts_clear(acts);
    free(acts->all);
}
