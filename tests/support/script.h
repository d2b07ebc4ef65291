/*
 * script.h - a test as text: steps, each a verb and its arguments.
 *
 *     "post demo 2; told demo(1-3); ack demo(1-3); has lag 0"
 *
 * A stage knows its verbs. A step that fails ends the test; the tear-down of
 * the stage calls script_finish, which then names the step.
 */
#ifndef TESTS_SUPPORT_SCRIPT_H
#define TESTS_SUPPORT_SCRIPT_H

#include <stdbool.h>

/* Does one step. `rest` stands behind the verb, and may be changed. Returns
 * false if there is no such verb. */
typedef bool script_step_fn(void *user, const char *verb, char *rest);

/* Scripts do not nest. */
void script_run(const char *script, script_step_fn *step, void *user);

/* Prints the step at which the last script ended too early, if it did. */
void script_finish(void);

/* Takes the next word off; "" at the end. */
char *script_word(char **rest);

/* The same, of a number: decimal, or hexadecimal behind "0x". */
unsigned long script_number(char **rest);

/* Fails, and prints `seen`, unless the two are equal. */
void script_expect(const char *seen, const char *wanted);
void script_expect_number(unsigned long seen, unsigned long wanted);

/* The same, unless `wanted` is in it. */
void script_expect_in(const char *seen, const char *wanted);

#endif
