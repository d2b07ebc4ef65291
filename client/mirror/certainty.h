/*
 * certainty.h - since when a set of the mirror is known to be complete, or why
 * that is not known.
 *
 *     baseline, comparison, whole list --+--> no doubt: complete as of its time
 *                                        +--> a doubt in it, or deletions
 *                                             held back: not complete
 *     a history that proves itself ----------> complete when caught up
 *
 * Each change is in the database with the next commit (mirror_write), and an
 * event. Each function returns false where mirror_fail was called.
 */
#pragma once

#include "client/mirror/mirror.h"

struct certainty {
    struct mirror *m;
    const char *url; /* of the set; the caller's */
    int64_t set;     /* in the database */
    struct mirror_db_certainty now;
    bool is_doubted;  /* since the reading began */
    bool is_reported; /* rows were left out since then */
};

bool certainty_open(struct certainty *c, struct mirror *m, const char *url,
                    int64_t set);

/* A reading of a list of all resources begins. */
void certainty_begin(struct certainty *c);

bool certainty_doubt(struct certainty *c, const char *why);
bool certainty_report(struct certainty *c, const struct td_report *report);

/* True if the reading may lack resources that the source has, or has left out
 * more rows than the last one whose deletions counted: then what it lacks is
 * not deleted. */
bool certainty_is_weak(const struct certainty *c);

/* The reading ends: if its deletions counted (`is_applied`), the set was as the
 * mirror has it now at `as_of_us`, according to the list `by`. */
bool certainty_end(struct certainty *c, int64_t as_of_us, const char *by,
                   bool is_applied);

/* `n` deletions of `n_of` resources are held back. */
bool certainty_hold(struct certainty *c, uint64_t n, uint64_t n_of);

/* The mirror equals the set. `is_proven`: its history says so. */
bool certainty_note_caught_up(struct mirror *m, int64_t set, bool is_proven);

/* All sets together: STATUS_DIFFERENT with a sentence if deletions are held
 * back, or a set is not known to be complete. STATUS_IO. */
void certainty_judge(struct mirror *m, struct problem *why);
