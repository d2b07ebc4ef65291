/*
 * set_progress.h - the archive thread's private notes about a set.
 *
 * Each part belongs to the file that its comment names; other files call
 * functions of that file. The registry makes the notes together with the set
 * (registry_options.progress_size), so that no step of the thread can lack
 * memory for them, and frees them with it. All is zero at first, which means
 * that the thread has not looked yet.
 *
 * Archive thread.
 */
#pragma once

#include "broker/archive/chore.h"
#include "broker/log/head.h"

/* retention.c: the oldest list at its last look, and the time of its end;
 * the same of generations. It need not look again before. */
struct retention_progress {
    uint64_t list;
    int64_t until_us;

    struct generation_progress {
        uint64_t number;
        int64_t completed_us;
    } generations[GENERATION_KINDS];
};

/* state_fold.c: the set's state has the entries up to `seq`, its copy on
 * the disk those up to `kept`, and retention waits until the disk has those
 * up to `wanted`. */
struct fold_progress {
    bool is_known; /* the state was looked at: `seq` is its position */
    bool is_whole; /* no resource is missing in it */
    bool has_file; /* the state is on the disk, as far as anybody looked */
    bool has_ids;  /* it has the ids of its resources */
    /* Of a cluster: numbers; the fold stops for no Resource List or Dump up to
     * them. */
    uint64_t lists[GENERATION_STATES];
    uint64_t seq, kept, wanted;
};

/* checkpoints.c: the tree has the leaves up to `seq`, on the disk, and
 * retention waits until it has those up to `wanted`. */
struct tree_progress {
    bool has_new_epoch; /* since the start: its rows may be ahead of the log */
    bool is_known;      /* the tree was looked at */
    bool is_lost;       /* it lacks its first leaves, for ever */
    uint64_t seq, wanted;
    uint64_t filed;   /* the size of the checkpoint of the closed lists */
    int64_t due_us;   /* it is folded then; steady clock */
    int64_t retry_us; /* that checkpoint has failed: not before; likewise */
    int64_t text_us;  /* streams get the next one then; likewise; 0: no stream
                         wants one, or at once */
};

/* contents.c, of the bytes of its resources: the entries up to `seq` are
 * folded, on the disk, and retention waits until those up to `wanted`
 * are. */
struct content_progress {
    enum { CONTENT_UNKNOWN, CONTENT_NOTHING, CONTENT_SOME } has;

    uint64_t seq, wanted;
    uint64_t settled;  /* from that seq on, files without a row and a pin
                          may go */
    uint64_t earliest; /* overtaken rows up to there are forgotten */
    uint64_t versions; /* the limit by which former versions are thinned */
    uint64_t thinned;  /* up to that seq; UINT64_MAX: all */
    bool is_loose;     /* files may be left without a row */
    unsigned sweep;    /* the next folder to search for orphans */
    bool is_late;      /* it lags for want of disk; reported */
    bool is_unsettled; /* facts of folded entries are not in the rows yet */
    uint64_t taken;    /* the bytes of facts up to there are in files alone */
    int64_t due_us;    /* the clock, when the first fetch of a missing file
                          is due; INT64_MAX: none is */
    int64_t off_us;    /* since when it keeps no content; steady clock; 0:
                          it keeps some */
};

/* fetch_schedule.c: it has looked at the fetches due before `us`, and of
 * those due at `us` up to `seq`. */
struct fetch_progress {
    int64_t us;
    uint64_t seq;
};

/* build_schedule.c: the Resource List, or Dump, is to be built anew, once the
 * state is at `wanted`. */
struct build_progress {
    bool is_due;
    uint64_t wanted;
    int64_t retry_us; /* not before: it has failed; steady clock */
};

/* changedumps.c: the Change List whose Change Dump is the next one (0:
 * nobody has looked yet). */
struct dump_progress {
    uint64_t list;
    uint64_t have; /* of a cluster: up to that number all dumps are here */
    bool is_due;
    bool is_late;     /* retention does not wait for it any more */
    int64_t retry_us; /* not before: it has failed; steady clock */
};

struct set_progress {
    struct turn_place turns[TURN_KINDS];
    struct retention_progress retention;
    struct fold_progress fold;
    struct tree_progress tree;
    struct content_progress content;
    struct fetch_progress fetch;
    struct build_progress builds[GENERATION_STATES];
    struct dump_progress dump;
    struct candidate *candidate; /* witnesses.c; its lock guards it */
};
