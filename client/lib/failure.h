/*
 * failure.h - why something on the loop failed, until it is told.
 */
#ifndef CLIENT_LIB_FAILURE_H
#define CLIENT_LIB_FAILURE_H

#include <stdarg.h>
#include <stdbool.h>

#include "client/tidings.h"

struct failure {
    enum td_status rc;
    unsigned status;        /* HTTP, of the last answer; 0: none */
    unsigned retry_after_s; /* what it asked for; 0: nothing */
    bool is_limit;   /* of the handle (room.h): another attempt does not help */
    char text[1024]; /* a sentence in UTF-8, no control characters */
};

void failure_clear(struct failure *failure);

/* Fills all but status and retry_after_s; control characters and what is no
 * UTF-8 are replaced, for part of it is another's text and it ends on
 * terminals. What is cut ends with a whole character. Returns `rc`. */
enum td_status failure_set(struct failure *failure, enum td_status rc,
                           const char *format, ...)
    __attribute__((format(printf, 3, 4)));

enum td_status failure_vset(struct failure *failure, enum td_status rc,
                            const char *format, va_list args);

/* TD_MEMORY, "no memory" */
enum td_status failure_memory(struct failure *failure);

#endif
