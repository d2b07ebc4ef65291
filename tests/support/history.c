/*
 * history.c - a set's history, made up.
 */
#include "tests/support/history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/resourcesync/document_write.h"
#include "proto/resourcesync/fragment.h"
#include "proto/resourcesync/json.h"
#include "proto/resourcesync/position.h"
#include "tests/test.h"

#define START_US INT64_C(1767225600000000)

static int64_t
time_of(uint64_t seq)
{
    return START_US + (int64_t)seq * 1000000;
}

static void
describe(struct change *change, char *loc, size_t size, uint64_t seq)
{
    change_init(change);
    snprintf(loc, size, "http://example.com/r?n=%llu&x=1",
             (unsigned long long)seq);
    change->loc = slice_of(loc);
    change->kind = CHANGE_CREATED;
    change->datetime_us = time_of(seq);
    change->seq = seq;
}

void
history_init(struct history *h, const char *epoch)
{
    struct buf bytes;

    memset(h, 0, sizeof(*h));
    snprintf(h->epoch, sizeof(h->epoch), "%s", epoch);
    digest_sha256(&h->digests[0], slice_of(h->epoch));
    buf_init(&bytes, FRAGMENT_MAX);
    for (uint64_t seq = 1; seq <= HISTORY_MAX; seq++) {
        struct fragment f;
        struct change change;
        char loc[100];

        describe(&change, loc, sizeof(loc), seq);
        buf_clear(&bytes);
        assert_int_equal(fragment_write(&bytes, &change, &f, NULL), 0);
        h->fragments[seq] = malloc(f.size + FRAGMENT_STAMP_MAX);
        assert_non_null(h->fragments[seq]);
        h->sizes[seq] = fragment_stamp(h->fragments[seq], bytes.data, &f,
                                       time_of(seq), seq);
        h->digests[seq] = h->digests[seq - 1];
        digest_add(&h->digests[seq],
                   (struct slice){h->fragments[seq], h->sizes[seq]});
    }
    buf_fini(&bytes);
}

void
history_fini(struct history *h)
{
    for (size_t i = 0; i <= HISTORY_MAX; i++)
        free(h->fragments[i]);
    for (size_t i = 0; i < h->n_made; i++)
        free(h->made[i]);
}

static void
cover(const struct history *h, struct coverage *covers, uint64_t after,
      uint64_t last)
{
    memset(covers, 0, sizeof(*covers));
    strcpy(covers->set, "news");
    strcpy(covers->epoch, h->epoch);
    covers->after = after;
    covers->last = last;
    covers->from_us = time_of(after);
    covers->until_us = time_of(last);
    covers->has_digest = true;
    covers->digest = h->digests[last];
    covers->now_us = after == last ? time_of(last) + 5 : DATETIME_NONE;
    covers->heartbeat_us = after == last ? 20000000 : 0;
}

/* Terminated, for those who want a string. */
static struct slice
keep(struct history *h, struct buf *text)
{
    BUF_ADD(text, "\0");
    text->size--;
    assert_false(text->failed);
    assert_true(h->n_made < sizeof(h->made) / sizeof(h->made[0]));
    h->made[h->n_made++] = text->data;
    return buf_slice(text);
}

struct slice
history_json_every(struct history *h, uint64_t after, uint64_t last,
                   uint64_t every)
{
    struct coverage covers;
    bool is_first = true;
    struct buf text;

    cover(h, &covers, after, last);
    buf_init(&text, 1 << 20);
    json_message_begin(&text, &covers, SLICE(""));
    for (uint64_t seq = after + 1; seq <= last; seq++) {
        struct change change;
        char loc[100];

        if (seq % every)
            continue;
        describe(&change, loc, sizeof(loc), seq);
        if (!is_first)
            BUF_ADD(&text, ",");
        is_first = false;
        json_change(&text, &change);
    }
    BUF_ADD(&text, "]}\n");
    return keep(h, &text);
}

struct slice
history_json(struct history *h, uint64_t after, uint64_t last)
{
    return history_json_every(h, after, last, 1);
}

struct slice
history_xml_every(struct history *h, uint64_t after, uint64_t last,
                  uint64_t every)
{
    struct coverage covers;
    struct document_head head = {.root = DOCUMENT_URLSET,
                                 .capability = CAP_CHANGE_NOTIFICATION,
                                 .from_us = time_of(after),
                                 .until_us = time_of(last),
                                 .coverage = &covers};
    struct buf text;

    cover(h, &covers, after, last);
    buf_init(&text, 1 << 20);
    document_header(&text, &head);
    for (uint64_t seq = after + 1; seq <= last; seq++)
        if (seq % every == 0)
            buf_add(&text, h->fragments[seq], h->sizes[seq]);
    document_footer(&text, DOCUMENT_URLSET);
    return keep(h, &text);
}

struct slice
history_xml(struct history *h, uint64_t after, uint64_t last)
{
    return history_xml_every(h, after, last, 1);
}

char *
history_copy(struct history *h, struct slice message)
{
    struct buf text;

    buf_init(&text, 1 << 20);
    buf_add_slice(&text, message);
    return (char *)keep(h, &text).data;
}
