/*
 * fuzz.h - what the fuzz targets have in common.
 *
 * A target is NAME_fuzz.c with LLVMFuzzerTestOneInput, which calls a reader
 * with hostile bytes and holds what it says against what must be true.
 * README.md tells how they are run.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/formats.h"
#include "proto/problem.h"
#include "proto/slice.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the program, which libFuzzer takes for a finding, unless it holds. */
#define FUZZ_ASSERT(what)                         \
    do {                                          \
        if (!(what))                              \
            fuzz_fail(#what, __FILE__, __LINE__); \
    } while (0)

_Noreturn void fuzz_fail(const char *what, const char *file, int line);

/* The first `size` bytes of what is left (all, if there are fewer), taken off.
 * A copy would not find a look beyond its end any better: libFuzzer's is exact.
 */
struct slice fuzz_take(struct slice *rest, size_t size);

bool fuzz_is_utf8(struct slice text);

/* A sentence is there, and can be quoted in an answer or on a terminal: UTF-8
 * without control characters. */
void fuzz_check_sentence(const char *sentence);
void fuzz_check_problem(const struct problem *why);

/*
 * Reads a document in one piece, and again, by the same reader, in small ones.
 * It is accepted both times, with the same entries, or not at all; what is
 * accepted goes every way that an entry goes (tests/support/again.h) and comes
 * back; what is refused has a reason.
 */
void fuzz_reading(const char *type, enum reader_use use, struct slice document);

/* The same, of a post that may be a message: what it calls itself comes back,
 * too, and is a key. */
void fuzz_taking_message(const char *type, struct slice document);

#endif
