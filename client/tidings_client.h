/*
 * tidings_client.h - the handle of libtidings, and its event loop.
 *
 * The operations of a handle (followers, publishers, ...) run on its own event
 * loop, in one of two ways.
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

/* The version of these headers. TD_VERSION is one number to compare: 10203 for
 * 1.2.3. */
#define TD_VERSION_MAJOR  1
#define TD_VERSION_MINOR  0
#define TD_VERSION_PATCH  0
#define TD_VERSION_STRING "1.0.0"
#define TD_VERSION \
    (TD_VERSION_MAJOR * 10000 + TD_VERSION_MINOR * 100 + TD_VERSION_PATCH)

/* Longest position, with its NUL. */
#define TD_POSITION_SIZE 128

enum td_status {
    TD_OK = 0,
    TD_STOPPED,     /* td_stop or a callback ended the call */
    TD_INVALID,     /* an argument is malformed; nothing was sent */
    TD_REFUSED,     /* the server refuses (4xx); td_problem says why */
    TD_GONE,        /* the position is of another epoch or no longer retained;
                       or the set was removed */
    TD_UNREACHABLE, /* no connection, or it broke; or the server is busy */
    TD_BROKEN,      /* the server's answer is wrong: a gap that nothing fills, a
                       digest that does not match */
    TD_MEMORY,      /* no memory, or no descriptors */
    TD_IO,          /* a file or directory of this machine is unreadable,
                       unwritable, full, or in use by another process */
    TD_DIFFERENT,   /* td_audit, td_diff, td_verify: they found differences;
                       td_sync: it could not get some resources; a checkpoint
                       is not signed as td_trust demands */
    TD_REWOUND      /* the log ends before the position, in the same epoch, or
                       has another digest there; td_accept_history */
};

struct td_client;

/* What one reading of a source's lists mended and left out (R-405, R-406). */
struct td_report {
    uint64_t n_mended;   /* values that were clear, but not as the standards
                            want them */
    uint64_t n_left_out; /* rows that cannot be used */
    const char *mended;  /* by kind, with the first example and its line; NULL:
                            none */
    const char *left_out;
};

/*
 * Returns the version of the library that the program runs with, as TD_VERSION:
 * the shared one may be newer than the headers.
 *
 * Thread   any. Since 1.0.
 */
TD_API unsigned td_version(void);

/*
 * Makes a handle. Over https it trusts the system's certificates, and those in
 * the file (PEM) that CURL_CA_BUNDLE or SSL_CERT_FILE of the environment names;
 * nothing switches the check off. It takes proxies from the environment as curl
 * does: http_proxy, https_proxy, all_proxy, no_proxy. (A WebSocket needs a
 * proxy of http; behind another one followers use server-sent events.)
 *
 * Memory   td_close frees it. NULL: no memory, or no descriptors.
 * Thread   any, also several at once. (Below libcurl 7.84 the first call of the
 *          process must not race with others that set libcurl up.)
 */
TD_API struct td_client *td_open(void);

/* Closes everything still open on the handle (publishers, followers, callbacks
 * ..., running, idle or ended), without a further callback; then frees it. NULL
 * is allowed. Not from a callback of this handle. */
TD_API void td_close(struct td_client *client);

/*
 * Adds a line to every request to the server at `url`: the same scheme, host
 * and port, and to no other server, even after a redirect. For authentication.
 *
 * url     any URL of that server, "https://host:port/...".
 * header  "Authorization: Bearer ..."; one line, no control characters. None of
 *         the fields that the library itself writes: Host, Connection,
 *         Keep-Alive, Upgrade, Content-Length, Transfer-Encoding, TE, Trailer,
 *         Sec-WebSocket-....
 *
 * Memory   both are copied.
 * Errors   TD_INVALID: td_problem names the field; TD_MEMORY. Since 1.0.
 */
TD_API enum td_status td_header(struct td_client *client, const char *url,
                                const char *header);

/*
 * Sends a bearer token (RFC 6750) with every request to the server at `url`:
 * the same scheme, host and port, and to no other server, even where documents,
 * links and redirects lead to one. Also to its hub, streams and long polls.
 * Over http only to this machine (127.0.0.0/8, ::1, localhost), and not through
 * a proxy. A line "Authorization" of td_header for that server replaces it.
 *
 * url    any URL of that server, "https://host:port/...".
 * token  letters, digits and -._~+/, perhaps with = at the end; at most 8,192
 *        bytes. NULL: the server gets no token any more. Replaces the former
 *        one.
 *
 * Memory   both are copied; the copy is overwritten before it is freed.
 * Thread   as the handle; requests under way go on with the former token.
 * Errors   TD_INVALID: a malformed token, or a server that may not get one.
 *          td_problem never has a byte of the token. TD_MEMORY. Since 1.0.
 */
TD_API enum td_status td_client_set_token(struct td_client *client,
                                          const char *url, const char *token);

/*
 * The same with a file that has the token, one line. A regular file of this
 * user that its group or others can reach is refused, as by ssh.
 *
 * If the server refuses the token (401, or it ends a stream with close code
 * 4401 or the event `denied`), the file is read again. If it has another token,
 * the handle repeats the request with it, once; so tokens are rotated without a
 * restart. With the same token, calls fail with TD_REFUSED; a follower that
 * has had messages reports it (on_trouble) and asks again, after pauses that
 * grow to 30 s. A pipe is read once.
 *
 * Errors   TD_INVALID: as above, or no token in the file; TD_IO: the file is
 *          unreadable, or others can reach it; TD_MEMORY. Since 1.0.
 */
TD_API enum td_status td_client_set_token_file(struct td_client *client,
                                               const char *url,
                                               const char *path);

/*
 * Sets the certificate that the handle shows to one server, if the server asks
 * for it (mutual TLS), and to no other.
 *
 * url   of the server, https; more of its path does not matter.
 * cert  PEM file with the certificate, and behind it its chain. NULL: the
 *       server gets none any more. Replaces the former one.
 * key   PEM file with its private key, without a password; NULL: it is in
 *       `cert`.
 *
 * Both files are read again for each connection, so they may be renewed.
 *
 * Memory   all texts are copied.
 * Thread   as the handle; connections under way keep the former one.
 * Errors   TD_INVALID: no https URL; TD_IO: the files cannot be used, or do not
 *          fit each other; TD_MEMORY. Since 1.0.
 */
TD_API enum td_status td_client_set_certificate(struct td_client *client,
                                                const char *url,
                                                const char *cert,
                                                const char *key);

/*
 * Lets sources name every address. Without it a source may name, redirect to
 * and resolve to addresses that reach no further than its own: a source on a
 * public address public ones alone, one in a private network private ones, one
 * on this machine all. So a stranger's document cannot make the handle request
 * pages of this machine or its network. The sources are the URLs given to
 * td_follow, td_sync, td_audit, td_verify, td_describe, td_publish_full (from)
 * and td_subscriber_open. If a handle has several sources, the one that reaches
 * least counts for all. Other addresses are TD_BROKEN.
 *
 * Behind a proxy the handle judges only localhost and hosts written as
 * an address, because the proxy resolves names.
 *
 * Thread   as the handle; before the first request to the source. Since 1.0.
 */
TD_API void td_allow_private(struct td_client *client);

/* A signed checkpoint of a log (C2SP tlog-checkpoint): its first `size` entries
 * have that root (RFC 6962). */
struct td_checkpoint {
    char origin[768];     /* HOST/sets/NAME/EPOCH */
    uint64_t size;        /* entries */
    char root[80];        /* "sha-256:..." */
    int64_t time_s;       /* when the log had no more entries, as its key says:
                             POSIX; 0: no key is known */
    int is_signed;        /* not 0: a known key of the log has signed it */
    unsigned n_witnesses; /* known ones that have cosigned it */
};

/*
 * Sets whose signatures the handle demands of checkpoints. td_verify then reads
 * the checkpoint of a set, and demands that the entries that it has read are
 * those of its tree.
 *
 * keys       verifier keys (C2SP signed-note: NAME+HEX+BASE64), one a line, as
 *            `tidingsd key show SET` prints them; a line that begins with "#"
 *            is a comment. NULL: none; a text without a key is an error.
 * witnesses  likewise those of witnesses. A key counts once, however often it
 *            is there and under whatever names.
 * required   so many of these have to have cosigned; 0: all.
 *
 * Memory   the texts are copied.
 * Thread   as the handle.
 * Errors   TD_INVALID. Since 1.1. R-453
 */
TD_API enum td_status td_trust(struct td_client *client, const char *keys,
                               const char *witnesses, unsigned required);

/*
 * Has followers and mirrors of the handle check the checkpoints of their sets,
 * with the signatures that td_trust demands: on each connection before the
 * first message, each five minutes, and before until_caught_up ends. The tree
 * has to continue that of the last checkpoint, and to have the history that
 * came. After td_trust changes are handed over once the signed tree has them,
 * or td_key_lag before; until it does, one checkpoint a second is asked for.
 * td_sync does so by itself if td_trust was called, with files in its
 * directory.
 *
 * A signed checkpoint that contradicts the last one, or the history that came,
 * ends the follower with TD_REWOUND; a wrong or missing signature with
 * TD_DIFFERENT; a set without checkpoints with TD_REFUSED. If a checkpoint is
 * older than the last one, or lacks what came, the follower reports trouble and
 * asks again.
 *
 * path  the last checkpoint of a set is kept in PATH.checkpoint-HASH, and two
 *       texts that contradict each other in PATH.evidence-HASH, with a hash of
 *       the set's URL. NULL: in memory, and no evidence. Copied.
 *
 * Thread   as the handle, before the followers.
 * Errors   TD_MEMORY. Since 1.1. R-452
 */
TD_API enum td_status td_keep_checkpoints(struct td_client *client,
                                          const char *path);

/*
 * Lets the followers of the handle hand over changes before a signed tree has
 * them (td_trust, td_keep_checkpoints), with td_message.is_unsigned. Each later
 * checkpoint still has to have them: else the follower ends as above.
 *
 * lag_ms  milliseconds. While a change is handed over and not signed for so
 *         long, further ones wait for a signed tree, and the follower reports
 *         trouble. 0, the default: all of them wait.
 *
 * A program that stores positions has to store that of td_message_mark: its
 * digest lets the next run compare what came unsigned with the next
 * checkpoint. td_sync deletes files, and refuses a handle with a lag. Since
 * 1.1.
 */
TD_API void td_key_lag(struct td_client *client, unsigned lag_ms);

/*
 * A checkpoint that a follower has checked.
 *
 * text      the signed note.
 * fault     NULL: it is right, and td_checkpoint describes it. Else
 *           "malformed"; "origin", of another log; "signature"; "witnesses",
 *           which are too few or wrong; "smaller", than the last one, and
 *           later; "root", another one for the same size; "inconsistent", does
 *           not continue the last one; or "digest", has another history. The
 *           follower ends then.
 * evidence  what it contradicts: the last checkpoint, or a line with the
 *           position and the digest of the log there; NULL: nothing.
 * proof     what the tree has instead, and the way from there to its root;
 *           NULL: none is needed. The three texts evidence, text and proof,
 *           with an empty line between them, are a file that td_verify judges.
 *
 * The texts are lent until the return.
 */
typedef void td_checkpoint_fn(const char *text, const char *fault,
                              const char *evidence, const char *proof,
                              void *user);

/*
 * Calls a function with each new checkpoint of the handle's followers
 * (td_keep_checkpoints), on their thread. It may close nothing.
 *
 * kept  the text of the last checkpoint, of a program that keeps it itself: for
 *       sets of that origin without a file. NULL: none. Copied.
 *
 * Thread   as the handle, before the followers.
 * Errors   TD_MEMORY. Since 1.1.
 */
TD_API enum td_status td_on_checkpoint(struct td_client *client,
                                       const char *kept,
                                       td_checkpoint_fn *on_checkpoint,
                                       void *user);

/* The last checkpoint that td_verify or a follower has checked, and that was
 * right, lent until the next one; NULL: none. Since 1.1. */
TD_API const struct td_checkpoint *td_checkpoint(struct td_client *client);

/* Upper limits of what a source can make the handle read and write; 0: no
 * limit.
 */
struct td_limits {
    uint64_t max_file_bytes;  /* of a resource that a mirror fetches; the
                                 mirror gives up a longer one */
    uint64_t max_total_bytes; /* of all files of a mirror and of its downloads
                                 together; and of each package */
    uint64_t min_free_bytes;  /* that stay free on the file systems of mirrors,
                                 kept lists (td_follow_options) and temporary
                                 files */
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
 * Thread   as the handle; not while td_sync or td_audit runs. Since 1.0.
 */
TD_API void td_limit(struct td_client *client, const struct td_limits *limits);

/*
 * Accepts one history that went back, or that is another one than before
 * (TD_REWOUND): followers, mirrors and audits of the handle take a new baseline
 * instead of ending. Each call adds one.
 *
 * mark  what td_problem names behind "accept-history": the position at which
 *       the log ends now, or the source's digest. So the consent is not valid
 *       for a log that ends elsewhere. Copied.
 *
 * Errors   TD_MEMORY
 * Since 1.1.
 */
TD_API enum td_status td_accept_history(struct td_client *client,
                                        const char *mark);

/* How far a call is. */
enum td_progress_what {
    TD_PROGRESS_READ, /* `done` resources of a list were read: td_publish_full,
                         td_audit */
    TD_PROGRESS_SENT, /* `done` of `all` bytes of a request were sent; then the
                         server works: td_publish, td_publish_full */
    TD_PROGRESS_COMPARED /* `done` resources were compared, of about `all` that
                            the mirror has: td_audit */
};

struct td_progress {
    enum td_progress_what what;
    uint64_t done;
    uint64_t all; /* 0: unknown */
};

/*
 * Sets a function that calls which block (td_publish, td_publish_full,
 * td_audit) call again and again, perhaps many times a second, with how far
 * they are. (td_sync has td_sync_options.on_event, td_verify its on_list.)
 *
 * on_progress  called on the calling thread; must not call the handle. NULL:
 *              none.
 *
 * Memory   the struct is lent until on_progress returns.
 * Since 1.0.
 */
TD_API void td_on_progress(struct td_client *client,
                           void (*on_progress)(const struct td_progress *p,
                                               void *user),
                           void *user);

/*
 * Returns why the last call failed: a sentence, UTF-8, "" if it did not.
 *
 * Memory   lent until the next call with this handle.
 */
TD_API const char *td_problem(const struct td_client *client);

/*
 * Returns the HTTP status of the answer to the last call's last request; 0: no
 * answer. For programs that judge a refusal by themselves.
 *
 * retry_after_s  set to the seconds of the answer's Retry-After, 0 if it had
 *                none; may be NULL.
 *
 * Thread   as the handle. Since 1.0.
 */
TD_API unsigned td_answered(const struct td_client *client,
                            unsigned *retry_after_s);

/*
 * Makes the running call that blocks return TD_STOPPED soon; if none runs, the
 * next one at once, including td_service. Each stop ends one call and is never
 * lost.
 *
 * Memory   client must not be closed before it returns.
 * Thread   any; also from a signal handler (it only writes to a descriptor).
 */
TD_API void td_stop(struct td_client *client);

/* The loop */

/*
 * Returns the descriptor to watch for reading: readable when td_service has
 * work. It stays the same for the life of the handle. Do not read from it.
 *
 * Memory   the client's. Since 1.0.
 */
TD_API int td_fd(const struct td_client *client);

/*
 * Returns the milliseconds after which td_service has work even if nothing is
 * readable; 0: now; -1: nothing is due. Ask again after each td_service and
 * each call that begins an operation. Since 1.0.
 */
TD_API int td_timeout_ms(const struct td_client *client);

/*
 * Does all work that needs no waiting, including callbacks.
 *
 * Errors   TD_STOPPED  by td_stop.
 *          TD_INVALID  called from a callback of this handle.
 * Since 1.0.
 */
TD_API enum td_status td_service(struct td_client *client);

/*
 * Turns the loop until no operation runs on the handle, or td_stop.
 *
 * Thread   blocks; callbacks run on the calling thread.
 * Errors   TD_STOPPED  by td_stop: operations are unchanged, call again to go
 *                      on.
 *          TD_INVALID  called from a callback of this handle.
 * Since 1.0.
 */
TD_API enum td_status td_run(struct td_client *client);

#ifdef __cplusplus
}
#endif

#endif
