/*
 * place.h - a position kept in a file, followed by a newline.
 */
#ifndef CLIENT_CLI_PLACE_H
#define CLIENT_CLI_PLACE_H

#include <stdbool.h>
#include <stddef.h>

/* Longest position. */
#define PLACE_MAX 64

/* Reads the position in the file `path` into `position`: 1 if there is one, 0
 * if there is no file, -1 (said on standard error) if it cannot be read or
 * holds no position. */
int place_read(const char *path, char position[PLACE_MAX]);

/* Writes it: the file holds the old position or the new one, whole, after a
 * crash too. False (said on standard error): the old one. */
bool place_write(const char *path, const char *position);

#endif
