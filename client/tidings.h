/*
 * tidings.h - libtidings: publish changes to a set, follow a set's changes.
 *
 * A handle is used by one thread at a time; td_stop may be called from any
 * thread or a signal handler.
 */
#ifndef TIDINGS_H
#define TIDINGS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TD_API __attribute__((visibility("default")))

enum td_status {
    TD_OK = 0,
    TD_STOPPED,     /* by td_stop, or by a callback */
    TD_INVALID,     /* an argument is malformed; nothing was sent */
    TD_REFUSED,     /* the broker said no (4xx); td_problem says why */
    TD_GONE,        /* the position is of another epoch or no longer retained */
    TD_UNREACHABLE, /* no connection, or it broke; or the broker is busy */
    TD_BROKEN,      /* the broker's answer cannot be right: a gap that cannot be
                       filled, a digest that does not match */
    TD_MEMORY
};

struct td_client;

/*
 * Makes a handle. Over https the system's certificates are trusted, and those
 * in the file (PEM) that CURL_CA_BUNDLE or SSL_CERT_FILE of the environment
 * names; there is no way not to look at them. The process ignores SIGPIPE from
 * the first td_follow on: libwebsockets needs that.
 *
 * Memory   td_close frees it. NULL: no memory, or no descriptors.
 * Thread   the first call of the process must not race with another.
 */
TD_API struct td_client *td_open(void);
TD_API void td_close(struct td_client *client); /* NULL is allowed */

/*
 * Why the last call failed: a sentence, UTF-8, "" if it did not.
 *
 * Memory   lent until the next call with this handle.
 */
TD_API const char *td_problem(const struct td_client *client);

/*
 * Makes the running td_publish or td_follow return TD_STOPPED soon or, if none
 * runs, the next one at once: a stop is used up by the call that it ends, and
 * never lost. While a host's name is being looked up, soon is when the resolver
 * answers.
 *
 * Memory   client must not be closed before it returns.
 * Thread   any; also from a signal handler (it only writes to a descriptor).
 */
TD_API void td_stop(struct td_client *client);

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
 * Posts changes and returns when they are durable. Redirects are not followed,
 * proxies named in the environment are not used; the same holds for td_follow.
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

/*
 * Creates a set, or replaces the settings of one that is there: what is not
 * given takes the broker's default.
 *
 * client         from td_open.
 * set_url        "http(s)://host:port/sets/NAME", UTF-8.
 * settings, size a JSON object of settings; size 0: none.
 * is_new         set to 1 if the set was created, else 0; may be NULL.
 *
 * Memory   all arguments are borrowed until return.
 * Thread   blocks.
 * Errors   TD_INVALID      set_url is malformed; nothing was sent.
 *          TD_REFUSED      nothing was changed; td_problem names the setting.
 *          TD_UNREACHABLE  no answer: it may or may not have been done. Done
 *                          twice it does no harm.
 *          TD_STOPPED, TD_BROKEN, TD_MEMORY as for td_publish.
 * Spec     R-049. Since 0.1.
 */
TD_API enum td_status td_set_put(struct td_client *client, const char *set_url,
                                 const char *settings, size_t size,
                                 int *is_new);

/* A value of a set's description; `path` names it: "position", "lists.open",
 * "links.0.rel". Both are lent until it returns. */
typedef void td_member_fn(const char *path, const char *value, void *user);

/*
 * Asks what a set is: position, digest, settings, lists, links.
 *
 * client     from td_open.
 * set_url    "http(s)://host:port/sets/NAME", UTF-8.
 * on_member  called for every value of the description, in order; may be NULL.
 * user       given to on_member as it is.
 * json       set to the description as it came, terminated; may be NULL.
 *
 * Memory   *json is the caller's, to be given to free(); NULL on failure.
 * Thread   blocks; on_member runs on the calling thread.
 * Errors   TD_GONE     the set was removed.
 *          TD_REFUSED  404: there is no such set.
 *          TD_INVALID, TD_UNREACHABLE, TD_STOPPED, TD_BROKEN, TD_MEMORY as for
 *          td_publish.
 * Spec     R-353. Since 0.1.
 */
TD_API enum td_status td_set_get(struct td_client *client, const char *set_url,
                                 td_member_fn *on_member, void *user,
                                 char **json);

/*
 * Removes a set and returns when that is durable. What it had is gone from then
 * on; a set that is made again under its name is another one.
 *
 * Memory   all arguments are borrowed until return.
 * Thread   blocks.
 * Errors   TD_GONE         it was removed before.
 *          TD_REFUSED      404: there is no such set.
 *          TD_UNREACHABLE  no answer: it may or may not have been removed.
 *          TD_INVALID, TD_STOPPED, TD_BROKEN, TD_MEMORY as for td_publish.
 * Spec     R-049. Since 0.1.
 */
TD_API enum td_status td_set_delete(struct td_client *client,
                                    const char *set_url);

/*
 * The HTTP status that the last call's last request was answered with; 0: there
 * was no answer. For programs that judge a refusal by themselves.
 *
 * retry_after_s  set to the seconds of the answer's Retry-After, 0 if it had
 *                none; may be NULL.
 *
 * Thread   as the handle. Since 0.1.
 */
TD_API unsigned td_answered(const struct td_client *client,
                            unsigned *retry_after_s);

/* What td_follow hands over: one message, in the form that was asked for. */
struct td_message {
    const char *set; /* its name */
    uint64_t after;  /* the message covers the entries after this seq ... */
    uint64_t last;   /* ... up to this one */
    const char *position; /* of `last`: store it when the message is applied */
    const char *digest;   /* of the log up to `last`; NULL: untold */
    size_t n_changes;     /* 0: a heartbeat, or nothing passed the filters; else
                             last - after without filters */
    const struct td_change *changes;
};

/* A change. Strings are UTF-8, terminated; NULL where nothing was given. */
struct td_change {
    uint64_t seq;
    const char *datetime; /* event time, W3C Datetime */
    const char *change;   /* "created", "updated", "deleted" */
    const char *loc;
    const char *text; /* the entry as it came: a JSON object, or the line
                         <url>...</url> with rs and td undeclared */
    size_t text_size;
};

enum td_form { TD_JSON, TD_XML };

/* Which changes are wanted. Filters of the same name are alternatives, of each
 * name one must hold. */
struct td_filter {
    const char *name;  /* "change", "prefix" (of loc), "type", "tag" */
    const char *value; /* "deleted"; "http://..."; "image/png", a star as
                          subtype for all of image; a tag */
};

struct td_follow_options {
    const char *after; /* "epoch-seq", or "0" for the beginning; NULL: from now
                          on. "From now on" is settled by the first message, a
                          heartbeat: store its position too */
    const char *since; /* W3C Datetime: begin with what happened later; `after`
                          is then NULL. NULL: none */
    const struct td_filter *filters;
    size_t n_filters;  /* 0: all changes; at most 32 of a name, and together
                          1,024 bytes percent-encoded */
    enum td_form form; /* of td_change.text and on the wire */
    unsigned idle_ms;  /* silence after which the connection is held to be dead;
                          0: three heartbeats of the broker, 60,000 until told */
    /* Called when there is no connection, with the reason and the milliseconds
     * until the next attempt; NULL: nobody asks. */
    void (*on_trouble)(const char *why, unsigned pause_ms, void *user);
};

/* Return 0 to go on; anything else ends td_follow with TD_STOPPED. */
typedef int td_message_fn(const struct td_message *message, void *user);

/*
 * Follows a set: hands over every change after a position, first those missed,
 * then each new one as it is committed, each at least once and in order. It
 * connects by WebSocket and goes on until it is stopped or refused: a broker
 * that is away, from the first attempt on, is asked again after growing pauses
 * (0.2 s to 30 s, spread by chance; short again once a message came).
 *
 * Every message's coverage is checked: a repeat is dropped; of an overlap only
 * what is new is handed over; a gap is filled by pulling what is missing from
 * the change memory. Where two messages meet, their digests must; in TD_XML
 * every entry is checked against them. With filters all of this holds, too,
 * except that no entry can be checked: a message also covers what did not pass,
 * so that its position is the one to store.
 *
 * client      from td_open.
 * set_url     "http(s)://host:port/sets/NAME", UTF-8, at most 1,024 bytes, host
 *             and port at most 116.
 * options     NULL: all zero.
 * on_message  called for every message, heartbeats included. Store
 *             message->position when it is applied. It must not use this
 * client, td_stop excepted; to publish, open another. user        given to
 * on_message and on_trouble as it is.
 *
 * Memory   all arguments are borrowed until return; the message, until
 *          on_message returns.
 * Thread   blocks; on_message runs on the calling thread.
 * Errors   TD_STOPPED  by td_stop or by on_message.
 *          TD_GONE     the position is of another epoch or no longer retained.
 *          TD_REFUSED  400, 401, 403, 404 ...; td_problem says why. A set that
 *                      does not exist yet is refused with 404.
 *          TD_INVALID  set_url, after, since or a filter is malformed; nothing
 *                      was sent.
 *          TD_BROKEN   what came cannot be right: no message, or one of more
 *                      than 16 MiB, a gap that cannot be filled, a digest that
 *                      does not match.
 *          TD_MEMORY   no memory, or no descriptors.
 * Spec    . Since 0.1.
 */
TD_API enum td_status td_follow(struct td_client *client, const char *set_url,
                                const struct td_follow_options *options,
                                td_message_fn *on_message, void *user);

/* A channel or document of a set. Strings are UTF-8; NULL where nothing was
 * told. */
struct td_item {
    const char *rel; /* a capability of Z39.99 ("changelist"), or a relation */
    const char *href;
    const char *type;
    const char *from; /* W3C Datetime */
    const char *until;
};

/* What a set offers, as far as its server told. */
struct td_offer {
    const char *set_url;
    const char *title;
    const char *position; /* of the last entry */
    const char *earliest; /* the first position that can be followed from */
    const char *digest;   /* of the log up to the last entry */
    const char *from;     /* where the change lists begin */
    uint64_t n_lists;     /* change lists, open and closed; 0: untold */
    const struct td_item *items;
    size_t n_items;
    const char *description; /* the set's own JSON object, not terminated */
    size_t description_size;
};

typedef void td_offer_fn(const struct td_offer *offer, void *user);

/*
 * Finds out what a set offers: from its description (JSON), its Capability List
 * and its Change List, by the links from one to the other. A server that lacks
 * some of them is no error.
 *
 * client      from td_open.
 * set_url     "http(s)://host:port/sets/NAME", UTF-8.
 * on_offer    called once, on TD_OK.
 *
 * Memory   all arguments are borrowed until return; the offer, until on_offer
 *          returns.
 * Thread   blocks; on_offer runs on the calling thread.
 * Errors   TD_INVALID      set_url is malformed; nothing was sent.
 *          TD_REFUSED      the server knows of no such set.
 *          TD_UNREACHABLE  no answer, or 503 and the like.
 *          TD_BROKEN       a document cannot be read.
 *          TD_STOPPED, TD_MEMORY
 * Spec    . Since 0.1.
 */
TD_API enum td_status td_describe(struct td_client *client, const char *set_url,
                                  td_offer_fn *on_offer, void *user);

#ifdef __cplusplus
}
#endif

#endif
