/*
 * disk_full_test.c - a disk that fills up, and is given room again.
 *
 * The disk is a small tmpfs in a mount namespace of the test's own; where that
 * is not permitted, the tests are skipped.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/jsonpath.h"
#include "tests/support/lists.h"
#include "tests/support/patience.h"
#include "tests/support/source.h"
#include "tests/support/stream.h"
#include "tests/test.h"

/* The broker keeps 110 MB (RESERVE_BYTES in broker/log/store.c), of which 64 MB
 * must be free on the disk; the rest may be free inside its database. */
#define DISK_OPTIONS "size=170m"
#define BALLAST_SIZE ((off_t)40 << 20)
#define TOO_LITTLE   ((off_t)60 << 20)

/* Posts before somebody else takes the space. */
#define POSTS_BEFORE 40

/* Entries of a post, and how large each is. */
#define POST_ENTRIES 50
#define ENTRY_SIZE   6000

/* A body whose fragments and stamps need several times as much. */
#define LARGE_BYTES 18000000

/* Entries of a list. No number of posts that the disk has room for fills lists
 * exactly: the last one is never empty. */
#define LIST_ENTRIES 401

/* More posts than the disk would have room for if nothing were forgotten. */
#define POSTS_MAX 600

static char mount_point[] = "/tmp/tidings-disk-XXXXXX";
static bool has_disk;

/* At the end of the process, after the brokers' logs were printed. */
static void
remove_disk(void)
{
    if (has_disk)
        umount2(mount_point, MNT_DETACH);
    rmdir(mount_point);
}

/* Before any broker: they and their directories belong on the disk. */
static int
make_disk(void **state)
{
    (void)state;
    if (!mkdtemp(mount_point))
        return -1;
    if (atexit(remove_disk))
        return -1;
    if (unshare(CLONE_NEWNS) ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("tidings-test", mount_point, "tmpfs", 0, DISK_OPTIONS)) {
        print_message("no small disk to be had, so nothing is tested here: "
                      "%s (it takes root, or CAP_SYS_ADMIN)\n",
                      strerror(errno));
        return 0;
    }
    has_disk = true;
    return setenv("TMPDIR", mount_point, 1);
}

/* What takes room on the disk */

static off_t
free_bytes(void)
{
    struct statvfs fs;

    assert_int_equal(statvfs(mount_point, &fs), 0);
    return (off_t)fs.f_bavail * (off_t)fs.f_frsize;
}

/* false: the disk is full before that. */
static bool
add_ballast(const char *name, off_t size)
{
    char path[100];
    int fd, rc;

    snprintf(path, sizeof(path), "%s/%s", mount_point, name);
    fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    rc = posix_fallocate(fd, 0, size);
    close(fd);
    return rc == 0;
}

/* Takes all that is free, and what becomes free or is taken meanwhile. */
static void
fill_disk(const char *name)
{
    struct patience p = {.with = "a disk without a free byte"};
    off_t size = 0, more;

    while ((more = free_bytes()) > 0) {
        if (add_ballast(name, size + more))
            size += more;
        patience_look(&p);
    }
}

static void
drop_ballast(const char *name)
{
    char path[100];

    snprintf(path, sizeof(path), "%s/%s", mount_point, name);
    assert_int_equal(unlink(path), 0);
}

/* Whether it is there or not. */
static void
remove_ballast(const char *name)
{
    char path[100];

    snprintf(path, sizeof(path), "%s/%s", mount_point, name);
    unlink(path);
}

/* A stage */

struct stage {
    struct lists lists;
    uint64_t last;      /* acknowledged */
    uint64_t resources; /* that it is all about; 0: each entry about another */
    struct buf body;
};

static int
set_stage(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    *state = s;
    if (!has_disk)
        return 0;
    assert_true(add_ballast("ballast", BALLAST_SIZE));
    LISTS_OPEN(&s->lists, "--rotate-entries", "401");
    buf_init(&s->body, 1 << 20);
    return 0;
}

static int
clear_stage(void **state)
{
    struct stage *s = *state;

    if (has_disk) {
        buf_fini(&s->body);
        lists_close(&s->lists);
        remove_ballast("ballast");
        remove_ballast("full");
        remove_ballast("more");
    }
    free(s);
    return 0;
}

/* Posts once; the status. What is acknowledged follows what was before. */
static long
post(struct stage *s)
{
    uint64_t from = s->resources ? s->last % s->resources : s->last;
    struct receipt r;
    long status;

    buf_clear(&s->body);
    source_entries(&s->body, (unsigned)from + 1, POST_ENTRIES, ENTRY_SIZE);
    status = source_send(&s->lists.http, LISTS_SET, "application/json",
                         buf_slice(&s->body), &r);
    if (status == 200) {
        assert_int_equal(r.first, s->last + 1);
        assert_int_equal(r.last, s->last + POST_ENTRIES);
        s->last = r.last;
    }
    return status;
}

/* 503 with Retry-After, and a reason that names the disk. */
static void
assert_refused(struct stage *s)
{
    struct http *h = &s->lists.http;
    struct jsonpath j;

    assert_int_equal(h->status, 503);
    assert_non_null(http_header(h, "Retry-After"));
    assert_string_equal(http_header(h, "Retry-After"), "1");
    assert_string_equal(http_header(h, "Content-Type"),
                        "application/problem+json");
    jsonpath_open(&j, buf_slice(&h->body));
    assert_int_equal(jsonpath_number(&j, "status"), 503);
    assert_string_equal(jsonpath_text(&j, "detail"), "the disk is nearly full");
    jsonpath_close(&j);
}

static void
fill_up(struct stage *s)
{
    for (unsigned n = 0; n < POSTS_BEFORE; n++)
        assert_int_equal(post(s), 200);
    lists_await_file(&s->lists, (unsigned)(s->last / LIST_ENTRIES));
    assert_true(add_ballast("full", (off_t)free_bytes() - TOO_LITTLE));
    assert_int_equal(post(s), 503);
    assert_refused(s);
    assert_in_range(s->last, 1000, UINT64_MAX); /* some lists have closed */
}

/* Who asks whether posts are taken hears of it, and again
 * when they are, although nobody posts meanwhile. */
static void
await_ready(struct stage *s, bool is_ready)
{
    struct http *h = &s->lists.http;
    struct timespec pause = {0, LISTS_LOOK_MS * 1000000};
    struct jsonpath j;
    long want = is_ready ? 200 : 503;
    int left_ms = PATIENCE_MS;

    while (http_get(h, "/readyz") != want && left_ms > 0) {
        nanosleep(&pause, NULL);
        left_ms -= LISTS_LOOK_MS;
    }
    assert_int_equal(h->status, want);
    if (!is_ready) {
        jsonpath_open(&j, buf_slice(&h->body));
        assert_string_equal(jsonpath_text(&j, "detail"),
                            "not ready: the disk is nearly full: posts are "
                            "refused");
        assert_string_equal(jsonpath_text(&j, "reasons.0"),
                            "the disk is nearly full: posts are refused");
        jsonpath_close(&j);
    }
    assert_int_equal(http_get(h, "/healthz"), 200);
}

/* All that was acknowledged can be pulled and is pushed, and nothing else. */
static void
assert_all_there(struct stage *s)
{
    struct walk *w = &s->lists.walk;
    struct wire *wire = wire_connect("127.0.0.1", s->lists.broker.port);
    struct problem why = {""};
    struct trace heard;

    walk_all(w);
    assert_int_equal(w->trace.last, s->last);
    assert_int_equal(w->n_lists, s->last / LIST_ENTRIES + 1);
    for (uint64_t seq = 1; seq <= s->last; seq++) {
        char loc[100];

        snprintf(loc, sizeof(loc), "http://example.com/r/%" PRIu64, seq);
        assert_string_equal(trace_at(&w->trace, seq)->loc, loc);
    }

    assert_non_null(wire);
    trace_init(&heard);
    if (!stream_open(wire, LISTS_SET, "0", &why) ||
        !stream_read(wire, &heard, s->last, NULL, &why) ||
        !trace_is_same(&heard, &w->trace, &why))
        fail_msg("%s", why.text);
    trace_fini(&heard);
    wire_close(wire);
}

FIXTURE(set_stage, clear_stage);
TEST_GROUP(NULL, make_disk, NULL);

/* Design section 4: 503 when the disk is full; log.md: below a reserve, so that
 * closing and filing can still run. R-149 */
TEST(posts_are_refused_before_the_disk_is_full_and_taken_again_after)
{
    struct stage *s = *state;

    if (!has_disk)
        skip();
    await_ready(s, true);
    fill_up(s);
    await_ready(s, false);
    drop_ballast("full");
    await_ready(s, true);
    assert_true(add_ballast("full", (off_t)free_bytes() - TOO_LITTLE));
    await_ready(s, false);
    assert_int_equal(post(s), 503);
    assert_all_there(s);

    /* The open list can be closed, and gets its file, with what is reserved. */
    source_rotate(&s->lists.http, LISTS_SET);
    walk_all(&s->lists.walk);
    assert_int_equal(s->lists.walk.n_lists, s->last / LIST_ENTRIES + 2);
    lists_await_file(&s->lists, (unsigned)s->lists.walk.n_lists - 1);
    walk_all(&s->lists.walk);
    assert_int_equal(s->lists.walk.trace.last, s->last);
    assert_int_equal(post(s), 503);
    assert_refused(s);

    drop_ballast("ballast");
    drop_ballast("full");
    assert_int_equal(post(s), 200);
    walk_all(&s->lists.walk);
    assert_int_equal(s->lists.walk.trace.last, s->last);
}

/* the same where somebody else takes the last byte, and through a kill
 * on that disk. */
TEST(a_disk_without_a_free_byte_loses_nothing)
{
    struct stage *s = *state;

    if (!has_disk)
        skip();
    fill_up(s);
    walk_all(&s->lists.walk);
    lists_await_file(&s->lists, (unsigned)s->lists.walk.n_lists - 1);
    fill_disk("more");
    assert_int_equal(post(s), 503);
    assert_all_there(s);

    broker_kill9(&s->lists.broker);
    drop_ballast("more");
    broker_restart(&s->lists.broker);
    assert_all_there(s);
    drop_ballast("ballast");
    drop_ballast("full");
    assert_int_equal(post(s), 200);
    assert_all_there(s);
}

/* log.md: what closed lists' files hold is forgotten, and its space used again,
 * and so is that of the state of a set whose resources are the same again and
 * again: a disk that has room for what is kept does not fill up by going on. */
TEST(going_on_does_not_fill_a_disk_that_is_large_enough)
{
    struct stage *s = *state;

    if (!has_disk)
        skip();
    s->resources = 5 * POST_ENTRIES;
    for (unsigned n = 0; n < POSTS_MAX; n++) {
        struct patience p = {.with = "room for a post"};
        long status;

        /* Now and then the archive lags: then a post waits for it. */
        while ((status = post(s)) == 503) {
            assert_refused(s);
            patience_step(&p);
        }
        assert_int_equal(status, 200);
    }
    walk_all(&s->lists.walk);
    assert_int_equal(s->lists.walk.trace.last, s->last);
}

/* Short entries are several times as large when they are stamped: what such a
 * post would take is not there. R-149 */
TEST(a_post_that_the_disk_is_too_small_for_is_refused_alone)
{
    struct stage *s = *state;
    struct receipt r;
    struct buf body;

    if (!has_disk)
        skip();
    buf_init(&body, LARGE_BYTES + 100);
    while (body.size < LARGE_BYTES)
        buf_add_format(&body,
                       "{\"loc\":\"http://e.x/1\",\"change\":\"updated\"}\n");
    assert_int_equal(post(s), 200);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(source_send(&s->lists.http, LISTS_SET,
                                     "application/x-ndjson", buf_slice(&body),
                                     &r),
                         503);
        assert_refused(s);
        assert_int_equal(post(s), 200);
    }
    walk_all(&s->lists.walk);
    assert_int_equal(s->lists.walk.trace.last, s->last);
    buf_fini(&body);
}
