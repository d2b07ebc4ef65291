/*
 * watched.c - a directory, a watch of it, and its broker.
 */
#include "tests/support/watched.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/test.h"

#define TIDINGS BIN_DIR "/tidings"

int
watched_setup(void **state)
{
    struct watched *w = calloc(1, sizeof(*w));

    assert_non_null(w);
    *state = w;
    broker_open(&w->broker, NULL);
    tempdir_open(&w->home);
    snprintf(w->dir, sizeof(w->dir), "%s/files", w->home.path);
    assert_int_equal(mkdir(w->dir, 0755), 0);
    snprintf(w->set_url, sizeof(w->set_url), "%s/sets/files", w->broker.url);
    fold_open(&w->fold, w->broker.url, "files", WATCHED_BASE);
    return 0;
}

int
watched_teardown(void **state)
{
    struct watched *w = *state;

    fold_close(&w->fold);
    broker_close(&w->broker);
    tempdir_close(&w->home);
    free(w);
    return 0;
}

const char *
watched_at(struct watched *w, const char *path)
{
    snprintf(w->path, sizeof(w->path), "%s/%s", w->dir, path);
    return w->path;
}

/* "e": a watch that is started must not have it open for writing. */
void
watched_write(struct watched *w, const char *path, const char *text)
{
    FILE *f = fopen(watched_at(w, path), "we");

    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

void
watched_mkdir(struct watched *w, const char *path)
{
    assert_int_equal(mkdir(watched_at(w, path), 0755), 0);
}

void
watched_unlink(struct watched *w, const char *path)
{
    assert_int_equal(unlink(watched_at(w, path)), 0);
}

void
watched_move(struct watched *w, const char *from, const char *to)
{
    char old[sizeof(w->path)];

    snprintf(old, sizeof(old), "%s", watched_at(w, from));
    assert_int_equal(rename(old, watched_at(w, to)), 0);
}

void
watched_begin(struct watched *w, const char *const *more)
{
    const char *argv[20] = {TIDINGS,    "watch",      w->dir,
                            w->set_url, "--base-uri", WATCHED_BASE};

    for (size_t i = 0; more[i]; i++)
        argv[6 + i] = more[i];
    command_start(&w->command, argv);
}

void
watched_ready(struct watched *w)
{
    const char *line = command_line(&w->command);

    if (strncmp(line, "tidings: watching ", 18))
        fail_msg("not ready: %s", line);
}

void
watched_stop(struct watched *w)
{
    assert_int_equal(kill(w->command.pid, SIGTERM), 0);
    assert_int_equal(command_end(&w->command), 0);
}

void
watched_mark(struct watched *w)
{
    static unsigned n;
    char name[40];

    snprintf(name, sizeof(name), "mark-%u", ++n);
    watched_write(w, name, name);
    fold_await_change(&w->fold, name, "created");
}
