/*
 * sync_web_test.c - `tidings sync` and the web that resources are on: other
 * places, proxies, limits, what breaks, what is hostile.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/evp.h>

#include "tests/support/folder.h"
#include "tests/support/mirrored.h"
#include "tests/support/patience.h"
#include "tests/test.h"

#define assert_sync(m, expected, ...)                                          \
    do {                                                                       \
        int status_ = mirrored_sync((m), __VA_ARGS__);                         \
        if (status_ != (expected))                                             \
            fail_msg("it ended with %d: %s%s", status_, (m)->command.out_text, \
                     (m)->command.err_text);                                   \
    } while (0)

static void
add_digest(struct buf *to, struct slice bytes)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;

    assert_true(
        EVP_Digest(bytes.data, bytes.size, digest, &size, EVP_sha256(), NULL));
    buf_add_hex(to, digest, size);
}

/* Posts a resource with `bytes`, wherever that is; `more`: members of the
 * entry, with a comma before. */
static void
post_resource(struct mirrored *m, const char *loc, struct slice bytes,
              const char *more)
{
    buf_add_format(&m->post,
                   "[{\"loc\":\"%s\",\"change\":\"created\",\"length\":%zu,"
                   "\"hash\":{\"sha-256\":\"",
                   loc, bytes.size);
    add_digest(&m->post, bytes);
    buf_add_format(&m->post, "\"}%s}", more);
    mirrored_post(m);
}

FIXTURE(mirrored_setup, mirrored_teardown);

/* in the order of pri, not in theirs; and the file is at the path
 * of `loc`. */
TEST(takes_a_duplicate_by_pri_where_loc_fails)
{
    struct mirrored *m = *state;
    char links[600];
    char file[400];

    snprintf(links, sizeof(links),
             ",\"links\":["
             "{\"rel\":\"duplicate\",\"href\":\"%s/last\",\"pri\":3},"
             "{\"rel\":\"alternate\",\"href\":\"%s/other\",\"pri\":1},"
             "{\"rel\":\"duplicate\",\"href\":\"%s/first\",\"pri\":1},"
             "{\"rel\":\"duplicate\",\"href\":\"%s/second\",\"pri\":2}]",
             site_url(m->site), site_url(m->site), site_url(m->site),
             site_url(m->site));
    site_put(m->site, "/second", NULL, SLICE("right"));
    site_put(m->site, "/last", NULL, SLICE("right"));
    post_resource(m, site_link(m->site, "/a.txt"), SLICE("right"), links);

    assert_sync(m, 0, NULL);
    snprintf(file, sizeof(file), "%s", mirrored_place(m, "/a.txt"));
    assert_true(mirrored_has(m, file, "right"));
    assert_int_equal(site_count(m->site, "/a.txt"), 1);
    assert_int_equal(site_count(m->site, "/first"), 1);
    assert_int_equal(site_count(m->site, "/second"), 1);
    assert_int_equal(site_count(m->site, "/last"), 0);
    assert_int_equal(site_count(m->site, "/other"), 0);
}

/* of more duplicates than are tried, wherever it stands. */
TEST(takes_the_best_of_many_duplicates)
{
    struct mirrored *m = *state;
    char file[400];
    struct buf links;

    buf_init(&links, 4096);
    BUF_ADD(&links, ",\"links\":[");
    for (unsigned i = 0; i < 12; i++)
        buf_add_format(&links,
                       "{\"rel\":\"duplicate\",\"href\":\"%s/bad%u\","
                       "\"pri\":%u},",
                       site_url(m->site), i, 10 + i);
    buf_add_format(&links,
                   "{\"rel\":\"duplicate\",\"href\":\"%s/good\",\"pri\":1}]",
                   site_url(m->site));
    buf_add(&links, "", 1);
    assert_false(links.failed);
    site_put(m->site, "/good", NULL, SLICE("right"));
    post_resource(m, site_link(m->site, "/a.txt"), SLICE("right"), links.data);
    buf_fini(&links);

    assert_sync(m, 0, NULL);
    snprintf(file, sizeof(file), "%s", mirrored_place(m, "/a.txt"));
    assert_true(mirrored_has(m, file, "right"));
    assert_int_equal(site_count(m->site, "/bad0"), 0);
}

/* As curl does: http_proxy for all but no_proxy. */
TEST(uses_the_proxy_of_the_environment)
{
    struct mirrored *m = *state;

    site_put(m->site, "http://files.invalid/a.txt", NULL, SLICE("by proxy"));
    mirrored_change(m, "/b.txt", "not by proxy");
    mirrored_post(m);
    post_resource(m, "http://files.invalid/a.txt", SLICE("by proxy"), "");
    setenv("http_proxy", site_url(m->site), 1);
    setenv("no_proxy", "127.0.0.1", 1);

    assert_sync(m, 0, NULL);
    unsetenv("http_proxy");
    unsetenv("no_proxy");
    assert_true(mirrored_has(m, "files.invalid:80/a.txt", "by proxy"));
    assert_int_equal(site_count(m->site, "http://files.invalid/a.txt"), 1);
    assert_true(mirrored_has(m, mirrored_place(m, "/b.txt"), "not by proxy"));
    assert_int_equal(site_count(m->site, NULL), 2);
}

/* A resource of another host, which is there when this returns: what the client
 * wanted to ask for before is asked for. */
static void
await_another(struct mirrored *m, struct site *other, const char *path)
{
    site_put(other, path, NULL, SLICE("other"));
    post_resource(m, site_link(other, path), SLICE("other"), "");
    mirrored_await(m, "written", path);
}

/* How many of its files a site is asked for that answers none of them. */
static unsigned
asked_at_once(struct mirrored *m, const char *per_host)
{
    const char *const argv[] = {
        BIN_DIR "/tidings", "sync",       m->set_url, m->dir,
        "--json",           "--per-host", per_host,   NULL};
    struct site *other = site_new();
    char path[32];
    unsigned n;

    for (unsigned i = 0; i < 12; i++) {
        snprintf(path, sizeof(path), "/r/%u.txt", i);
        mirrored_change(m, path, "text");
    }
    mirrored_post(m);
    site_hold(m->site, NULL);
    command_start(&m->command, argv);
    site_await(m->site, NULL, 2);
    await_another(m, other, "/1.txt");
    await_another(m, other, "/2.txt");
    n = site_count(m->site, NULL);
    site_release(m->site, NULL);
    mirrored_await(m, "caught-up", "");
    site_free(other);
    return n;
}

/* --per-host */
TEST(asks_a_host_for_so_many_at_a_time)
{
    struct mirrored *m = *state;

    assert_int_equal(asked_at_once(m, "2"), 2);
    assert_int_equal(site_max_parallel(m->site), 2);
}

/* What came before the kill is not asked for again: Range, If-Range. */
TEST(resumes_a_file_that_it_was_killed_over)
{
    enum { PART = 2 * 1024 * 1024, WHOLE = 6 * PART };
    struct mirrored *m = *state;
    struct slice whole = {malloc(WHOLE), WHOLE};
    const char *range;
    char file[400];
    unsigned n;

    assert_non_null(whole.data);
    for (size_t i = 0; i < WHOLE; i++)
        ((char *)whole.data)[i] = (char)(i * 7 + (i >> 10));
    site_put(m->site, "/large.bin", NULL, whole);
    site_cuts(m->site, "/large.bin", PART, 0);
    post_resource(m, site_link(m->site, "/large.bin"), whole, "");
    mirrored_start(m);
    mirrored_await(m, "failed", "/large.bin");
    assert_int_equal(kill(m->command.pid, SIGKILL), 0);
    command_end(&m->command);
    m->command.pid = 0;

    n = site_count(m->site, "/large.bin");
    site_cut(m->site, "/large.bin", WHOLE);
    assert_sync(m, 0, NULL);
    assert_int_equal(site_count(m->site, "/large.bin"), n + 1);
    range = site_header(m->site, "/large.bin", n, "Range");
    assert_non_null(range);
    assert_int_equal(strncmp(range, "bytes=", 6), 0);
    assert_true(strtoul(range + 6, NULL, 10) >= PART);
    assert_non_null(site_header(m->site, "/large.bin", n, "If-Range"));
    assert_int_equal(site_answered(m->site, "/large.bin", n), 206);
    snprintf(file, sizeof(file), "%s", mirrored_file(m, "/large.bin"));
    assert_int_equal(access(file, F_OK), 0);
    assert_int_equal(mirrored_audit(m, NULL), 0); /* its digest is right */
    free((char *)whole.data);
}

/* How many files are being fetched, or broke off. */
static unsigned
n_incoming(const struct mirrored *m)
{
    return folder_count_below(m->dir, ".tidings/incoming");
}

/* A mirror gives up "/large.bin" half way. */
static void
give_up_half_way(struct mirrored *m)
{
    static char bytes[16 << 20];
    struct slice whole = {bytes, sizeof(bytes)};

    memset(bytes, 'x', sizeof(bytes));
    site_put(m->site, "/large.bin", NULL, whole);
    site_cuts(m->site, "/large.bin", 2 << 20, 0);
    post_resource(m, site_link(m->site, "/large.bin"), whole, "");
    mirrored_start(m);
    mirrored_await(m, "failed", "/large.bin");
    site_status(m->site, "/large.bin", 404, NULL, 0);
    mirrored_await(m, "left", "/large.bin");
    assert_true(n_incoming(m) > 0);
}

/* The next version comes whole. */
static void
tell_what_comes(struct mirrored *m)
{
    site_put(m->site, "/large.bin", NULL, SLICE("short"));
    site_status(m->site, "/large.bin", 0, NULL, 0);
    post_resource(m, site_link(m->site, "/large.bin"), SLICE("short"), "");
    mirrored_await(m, "written", "/large.bin");
}

/* What came of a version that was given up goes when the next one is told, not
 * with the next run: this one may go on for years. */
TEST(what_was_given_up_is_not_kept_when_it_is_overtaken)
{
    struct patience p = {.with = "the end of what was given up"};
    struct mirrored *m = *state;

    give_up_half_way(m);
    tell_what_comes(m);
    while (n_incoming(m) > 0)
        patience_step(&p);
}

/* Nor where there is always something else to be fetched. */
TEST(what_was_given_up_goes_while_others_are_fetched)
{
    struct patience p = {.with = "the end of what was given up"};
    struct mirrored *m = *state;
    char text[20];
    unsigned n;

    mirrored_change(m, "/held.txt", "held");
    site_hold(m->site, "/held.txt");
    mirrored_post(m);
    give_up_half_way(m);
    n = n_incoming(m);
    tell_what_comes(m);
    for (unsigned i = 0; n_incoming(m) >= n; i++) {
        snprintf(text, sizeof(text), "other %u", i);
        mirrored_change(m, "/other.txt", text);
        mirrored_post(m);
        mirrored_await(m, "written", "/other.txt");
        patience_step(&p);
    }
    assert_int_equal(site_count(m->site, "/held.txt"), 1); /* still fetched */
    site_release(m->site, "/held.txt");
    mirrored_await(m, "written", "/held.txt");
}

/* Redirects lead from web to web: to no file, and no header goes along. */
TEST(is_not_led_out_of_the_web)
{
    struct mirrored *m = *state;
    struct site *other = site_new();
    char lines[300];

    mirrored_change(m, "/a.txt", "a");
    mirrored_change(m, "/b.txt", "b");
    mirrored_post(m);
    snprintf(lines, sizeof(lines), "Location: %s", site_link(other, "/b.txt"));
    site_status(m->site, "/b.txt", 302, lines, 0);
    site_put(other, "/b.txt", NULL, SLICE("b"));
    snprintf(lines, sizeof(lines), "Location: file://%s/secret", m->home.path);
    site_status(m->site, "/a.txt", 302, lines, 0);
    mirrored_write(m, "../secret", "a");

    assert_sync(m, 1, "--header", "X-Key: secret", NULL);
    assert_true(mirrored_has(m, mirrored_place(m, "/a.txt"), NULL));
    assert_true(mirrored_has(m, mirrored_place(m, "/b.txt"), "b"));
    assert_null(site_header(other, "/b.txt", 0, "X-Key"));
    site_free(other);
}
