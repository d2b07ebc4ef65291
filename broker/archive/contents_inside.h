/*
 * contents_inside.h - what the files of contents share.
 *
 *   contents.c        which sets, and what is behind
 *   contents_going.c  files that nobody needs any more go
 *   claims.c          claims: contents_place and its like, too
 *
 * Archive thread.
 */
#ifndef BROKER_ARCHIVE_CONTENTS_INSIDE_H
#define BROKER_ARCHIVE_CONTENTS_INSIDE_H

#include "broker/archive/claims.h"
#include "broker/archive/contents.h"
#include "broker/archive/opened.h"
#include "broker/archive/turn.h"

struct contents {
    struct chore chore;
    struct registry *registry;
    char arriving[4096 + 16];
    struct opened opened;
    struct claims claims;
    struct turn turn;
    bool is_due;   /* there is a turn to be taken */
    bool is_again; /* a set had more than one step could take */
    bool has_room; /* log_health, as of the last look for who is next */
    _Atomic(uint64_t) announced; /* orders nothing: a sum */
};

/* Nothing is kept of the set. */
void contents_have_none(struct set *set);

/* Takes a file away, unless somebody has claimed it, or a row tells of it. */
MUST_CHECK enum status contents_take_away(struct contents *contents,
                                          const struct set *set,
                                          struct content *content,
                                          const struct digest *digest,
                                          bool *is_gone, struct problem *why);

/* The same, some of the files that rows have let go of. */
MUST_CHECK enum status contents_take_loose(struct contents *contents,
                                           struct set *set,
                                           struct content *content,
                                           struct problem *why);

/* Looks for orphans in some of the folders. */
MUST_CHECK enum status contents_sweep(struct contents *contents,
                                      struct set *set, struct content *content,
                                      struct problem *why);

/* A set that keeps none: takes some of its files away, the rows first.
 * *is_more: false where somebody has claimed some; then not now. */
MUST_CHECK enum status contents_clear(struct contents *contents,
                                      struct set *set, bool *is_more,
                                      struct problem *why);

#endif
