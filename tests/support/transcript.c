#include "tests/support/transcript.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX ((size_t)1 << 30)

/* Where the root's rs:md has ended. */
#define HEAD_MAX 2048

static const char entry_start[] = "<url>";
static const char entry_end[] = "</url>\n";
static const char document_end[] = "</urlset>\n";

void
transcript_init(struct transcript *l)
{
    memset(l, 0, sizeof(*l));
    buf_init(&l->text, TEXT_MAX);
}

void
transcript_fini(struct transcript *l)
{
    buf_fini(&l->text);
    free(l->ends);
}

/* The value of an attribute in the document's head, cut to `size`. */
static bool
attribute(char *to, size_t size, struct slice head, const char *name)
{
    const char *at = memmem(head.data, head.size, name, strlen(name));
    const char *end, *stop = head.data + head.size;

    if (!at)
        return false;
    at += strlen(name);
    end = at < stop ? memchr(at, '"', (size_t)(stop - at)) : NULL;
    if (!end || (size_t)(end - at) >= size)
        return false;
    memcpy(to, at, (size_t)(end - at));
    to[end - at] = '\0';
    return true;
}

static bool
number(uint64_t *to, struct slice head, const char *name)
{
    char text[24], *end;

    if (!attribute(text, sizeof(text), head, name))
        return false;
    *to = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end;
}

bool
transcript_read(struct transcript_head *to, struct slice message)
{
    size_t end_size = sizeof(document_end) - 1;
    struct slice head;
    const char *first;

    memset(to, 0, sizeof(*to));
    if (message.size < end_size ||
        memcmp(message.data + message.size - end_size, document_end, end_size))
        return false;
    first = memmem(message.data, message.size, entry_start,
                   sizeof(entry_start) - 1);
    if (!first)
        first = message.data + message.size - end_size;
    head = (struct slice){message.data, (size_t)(first - message.data)};
    if (head.size > HEAD_MAX ||
        !attribute(to->epoch, sizeof(to->epoch), head, " td:epoch=\"") ||
        !number(&to->after, head, " td:after=\"") ||
        !number(&to->last, head, " td:last=\""))
        return false;
    to->entries = (struct slice){first, message.size - head.size - end_size};
    return true;
}

/* Where entry `seq` ends; of the one before the first, 0. */
static size_t
end_of(const struct transcript *l, uint64_t seq)
{
    return seq == l->after ? 0 : l->ends[seq - l->after - 1];
}

/* Adds the next entry, off the front of `rest`. */
static bool
add_entry(struct transcript *l, struct slice *rest, struct problem *why)
{
    const char *end =
        memmem(rest->data, rest->size, entry_end, sizeof(entry_end) - 1);
    size_t n = (size_t)(l->last - l->after);
    struct slice entry;
    uint64_t seq;

    if (!end || !slice_starts(*rest, entry_start)) {
        problem_set(why, "there is no entry %" PRIu64, l->last + 1);
        return false;
    }
    entry = (struct slice){rest->data,
                           (size_t)(end - rest->data) + sizeof(entry_end) - 1};
    if (!number(&seq, entry, " td:seq=\"") || seq != l->last + 1) {
        problem_set(why, "in the place of entry %" PRIu64 " is %.*s",
                    l->last + 1, SLICE_ARG(entry));
        return false;
    }
    if (n == l->capacity) {
        l->capacity = n ? 2 * n : 1024;
        l->ends = realloc(l->ends, l->capacity * sizeof(*l->ends));
        if (!l->ends)
            abort();
    }
    buf_add_slice(&l->text, entry);
    l->ends[n] = l->text.size;
    l->last++;
    rest->data += entry.size;
    rest->size -= entry.size;
    return true;
}

bool
transcript_add(struct transcript *l, const struct transcript_head *head,
               struct problem *why)
{
    struct slice rest = head->entries;
    uint64_t known;

    if (!l->has_begun) {
        l->has_begun = true;
        l->after = l->last = head->after;
        memcpy(l->epoch, head->epoch, sizeof(l->epoch));
    }
    if (strcmp(l->epoch, head->epoch)) {
        problem_set(why, "the epoch %s became %s", l->epoch, head->epoch);
        return false;
    }
    if (head->after < l->after || head->after > l->last ||
        head->last < head->after) {
        problem_set(why,
                    "%" PRIu64 " to %" PRIu64 " does not follow %" PRIu64
                    " to %" PRIu64,
                    head->after, head->last, l->after, l->last);
        return false;
    }

    known = head->last < l->last ? head->last : l->last;
    if (known > head->after) {
        size_t begin = end_of(l, head->after);
        size_t size = end_of(l, known) - begin;

        if (rest.size < size || memcmp(rest.data, l->text.data + begin, size)) {
            problem_set(why,
                        "entries %" PRIu64 " to %" PRIu64
                        " are not what was told before",
                        head->after + 1, known);
            return false;
        }
        rest.data += size;
        rest.size -= size;
    }
    while (l->last < head->last)
        if (!add_entry(l, &rest, why))
            return false;
    if (rest.size > 0 || l->text.failed) {
        problem_set(why, "behind entry %" PRIu64 " there is more", head->last);
        return false;
    }
    return true;
}
