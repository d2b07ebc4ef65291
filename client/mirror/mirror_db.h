/*
 * mirror_db.h - the resources that a mirror wants and those that it has, in
 * SQLite.
 *
 *     messages --> mirror_db_describe,                  wanted state,
 *                  mirror_db_set_position               and a position
 *
 *     mirror_db_next --> fetch --> mirror_db_note_file  files on disk
 *                    --> remove -> mirror_db_note_loss
 *
 * The argument why a crash at any moment does no harm:
 *
 *   - One transaction stores the resources of a message and the position behind
 *     it. A crash before its commit leaves the old position: the source sends
 *     the message again. The database stores a wanted state, not a
 *     list of steps: the same message twice gives the same state.
 *   - Each start computes the work anew: the difference between the wanted
 *     state and the noted files. The mirror syncs a file, renames it to its
 *     path, then notes it. A crash between the last two leaves a file without a
 *     note: `is_expected`, committed before the download began, marks it as
 *     possibly ours. The next run keeps it if length and digests are right, and
 *     replaces it otherwise. Before a rename replaces a file, mirror_db_doubt
 *     deletes the note of the old one: no note describes the wrong file.
 *   - The mirror removes a file, then notes the removal. After a crash between
 *     the two it removes a missing file, which is no error.
 *
 * A resource may be in several sets. The mirror keeps it until the last
 * of them drops it. The set with the latest message in event time describes it.
 *
 * A baseline has a generation. Its resources are wanted at once. At its end, in
 * the transaction with the position, the database forgets the resources of the
 * set that the baseline did not repeat. A broken-off baseline leaves only
 * wanted resources: the source has them. A comparison (td_message) is a
 * baseline whose differences count at its end alone.
 *
 * One law of order and of deletion: a list of time T proves
 * nothing about a resource that has changed after T, by its place among the
 * changes, or by its time where no place is known. when_us is that order: a
 * change that comes after a list is later than the list (place_behind_list).
 * Such a resource stays as it is, until a newer list comes. A list of an
 * earlier time still has what was deleted since: so the database remembers
 * deletions until a comparison with a later list.
 *
 * Deletions that are too many are held back: these resources stay wanted, with
 * generation 0, until a description repeats them or somebody consents.
 *
 * Transactions are the caller's: mirror_db_begin, then writing, then
 * mirror_db_commit or mirror_db_rollback. Every function that returns false has
 * called on_failure; after it, only mirror_db_rollback and mirror_db_close make
 * sense. One thread.
 */
#pragma once

#include "base/db.h"
#include "client/mirror/mirror_dir.h"
#include "client/mirror/resource_path.h"
#include "client/tidings.h"
#include "proto/resourcesync/change_filter.h"

/* PRAGMA user_version of the present tables. */
#define MIRROR_DB_VERSION 4

/* Numbers of resources; kept up to date, open transaction included. */
struct mirror_db_counts {
    uint64_t n_resources;  /* wanted, or there */
    uint64_t n_have;       /* files that are there */
    uint64_t bytes_have;   /* of these */
    uint64_t n_fetch;      /* to be fetched, including n_left */
    uint64_t n_remove;     /* to be removed */
    uint64_t n_left;       /* to be fetched, given up for this run */
    uint64_t bytes_wanted; /* of n_fetch, where the source sent a length */
};

/* The queries whose rows are lent until they run again, or the transaction
 * ends. */
enum lent {
    LENT_GET,
    LENT_FIND,
    LENT_NEXT,
    LENT_WALK,
    LENT_SOURCE,
    LENT_SET,
    LENT_LAST,
    LENT_DESCRIPTION,
    LENT_COMPARED,
    LENT_LATER,
    N_LENT
};

/* `counts`, `filter`, `is_writing` and `on_failure` are for others, too. */
struct mirror_db {
    struct db base;
    struct db_rows lent[N_LENT];
    bool is_writing;                  /* in a transaction */
    char filter[FILTER_TEXT_MAX + 1]; /* of the mirror's resources
                                         (change_filter.h); "": all */
    int64_t run;     /* number of this run: is_left counts in it alone */
    int64_t version; /* the last one that the database assigned */
    struct mirror_db_counts counts;
    struct mirror_db_counts counts_before; /* of the open transaction */
    int64_t version_before;
    int64_t hour_first, hour_last; /* with removals in this transaction; without
                                      any the last is before the first */
    struct problem trouble;

    /* Called whenever a function is about to return false; it may call
     * mirror_db_rollback. NULL: nobody hears. */
    void (*on_failure)(const struct problem *trouble, void *user);
    void *user;
};

/* Opens the database `name` in the folder `dir`; both "": a temporary one.
 * False: `why` says why. Close it in any case. */
bool mirror_db_open(struct mirror_db *db, const char *dir, const char *name,
                    struct problem *why);

/* Undoes what was not committed. All zero is allowed. */
void mirror_db_close(struct mirror_db *db);

bool mirror_db_begin(struct mirror_db *db);
bool mirror_db_commit(struct mirror_db *db); /* harmless without a begin */
void mirror_db_rollback(struct mirror_db *db);

/* The rows of the table `state` that have the counts, as of the last commit:
 * another process reads them (mirror_status.h). */
extern const struct mirror_db_count {
    const char *name; /* NULL behind the last */
    size_t offset;    /* in struct mirror_db_counts */
} mirror_db_count_rows[];

/* *as_of_us: the past time whose state the mirror is; DATETIME_NONE: it is one
 * of the present. A mirror of no source yet becomes one of `wanted_us`. */
bool mirror_db_as_of(struct mirror_db *db, int64_t wanted_us,
                     int64_t *as_of_us);

/* Sets the filter, and begins each set anew, with MIRROR_DB_REFILTERED as its
 * doubt. */
bool mirror_db_set_filter(struct mirror_db *db, struct slice filter);
#define MIRROR_DB_REFILTERED "it has another filter than before"

/* Sources and sets */

/* Notes that the mirror is one of `url`. */
bool mirror_db_add_source(struct mirror_db *db, const char *url);

/* The n-th source, from 0, in the order in which they were added; "" behind the
 * last. Lent until the next call of this or the end of a transaction. */
bool mirror_db_source(struct mirror_db *db, unsigned n, const char **url);

/* Finds the set `url`; *set 0: the database does not have it. */
bool mirror_db_find_set(struct mirror_db *db, const char *url, int64_t *set);

/* The same, or makes it. `position`: "" if there is none yet; NULL: not
 * wanted. */
bool mirror_db_set(struct mirror_db *db, const char *url, int64_t *set,
                   char position[TD_POSITION_SIZE]);

/* The next set by number; 0: the first, and *set is 0 behind the last. `url` is
 * lent until the next call of this, or the end of a transaction. */
bool mirror_db_next_set(struct mirror_db *db, int64_t after, int64_t *set,
                        const char **url);

/* The position of a set, and its digest (td_message_mark). */
bool mirror_db_mark(struct mirror_db *db, int64_t set,
                    char mark[TD_POSITION_SIZE]);

/* Sets the position, or mark, of a set, behind the messages of this
 * transaction. */
bool mirror_db_set_position(struct mirror_db *db, int64_t set,
                            const char *position);

/* Notes that the mirror equalled the set at that time. */
bool mirror_db_note_caught_up(struct mirror_db *db, int64_t set,
                              int64_t when_us);

/* How certain the state of a set is. All zero: a new set. */
struct mirror_db_certainty {
    int64_t listed_us;      /* the latest time of the lists that were read */
    int64_t complete_us;    /* it was complete as of that time; 0: never */
    char complete_by[1024]; /* the list that says so; "": the history does */
    int64_t compared_us; /* when it was compared with a list last; 0: never */
    char doubt[600];     /* why that is not known now; "": it is known */
    int64_t doubt_us;    /* since when, or since deletions are held back */
    uint64_t n_held;     /* deletions held back ... */
    uint64_t n_held_of;  /* ... of so many resources */
    uint64_t n_left_out; /* rows of its lists ... */
    char left_out[600];  /* ... by kind, with examples */
    uint64_t
        n_left_out_before; /* of the last reading whose deletions counted */
    uint64_t n_mended;
};

/* Its columns in the table `sets`, and their places (base/db_values.h). */
#define MIRROR_DB_CERTAINTY                                               \
    "listed_us, complete_us, complete_by, compared_us, doubt, doubt_us, " \
    "held, "                                                              \
    "held_of, left_out, left_out_text, left_out_before, mended"
#define MIRROR_DB_INTO_CERTAINTY(c)                                           \
    &(c)->listed_us, &(c)->complete_us, &(c)->complete_by, &(c)->compared_us, \
        &(c)->doubt, &(c)->doubt_us, &(c)->n_held, &(c)->n_held_of,           \
        &(c)->n_left_out, &(c)->left_out, &(c)->n_left_out_before,            \
        &(c)->n_mended

bool mirror_db_certainty(struct mirror_db *db, int64_t set,
                         struct mirror_db_certainty *certainty);
bool mirror_db_set_certainty(struct mirror_db *db, int64_t set,
                             const struct mirror_db_certainty *certainty);

/* Wanted state */

/* A source's description of a resource. Missing fields: empty slices,
 * LENGTH_NONE, DATETIME_NONE. */
struct mirror_db_description {
    struct slice loc;
    bool is_deleted;
    bool is_held;     /* its deletion is held back */
    bool is_noted;    /* comparisons need to know its deletion */
    bool is_final;    /* or any change: it is later than every list */
    bool is_baseline; /* it is so; else it became so */
    int64_t when_us;  /* event time */
    int64_t lastmod_us;
    struct slice hash; /* normalised list */
    uint64_t length;
    struct slice type;
    struct slice encoding;
    struct slice links; /* duplicate_links_write (file_sync.h) */
};

/* `*id`: of the resource; 0: it is not wanted and was not. */
bool mirror_db_describe(struct mirror_db *db, int64_t set,
                        const struct mirror_db_description *description,
                        int64_t *id);

/* The next resource of `set` by id, as the set described it; *id is 0 behind
 * the last. Lent until the next call of this, or the end of a transaction. */
bool mirror_db_next_description(struct mirror_db *db, int64_t set,
                                int64_t after_id, int64_t *id,
                                struct mirror_db_description *description);

/* Begins a baseline: until its end, `set` only has what is added. */
bool mirror_db_baseline_begin(struct mirror_db *db, int64_t set);

/* A resource of a comparison: notes how it differs, for the end. */
bool mirror_db_compare(struct mirror_db *db, int64_t set,
                       const struct mirror_db_description *description);

/* True in *is_later if the set has changed or deleted the resource after
 * `as_of_us`: an older list does not decide about it. */
bool mirror_db_is_later(struct mirror_db *db, int64_t set, struct slice loc,
                        int64_t as_of_us, bool *is_later);

/* The next resource of the set of which that is true, in no order; loc size 0:
 * behind the last. Lent until the next call of this, or the end of a
 * transaction. */
bool mirror_db_next_later(struct mirror_db *db, int64_t set, int64_t as_of_us,
                          bool is_first, struct slice *loc);

struct mirror_db_end {
    int64_t as_of_us; /* of the list: what has changed later stays as it is;
                         INT64_MAX: nothing has */
    bool is_held;     /* deletes nothing: mirror_db_count_held counts it */
};

/* Ends it. `*n_remove`: how many files the mirror has to remove for it. */
bool mirror_db_baseline_end(struct mirror_db *db, int64_t set,
                            const struct mirror_db_end *end,
                            uint64_t *n_remove);

/* Counts the deletions of a set that are held back; deletes them. */
bool mirror_db_count_held(struct mirror_db *db, int64_t set, uint64_t *n);
bool mirror_db_delete_held(struct mirror_db *db, int64_t set);

/* Finds the hour of event time with the most removals by changes, not by
 * baselines, among the hours of the open transaction. `*n`: removals, 0 if
 * there were none. `*n_of`: the most files that the mirror had in that hour.
 * Call it before the commit. After mirror_db_rollback, a second call returns
 * the removals of that hour that remain. */
bool mirror_db_removals(struct mirror_db *db, uint64_t *n, uint64_t *n_of);

/* Files and work */

enum mirror_db_todo { MIRROR_DB_NOTHING, MIRROR_DB_FETCH, MIRROR_DB_REMOVE };

struct mirror_db_resource {
    int64_t id;
    struct slice loc;
    char path[RESOURCE_PATH_MAX + 1];
    enum mirror_db_todo todo;
    uint64_t bytes; /* as counted in bytes_wanted */
    bool is_left;   /* given up for this run */
    int64_t left_version;
    bool is_expected; /* the file that may be there is ours */

    bool is_wanted;
    int64_t version; /* of the last description; higher is later */
    struct mirror_db_description wanted; /* without its loc */

    bool is_there;
    int64_t have_version;
    struct slice have_hash; /* the source's, and our sha-256 if it lacks one */
    int64_t have_lastmod_us;
    int64_t have_second_us; /* the file may be of the middle of a second:
                               when it is to be fetched again; 0: it is not */
    struct mirror_dir_mark have_mark;
};

/* `*resource` points into the database until the next call of the same function
 * (of mirror_db_get: of any that takes an id), or the end of the transaction.
 * Not found: its id is 0, and nothing is to do. */
bool mirror_db_get(struct mirror_db *db, int64_t id,
                   struct mirror_db_resource *resource);
bool mirror_db_find(struct mirror_db *db, struct slice loc,
                    struct mirror_db_resource *resource);
/* True in `*has` if a resource belongs at `path`. */
bool mirror_db_has_path(struct mirror_db *db, const char *path, bool *has);

/* The next resource by id with this `todo`, without those given up. */
bool mirror_db_next(struct mirror_db *db, enum mirror_db_todo todo,
                    int64_t after_id, struct mirror_db_resource *resource);

/* The next resource by loc, in byte order. `is_first`: begins the walk; the end
 * of a transaction, and the last resource, end it. */
bool mirror_db_walk(struct mirror_db *db, bool is_first,
                    struct mirror_db_resource *resource);

/* Counts the resources of `set` that are to be fetched, and changed from
 * `from_us` to `until_us` (or DATETIME_NONE), or whose time is not known; and
 * the bytes of those with a length. */
bool mirror_db_wanted(struct mirror_db *db, int64_t set, int64_t from_us,
                      int64_t until_us, uint64_t *n, uint64_t *bytes);

/* Notes that a file that may appear at its path is ours. */
bool mirror_db_expect(struct mirror_db *db, int64_t id);

/* Deletes the note of the file, which is about to be replaced: until
 * mirror_db_note_file or mirror_db_note_loss it equals no other. */
bool mirror_db_doubt(struct mirror_db *db, int64_t id);

/* Notes the file: it is there, with the content of version `version`.
 * `second_us`: as have_second_us. */
bool mirror_db_note_file(struct mirror_db *db, int64_t id, int64_t version,
                         struct slice hash, int64_t lastmod_us,
                         int64_t second_us, const struct mirror_dir_mark *mark);

/* Notes that the file is missing or changed: the resource is fetched again, or
 * forgotten if no set has it. */
bool mirror_db_note_loss(struct mirror_db *db, int64_t id);

/* wants the files again that were fetched in the very second of their
 * lastmod, if their have_second_us is not after `now_us`. */
bool mirror_db_renew(struct mirror_db *db, int64_t now_us);

/* Gives the resource up until the next run or a new version. */
bool mirror_db_give_up(struct mirror_db *db, int64_t id);
