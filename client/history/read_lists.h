/*
 * read_lists.h - which Change Lists of a source were read, and how far.
 *
 *     read_lists_note ... --> read_lists_commit
 *           ^                      |
 *           +-- history_start <----+-- a reading that broke off
 *
 * A position identifies one list and the entries read of it. The lists before
 * that one, and the marks of its entries, are too many for a position; they are
 * kept here. So a list that the source adds to its index later is read, however
 * old its entries look, and in a list whose beginning has changed the
 * known entries are recognised.
 *
 * The position is what counts: marks that do not sum up to it are not used. So
 * a file that is lost, or of another moment, costs repeats or a doubt, and
 * hides no change. Notes are committed when the caller has all their entries.
 */
#pragma once

#include "base/db.h"
#include "client/source/document.h"

struct mark_set;

struct read_lists {
    struct db db; /* has no handle: not open */
};

struct read_list {
    uint64_t url;    /* its hash */
    uint64_t row;    /* of its entry in the index, which changes with it */
    uint64_t n, sum; /* the entries read */
    bool is_skipped; /* none: following began behind it */
};

/* `path`: a file of SQLite, made if needed; NULL: in memory. A file of another
 * source than `source` is emptied. Close the `db` in any case. */
MUST_CHECK enum status read_lists_open(struct read_lists *lists,
                                       const char *path, const char *source,
                                       struct problem *why);

/* Finds the list `url` among the committed ones. False: it is not there, or
 * cannot be read, or `lists` is NULL. */
bool read_lists_find(struct read_lists *lists, uint64_t url,
                     struct read_list *list);

/* Sets *known to the marks of the first `n` entries of the list `url`, if the
 * kept ones have that sum; else leaves it. `lists` may be NULL. False: no
 * memory. */
bool read_lists_known(struct read_lists *lists, uint64_t url, uint64_t n,
                      uint64_t sum, struct mark_set *known);

/* Notes a list. `marks`: of its entries, list->n of them, which replace those
 * of the list before; or NULL. */
MUST_CHECK enum status read_lists_note(struct read_lists *lists,
                                       const struct read_list *list,
                                       const uint64_t *marks,
                                       struct problem *why);
MUST_CHECK enum status read_lists_commit(struct read_lists *lists,
                                         struct problem *why);

/*
 * The marks of entries that were read, each as often as it was.
 *
 * A mark identifies an entry of a Change List by its resource, change, digest
 * and times. Kept positions and files have marks: they never change.
 */

/* Returns the mark of an entry; never 0. */
uint64_t mark_of(const struct document_entry *entry);

/* Returns the sum of marks, which does not depend on their order. */
uint64_t marks_sum(const uint64_t *marks, size_t n);

struct mark_set {
    struct mark_slot *slots; /* NULL: none */
    struct map map;
};

/* False: no memory. */
bool mark_set_init(struct mark_set *set, const uint64_t *marks, size_t n);
void mark_set_fini(struct mark_set *set); /* all zero is empty */

/* Takes an entry of a reading out of the set. False: it is not there, or was
 * taken as often as it is. */
bool mark_set_take(struct mark_set *set, uint64_t mark);

/* Takes back a call of mark_set_take, whatever it returned. */
void mark_set_put_back(struct mark_set *set, uint64_t mark);

/* True if it is there, taken or not. */
bool mark_set_has(struct mark_set *set, uint64_t mark);
