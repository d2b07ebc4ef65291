/*
 * random.h - random names and numbers, from the kernel.
 */
#pragma once

#include "proto/c.h"
#include "proto/status.h"

/* Writes `size` - 1 lower-case hexadecimal digits and a NUL. False: the kernel
 * has no random numbers, errno says why. */
MUST_CHECK bool random_hex(char *to, size_t size);

/* Returns a random number that need be no secret, for pauses. If the kernel has
 * none it is the middle, UINT32_MAX / 2. Never blocks. */
uint32_t random_u32(void);
