/*
 * fuzz.h - what the fuzz targets share.
 *
 *     FUZZ_TARGET(datetime, text)
 *     {
 *         FUZZ_ASSERT(...);
 *     }
 *
 * defines the target of datetime_fuzz.c: it gives `text`, a slice of hostile
 * bytes, to a reader and checks what the reader promises. The preset "fuzz"
 * links each target with libFuzzer; every other build links all of them into
 * fuzz_replay. README.md explains both.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/buf.h"
#include "proto/input/input_formats.h"
#include "proto/problem.h"
#include "proto/slice.h"

#ifdef FUZZ_EXPLORE
#define FUZZ_TARGET(target, input)                                 \
    static void target_##target(struct slice input);               \
                                                                   \
    int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);  \
                                                                   \
    int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)   \
    {                                                              \
        target_##target((struct slice){(const char *)data, size}); \
        return 0;                                                  \
    }                                                              \
                                                                   \
    static void target_##target(struct slice input)
#else
#define FUZZ_TARGET(target, input)                                   \
    static void target_##target(struct slice input);                 \
                                                                     \
    __attribute__((constructor)) static void add_##target(void)      \
    {                                                                \
        static struct fuzz_target this = {#target, target_##target}; \
                                                                     \
        fuzz_add_target(&this);                                      \
    }                                                                \
                                                                     \
    static void target_##target(struct slice input)
#endif

struct fuzz_target {
    const char *name;
    void (*run)(struct slice input);
    struct fuzz_target *next;
};

/* Adds a target to those that fuzz_replay knows (replay.c). */
void fuzz_add_target(struct fuzz_target *target);

/* Aborts unless `what` holds. libFuzzer and fuzz_replay report the input. */
#define FUZZ_ASSERT(what)                         \
    do {                                          \
        if (!(what))                              \
            fuzz_fail(#what, __FILE__, __LINE__); \
    } while (0)

_Noreturn void fuzz_fail(const char *what, const char *file, int line);

/* Removes the first `size` bytes from `rest` and returns them; all of them if
 * there are fewer. It does not copy: the whole input is a heap block of exactly
 * its size. */
struct slice fuzz_take(struct slice *rest, size_t size);

/* Appends the input, but for "\xfe" and a byte n 64 * n letters, so that short
 * inputs reach the limits. Ends soon after `max` bytes. */
void fuzz_inflate(struct slice input, size_t max, struct buf *to);

bool fuzz_is_utf8(struct slice text);

/* Asserts that the sentence is not empty and can be quoted in an answer or on a
 * terminal: UTF-8 without control characters. */
void fuzz_check_sentence(const char *sentence);
void fuzz_check_problem(const struct problem *why);

/*
 * Reads a document in one piece, then in small pieces with the same reader.
 * Asserts that the reader accepts it both times, with the same entries, or
 * refuses it both times, with a reason; and that accepted entries survive every
 * form in which they are written (tests/support/again.h).
 */
void fuzz_reading(const char *type, enum input_use use, struct slice document);

/* The same for a post whose faults are reported: asserts that both readings
 * find as many faults or the same changes, and that each fault has its place.
 */
void fuzz_faults(const char *type, struct slice document);

/* Likewise for a post that may be a message. Asserts also that both readings
 * return the same message id, and that it is a valid key. */
void fuzz_taking_message(const char *type, struct slice document);

#endif
