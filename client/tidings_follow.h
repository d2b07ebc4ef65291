/*
 * tidings_follow.h - every change of a source, once and in order, whatever
 * happens to the network, to the server or to the follower.
 *
 *     live     WebSocket, else server-sent events, else long poll; a source
 *              without any of them: its Change Lists, asked again and again;
 *              without these, too: its Resource List or Sitemap, read again and
 *              again, whose differences are the changes
 *     holes    the change memory, else the Change Lists: open, index, archives
 *     gone     where the history no longer reaches back: a baseline again
 *
 * Push and pull meet at a position. Every message says where it begins and
 * where it ends, and is handed over only if it begins where the last one ended.
 * Whoever stores the position of a message together with what the message did
 * has every change exactly once, across crashes too.
 */
#ifndef TIDINGS_FOLLOW_H
#define TIDINGS_FOLLOW_H

#include <stddef.h>
#include <stdint.h>

#include "tidings_client.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sqlite3;

/* A link of an entry (rs:ln). Strings are UTF-8, NULL where nothing was given.
 */
struct td_link {
    const char *rel;
    const char *href;
    const char *type;
    const char *hash;     /* "sha-256:... md5:..." */
    uint64_t length;      /* bytes; UINT64_MAX: untold */
    unsigned pri;         /* 1 to 999999, lower is better; 0: untold */
    const char *modified; /* W3C Datetime */
    const char *path;     /* of a patch in a dump */
};

/* A change or, in a baseline, a resource. Strings are UTF-8, terminated; NULL
 * where nothing was given. */
struct td_change {
    uint64_t seq;         /* its number; 0: the source has none */
    const char *datetime; /* event time, W3C Datetime */
    const char *change;   /* "created", "updated", "deleted"; NULL in a baseline
                           */
    const char *loc;
    const char *lastmod; /* of the resource, W3C Datetime */
    const char *hash;    /* "sha-256:... md5:..." */
    uint64_t length;     /* bytes; UINT64_MAX: untold */
    const char *type;
    const char *encoding;
    const char *tags; /* single spaces between */
    const struct td_link *links;
    size_t n_links;
    const char
        *file;        /* its representation, out of a dump: the path of a file
                         below td_follow_options.scratch, digests checked, not
                         synced (fsync), that the callback may rename or link; it
                         is there until the callback returns, and then removed */
    const char *text; /* the entry as it came: a JSON object, or the line
                         <url>...</url> with rs and td undeclared */
    size_t text_size;
};

enum td_kind {
    TD_CHANGES,        /* what happened next; or a heartbeat */
    TD_BASELINE_BEGIN, /* what is known is void; `reason` says why */
    TD_BASELINE,       /* resources that there are */
    TD_BASELINE_END    /* there are no others; following goes on from here */
};

/* What is handed over. Lent until the callback returns. */
struct td_message {
    enum td_kind kind;
    const char *set;     /* its name or, where it has none, its URL */
    const char *set_url; /* its URL, as td_sets tells it */
    uint64_t after; /* TD_CHANGES of a source with seqs: it covers the entries
                       after this one ... */
    uint64_t last;  /* ... up to this one; else 0 */
    const char *position; /* store it when the message is applied. NULL between
                             TD_BASELINE_BEGIN and _END: whoever stops there
                             begins the baseline again */
    const char *digest;   /* of the log up to `last`; NULL: untold */
    const char *reason;   /* TD_BASELINE_BEGIN: a sentence; else NULL */
    size_t n_changes;     /* 0: a heartbeat, or nothing passed the filters */
    const struct td_change *changes;
};

enum td_form { TD_JSON, TD_XML };

/* Which changes are wanted. Filters of the same name are alternatives, of each
 * name one must hold. */
struct td_filter {
    const char *name;  /* "change", "prefix" (of loc), "type", "tag" */
    const char *value; /* "deleted"; "http://..."; "image/png", a star as
                          subtype for all of image; a tag */
};

enum td_baseline {
    TD_NO_BASELINE,   /* TD_GONE where the history does not reach back */
    TD_BASELINE_GONE, /* take one when it does not */
    TD_BASELINE_FIRST /* and begin with one if `after` is NULL; a set whose
                         whole history is there is followed from its beginning
                         instead, unless it offers a Resource Dump and `scratch`
                         says where its packages may be */
};

/* What may carry the changes; the best that works is taken. */
enum td_transport {
    TD_WEBSOCKET = 1,
    TD_EVENTS = 2,
    TD_LONG_POLL = 4,
    TD_POLL = 8 /* Change Lists, by time, else Resource Lists and Sitemaps: any
                   ResourceSync source */
};

/* Return 0 to go on; anything else ends the following with TD_STOPPED. It must
 * not make a call that blocks with this client; td_stop is allowed, and so is
 * td_follower_close. */
typedef int td_message_fn(const struct td_message *message, void *user);

struct td_follow_options {
    const char *after; /* a position as it was handed over, or "0" for the
                          beginning; NULL: from now on. "From now on" is settled
                          by the first message, a heartbeat: store its position
                          too */
    const char *since; /* W3C Datetime: begin with what happened later; `after`
                          is then NULL. NULL: none */
    const struct td_filter *filters;
    size_t n_filters;  /* 0: all changes; at most 32 of a name, and together
                          1,024 bytes percent-encoded. Only of sets of Tidings */
    enum td_form form; /* of td_change.text and on the wire */
    unsigned idle_ms;  /* silence after which the connection is held to be dead:
                          no message, and no more of one; pings and comments
                          are none. The same of what is asked for: pages of
                          the change memory, Change Lists, what the source
                          offers; in whole seconds. 0: three heartbeats of the
                          broker, 60,000 until told; 120,000 of what is asked
                          for */
    /* Called when there is no connection, with the reason and the milliseconds
     * until the next attempt, 0: another transport is tried at once; NULL:
     * nobody asks. */
    void (*on_trouble)(const char *why, unsigned pause_ms, void *user);

    unsigned transports; /* of enum td_transport, or-ed; 0: all */
    unsigned poll_ms;    /* between two looks at the lists of a source that
                            pushes nothing; 0: 60,000 */
    enum td_baseline baseline;
    const char *scratch; /* a directory for the packages of dumps, made if it is
                            not there (0700, the one above it must be); several
                            followers may share it; NULL: baselines are taken
                            from Resource Lists alone, and Change Dumps are read
                            only where their manifests have addresses of their
                            own */
    int until_caught_up; /* not 0: end with TD_OK when all is handed over that
                            had happened at the start, or later; with
                            TD_UNREACHABLE where that does not come about */
    unsigned patience_ms;   /* until_caught_up: no further attempt is begun when
                               nothing new came for so long; 0: 60,000 */
    const char *listing;    /* a file (SQLite) that keeps the last complete
                               reading of a list, for a source that has only a
                               list. The follower makes it when it needs it; each
                               source has its own, and positions belong to it.
                               NULL: a temporary file, gone at the end */
    int max_delete_percent; /* how much of its resources such a list may lose
                               from one reading to the next; more ends the
                               follower with TD_REFUSED, and it hands over
                               nothing of that list. A baseline is not checked.
                               0: 20; negative, or 100 and more: no limit. Fewer
                               than 100 resources are never too many */
    /* Called while such a list is read, with the number of resources so far, at
     * most four times a second. NULL: not called. */
    void (*on_progress)(uint64_t n_resources, void *user);
    /* td_follower_open alone: called once, last of all, when it ended by
     * itself: the status and the problem, as of td_follow. */
    void (*on_end)(enum td_status rc, const char *why, void *user);
};

/*
 * Follows a source: hands over every change after a position, first those
 * missed, then each new one, in order, each once. It goes on until it is
 * stopped or refused: a server that is away, from the first attempt on, is
 * asked again after growing pauses (0.2 s to 30 s, spread by chance; short
 * again once a message came), or when it wants to be (Retry-After, up to an
 * hour). With until_caught_up it also ends when nothing new has come for
 * patience_ms, or a server wants to be left alone for longer: an attempt that
 * is under way is not cut short, so that a server which takes requests and
 * answers none is left after 120 s more at most, or after idle_ms.
 *
 * Every message's coverage is checked: a repeat is dropped; of an overlap only
 * what is new is handed over; a hole is filled by pulling what is missing.
 * Where two messages meet, their digests must; in TD_XML every entry is checked
 * against them. With filters all of this holds, too, except that no entry can
 * be checked: a message also covers what did not pass, so that its position is
 * the one to store.
 *
 * A source with only a list of its resources (a Resource List, a Sitemap, an
 * index of these, the Sitemaps of a robots.txt) is followed by reading that
 * again and again, each document only if it has changed (If-None-Match,
 * If-Modified-Since). Its differences are the changes: numbered, as those of a
 * set of Tidings, but by the follower, and of the time when they were found. A
 * resource is updated when its lastmod, hash or length differs. A list that
 * cannot be read to its end, parts of an index included, changes nothing: it is
 * told as trouble and read again. With `after` "0" the first list comes as
 * "created" changes.
 *
 * client      from td_open.
 * url         a set of Tidings, "http(s)://host:port/sets/NAME"; or any
 *             document of a ResourceSync source: a Capability List, a Change
 *             List or its index, a Resource List, a Source Description with one
 *             set; or a Sitemap, or a site whose robots.txt names some.
 * options     NULL: all zero.
 * on_message  called for every message, heartbeats included. Store
 *             message->position when it is applied.
 * user        given to the callbacks as it is.
 *
 * Memory   all arguments are borrowed until return; the message, until
 *          on_message returns.
 * Thread   blocks; callbacks run on the calling thread.
 * Errors   TD_STOPPED  by td_stop or by on_message.
 *          TD_GONE     the position is of another epoch or no longer retained,
 *                      and a baseline is not wanted or not offered; or the set
 *                      was removed.
 *          TD_REFUSED  400, 401, 403, 404 ...; td_problem says why. A set that
 *                      does not exist yet is refused with 404. Also a list that
 *                      lacks more than max_delete_percent, or has more
 *                      resources than td_limit allows.
 *          TD_INVALID  url, after, since or a filter is malformed; nothing was
 *                      sent.
 *          TD_BROKEN   what came cannot be right: no message, or one of more
 *                      than 16 MiB, a hole that cannot be filled, a digest that
 *                      does not match.
 *          TD_UNREACHABLE  until_caught_up: nothing new came for patience_ms,
 *                      or a list that was read before cannot be read now;
 *                      td_problem says why.
 *          TD_IO       the scratch directory or the listing cannot be used,
 *                      or a disk would have less free than td_limit demands.
 *          TD_MEMORY   no memory, or no descriptors.
 * Spec    . Since 0.1.
 */
TD_API enum td_status td_follow(struct td_client *client, const char *url,
                                const struct td_follow_options *options,
                                td_message_fn *on_message, void *user);

/* A set of a source, where its following begins. */
struct td_start {
    const char *set_url;
    size_t n_sets;                /* of the source, as far as it is known */
    char after[TD_POSITION_SIZE]; /* "": as td_follow_options says */
    char listing[4096];           /* as of td_follow_options; "": none */
};

struct td_source_options {
    /* Of each set. `after` is NULL or "0", if there are several; `listing` is
     * not looked at. */
    struct td_follow_options follow;

    /* Called once for each set, before it is followed: may say where that
     * begins. Returns 0 to go on; anything else ends it with TD_STOPPED. NULL:
     * all begin as `follow` says. */
    int (*on_start)(struct td_start *start, void *user);

    /* Called for each set that has failed, and for what the source names and
     * cannot be read, while others go on. NULL: nobody asks. */
    void (*on_missed)(const char *url, const char *why, void *user);
};

/*
 * Follows all sets of a source, and those that it has later: hands over the
 * changes of each set as td_follow does; those of different sets come in no
 * order. The first 100 sets are streamed, the others are asked in turn, with
 * poll_ms between two times.
 *
 * url         any address of a source (td_sets); or of one set.
 * options     NULL: all zero. Lent until return.
 * on_message  message->set_url says of which set it is: a position is kept for
 *             each.
 *
 * Memory, Thread, Errors   as td_follow; of several sets, that of the first
 *             which failed or could not be read, when all have ended.
 * Spec    , and as td_follow. Since 0.1.
 */
TD_API enum td_status td_follow_source(struct td_client *client,
                                       const char *url,
                                       const struct td_source_options *options,
                                       td_message_fn *on_message, void *user);

/* A follower that runs on the handle's loop, beside others. */
struct td_follower;

/*
 * Begins to follow, and returns at once. Arguments as td_follow; those that
 * `options` points at are copied.
 *
 * follower  set to the follower, the caller's, to be given to
 *           td_follower_close; NULL on failure.
 *
 * Thread   as the handle; callbacks run in td_service, td_run and calls that
 *          block.
 * Errors   TD_INVALID, TD_MEMORY; all others are told to options->on_end.
 * Since 0.1.
 */
TD_API enum td_status td_follower_open(struct td_client *client,
                                       const char *url,
                                       const struct td_follow_options *options,
                                       td_message_fn *on_message, void *user,
                                       struct td_follower **follower);

/* The position of the last message handed over; "" before the first. Lent until
 * the next message. Since 0.1. */
TD_API const char *td_follower_position(const struct td_follower *follower);

/*
 * Stops handing over until td_follower_resume; what came is kept, what is under
 * way waits at the server: nothing grows. From a callback it takes effect when
 * that returns. Since 0.1.
 */
TD_API void td_follower_pause(struct td_follower *follower);
TD_API void td_follower_resume(struct td_follower *follower);

/* Ends it, without a further callback. NULL is allowed, and so is its own
 * callback. Since 0.1. */
TD_API void td_follower_close(struct td_follower *follower);

/* Where positions are kept. */

/*
 * Reads the position kept in the file `path`.
 *
 * position  set to it; "" if there is no such file.
 *
 * Errors   TD_IO       it cannot be read.
 *          TD_INVALID  it holds no position.
 *          td_problem says more.
 * Since 0.1.
 */
TD_API enum td_status td_position_read(struct td_client *client,
                                       const char *path,
                                       char position[TD_POSITION_SIZE]);

/*
 * Keeps a position: the file holds the old one or the new one, whole, after a
 * crash too (written beside it as PATH.new, fsync, rename, fsync of the
 * directory).
 *
 * Errors   TD_IO       it cannot be written.
 *          TD_INVALID  `position` is none.
 *          td_problem says more.
 * Since 0.1.
 */
TD_API enum td_status td_position_write(struct td_client *client,
                                        const char *path, const char *position);

/*
 * Keeps a position in an SQLite database, in the transaction that is open on
 * it: with what the caller does there it happens or does not, as one. The table
 * td_position(name TEXT PRIMARY KEY, position TEXT) is made where it is not
 * there.
 *
 * db    the caller's connection; with none open, a transaction of its own.
 * name  of the source, as the caller calls it: several share a database.
 *
 * Thread   as `db`.
 * Errors   TD_IO       sqlite3_errmsg(db) says more.
 *          TD_INVALID  `position` is none.
 * Since 0.1.
 */
TD_API enum td_status td_position_save(struct sqlite3 *db, const char *name,
                                       const char *position);

/* The position kept under `name`; "" if there is none. Errors as above. */
TD_API enum td_status td_position_load(struct sqlite3 *db, const char *name,
                                       char position[TD_POSITION_SIZE]);

#ifdef __cplusplus
}
#endif

#endif
