/*
 * plain_json.h - JSON of a broker as text that a terminal can show.
 *
 * All texts are valid JSON (json_parse_text has accepted them). Their strings
 * may be hostile: no control character of them is printed.
 */
#ifndef CLIENT_CLI_PLAIN_JSON_H
#define CLIENT_CLI_PLAIN_JSON_H

#include <stddef.h>

#include "client/cli/cli.h"
#include "proto/slice.h"

/* Reads a member of an object: a string decoded, a number, true or false as it
 * stands. "": there is none, or it is something else. Cuts what is too long. */
void plain_json_text(struct slice object, const char *name, char *to,
                     size_t size);

/* Prints JSON as one line. */
void plain_json_line(struct slice json);

/* Prints a line: NAME VALUE, as `plain_json_show` does. */
void plain_json_pair(const char *name, const char *value);

/* Prints all values in such lines, "lists.open 2". Not EXIT_GOOD: no memory. */
enum exit_code plain_json_show(struct slice json);

#endif
