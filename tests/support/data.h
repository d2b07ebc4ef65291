/*
 * data.h - a broker's data directory: did anybody change it?
 */
#ifndef TESTS_SUPPORT_DATA_H
#define TESTS_SUPPORT_DATA_H

#include "proto/hash.h"

/* Of the names and bytes of all files in it. Left out is what a start writes,
 * and nobody would miss: the index of the WAL, a WAL without a byte, and the
 * pid of the last owner in the lock. Another sum: something was changed. */
struct digest data_sum(const char *dir);

#endif
