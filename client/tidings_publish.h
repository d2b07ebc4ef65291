/*
 * tidings_publish.h - posting changes to a set.
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
};

struct td_publish_options {
    const char *key; /* what the post is called: 1 to 255 visible ASCII
                        characters, of no other post to this set within 24
                        hours; NULL: 128 random bits; "": it has none */
    int retry_ms;    /* no attempt begins later than this after the call; 0:
                        60,000; negative: one attempt. At most 12 hours */
    /* Called before each further attempt, with what went wrong and the
     * milliseconds until then; NULL: nobody asks. */
    void (*on_trouble)(const char *why, unsigned pause_ms, void *user);
    void *user;
};

/*
 * Posts changes and returns when they are durable. Redirects are not followed.
 *
 * client      from td_open.
 * set_url     "http(s)://host:port/sets/NAME", UTF-8.
 * type        "application/xml", "application/json" or "application/x-ndjson".
 * body, size  the document, bytes.
 * options     NULL: all zero.
 * receipt     filled on TD_OK; may be NULL.
 *
 * The broker keeps a key once: a repeat of a post with the same key and the
 * same changes is not kept again, and has the first one's answer, for 24 hours
 * at least. So a post whose answer was lost (the connection broke, or was
 * silent for 120 s; 502, 504) is repeated with its key, and so is what the
 * broker asks to repeat (Retry-After, with 409: it is still at work, 429,
 * 503), after growing pauses, for retry_ms; an attempt at work is not cut
 * short. Who cannot be reached is told so at once, unless an answer was lost
 * before. A caller that gives the key itself, and the same changes, may call
 * again after any failure, in another process too. Without a key what may have
 * been kept is not repeated.
 *
 * Memory   all arguments are borrowed until return.
 * Thread   blocks.
 * Errors   TD_INVALID      set_url, type or key is malformed; nothing was sent.
 *          TD_REFUSED      td_problem says which entry, why: "422: entry 3,
 *                          line 9: loc is not an absolute URI".
 *          TD_UNREACHABLE  no answer, or one such as 503.
 *                          With both nothing was kept, unless td_problem ends
 *                          with "; the post may or may not have been kept":
 *                          then an answer was lost before.
 *          TD_STOPPED      by td_stop: it may or may not have been kept.
 *          TD_BROKEN       200, but no receipt: kept, or this is no broker.
 * Spec    . Since 0.1.
 */
TD_API enum td_status td_publish(struct td_client *client, const char *set_url,
                                 const char *type, const void *body,
                                 size_t size,
                                 const struct td_publish_options *options,
                                 struct td_receipt *receipt);

/* Size of td_full_options.known, its NUL included. */
#define TD_KNOWN_SIZE 512

struct td_full_options {
    unsigned max_delete; /* percent of the set's resources that may be deleted;
                            0: 20 */
    char *known; /* for repeated calls with one URL: TD_KNOWN_SIZE bytes of the
                    caller's, "" at first. The call sets it to the version
                    of the list that it published; the next call fetches the
                    list only if the server has another version. NULL: the call
                    reads the list in any case */
};

/* What came of it. */
struct td_full_receipt {
    uint64_t created, updated, deleted; /* changes that were told */
    uint64_t unchanged;
    uint64_t newer;    /* left alone: others told of them meanwhile */
    char position[64]; /* of the set then: "epoch-seq"; "": it has none */
    int is_same; /* not 0: the list is the one that `known` is of; nothing was
                    read and nothing was sent */
};

/*
 * Tells a set all resources that its source has: the broker compares them with
 * what it knows, and tells the differences as changes. Returns when these are
 * durable.
 *
 * client      from td_open.
 * set_url     "http(s)://host:port/sets/NAME", UTF-8.
 * from        a file or an http(s) URL: a Resource List or plain Sitemap, or an
 *             index, whose parts are fetched; or resources in NDJSON. In gzip
 *             or not. It is read whole first, into a temporary file in
 *             $SQLITE_TMPDIR (else $TMPDIR, /var/tmp or /tmp), and checked as
 *             the broker checks it.
 * options     NULL: all zero.
 * receipt     filled on TD_OK; where max_delete refuses (TD_REFUSED), `deleted`
 *             is how many would be deleted, else it is 0; may be NULL.
 *
 * It may be called again after any failure: what was told already is then
 * unchanged.
 *
 * Memory   all arguments are borrowed until return; a part of the resources at
 *          a time.
 * Thread   blocks; for as long as the broker takes, up to an hour of silence.
 * Errors   TD_INVALID      set_url is malformed, or max_delete above 100.
 *          TD_IO           a file cannot be read, or the temporary one written;
 *                          td_limit, too.
 *          TD_BROKEN       a document cannot be read: td_problem says which,
 *                          and why; nothing was sent. Or the broker's answer.
 *          TD_REFUSED      td_problem says why: "409: 300 of 1000 resources
 *                          would be deleted, ...": max_delete allows it. Also
 *                          by the server of `from`, and by td_limit.
 *          TD_UNREACHABLE  no answer, or one such as 503: some of the changes
 *                          may have been told.
 *          TD_GONE         the set was removed meanwhile.
 *          TD_STOPPED      by td_stop: likewise.
 *          TD_MEMORY
 * Spec    . Since 0.1.
 */
TD_API enum td_status td_publish_full(struct td_client *client,
                                      const char *set_url, const char *from,
                                      const struct td_full_options *options,
                                      struct td_full_receipt *receipt);

/* Changes one by one, posted in batches by the handle's loop. */
struct td_publisher;

/* What is told of a publisher's posts. */
struct td_publisher_options {
    size_t batch_changes; /* most changes of a post; 0: 1,000 */
    size_t batch_bytes;   /* most bytes of a post; 0: 1 MiB */
    unsigned linger_ms;   /* how long a change waits for company; 0: it leaves
                             with what is there when nothing else is under way */
    size_t queue_bytes;   /* most bytes that wait in memory, without a spool; 0:
                             16 MiB */
    const char *spool;    /* a file that keeps what was not acknowledged yet,
                             made if it is not there: td_publisher_add returns
                             when the change is in it, and a process that begins
                             again goes on with what is left. One process at a
                             time. NULL: none, changes are in memory alone */
    size_t spool_bytes;   /* most bytes of its changes; 0: 1 GiB */

    /* Called when changes are durable at the broker: the number of the last of
     * them, as td_publisher_add gave it, and the broker's receipt. */
    void (*on_durable)(uint64_t number, const struct td_receipt *receipt,
                       void *user);
    /* Called when the broker refuses a change for good: it is taken out of its
     * post, the others are posted. `number` is its own; `change` is what was
     * added. After a crash it may be told again. NULL: the publisher stands
     * still, and td_publisher_flush says why. */
    void (*on_refused)(uint64_t number, const char *change, const char *why,
                       void *user);
    /* Called before each further attempt, with what went wrong and the
     * milliseconds until then; NULL: nobody asks. */
    void (*on_trouble)(const char *why, unsigned pause_ms, void *user);
    void *user;
};

/*
 * Makes a publisher to a set. Each post has a key of its own, and is repeated,
 * after growing pauses, until it is acknowledged: a change that was added is
 * kept once, in the order of adding, whatever happens to the network, to the
 * broker or, with a spool, to this process. (The broker remembers keys for 24
 * hours at least: whoever comes back later may post one batch twice.)
 *
 * set_url    "http(s)://host:port/sets/NAME", UTF-8.
 * options    NULL: all zero. Copied.
 * publisher  set to it, the caller's, to be given to td_publisher_close.
 *
 * Thread   as the handle; callbacks run in td_service, td_run and calls that
 *          block.
 * Errors   TD_INVALID  set_url is malformed.
 *          TD_IO       the spool cannot be used: it is another set's, in use,
 *                      or the disk refuses.
 *          TD_MEMORY
 * Spec    . Since 0.1.
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
 * Since 0.1.
 */
TD_API enum td_status td_publisher_add(struct td_publisher *publisher,
                                       const char *change, size_t size,
                                       uint64_t *number);

/* The number of the last change that was added; 0: none. With a spool it tells
 * a process that begins again which of its changes are in it. */
TD_API uint64_t td_publisher_added(const struct td_publisher *publisher);

/* The number of the last change that is durable at the broker; 0: none. */
TD_API uint64_t td_publisher_durable(const struct td_publisher *publisher);

/*
 * Turns the loop until all that was added is durable at the broker. (td_run
 * does so, too, but waits through refusals.) A publisher that stands still
 * tries again at once, and then every 30 s.
 *
 * Thread   blocks.
 * Errors   TD_STOPPED  by td_stop.
 *          TD_REFUSED, TD_GONE  a post is refused, and there is no on_refused
 *                      or it is not the fault of one change (401, 404, 410).
 *          TD_IO       the spool cannot be written, such as on a disk that is
 *                      full: nothing of it is lost, and once there is room it
 *                      goes on.
 *          TD_MEMORY
 *          TD_INVALID  called from a callback of the same handle.
 * Since 0.1.
 */
TD_API enum td_status td_publisher_flush(struct td_publisher *publisher);

/* Ends it, before its handle is closed. What is not acknowledged stays in the
 * spool, or is lost without one: td_publisher_flush comes first. NULL is
 * allowed, and so is a callback of its own. */
TD_API void td_publisher_close(struct td_publisher *publisher);

#ifdef __cplusplus
}
#endif

#endif
