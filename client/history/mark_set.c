#include "client/history/mark_set.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

struct mark_slot {
    uint64_t mark; /* 0: free */
    uint32_t n, n_taken;
};

/* An odd number without a pattern: 2^64 divided by the golden ratio. */
#define FACTOR 0x9e3779b97f4a7c15

static uint64_t
add_number(uint64_t hash, uint64_t number)
{
    hash = (hash ^ number) * FACTOR;
    return hash ^ hash >> 29;
}

/* Eight bytes at a time: a long list is hashed at each look. */
static uint64_t
add_text(uint64_t hash, struct slice text)
{
    size_t size = text.size;
    const char *at = text.data;
    uint64_t word = 0;

    for (; size >= sizeof(word); size -= sizeof(word), at += sizeof(word)) {
        memcpy(&word, at, sizeof(word));
        hash = add_number(hash, le64toh(word));
    }
    word = 0;
    if (size)
        memcpy(&word, at, size);
    hash = add_number(hash, le64toh(word));
    return add_number(hash, text.size);
}

uint64_t
mark_of(const struct document_entry *e)
{
    const struct change *c = &e->change;
    uint64_t hash = (uint64_t)c->kind + 1;

    hash = add_text(hash, c->loc);
    hash = add_text(hash, c->hash);
    hash = add_number(hash, c->length);
    hash = add_number(hash, (uint64_t)c->datetime_us);
    hash = add_number(hash, (uint64_t)c->lastmod_us);
    return hash ? hash : 1;
}

uint64_t
marks_sum(const uint64_t *marks, size_t n)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += marks[i];
    return sum;
}

/* Returns the slot of a mark, or the free one where it belongs. */
static struct mark_slot *
slot_of(const struct mark_set *set, uint64_t mark)
{
    size_t i = mark & (set->n_slots - 1);

    while (set->slots[i].mark && set->slots[i].mark != mark)
        i = (i + 1) & (set->n_slots - 1);
    return &set->slots[i];
}

bool
mark_set_init(struct mark_set *set, const uint64_t *marks, size_t n)
{
    *set = (struct mark_set){.n_slots = 2};
    while (set->n_slots < 2 * n)
        set->n_slots *= 2;
    set->slots = calloc(set->n_slots, sizeof(*set->slots));
    for (size_t i = 0; set->slots && i < n; i++) {
        struct mark_slot *slot = slot_of(set, marks[i]);

        slot->mark = marks[i];
        slot->n++;
    }
    return set->slots != NULL;
}

void
mark_set_fini(struct mark_set *set)
{
    free(set->slots);
    *set = (struct mark_set){.slots = NULL};
}

bool
mark_set_take(struct mark_set *set, uint64_t mark)
{
    struct mark_slot *slot = set->slots ? slot_of(set, mark) : NULL;

    return slot && slot->mark && slot->n_taken++ < slot->n;
}

void
mark_set_put_back(struct mark_set *set, uint64_t mark)
{
    struct mark_slot *slot = set->slots ? slot_of(set, mark) : NULL;

    if (slot && slot->n_taken)
        slot->n_taken--;
}

bool
mark_set_has(const struct mark_set *set, uint64_t mark)
{
    return set->slots && slot_of(set, mark)->mark;
}
