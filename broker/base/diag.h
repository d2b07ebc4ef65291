/*
 * diag.h - diagnostic lines on standard error, for the operator.
 *
 *   2026-11-20T07:43:00.123Z info  log: list 3 of set demo is closed
 *
 * Any thread; a line is written with one write().
 */
#ifndef BROKER_BASE_DIAG_H
#define BROKER_BASE_DIAG_H

#include "proto/slice.h"
#include "proto/status.h"

enum diag_level { DIAG_ERROR, DIAG_WARNING, DIAG_INFO, DIAG_DEBUG };

/* Lines above `level` are not written. Before threads start. */
void diag_set_level(enum diag_level level);

/* "error", "warning", "info", "debug". STATUS_INVALID: none of these. */
MUST_CHECK enum status diag_level_of(struct slice name, enum diag_level *level);

void diag(enum diag_level level, const char *area, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
