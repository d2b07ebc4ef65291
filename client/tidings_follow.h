/*
 * tidings_follow.h - every change of a source, once and in order, in spite of
 * failures of the network, the server or the follower.
 *
 *     live     WebSocket, else server-sent events, else long poll, as far as
 *              proxies carry them: the handle remembers what works for a host,
 *              and tries the others again, at least every hour; a source
 *              without any of them: its Change Lists, read again and again;
 *              without these, too: its Resource List or Sitemap, read again and
 *              again; the differences are the changes
 *     behind   far behind the head of a set of Tidings: closed Change Lists,
 *              each proven by its digest before its first change comes; then
 *              live. One follower of a client at a time, others go live at
 *              once; it needs up to 200 MiB. Only if TD_POLL is allowed
 *     holes    the change memory, else the Change Lists: open, index, archives
 *     gone     the history no longer reaches back: a new baseline
 *
 * Push and pull meet at a position. Every message says where it begins and
 * where it ends, and comes only if it begins where the last one ended. A
 * program that stores the position of a message together with its effects has
 * every change exactly once, even across crashes.
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

/* A link of an entry (rs:ln). Strings are UTF-8, NULL if not given. */
struct td_link {
    const char *rel;
    const char *href;
    const char *type;
    const char *hash;     /* "sha-256:... md5:..." */
    uint64_t length;      /* bytes; UINT64_MAX: unknown */
    unsigned pri;         /* 1 to 999999, lower is better; 0: none */
    const char *modified; /* W3C Datetime */
    const char *path;     /* of a patch in a dump */
};

/* A change or, in a baseline, a resource. Strings are UTF-8, terminated; NULL
 * if not given. */
struct td_change {
    uint64_t seq;         /* its number; 0: the source has none */
    const char *datetime; /* event time, W3C Datetime */
    const char *change;   /* "created", "updated", "deleted"; NULL in a baseline
                           */
    const char *loc;
    const char *lastmod; /* of the resource, W3C Datetime */
    const char *hash;    /* "sha-256:... md5:..." */
    uint64_t length;     /* bytes; UINT64_MAX: unknown */
    const char *type;
    const char *encoding;
    const char *tags; /* single spaces between */
    const struct td_link *links;
    size_t n_links;
    const char *file; /* its representation, from a dump: the path of a file
                         below td_follow_options.scratch, digests checked, not
                         synced (fsync). The callback may rename or link it;
                         else it is removed when the callback returns */
    const char *text; /* the entry: a JSON object, or, as the log has it, the
                         line <url>...</url> with rs and td undeclared */
    size_t text_size;
    const char *title; /* of the change, not of the resource, as the three
                          below are */
    const char *summary;
    const char *author;
    const char *data; /* any value of JSON, as compact text */
};

enum td_kind {
    TD_CHANGES,        /* the next changes; or a heartbeat */
    TD_BASELINE_BEGIN, /* known resources are void; `reason` says why */
    TD_BASELINE,       /* resources that the source has */
    TD_BASELINE_END    /* it has no others; following goes on from here */
};

/* A message, lent until the callback returns. */
struct td_message {
    enum td_kind kind;
    const char *set;     /* its name or, without one, its URL */
    const char *set_url; /* its URL, as from td_sets */
    uint64_t after; /* TD_CHANGES of a source with seqs: the message covers the
                       entries after this one ... */
    uint64_t last;  /* ... up to this one; else 0 */
    const char *position; /* store it once the message is applied. NULL between
                             TD_BASELINE_BEGIN and _END: a program that stops
                             there begins the baseline again */
    const char *digest;   /* of the log up to `last`; NULL: unknown */
    const char *reason;   /* TD_BASELINE_BEGIN: a sentence; else NULL */
    int is_comparison; /* of a baseline, not 0: known resources stay valid, and
                          the follower goes on at its place. Its resources were
                          so at `as_of`; what has changed since then is newer */
    int is_unproven;   /* TD_CHANGES, not 0: not each of its changes was hashed
                          into the place: a broker filtered them, or they
                          came by Change Lists that are polled, or by those of a
                          source without numbers. Never so with td_trust.
                          Since 1.1 */
    const char *as_of; /* TD_BASELINE_END: when the list was true, W3C Datetime;
                          NULL: the source does not say */
    size_t n_changes;  /* 0: a heartbeat, or nothing passed the filters */
    const struct td_change *changes;
    int is_caught_up; /* TD_CHANGES, not 0: the source had nothing behind
                         `position` when it was asked last: when it was sought,
                         or at this heartbeat */
    int is_unsigned;  /* not 0: no signed tree is known to have all that came up
                         to here (td_key_lag). Since 1.1 */
};

enum td_form { TD_JSON, TD_XML };

/* Selects changes. Filters of the same name are alternatives; of each name one
 * must match. "data" selects none: with it entries come without their data. */
struct td_filter {
    const char *name;  /* "change", "prefix" (of loc), "type", "tag", "data" */
    const char *value; /* "deleted"; "http://..."; "image/png", a star as
                          subtype for all of image; a tag; "no" */
};

enum td_baseline {
    TD_NO_BASELINE,   /* TD_GONE where the history does not reach back */
    TD_BASELINE_GONE, /* take one when it does not; where the source has no list
                         and no seqs, hand over the changes that it still has,
                         with on_doubt */
    TD_BASELINE_FIRST /* and begin with one if `after` is NULL; but follow a set
                         with its whole history from its beginning, unless it
                         offers a Resource Dump and `scratch` names a directory
                         for its packages */
};

/* Ways to get changes; the follower uses the best one that works. */
enum td_transport {
    TD_WEBSOCKET = 1,
    TD_EVENTS = 2,
    TD_LONG_POLL = 4,
    TD_POLL = 8 /* Change Lists, else Resource Lists and Sitemaps: any
                   ResourceSync source */
};

/* Returns 0 to go on; any other value ends the following with TD_STOPPED. It
 * must not make a call that blocks with this client; it may call td_stop,
 * td_follower_compare and td_follower_close. */
typedef int td_message_fn(const struct td_message *message, void *user);

struct td_follow_options {
    const char *after; /* a position of a message, also with a digest
                          (td_message_mark), or "0" for the beginning;
                          NULL: from now on. The first message, a heartbeat,
                          says where "now" is: store its position, too */
    const char *since; /* W3C Datetime: begin with later changes; `after` must
                          be NULL then. NULL: none */
    const struct td_filter *filters;
    size_t n_filters;  /* 0: all changes; at most 32 of a name, and together
                          1,024 bytes percent-encoded. For sets of Tidings */
    enum td_form form; /* of td_change.text and on the wire */
    unsigned idle_ms;  /* silence after which the connection counts as dead:
                          neither a message nor a part of one; pings and
                          comments do not count. Also, in whole seconds, for
                          requests: pages of the change memory, Change Lists,
                          discovery. 0: three heartbeats of the broker, 60,000
                          until the first one; 120,000 for requests */
    /* Called when there is no connection, with the reason and the milliseconds
     * until the next attempt, 0: another transport follows at once, which is
     * said once for a host until the better one works again. NULL is
     * allowed. */
    void (*on_trouble)(const char *why, unsigned pause_ms, void *user);

    unsigned transports; /* of enum td_transport, or-ed; 0: all */
    unsigned poll_ms;    /* between two looks at the lists of a source without
                            push; 0: 60,000 */
    enum td_baseline baseline;
    int as_far_back;        /* not 0: without `after` and `since`, begin with
                               the oldest change that the source still has */
    const char *scratch;    /* a directory for the packages of dumps, created if
                               needed (0700, in an existing one); several
                               followers may share it; NULL: baselines come from
                               Resource Lists alone, and the packages of Change
                               Dumps are in a temporary directory */
    int until_caught_up;    /* not 0: end with TD_OK when everything up to the
                               start, or later, is handed over; with
                               TD_UNREACHABLE if that fails */
    unsigned patience_ms;   /* until_caught_up: no further attempt begins when
                               nothing new has come for so long; 0: 60,000 */
    const char *listing;    /* a file (SQLite) that keeps the last complete
                               reading of a list, for a source that has only a
                               list; and a file beside it, LISTING-read, notes
                               which Change Lists were read, if these have no
                               seqs. The follower creates them when needed;
                               each source has its own, and positions belong to
                               it. NULL: a temporary file, removed at the end;
                               of Change Lists only the position is known */
    int max_delete_percent; /* how many of its resources such a list may lose
                               from one reading to the next; more end the
                               follower with TD_REFUSED, and it hands over
                               nothing of that list. A baseline is not checked.
                               0: 20; negative, or 100 and more: no limit. Fewer
                               than 100 resources are never too many */
    /* Called while such a list is read, with the number of resources so far, at
     * most four times a second. NULL: not called. */
    void (*on_progress)(uint64_t n_resources, void *user);
    uint64_t accept_deletions; /* deletions beyond max_delete_percent that the
                                  user has seen and wants: applied if they are
                                  no more than this number. 0: none */
    unsigned compare_ms; /* between two comparisons with the source's list of
                            all resources (TD_BASELINE_BEGIN, is_comparison);
                            also at once after on_doubt. 0: none */
    /* Called when the follower cannot know any more that nothing is missing,
     * with the reason. A comparison ends the doubt. NULL
     * is allowed. */
    void (*on_doubt)(const char *why, void *user);
    /* Called at the end of a reading of the source's lists that held deletions
     * back: `n` of `n_of` resources; and with 0 when that is over. */
    void (*on_held)(uint64_t n, uint64_t n_of, void *user);
    /* Called at the end of a reading that mended rows or left some out. */
    void (*on_report)(const struct td_report *report, void *user);
    /* W3C Datetime, not in the future: hands over the state of that time, and
     * ends: the newest list or dump of all resources before it (TD_BASELINE),
     * of the archives or the present one, then the changes up to it. on_doubt
     * says what of these is not known. `after` and `since` must be NULL.
     * NULL: the present. */
    const char *as_of;
    /* td_follower_open alone: called once, last of all, when the follower ends
     * by itself: the status and the problem, as from td_follow. */
    void (*on_end)(enum td_status rc, const char *why, void *user);
};

/*
 * Follows a source: hands over every change after a position, first those
 * missed, then each new one, in order, each once. It goes on until it is
 * stopped or refused. It asks an unreachable server, from the first attempt on,
 * again after growing pauses (0.2 s to 30 s, spread by chance; short again
 * after a message), or when the server says so (Retry-After, up to an hour).
 * With until_caught_up it also ends when nothing new has come for patience_ms,
 * or a server asks for a longer pause. It does not cut a running attempt short:
 * it leaves a server that takes requests and never answers after 120 s more at
 * most, or after idle_ms.
 *
 * It checks the coverage of every message: it drops a repeat, hands over only
 * the new changes of an overlap, and fills a hole by pull. Where two messages
 * meet, their digests must agree, and every entry is checked against them, and
 * read from the line of the log that was: a message is XML, whatever `form` the
 * caller wants..
 * With filters all of this holds, too, except that it cannot check entries: a
 * message also covers changes that did not pass, so its position is the one to
 * store.
 *
 * A source with only a list of its resources (a Resource List, a Sitemap, an
 * index of these, the Sitemaps of a robots.txt) is followed by reading that
 * again and again, each document only if it has changed (If-None-Match,
 * If-Modified-Since). The differences are the changes: the follower numbers
 * them, and gives them the time at which it found them. A resource is updated
 * when its lastmod, hash or length differs. A list that cannot be read to its
 * end, including parts of an index, changes nothing: the follower reports
 * trouble and reads it again. With `after` "0" the first list comes as
 * "created" changes.
 *
 * client      from td_open.
 * url         a set of Tidings, "http(s)://host:port/sets/NAME"; or any
 *             document of a ResourceSync source: a Capability List, a Change
 *             List or its index, a Resource List, a Source Description with one
 *             set; or a Sitemap, or a site whose robots.txt names some.
 * options     NULL: all zero.
 * on_message  called for every message, including heartbeats. Store
 *             message->position once it is applied.
 * user        passed to the callbacks.
 *
 * Memory   all arguments are borrowed until return; the message, until
 *          on_message returns.
 * Thread   blocks; callbacks run on the calling thread.
 * Errors   TD_STOPPED  by td_stop or by on_message.
 *          TD_GONE     the position is of another epoch or no longer retained,
 *                      and a baseline is not wanted or not offered; or the set
 *                      was removed.
 *          TD_REWOUND  the log ends before the position, in the same epoch, or
 *                      has another digest there; td_accept_history.
 *          TD_REFUSED  400, 401, 403, 404 ...; td_problem says why. A set that
 *                      does not exist yet is refused with 404. Also a list that
 *                      lacks more than max_delete_percent, or has more
 *                      resources than td_limit allows.
 *          TD_INVALID  url, after, since or a filter is malformed; nothing was
 *                      sent.
 *          TD_BROKEN   the server sent something wrong: no message, or one of
 *                      more than 16 MiB, or a hole that nothing fills.
 *          TD_DIFFERENT  a checkpoint is not signed as td_trust demands
 *                      (td_keep_checkpoints).
 *          TD_UNREACHABLE  until_caught_up: nothing new came for patience_ms,
 *                      or a list that was readable before is not now;
 *                      td_problem says why.
 *          TD_IO       the scratch directory or the listing cannot be used,
 *                      or a disk would have less free than td_limit demands.
 *          TD_MEMORY   no memory, or no descriptors.
 * Spec    . Since 1.0.
 */
TD_API enum td_status td_follow(struct td_client *client, const char *url,
                                const struct td_follow_options *options,
                                td_message_fn *on_message, void *user);

/* A set of a source, and where to begin following it. */
struct td_start {
    const char *set_url;
    size_t n_sets;                /* of the source, as far as known */
    char after[TD_POSITION_SIZE]; /* "": as in td_follow_options */
    char listing[4096];           /* as in td_follow_options; "": none */
};

struct td_source_options {
    /* For each set. `after` is NULL or "0", if there are several; `listing` is
     * ignored. */
    struct td_follow_options follow;

    /* Called once for each set, before it is followed: may set where to begin.
     * Returns 0 to go on; any other value ends it with TD_STOPPED. NULL: all
     * begin as `follow` says. */
    int (*on_start)(struct td_start *start, void *user);

    /* Called for each set that has failed, and for each document that the
     * source names but cannot be read, while others go on. NULL is allowed. */
    void (*on_missed)(const char *url, const char *why, void *user);
};

/*
 * Follows all sets of a source, and those that it gets later: hands over the
 * changes of each set as td_follow does; changes of different sets come in no
 * order.
 *
 * All sets share one connection, a WebSocket or server-sent events, if there
 * are several, and their broker has a stream of many sets. Then a
 * set's heartbeats say that the broker has sent nothing of it since the last
 * message, and on_trouble is called once for all sets when that connection
 * ends. Else td_follow_source streams the first 100 sets, each by a connection
 * of its own, and visits the others in turn, each again after poll_ms. It does
 * the same for a while after the broker has refused to send all sets together.
 *
 * url         any address of a source (td_sets); or of one set.
 * options     NULL: all zero. Lent until return.
 * on_message  message->set_url names its set: store a position for each.
 *
 * Memory, Thread, Errors   as td_follow; with several sets, the first failure,
 *             when all have ended.
 * Spec    , and as td_follow. Since 1.0.
 */
TD_API enum td_status td_follow_source(struct td_client *client,
                                       const char *url,
                                       const struct td_source_options *options,
                                       td_message_fn *on_message, void *user);

/* A follower that runs on the handle's loop, beside others. */
struct td_follower;

/*
 * Begins to follow, and returns at once. Arguments as td_follow; `options` and
 * everything it points at are copied.
 *
 * follower  set to the follower; the caller calls td_follower_close. NULL on
 *           failure.
 *
 * Thread   as the handle; callbacks run in td_service, td_run and calls that
 *          block.
 * Errors   TD_INVALID, TD_MEMORY; options->on_end gets all others.
 * Since 1.0.
 */
TD_API enum td_status td_follower_open(struct td_client *client,
                                       const char *url,
                                       const struct td_follow_options *options,
                                       td_message_fn *on_message, void *user,
                                       struct td_follower **follower);

/* Returns the position of the last message handed over; "" before the first.
 * Lent until the next message. Since 1.0. */
TD_API const char *td_follower_position(const struct td_follower *follower);

/* Returns what the source is: "resourcesync", "sitemap", "text", "rss" or
 * "atom"; NULL: still unknown. Since 1.0. */
TD_API const char *td_follower_kind(const struct td_follower *follower);

/*
 * Hands over nothing until td_follower_resume; keeps what has come, and the
 * rest waits at the server: nothing grows. A call from a callback takes effect
 * when that returns. Since 1.0.
 */
TD_API void td_follower_pause(struct td_follower *follower);
TD_API void td_follower_resume(struct td_follower *follower);

/*
 * Compares with the source's list of all resources as soon as the changes up to
 * now have been read, because of `why`, a sentence: the follower hands over the
 * list (TD_BASELINE_BEGIN, is_comparison), then goes on at its place. With
 * until_caught_up it does so before it ends. A source that has no such list
 * beside its changes is not compared. Since 1.0.
 */
TD_API void td_follower_compare(struct td_follower *follower, const char *why);

/* Ends and frees the follower without a further callback. NULL is allowed, and
 * so is a call from its own callback. Since 1.0. */
TD_API void td_follower_close(struct td_follower *follower);

/* When the log had no more entries than the last right checkpoint, by its
 * signature (td_keep_checkpoints): POSIX seconds; 0: there is none. Since 1.1.
 */
TD_API int64_t td_follower_signed_s(const struct td_follower *follower);

/* Stores for positions */

/*
 * Writes what td_follow_options.after takes as well as the position of
 * `message`, and what the stores below keep: the position and, where it is
 * known, a space and td_message.digest. A follower that begins there also
 * notices a log that has another history up to there (TD_REWOUND). "": the
 * message has no position. Since 1.1.
 */
TD_API void td_message_mark(const struct td_message *message,
                            char mark[TD_POSITION_SIZE]);

/*
 * Reads the position kept in the file `path`.
 *
 * position  set to the position; "" if there is no such file.
 *
 * Errors   TD_IO       the file is unreadable.
 *          TD_INVALID  the file has no position.
 *          td_problem says more.
 * Since 1.0.
 */
TD_API enum td_status td_position_read(struct td_client *client,
                                       const char *path,
                                       char position[TD_POSITION_SIZE]);

/*
 * Keeps a position: the file has the old one or the new one, complete, even
 * after a crash (writes PATH.new beside it, fsync, rename, fsync of the
 * directory).
 *
 * Errors   TD_IO       the file cannot be written.
 *          TD_INVALID  `position` is none.
 *          td_problem says more.
 * Since 1.0.
 */
TD_API enum td_status td_position_write(struct td_client *client,
                                        const char *path, const char *position);

/*
 * Keeps a position in an SQLite database, in its open transaction: so the
 * position and the caller's other changes are committed together or not at all.
 * Creates the table td_position(name TEXT PRIMARY KEY, position TEXT) if
 * needed.
 *
 * db    the caller's connection; if no transaction is open, this makes its own.
 * name  the caller's name of the source: several share a database.
 *
 * Thread   as `db`.
 * Errors   TD_IO       sqlite3_errmsg(db) says more.
 *          TD_INVALID  `position` is none.
 * Since 1.0.
 */
TD_API enum td_status td_position_save(struct sqlite3 *db, const char *name,
                                       const char *position);

/* Reads the position kept under `name`; "" if there is none. Errors as above.
 */
TD_API enum td_status td_position_load(struct sqlite3 *db, const char *name,
                                       char position[TD_POSITION_SIZE]);

#ifdef __cplusplus
}
#endif

#endif
