/*
 * run_command.c - a command of the user's for each change.
 */
#include "client/cli/run_command.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/cli/cli.h"

extern char **environ;

/* The environment variables of a command. */
static const struct variable {
    const char *name;
    size_t at; /* of its value, in struct execution */
} variables[] = {
    {"TIDINGS_SET", offsetof(struct execution, set)},
    {"TIDINGS_SEQ", offsetof(struct execution, seq)},
    {"TIDINGS_CHANGE", offsetof(struct execution, change)},
    {"TIDINGS_LOC", offsetof(struct execution, loc)},
    {"TIDINGS_DATETIME", offsetof(struct execution, datetime)},
    {"TIDINGS_POSITION", offsetof(struct execution, position)},
    {"TIDINGS_MEMENTO", offsetof(struct execution, memento)},
};

static bool
is_variable(const char *assignment)
{
    for (size_t i = 0; i < N_ELEMENTS(variables); i++) {
        size_t size = strlen(variables[i].name);

        if (!strncmp(assignment, variables[i].name, size) &&
            assignment[size] == '=')
            return true;
    }
    return false;
}

static void
environment_free(char **environment)
{
    for (size_t i = 0; environment && i < N_ELEMENTS(variables); i++)
        free(environment[i]);
    free(environment);
}

/* Our own environment, with the variables in front; NULL: no memory. Not by
 * setenv, which never frees old values. */
static char **
environment_new(const struct execution *e)
{
    size_t n = 0;
    char **all;

    while (environ[n])
        n++;
    all = calloc(N_ELEMENTS(variables) + n + 1, sizeof(*all));
    if (!all)
        return NULL;
    for (size_t i = 0; i < N_ELEMENTS(variables); i++) {
        const char *value;

        memcpy(&value, (const char *)e + variables[i].at, sizeof(value));
        if (asprintf(&all[i], "%s=%s", variables[i].name, value ? value : "") <
            0) {
            all[i] = NULL;
            environment_free(all);
            return NULL;
        }
    }
    n = N_ELEMENTS(variables);
    for (size_t i = 0; environ[i]; i++)
        if (!is_variable(environ[i]))
            all[n++] = environ[i];
    return all;
}

/* Starts the shell with `input` as its standard input; -1: errno says why. We
 * ignore SIGPIPE, and the library blocks it; the command gets the default. */
static pid_t
start_command(const char *command, int input, char **environment)
{
    const char *argv[] = {"sh", "-c", command, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, own;
    pid_t pid = -1;
    int rc;

    sigemptyset(&none);
    sigemptyset(&own);
    sigaddset(&own, SIGPIPE);
    sigaddset(&own, SIGINT);
    sigaddset(&own, SIGTERM);
    /* glibc: none of these fails. */
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &own);
    posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    rc = posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    if (!rc)
        rc = posix_spawn(&pid, "/bin/sh", &actions, &attributes,
                         (char *const *)argv, environment);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    errno = rc;
    return rc ? -1 : pid;
}

/* Writes the input; a command may leave some or all of it unread. */
static void
write_input(int fd, const char *text, size_t size)
{
    while (size) {
        ssize_t n = write(fd, text, size);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return;
        text += n;
        size -= (size_t)n;
    }
}

static int
await_command(pid_t pid)
{
    int status = 0;

    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return status;
}

bool
execute(const struct execution *e)
{
    const char *loc = e->loc ? e->loc : e->change;
    char **environment = environment_new(e);
    int ends[2];
    int status;
    pid_t pid;

    if (!environment || pipe2(ends, O_CLOEXEC)) {
        say("cannot run the command: %s",
            environment ? strerror(errno) : NO_MEMORY);
        environment_free(environment);
        return false;
    }
    pid = start_command(e->command, ends[0], environment);
    if (pid < 0)
        say("cannot run /bin/sh: %s", strerror(errno));
    environment_free(environment);
    close(ends[0]);
    if (pid >= 0)
        write_input(ends[1], e->line, e->size);
    close(ends[1]);
    if (pid < 0)
        return false;
    status = await_command(pid);
    if (status && !signals_came() && WIFSIGNALED(status))
        say("the command was ended by signal %d at %s", WTERMSIG(status), loc);
    else if (status && !signals_came())
        say("the command failed with status %d at %s",
            WIFEXITED(status) ? WEXITSTATUS(status) : -1, loc);
    return status == 0;
}
