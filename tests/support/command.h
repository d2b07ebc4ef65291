/*
 * command.h - a program run by a test: its input, its output, its exit status.
 * It dies with the test that started it.
 */
#ifndef TESTS_SUPPORT_COMMAND_H
#define TESTS_SUPPORT_COMMAND_H

#include <sys/types.h>

struct command {
    pid_t pid;
    int in; /* its standard streams; -1: closed */
    int out;
    int err;
    char out_text[65536]; /* read by the last call */
    char err_text[65536];
};

/* Starts argv[0] with the arguments argv, NULL at their end. */
void command_start(struct command *c, const char *const *argv);

/* Gives it `text`, then the end of its standard input. */
void command_give(struct command *c, const char *text);

/* Waits for one more line of its standard output and returns it, without the
 * newline; lent until the next call. Fails the test where none comes. */
const char *command_line(struct command *c);

/* Closes the reading end of its standard output: the program gets EPIPE when it
 * writes. */
void command_deafen(struct command *c);

/* Reads all that it still says and waits for its end. The exit status, or 128
 * and the number of the signal that killed it. */
int command_end(struct command *c);

#endif
