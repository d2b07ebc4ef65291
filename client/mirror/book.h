/*
 * book.h - what a mirror wants to have, and what it has; kept in SQLite.
 *
 *     messages --> book_told, book_baseline_... + book_reach    what is wanted,
 *                                                               and a position
 *     book_next --> fetch, remove --> book_have, book_lost      what is there
 *
 * The argument why a crash at any moment does no harm:
 *
 *   - A message becomes wanted resources and the position behind it in one
 *     transaction. A crash before its commit leaves the old position: the
 *     message comes again. What is wanted is a state, not a list of steps: told
 *     twice, it is the same.
 *   - What is to be done is the difference between what is wanted and what is
 *     noted as there: it is found anew at each start. A file is renamed to its
 *     path when it is on the disk and is noted after that. A crash between the
 *     two leaves a file that nobody knows: `is_expected`, committed before the
 *     fetch began, tells that it may be ours. It is looked at, and taken for
 *     what it is if length and digests are right, else replaced. Where it
 *     replaces a file, what is noted of that is taken back before the rename
 *     (book_doubt): the new one is not taken for the old one.
 *   - A file is removed, then noted as gone. A crash between the two removes
 *     what is not there, which is no error.
 *
 * A resource may be in several sets. It is wanted as long as one of them has
 * it, as the one that spoke of it last in event time told it.
 *
 * A baseline has a generation: what it tells is wanted at once, and at its end
 * what the set had before and was not told again is forgotten, in the
 * transaction with the position. A baseline that broke off leaves no trace but
 * resources that are wanted: the source has them.
 *
 * Transactions are the caller's: book_begin, then writing, then book_commit or
 * book_rollback. Every function that returns false has set a sentence
 * (book_trouble); after it, only book_rollback and book_close make sense. One
 * thread.
 */
#ifndef CLIENT_MIRROR_BOOK_H
#define CLIENT_MIRROR_BOOK_H

#include <stdbool.h>
#include <stdint.h>

#include "client/lib/failure.h"
#include "client/mirror/paths.h"
#include "client/mirror/shelf.h"
#include "proto/slice.h"

struct book;

/* Opens the book `name` in the folder `dir`. NULL: `why` says why. */
struct book *book_open(const char *dir, const char *name, struct failure *why);

/* Undoes what was not committed. NULL is allowed. */
void book_close(struct book *book);

const char *book_trouble(const struct book *book);

bool book_begin(struct book *book);
bool book_commit(struct book *book);
void book_rollback(struct book *book);

/* How many resources; kept up to date, open transaction included. */
struct book_counts {
    uint64_t n_resources;  /* wanted, or there */
    uint64_t n_have;       /* files that are there */
    uint64_t bytes_have;   /* of these */
    uint64_t n_fetch;      /* to be fetched, those that are left included */
    uint64_t n_remove;     /* to be removed */
    uint64_t n_left;       /* to be fetched, given up for this run */
    uint64_t bytes_wanted; /* of those to be fetched, as far as told */
};

const struct book_counts *book_counts(const struct book *book);

/* Sources and sets */

/* Notes that the mirror is one of `url`. */
bool book_add_source(struct book *book, const char *url);

/* The n-th source, from 0, in the order in which they were added; "" behind the
 * last. Lent until the next call. */
bool book_source(struct book *book, unsigned n, const char **url);

/* Finds the set `url`, or makes it. `position`: "" if there is none yet. */
bool book_set(struct book *book, const char *url, int64_t *set,
              char position[TD_POSITION_SIZE]);

/* The next set by number; 0: the first. `url` is lent until the next call. */
bool book_next_set(struct book *book, int64_t after, int64_t *set,
                   const char **url, bool *is_found);

/* The position of a set, after what the open transaction tells. */
bool book_reach(struct book *book, int64_t set, const char *position);

/* What is wanted */

/* What a source told of a resource. Empty slices, LENGTH_NONE, DATETIME_NONE:
 * untold. */
struct book_telling {
    struct slice loc;
    bool is_deleted;
    bool is_baseline; /* it is so; else it became so */
    int64_t when_us;  /* event time */
    int64_t lastmod_us;
    struct slice hash; /* normalised list */
    uint64_t length;
    struct slice type;
    struct slice encoding;
    struct slice links; /* links.h */
};

/* `*id`: of the resource; 0: it is not wanted and was not. */
bool book_told(struct book *book, int64_t set,
               const struct book_telling *telling, int64_t *id);

/* What `set` told of the next resource by id. Lent until the next call. */
bool book_next_told(struct book *book, int64_t set, int64_t after_id,
                    int64_t *id, struct book_telling *telling, bool *is_found);

/* A baseline begins: `set` has nothing but what is told until its end. */
bool book_baseline_begin(struct book *book, int64_t set);

/* It ends. `*n_remove`: how many files are to be removed by that. */
bool book_baseline_end(struct book *book, int64_t set, uint64_t *n_remove);

/* Of how many files changes (no baselines) told in one hour of event time, the
 * hours of the open transaction alone, that they are to be removed; of how many
 * that there were at most in that hour. That hour which has most; *n 0: none.
 * To be asked at the end of a transaction; again behind book_rollback: of that
 * hour, what is left. */
bool book_removals(struct book *book, uint64_t *n, uint64_t *n_of);

/* What is there, and what is to be done */

enum book_todo { BOOK_NOTHING, BOOK_FETCH, BOOK_REMOVE };

struct book_resource {
    int64_t id;
    struct slice loc; /* terminated */
    char path[PATHS_MAX + 1];
    enum book_todo todo;
    uint64_t bytes; /* as counted in bytes_wanted */
    bool is_left;   /* given up for this run */
    int64_t left_version;
    bool is_expected; /* the file that may be there is ours */

    bool is_wanted;
    int64_t version; /* of what was told last; higher is later */
    int64_t when_us;
    int64_t lastmod_us;
    struct slice hash;
    uint64_t length;
    struct slice type;
    struct slice encoding;
    struct slice links;

    bool is_there;
    int64_t have_version;
    struct slice have_hash; /* as told, or of ours: with a sha-256 */
    int64_t have_lastmod_us;
    struct shelf_mark have_mark;
};

/* All lend what `*resource` points at until the next call of any of them.
 * *is_found false: there is none. */
bool book_look(struct book *book, int64_t id, struct book_resource *resource,
               bool *is_found);
bool book_find(struct book *book, struct slice loc,
               struct book_resource *resource, bool *is_found);
bool book_find_path(struct book *book, const char *path,
                    struct book_resource *resource, bool *is_found);

/* The next one by id that has `todo` to be done and is not left. */
bool book_next(struct book *book, enum book_todo todo, int64_t after_id,
               struct book_resource *resource, bool *is_found);

/* The next one by loc, in byte order; empty: the first. */
bool book_walk(struct book *book, struct slice after_loc,
               struct book_resource *resource, bool *is_found);

/* Is what is there, by what was told of both, what is wanted? */
bool book_is_same(const struct book_resource *resource, struct slice hash,
                  uint64_t length);

/* A file that may be at its path from now on is ours. */
bool book_expect(struct book *book, int64_t id);

/* The file that is there may be another one from now on: nothing is known of
 * it, and it is the same as nothing, until book_have or book_lost. */
bool book_doubt(struct book *book, int64_t id);

/* The file is there, and is what version `version` told. */
bool book_have(struct book *book, int64_t id, int64_t version,
               struct slice hash, int64_t lastmod_us,
               const struct shelf_mark *mark);

/* The file is not there, or not what it was: to be fetched again, or forgotten
 * where nobody wants it. */
bool book_lost(struct book *book, int64_t id);

/* Given up until the next run, or until something new is told. */
bool book_leave(struct book *book, int64_t id);

#endif
