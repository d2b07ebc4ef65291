#include "client/cli/signals.h"

#include <signal.h>
#include <stddef.h>

/* A signal handler has no argument for them. Set before the handler is. */
static void (*stop_command)(void *user);
static void *stopped;
static volatile sig_atomic_t has_come;

static void
on_signal(int number)
{
    (void)number;
    has_come = 1;
    stop_command(stopped);
}

static void
handle_signals(void (*handler)(int number))
{
    struct sigaction action = {.sa_handler = handler};

    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

void
signals_begin(void (*stop)(void *user), void *user)
{
    stop_command = stop;
    stopped = user;
    handle_signals(on_signal);
}

static void
stop_client(void *user)
{
    td_stop(user);
}

void
signals_stop_client(struct td_client *client)
{
    signals_begin(stop_client, client);
}

void
signals_end(void)
{
    handle_signals(SIG_IGN);
}

bool
signals_came(void)
{
    return has_come;
}

void
signals_ignore_pipe(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};

    sigaction(SIGPIPE, &ignore, NULL);
}
