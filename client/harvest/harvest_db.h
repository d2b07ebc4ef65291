/*
 * harvest_db.h - the state of a harvest, in one file of SQLite.
 *
 *     part       a set of a source: its position, and since when it is complete
 *     resource   what each part has, in its version: (loc, part)
 *     post       the sealed post without an answer
 *     deferred   entries that a list's end decides about, or a later look
 *     target     the set, and its position after our last post
 *
 *     rows change --> harvest_db_seal --> (post it) --> harvest_db_posted
 *                         +--> crash: harvest_db_unfinished returns it again
 *
 * The rows, the position of the part and the post that they lead to are one
 * transaction, and durable before the post is sent. So a repeat after a crash
 * is the same post, byte for byte and with its key, which the broker keeps once
 * for as long as it remembers keys (24 hours). After that the harvest searches
 * for the post behind the set's earlier position.
 *
 * Part 0 has the resources that the set had before this state, and of which no
 * source is known yet.
 *
 * A comparison of a part with the source's list of all resources:
 *
 *     harvest_db_begin_list --> harvest_db_list, harvest_db_defer ...
 *                           --> harvest_db_next_deferred ...
 *                           --> harvest_db_end_list
 *                           --> harvest_db_next_gone, harvest_db_remove ...
 *
 * It keeps what it has seen in temporary tables, on the disk.
 *
 * One process at a time, by SQLite's own lock. A file of version 2 is that of
 * `tidings relay`: it goes on as part 1.
 */
#pragma once

#include "client/lib/part_filter.h"
#include "client/survey/survey.h"

#define HARVEST_POSITION_SIZE 320
#define HARVEST_KEY_SIZE      33
#define HARVEST_TEXT_SIZE     512

/* For others only to read. */
struct harvest_db {
    struct db db;
    char target[HARVEST_POSITION_SIZE]; /* the set's position after the last
                                           post; "": there was none */
    bool is_new; /* the resources that the set has were not read yet (part 0, or
                    part 1 where `tidings relay` owned the set) */
    bool is_behind;                   /* others may have posted behind it */
    bool has_strays;                  /* part 0 has resources */
    int64_t adopter;                  /* part 0 or 1 */
    char filter[FILTER_TEXT_MAX + 1]; /* of resources; "": none */
    int64_t reported_us;         /* when this harvest reported last; 0: never */
    struct buf loc, hash, entry; /* the last ones handed out */
    char path[PATH_MAX];    /* of the file; of a dry run, of its copy ... */
    char scratch[PATH_MAX]; /* ... in this folder; "": it is no dry run */
    struct problem *why;    /* lent */
};

/* Opens the file, or makes it, for the set `target`. `is_dry`: works on a copy,
 * which is removed at the end. False: `why` says why: it is another set's, in
 * use, or not a state. `why` is lent until the end. Close it in any case. */
bool harvest_db_open(struct harvest_db *db, const char *path,
                     const char *target, bool is_dry, struct problem *why);
void harvest_db_close(struct harvest_db *db);

/* All functions below return false if the file failed; the `why` of
 * harvest_db_open says why then. */

/* The set */

/* Notes the time of a report. Nothing may wait to be sealed. */
bool harvest_db_note_report(struct harvest_db *db, int64_t us);

bool harvest_db_end_adoption(struct harvest_db *db, const char *position);

/* The doubt of a source that is not wholly read with another filter yet. */
#define HARVEST_REFILTERED "the filter has changed"

/* The set has another part of all sources from now on. */
bool harvest_db_set_filter(struct harvest_db *db, struct slice filter);

/* Forgets what the sources have, and their positions: the set is another one.
 */
bool harvest_db_forget(struct harvest_db *db);

/* Parts */

struct harvest_part {
    int64_t id;                           /* from 1 on */
    char position[HARVEST_POSITION_SIZE]; /* up to it all is sealed; "": none */
    int64_t listed_us;   /* the latest time of the lists that were read */
    int64_t compared_us; /* the last comparison; 0: none */
    int64_t complete_us; /* complete as of; 0: never */
    uint64_t n_left_out; /* rows of the last list whose deletions counted */
    uint64_t n_held_of;  /* deletions are held back of so many resources */
    char doubt[HARVEST_TEXT_SIZE]; /* why it is not complete; "": it is */
};

/* Finds the part of the set `url` of the source `source`, or makes it. */
bool harvest_db_part(struct harvest_db *db, const char *source, const char *url,
                     struct harvest_part *part);

/* Stores the part, with all rows that changed before. */
bool harvest_db_note_part(struct harvest_db *db,
                          const struct harvest_part *part);

/* Selects the sources of the parts. */
struct db_rows harvest_db_sources(struct harvest_db *db);

/* Resources */

struct harvest_resource {
    struct slice loc;
    struct slice entry; /* JSON */
    struct survey_resource version;
};

/* What the state knows of a loc. */
struct harvest_known {
    bool is_there;      /* the part has it */
    bool is_like;       /* in no other version, as far as both say */
    bool is_same;       /* in this version: the same, and both say something */
    bool is_elsewhere;  /* another part has it */
    bool is_known;      /* any part has it, part 0 among them */
    bool is_same_there; /* another part, or part 0, has it in this version */
    int64_t changed_us; /* the part's last change of it, or its deletion */
};

bool harvest_db_look(struct harvest_db *db, int64_t part,
                     const struct harvest_resource *resource,
                     struct harvest_known *known);

/* The part has it from now on, and part 0 not any more. */
bool harvest_db_keep(struct harvest_db *db, int64_t part,
                     const struct harvest_resource *resource,
                     int64_t changed_us);

/* The part has it no longer. `changed_us`: of its deletion, kept until the next
 * comparison; DATETIME_NONE: not kept. */
bool harvest_db_remove(struct harvest_db *db, int64_t part, struct slice loc,
                       int64_t changed_us);

/* What others posted into the set: `version` NULL: a deletion. Parts that have
 * the loc in another version are due: they no longer have it `is_same`. */
bool harvest_db_disturb(struct harvest_db *db, struct slice loc,
                        const struct survey_resource *version);

/* Marks what others changed, and notes that the state has read the set up to
 * that position. */
bool harvest_db_end_disturbance(struct harvest_db *db, const char *position);

bool harvest_db_is_due(struct harvest_db *db, int64_t part, bool *is_due);

bool harvest_db_count(struct harvest_db *db, int64_t part, uint64_t *n);

/* Records of a source of OAI-PMH */

/* The numbers are in the file. */
enum record_state {
    RECORD_HELD,
    RECORD_UNREAD, /* it cannot be used: its resource stays as it was */
    RECORD_GONE,   /* a tombstone */
    RECORD_WAITS,  /* older than what is known: its resource stays as it was */
    RECORD_STATES,
};

/* What the state knows of a record. */
struct harvest_record {
    char loc[8193];   /* "": none */
    int64_t pass;     /* the last that had it; 0: none */
    uint64_t state;   /* enum record_state, in that pass */
    int64_t stamp_us; /* of that state; DATETIME_NONE: unknown */
    int64_t known_us; /* of the last state before that pass, likewise */
    bool is_taken;    /* another living record of the pass has the loc */
};

/* Looks for the record, and for another one that has `loc` in `pass`. */
bool harvest_db_record(struct harvest_db *db, int64_t part,
                       struct slice identifier, struct slice loc, int64_t pass,
                       struct harvest_record *record);

/* The record has the loc, size 0: none, from now on, and no other one has it.
 */
bool harvest_db_note_record(struct harvest_db *db, int64_t part,
                            struct slice identifier, struct slice loc,
                            const struct harvest_record *record);

/* Tombstones wait for the end of the pass, which may have a later living state:
 * drops all of them, or those that are not later than what was known. */
bool harvest_db_drop_tombs(struct harvest_db *db, int64_t part, bool are_all);

/* The next pass takes the records that wait, whatever their stamps. */
bool harvest_db_forget_stamps(struct harvest_db *db, int64_t part);

/* Lists */

/* *n_before: the resources that the part has before the list. */
bool harvest_db_begin_list(struct harvest_db *db, int64_t part,
                           uint64_t *n_before);

/* The list has it; or, after all, not (is_listed false). */
bool harvest_db_list(struct harvest_db *db, int64_t part, struct slice loc,
                     bool is_listed);

/* The list has it in another version, and whether that counts is decided at the
 * end; or it is a copy whose bytes could not be had (copy.h), which is tried
 * again. It comes behind all others, until the part has the
 * loc, or no longer. */
bool harvest_db_defer(struct harvest_db *db, int64_t part,
                      const struct harvest_resource *deferred);

/* Ends the list: *n resources of the part are not in it, and have not changed
 * after `as_of_us` (DATETIME_NONE: whenever). They are held back, until
 * harvest_db_remove, harvest_db_keep or the next list. */
bool harvest_db_end_list(struct harvest_db *db, int64_t part, int64_t as_of_us,
                         uint64_t *n, bool *is_empty);

/* Resources that wait for a decision. */
enum harvest_queue {
    QUEUE_HELD,     /* deletions that are held back; the caller removes the
                       resource, which ends its wait */
    QUEUE_DEFERRED, /* harvest_db_next removes the entry that it returns */
    QUEUE_TOMBS,    /* harvest_db_next removes the loc from the tombstone's
                       record */
};

/* How many there are in a queue, not that of the tombstones. */
bool harvest_db_waiting(struct harvest_db *db, enum harvest_queue queue,
                        int64_t part, uint64_t *n);

/* The next one of a queue, in memory that the next call frees; loc.size 0: there
 * are no more. Only a deferred one has an entry and a version. */
bool harvest_db_next(struct harvest_db *db, enum harvest_queue queue,
                     int64_t part, struct harvest_resource *next);

/* Posts */

struct harvest_post {
    char key[HARVEST_KEY_SIZE];
    char before[HARVEST_POSITION_SIZE]; /* of its part, before it */
    int64_t made_s;                     /* since 1970 */
    size_t n;                           /* entries */
    char *body;                         /* the caller's, to be freed */
    size_t size;
    struct slice changes; /* in it; behind them may be the bytes of copies */
};

/* Makes a post of n entries durable, gives it its key, and moves the part to
 * `position` (NULL: it stays), with all rows that changed before. */
bool harvest_db_seal(struct harvest_db *db, struct harvest_part *part,
                     struct slice body, size_t n, const char *position);

/* The sealed post without an answer; *is_there false: there is none. */
bool harvest_db_unfinished(struct harvest_db *db, struct harvest_post *post,
                           bool *is_there);

/* Records that the set has the post. `target`: the set's position then; NULL:
 * others posted, too, so the earlier one stays. */
bool harvest_db_posted(struct harvest_db *db, const char *target);
