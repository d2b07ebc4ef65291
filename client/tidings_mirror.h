/*
 * tidings_mirror.h - the resources of a source on disk, kept as they are there;
 * and the proof that a history is whole.
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

/* What a mirror does, as it does it. Strings are lent; NULL where nothing is to
 * be told. */
enum td_sync_what {
    TD_SYNC_BASELINE,  /* a baseline begins; `why` */
    TD_SYNC_BASELINED, /* it ended; `position` */
    TD_SYNC_WRITTEN,   /* `loc` is at `path`; `bytes` */
    TD_SYNC_DELETED,   /* `loc` was at `path` */
    TD_SYNC_FAILED,    /* an attempt to get `loc` failed: `why`; it is tried
                          again */
    TD_SYNC_LEFT,     /* `loc` is given up until the next run, or until a change
                         of it is told: `why` */
    TD_SYNC_TROUBLE,  /* `why`: no connection, or none that helps; a set that
                         failed or cannot be read while others go on, or is not
                         offered any more; `path` had something in the way */
    TD_SYNC_PROGRESS, /* numbers alone, at most four times a second; or how much
                         of a list is read: `n_listed` */
    TD_SYNC_CAUGHT_UP /* the mirror is the source at `position` */
};

struct td_sync_event {
    enum td_sync_what what;
    const char *set; /* URL */
    const char *loc;
    const char *path; /* in the mirror, relative */
    const char *why;
    const char *position;
    uint64_t bytes;
    uint64_t n_listed; /* resources of the list of `set` that is being read; 0:
                          the event is of something else */
    /* Numbers of this run, with every event. */
    uint64_t n_wanted; /* resources still to be fetched */
    uint64_t n_done;   /* fetched, found to be right already, or deleted */
    uint64_t n_failed; /* given up */
    uint64_t bytes_done;
    uint64_t bytes_wanted; /* still to be fetched, of known lengths */
};

struct td_sync_options {
    unsigned per_host;      /* downloads at a time from one host; 0: 4 */
    unsigned attempts;      /* for a resource, all its links included; 0: 5 */
    int max_delete_percent; /* of what the mirror has, in one baseline or one
                               hour of changes; more ends it with TD_REFUSED:
                               nothing is deleted then, but for what earlier
                               changes of the hour had told. 0: 20; negative,
                               or 100 and more: no limit. Fewer than 100 files
                               are never too many */
    int until_caught_up;    /* not 0: end with TD_OK when the mirror is the
                               source; else go on following */
    unsigned poll_ms;       /* as of td_follow_options; and between looks for
                               sets that a source has since */
    unsigned patience_ms;   /* the same; a host of resources that wants to be
                               left alone for longer is not waited for either */
    int has_no_dumps;       /* not 0: Resource Lists, though there are dumps */
    void (*on_event)(const struct td_sync_event *event, void *user);
    void *user;
};

/*
 * Mirrors the resources of a set, or of all sets of a source, into a directory:
 * a baseline (Resource Dump if there is one, else Resource List, else the whole
 * history), then each change. State is kept in DIR/.tidings: whoever is killed
 * at any moment goes on from there.
 *
 * url   a set, or any document of a ResourceSync source; a Source Description
 *       stands for all its sets.
 * dir   made if it is not there. Every resource is a file below it, at a path
 *       made from its URI: host, then the path's segments, everything that is
 *       not safe percent-encoded; two URIs never share one. One process at a
 *       time.
 *
 * A file is replaced when its successor is on disk, whole, and has the length
 * and the digests that the source told, else it stays as it was. When `loc`
 * fails, the links `duplicate` are tried by `pri`.
 *
 * Something at a resource's path that the mirror did not write is taken for it
 * if it has the digests that the source told; else it is moved to
 * DIR/.tidings/found/N/, as it is. No symbolic link below DIR is followed.
 *
 * Called for several URLs one after the other, a directory is the mirror of all
 * of them: a resource is there as long as one set has it. Of several sets one
 * that fails, or that the source names and that cannot be read, is told
 * (TD_SYNC_TROUBLE) and the others go on; the first failure is returned when
 * all have ended. At most 100 sets of a source are streamed, the others are
 * asked every poll_ms; a source has at most 10,000 sets (TD_BROKEN).
 *
 * Memory   all arguments are borrowed until return.
 * Thread   blocks; on_event runs on the calling thread.
 * Errors   TD_STOPPED   by td_stop: all that was done is kept.
 *          TD_IO        the directory is in use, full (by td_limit, too) or
 *                       cannot be written.
 *          TD_REFUSED   by the server; or too much is to be deleted, or there
 *                       are more resources than td_limit allows.
 *          TD_GONE      the history does not reach back, and the source has no
 *                       Resource List to begin anew with; the set was removed.
 *          TD_DIFFERENT until_caught_up: some resources were given up.
 *          TD_INVALID, TD_UNREACHABLE, TD_BROKEN, TD_MEMORY as of td_follow.
 * Spec    . Since 0.1.
 */
TD_API enum td_status td_sync(struct td_client *client, const char *url,
                              const char *dir,
                              const struct td_sync_options *options);

/* What is wrong with a resource of a mirror. */
enum td_finding {
    TD_MISSING, /* the source has it, the mirror does not */
    TD_STALE,   /* the mirror has what it was before */
    TD_EXTRA,   /* the mirror has it, the source does not; without `loc`: a file
                   that no resource is at. The repair deletes the first and
                   moves the second to DIR/.tidings/found/ */
    TD_CORRUPT  /* the file is not what the mirror had written */
};

struct td_audit_options {
    int has_no_digests; /* not 0: lengths and times alone, files are not read */
    int repair;         /* not 0: fetch, replace and delete until it is right */
    int max_delete_percent; /* of the repair; as of td_sync_options */
    unsigned per_host;
    /* loc or path may be NULL. */
    void (*on_finding)(enum td_finding finding, const char *loc,
                       const char *path, const char *why, void *user);
    /* Of a repair; and TD_SYNC_TROUBLE. */
    void (*on_event)(const struct td_sync_event *event, void *user);
    void *user;
};

/* How many resources; all of them, findings included. */
struct td_audit_result {
    uint64_t n_compared;
    uint64_t n_missing, n_stale, n_extra, n_corrupt;
    uint64_t n_repaired;
    char
        position[TD_POSITION_SIZE]; /* of the source, that it was compared at */
};

/*
 * Compares a mirror with its source: the Resource List and the changes since,
 * or the whole history, with what is on disk. Where the source has neither any
 * more, what the mirror was told so far stands for it, and the changes since;
 * TD_SYNC_TROUBLE says so.
 *
 * url     the one that the mirror was made from, as td_sync was given it. NULL:
 *         that, or all of them; it has to be NULL where they are several.
 * result  filled on TD_OK and TD_DIFFERENT; may be NULL.
 *
 * Thread   blocks.
 * Errors   TD_DIFFERENT  there were findings, and not all are repaired.
 *          TD_INVALID    the mirror is not of `url`.
 *          TD_STOPPED    by td_stop; before all was compared nothing is
 *                        repaired.
 *          TD_IO         `dir` is no mirror, in use, or cannot be read.
 *          else as td_sync.
 * Since 0.1.
 */
TD_API enum td_status td_audit(struct td_client *client, const char *url,
                               const char *dir,
                               const struct td_audit_options *options,
                               struct td_audit_result *result);

/* How far a history is proven. */
struct td_proof {
    uint64_t n_lists; /* that were read */
    uint64_t first;   /* seq of the first entry that was read; 0: none */
    uint64_t last;    /* up to which all is proven; 0: nothing */
    char position[TD_POSITION_SIZE]; /* of `last`; "" if there is none */
    char digest[80];                 /* of `last` */
    char from[32];                   /* event times, W3C Datetime */
    char until[32];
    int is_from_start;    /* not 0: the proof begins at entry 1 */
    char broken_in[2100]; /* URL or file where it breaks; "": it does not */
    uint64_t broken_at;   /* seq after which it breaks */
};

/*
 * Walks the Change Lists of a set of Tidings, oldest first, and checks that
 * every entry is there, that the digests of all entries lead from each list to
 * the next, that links and times agree, and nothing is told twice.
 *
 * where     "http(s)://...": the set; else a directory with a copy of its lists
 *           (000000000001.xml, .xml.gz, however deep): nothing is sent.
 * on_list   called after each list that holds, from the oldest again where the
 *           server retains less by now; NULL: nobody asks.
 * proof     filled on TD_OK and TD_DIFFERENT.
 *
 * Thread   blocks.
 * Errors   TD_DIFFERENT  it breaks; td_problem says where and how.
 *          TD_IO         the directory cannot be read, or has no lists.
 *          TD_GONE       the set was removed, or all of its lists.
 *          TD_INVALID, TD_REFUSED, TD_UNREACHABLE, TD_BROKEN, TD_STOPPED,
 *          TD_MEMORY
 * Spec    . Since 0.1.
 */
TD_API enum td_status td_verify(struct td_client *client, const char *where,
                                void (*on_list)(const char *list,
                                                const struct td_proof *proof,
                                                void *user),
                                void *user, struct td_proof *proof);

#ifdef __cplusplus
}
#endif

#endif
