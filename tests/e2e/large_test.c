/*
 * large_test.c - posts as large as they may be.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/document.h"
#include "proto/vocab.h"
#include "tests/support/follower.h"
#include "tests/support/lists.h"
#include "tests/support/refusal.h"
#include "tests/support/sanitized.h"
#include "tests/support/source.h"
#include "tests/test.h"

#define BURST 60000

/* --max-body as it comes. */
#define BODY_MAX ((size_t)50 << 20)

/* Of an entry whose size is not a matter of the number of entries. */
#define ENTRY_SIZE 20000

/* What a post of BODY_MAX may hold: its fragments, as many bytes about, and
 * what is made of them: batches, what the tail keeps of them (64 MB), what the
 * database has in its hands. */
#define PEAK_KIB (5 * BODY_MAX / 1024)

/* A burst of many entries */

static void
add_line(struct buf *to, unsigned number)
{
    buf_add_format(to,
                   "{\"loc\":\"http://example.com/r/%u\","
                   "\"change\":\"created\"}\n",
                   number);
}

/* Pages of the change memory: each within the limits. Returns the last seq. */
static uint64_t
read_pages(struct http *h, uint64_t after)
{
    struct notice n;
    size_t got;

    do {
        char path[80];

        snprintf(path, sizeof(path),
                 "/sets/" LISTS_SET "/changes?after=%" PRIu64, after);
        assert_int_equal(http_get(h, path), 200);
        assert_in_range(h->body.size, 1, (1 << 20) + DOCUMENT_FRAME_MAX);
        notice_read(&n, NOTICE_JSON, buf_slice(&h->body));
        notice_check(&n);
        assert_int_equal(n.after, after);
        assert_in_range(n.n, 0, DOCUMENT_ENTRIES_MAX);
        got = n.n;
        after = n.last;
        notice_free(&n);
    } while (got > 0);
    return after;
}

FIXTURE(lists_setup, lists_teardown);

/* lists split where they are full, in the middle of
 * a post; messages by entries and bytes; all of it in one answer. */
TEST(a_burst_of_sixty_thousand_is_split)
{
    struct lists *l = *state;
    struct follower f[2];
    struct receipt r;
    struct buf body;

    LISTS_OPEN(l, "--heartbeat", "3600");
    buf_init(&body, BODY_MAX);
    source_post(&l->http, LISTS_SET, 1, 1, 0);
    for (size_t i = 0; i < 2; i++) {
        follower_open(&f[i], l->broker.port,
                      "/sets/" LISTS_SET "/stream?after=0",
                      i ? "resourcesync.xml" : "resourcesync.json");
        follower_until(&f[i], 1);
    }

    r = source_post(&l->http, LISTS_SET, 2, BURST, 0);
    assert_int_equal(r.first, 2);
    assert_int_equal(r.last, 1 + BURST);
    for (unsigned i = 0; i < BURST; i++)
        add_line(&body, 2 + BURST + i);
    assert_int_equal(source_send(&l->http, LISTS_SET, "application/x-ndjson",
                                 buf_slice(&body), &r),
                     200);
    assert_int_equal(r.last, 1 + 2 * BURST);

    for (size_t i = 0; i < 2; i++) {
        do {
            follower_next(&f[i]);
            assert_in_range(f[i].notice.n, 1, DOCUMENT_ENTRIES_MAX);
            assert_in_range(f[i].text.size, 1, 1 << 20);
        } while (f[i].notice.last < r.last);
        assert_int_equal(f[i].notice.last, r.last);
        follower_close(&f[i]);
    }
    assert_int_equal(read_pages(&l->http, 0), r.last);

    walk_all(&l->walk);
    assert_int_equal(l->walk.n_lists, 3);
    assert_int_equal(l->walk.lists[0].last, DOCUMENT_ENTRIES_MAX);
    assert_int_equal(l->walk.lists[1].last, 2 * DOCUMENT_ENTRIES_MAX);
    assert_int_equal(l->walk.trace.last, r.last);
    for (uint64_t seq = 1; seq <= r.last; seq++) {
        char loc[64];

        snprintf(loc, sizeof(loc), "http://example.com/r/%" PRIu64, seq);
        assert_string_equal(trace_at(&l->walk.trace, seq)->loc, loc);
    }
    buf_fini(&body);
}

/* Bodies of many bytes */

struct form {
    const char *type, *start, *before, *after, *between, *end;
};

static const struct form forms[] = {
    {"application/xml",
     "<urlset xmlns=\"" NS_SITEMAP "\" xmlns:rs=\"" NS_RS "\" "
     "xmlns:x=\"urn:x\"><rs:md capability=\"changelist\"/>",
     "<url><loc>http://example.com/", "</loc><rs:md change=\"created\" x:f=\"",
     "", "</urlset>"},
    {"application/json", "[", "{\"loc\":\"http://example.com/",
     "\",\"change\":\"created\",\"attributes\":[{\"ns\":\"urn:x\","
     "\"name\":\"f\",\"value\":\"",
     ",", "]"},
    {"application/x-ndjson", "", "{\"loc\":\"http://example.com/",
     "\",\"change\":\"created\",\"attributes\":[{\"ns\":\"urn:x\","
     "\"name\":\"f\",\"value\":\"",
     "\n", "\n"},
};

/* A post of exactly `size` bytes. */
static void
fill(struct buf *to, const struct form *f, size_t size)
{
    const char *close = f == forms ? "\"/></url>" : "\"}]}";

    buf_clear(to);
    buf_add_text(to, f->start);
    for (unsigned n = 0; to->size + ENTRY_SIZE + 1000 < size; n++) {
        char *filling;

        buf_add_text(to, n ? f->between : "");
        buf_add_format(to, "%s%u%s", f->before, n, f->after);
        filling = buf_room(to, ENTRY_SIZE);
        assert_non_null(filling);
        memset(filling, 'x', ENTRY_SIZE);
        to->size += ENTRY_SIZE;
        buf_add_text(to, close);
    }
    while (to->size + strlen(f->end) < size)
        buf_add_text(to, " ");
    buf_add_text(to, f->end);
    assert_false(to->failed);
    assert_int_equal(to->size, size);
}

/* The most memory that the broker ever had, in KiB. */
static size_t
peak_kib(const struct broker *b)
{
    char path[64], line[256];
    size_t kib = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/status", (int)b->pid);
    file = fopen(path, "re");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file))
        if (strncmp(line, "VmHWM:", 6) == 0)
            kib = strtoul(line + 6, NULL, 10);
    fclose(file);
    assert_true(kib > 0);
    return kib;
}

/* A body as large as allowed, in every format; one byte more
 * is refused whole; memory is bounded. R-027 */
TEST(bodies_of_fifty_megabytes_are_taken)
{
    struct lists *l = *state;
    uint64_t last = 0;
    struct buf body;

    LISTS_OPEN(l, "--heartbeat", "3600");
    buf_init(&body, 2 * BODY_MAX);
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        struct receipt r;

        fill(&body, &forms[i], BODY_MAX);
        assert_int_equal(source_send(&l->http, LISTS_SET, forms[i].type,
                                     buf_slice(&body), &r),
                         200);
        assert_int_equal(r.first, last + 1);
        assert_in_range(r.last, last + 2000, last + 3000);
        last = r.last;

        fill(&body, &forms[i], BODY_MAX + 1);
        source_send(&l->http, LISTS_SET, forms[i].type, buf_slice(&body), NULL);
        assert_refused(&l->http, 413, "52428800");
    }
    print_message("the broker had %zu KiB at most\n", peak_kib(&l->broker));
    if (!IS_SANITIZED)
        assert_in_range(peak_kib(&l->broker), 1, PEAK_KIB);
    buf_fini(&body);
    walk_all(&l->walk);
    assert_int_equal(l->walk.trace.last, last);
}
