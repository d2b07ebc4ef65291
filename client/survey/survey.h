/*
 * survey.h - a history for a source that has none.
 *
 * A source with only a list of its resources (a Resource List, a plain Sitemap)
 * is read again and again. A survey keeps the last complete reading, compares
 * the next one with it, and numbers the differences:
 *
 *     survey_begin --> documents, each with its resources
 *          ^               |
 *          |               +--> survey_compare: differences, numbered
 *          |               +--> survey_take: no differences
 *          +-- a reading that ended early: nothing of it counts
 *
 *     survey_changes: the differences after a number
 *
 * The numbers are positions as those of a log of Tidings, "epoch-seq": the
 * epoch is that of the file. The reading and its differences are one
 * transaction. A difference is kept until two later readings have found others,
 * so that a killed follower still finds the differences after its stored
 * position.
 *
 * The file is of SQLite. The reading that is under way is in a temporary table,
 * in SQLite's directory for temporary files. Neither is in memory, however long
 * the list is.
 *
 * Versions of a resource are distinguished by lastmod, hash and length, as far
 * as both readings have them. A list without all three shows created and
 * deleted resources alone. Documents are distinguished by their validators,
 * else by a digest of their bytes: one that has not changed costs neither XML
 * nor SQL.
 *
 * Thread: any, one at a time. One process at a time has the file.
 */
#pragma once

#include "base/db.h"
#include "client/lib/source_limits.h"
#include "client/source/document.h"
#include "proto/resourcesync/digest.h"
#include "proto/resourcesync/position.h"

/* The extent of its history. */
struct survey_extent {
    char epoch[EPOCH_SIZE + 1];
    uint64_t oldest;      /* the differences after this number are kept */
    uint64_t last;        /* number of the last difference; 0: none yet */
    uint64_t n_resources; /* of the last complete reading, and held ones */
    uint64_t n_held;      /* of these: its list lacks them, but their deletion
                             is held back (survey_compare) ... */
    uint64_t n_held_of;   /* ... of so many (survey_holds_back) */
    bool is_read;         /* there was one */
};

/* For others only to read. */
struct survey {
    struct db db;
    struct survey_extent extent; /* survey_take, survey_compare and
                                    survey_clear change it */
    int64_t document;            /* that is read */
    int stop_fd;
    char *path;                 /* NULL: a temporary file */
    struct source_limits *room; /* the handle's; NULL: no limits */
    uint64_t unlooked;  /* bytes of resources since the last look at the disk */
    bool is_seeing;     /* see_unchanged works */
    struct buf line;    /* a fragment */
    struct problem why; /* of the last call that returned false: STATUS_IO,
                           STATUS_MEMORY, STATUS_STOPPED, STATUS_REFUSED (more
                           resources than the handle allows) */
    struct problem limit; /* why is_ending stopped a statement; is_limit */
};

/* Life cycle */

/* Opens a survey. `room`: the limits of the handle: it fails with STATUS_IO
 * before it leaves less of a disk free, and with STATUS_REFUSED where a list
 * has more resources; NULL: none. `stop_fd`: when it is readable, calls that
 * take long fail with STATUS_STOPPED; -1: none. `path`: made if it is not
 * there; NULL: a temporary file without a name. `source` names what is read: a
 * file of another source is refused. NULL: `why` says why (STATUS_IO,
 * STATUS_INVALID, STATUS_MEMORY). */
struct survey *survey_open(const char *path, const char *source,
                           struct source_limits *room, int stop_fd,
                           struct problem *why);
void survey_close(struct survey *survey); /* NULL is allowed */

/* Reading. Each returns false on failure. */

/* A version of a document; "": unknown. */
struct survey_version {
    char etag[256];
    char modified[64];                 /* Last-Modified */
    char digest[DIGEST_TEXT_SIZE + 1]; /* of its bytes */
    bool must_read; /* each time: it names other documents, or
                       has rows that cannot be used */
};

/* Begins a reading, and drops one that did not end. */
bool survey_begin(struct survey *survey);

/* Begins a document, or begins it again. Sets `*known` to the version that the
 * last complete reading has of it: nothing has to be read unless it has changed
 * since. Empty, or must_read: it has to be read. */
bool survey_document(struct survey *survey, const char *url,
                     struct survey_version *known);

/* A resource of the document. A resource may come twice: the later one counts.
 */
bool survey_add(struct survey *survey, const struct document_entry *entry);

/* The document is read to its end, without `n_left_out` rows that cannot be
 * used. `version`: NULL: unknown. */
bool survey_document_end(struct survey *survey,
                         const struct survey_version *version,
                         uint64_t n_left_out);

/* The document is still as survey_document knew it, with its resources. */
bool survey_document_same(struct survey *survey);

/* Ends a complete reading, which replaces the last one. No difference is
 * numbered, and earlier positions are gone. */
bool survey_take(struct survey *survey);

/* Which deletions a reading may lead to. */
struct survey_guard {
    int max_percent;  /* of the resources: more are too many, but fewer than
                         100 never are; below 0, or 100 and more: no limit */
    uint64_t accepts; /* deletions, although they are too many; 0: none */
    bool is_doubtful; /* the reading may lack resources: none */
    bool is_told;     /* changes announced the deletions: no list lacks them */
};

/* Ends a complete reading: numbers its differences from the last one, which it
 * replaces. Creations and updates count in any case. Deletions are held back
 * (survey_extent.n_held) if the guard does not allow them, or if the reading
 * left out more rows than the last one whose deletions counted:
 * the resources stay, and every later reading judges them again. */
bool survey_compare(struct survey *survey, const struct survey_guard *guard);

/* Forgets all: the next reading compares with nothing, in a new epoch. */
bool survey_clear(struct survey *survey);

/* True if the guard holds `n` deletions of `n_of` resources back: too many,
 * those of a doubtful list, and all of more than three that a list lacks
 * . In and out: `*held_of`, to be kept until the next look, is of how
 * many they were held back first; 0: they are not. That counts instead of
 * `n_of`, for what came meanwhile proves nothing of what is missing. */
bool survey_holds_back(const struct survey_guard *guard, uint64_t n,
                       uint64_t n_of, uint64_t *held_of);

#define SURVEY_PERCENT_DEFAULT 20

/* A resource's version; DATETIME_NONE, "" and LENGTH_NONE are unknown. */
struct survey_resource {
    int64_t lastmod_us;
    struct slice hash;
    uint64_t length;
};

extern const struct survey_resource survey_resource_unknown;

/* True if both versions agree on lastmod, hash and length, as far as both have
 * them. *is_proven: they have one of these in common, or neither has any. */
bool survey_resources_agree(const struct survey_resource *had,
                            const struct survey_resource *now, bool *is_proven);

/* The columns lastmod, hash and length, in which an unknown number is NULL:
 * read, their places, written, their values (base/db_values.h). */
#define SURVEY_RESOURCE_READ \
    "coalesce(lastmod, -9223372036854775808), hash, coalesce(length, -1)"
#define SURVEY_RESOURCE_INTO(r) &(r)->lastmod_us, &(r)->hash, &(r)->length
#define SURVEY_RESOURCE_WRITTEN \
    "nullif(?, -9223372036854775808), ?, nullif(?, -1)"
#define SURVEY_RESOURCE_OF(r) (r)->lastmod_us, (r)->hash, (r)->length

/* Differences */

/* Hands those after `after` over, in order, at most `n_most`, as the entries of
 * a document: with their kinds, event times (when they were found) and seqs.
 * STATUS_STOPPED from on_entry: that is enough. It must not close the survey.
 */
bool survey_changes(struct survey *survey, uint64_t after, unsigned n_most,
                    const struct document_events *events, void *user);
