#include "base/suggest.h"

#include <ctype.h>

/* The letters of a word that count, in lower case. */
struct letters {
    char data[SUGGEST_SIZE_MAX];
    size_t n;
};

/* False if there are too many. */
static bool
take_letters(struct letters *letters, struct slice word)
{
    letters->n = 0;
    for (size_t i = 0; i < word.size; i++) {
        unsigned char c = (unsigned char)word.data[i];

        if (c == '-' || c == '_')
            continue;
        if (letters->n == SUGGEST_SIZE_MAX)
            return false;
        letters->data[letters->n++] = (char)tolower(c);
    }
    return true;
}

static size_t
smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Row by row: rows[i][j] is the distance of the first i letters of `a` from the
 * first j of `b`; three rows are enough, because a swap looks two back. */
size_t
suggest_distance(struct slice one, struct slice other)
{
    size_t rows[3][SUGGEST_SIZE_MAX + 1];
    struct letters a, b;

    if (!take_letters(&a, one) || !take_letters(&b, other))
        return SIZE_MAX;
    for (size_t j = 0; j <= b.n; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a.n; i++) {
        size_t *now = rows[i % 3];
        const size_t *before = rows[(i + 2) % 3], *two = rows[(i + 1) % 3];

        now[0] = i;
        for (size_t j = 1; j <= b.n; j++) {
            bool is_same = a.data[i - 1] == b.data[j - 1];

            now[j] = smaller(before[j], now[j - 1]) + 1;
            now[j] = smaller(now[j], before[j - 1] + !is_same);
            if (i > 1 && j > 1 && a.data[i - 1] == b.data[j - 2] &&
                a.data[i - 2] == b.data[j - 1])
                now[j] = smaller(now[j], two[j - 2] + 1);
        }
    }
    return rows[a.n % 3][b.n];
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
