/*
 * shown_address.h - addresses as people may see them: in messages, logs,
 * reports, and names of files.
 *
 *     https://ann:pw@example.org/feed?key=7f3a&page=2
 *             *@example.org/feed?key=*&page=2
 *
 * It hides the name and password before the host, and the values of parameters
 * whose names end like those of secrets: key, token, sig, password and so on. A
 * value hidden in vain costs the reader a look at the command line; a secret
 * shown stays in a log for years. Nobody can tell a secret in a path from a
 * name: it shows paths.
 *
 * Two addresses may look alike then. Whoever needs them apart adds a hash of
 * the whole ones.
 *
 * Pure; any thread.
 */
#pragma once

#include "proto/slice.h"

/* Hides the secrets of all addresses in a text, in place: each becomes a star,
 * so the text never grows. NULL is allowed; returns the text. */
char *shown_address(char *text);
