/*
 * list.h - doubly linked lists whose links live inside the structs they join.
 *
 * A list is a ring around a node of its own; a node that is in no list points
 * at itself, so that list_remove is always allowed.
 */
#pragma once

#include "proto/c.h"

struct list {
    struct list *prev, *next;
};

/* The struct of type `type` whose member `member` is `node`. */
#define list_entry(node, type, member) \
    ((type *)(void *)((char *)(node)-offsetof(type, member)))

static inline void
list_init(struct list *l)
{
    l->prev = l->next = l;
}

static inline bool
list_is_empty(const struct list *l)
{
    return l->next == l;
}

static inline void
list_append(struct list *l, struct list *node)
{
    node->prev = l->prev;
    node->next = l;
    l->prev->next = node;
    l->prev = node;
}

static inline void
list_prepend(struct list *l, struct list *node)
{
    list_append(l->next, node);
}

static inline void
list_remove(struct list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    list_init(node);
}

/* The first node, or NULL. */
static inline struct list *
list_first(const struct list *l)
{
    return l->next == l ? NULL : l->next;
}

/* Moves `node`, from whatever list it is in, to the end of `l`. */
static inline void
list_put(struct list *l, struct list *node)
{
    list_remove(node);
    list_append(l, node);
}

/* The struct that has the first node at `offset`, or NULL. */
static inline void *
list_front(const struct list *l, size_t offset)
{
    return list_is_empty(l) ? NULL : (char *)l->next - offset;
}

/* The same, removed from the list. */
static inline void *
list_take(struct list *l, size_t offset)
{
    void *first = list_front(l, offset);

    if (first)
        list_remove(l->next);
    return first;
}

/* Moves all nodes of `from` to the end of `to`. */
static inline void
list_move(struct list *to, struct list *from)
{
    if (list_is_empty(from))
        return;
    from->next->prev = to->prev;
    from->prev->next = to;
    to->prev->next = from->next;
    to->prev = from->prev;
    list_init(from);
}

/* Walks the structs of `l` whose member `member` is the node; the present one
 * may be removed or freed, others may not. `item` is a name. */
#define list_walk(item, l, member)                                       \
    for (struct list *item##_next = (l)->next;                           \
         item##_next != (l) &&                                           \
         ((item) = list_entry(item##_next, __typeof__(*(item)), member), \
         item##_next = item##_next->next, true);)

/* Meets the first struct again and again, until the body has removed all. */
#define list_until_empty(item, l, member) \
    while (((item) = list_front((l), offsetof(__typeof__(*(item)), member))))

/* Takes one struct after the other off the front of `l`, until it is empty; the
 * body may change the list in any way. */
#define list_drain(item, l, member) \
    while (((item) = list_take((l), offsetof(__typeof__(*(item)), member))))
