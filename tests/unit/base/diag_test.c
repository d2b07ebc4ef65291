#include "broker/base/diag.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "broker/base/clock.h"
#include "tests/support/tempdir.h"

/* Standard error goes to a file while a test runs. */
struct caught {
    struct tempdir dir;
    int file;
    int real;
};

static int64_t
a_moment(void)
{
    return 1792482180123999; /* 2026-10-20T07:43:00.123999Z */
}

static int
catch_setup(void **state)
{
    struct caught *c = calloc(1, sizeof(*c));

    tempdir_open(&c->dir);
    c->file = openat(c->dir.fd, "stderr",
                     O_CREAT | O_RDWR | O_APPEND | O_CLOEXEC, 0644);
    c->real = dup(STDERR_FILENO);
    dup2(c->file, STDERR_FILENO);
    clock_replace(a_moment);
    *state = c;
    return 0;
}

static int
catch_teardown(void **state)
{
    struct caught *c = *state;

    clock_replace(NULL);
    diag_set_level(DIAG_INFO);
    dup2(c->real, STDERR_FILENO);
    close(c->real);
    close(c->file);
    tempdir_close(&c->dir);
    free(c);
    return 0;
}

/* Compares with real standard error back, so that a failure can be read. */
static void
assert_caught(void **state, const char *text)
{
    struct caught *c = *state;

    dup2(c->real, STDERR_FILENO);
    assert_file(c->dir.fd, "stderr", text);
}

static void
a_line_has_time_level_area_and_text(void **state)
{
    diag(DIAG_INFO, "log", "list %d of set %s is closed", 3, "demo");
    diag(DIAG_WARNING, "net", "slow");
    diag(DIAG_ERROR, "net", "gone");

    assert_caught(state, "2026-10-20T07:43:00.123Z info  log: list 3 of set "
                         "demo is closed\n"
                         "2026-10-20T07:43:00.123Z warning net: slow\n"
                         "2026-10-20T07:43:00.123Z error net: gone\n");
}

static void
lines_above_the_level_are_not_written(void **state)
{
    diag(DIAG_DEBUG, "net", "unseen");
    diag_set_level(DIAG_ERROR);
    diag(DIAG_WARNING, "net", "unseen");
    diag_set_level(DIAG_DEBUG);
    diag(DIAG_DEBUG, "net", "seen");

    assert_caught(state, "2026-10-20T07:43:00.123Z debug net: seen\n");
}

static void
control_characters_become_question_marks(void **state)
{
    diag(DIAG_INFO, "net", "%s", "a\nb\x1b[2J\x7f\tc \xc2\x9b \xc3\xa9");

    assert_caught(state, "2026-10-20T07:43:00.123Z info  net: "
                         "a?b?[2J??c ?? \xc3\xa9\n");
}

static void
a_long_line_is_cut_at_a_whole_character(void **state)
{
    static const char head[] = "2026-10-20T07:43:00.123Z info  net: ";
    struct caught *c = *state;
    char text[3001];
    char lines[3][1100];
    FILE *file;

    for (size_t i = 0; i < sizeof(text) - 1; i += 3)
        memcpy(text + i, "\xe2\x82\xac", 3);
    text[sizeof(text) - 1] = '\0';

    /* Three, so that the limit falls on each byte of a character. */
    diag(DIAG_INFO, "net", "%s", text);
    diag(DIAG_INFO, "net", "x%s", text);
    diag(DIAG_INFO, "net", "xx%s", text);

    dup2(c->real, STDERR_FILENO);
    file = fdopen(dup(c->file), "r");
    assert_non_null(file);
    rewind(file);
    for (int i = 0; i < 3; i++) {
        assert_non_null(fgets(lines[i], sizeof(lines[i]), file));
        assert_in_range(strlen(lines[i]), 990, 1010);
        assert_string_equal(lines[i] + strlen(lines[i]) - 7,
                            "\xe2\x82\xac...\n");
        assert_memory_equal(lines[i], head, sizeof(head) - 1);
    }
    fclose(file);
}

static void
errno_is_what_it_was(void **state)
{
    (void)state;

    close(STDERR_FILENO);
    errno = ENOSPC;
    diag(DIAG_INFO, "net", "nobody reads this");

    assert_int_equal(errno, ENOSPC);
}

static void *
write_lines(void *user)
{
    for (int i = 0; i < 100; i++)
        diag(DIAG_INFO, user, "%s", "------------------------------");
    return NULL;
}

static void
lines_of_several_threads_do_not_mix(void **state)
{
    static char areas[4][2] = {"a", "b", "c", "d"};
    struct caught *c = *state;
    pthread_t threads[4];
    char line[100];
    int n = 0;
    FILE *file;

    for (int i = 0; i < 4; i++)
        assert_int_equal(
            pthread_create(&threads[i], NULL, write_lines, areas[i]), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);

    dup2(c->real, STDERR_FILENO);
    file = fdopen(dup(c->file), "r");
    assert_non_null(file);
    rewind(file);
    for (; fgets(line, sizeof(line), file); n++) {
        assert_memory_equal(line, "2026-10-20T07:43:00.123Z info  ", 31);
        assert_string_equal(line + 32, ": ------------------------------\n");
    }
    fclose(file);
    assert_int_equal(n, 400);
}

static void
levels_are_read_by_name(void **state)
{
    enum diag_level level = DIAG_ERROR;

    (void)state;
    assert_int_equal(diag_level_of(SLICE("debug"), &level), STATUS_OK);
    assert_int_equal(level, DIAG_DEBUG);
    assert_int_equal(diag_level_of(SLICE("warning"), &level), STATUS_OK);
    assert_int_equal(level, DIAG_WARNING);
    assert_int_equal(diag_level_of(SLICE("warn"), &level), STATUS_INVALID);
    assert_int_equal(diag_level_of(SLICE(""), &level), STATUS_INVALID);
}

#define CATCHING(test) \
    cmocka_unit_test_setup_teardown(test, catch_setup, catch_teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        CATCHING(a_line_has_time_level_area_and_text),
        CATCHING(lines_above_the_level_are_not_written),
        CATCHING(control_characters_become_question_marks),
        CATCHING(a_long_line_is_cut_at_a_whole_character),
        CATCHING(errno_is_what_it_was),
        CATCHING(lines_of_several_threads_do_not_mix),
        cmocka_unit_test(levels_are_read_by_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
