/*
 * quiet_lists.h - the lists and baselines of quiet.h.
 */
#ifndef TESTS_UNIT_FOLLOW_QUIET_LISTS_H
#define TESTS_UNIT_FOLLOW_QUIET_LISTS_H

#include <stdbool.h>

#include "client/baseline/baseline.h"
#include "client/history/history.h"

/* Called by those of quiet.h without `lists` in their names. */
void quiet_lists_begin(void);
void quiet_lists_finish(void);
unsigned quiet_lists_silence(void);
bool quiet_lists_are_held(void); /* any of the two */

bool quiet_is_asking_lists(void);
bool quiet_is_rebasing(void);

const struct source_position *quiet_lists_after(void);
const char *quiet_lists_scratch(void); /* NULL: none */

/* Does it go on? */
bool quiet_entry(const char *loc, const struct source_position *after);
void quiet_lists_end(enum status rc, const char *why,
                     const struct source_position *upto);
/* The reading leaves a doubt; the lists begin then. Both before the end. */
void quiet_doubt(const char *why);
void quiet_begins(int64_t second);

/* The end of the only list there is, and that is closed. */
void quiet_lists_close(const struct source_position *upto);
void quiet_lists_refuse(unsigned status);
/* They are unavailable for now; true if the follower asks again. */
bool quiet_lists_wait(const char *why, unsigned *ms);
/* Also while it is held back. */
void quiet_lists_break(enum status rc, const char *why);
unsigned quiet_baseline_patience(void); /* seconds */
bool quiet_resource(const char *loc, const char *file);
void quiet_baseline_guess(const struct source_position *place,
                          const struct source_position *guess);
void quiet_baseline_end(enum status rc, const char *why,
                        const struct source_position *place);

#endif
