/*
 * keeping.h - a registry (sets.h) whose set "demo" keeps content, with the
 * parts of the archive thread that work on it, in steps that the test takes;
 * and the entries of the set.
 *
 *     w = keeping_open(state, CONTENT_FETCH);
 *     keeping_post_with(w, 1, 7);
 *     keeping_fold_all(w);
 *     keeping_check(w);
 *     keeping_close(w);
 *
 * The bytes are texts with numbers: kept.h. The test has a tempdir.
 */
#ifndef TESTS_SUPPORT_KEEPING_H
#define TESTS_SUPPORT_KEEPING_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/archive/changedumps.h"
#include "broker/archive/contents.h"
#include "broker/archive/state_fold.h"
#include "tests/support/sets.h"

#define KEEPING_RESOURCES 15
#define KEEPING_TEXTS     40
#define KEEPING_ENTRIES   2000

/* An entry of the set demo. */
struct keeping_told {
    unsigned resource, text;
    bool is_deleted;
};

struct keeping {
    struct sets sets;
    struct state_fold folding;
    struct contents *contents;
    struct changedumps dumps; /* retention waits for them, too */
    char dir[400];            /* of the set */
    uint64_t random;
    struct keeping_told told[KEEPING_ENTRIES + 1];
    uint64_t last;
};

/* Lists of 10 entries, no grace. _end and _begin: as a restart. */
struct keeping *keeping_open(void **state, enum content_mode mode);
void keeping_close(struct keeping *w);
void keeping_begin(struct keeping *w);
void keeping_end(struct keeping *w);

/* Takes the look at all sets, and does all the work that it finds. */
void keeping_fold_all(struct keeping *w);

/* Posts one change, of text `text`, or an end; returns its seq. */
uint64_t keeping_post(struct keeping *w, unsigned resource, unsigned text,
                      bool is_deleted);

/* As a post with its bytes does it. */
void keeping_post_with(struct keeping *w, unsigned resource, unsigned text);

/* The set; its content, which must be there; a new pin of its content, for
 * which the set is made if it is not there; and text `n` placed with a pin.
 */
struct set *keeping_demo(struct keeping *w);
struct content *keeping_content(struct keeping *w);
struct content_pin *keeping_pin(struct keeping *w);
void keeping_place(struct keeping *w, struct content_pin *pin, unsigned n);

/* Checks that the folder has the texts of all retained entries and of all
 * resources' latest entries, and no others. */
void keeping_check(struct keeping *w);

#endif
