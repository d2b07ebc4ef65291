/* One fetch: its result, whatever the other side does. When the broker makes
 * one, and the consequences: tests/e2e/content_fetch_test.py. */
#include "broker/archive/content_download.h"

#include <fcntl.h>
#include <inttypes.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "broker/config/config.h"
#include "proto/resourcesync/change.h"
#include "proto/resourcesync/digest.h"
#include "tests/clock.h"
#include "tests/support/folder.h"
#include "tests/support/site.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"
#include "tests/unit/calls/odd.h"

/* Of "hello". */
#define SHA256 \
    "sha-256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
#define SHA1 "sha-1:aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d"
#define MD5  "md5:5d41402abc4b2a76b9719d911017c592"

static struct stage {
    struct odd odd;
    struct site *site;
    struct tempdir dir;
    const char *folder; /* where the bytes arrive */
    struct config config;
    struct networks allowed;
    struct content_download *fetcher;
    uint32_t host; /* fetches that were started */
    sem_t over;
} stage;

static void
on_over(void *user)
{
    (void)user;
    sem_post(&stage.over);
}

static struct config
defaults(void)
{
    return (struct config){
        .fetch_connections = 8,
        .fetch_host_connections = 2,
        .fetch_timeout_us = 600000000,
        .fetch_stall_us = 600000000,
        .max_content = 100000000,
    };
}

static void
close_fetcher(void)
{
    content_download_close(stage.fetcher);
    stage.fetcher = NULL;
}

/* Closes the fetcher and opens another. */
static void
open_with(const struct config *options)
{
    struct problem why = {""};

    close_fetcher();
    stage.config = *options;
    if (content_download_open(&stage.fetcher, &stage.config, &stage.allowed,
                              stage.folder, on_over, NULL, &why))
        fail_msg("%s", why.text);
}

static int
setup(void **state)
{
    struct config options = defaults();
    struct problem why = {""};

    (void)state;
    odd_open(&stage.odd);
    stage.site = site_new();
    tempdir_open(&stage.dir);
    stage.folder = stage.dir.path;
    sem_init(&stage.over, 0, 0);
    stage.host = 0;
    if (networks_read(SLICE("127.0.0.1"), false, &stage.allowed, &why))
        fail_msg("%s", why.text);
    open_with(&options);
    return 0;
}

static int
teardown(void **state)
{
    (void)state;
    close_fetcher();
    site_free(stage.site);
    odd_close(&stage.odd);
    tempdir_close(&stage.dir);
    return 0;
}

static struct fetch *
start(const char *url, const char *hash, uint64_t length)
{
    struct fetch *f = fetch_new(slice_of(url), slice_of(hash), length);

    assert_non_null(f);
    f->host = stage.host;
    content_download_start(stage.fetcher, f);
    return f;
}

static struct fetch *
next(void)
{
    struct fetch *f;

    while (sem_wait(&stage.over))
        ;
    f = content_download_next(stage.fetcher);
    assert_non_null(f);
    return f;
}

/* The next fetch that is over is `f`. */
static struct fetch *
next_is(struct fetch *f)
{
    assert_ptr_equal(next(), f);
    return f;
}

static struct fetch *
run(const char *url, const char *hash, uint64_t length)
{
    return next_is(start(url, hash, length));
}

static struct fetch *
start_odd(const char *path)
{
    char url[200];

    snprintf(url, sizeof(url), "http://127.0.0.1:%u%s", stage.odd.port, path);
    return start(url, SHA256, LENGTH_NONE);
}

static void
assert_outcome(struct fetch *f, enum fetch_outcome outcome,
               enum fetch_reason reason, const char *why)
{
    if (f->outcome != outcome ||
        (outcome > FETCH_DROPPED && f->reason != reason) ||
        !strstr(f->why.text, why))
        fail_msg("%s came to %d, %d: %s", f->url, (int)f->outcome,
                 (int)f->reason, f->why.text);
}

/* Runs one fetch and expects this outcome. */
static void
assert_run(const char *url, const char *hash, uint64_t length,
           enum fetch_outcome outcome, enum fetch_reason reason,
           const char *why)
{
    struct fetch *f = run(url, hash, length);

    assert_outcome(f, outcome, reason, why);
    fetch_free(f);
}

static void
assert_bytes(const struct fetch *f, struct slice bytes)
{
    char path[600], *read_bytes = malloc(bytes.size + 1);
    struct digest digest;
    int fd;

    digest_sha256(&digest, bytes);
    assert_memory_equal(&f->arriving.digest, &digest, sizeof(digest));
    assert_int_equal(f->arriving.length, bytes.size);
    snprintf(path, sizeof(path), "%s/%s", f->arriving.folder, f->arriving.name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(read(fd, read_bytes, bytes.size + 1), bytes.size);
    assert_memory_equal(read_bytes, bytes.data, bytes.size);
    close(fd);
    free(read_bytes);
}

/* Stated facts */

FIXTURE(setup, teardown);

/* */
TEST(bytes_are_kept_that_are_what_was_told)
{
    static const char *const hashes[] = {SHA256, MD5, SHA1,
                                         MD5 " " SHA256 " " SHA1};
    const char *url = site_link(stage.site, "/a");
    struct fetch *f;

    site_put(stage.site, "/a", "text/plain", SLICE("hello"));
    for (size_t i = 0; i < sizeof(hashes) / sizeof(hashes[0]); i++) {
        f = run(url, hashes[i], i % 2 ? 5 : LENGTH_NONE);
        assert_outcome(f, FETCH_WHOLE, 0, "");
        assert_bytes(f, SLICE("hello"));
        fetch_free(f);
    }
    assert_string_equal(site_header(stage.site, "/a", 0, "Accept-Encoding"),
                        "identity");
    assert_int_equal(folder_count(stage.dir.path), 0);

    site_put(stage.site, "/empty", NULL, SLICE(""));
    f = run(site_link(stage.site, "/empty"),
            "md5:d41d8cd98f00b204e9800998ecf8427e", 0);
    assert_outcome(f, FETCH_WHOLE, 0, "");
    assert_int_equal(f->arriving.length, 0);
    assert_int_equal(folder_count(stage.dir.path), 1);
    fetch_free(f);
}

TEST(long_ones_are_kept_whole)
{
    char *bytes = malloc(5000001), hash[DIGEST_TEXT_SIZE + 1] = "";
    struct slice all = {bytes, 5000001};
    struct digest digest;
    struct fetch *f;

    for (size_t i = 0; i < all.size; i++)
        bytes[i] = odd_byte(i * i);
    digest_sha256(&digest, all);
    digest_write(hash, &digest);
    site_put(stage.site, "/long", NULL, all);
    for (int chunked = 0; chunked < 2; chunked++) {
        site_chunked(stage.site, "/long", chunked);
        f = run(site_link(stage.site, "/long"), hash, LENGTH_NONE);
        assert_outcome(f, FETCH_WHOLE, 0, "");
        assert_bytes(f, all);
        fetch_free(f);
    }
    free(bytes);
}

/* however nearly. */
TEST(what_differs_is_hopeless)
{
    static const struct {
        const char *body, *hash;
        uint64_t length;
    } all[] = {
        {"hellO", SHA256, LENGTH_NONE},
        {"hellO", MD5, 5},
        {"hello", SHA256, 4},
        {"hello", SHA256, 6},
        {"hello", "md5:5d41402abc4b2a76b9719d911017c593 " SHA256, 5},
        {"", SHA256, LENGTH_NONE},
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        site_put(stage.site, "/a", NULL, slice_of(all[i].body));
        assert_run(site_link(stage.site, "/a"), all[i].hash, all[i].length,
                   FETCH_HOPELESS, FETCH_DIFFERS, "announced");
    }
    assert_int_equal(folder_count(stage.dir.path), 0);
}

/* Answers */

TEST(a_status_says_whether_there_is_hope)
{
    static const struct {
        unsigned status;
        enum fetch_outcome outcome;
        bool is_of_host;
    } all[] = {
        {404, FETCH_HOPELESS, false}, {410, FETCH_HOPELESS, false},
        {401, FETCH_HOPELESS, false}, {403, FETCH_HOPELESS, false},
        {204, FETCH_HOPELESS, false}, {304, FETCH_HOPELESS, false},
        {500, FETCH_FAILED, false},   {504, FETCH_FAILED, false},
        {408, FETCH_FAILED, false},   {429, FETCH_FAILED, true},
        {503, FETCH_FAILED, true},
    };

    char text[40];
    struct fetch *f;

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        site_status(stage.site, "/a", all[i].status, "Retry-After: 7", 0);
        f = run(site_link(stage.site, "/a"), SHA256, LENGTH_NONE);
        snprintf(text, sizeof(text), "the answer is %u", all[i].status);
        assert_outcome(f, all[i].outcome, FETCH_STATUS, text);
        assert_int_equal(f->is_of_host, all[i].is_of_host);
        assert_int_equal(f->retry_after_us, 7000000);
        fetch_free(f);
    }
}

TEST(redirects_are_followed_and_judged)
{
    struct fetch *f;
    char location[200];

    site_put(stage.site, "/a", NULL, SLICE("hello"));
    site_status(stage.site, "/from", 302, "Location: /a", 0);
    assert_run(site_link(stage.site, "/from"), SHA256, 5, FETCH_WHOLE, 0, "");

    site_status(stage.site, "/from", 302, "Location: /from", 0);
    assert_run(site_link(stage.site, "/from"), SHA256, 5, FETCH_FAILED,
               FETCH_BROKEN, "redirects more than 5");

    snprintf(location, sizeof(location), "Location: http://127.0.0.2:%u/a",
             stage.odd.port);
    site_status(stage.site, "/from", 301, location, 0);
    f = run(site_link(stage.site, "/from"), SHA256, 5);
    assert_outcome(f, FETCH_FAILED, FETCH_REFUSED, "127.0.0.2 may not");
    assert_false(f->is_of_host); /* it has only said where to go */
    fetch_free(f);
    assert_int_equal(odd_count(&stage.odd, &stage.odd.n_connections), 0);
}

/* Trouble */

/* W-160, W-162: as callbacks. */
TEST(nobody_is_called_who_may_not_be)
{
    static const char *const urls[] = {
        "ftp://127.0.0.1/a", "file:///etc/passwd", "http://a:b@127.0.0.1/"};
    struct fetch *f;
    char url[200];

    snprintf(url, sizeof(url), "http://127.0.0.2:%u/ok", stage.odd.port);
    f = run(url, SHA256, 5);
    assert_outcome(f, FETCH_FAILED, FETCH_REFUSED, "127.0.0.2 may not");
    assert_true(f->is_of_host);
    fetch_free(f);
    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++)
        assert_run(urls[i], SHA256, 5, FETCH_HOPELESS, FETCH_REFUSED,
                   "can be called");
    assert_int_equal(odd_count(&stage.odd, &stage.odd.n_connections), 0);
}

#define LIMIT_US 2000000

static bool
is_over(void)
{
    int n;

    sem_getvalue(&stage.over, &n);
    return n > 0;
}

TEST(whatever_it_does_there_is_an_end)
{
    static const struct {
        const char *path;
        enum fetch_outcome outcome;
        enum fetch_reason reason;
        const char *why;
    } all[] = {
        {"/trickling-body", FETCH_FAILED, FETCH_TIMEOUT, "whole answer"},
        {"/hang", FETCH_FAILED, FETCH_TIMEOUT, "no byte"},
        {"/hang-in-body", FETCH_FAILED, FETCH_TIMEOUT, "no byte"},
        {"/endless-body", FETCH_HOPELESS, FETCH_TOO_LARGE, "--max-content"},
        {"/long?1000001", FETCH_HOPELESS, FETCH_TOO_LARGE, "--max-content"},
        {"/short", FETCH_FAILED, FETCH_BROKEN, "ended early"},
        {"/reset-in-body", FETCH_FAILED, FETCH_BROKEN, "reset"},
    };
    struct config options = defaults();
    struct fetch *f;

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        options = defaults();
        options.max_content = 1000000;
        if (i == 0)
            options.fetch_timeout_us = LIMIT_US;
        else if (i < 3)
            options.fetch_stall_us = LIMIT_US;
        open_with(&options);
        f = start_odd(all[i].path);
        if (i < 3) {
            odd_await(&stage.odd, &stage.odd.n_requests, (unsigned)i + 1);
            clock_run_us(i == 0 ? 2 : 1, LIMIT_US); /* one trickles */
            for (bool is_first = true; !is_over(); is_first = false)
                clock_run_on(is_first);
            clock_run_us(0, 0);
        }
        assert_outcome(next_is(f), all[i].outcome, all[i].reason, all[i].why);
        fetch_free(f);
    }
    assert_int_equal(folder_count(stage.dir.path), 0);
}

TEST(without_a_place_for_it_nothing_is_lost)
{
    struct config options = defaults();
    struct fetch *f;

    stage.folder = "/no/such/folder";
    open_with(&options);
    f = next_is(start_odd("/ok"));
    assert_outcome(f, FETCH_NO_ROOM, FETCH_ROOM, "/no/such/folder");
    fetch_free(f);
}

/* Manners */

TEST(a_host_is_asked_for_no_more_than_two_at_once)
{
    for (int i = 0; i < 8; i++)
        start_odd("/wait");
    odd_await(&stage.odd, &stage.odd.n_waiting, 2);
    odd_pass(&stage.odd, 8);
    for (int i = 0; i < 8; i++)
        fetch_free(next());
    assert_int_equal(odd_count(&stage.odd, &stage.odd.most_waiting), 2);
}

TEST(those_that_wait_for_a_host_in_trouble_are_left)
{
    struct config options = defaults();
    unsigned n[FETCH_OUTCOMES] = {0};
    struct fetch *other;

    options.fetch_host_connections = 1;
    open_with(&options);
    site_status(stage.site, NULL, 503, "Retry-After: 60", 0);
    site_hold(stage.site, "/first");
    stage.host = 1;
    start(site_link(stage.site, "/first"), SHA256, 5);
    site_await(stage.site, "/first", 1);
    for (int i = 0; i < 3; i++)
        start(site_link(stage.site, "/a"), SHA256, 5);
    stage.host = 2;
    /* They wait by now, and nobody else does. */
    other = next_is(start_odd("/ok"));
    assert_outcome(other, FETCH_WHOLE, 0, "");
    fetch_free(other);

    site_release(stage.site, "/first");
    for (int i = 0; i < 4; i++) {
        other = next();
        n[other->outcome]++;
        fetch_free(other);
    }
    assert_int_equal(n[FETCH_FAILED], 1);
    assert_int_equal(n[FETCH_DROPPED], 3);
    assert_int_equal(site_count(stage.site, "/a"), 0);
}

TEST(what_nobody_wants_is_left)
{
    struct config options = defaults();
    struct fetch *held, *unwanted;

    options.fetch_host_connections = 1;
    options.max_content = (uint64_t)1 << 30; /* it is dropped before */
    open_with(&options);
    held = start_odd("/wait");
    odd_await(&stage.odd, &stage.odd.n_waiting, 1);
    unwanted = start_odd("/wait");
    atomic_store(&unwanted->is_unwanted, true);
    odd_pass(&stage.odd, 1);
    assert_ptr_equal(next(), held);
    assert_int_equal(next_is(unwanted)->outcome, FETCH_DROPPED);
    assert_int_equal(odd_count(&stage.odd, &stage.odd.n_requests), 1);
    fetch_free(held);
    fetch_free(unwanted);

    unwanted = start_odd("/endless-body");
    odd_await_least(&stage.odd, &stage.odd.n_requests, 2);
    atomic_store(&unwanted->is_unwanted, true);
    assert_int_equal(next_is(unwanted)->outcome, FETCH_DROPPED);
    fetch_free(unwanted);
    assert_int_equal(folder_count(stage.dir.path), 0);
}

TEST(the_end_leaves_nothing)
{
    struct config options = defaults();

    options.max_content = (uint64_t)1 << 30;
    open_with(&options);
    for (int i = 0; i < 4; i++) /* under way and waiting */
        start_odd("/endless-body");
    site_put(stage.site, "/a", NULL, SLICE("hello"));
    start(site_link(stage.site, "/a"), SHA256, 5);
    assert_int_equal(sem_wait(&stage.over), 0); /* and a fetch that is over */
    close_fetcher();
    assert_int_equal(folder_count(stage.dir.path), 0);
}
