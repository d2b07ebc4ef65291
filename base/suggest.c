#include "base/suggest.h"

#include <stdint.h>

static size_t
least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Row by row: rows[i][j] is the distance of the first i letters of `a` from the
 * first j of `b`; three rows are enough, because a swap looks two back. */
size_t
suggest_distance(struct slice a, struct slice b)
{
    size_t rows[3][SUGGEST_SIZE_MAX + 1];

    if (a.size > SUGGEST_SIZE_MAX || b.size > SUGGEST_SIZE_MAX)
        return SIZE_MAX;
    for (size_t j = 0; j <= b.size; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a.size; i++) {
        size_t *now = rows[i % 3];
        const size_t *before = rows[(i + 2) % 3], *two = rows[(i + 1) % 3];

        now[0] = i;
        for (size_t j = 1; j <= b.size; j++) {
            bool is_same = a.data[i - 1] == b.data[j - 1];

            now[j] = least(before[j], now[j - 1]) + 1;
            now[j] = least(now[j], before[j - 1] + !is_same);
            if (i > 1 && j > 1 && a.data[i - 1] == b.data[j - 2] &&
                a.data[i - 2] == b.data[j - 1])
                now[j] = least(now[j], two[j - 2] + 1);
        }
    }
    return rows[a.size % 3][b.size];
}

void
suggest_begin(struct suggestion *s, struct slice word)
{
    s->word = word;
    s->nearest = NULL;
    s->distance = word.size < 6 ? 1 : word.size / 3;
}

void
suggest_consider(struct suggestion *s, const char *known)
{
    size_t distance = suggest_distance(s->word, slice_of(known));

    if (distance > s->distance || (distance == s->distance && s->nearest))
        return;
    s->nearest = known;
    s->distance = distance;
}
