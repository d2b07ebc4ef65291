/*
 * random.h - random names that nobody can guess, from the kernel.
 */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/status.h"

/* Writes `size` - 1 lower-case hexadecimal digits and a NUL. False: the kernel
 * has no random numbers, errno says why. */
MUST_CHECK bool random_hex(char *to, size_t size);

#endif
