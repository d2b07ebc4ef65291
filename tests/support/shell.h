/*
 * shell.h - command lines as a user types them.
 */
#ifndef TESTS_SUPPORT_SHELL_H
#define TESTS_SUPPORT_SHELL_H

/* Runs the line with /bin/sh to its end. Returns its output, both streams; the
 * caller frees it. Fails the test, with that output, if it does not end with 0.
 */
char *shell(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same without its output. */
#define shell_do(...) free(shell(__VA_ARGS__))

#endif
