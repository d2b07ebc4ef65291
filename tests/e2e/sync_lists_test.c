/*
 * sync_lists_test.c - `tidings sync` and `tidings audit` of a broker that has a
 * Resource List: they begin with it, and go on where it stands.
 */
#include <stdio.h>
#include <string.h>

#include "tests/support/build.h"
#include "tests/support/mirrored.h"
#include "tests/test.h"

static void
change_many(struct mirrored *m, unsigned first, unsigned last, const char *text)
{
    char path[32], all[64];

    for (unsigned n = first; n <= last; n++) {
        snprintf(path, sizeof(path), "/r/%u.txt", n);
        snprintf(all, sizeof(all), "%s %u", text ? text : "", n);
        mirrored_change(m, path, text ? all : NULL);
    }
    mirrored_post(m);
}

/* The set keeps one closed list of five entries, and nothing before it. */
static void
configure(struct mirrored *m)
{
    static const char *const as_json[] = {"Content-Type: application/json",
                                          NULL};

    assert_int_equal(
        http_request(&m->http, "PUT", "/sets/news", as_json,
                     SLICE("{\"rotateEntries\":5,\"retainLists\":1}")),
        201);
}

static void
build_list(struct mirrored *m)
{
    assert_int_equal(build(&m->http, "/sets/news/resourcelist"), 200);
}

#define assert_ends(m, expected, run, ...)                                    \
    do {                                                                      \
        int status_ = run((m), __VA_ARGS__);                                  \
        if (status_ != (expected))                                            \
            fail_msg("it ended with %d: %s", status_, (m)->command.err_text); \
    } while (0)

FIXTURE(mirrored_setup, mirrored_teardown);

/* joining has no race: what was posted behind the list, before
 * somebody read it, is followed from the position that the list tells; and of
 * what is in the list no history is needed. */
TEST(begins_with_the_list_and_goes_on_where_it_stands)
{
    struct mirrored *m = *state;

    configure(m);
    change_many(m, 1, 20, "first");
    change_many(m, 3, 7, NULL);
    build_list(m);
    change_many(m, 1, 2, "second");
    change_many(m, 20, 20, NULL);
    change_many(m, 21, 21, "new");
    mirrored_await_cut(m);
    assert_ends(m, 0, mirrored_sync, NULL);
    mirrored_assert_same(m);

    /* And from there on as ever. */
    change_many(m, 22, 22, "newer");
    assert_ends(m, 0, mirrored_sync, NULL);
    mirrored_assert_same(m);
}

/* A mirror that was away for longer than the log reaches back begins anew with
 * the list; what is gone at the source goes. */
TEST(begins_anew_where_the_history_was_cut)
{
    struct mirrored *m = *state;

    configure(m);
    change_many(m, 1, 8, "first");
    assert_ends(m, 0, mirrored_sync, NULL);
    change_many(m, 1, 3, NULL);
    change_many(m, 4, 20, "second");
    mirrored_await_cut(m);
    build_list(m);
    change_many(m, 5, 5, "third");
    assert_ends(m, 0, mirrored_sync, "--max-delete", "none", NULL);
    mirrored_assert_same(m);
}

/* An audit knows everything, though the log does not. */
TEST(is_audited_by_the_list)
{
    struct mirrored *m = *state;

    configure(m);
    change_many(m, 1, 20, "first");
    build_list(m);
    mirrored_await_cut(m);
    assert_ends(m, 0, mirrored_sync, NULL);
    assert_ends(m, 0, mirrored_audit, m->set_url, NULL);
    mirrored_write(m, mirrored_place(m, "/r/1.txt"), "other");
    assert_ends(m, 1, mirrored_audit, m->set_url, NULL);
    assert_non_null(strstr(m->command.out_text, "corrupt"));
    assert_ends(m, 0, mirrored_audit, m->set_url, "--repair", NULL);
    mirrored_assert_same(m);
}
