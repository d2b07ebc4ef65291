/*
 * process.h - a server that a test starts: it dies with the test, even with a
 * killed one. A file keeps its standard error, and is printed when the test
 * program ends if a test of it failed.
 */
#ifndef TESTS_SUPPORT_PROCESS_H
#define TESTS_SUPPORT_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The steady clock. */
int64_t process_now_ms(void);

/* Names a new file for standard error; removed when the test program ends. */
void process_log(char *path, size_t size);

/* True if a line of such a file contains `part`. */
bool process_said(const char *log, const char *part);

/* Starts arguments[0]; NULL at their end. `log` is appended to; NULL: standard
 * error goes where standard output does. `*out` becomes its standard output,
 * with end of file when it has ended. */
pid_t process_start(const char *const *arguments, const char *log, int *out);

/* Reads what comes next; 0 at the end, -1 when it is `end_ms`. */
ssize_t process_read(int out, char *to, size_t size, int64_t end_ms);

/* Waits until it has ended; the exit status, or 128 and the number of the
 * signal that killed it. */
int process_status(pid_t pid);

/* True if the kernel says that the thread sleeps. */
bool process_thread_sleeps(pid_t thread);

#endif
