/*
 * refusal.h - an error's answer, as RFC 9457 has it: application/problem+json
 * with type, title, status and detail, and the entry where it is known.
 */
#ifndef TESTS_SUPPORT_REFUSAL_H
#define TESTS_SUPPORT_REFUSAL_H

#include <stdint.h>

#include "proto/slice.h"
#include "tests/support/http.h"
#include "tests/support/wire.h"

/* The last answer has this status, and the detail has `part` in it. */
#define assert_refused(h, status, part) \
    refusal_assert(h, status, part, __FILE__, __LINE__)

/* The same, and entry `n` (from 1) is the reason; 0: none is named. */
#define assert_entry_refused(h, status, part, n) \
    refusal_assert_entry(h, status, part, n, __FILE__, __LINE__)

/* The same of an answer by raw bytes. */
#define assert_wire_refused(a, status, part) \
    refusal_assert_wire(a, status, part, __FILE__, __LINE__)

void refusal_assert(struct http *h, long status, const char *part,
                    const char *file, int line);
void refusal_assert_entry(struct http *h, long status, const char *part,
                          uint64_t n, const char *file, int line);
void refusal_assert_wire(const struct wire_answer *a, unsigned status,
                         const char *part, const char *file, int line);

#endif
