/*
 * tidings_client.h - the handle of libtidings, and its event loop.
 *
 * What is begun on a handle (followers, publishers, ...) runs on a loop of its
 * own, in one of two ways.
 *
 *     Blocking                 td_run(client), or any call that "blocks": the
 *                              loop turns inside.
 *     In another's event loop  watch td_fd(client) for reading, wait no longer
 *                              than td_timeout_ms(client), then call
 *                              td_service(client), which never waits.
 *
 * Callbacks run inside these calls, on the calling thread, and nowhere else.
 */
#ifndef TIDINGS_CLIENT_H
#define TIDINGS_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TD_API __attribute__((visibility("default")))

/* Longest position, with its NUL. */
#define TD_POSITION_SIZE 128

enum td_status {
    TD_OK = 0,
    TD_STOPPED,     /* by td_stop, or by a callback */
    TD_INVALID,     /* an argument is malformed; nothing was sent */
    TD_REFUSED,     /* the server said no (4xx); td_problem says why */
    TD_GONE,        /* the position is of another epoch or no longer retained;
                       or the set was removed */
    TD_UNREACHABLE, /* no connection, or it broke; or the server is busy */
    TD_BROKEN,      /* the server's answer cannot be right: a gap that cannot be
                       filled, a digest that does not match */
    TD_MEMORY,      /* no memory, or no descriptors */
    TD_IO,          /* a file or directory of this machine: cannot be read or
                       written, is full, is in use by another */
    TD_DIFFERENT    /* td_audit, td_verify: what was compared does not agree;
                       td_sync: some resources could not be had */
};

struct td_client;

/*
 * Makes a handle. Over https the system's certificates are trusted, and those
 * in the file (PEM) that CURL_CA_BUNDLE or SSL_CERT_FILE of the environment
 * names; there is no way not to look at them. Proxies are taken from the
 * environment as curl does: http_proxy, https_proxy, all_proxy, no_proxy.
 *
 * Memory   td_close frees it. NULL: no memory, or no descriptors.
 * Thread   any, also several at once. (Below libcurl 7.84 the first call of the
 *          process must not race with others that set libcurl up.)
 */
TD_API struct td_client *td_open(void);

/* Closes all that was opened on it and is not closed yet (publishers,
 * followers, callbacks ..., running, idle or ended), without a further
 * callback; then frees it. NULL is allowed. Not from a callback of this handle.
 */
TD_API void td_close(struct td_client *client);

/*
 * Adds a line to every request to the server at `url`: same scheme, host and
 * port, and to no other, whoever redirects there. For authentication.
 *
 * url     any URL of that server, "https://host:port/...".
 * header  "Authorization: Bearer ..."; one line, no control characters. None of
 *         the fields that the library itself writes: Host, Connection,
 *         Keep-Alive, Upgrade, Content-Length, Transfer-Encoding, TE, Trailer,
 *         Sec-WebSocket-....
 *
 * Memory   both are copied.
 * Errors   TD_INVALID: td_problem names the field; TD_MEMORY. Since 0.1.
 */
TD_API enum td_status td_header(struct td_client *client, const char *url,
                                const char *header);

/*
 * Lets sources name every address. Without it a source may name, redirect to
 * and resolve to addresses that reach no further than its own: one on a public
 * address public ones alone, one in a private network private ones, one on this
 * machine all. So no document of a stranger makes the handle ask for pages of
 * this machine or its network. The sources are the URLs given to td_follow,
 * td_sync, td_audit, td_verify, td_describe, td_publish_full (from) and
 * td_subscriber_open. Of several sources of a handle, the one that reaches
 * least counts for all. Addresses further than that are TD_BROKEN.
 *
 * Behind a proxy the handle judges only localhost and hosts that are written as
 * an address, because the proxy resolves names.
 *
 * Thread   as the handle; before the source is asked. Since 0.1.
 */
TD_API void td_allow_private(struct td_client *client);

/* Upper limits of what a source can make the handle read and write; 0: no
 * limit.
 */
struct td_limits {
    uint64_t max_file_bytes;  /* of a resource that a mirror fetches; the
                                 mirror gives up a longer one */
    uint64_t max_total_bytes; /* of all files of a mirror and of those that are
                                 being fetched; and of each package */
    uint64_t min_free_bytes;  /* of the file systems of mirrors, of kept lists
                                 (td_follow_options) and of temporary files:
                                 stay free */
    uint64_t max_resources;   /* of a list, and of a mirror */
};

/*
 * Sets the limits for all calls of the handle. A call ends with TD_IO before it
 * exceeds max_total_bytes or min_free_bytes, and with TD_REFUSED where a source
 * has more than max_resources. It keeps what a mirror or a listing had, and
 * deletes its temporary files. A new handle has no limits.
 *
 * limits  NULL: none, as at the beginning.
 *
 * Memory   copied.
 * Thread   as the handle; not while td_sync or td_audit runs. Since 0.1.
 */
TD_API void td_limit(struct td_client *client, const struct td_limits *limits);

/*
 * Why the last call failed: a sentence, UTF-8, "" if it did not.
 *
 * Memory   lent until the next call with this handle.
 */
TD_API const char *td_problem(const struct td_client *client);

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

/*
 * Makes the running call that blocks return TD_STOPPED soon or, if none runs,
 * the next one at once, td_service included: a stop is used up by the call that
 * it ends, and never lost.
 *
 * Memory   client must not be closed before it returns.
 * Thread   any; also from a signal handler (it only writes to a descriptor).
 */
TD_API void td_stop(struct td_client *client);

/* The loop */

/*
 * The descriptor to watch for reading: readable when td_service has something
 * to do. It stays the same as long as the handle lives. Do not read from it.
 *
 * Memory   the client's. Since 0.1.
 */
TD_API int td_fd(const struct td_client *client);

/*
 * Milliseconds after which td_service has something to do though nothing became
 * readable; 0: now; -1: nothing is due. Ask again after each td_service and
 * each call that begins something. Since 0.1.
 */
TD_API int td_timeout_ms(const struct td_client *client);

/*
 * Does what can be done without waiting, callbacks included.
 *
 * Errors   TD_STOPPED  by td_stop.
 *          TD_INVALID  called from a callback of this handle.
 * Since 0.1.
 */
TD_API enum td_status td_service(struct td_client *client);

/*
 * Turns the loop until nothing runs on the handle any more, or td_stop.
 *
 * Thread   blocks; callbacks run on the calling thread.
 * Errors   TD_STOPPED  by td_stop: what runs is as it was, call again to go on.
 *          TD_INVALID  called from a callback of this handle.
 * Since 0.1.
 */
TD_API enum td_status td_run(struct td_client *client);

#ifdef __cplusplus
}
#endif

#endif
