/*
 * httpdate.h - the dates of HTTP's headers (RFC 9110 section 5.6.7).
 */
#ifndef PROTO_HTTPDATE_H
#define PROTO_HTTPDATE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/slice.h"

/* "Fri, 20 Nov 2026 10:52:08 GMT" and a NUL. */
#define HTTPDATE_SIZE 30

/* No date. */
#define HTTPDATE_NONE INT64_MIN

/* Writes seconds since 1970, of the years 0000 to 9999. */
void httpdate_write(char to[HTTPDATE_SIZE], int64_t seconds);

/* Reads any of the three forms, as seconds since 1970; HTTPDATE_NONE: it is
 * none of them. A year of two digits depends on the present year: only for that
 * it reads the clock. */
int64_t httpdate_read(struct slice text);

#endif
