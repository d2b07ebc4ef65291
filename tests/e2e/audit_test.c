/*
 * audit_test.c - `tidings audit` finds each thing that can be wrong with a
 * mirror, and mends it.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/tidings_mirror.h"
#include "tests/support/mirrored.h"
#include "tests/support/patience.h"
#include "tests/test.h"

#define assert_sync(m) assert_int_equal(mirrored_sync((m), NULL), 0)

#define assert_audit(m, expected, ...)                                         \
    do {                                                                       \
        int status_ = mirrored_audit((m), __VA_ARGS__);                        \
        if (status_ != (expected))                                             \
            fail_msg("it ended with %d: %s%s", status_, (m)->command.out_text, \
                     (m)->command.err_text);                                   \
    } while (0)

static void
assert_said(struct mirrored *m, const char *text)
{
    if (!strstr(m->command.out_text, text))
        fail_msg("\"%s\" is not in: %s", text, m->command.out_text);
}

/* "missing http://.../a.txt at .../a.txt: " */
static void
assert_finding(struct mirrored *m, const char *what, const char *path)
{
    char line[800];

    snprintf(line, sizeof(line), "%-8s%s%s at %s: ", what, site_url(m->site),
             path, mirrored_place(m, path));
    assert_said(m, line);
}

static void
fill(struct mirrored *m)
{
    mirrored_change(m, "/a.txt", "a");
    mirrored_change(m, "/b.txt", "b");
    mirrored_change(m, "/c.txt", "c");
    mirrored_change(m, "/d/e.txt", "e");
    mirrored_post(m);
    assert_sync(m);
}

FIXTURE(mirrored_setup, mirrored_teardown);

TEST(finds_nothing_where_all_is_well)
{
    struct mirrored *m = *state;

    fill(m);
    assert_audit(m, 0, NULL);
    assert_said(m, "compared=4 missing=0 stale=0 extra=0 corrupt=0 repaired=0 "
                   "position=");
    assert_audit(m, 0, "--no-digests", NULL);
    assert_audit(m, 0, "--json", NULL);
    assert_said(m, "{\"compared\":4,\"missing\":0,");
    mirrored_assert_same(m);
}

TEST(tells_that_its_lines_could_not_be_written)
{
    struct mirrored *m = *state;
    char line[500];
    const char *argv[] = {"/bin/sh", "-c", line, NULL};
    struct command c;

    fill(m);
    assert_int_equal(unlink(mirrored_file(m, "/a.txt")), 0);
    snprintf(line, sizeof(line),
             "exec " BIN_DIR "/tidings audit %s --json > /dev/full", m->dir);
    command_start(&c, argv);
    assert_int_equal(command_end(&c), 1);
    assert_string_equal(c.err_text, "tidings: cannot write to standard output: "
                                    "No space left on device\n");
}

/* Each kind, found, left alone, and mended. */
TEST(finds_and_mends_what_is_wrong)
{
    struct mirrored *m = *state;
    char stray[400];

    fill(m);
    /* missing: its file is gone; and one that was never fetched. */
    assert_int_equal(unlink(mirrored_file(m, "/a.txt")), 0);
    mirrored_change(m, "/new.txt", "new");
    /* stale, and extra: told after the sync. */
    mirrored_change(m, "/b.txt", "B");
    mirrored_change(m, "/d/e.txt", NULL);
    mirrored_post(m);
    /* corrupt: of the same length. */
    mirrored_write(m, mirrored_place(m, "/c.txt"), "x");
    /* extra: nobody's. */
    snprintf(stray, sizeof(stray), "%s", mirrored_place(m, "/d/stray.txt"));
    mirrored_write(m, stray, "mine");

    assert_audit(m, 1, NULL);
    assert_finding(m, "missing", "/a.txt");
    assert_finding(m, "missing", "/new.txt");
    assert_finding(m, "stale", "/b.txt");
    assert_finding(m, "corrupt", "/c.txt");
    assert_finding(m, "extra", "/d/e.txt");
    assert_said(m, "/d/stray.txt: no resource of the mirror is there");
    assert_said(m, "missing=2 stale=1 extra=2 corrupt=1 repaired=0");
    assert_true(mirrored_has(m, mirrored_place(m, "/c.txt"), "x"));
    assert_true(mirrored_has(m, stray, "mine"));

    assert_audit(m, 0, "--repair", NULL);
    assert_said(m, "missing=2 stale=1 extra=2 corrupt=1 repaired=6");
    mirrored_assert_same(m);
    assert_true(mirrored_has(m, ".tidings/found/1/stray.txt", "mine"));
    assert_audit(m, 0, NULL);

    /* And a sync goes on from there. */
    mirrored_change(m, "/a.txt", "after");
    mirrored_post(m);
    assert_sync(m);
    mirrored_assert_same(m);
}

/* What cannot be mended is told; the rest is. */
TEST(says_what_could_not_be_mended)
{
    struct mirrored *m = *state;

    fill(m);
    assert_int_equal(unlink(mirrored_file(m, "/a.txt")), 0);
    assert_int_equal(unlink(mirrored_file(m, "/b.txt")), 0);
    site_status(m->site, "/a.txt", 404, NULL, 0);
    assert_audit(m, 1, "--repair", NULL);
    assert_said(m, "missing=2 stale=0 extra=0 corrupt=0 repaired=1");
    assert_true(mirrored_has(m, mirrored_place(m, "/b.txt"), "b"));
    site_status(m->site, "/a.txt", 0, NULL, 0);
    assert_audit(m, 0, "--repair", NULL);
    mirrored_assert_same(m);
}

/* A link in place of a file, a directory, a time that is another one. */
TEST(sees_what_stands_in_place_of_a_file)
{
    struct mirrored *m = *state;
    char file[800];

    fill(m);
    snprintf(file, sizeof(file), "%s", mirrored_file(m, "/a.txt"));
    assert_int_equal(unlink(file), 0);
    assert_int_equal(symlink("b.txt", file), 0);
    snprintf(file, sizeof(file), "%s", mirrored_file(m, "/b.txt"));
    assert_int_equal(unlink(file), 0);
    assert_int_equal(mkdir(file, 0755), 0);
    assert_audit(m, 1, NULL);
    assert_finding(m, "corrupt", "/a.txt");
    assert_finding(m, "corrupt", "/b.txt");
    assert_audit(m, 0, "--repair", NULL);
    mirrored_assert_same(m);

    /* Other bytes of the same length: without digests its time tells. */
    mirrored_write(m, mirrored_place(m, "/c.txt"), "x");
    assert_audit(m, 1, "--no-digests", NULL);
    assert_finding(m, "corrupt", "/c.txt");
}

TEST(refuses_to_delete_too_much)
{
    struct mirrored *m = *state;
    char path[32];

    for (int n = 0; n < 200; n++) {
        snprintf(path, sizeof(path), "/r/%d.txt", n);
        mirrored_change(m, path, "text");
    }
    mirrored_post(m);
    assert_sync(m);
    for (int n = 0; n < 150; n++) {
        snprintf(path, sizeof(path), "/r/%d.txt", n);
        mirrored_change(m, path, NULL);
    }
    mirrored_post(m);
    assert_audit(m, 1, "--repair", NULL);
    assert_non_null(strstr(m->command.err_text, "would delete 150 of 200"));
    assert_int_equal(access(mirrored_file(m, "/r/0.txt"), F_OK), 0);
    assert_audit(m, 0, "--repair", "--max-delete", "75", NULL);
    mirrored_assert_same(m);
}

/* A source that is away is waited for, but not in silence. */
TEST(says_that_the_source_is_away)
{
    struct mirrored *m = *state;

    fill(m);
    broker_stop(&m->broker);
    command_start(&m->command, (const char *const[]){BIN_DIR "/tidings",
                                                     "audit", m->dir, NULL});
    command_complains(&m->command, "connect to server; it is tried again\n");
    kill(m->command.pid, SIGTERM);
    assert_int_equal(command_end(&m->command), 1);
    m->command.pid = 0;
    assert_string_equal(m->command.out_text, "");
    assert_non_null(strstr(m->command.err_text, "stopped before all was"));
    broker_restart(&m->broker);
}

struct stopping {
    struct td_client *client;
    unsigned n_findings;
};

static void
stop_at(enum td_finding finding, const char *loc, const char *path,
        const char *why, void *user)
{
    struct stopping *stopping = user;

    (void)finding;
    (void)loc;
    (void)path;
    (void)why;
    stopping->n_findings++;
    td_stop(stopping->client);
}

/* Before all was compared nothing is mended. */
TEST(is_stopped_while_it_compares)
{
    struct mirrored *m = *state;
    struct stopping stopping = {.client = td_open()};
    const struct td_audit_options how = {
        .repair = 1, .on_finding = stop_at, .user = &stopping};
    char stray[400];

    fill(m);
    mirrored_write(m, mirrored_place(m, "/a.txt"), "x");
    mirrored_write(m, mirrored_place(m, "/c.txt"), "x");
    snprintf(stray, sizeof(stray), "%s", mirrored_place(m, "/d/stray.txt"));
    mirrored_write(m, stray, "mine");

    assert_int_equal(td_audit(stopping.client, NULL, m->dir, &how, NULL),
                     TD_STOPPED);
    assert_int_equal(stopping.n_findings, 1);
    assert_true(mirrored_has(m, stray, "mine"));
    assert_true(mirrored_has(m, mirrored_place(m, "/a.txt"), "x"));
    td_close(stopping.client);
    assert_audit(m, 1, NULL);
    assert_said(m, "missing=0 stale=0 extra=1 corrupt=2 repaired=0");
}

/* Nor is what is nobody's moved when it is stopped by that. */
TEST(is_stopped_while_it_looks_for_what_is_nobodys)
{
    struct mirrored *m = *state;
    struct stopping stopping = {.client = td_open()};
    const struct td_audit_options how = {
        .repair = 1, .on_finding = stop_at, .user = &stopping};

    fill(m);
    mirrored_write(m, "one.txt", "mine");
    mirrored_write(m, "other.txt", "mine");
    assert_int_equal(td_audit(stopping.client, NULL, m->dir, &how, NULL),
                     TD_STOPPED);
    td_close(stopping.client);
    assert_int_equal(stopping.n_findings, 1);
    assert_true(mirrored_has(m, "one.txt", "mine"));
    assert_true(mirrored_has(m, "other.txt", "mine"));
}

/* The history was cut, and there is no Resource List: nobody tells any more all
 * that there is. The mirror knows, as it has followed. */
TEST(audits_by_what_was_told_where_the_history_was_cut)
{
    static const char *const json[] = {"Content-Type: application/json", NULL};
    struct mirrored *m = *state;
    struct patience p = {.with = "the end of the first list"};

    fill(m);
    mirrored_change(m, "/a.txt", "A");
    mirrored_change(m, "/b.txt", NULL);
    mirrored_post(m);
    assert_sync(m);
    http_request(&m->http, "PUT", "/sets/news", json,
                 SLICE("{\"retainLists\":1,\"rotateEntries\":1}"));
    mirrored_change(m, "/f.txt", "f");
    mirrored_post(m);
    while (http_get(&m->http, "/sets/news/changes?after=0") != 410)
        patience_step(&p);

    mirrored_write(m, mirrored_place(m, "/c.txt"), "x");
    assert_audit(m, 1, NULL);
    assert_non_null(strstr(m->command.err_text, "compared with what it was"));
    assert_finding(m, "corrupt", "/c.txt");
    assert_finding(m, "missing", "/f.txt");
    assert_said(m, "missing=1 stale=0 extra=0 corrupt=1 repaired=0");
    assert_audit(m, 0, "--repair", NULL);
    mirrored_assert_same(m);
    assert_audit(m, 0, NULL);

    /* Nothing to go by. */
    snprintf(m->dir, sizeof(m->dir), "%s/other", m->home.path);
    assert_int_equal(mirrored_sync(m, NULL), 3);
    assert_audit(m, 3, NULL);
}

TEST(needs_a_mirror)
{
    struct mirrored *m = *state;

    assert_audit(m, 1, NULL);
    assert_int_equal(mkdir(m->dir, 0755), 0);
    assert_audit(m, 1, NULL);
    assert_non_null(strstr(m->command.err_text, "is no mirror"));
}
