/*
 * httpdate.h - the dates of HTTP's headers, as servers write them today (RFC
 * 9110 section 5.6.7): "Sun, 06 Nov 1994 08:49:37 GMT".
 */
#ifndef CLIENT_LIB_HTTPDATE_H
#define CLIENT_LIB_HTTPDATE_H

#include <stdint.h>

/* Bytes of a date, and a NUL. */
#define HTTPDATE_SIZE 30

/* Writes `seconds` since 1970. */
void httpdate_write(char to[HTTPDATE_SIZE], int64_t seconds);

/* Microseconds since 1970; DATETIME_NONE: it is no such date. NULL is none. */
int64_t httpdate_read(const char *text);

#endif
