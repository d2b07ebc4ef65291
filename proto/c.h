/*
 * c.h - the headers of the C library that nearly every file needs: types,
 * numbers, memory, texts and errors.
 *
 * The lowest headers include it, so a file gets it with the first header of the
 * project that it includes. Other headers of the system are included where they
 * are used: that line says what a file has to do with the world.
 */
#pragma once

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
