/*
 * clock.h - the time.
 */
#pragma once

#include "proto/c.h"

/* Microseconds since 1970, UTC; may be set back by the administrator. */
int64_t clock_now_us(void);

/* Microseconds since some moment; never goes back: for waiting, measuring. */
int64_t clock_steady_us(void);
int64_t clock_steady_ms(void); /* the same in milliseconds */
