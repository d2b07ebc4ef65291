/*
 * sync_sources_test.c - `tidings sync` and `tidings audit` of a source: all its
 * sets, those that come and those that go.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/mirrored.h"
#include "tests/test.h"

#define assert_ends(m, expected, status)                                       \
    do {                                                                       \
        int status_ = (status);                                                \
        if (status_ != (expected))                                             \
            fail_msg("it ended with %d: %s%s", status_, (m)->command.out_text, \
                     (m)->command.err_text);                                   \
    } while (0)
#define assert_sync(m, expected, ...) \
    assert_ends((m), (expected), mirrored_sync((m), __VA_ARGS__))
#define assert_audit(m, expected, ...) \
    assert_ends((m), (expected), mirrored_audit((m), __VA_ARGS__))

static void
assert_told(struct mirrored *m, const char *text)
{
    if (!strstr(m->command.err_text, text))
        fail_msg("\"%s\" is not in: %s", text, m->command.err_text);
}

/* Two sets, and the source that they are of. */
static void
begin_source(struct mirrored *m)
{
    mirrored_change(m, "/a.txt", "a");
    mirrored_post(m);
    mirrored_change(m, "/b.txt", "b");
    mirrored_post_to(m, "other");
    snprintf(m->set_url, sizeof(m->set_url), "%s/", m->broker.url);
}

FIXTURE(mirrored_setup, mirrored_teardown);

/* */
TEST(a_source_stands_for_all_its_sets)
{
    struct mirrored *m = *state;

    begin_source(m);
    assert_sync(m, 0, NULL);
    mirrored_assert_same(m);
    assert_audit(m, 0, NULL);
    assert_string_equal(m->command.err_text, "");

    mirrored_change(m, "/b.txt", "newer");
    mirrored_post_to(m, "other");
    mirrored_change(m, "/a.txt", NULL);
    mirrored_post(m);
    assert_sync(m, 0, NULL);
    mirrored_assert_same(m);
}

/* the source's sets stand in several Source Descriptions, under an
 * index, the one that comes later in a new one. */
TEST(a_source_with_an_index_stands_for_all_its_sets)
{
    static const char *const sets[] = {"third", "fourth", "fifth"};
    struct mirrored *m = *state;

    http_close(&m->http);
    broker_close(&m->broker);
    broker_open(&m->broker, "--description-sets", "2", NULL);
    http_open(&m->http, m->broker.url);
    begin_source(m);
    for (size_t i = 0; i < 3; i++) {
        char path[] = {'/', (char)('c' + i), '.', 't', 'x', 't', '\0'};

        mirrored_change(m, path, "text");
        mirrored_post_to(m, sets[i]);
        assert_sync(m, 0, NULL);
        mirrored_assert_same(m);
    }
    assert_int_equal(http_get(&m->http, "/.well-known/resourcesync"), 200);
    assert_non_null(memmem(m->http.body.data, m->http.body.size,
                           "<sitemapindex", strlen("<sitemapindex")));
    assert_audit(m, 0, NULL);
    assert_string_equal(m->command.err_text, "");
}

/* Nobody has to begin anew for it. */
TEST(a_set_that_comes_later_is_followed)
{
    struct mirrored *m = *state;
    const char *const argv[] = {
        BIN_DIR "/tidings", "sync",   m->set_url, m->dir,
        "--json",           "--poll", "1",        NULL};

    begin_source(m);
    command_start(&m->command, argv);
    mirrored_await(m, "written", ""); /* /a.txt and /b.txt, or the other way */
    mirrored_await(m, "written", "");
    mirrored_change(m, "/c.txt", "c");
    mirrored_post_to(m, "third");
    mirrored_await(m, "written", "/c.txt");
    mirrored_change(m, "/a.txt", "after");
    mirrored_post(m);
    mirrored_await(m, "written", "/a.txt");
    mirrored_assert_same(m);
    assert_int_equal(kill(m->command.pid, SIGTERM), 0);
    assert_int_equal(command_end(&m->command), 0);
    m->command.pid = 0;
}

/* A source that forgets a set does not empty the mirror; who repairs it agrees.
 */
TEST(a_set_that_is_gone_is_told_and_stays_until_the_repair)
{
    struct mirrored *m = *state;

    begin_source(m);
    assert_sync(m, 0, NULL);
    assert_int_equal(
        http_request(&m->http, "DELETE", "/sets/other", NULL, SLICE("")), 204);
    assert_sync(m, 0, NULL);
    assert_told(m, "/sets/other is not offered any more: what the mirror has");
    mirrored_assert_same(m);

    assert_audit(m, 1, NULL);
    assert_non_null(strstr(m->command.out_text, "extra=1"));
    mirrored_assert_same(m);
    assert_audit(m, 0, "--repair", NULL);
    site_delete(m->site, "/b.txt");
    mirrored_change(m, "/b.txt", NULL);
    mirrored_assert_same(m);
}

/* One set that cannot go on does not keep the others from it; the end tells. */
TEST(one_set_that_fails_is_told_and_the_others_go_on)
{
    struct mirrored *m = *state;
    char path[40];

    begin_source(m);
    for (unsigned i = 0; i < 150; i++) {
        snprintf(path, sizeof(path), "/r/%u.txt", i);
        mirrored_change(m, path, "text");
    }
    mirrored_post(m);
    assert_sync(m, 0, NULL);

    for (unsigned i = 0; i < 150; i++) {
        snprintf(path, sizeof(path), "/r/%u.txt", i);
        mirrored_tell(m, path, true);
    }
    mirrored_post(m);
    mirrored_change(m, "/b.txt", "newer");
    mirrored_post_to(m, "other");
    assert_sync(m, 1, NULL);
    assert_told(m, "/sets/news wants 150 of 152 files deleted");
    assert_told(m, "are allowed; nothing of it was done");
    mirrored_assert_same(m);
}

/* What is no source is not asked by any audit, and hides no set. */
TEST(a_source_that_never_was_one_is_forgotten)
{
    struct mirrored *m = *state;
    char right[sizeof(m->set_url)];

    mirrored_change(m, "/a.txt", "a");
    mirrored_post(m);
    strcpy(right, m->set_url);
    snprintf(m->set_url, sizeof(m->set_url), "%s/nothing", site_url(m->site));
    assert_sync(m, 1, NULL);
    assert_audit(m, 1, NULL);
    assert_told(m, "the mirror was never filled");

    strcpy(m->set_url, right);
    assert_sync(m, 0, NULL);
    assert_audit(m, 0, NULL);
    assert_audit(m, 0, m->set_url, NULL);
}

/* Nor does the repair by one of its sets, which knows nothing of the others. */
TEST(a_mirror_is_audited_by_the_source_that_it_is_of)
{
    struct mirrored *m = *state;
    char set[sizeof(m->set_url)];

    strcpy(set, m->set_url);
    begin_source(m);
    assert_sync(m, 0, NULL);
    assert_audit(m, 2, set, "--repair", NULL);
    assert_told(m, "the mirror is of ");
    mirrored_assert_same(m);
    assert_audit(m, 2, "http://127.0.0.1:1/", NULL);
    assert_audit(m, 0, m->set_url, "--repair", NULL);
    mirrored_assert_same(m);
}

/* Several sources of one mirror are audited together, and none is told to have
 * lost the sets of the other. */
TEST(several_sources_are_audited_together)
{
    struct mirrored *m = *state;
    char first[sizeof(m->set_url)];

    strcpy(first, m->set_url);
    mirrored_change(m, "/a.txt", "a");
    mirrored_post(m);
    mirrored_change(m, "/b.txt", "b");
    mirrored_post_to(m, "other");
    assert_sync(m, 0, NULL);
    snprintf(m->set_url, sizeof(m->set_url), "%s/sets/other", m->broker.url);
    assert_sync(m, 0, NULL);
    assert_string_equal(m->command.err_text, "");

    assert_audit(m, 0, NULL);
    assert_string_equal(m->command.err_text, "");
    assert_audit(m, 2, m->set_url, NULL);
    assert_told(m, "one of several sources");
    assert_int_equal(unlink(mirrored_file(m, "/a.txt")), 0);
    assert_audit(m, 0, "--repair", NULL);
    mirrored_assert_same(m);
}
