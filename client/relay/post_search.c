#include "client/relay/post_search.h"

#include <stdlib.h>

#include "client/relay/relay_entry.h"

/* As in Knuth, Morris and Pratt: several entries may begin alike. */
struct post_search {
    const char **entries;
    size_t *sizes;
    size_t *back; /* [i]: length of the longest start that also ends at i */
    size_t n;
    size_t n_found; /* entries of the post that the target ends with */
};

static bool
is_entry(const struct post_search *s, size_t i, const char *text, size_t size)
{
    return relay_is_same(s->entries[i], s->sizes[i], text, size);
}

static void
look_for_beginnings(struct post_search *s)
{
    size_t k = 0;

    for (size_t i = 1; i < s->n; i++) {
        while (k > 0 && !is_entry(s, k, s->entries[i], s->sizes[i]))
            k = s->back[k - 1];
        k += is_entry(s, k, s->entries[i], s->sizes[i]);
        s->back[i] = k;
    }
}

struct post_search *
post_search_new(const struct relay_post *post)
{
    struct post_search *s = calloc(1, sizeof(*s));
    const char *rest = post->body;
    size_t left = post->size;

    if (!s)
        return NULL;
    s->entries = calloc(post->n + 1, sizeof(s->entries[0]));
    s->sizes = calloc(post->n + 1, sizeof(s->sizes[0]));
    s->back = calloc(post->n + 1, sizeof(s->back[0]));
    if (s->entries && s->sizes && s->back)
        while (s->n < post->n &&
               relay_next(&rest, &left, &s->entries[s->n], &s->sizes[s->n]))
            s->n++;
    if (s->n == 0) {
        post_search_free(s);
        return NULL;
    }
    look_for_beginnings(s);
    return s;
}

void
post_search_free(struct post_search *s)
{
    if (!s)
        return;
    free(s->entries);
    free(s->sizes);
    free(s->back);
    free(s);
}

bool
post_search_next(struct post_search *s, const char *text, size_t size)
{
    while (s->n_found > 0 && (!text || !is_entry(s, s->n_found, text, size)))
        s->n_found = s->back[s->n_found - 1];
    if (text && is_entry(s, s->n_found, text, size))
        s->n_found++;
    return s->n_found == s->n;
}
