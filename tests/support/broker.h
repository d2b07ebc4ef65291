/*
 * broker.h - the real broker of this build, for a test: on a free port of the
 * loopback address, with a directory of its own.
 *
 *     struct broker b;
 *
 *     broker_open(&b, "--rotate-entries", "3", NULL);
 *     ... b.url is where it is ...
 *     broker_stop(&b);       it ended well
 *     broker_restart(&b);    same directory, same options, same port
 *     broker_close(&b);
 *
 * Or as fixture of a test, with no options: broker_setup, broker_teardown,
 * broker_of(state).
 *
 * The standard error of a broker goes to a file, which is printed when the test
 * program ends if a test of it failed. A broker dies with the test that started
 * it, also if the test is killed.
 */
#ifndef TESTS_SUPPORT_BROKER_H
#define TESTS_SUPPORT_BROKER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "tests/support/tempdir.h"

/* Arguments of one broker, the program's name and ours included. */
#define BROKER_ARGUMENTS_MAX 40

struct broker {
    struct tempdir dir;
    char data[300]; /* its data directory; not there before the first start */
    char url[64];   /* "http://127.0.0.1:40123", no slash at the end */
    unsigned port;
    int keeper;    /* keeps the port while it is down; 0: not opened */
    pid_t pid;     /* 0: not running */
    int out;       /* its standard output; end of file when it has ended */
    char log[300]; /* its standard error */
    char listen[64];
    const char *arguments[BROKER_ARGUMENTS_MAX];
};

/* Starts a broker; behind `b` its options, then NULL. They are lent until
 * broker_close. --listen and --data are given already, and so is
 * --resource-list-every, as 0, unless it is among them. Fails the test if it is
 * not ready in time. */
void broker_open(struct broker *b, ...) __attribute__((sentinel));

/* Ends it if it still runs, and removes its directory. */
void broker_close(struct broker *b);

/* SIGTERM; fails the test if it does not end with 0 in time. */
void broker_stop(struct broker *b);

/* SIGKILL: no chance to write another byte. */
void broker_kill9(struct broker *b);

/* Starts a stopped or killed broker again. */
void broker_restart(struct broker *b);

/* Waits for its end and returns the exit status; 128 and the signal's number if
 * one killed it. Fails the test if it does not end in time. */
int broker_wait(struct broker *b);

int broker_setup(void **state);
int broker_teardown(void **state);
struct broker *broker_of(void **state);

#endif
