/*
 * harvest_feed.h - one set of a source: its messages become changes of the set
 * that the harvest keeps.
 *
 *     message --> each change --> is it new to the set? --> outbox --> seal
 *                    |                                        ^         |
 *                    +--> the part has it (harvest_db) -------+         v
 *                                                          harvest_target_post
 *
 *     a list of all resources (baseline, comparison): what differs is posted;
 *     what is missing is deleted, within a limit
 *
 * A resource is deleted when no part has it any more. A source with a history
 * of its own is posted change by change. For one that has only a list, the
 * differences count: what the set has in that version is not posted again.
 */
#pragma once

#include "client/harvest/copy.h"
#include "client/harvest/harvest_target.h"

/* Changes that wait for their post, of one feed at a time. */
struct harvest_outbox {
    struct buf body;
    struct buf parts;                  /* the bytes of copies */
    char boundary[COPY_BOUNDARY_SIZE]; /* before each of them */
    size_t n;
    struct harvest_feed *feed; /* of the changes */
};

struct harvest_feed {
    struct harvest_target *target;
    struct harvest_db *db; /* the target's */
    struct harvest_outbox *outbox;
    const char *url;
    struct harvest_part part;
    int64_t listed_us;            /* of `part`, before this look */
    char epoch[TD_POSITION_SIZE]; /* of the source's log; "": it has none */
    bool has_log;                 /* it is a set of Tidings */
    bool has_only_list;
    bool is_listing; /* between begin and end of a list */
    bool is_comparison;
    bool is_doubtful;  /* the list may lack resources: it proves nothing */
    bool is_routine;   /* nothing is suspicious: the comparison is not said */
    bool is_replay;    /* the whole history takes the place of the list */
    bool is_anew;      /* it is read from the beginning, and the set has some */
    uint64_t n_before; /* the resources before this list */
    uint64_t n_listed;
    int64_t survey_us; /* when it began, by our clock */
    bool has_position; /* `position` is that of the last change in the outbox */
    char position[HARVEST_POSITION_SIZE];
    char suspicion[HARVEST_TEXT_SIZE]; /* why to compare; "": no reason */
    struct harvest_counts counts;
    /* The records of the pass that began at survey_us. */
    uint64_t n_records[RECORD_STATES];
    bool is_unproven;   /* it does not show all deletions */
    bool keeps_missing; /* what a list lacks is held back, however few it is */
    struct td_client *files; /* for the bytes of copies; NULL: there are none */
    struct slice record;     /* the bytes of the present one; lent */
    struct buf loc;          /* of a copy, or what a filter sees */
};

/* Applies a message. False: the harvest has to end (target->end). */
bool harvest_feed_message(struct harvest_feed *feed,
                          const struct td_message *message);

/* Ends a list that the source's whole history took the place of: all of it was
 * read. */
bool harvest_feed_end_replay(struct harvest_feed *feed);

/*
 * A pass through the records of a source of OAI-PMH. A full one is a list of
 * all resources; another one changes only the resources that it has. A record
 * may come in several states: the one with the latest stamp counts, so
 * tombstones act at the end of the pass.
 */

bool harvest_feed_begin_pass(struct harvest_feed *feed, bool is_full);

/* `c`: the resource; loc size 0: it has no address that can be used. `digest`:
 * of all that the record says. `bytes`: the record as a document, if the set
 * stores that. A record without an identifier, without a loc, or with that of
 * another record cannot be used: it is left out. `fault`: why it has no loc;
 * NULL: nobody knows more. */
bool harvest_feed_record(struct harvest_feed *feed, struct slice identifier,
                         const struct change *c, uint64_t digest,
                         struct slice bytes, const char *fault);

/* Ends the pass, and keeps the records of it. `is_whole`: the pass has as many
 * records as the source counts. The next pass begins at `position`; NULL: this
 * pass ended early, and the next pass begins where this one began. */
bool harvest_feed_end_pass(struct harvest_feed *feed, const char *position,
                           bool is_whole);

/* Seals and posts what waits in the outbox, of whatever feed. */
bool harvest_feed_flush(struct harvest_outbox *outbox);

/* Sets the doubt of the part if the bytes of copies could not be had, or ends
 * that; tries them again before, if `is_due`. */
bool harvest_feed_retry(struct harvest_feed *feed, bool is_due);

/* Deletes what was held back before, if the options accept it now; and counts
 * what stays. */
bool harvest_feed_held(struct harvest_feed *feed);

/* Deletes resources that the set had before this harvest, and that no source
 * has, if the options accept so many; *n stay. */
bool harvest_feed_strays(struct harvest_feed *feed, uint64_t *n);
