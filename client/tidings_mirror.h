/*
 * tidings_mirror.h - mirrors the resources of a source on disk, and verifies
 * that a history is complete.
 */
#ifndef TIDINGS_MIRROR_H
#define TIDINGS_MIRROR_H

#include <stddef.h>
#include <stdint.h>

#include "tidings_client.h"
#include "tidings_follow.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The events of a mirror. Strings are lent; NULL if the event has none. */
enum td_sync_what {
    TD_SYNC_BASELINE,  /* a baseline begins; `why` */
    TD_SYNC_BASELINED, /* the baseline ended; `position` */
    TD_SYNC_WRITTEN,   /* `loc` is at `path`; `bytes` */
    TD_SYNC_DELETED,   /* `loc` was at `path` */
    TD_SYNC_FAILED,    /* an attempt to get `loc` failed: `why`; another one
                          follows */
    TD_SYNC_LEFT,      /* `loc` is given up until the next run, or until it
                          changes: `why` */
    TD_SYNC_TROUBLE,   /* `why`: no connection, or none that helps; a set that
                          failed, cannot be read, or is no longer offered, while
                          others go on; `path` had something in the way */
    TD_SYNC_PROGRESS,  /* only numbers, at most four times a second; or how much
                          of a list is read: `n_listed` */
    TD_SYNC_CAUGHT_UP, /* the mirror equals the source at `position` */
    TD_SYNC_REPORT,    /* a reading of the lists of `set` mended rows or left
                          some out: `report` */
    TD_SYNC_DOUBT,     /* the mirror cannot know that it is complete: `why`; a
                          comparison follows */
    TD_SYNC_COMPLETE,  /* compared, and all files are there: complete as of
                          `as_of` */
    TD_SYNC_HELD,      /* deletions are held back: `n_held` of `n_of`; 0: no
                          longer */
    TD_SYNC_COMPARED   /* an audit has compared `set` (NULL: several) at
                          `position` (of the first) without reading all of it;
                          `why`: how many requests that took, and how many ids
                          differ (a changed resource has two) */
};

struct td_sync_event {
    enum td_sync_what what;
    const char *set; /* URL */
    const char *loc;
    const char *path; /* in the mirror, relative */
    const char *why;
    const char *position;
    uint64_t bytes;
    const struct td_report *report;
    const char *as_of; /* W3C Datetime */
    uint64_t n_held;
    uint64_t n_of;
    uint64_t n_listed; /* resources read so far from the list of `set`; 0:
                          another event */
    /* Numbers of this run, with every event. */
    uint64_t n_wanted; /* resources still to fetch */
    uint64_t n_done;   /* fetched, already right, or deleted */
    uint64_t n_failed; /* given up */
    uint64_t bytes_done;
    uint64_t bytes_wanted;   /* still to fetch, of known lengths */
    uint64_t n_packages;     /* of dumps, fetched whole */
    uint64_t n_unpacked;     /* files that came from packages, of n_done */
    const char *filter;      /* of the mirror; NULL: all of the source */
    uint64_t bytes_packages; /* of packages, apart from bytes_done */
};

struct td_sync_options {
    unsigned per_host;      /* requests at a time at one host, of all that this
                               handle begins from now on; 0: 4. Streams count
                               apart */
    unsigned attempts;      /* for a resource, with all its links; 0: 5 */
    int max_delete_percent; /* of the mirror's resources, in one baseline or one
                               hour of changes; more end the mirror with
                               TD_REFUSED, and it deletes none of them, except
                               those of earlier changes in that hour. 0: 20;
                               negative, or 100 and more: no limit. Fewer than
                               100 files are never too many */
    int until_caught_up;    /* not 0: end with TD_OK when the mirror equals the
                               source; else go on following */
    unsigned poll_ms;       /* as in td_follow_options; and between looks for
                               new sets of the source */
    unsigned patience_ms;   /* the same; nor does the mirror wait for a host of
                               resources that asks for a longer pause */
    int has_no_dumps;       /* not 0: no packages: Resource Lists and single
                               downloads, in spite of dumps */
    int has_no_mirrors;     /* not 0: `loc` alone, no links `duplicate` */
    uint64_t accept_deletions; /* as in td_follow_options */
    unsigned compare_ms;       /* as there; 0: a day */
    void (*on_event)(const struct td_sync_event *event, void *user);
    void *user;
    const char *filter; /* "tag=a&prefix=http://...&type=text/csv", as in the
                           address of a stream: only resources that pass; "all";
                           NULL: that of the last time */
    const char *as_of;  /* as in td_follow_options: not the present source, but
                           its state at that time. NULL: the present */
};

/*
 * Mirrors the resources of a set, or of all sets of a source, into a directory:
 * a baseline (Resource Dump if there is one, else Resource List, else the whole
 * history), then each change. The state is in DIR/.tidings: a process killed at
 * any moment goes on from there.
 *
 * url   a set, or any document of a ResourceSync source; a Source Description
 *       stands for all its sets.
 * dir   created if needed. Every resource is a file below it, at a path made
 *       from its URI: host, then the path's segments, with unsafe bytes
 *       percent-encoded; two URIs never share one. One process at a time.
 *
 * With `filter` it is the mirror of a part, which it remembers, and which
 * td_audit compares alone. Another filter begins the sets anew, by their lists
 * or their whole history, and keeps the files that are right. Those that do not
 * pass any more count as deletions.
 *
 * When the mirror has missed changes, the packages of the source's Change Dumps
 * replace single downloads where they cost less: fewer bytes, a request counted
 * as 4,096 of them.
 *
 * A file is replaced when its successor is on disk, complete, and has the
 * length and the digests in the source's entry; else it stays. When `loc`
 * fails, the mirror tries the links `duplicate` by `pri`.
 *
 * A file at a resource's path that the mirror did not write counts as the
 * resource if it has the digests in the source's entry; else the mirror moves
 * it unchanged to DIR/.tidings/found/N/. It follows no symbolic link below DIR.
 *
 * With `as_of` the directory becomes what the source was at that time, and
 * td_sync ends: the newest list or dump of that time, then the changes up to
 * it. The bytes come from dumps, from links `memento`, and from a resource's
 * own addresses where its digest at that time proves them. Those that can no
 * longer be had are given up (TD_SYNC_LEFT). Such a directory stays what it is:
 * td_sync without the same `as_of` refuses it (TD_INVALID), and td_audit
 * compares it with the source at that time.
 *
 * Called for several URLs one after the other, a directory is the mirror of all
 * of them: a resource stays as long as one set has it. If one of several sets
 * fails or cannot be read, the mirror reports it (TD_SYNC_TROUBLE) and goes on
 * with the others; it returns the first failure when all have ended. The sets
 * of a source share a connection as in td_follow_source; else td_sync streams
 * at most 100 of them, and visits the others every poll_ms. A source has at
 * most 10,000 sets (TD_BROKEN).
 *
 * Memory   all arguments are borrowed until return.
 * Thread   blocks; on_event runs on the calling thread.
 * Errors   TD_STOPPED   by td_stop: finished work is kept.
 *          TD_IO        the directory is in use, full (by td_limit, too) or
 *                       cannot be written.
 *          TD_REFUSED   by the server; or too many files would be deleted, or
 *                       there are more resources than td_limit allows.
 *          TD_GONE      the history does not reach back, and the source has no
 *                       Resource List to begin anew with; the set was removed.
 *          TD_REWOUND   as for td_follow; the mirror stays as it was.
 *          TD_DIFFERENT until_caught_up: some resources were given up.
 *          TD_INVALID, TD_UNREACHABLE, TD_BROKEN, TD_MEMORY as for td_follow.
 * Spec    . Since 1.0.
 */
TD_API enum td_status td_sync(struct td_client *client, const char *url,
                              const char *dir,
                              const struct td_sync_options *options);

/* Differences between a mirror and its source. */
enum td_finding {
    TD_MISSING, /* the source has it, the mirror does not */
    TD_STALE,   /* the mirror has an older version */
    TD_EXTRA,   /* the mirror has it, the source does not; without `loc`: a file
                   of no resource. The repair deletes the first kind and moves
                   the second to DIR/.tidings/found/ */
    TD_CORRUPT, /* the file is not the one that the mirror wrote */
    TD_LEFT_OUT, /* a row of the source's list that cannot be used: `why` */
    TD_UNKNOWN   /* its original cannot be had: `why` */
};

struct td_audit_options {
    int has_no_digests; /* not 0: lengths and times alone, reads no files */
    int repair;         /* not 0: fetch, replace and delete until it is right */
    int original;       /* not 0: compare with originals, too; no repair */
    int max_delete_percent;    /* of the repair; as in td_sync_options */
    uint64_t accept_deletions; /* the same */
    unsigned per_host;
    /* loc or path may be NULL. */
    void (*on_finding)(enum td_finding finding, const char *loc,
                       const char *path, const char *why, void *user);
    /* Events of the repair; TD_SYNC_TROUBLE and TD_SYNC_COMPARED. */
    void (*on_event)(const struct td_sync_event *event, void *user);
    void *user;
    const char *filter; /* td_diff alone: of both states, as in td_sync_options;
                           NULL: that of a mirror, else all */
};

/* Numbers of resources; n_compared includes the findings. */
struct td_audit_result {
    uint64_t n_compared;
    uint64_t n_missing, n_stale, n_extra, n_corrupt;
    uint64_t n_left_out; /* rows of the source's lists */
    uint64_t n_by_digest, n_by_length, n_by_time; /* how they were compared */
    uint64_t n_unchecked; /* there, with nothing to compare them by */
    uint64_t n_repaired;
    /* Compared with originals, too; those that cannot be had; none is named. */
    uint64_t n_by_original, n_unknown, n_without_via;
    int is_partial; /* td_diff, not 0: a state is not known to be complete */
    char position[TD_POSITION_SIZE]; /* of the source at the comparison */
};

/*
 * Compares a mirror with its source: the Resource List and the changes since,
 * or the whole history, with the files on disk. If the source has neither any
 * more, the resources that the mirror knows replace them, with the changes
 * since; TD_SYNC_TROUBLE says so. Of a source that offers comparisons
 * (Negentropy v1) it reads only what differs, and if that fails the whole:
 * TD_SYNC_TROUBLE says why (td_full_audits).
 *
 * `original`: each file that is as the source has it, and whose entry has a
 * link `via`, is compared with the bytes at that URL as well, one after
 * the other: TD_STALE, it has others; TD_EXTRA, 404 or 410; else TD_UNKNOWN.
 * The source must have a list of its resources, or its whole history;
 * TD_INVALID for a mirror of a past time.
 *
 * url     the mirror's source, as given to td_sync. NULL: that one, or all of
 *         them; must be NULL if there are several.
 * result  filled on TD_OK and TD_DIFFERENT; may be NULL.
 *
 * Thread   blocks.
 * Errors   TD_DIFFERENT  there were findings, and not all are repaired.
 *          TD_INVALID    the mirror is not of `url`; `repair` of `original`.
 *          TD_STOPPED    by td_stop; the repair begins only after the whole
 *                        comparison.
 *          TD_IO         `dir` is no mirror, in use, or cannot be read.
 *          else as td_sync.
 * Since 1.0.
 */
TD_API enum td_status td_audit(struct td_client *client, const char *url,
                               const char *dir,
                               const struct td_audit_options *options,
                               struct td_audit_result *result);

/*
 * Lets td_audit read all that each source has, also where a source offers
 * comparisons: a source that lies about its sums is found out. A new handle
 * does not.
 *
 * Thread   as the handle; not while td_audit runs. Since 1.1.
 */
TD_API void td_full_audits(struct td_client *client, int reads_all);

/*
 * Compares two states of resources: as they were, and as they are. It reads no
 * file of a mirror, and of sources no bytes of resources.
 *
 * sides    of each: a URL as for td_sync, or the directory of a mirror.
 * as_of    of each URL: W3C Datetime, as in td_sync_options, or NULL: now.
 * options  on_finding comes for each difference, in order of loc:
 *          TD_MISSING, it was added; TD_EXTRA, removed; TD_STALE, changed:
 *          `why` names the values that differ, of "hash length lastmod type";
 *          one that either state lacks is no difference. on_event: trouble
 *          and reports. Other options are ignored.
 * result   filled on TD_OK and TD_DIFFERENT; may be NULL. n_unchecked: in both
 *          states, with neither hash nor length nor lastmod in common.
 *
 * Thread   blocks.
 * Errors   TD_DIFFERENT  there are differences, or a state is not known to be
 *                        complete.
 *          else as td_sync.
 * Spec     R-435. Since 1.0.
 */
TD_API enum td_status td_diff(struct td_client *client,
                              const char *const sides[2],
                              const char *const as_of[2],
                              const struct td_audit_options *options,
                              struct td_audit_result *result);

/* How much of a history is verified. */
struct td_proof {
    uint64_t n_lists;                /* lists read */
    uint64_t first;                  /* seq of the first entry read; 0: none */
    uint64_t last;                   /* last verified seq; 0: none */
    char position[TD_POSITION_SIZE]; /* of `last`; "" if there is none */
    char digest[80];                 /* of `last` */
    char from[32];                   /* event times, W3C Datetime */
    char until[32];
    int is_from_start;    /* not 0: the verified part begins at entry 1 */
    char broken_in[2100]; /* URL or file where it breaks; "": nowhere */
    uint64_t broken_at;   /* seq after which it breaks */
};

/*
 * Walks the Change Lists of a set of Tidings, oldest first, and checks that
 * every entry is there, that the digests of all entries lead from each list to
 * the next, that links and times agree, and that no entry comes twice.
 *
 * where     "http(s)://...": the set; else a directory with a copy of its lists
 *           (000000000001.xml, .xml.gz, at any depth), or a file with the
 *           proof of an entry (td_prove), or the evidence of a follower
 *           (td_keep_checkpoints): sends nothing. With td_trust the
 *           entries have to be those of the set's checkpoint, or of the file
 *           `checkpoint` in the directory.
 * on_list   called after each list that is right; again from the oldest one if
 *           the server now retains fewer lists; of a proof once, with the
 *           loc of its entry. NULL is allowed.
 * proof     filled on TD_OK and TD_DIFFERENT.
 *
 * Thread   blocks.
 * Errors   TD_DIFFERENT  the history breaks; td_problem says where and how.
 *          TD_REWOUND    of evidence: it convinces
 *          TD_IO         the directory cannot be read, or has no lists.
 *          TD_GONE       the set was removed, or all of its lists.
 *          TD_INVALID, TD_REFUSED, TD_UNREACHABLE, TD_BROKEN, TD_STOPPED,
 *          TD_MEMORY
 * Spec    . Since 1.0.
 */
TD_API enum td_status td_verify(struct td_client *client, const char *where,
                                void (*on_list)(const char *list,
                                                const struct td_proof *proof,
                                                void *user),
                                void *user, struct td_proof *proof);

/*
 * Fetches the proof that an entry is in the log of a set (C2SP tlog-proof), and
 * checks it. td_verify checks such a file again, without the set.
 *
 * seq       of the entry, from 1 on.
 * on_proof  gets the text, lent.
 *
 * Thread   blocks.
 * Errors   TD_DIFFERENT  it proves nothing, or is not signed as td_trust
 *                        demands
 *          TD_REFUSED    the set has no such entry, or no checkpoint
 *          TD_INVALID, TD_UNREACHABLE, TD_BROKEN, TD_STOPPED, TD_MEMORY
 * Since 1.1.
 */
TD_API enum td_status
td_prove(struct td_client *client, const char *set_url, uint64_t seq,
         void (*on_proof)(const char *proof, size_t size, void *user),
         void *user);

#ifdef __cplusplus
}
#endif

#endif
