#include "broker/hub/id_table.h"

#include "proto/memory.h"

/* Returns the first slot whose id is not less. */
static size_t
slot_from(const struct id_table *ids, uint64_t id)
{
    size_t from = 0, to = ids->n_slots;

    while (from < to) {
        size_t middle = from + (to - from) / 2;

        if (ids->slots[middle].id < id)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

enum status
id_table_add(struct id_table *ids, uint64_t id, void *thing)
{
    if (ids->n_slots == ids->capacity) {
        size_t capacity = ids->capacity ? 2 * ids->capacity : 4;
        struct id_slot *slots =
            memory_grow(ids->slots, capacity, sizeof(*ids->slots));

        if (!slots)
            return STATUS_MEMORY;
        ids->slots = slots;
        ids->capacity = capacity;
    }
    ids->slots[ids->n_slots++] = (struct id_slot){id, thing};
    ids->n++;
    return STATUS_OK;
}

void
id_table_remove(struct id_table *ids, uint64_t id)
{
    size_t i = slot_from(ids, id), n = 0;

    if (i == ids->n_slots || ids->slots[i].id != id || !ids->slots[i].thing)
        return;
    ids->slots[i].thing = NULL;
    ids->n--;
    if (ids->n >= ids->n_slots / 2)
        return;
    for (i = 0; i < ids->n_slots; i++) /* closes up */
        if (ids->slots[i].thing)
            ids->slots[n++] = ids->slots[i];
    ids->n_slots = n;
}

void *
id_table_find(const struct id_table *ids, uint64_t id)
{
    size_t i = slot_from(ids, id);

    return i < ids->n_slots && ids->slots[i].id == id ? ids->slots[i].thing
                                                      : NULL;
}

void *
id_table_next(struct id_table *ids, uint64_t after)
{
    size_t i = ids->place;

    if (after == UINT64_MAX)
        return NULL;
    /* A walk goes on at the first slot with a greater number. */
    if (i > ids->n_slots || (i > 0 && ids->slots[i - 1].id > after) ||
        (i < ids->n_slots && ids->slots[i].id <= after))
        i = slot_from(ids, after + 1);
    while (i < ids->n_slots && !ids->slots[i].thing)
        i++;
    ids->place = i + 1;
    return i < ids->n_slots ? ids->slots[i].thing : NULL;
}

void
id_table_fini(struct id_table *ids)
{
    free(ids->slots);
    *ids = (struct id_table){.slots = NULL};
}
