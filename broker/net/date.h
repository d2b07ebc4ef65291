/*
 * date.h - the dates of HTTP's headers (RFC 9110 section 5.6.7).
 */
#ifndef BROKER_NET_DATE_H
#define BROKER_NET_DATE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/slice.h"

/* "Fri, 20 Nov 2026 10:52:08 GMT" and a NUL. */
#define DATE_SIZE 30

/* No date. */
#define DATE_NONE INT64_MIN

/* Writes seconds since 1970, of the years 0000 to 9999. */
void date_write(char to[DATE_SIZE], int64_t seconds);

/* Reads any of the three forms; DATE_NONE: it is none of them. */
int64_t date_read(struct slice text);

#endif
