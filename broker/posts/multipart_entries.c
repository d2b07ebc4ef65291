#include "broker/posts/multipart_entries.h"

#include <stdlib.h>
#include <string.h>

void
multipart_entries_init(struct multipart_entries *list, size_t max)
{
    memset(list, 0, sizeof(*list));
    arena_init(&list->arena, max);
}

void
multipart_entries_fini(struct multipart_entries *list)
{
    for (size_t i = 0; i < list->n; i++)
        arriving_abandon(&list->all[i].arriving);
    arena_fini(&list->arena);
    free(list->by_loc);
    free(list->all);
}

size_t
multipart_entries_held(const struct multipart_entries *list)
{
    return list->arena.used +
           list->capacity * (sizeof(*list->all) + sizeof(*list->by_loc));
}

static bool
copy_text(struct arena *arena, struct slice text, struct slice *to)
{
    char *p = text.size > 0 ? arena_take(arena, text.size) : NULL;

    *to = (struct slice){p, text.size};
    if (p)
        memcpy(p, text.data, text.size);
    return p || text.size == 0;
}

enum status
multipart_entries_add(struct multipart_entries *list,
                      const struct change *change, uint64_t entry,
                      struct problem *why)
{
    struct multipart_entry *e;

    if (list->n == list->capacity) {
        size_t n = list->capacity ? list->capacity * 2 : 16;
        struct multipart_entry *all = realloc(list->all, n * sizeof(*all));

        if (!all)
            return problem_memory(why);
        list->all = all;
        list->capacity = n;
    }
    e = &list->all[list->n];
    memset(e, 0, sizeof(*e));
    e->entry = entry;
    e->length = change->length;
    if (!copy_text(&list->arena, change->loc, &e->loc) ||
        !copy_text(&list->arena, change->hash, &e->hash))
        return problem_memory(why);
    list->n++;
    return STATUS_OK;
}

static int
compare_locs(struct slice a, struct slice b)
{
    int order = memcmp(a.data, b.data, a.size < b.size ? a.size : b.size);

    return order ? order : (a.size > b.size) - (a.size < b.size);
}

static int
compare_entries(const void *p, const void *q)
{
    const struct multipart_entry *a = *(struct multipart_entry *const *)p;
    const struct multipart_entry *b = *(struct multipart_entry *const *)q;
    int order = compare_locs(a->loc, b->loc);

    return order ? order : (a->entry > b->entry) - (a->entry < b->entry);
}

enum status
multipart_entries_index(struct multipart_entries *list, struct problem *why)
{
    if (list->n == 0)
        return STATUS_OK;
    list->by_loc = calloc(list->n, sizeof(struct multipart_entry *));
    if (!list->by_loc)
        return problem_memory(why);
    for (size_t i = 0; i < list->n; i++)
        list->by_loc[i] = &list->all[i];
    qsort(list->by_loc, list->n, sizeof(struct multipart_entry *),
          compare_entries);
    return STATUS_OK;
}

struct multipart_entry *
multipart_entries_take(struct multipart_entries *list, struct slice loc)
{
    size_t from = 0, to = list->n, at;

    while (from < to) {
        size_t middle = from + (to - from) / 2;

        if (compare_locs(list->by_loc[middle]->loc, loc) < 0)
            from = middle + 1;
        else
            to = middle;
    }
    if (from == list->n || !slice_equal(list->by_loc[from]->loc, loc))
        return NULL;
    at = from + list->by_loc[from]->n_parts++;
    if (at >= list->n || !slice_equal(list->by_loc[at]->loc, loc))
        return NULL;
    return list->by_loc[at];
}

enum status
multipart_entries_set_type(struct multipart_entries *list,
                           struct multipart_entry *e, struct slice type,
                           struct problem *why)
{
    return copy_text(&list->arena, type, &e->type) ? STATUS_OK
                                                   : problem_memory(why);
}
