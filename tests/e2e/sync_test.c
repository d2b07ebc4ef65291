/*
 * sync_test.c - `tidings sync` against a real broker and a web site: the mirror
 * is the source, whatever happens in between.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/faults.h"
#include "tests/support/mirrored.h"
#include "tests/support/patience.h"
#include "tests/test.h"

static const char *
path_of(unsigned n)
{
    static char path[32];

    snprintf(path, sizeof(path), "/r/%u.txt", n);
    return path;
}

/* Resources `first` to `last` become `text` and their number; NULL: deleted. */
static void
change_many(struct mirrored *m, unsigned first, unsigned last, const char *text)
{
    char all[64];

    for (unsigned n = first; n <= last; n++) {
        snprintf(all, sizeof(all), "%s %u", text ? text : "", n);
        mirrored_change(m, path_of(n), text ? all : NULL);
    }
}

#define assert_ends(m, expected, ...)                                         \
    do {                                                                      \
        int status_ = mirrored_sync((m), __VA_ARGS__);                        \
        if (status_ != (expected))                                            \
            fail_msg("it ended with %d: %s", status_, (m)->command.err_text); \
    } while (0)

FIXTURE(mirrored_setup, mirrored_teardown);

/* what there is, then what happened since. */
TEST(mirrors_what_there_is_and_what_happened_since)
{
    struct mirrored *m = *state;

    change_many(m, 1, 5, "first");
    mirrored_post(m);
    assert_ends(m, 0, NULL);
    assert_non_null(strstr(m->command.out_text, "done=5 failed=0"));
    assert_non_null(strstr(m->command.out_text, "position="));
    mirrored_assert_same(m);

    change_many(m, 2, 3, "second");
    change_many(m, 4, 4, NULL);
    change_many(m, 6, 6, "new");
    mirrored_post(m);
    assert_ends(m, 0, NULL);
    mirrored_assert_same(m);

    /* Each was fetched when it had changed, and not else. */
    assert_int_equal(site_count(m->site, path_of(1)), 1);
    assert_int_equal(site_count(m->site, path_of(2)), 2);
    assert_ends(m, 0, NULL);
    assert_int_equal(site_count(m->site, path_of(2)), 2);

    /* Deleted, and there again. */
    change_many(m, 1, 6, NULL);
    mirrored_post(m);
    assert_ends(m, 0, NULL);
    mirrored_assert_same(m);
    change_many(m, 1, 1, "again");
    mirrored_post(m);
    assert_ends(m, 0, NULL);
    mirrored_assert_same(m);
}

/* A change is in the mirror as soon as it is told. */
TEST(follows_each_change)
{
    struct mirrored *m = *state;

    change_many(m, 1, 1, "one");
    mirrored_post(m);
    mirrored_start(m);
    mirrored_await(m, "written", "/r/1.txt");
    mirrored_await(m, "caught-up", "-1\"");
    mirrored_assert_same(m);

    change_many(m, 1, 1, "two");
    change_many(m, 2, 2, "new");
    mirrored_post(m);
    mirrored_await(m, "caught-up", "-3\"");
    mirrored_assert_same(m);
    change_many(m, 1, 1, NULL);
    mirrored_post(m);
    mirrored_await(m, "deleted", "/r/1.txt");
    mirrored_assert_same(m);

    assert_int_equal(kill(m->command.pid, SIGTERM), 0);
    assert_int_equal(command_end(&m->command), 0);
    m->command.pid = 0;
}

/* Files are fetched also where there is never a moment of silence. */
TEST(keeps_up_with_a_source_that_never_rests)
{
    struct mirrored *m = *state;
    struct patience p = {.with = "a request for the file"};
    char text[32];
    unsigned i;

    change_many(m, 1, 1, "one");
    mirrored_post(m);
    mirrored_start(m);
    for (i = 0; !site_count(m->site, path_of(1)); i++) {
        snprintf(text, sizeof(text), "%u", i);
        change_many(m, 2, 2, text);
        mirrored_post(m);
        patience_step(&p);
    }
    snprintf(text, sizeof(text), "-%u\"", 1 + i); /* not before the last one */
    mirrored_await(m, "caught-up", text);
    mirrored_assert_same(m);
}

/* What changed while it was fetched is fetched anew. */
TEST(fetches_anew_what_changed_meanwhile)
{
    struct mirrored *m = *state;

    change_many(m, 1, 1, "one");
    mirrored_post(m);
    site_hold(m->site, path_of(1));
    mirrored_start(m);
    site_await(m->site, path_of(1), 1);
    change_many(m, 1, 1, "newer than one");
    change_many(m, 2, 2, "another");
    mirrored_post(m);
    mirrored_await(m, "written", "/r/2.txt");
    site_release(m->site, path_of(1));
    mirrored_await(m, "written", "/r/1.txt");
    mirrored_await(m, "caught-up", "-3\"");
    mirrored_assert_same(m);
}

/* killed in the middle, again and again; what was done is not done
 * twice, but for what was under way. */
TEST(goes_on_where_it_was_killed)
{
    enum { N = 400, KILLS = 8, NEW = 40 };
    struct mirrored *m = *state;
    unsigned total = 0;
    unsigned wanted = 3 * N / 4 + KILLS * NEW;

    change_many(m, 1, N, "first");
    mirrored_post(m);
    change_many(m, 1, N / 4, NULL);
    change_many(m, N / 2, N, "second");
    mirrored_post(m);
    for (unsigned i = 0; i < KILLS; i++) {
        char round[20];

        /* Not what any was before: it would be there already. */
        snprintf(round, sizeof(round), "round %u", i);
        change_many(m, N / 2 + 1, N / 2 + NEW, round);
        mirrored_post(m);
        mirrored_start(m);
        for (unsigned n = 0; n < 5 + 4 * i; n++)
            mirrored_await(m, "written", "");
        assert_int_equal(kill(m->command.pid, SIGKILL), 0);
        command_end(&m->command);
        m->command.pid = 0;
    }
    assert_ends(m, 0, NULL);
    mirrored_assert_same(m);
    for (unsigned n = 1; n <= N; n++)
        total += site_count(m->site, path_of(n));
    /* At most what is under way is fetched again. */
    assert_in_range(total, 3 * N / 4, wanted + KILLS * 64);
}

/* A resource of two sets is there as long as one of them has it. */
TEST(keeps_what_another_set_has)
{
    struct mirrored *m = *state;
    char other[200];
    char first[200];

    snprintf(first, sizeof(first), "%s", m->set_url);
    snprintf(other, sizeof(other), "%s/sets/other", m->broker.url);
    mirrored_change(m, "/shared.txt", "shared");
    mirrored_change(m, "/mine.txt", "mine");
    mirrored_post(m);
    mirrored_tell(m, "/shared.txt", false);
    mirrored_post_to(m, "other");
    assert_ends(m, 0, NULL);
    strcpy(m->set_url, other);
    assert_ends(m, 0, NULL);
    mirrored_assert_same(m);

    mirrored_tell(m, "/shared.txt", true);
    mirrored_post(m);
    strcpy(m->set_url, first);
    assert_ends(m, 0, NULL);
    mirrored_assert_same(m);

    mirrored_change(m, "/shared.txt", NULL);
    mirrored_post_to(m, "other");
    strcpy(m->set_url, other);
    assert_ends(m, 0, NULL);
    mirrored_assert_same(m);
}

/* A source that loses its mind does not take the mirror with it. */
TEST(refuses_to_delete_too_much)
{
    enum { N = 300 };
    struct mirrored *m = *state;
    struct faults faults;

    /* In the middle of the next hour: it does not end in between. */
    broker_stop(&m->broker);
    faults_open(&faults);
    faults_set_clock(&faults, 5400 - time(NULL) % 3600);
    broker_restart(&m->broker);
    faults_close(&faults);
    change_many(m, 1, N, "all");
    mirrored_post(m);
    assert_ends(m, 0, NULL);
    mirrored_assert_same(m);

    change_many(m, 1, 99, NULL); /* fewer than 100 are never too many */
    mirrored_post(m);
    assert_ends(m, 0, NULL);
    mirrored_assert_same(m);

    change_many(m, 100, 110, NULL); /* in the same hour */
    mirrored_post(m);
    assert_ends(m, 1, NULL);
    assert_non_null(
        strstr(m->command.err_text,
               "wants 110 of 300 files deleted (37 %), more than the 20 % that "
               "are allowed; 99 of them were told before and are deleted, the "
               "others are not"));
    assert_non_null(strstr(m->command.err_text, "--max-delete 37, or none"));
    for (unsigned n = 100; n <= 110; n++)
        assert_int_equal(access(mirrored_file(m, path_of(n)), F_OK), 0);

    assert_ends(m, 1, "--max-delete", "30", NULL);
    assert_ends(m, 0, "--max-delete", "37", NULL);
    mirrored_assert_same(m);
    change_many(m, 111, N, NULL);
    mirrored_post(m);
    assert_ends(m, 0, "--max-delete", "none", NULL);
    mirrored_assert_same(m);
}

/* Files of the user: the right one is taken, others are kept elsewhere. */
TEST(adopts_or_keeps_what_was_there_before)
{
    struct mirrored *m = *state;

    change_many(m, 1, 4, "text");
    mirrored_post(m);
    mirrored_write(m, mirrored_place(m, path_of(1)), "text 1");
    mirrored_write(m, mirrored_place(m, path_of(2)), "mine");
    mirrored_write(m, mirrored_place(m, "/r/3.txt/below"), "mine, too");
    assert_ends(m, 0, NULL);
    mirrored_assert_same(m);
    assert_int_equal(site_count(m->site, path_of(1)), 0);
    assert_non_null(strstr(m->command.err_text, "/r/2.txt was in the way"));
    assert_true(mirrored_has(m, ".tidings/found/1/2.txt", "mine"));
    assert_true(mirrored_has(m, ".tidings/found/2/3.txt/below", "mine, too"));
}

/* Links in the mirror lead nowhere. */
TEST(is_not_led_out_by_links)
{
    struct mirrored *m = *state;
    char out[300];
    char link[400];

    change_many(m, 1, 2, "ours");
    mirrored_post(m);
    snprintf(out, sizeof(out), "%s/out", m->home.path);
    assert_int_equal(mkdir(out, 0755), 0);
    mirrored_write(m, "../out/1.txt", "theirs");
    mirrored_write(m, mirrored_place(m, "/x"), "");
    snprintf(link, sizeof(link), "%s", mirrored_file(m, "/r"));
    assert_int_equal(symlink(out, link), 0);
    unlink(mirrored_file(m, "/x"));

    assert_ends(m, 0, NULL);
    mirrored_assert_same(m);
    assert_true(mirrored_has(m, "../out/1.txt", "theirs"));

    /* Put there while it is away, for what is deleted. */
    snprintf(link, sizeof(link), "%s", mirrored_file(m, path_of(1)));
    assert_int_equal(unlink(link), 0);
    strcat(out, "/1.txt");
    assert_int_equal(symlink(out, link), 0);
    change_many(m, 1, 1, NULL);
    mirrored_post(m);
    assert_ends(m, 0, NULL);
    assert_true(mirrored_has(m, "../out/1.txt", "theirs"));
}

/* What cannot be had is told, and tried again by the next run. */
TEST(tries_again_what_could_not_be_had)
{
    struct mirrored *m = *state;

    change_many(m, 1, 3, "text");
    mirrored_post(m);
    site_status(m->site, path_of(2), 404, NULL, 0);
    assert_ends(m, 1, NULL);
    assert_non_null(strstr(m->command.err_text, "/r/2.txt: given up: "));
    assert_non_null(strstr(m->command.out_text, "done=2 failed=1"));
    assert_int_equal(access(mirrored_file(m, path_of(1)), F_OK), 0);

    site_status(m->site, path_of(2), 0, NULL, 0);
    assert_ends(m, 0, NULL);
    mirrored_assert_same(m);
}

/* Bytes that are not what the source told never appear in the mirror. */
TEST(keeps_what_it_has_when_the_new_one_is_wrong)
{
    struct mirrored *m = *state;

    change_many(m, 1, 1, "right");
    mirrored_post(m);
    assert_ends(m, 0, NULL);
    change_many(m, 1, 1, "newer");
    mirrored_post(m);
    site_put(m->site, path_of(1), "text/plain", SLICE("wrong 1"));
    assert_ends(m, 1, NULL);
    assert_true(mirrored_has(m, mirrored_place(m, path_of(1)), "right 1"));
}

/* Who waits is told what for. */
TEST(tells_of_each_attempt_where_asked_to)
{
    struct mirrored *m = *state;

    change_many(m, 1, 2, "one");
    mirrored_post(m);
    site_status(m->site, path_of(1), 503, "Retry-After: 1", 1);
    assert_ends(m, 0, "--verbose", NULL);
    assert_non_null(strstr(m->command.err_text, "; it is tried again\n"));
    assert_non_null(strstr(m->command.err_text, "tidings: written: "));
    assert_non_null(strstr(m->command.err_text, "tidings: caught up at "));
    change_many(m, 1, 1, "two");
    mirrored_post(m);
    site_status(m->site, path_of(1), 503, "Retry-After: 1", 1);
    assert_ends(m, 0, "--json", NULL);
    assert_non_null(
        strstr(m->command.out_text, "{\"event\":\"failed\",\"loc\":\"http://"));
    change_many(m, 1, 1, "three");
    mirrored_post(m);
    site_status(m->site, path_of(1), 503, "Retry-After: 1", 1);
    assert_ends(m, 0, NULL);
    assert_string_equal(m->command.err_text, "");
}

/* Nobody reads its lines any more, as behind `| head`. */
TEST(ends_quietly_when_nobody_reads)
{
    struct mirrored *m = *state;

    change_many(m, 1, 1, "one");
    mirrored_post(m);
    mirrored_start(m);
    mirrored_await(m, "caught-up", "");
    command_deafen(&m->command);
    change_many(m, 1, 1, "two");
    mirrored_post(m);
    assert_int_equal(command_end(&m->command), 1);
    m->command.pid = 0;
    assert_string_equal(m->command.err_text, "");
}

/* --header goes to the server of the URL, and to no other. */
TEST(gives_its_header_to_the_source_alone)
{
    struct mirrored *m = *state;

    change_many(m, 1, 1, "one");
    mirrored_post(m);
    assert_ends(m, 0, "--header", "X-Key: secret", NULL);
    assert_null(site_header(m->site, path_of(1), 0, "X-Key"));
    assert_int_equal(mirrored_audit(m, "--header", "X-Key: secret", NULL), 2);
    assert_int_equal(
        mirrored_audit(m, m->set_url, "--header", "X-Key: secret", NULL), 0);
}

/* One at a time; and a directory that cannot be. */
TEST(says_what_is_wrong_with_the_directory)
{
    struct mirrored *m = *state;

    change_many(m, 1, 1, "one");
    mirrored_post(m);
    mirrored_start(m);
    mirrored_await(m, "caught-up", "");
    {
        struct command first = m->command;

        assert_ends(m, 1, NULL);
        assert_non_null(strstr(m->command.err_text, "another process"));
        m->command = first;
    }
    assert_int_equal(kill(m->command.pid, SIGTERM), 0);
    assert_int_equal(command_end(&m->command), 0);
    m->command.pid = 0;

    strcpy(m->dir, "/proc/nowhere");
    assert_ends(m, 1, NULL);
    assert_non_null(strstr(m->command.err_text, "/proc/nowhere"));
    assert_ends(m, 2, "--max-delete", "0", NULL);
    assert_ends(m, 2, "--per-host", "many", NULL);
}
