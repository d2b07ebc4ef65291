#include "tests/support/lists.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/patience.h"
#include "tests/test.h"

void
lists_begin(struct lists *l)
{
    http_open(&l->http, l->broker.url);
    walk_open(&l->walk, &l->broker, LISTS_SET);
}

void
lists_close(struct lists *l)
{
    http_close(&l->http);
    walk_close(&l->walk);
    if (l->broker.pid)
        broker_stop(&l->broker);
    broker_close(&l->broker);
}

int
lists_setup(void **state)
{
    *state = calloc(1, sizeof(struct lists));
    return *state ? 0 : -1;
}

int
lists_teardown(void **state)
{
    struct lists *l = *state;

    if (l->http.handle)
        lists_close(l);
    free(l);
    return 0;
}

const char *
lists_path(struct lists *l, unsigned number)
{
    snprintf(l->path, sizeof(l->path), "/sets/" LISTS_SET "/changes/%012u.xml",
             number);
    return l->path;
}

struct buf
lists_copy(struct lists *l, unsigned number)
{
    struct buf copy;

    assert_int_equal(http_get(&l->http, lists_path(l, number)), 200);
    buf_init(&copy, SIZE_MAX);
    buf_add_slice(&copy, buf_slice(&l->http.body));
    assert_false(copy.failed);
    return copy;
}

void
lists_assert(struct lists *l, unsigned number, const struct buf *bytes)
{
    assert_int_equal(http_get(&l->http, lists_path(l, number)), 200);
    assert_int_equal(l->http.body.size, bytes->size);
    assert_memory_equal(l->http.body.data, bytes->data, bytes->size);
}

void
lists_obstruct(struct lists *l)
{
    tempdir_write(l->broker.dir.fd, "data/sets", "in the way");
}

void
lists_clear(struct lists *l)
{
    assert_int_equal(unlinkat(l->broker.dir.fd, "data/sets", 0), 0);
}

bool
lists_has_file(const struct lists *l, unsigned number)
{
    char path[400];

    snprintf(path, sizeof(path), "%s/sets/" LISTS_SET "/changes/%012u.xml.gz",
             l->broker.data, number);
    return access(path, F_OK) == 0;
}

/* Waiting */

static int64_t
now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void
lists_await_file(const struct lists *l, unsigned number)
{
    int64_t end_ms = now_ms() + PATIENCE_MS;

    while (!lists_has_file(l, number)) {
        if (now_ms() > end_ms)
            fail_msg("list %u has no file after %d ms", number, PATIENCE_MS);
        poll(NULL, 0, LISTS_LOOK_MS);
    }
}

void
lists_await_gzip(struct lists *l, unsigned number)
{
    int64_t end_ms = now_ms() + PATIENCE_MS;

    for (;;) {
        assert_int_equal(http_ask(&l->http, "GET", lists_path(l, number),
                                  "Accept-Encoding: gzip", NULL),
                         200);
        if (http_header(&l->http, "Content-Encoding") &&
            http_header(&l->http, "Last-Modified"))
            return;
        if (now_ms() > end_ms)
            fail_msg("list %u is no gzip after %d ms", number, PATIENCE_MS);
        poll(NULL, 0, LISTS_LOOK_MS);
    }
}

/* How many closed lists the index names; 0 where there is none yet. */
static size_t
count_closed(struct lists *l)
{
    struct problem why = {""};
    struct xmldoc d;
    size_t n;

    assert_int_equal(http_get(&l->http, "/sets/" LISTS_SET "/changelist.xml"),
                     200);
    if (!xmldoc_read(&d, buf_slice(&l->http.body), &why))
        fail_msg("%s", why.text);
    n = d.is_index ? d.n_entries - 1 : 0;
    xmldoc_free(&d);
    return n;
}

void
lists_await_closed(struct lists *l, size_t n)
{
    int64_t end_ms = now_ms() + PATIENCE_MS;

    while (count_closed(l) < n) {
        if (now_ms() > end_ms)
            fail_msg("%zu lists were not closed within %d ms", n, PATIENCE_MS);
        poll(NULL, 0, LISTS_LOOK_MS);
    }
    walk_all(&l->walk);
    assert_int_equal(l->walk.n_lists, n + 1);
}
