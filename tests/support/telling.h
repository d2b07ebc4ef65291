/*
 * telling.h - a log of changes of texts (kept.h), the content folded from it
 * (content.h), and a plain model of that content.
 *
 *     FIXTURE(telling_setup, telling_teardown);
 *
 *     struct telling *w = *state;
 *
 *     telling_place(w, 1);
 *     telling_tell(w, 1, false, true, 1);
 *     telling_fold_to(w, 1);
 *     telling_check(w);
 */
#ifndef TESTS_SUPPORT_TELLING_H
#define TESTS_SUPPORT_TELLING_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/log/batch.h"
#include "broker/state/content.h"
#include "proto/resourcesync/change.h"
#include "tests/support/tempdir.h"

#define TELLING_EPOCH "0123456789abcdef"

#define TELLING_RESOURCES 40
#define TELLING_TEXTS     30
#define TELLING_ENTRIES   2000

/* An entry of the model, and its expected result. */
struct telling_entry {
    unsigned resource;
    bool is_deleted;
    bool has_sha256;
    unsigned text;
    uint64_t until;
    bool is_there, is_thinned, is_forgotten; /* once it is folded */
};

struct telling {
    struct tempdir tempdir;
    const char *dir; /* its path */
    char arriving[300];
    struct content *content;
    struct batch *batch; /* all entries */
    struct telling_entry told[TELLING_ENTRIES + 1];
    uint64_t random, folded, earliest;
    int64_t later_us; /* added to the time of the next entries */
    bool is_placed[TELLING_TEXTS];
};

int telling_setup(void **state);
int telling_teardown(void **state);

/* The content alone, as a process begins and ends; closed and opened again. */
void telling_begin(struct telling *w);
void telling_end(struct telling *w);
void telling_reopen(struct telling *w);

/* The content has begun anew: the test must fold all of it again. */
void telling_begin_anew(struct telling *w);

/* One more entry of the log; `hash` may be NULL. The model does not get it. */
void telling_add_change(struct telling *w, unsigned resource,
                        enum change_kind kind, const char *hash,
                        uint64_t length);

/* Adds a change to text `text`, or the deletion of the resource. */
void telling_tell(struct telling *w, unsigned resource, bool is_deleted,
                  bool has_sha256, unsigned text);

/* The bytes of a text are there. */
void telling_place(struct telling *w, unsigned text);

/* Folds up to `last`, and does the same the plain way. */
void telling_fold_to(struct telling *w, uint64_t last);

/* The bytes of entry `seq` have been fetched. */
void telling_keep(struct telling *w, uint64_t seq);

/* The log begins behind `earliest`. */
void telling_forget(struct telling *w, uint64_t earliest);

/* Checks rows and sums against the model, and that the content knows all files
 * without a row. */
void telling_check(struct telling *w);

#endif
