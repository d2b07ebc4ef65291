#include "broker/log/act.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "broker/log/log_set.h"

static void
free_header(const struct act *act)
{
    if (act->kind == ACT_LIST_END)
        free((char *)(uintptr_t)act->list_end.header.data);
}

enum status
acts_add(struct acts *acts, struct log_set *set, const struct act *act)
{
    struct act *all = ONE_MORE(acts->all, &acts->capacity, acts->n);
    struct act *added;

    if (!all) {
        free_header(act);
        return STATUS_MEMORY;
    }
    acts->all = all;
    added = &all[acts->n++];
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

        if (!memcmp(key->id.bytes, id->bytes, DIGEST_SIZE))
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
