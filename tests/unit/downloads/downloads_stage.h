/*
 * downloads_stage.h - the stage of tests of downloads: a site, wanted
 * resources, and the results.
 */
#ifndef TESTS_UNIT_DOWNLOADS_DOWNLOADS_STAGE_H
#define TESTS_UNIT_DOWNLOADS_DOWNLOADS_STAGE_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/downloads/downloads.h"
#include "client/dumps/download.h"
#include "proto/resourcesync/change.h"
#include "tests/clock.h"
#include "tests/support/site.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"
#include "tests/unit/lib/transfers.h"

/* Of "hello". */
#define SHA256 \
    "sha-256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
#define MD5 "md5:5d41402abc4b2a76b9719d911017c592"

/* Of large_body(3 MiB). */
#define LARGE_MD5 "md5:63b9f0630f1cc5320ed96f9d4146a064"

#define MANY 300

struct fixture {
    struct tempdir dir;
    struct site *site;
    struct td_client *client;
    struct downloads *downloads;
    struct downloads_result results[MANY];
    unsigned n;
    unsigned n_wanted;
    bool is_over;
    uint64_t drops; /* on_done drops this one */
};

static inline void
on_done(const struct downloads_result *result, void *user)
{
    struct fixture *f = user;

    assert_true(f->n < MANY);
    f->results[f->n++] = *result;
    f->is_over = f->n == f->n_wanted;
    if (f->drops) {
        assert_true(downloads_drop(f->downloads, f->drops));
        f->drops = 0;
    }
}

static inline void
begin(struct fixture *f, struct downloads_limits limits)
{
    if (!limits.pause_ms)
        limits.pause_ms = 1;
    downloads_free(f->downloads);
    f->downloads =
        downloads_new(f->client, &limits, f->dir.fd, on_done, NULL, f);
    assert_non_null(f->downloads);
}

static inline int
set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    tempdir_open(&f->dir);
    f->site = site_new();
    f->client = td_open();
    assert_non_null(f->client);
    clock_skip_waits(transfers_none, NULL);
    begin(f, (struct downloads_limits){0});
    *state = f;
    return 0;
}

static inline int
tear_down(void **state)
{
    struct fixture *f = *state;

    downloads_free(f->downloads);
    td_close(f->client);
    site_free(f->site);
    tempdir_close(&f->dir);
    free(f);
    return 0;
}

/* Wants `path` as file "ID". */
static inline struct want
want_of(struct fixture *f, uint64_t id, const char *path)
{
    static char names[MANY + 1][8];

    snprintf(names[id], sizeof(names[id]), "%u", (unsigned)id);
    return (struct want){
        .id = id,
        .loc = slice_of(site_link(f->site, path)),
        .length = LENGTH_NONE,
        .file = names[id],
    };
}

static inline void
add(struct fixture *f, struct want want)
{
    assert_int_equal(downloads_add(f->downloads, &want), STATUS_OK);
}

static inline void
run_until(struct fixture *f, unsigned n)
{
    f->n_wanted = n;
    f->is_over = f->n >= n;
    if (!f->is_over)
        assert_int_equal(handle_loop_until(f->client->loop, &f->is_over),
                         STATUS_OK);
    assert_int_equal(f->n, n);
}

static inline struct downloads_result *
result_of(struct fixture *f, uint64_t id)
{
    for (unsigned i = 0; i < f->n; i++)
        if (f->results[i].id == id)
            return &f->results[i];
    fail_msg("%u has no result", (unsigned)id);
    return NULL;
}

static inline struct downloads_result *
run_one(struct fixture *f, struct want want)
{
    f->n = 0;
    add(f, want);
    run_until(f, 1);
    return &f->results[0];
}

static inline void
assert_says(const struct downloads_result *result, enum status rc,
            const char *text)
{
    assert_string_equal(result->why.text, text);
    assert_int_equal(result->why.rc, rc);
}

static inline char *
large_body(size_t size)
{
    char *bytes = malloc(size);

    for (size_t i = 0; i < size; i++)
        bytes[i] = (char)(i * 7 + (i >> 10));
    return bytes;
}

#endif
