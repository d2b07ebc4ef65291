/*
 * resources.h - the current resources of a set: its log, folded.
 *
 *     sets/NAME/resources.db    one row a resource: its entry of a Resource
 *                               List
 *
 * Each entry of the log inserts its resource (created, updated) or deletes it
 * (deleted). The same transaction writes the seq, so each entry is folded
 * exactly once, and the state is always that of one position of the log.
 * Everything in it comes from the log: after a crash the lost part is folded
 * again. So retention waits for `kept`.
 *
 *     (no file) --open--> seq 0 --fold, commit--> seq n --fold, commit--> ...
 *         ^                                                       |
 *         +--- another epoch or history, or damage: begun anew ---+
 *
 * A state that begins anew when the log no longer has its first entries is not
 * whole: resources that have not changed since are missing. resources_at has
 * is_whole false, and no reader may take the state for the set, until the
 * source has sent its complete list (upload_apply.h). Then the missing
 * resources are in the log, and the state is whole when it is folded up to
 * there (resources_heal).
 *
 * Only the archive thread uses it, also for walks.
 */
#pragma once

#include "broker/state/fold_db.h"
#include "proto/resourcesync/resource_id.h"

/* The name of its file, in the directory of its set. */
#define RESOURCES_FILE "resources.db"

struct resources;

/* Its tables. */
extern const struct db_kind resources_kind;

/* The key of a resource: the first bytes of the SHA-256 of its loc, enough that
 * two equal keys cannot be found. */
#define RESOURCE_KEY_SIZE 16

struct resource_key {
    uint8_t bytes[RESOURCE_KEY_SIZE];
};

void resource_key(struct resource_key *key, struct slice loc);

/* The first member of what is sorted by key, and for the same one by seq. */
struct keyed {
    struct resource_key key;
    uint64_t seq;
};

int keyed_compare(const void *x, const void *y); /* for qsort */

/* The properties of a state. */
struct resources_at {
    uint64_t seq;      /* every entry up to it is folded, no later one */
    int64_t us;        /* T(seq); DATETIME_NONE while nothing is folded */
    uint64_t n;        /* resources */
    uint64_t bytes;    /* of their entries */
    uint64_t began;    /* it comes from the entries behind this one; 0: all */
    bool is_whole;     /* no resource is missing */
    uint64_t kept;     /* it is on the disk up to this seq: no crash of the
                          machine undoes it. A crash of the process undoes no
                          commit at all */
    uint64_t whole_at; /* it is whole when folded up to there; 0: unknown */
    bool has_ids;      /* the file has the ids of all resources */
};

/* How it is folded. */
extern const struct fold_kind resources_folding;

/* It begins with its struct fold_db. */
static inline struct resources *
resources_of(struct fold_db *f)
{
    return (struct resources *)f;
}

/* The state of the last commit. */
const struct resources_at *resources_at(const struct resources *resources);

/* Brings all commits to the disk. */
MUST_CHECK enum status resources_keep(struct resources *resources,
                                      struct problem *why);

/* Makes the state whole from entry `seq` on: the source has sent its complete
 * list, it was compared with a state that began behind entry `began`, and the
 * differences are in the log up to `seq`. On the disk when it returns. Does
 * nothing if the state is whole already, or began elsewhere: then it began anew
 * meanwhile, and was not compared. */
MUST_CHECK enum status resources_heal(struct resources *resources,
                                      uint64_t began, uint64_t seq,
                                      struct problem *why);

/* Ids (resource_id.h): a state has none until somebody asks for them. Then the
 * file has, from that time on, the second half of each id with its key, and
 * sums of the ids by their first bytes. */
#define RESOURCE_PARTS     256
#define RESOURCE_SUMS_SIZE (RESOURCE_PARTS * sizeof(struct id_sum))

/* Computes the ids of the next 65,536 resources, until has_ids is set. Nothing
 * may be gathered. */
MUST_CHECK enum status resources_add_ids(struct resources *resources,
                                         struct problem *why);

/* The sum of all ids, with has_ids. */
void resources_sum(const struct resources *resources, struct id_sum *sum);

/* The id of a row of the table `keys`. */
void resource_row_id(struct digest *id, const void *key,
                     const uint64_t rest[2]);

/* Reads the column `sums` of the file. */
void resource_sums_read(struct id_sum sums[RESOURCE_PARTS], struct slice bytes);

/* Filling: makes a state of a published Resource List instead of the log. Adds
 * a resource to a state that is new, in the order of its list. `entry` is as in
 * struct resources_entry, and `seq` that of its change. STATUS_DIFFERENT: the
 * list has the resource already. After an error close it. */
MUST_CHECK enum status resources_fill(struct resources *resources, uint64_t seq,
                                      struct slice entry, struct problem *why);

/* The list stands for entry `seq`, with T(seq) `us`: the state is whole, and
 * folds on behind it. On the disk when it returns. */
MUST_CHECK enum status resources_fill_end(struct resources *resources,
                                          uint64_t seq, int64_t us,
                                          struct problem *why);

/* Walking */

/* Returns the resources one by one, each once, in the order of their creation:
 * the same for each state that was folded from the same entries. `id` is the
 * position of a walk, 0 at its beginning. Between the steps of a walk nothing
 * may be committed. */
struct resources_entry {
    int64_t id;
    uint64_t seq;       /* of the change that made the entry */
    struct slice entry; /* <url>...</url>\n as fragment_resource makes it; lent
                           until the next call */
};

/* Returns the first resource behind `id`. STATUS_NOT_FOUND: none. */
MUST_CHECK enum status resources_next(struct resources *resources, int64_t id,
                                      struct resources_entry *entry,
                                      struct problem *why);
