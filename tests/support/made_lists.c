/*
 * made_lists.c - Change Lists of a made-up history.
 */
#include "tests/support/made_lists.h"

#include <stdio.h>
#include <string.h>

#include "proto/resourcesync/document_write.h"
#include "proto/resourcesync/fragment.h"
#include "tests/test.h"

static int64_t
time_of(const struct history *h, uint64_t seq)
{
    struct fragment_view first;

    assert_int_equal(
        fragment_view((struct slice){h->fragments[1], h->sizes[1]}, &first), 0);
    return first.us + ((int64_t)seq - 1) * 1000000;
}

void
made_list(struct buf *to, const struct history *h, unsigned number,
          uint64_t after, uint64_t last, bool is_open)
{
    struct coverage covers = {
        .after = after,
        .last = last,
        .from_us = time_of(h, after),
        .until_us = is_open ? DATETIME_NONE : time_of(h, last),
        .has_digest = true,
        .digest = h->digests[last],
        .now_us = DATETIME_NONE,
    };
    char prev[100], next[100];
    struct document_link links[3] = {
        {"up", SLICE("http://example.com/sets/news/capabilitylist.xml"), NULL},
    };
    struct document_head head = {
        .root = DOCUMENT_URLSET,
        .capability = CAP_CHANGELIST,
        .links = links,
        .n_links = 1,
        .from_us = covers.from_us,
        .until_us = covers.until_us,
        .coverage = &covers,
    };

    strcpy(covers.epoch, h->epoch);
    snprintf(prev, sizeof(prev), "http://example.com/sets/news/%012u.xml",
             number - 1);
    snprintf(next, sizeof(next), "http://example.com/sets/news/%012u.xml",
             number + 1);
    if (after > 0)
        links[head.n_links++] =
            (struct document_link){"prev", slice_of(prev), &h->digests[after]};
    if (!is_open)
        links[head.n_links++] =
            (struct document_link){"next", slice_of(next), NULL};
    document_header(to, &head);
    for (uint64_t seq = after + 1; seq <= last; seq++)
        buf_add(to, h->fragments[seq], h->sizes[seq]);
    document_footer(to, DOCUMENT_URLSET);
    assert_false(to->failed);
}

/* Puts `by` where `size` bytes are from `at` on. */
static void
replace(struct buf *text, size_t at, size_t size, struct slice by)
{
    struct buf made;

    buf_init(&made, text->max);
    buf_add(&made, text->data, at);
    buf_add_slice(&made, by);
    buf_add(&made, text->data + at + size, text->size - at - size);
    assert_false(made.failed);
    buf_fini(text);
    *text = made;
}

static size_t
find(const struct buf *text, struct slice part)
{
    char *at = memmem(text->data, text->size, part.data, part.size);

    assert_non_null(at);
    return (size_t)(at - text->data);
}

void
made_edit(struct buf *text, const char *from, const char *by)
{
    replace(text, find(text, slice_of(from)), strlen(from), slice_of(by));
}

static struct slice
line_of(const struct history *h, uint64_t seq)
{
    return (struct slice){h->fragments[seq], h->sizes[seq]};
}

void
made_drop(struct buf *text, const struct history *h, uint64_t seq)
{
    struct slice line = line_of(h, seq);

    replace(text, find(text, line), line.size, SLICE(""));
}

void
made_double(struct buf *text, const struct history *h, uint64_t seq)
{
    struct slice line = line_of(h, seq);

    replace(text, find(text, line), 0, line);
}
