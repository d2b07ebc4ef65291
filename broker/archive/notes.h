/*
 * notes.h - what the archive thread knows of a set, and nobody else.
 *
 * Each part belongs to the file that its comment names; other files call
 * functions of that file. The registry makes the notes together with the set
 * (registry_options.notes_size), so that no step of the thread can lack memory
 * for them, and frees them with it. At first all is zero: nobody has looked
 * yet.
 *
 * Archive thread.
 */
#ifndef BROKER_ARCHIVE_NOTES_H
#define BROKER_ARCHIVE_NOTES_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/log/generations.h"

struct notes {
    /* retain.c: the oldest list, as of its last look, and when that ended; the
     * same of generations. It need not look again before. */
    struct retention_notes {
        uint64_t list;
        int64_t until_us;

        struct {
            uint64_t number;
            int64_t completed_us;
        } generations[GENERATION_KINDS];
    } retention;

    /* folding.c: the entries up to `seq` are in the set's state, those up to
     * `kept` are so on the disk, and retention waits for that of those up to
     * `wanted`. */
    struct fold_notes {
        bool is_known;   /* the state was looked at: `seq` is its position */
        bool has_failed; /* the last try; it was reported */
        uint64_t seq, kept, wanted;
    } fold;

    /* contents.c, of the bytes of its resources: the entries up to `seq` are
     * folded, on the disk, and retention waits for that of those up to
     * `wanted`. */
    struct content_notes {
        enum { CONTENT_UNKNOWN, CONTENT_NOTHING, CONTENT_SOME } has;

        uint64_t seq, wanted;
        uint64_t settled;  /* from that seq on, what no row tells of and nobody
                              has claimed may go */
        uint64_t earliest; /* retention has come there with its rows */
        bool is_loose;     /* files that rows let go of are there, perhaps */
        unsigned sweep;    /* orphans are looked for in that folder next */
        bool is_late;      /* it is behind for want of disk, and we said so */
        int64_t due_us;    /* the clock, when the first of those that are not
                              there is to be fetched; INT64_MAX: none is */
        int64_t off_us;    /* it keeps none any more since then; steady clock;
                              0: it does */
    } content;

    /* fetching.c: it has looked at those due before `us`, and at that time up
     * to `seq`. */
    struct fetch_notes {
        int64_t us;
        uint64_t seq;
    } fetch;

    /* renewal.c: the Resource List, or Dump, is to be built anew, once the
     * state is at `wanted`. */
    struct build_notes {
        bool is_due;
        uint64_t wanted;
        int64_t retry_us; /* not before: it has failed; steady clock */
    } builds[GENERATION_STATES];

    /* changedumps.c: the Change List whose Change Dump is the next one (0:
     * nobody has looked yet). */
    struct dump_notes {
        uint64_t list;
        bool is_due;
        bool is_late;     /* retention does not wait for it any more */
        int64_t retry_us; /* not before: it has failed; steady clock */
    } dump;
};

#endif
