/*
 * tidings_publish.h - posts changes to a set.
 */
#ifndef TIDINGS_PUBLISH_H
#define TIDINGS_PUBLISH_H

#include <stddef.h>
#include <stdint.h>

#include "tidings_client.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The broker's answer to a post. */
struct td_receipt {
    uint64_t first;    /* seq of the post's first entry */
    uint64_t last;     /* and of its last */
    char position[64]; /* of the last: "epoch-seq" */
    char datetime[32]; /* its event time, W3C Datetime */
    int is_repeat;     /* not 0: an earlier call has posted this with the same
                          key; this one added nothing */
};

struct td_publish_options {
    const char *key; /* names the post: 1 to 255 visible ASCII characters, of no
                        other post to this set within 24 hours; NULL: 128 random
                        bits; "": none */
    int retry_ms;    /* no attempt begins later than this after the call; 0:
                        60,000; negative: one attempt. At most 12 hours */
    /* Called before each further attempt, with the failure and the milliseconds
     * until then; NULL is allowed. */
    void (*on_trouble)(const char *why, unsigned pause_ms, void *user);
    void *user;
};

/*
 * Posts changes and returns when they are durable. Does not follow redirects.
 *
 * client      from td_open.
 * set_url     "http(s)://host:port/sets/NAME", UTF-8.
 * type        "application/xml", "application/json" or "application/x-ndjson".
 * body, size  the document, bytes.
 * options     NULL: all zero.
 * receipt     filled on TD_OK; may be NULL.
 *
 * The broker accepts a key once: for 24 hours at least, a repeated post with
 * the same key and the same changes only gets the first one's answer again. So
 * a post whose answer was lost (the connection broke, or was silent for 120 s;
 * 502, 504) is repeated with its key, and so is one that the broker asks to
 * repeat (Retry-After, with 409: it is still at work, 429, 503), after growing
 * pauses, for retry_ms; a running attempt is not cut short. If the broker
 * cannot be reached, the call fails at once, unless an answer was lost before.
 * A caller that gives the key itself, and the same changes, may call again
 * after any failure, in another process, too. Without a key, a post that may
 * have been accepted is not repeated.
 *
 * Memory   all arguments are borrowed until return.
 * Thread   blocks.
 * Errors   TD_INVALID      set_url, type or key is malformed; nothing was sent.
 *          TD_REFUSED      td_problem says which entry, why: "422: entry 3,
 *                          line 9: loc is not an absolute URI".
 *          TD_UNREACHABLE  no answer, or one such as 503.
 *                          In both cases the broker has kept nothing, unless
 *                          td_problem ends with "; the post may or may not have
 *                          been kept": then an answer was lost before.
 *          TD_STOPPED      by td_stop: the broker may have kept the post.
 *          TD_BROKEN       200, but no receipt: kept, or this is no broker.
 * Spec    . Since 1.0.
 */
TD_API enum td_status td_publish(struct td_client *client, const char *set_url,
                                 const char *type, const void *body,
                                 size_t size,
                                 const struct td_publish_options *options,
                                 struct td_receipt *receipt);

struct td_full_options {
    unsigned max_delete; /* percent of the set's resources that may be deleted;
                            0: 20. More deletions are held back, unless they
                            are very few, and all else is done */
    uint64_t accept_deletions; /* deletions beyond max_delete that the user has
                                  seen and wants: made if they are no more than
                                  this number. 0: none */
    uint64_t left_out;         /* rows of the source's list that `from` lacks,
                                  besides those that this call leaves out: all
                                  deletions beyond accept_deletions are held
                                  back */
    /* Called before anything is sent, if the call has mended rows of `from` or
     * left some out. NULL is allowed. */
    void (*on_report)(const struct td_report *report, void *user);
    void *user;
};

/* The result. */
struct td_full_receipt {
    uint64_t created, updated, deleted; /* changes made by the broker */
    uint64_t unchanged;
    uint64_t newer;     /* left alone: they have changed meanwhile */
    uint64_t held_back; /* deletions that were not made: accept_deletions makes
                           them */
    uint64_t resources; /* that the set had before */
    char position[64];  /* of the set then: "epoch-seq"; "": none */
};

/*
 * Sends a set all resources that its source has: the broker compares them with
 * those that it knows, and publishes the differences as changes. Returns when
 * these are durable.
 *
 * client      from td_open.
 * set_url     "http(s)://host:port/sets/NAME", UTF-8.
 * from        a file or an http(s) URL: a Resource List, a Sitemap, a text of
 *             URLs, RSS or Atom, or an index, whose parts are fetched, as are
 *             the pages of a list; or a file with resources in NDJSON; plain or
 *             in gzip. The call first reads all of it into temporary files in
 *             $SQLITE_TMPDIR (else $TMPDIR, /var/tmp or /tmp); an incomplete
 *             reading sends nothing. It checks NDJSON as the broker does.
 * options     NULL: all zero.
 * receipt     filled on TD_OK; look at `held_back`; may be NULL.
 *
 * It may be called again after any failure: changes made before then count as
 * unchanged.
 *
 * Memory   all arguments are borrowed until return; holds some resources at
 *          a time.
 * Thread   blocks; for as long as the broker takes, up to an hour of silence.
 * Errors   TD_INVALID      set_url is malformed, or max_delete above 100.
 *          TD_IO           a file cannot be read, or the temporary one written;
 *                          also by td_limit.
 *          TD_BROKEN       a document is unreadable: td_problem says which,
 *                          and why; nothing was sent. Or the broker's answer.
 *          TD_REFUSED      td_problem says why. Also by the server of `from`,
 *                          and by td_limit.
 *          TD_UNREACHABLE  no answer, or one such as 503: the broker may have
 *                          made some of the changes.
 *          TD_GONE         the set was removed meanwhile.
 *          TD_STOPPED      by td_stop: as TD_UNREACHABLE.
 *          TD_MEMORY
 * Spec    . Since 1.0.
 */
TD_API enum td_status td_publish_full(struct td_client *client,
                                      const char *set_url, const char *from,
                                      const struct td_full_options *options,
                                      struct td_full_receipt *receipt);

/* Changes one by one, posted in batches by the handle's loop. */
struct td_publisher;

/* Limits and callbacks of a publisher. */
struct td_publisher_options {
    size_t batch_changes; /* most changes of a post; 0: 1,000 */
    size_t batch_bytes;   /* most bytes of a post; 0: 1 MiB */
    unsigned linger_ms;   /* how long a change waits for others; 0: it leaves
                             with the waiting ones when no post is under way */
    size_t queue_bytes;   /* most bytes that wait in memory, without a spool; 0:
                             16 MiB */
    const char *spool;    /* a file that keeps changes until they are
                             acknowledged, created if needed: td_publisher_add
                             returns when the change is in it, and the next
                             process goes on with the rest. One process at a
                             time. NULL: changes are in memory alone */
    size_t spool_bytes;   /* most bytes of its changes; 0: 1 GiB */

    /* Called when changes are durable at the broker: the number of the last of
     * them, as from td_publisher_add, and the broker's receipt. */
    void (*on_durable)(uint64_t number, const struct td_receipt *receipt,
                       void *user);
    /* Called when the broker refuses a change for good: the publisher takes it
     * out of its post and posts the others. `number` is the change's own,
     * `change` its text as added. After a crash it may be called again. NULL:
     * the publisher stands still, and td_publisher_flush says why. */
    void (*on_refused)(uint64_t number, const char *change, const char *why,
                       void *user);
    /* Called before each further attempt, with the failure and the milliseconds
     * until then; NULL is allowed. */
    void (*on_trouble)(const char *why, unsigned pause_ms, void *user);
    void *user;
};

/*
 * Makes a publisher to a set. Each post has a key of its own, and is repeated,
 * after growing pauses, until it is acknowledged: each change is kept once, in
 * the order of adding, in spite of failures of the network, the broker or, with
 * a spool, this process. (The broker remembers keys for 24 hours at least: a
 * publisher that returns later may post one batch twice.)
 *
 * set_url    "http(s)://host:port/sets/NAME", UTF-8.
 * options    NULL: all zero. Copied.
 * publisher  set to the publisher; the caller calls td_publisher_close.
 *
 * Thread   as the handle; callbacks run in td_service, td_run and calls that
 *          block.
 * Errors   TD_INVALID  set_url is malformed.
 *          TD_IO       the spool cannot be used: it is another set's, in use,
 *                      or the disk refuses.
 *          TD_MEMORY
 * Spec    . Since 1.0.
 */
TD_API enum td_status
td_publisher_open(struct td_client *client, const char *set_url,
                  const struct td_publisher_options *options,
                  struct td_publisher **publisher);

/*
 * Adds a change: a JSON object as in the broker's documentation, at least
 * {"loc":"https://...","change":"updated"}.
 *
 * number  set to its number: 1, 2, 3 ..., with a spool across processes; may be
 *         NULL.
 *
 * Memory   `change` is copied.
 * Errors   TD_INVALID      it is no such object; td_problem says why.
 *          TD_UNREACHABLE  the queue or the spool is full: nothing was added;
 *                          turn the loop and try again.
 *          TD_IO           the spool cannot be written: nothing was added.
 *          TD_MEMORY
 * Since 1.0.
 */
TD_API enum td_status td_publisher_add(struct td_publisher *publisher,
                                       const char *change, size_t size,
                                       uint64_t *number);

/* A change of td_publisher_add_all, as for td_publisher_add. */
struct td_change_text {
    const char *text;
    size_t size; /* bytes */
};

/*
 * Adds several changes, all or none of them, and a note: a text of the caller's
 * that says, for example, how far it has read its input. A spool stores both in
 * one transaction, so after a crash the note belongs to the changes that were
 * added, and the caller reads its input on from there.
 *
 * changes, n  the changes; n may be 0: the note alone.
 * note        up to 1,023 bytes; NULL: the note stays.
 * number      set to the number of the last change; may be NULL.
 *
 * Memory   all arguments are copied.
 * Errors   as td_publisher_add; also TD_INVALID, if the note is too long.
 * Since 1.0.
 */
TD_API enum td_status td_publisher_add_all(struct td_publisher *publisher,
                                           const struct td_change_text *changes,
                                           size_t n, const char *note,
                                           uint64_t *number);

/* Returns the last note of td_publisher_add_all, with a spool across processes;
 * "": none. Lent until the next call that adds. Since 1.0. */
TD_API const char *td_publisher_note(const struct td_publisher *publisher);

/* Returns the number of changes that are not durable yet. bytes: set to their
 * size; may be NULL. Since 1.0. */
TD_API uint64_t td_publisher_waiting(const struct td_publisher *publisher,
                                     uint64_t *bytes);

/* Returns the number of the last change added; 0: none. With a spool, a process
 * learns from it which of its changes an earlier one has added. */
TD_API uint64_t td_publisher_added(const struct td_publisher *publisher);

/* Returns the number of the last durable change; 0: none. */
TD_API uint64_t td_publisher_durable(const struct td_publisher *publisher);

/*
 * Turns the loop until all changes are durable at the broker. (td_run does so,
 * too, but waits through refusals.) A publisher that stands still tries again
 * at once, and then every 30 s.
 *
 * Thread   blocks.
 * Errors   TD_STOPPED  by td_stop.
 *          TD_REFUSED, TD_GONE  a post is refused, and there is no on_refused
 *                      or no single change is to blame (401, 404, 410).
 *          TD_IO       the spool cannot be written, for example on a full disk:
 *                      it loses nothing, and goes on once there is room.
 *          TD_MEMORY
 *          TD_INVALID  called from a callback of the same handle.
 * Since 1.0.
 */
TD_API enum td_status td_publisher_flush(struct td_publisher *publisher);

/* Ends and frees the publisher, before its handle is closed. Changes without an
 * acknowledgement stay in the spool, or are lost without one: call
 * td_publisher_flush first. NULL is allowed, and so is a call from its own
 * callback. */
TD_API void td_publisher_close(struct td_publisher *publisher);

#ifdef __cplusplus
}
#endif

#endif
