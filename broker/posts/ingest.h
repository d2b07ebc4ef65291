/*
 * ingest.h - the only way in: turns the bytes of a post into fragments, and
 * hands them to the log.
 *
 *     ingest_begin -> ingest_feed ... -> ingest_end --> on_done -> ingest_free
 *           |              |                |                              ^
 *           +--------------+----------------+-- refused: nothing is kept --+
 *
 * A body in gzip is announced by ingest_decode after ingest_begin, and inflated
 * on the way. The ingest applies both limits of a post, on its size and on the
 * memory of all posts; every source of bytes uses it. Gzip can turn one byte
 * into a thousand, so an ingest may lag behind the fed bytes. It catches up in
 * steps, each in a turn of the caller's loop, so that no other connection waits
 * for a whole body from one packet.
 *
 * One thread at a time; on_done is called on the log thread, or the checker's
 * (below). Memory holds at most one parsed entry of a post. The posts of one
 * client, and of all together, are bounded (CLIENT_POSTS): the memory of a post
 * counts as it grows. (Its announced length does not count: a few connections
 * that announce much and send nothing would block all others.)
 */
#pragma once

#include "broker/log/post.h"
#include "broker/posts/decoding.h"
#include "broker/posts/posts.h"
#include "broker/sets/registry.h"
#include "proto/http/idempotency_key.h"

struct authority;
struct content_pin;

/* Completes an entry before the ingest stores it. */
typedef enum status ingest_fill_fn(struct change *change, void *user,
                                   struct problem *why);

/* All but the commented fields is ingest.c's own. */
struct ingest {
    struct posts *posts;
    struct input_reader *reader;
    struct decoding decoding;
    struct slice set_name;
    char name[SET_NAME_MAX];
    struct set *set;  /* of the outcome; NULL: it had nothing to commit */
    struct post post; /* its outcome; `line`: below */
    struct key key;
    char traceparent[TRACEPARENT_SIZE + 1]; /* of the post; "": none */
    int64_t span_begin_us;                  /* 0: it gets no span */
    struct pending_keys_post running;
    bool is_message;
    char target_epoch[EPOCH_SIZE + 1]; /* of a message's set; "": no set */
    size_t fragments_capacity, events_capacity;
    struct holding own;          /* until ingest_count_in */
    struct holding *holding;     /* this, or the caller's */
    struct client *owner;        /* of a message; owned reference; NULL: none */
    struct authority *authority; /* of the post: a reference; or NULL */
    size_t held;                 /* in it */
    bool is_read;                /* to the end */

    /* Content */
    ingest_fill_fn *fill; /* below */
    void *fill_user;
    bool is_kept;        /* the set keeps the bytes of the entries */
    bool is_checked;     /* goes to the checker */
    bool takes_data;     /* the set does, as its settings say; false: not
                            known yet */
    uint64_t n_entries;  /* read so far */
    struct buf contents; /* struct ingest_content of each stored entry */
    struct list node;    /* the checker's, until ingest_check_end */
    struct content_pin *pin;
    void (*on_pin_end)(struct content_pin *pin, uint64_t last);
    void (*on_done)(struct ingest *ingest, void *user);
    void *user;
};

/* STATUS_NOT_FOUND: no set can have that name; STATUS_UNSUPPORTED: the broker
 * does not read that media type; STATUS_TOO_LARGE: over --max-body;
 * STATUS_BUSY: all posts together hold too much. */
MUST_CHECK enum status ingest_begin(struct ingest **ingest, struct posts *posts,
                                    struct slice set_name,
                                    struct slice content_type,
                                    uint64_t content_length,
                                    struct problem *why);

/* Counts the memory of the ingest in `holding`, of CLIENT_POSTS, from now on;
 * before, it counted only for all posts together. `holding` is lent until
 * ingest_free. STATUS_LIMITED, STATUS_BUSY. */
MUST_CHECK enum status ingest_count_in(struct ingest *ingest,
                                       struct holding *holding,
                                       struct problem *why);

/* Sets the Content-Encoding (decoding.h), before the first byte. --max-body
 * then also limits the inflated body. STATUS_UNSUPPORTED: another coding, or
 * several. */
MUST_CHECK enum status ingest_decode(struct ingest *ingest, struct slice coding,
                                     struct problem *why);

/* Before the first byte, reader->options may take what else the format has, and
 * event_read_attribute gives the reader of EVENT_TYPE the attributes of the
 * CloudEvent that the body is the data of. */

/* Accepts a message of an MQTT broker, sent perhaps by another Tidings. Before
 * the first byte. Then
 *
 *   - the member "id" at the top of its JSON is its key, and belongs to `owner`
 *     (idempotency_key.h), unless ingest_set_key gives it one; it is known at
 *     the end, so STATUS_RUNNING can be what ingest_end returns;
 *   - its capability may have any name, and it may have no change at all, as a
 *     heartbeat: then the ingest commits nothing, and ingest_end calls on_done
 *     itself, before it returns, with first = last = 0;
 *   - no entry goes round in circles: a message with the epoch of its target
 *     set came from this broker, and the ingest passes over its entries; it
 *     adds the tag "via:EPOCH" of the origin to each entry of other messages,
 *     and passes over an entry with the tag of the target set. It refuses JSON
 *     with an epoch behind the changes (STATUS_INVALID).
 *
 * The ingest checks entries that it passes over, too. A set that a message
 * begins counts for `owner` ("": for none): STATUS_INVALID if it may create no
 * more. */
void ingest_take_message(struct ingest *ingest, const char *owner);

/* Lines: if post.line is set, before ingest_end, the log commits the posts of
 * that line in the order of ingest_end. If one fails for a passing reason
 * (post.h: line.is_broken), all behind it in the line fail, too. The owner
 * mends the line after on_done of all of them; until then it is lent. */

/* Content: the bytes of resources, which some sets keep
 *
 * In a post to a set with CONTENT_INLINE, each created or updated entry carries
 * the SHA-256 of bytes that the set has already, or brings its bytes along
 * (multipart_post.h). Posts without `fill` go to the checker
 * (posts.h), which looks for the bytes on a thread that may wait for a
 * disk:
 *
 *     ingest_end --> checker --contents, ingest_hold---------> ingest_check_end
 *                                                               |
 *                on_done <-- the log <--------------------------+
 */

/* `fill`, set before the first byte, completes each entry before the ingest
 * stores it; the checker does not see such a post. */

/* Binds the post to `set`, which has its content, and to no later set of that
 * name: STATUS_GONE in the outcome if `set` was removed. The log thread calls
 * `on_end` once, with `pin` and the seq of the last entry; without a commit
 * it is called with 0, by ingest_free at the latest. Before ingest_end, or by
 * the checker. */
void ingest_hold(struct ingest *ingest, struct set *set,
                 struct content_pin *pin,
                 void (*on_end)(struct content_pin *pin, uint64_t last));

/* Content that the checker looks for. */
struct ingest_content {
    struct digest digest; /* SHA-256 */
    uint64_t entry;       /* from 1 */
    size_t loc;           /* where its fragment begins */
};

/* In a cluster, behind ingest_hold and the end of the body: takes the content
 * into memory, and counts it in (contents_carry). May block. STATUS_TOO_LARGE;
 * STATUS_LIMITED, STATUS_BUSY: it holds too much. */
MUST_CHECK enum status ingest_carry(struct ingest *ingest, struct problem *why);

/* Ends the check with the result `rc` and `why`. Calls on_done on this thread
 * if the log does not get the post. */
void ingest_check_end(struct ingest *ingest, enum status rc,
                      const struct problem *why);

/* Notes that the body goes on arriving, though no bytes come here yet
 * (pending_keys.h). */
void ingest_heard(struct ingest *ingest);

/* Gives the post a key, before the first byte: the log keeps the post once, for
 * any number of repeats (idempotency.h). STATUS_RUNNING: another post to the
 * set with that key is being read or committed; only ingest_free.
 *
 * An empty key only names the owner of those that CloudEvents have: without a
 * key of its own, a post in their format keeps each event once. The broker
 * looks for repeats of events only in the log: a repeat that comes meanwhile is
 * read, too. */
MUST_CHECK enum status ingest_set_key(struct ingest *ingest,
                                      const struct key *key,
                                      struct problem *why);

/* A batch has no more events: each key costs the log a look-up and a page. */
#define INGEST_EVENTS_MAX 1000

/* Keeps the trace of the post (traceparent.h; valid) with its entries that have
 * none of their own, and begins its span, if one is wanted (spans.h). It makes
 * no post another one: a repeat with the same key may have another trace.
 * Before the first byte. */
void ingest_set_traceparent(struct ingest *ingest, struct slice traceparent);

/* Ends the span, if one was begun. After a commit. */
void ingest_end_span(const struct ingest *ingest);

/* Refuses the post (STATUS_DENIED) if `authority` has ended when it would take
 * effect. Takes over the reference. Before ingest_end. NULL: for ever. */
void ingest_set_authority(struct ingest *ingest, struct authority *authority);

/* Reads some more of the body. STATUS_TOO_LARGE: it inflates to more than
 * --max-body; STATUS_LIMITED, STATUS_BUSY: it holds too much. After an error
 * only ingest_free. */
MUST_CHECK enum status ingest_feed(struct ingest *ingest, struct slice bytes,
                                   struct problem *why);

/* With a body in gzip, some fed bytes may not be read yet: gunzip_is_behind,
 * gunzip_step. */

/* Reads the whole body to its end, once all fed bytes are read. ingest_end does
 * this first; call it to do something in between. */
MUST_CHECK enum status ingest_read_end(struct ingest *ingest,
                                       struct problem *why);

/* Ends the body, once all fed bytes are read: hands the entries to the log,
 * which starts on them at log_wake. On success the log owns the ingest until
 * on_done, which returns it with its outcome. After an error only
 * ingest_free. */
MUST_CHECK enum status ingest_end(struct ingest *ingest,
                                  void (*on_done)(struct ingest *ingest,
                                                  void *user),
                                  void *user, struct problem *why);

/* Gives back its holdings, before the publisher gets the outcome
 * (client_limits.h). Only after on_done. */
void ingest_give_back(struct ingest *ingest);

void ingest_free(struct ingest *ingest); /* NULL is allowed */

/* Adds the link `memento` to an entry with a SHA-256 (ResourceSync, section
 * 14.6): the address of this version, in a set with CONTENT_INLINE, which has
 * the bytes before the entry. It becomes part of the fragment. An entry of a
 * set with CONTENT_FETCH gets none, also in lists that are built when its bytes
 * are there: these are determined by the log alone (doc/sets.md). Adds none
 * beside one of the source, or where there are CHANGE_LINKS_MAX.
 * Returns all links of the entry, which then lends them and `href`; the caller
 * frees them. NULL: none was added. */
struct link *ingest_add_memento(const struct registry *registry,
                                struct slice set_name, struct change *change,
                                struct link_text *href);
