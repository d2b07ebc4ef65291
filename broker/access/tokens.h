/*
 * tokens.h - bearer tokens (RFC 6750), in DIR/tokens.db.
 *
 *     td_0123456789ab_<64 hexadecimal digits>
 *        ID            SECRET: 256 random bits
 *
 * The database keeps no secret: a token is found by its ID and compared with
 * SHA-256 of a salt and the secret, in constant time; an unknown ID costs the
 * same. A plain hash is enough, because nobody can guess 256 bits.
 *
 * A token may name a client certificate: a client that proves to have it is the
 * holder of the token, without the secret.
 *
 * Until the first token is made the broker is open: every request that comes in
 * has all rights but that of an administrator, which a request without a token
 * has on the control socket alone. From then on it stays closed, also when all
 * tokens are revoked, and without the file (tokens_guard). The file is made
 * with the first token.
 *
 * In a cluster the tokens are the rows of a stream (broker/cluster/owned_db.h):
 * each broker has all of them, and any broker changes them, under a lease that
 * it takes for the change alone. The last uses stay each broker's own.
 *
 * Readers take a lock that only changes of the table hold, for microseconds.
 * Changes are serial, commit first, and take effect then; they wait for the
 * disk, so no service thread calls them.
 */
#pragma once

#include "base/db.h"
#include "broker/access/principal.h"
#include "broker/cluster/streams.h"

#define TOKEN_NAME_MAX 64

/* "td_", ID, "_", SECRET, NUL */
#define TOKEN_ID_SIZE     12
#define TOKEN_SECRET_SIZE 64
#define TOKEN_TEXT_SIZE   (3 + TOKEN_ID_SIZE + 1 + TOKEN_SECRET_SIZE + 1)

/* The most tokens; each request for more is refused. */
#define TOKENS_MAX 10000

/* SHA-256 of a certificate: 64 small hexadecimal digits, NUL. */
#define TOKEN_CERTIFICATE_SIZE (2 * 32 + 1)

/* What a token is made of. */
struct token_terms {
    char name[TOKEN_NAME_MAX + 1];
    char certificate[TOKEN_CERTIFICATE_SIZE]; /* of a client that needs no
                                                 secret; "": none */
    struct rights rights;
    int64_t ends_us; /* INT64_MAX: never */
};

/* Reads the SHA-256 of a certificate, also as OpenSSL prints it (AB:CD:...).
 * STATUS_INVALID: it is none. */
MUST_CHECK enum status token_certificate_read(char to[TOKEN_CERTIFICATE_SIZE],
                                              struct slice text,
                                              struct problem *why);

/* A token as it is shown. */
struct token_view {
    struct token_terms terms;
    char id[TOKEN_ID_SIZE + 1]; /* "": of everyone */
    int64_t created_us;
    int64_t used_us; /* to about a minute; 0: never */
};

struct tokens;

/* Describes tokens.db. */
extern const struct db_kind tokens_kind;

/* Reads the tokens of a data directory. The caller has the directory's lock. */
MUST_CHECK enum status tokens_open(struct tokens **tokens, const char *dir,
                                   struct problem *why);
void tokens_close(struct tokens *tokens); /* saves uses; NULL is allowed */

/* In a cluster, before other threads know `tokens`; tokens_follow comes next.
 * `streams` is lent until tokens_close. `refusal`: why this broker changes no
 * token, lent; NULL: it does. */
MUST_CHECK enum status tokens_join(struct tokens *tokens,
                                   struct streams *streams, const char *refusal,
                                   struct problem *why);

/* Reads what other brokers have changed since the last call; what they ended
 * ends here. The first broker brings its tokens. Any thread that may wait for
 * the network. STATUS_UNREACHABLE; STATUS_BUSY: no broker has made the stream
 * yet; STATUS_DIFFERENT: these are not the tokens of the cluster. After a
 * failure the tokens stay as they are. */
MUST_CHECK enum status tokens_follow(struct tokens *tokens,
                                     struct problem *why);

/* Lends the streams of tokens_join: no change uses them until
 * tokens_return_streams, which must follow. */
struct streams *tokens_lend_streams(struct tokens *tokens);
void tokens_return_streams(struct tokens *tokens);

/* True if tokens_join was called, and nobody knows whether the cluster has
 * tokens: none is here, and tokens_follow never succeeded, also before the last
 * start. The broker is closed as long, and open afterwards if there are none,
 * unless tokens_end_openness was called. Any thread. */
bool tokens_are_unknown(struct tokens *tokens);

/* True if the database follows the tokens of a cluster, or did once. For a
 * program that has opened it without tokens_join. */
MUST_CHECK enum status tokens_look_shared(struct tokens *tokens,
                                          bool *are_shared,
                                          struct problem *why);

/* True until the first token is made, if it is known that there is none. Any
 * thread. */
bool tokens_are_open(struct tokens *tokens);

/* From now on calls `guard` with `is_on` before the first token is made, and
 * when one comes from another broker, perhaps more than once: it has the store
 * remember that the broker is closed, and may wait for the disk. After a
 * failure no token is made. Before other threads know `tokens`; `user` is
 * lent. */
typedef enum status tokens_guard_fn(void *user, bool is_on,
                                    struct problem *why);
void tokens_guard(struct tokens *tokens, tokens_guard_fn *guard, void *user);

/* Undoes what the first token did, from the next start on, and has the guard
 * forget it. Not of a broker that runs. STATUS_CONFLICT: there are tokens. */
MUST_CHECK enum status tokens_open_again(struct tokens *tokens,
                                         struct problem *why);

/* Ends that: somebody else gives tokens, too. Any thread. */
void tokens_end_openness(struct tokens *tokens);

/* Returns a reference to the principal of a token, which is not over. NULL:
 * none. Any thread. */
struct principal *tokens_find(struct tokens *tokens, struct slice text,
                              int64_t now_us);

/* What a token is found by. An empty key is none: everyone has no ID. */
enum token_key {
    TOKEN_BY_ID,
    TOKEN_BY_NAME,
    TOKEN_BY_CERTIFICATE, /* the holder has shown it: it counts as a use */
    TOKEN_KEYS
};

/* The same for the newest token with that key, without its secret. */
struct principal *tokens_by(struct tokens *tokens, enum token_key key,
                            struct slice text, int64_t now_us);

/* Writes the ID of the token of a principal, which is the same at all brokers.
 * False: it is of no token with an ID. Any thread. */
bool tokens_id_of(struct tokens *tokens, const struct principal *principal,
                  char id[TOKEN_ID_SIZE + 1]);

/* Returns a reference to that of a request without a token: of the open broker,
 * or everyone, perhaps without a right. Any thread. */
struct principal *tokens_anonymous(struct tokens *tokens, int64_t now_us);

/* Returns a reference to the principal of requests on the control socket. */
struct principal *tokens_operator(struct tokens *tokens);

/* A principal that has a name and may act again after a restart: of a token
 * that is not over, or of everyone; "": of an open broker. Returns a reference;
 * NULL: there is none. Any thread. */
struct principal *tokens_named(struct tokens *tokens, struct slice name,
                               int64_t now_us);

/* The principal of a subscription or a bridge that acts under a name: that of
 * the token; for "everyone" and "" that of the open broker, or else of
 * everyone, if it has rights. Returns a reference; NULL: there is none. Any
 * thread. */
struct principal *tokens_owner(struct tokens *tokens, struct slice name,
                               int64_t now_us);

/* Changes; any thread that may wait for the disk. `text`: the new token, or ""
 * for everyone. STATUS_INVALID: a bad name, no right at all, an end in the
 * past. STATUS_CONFLICT: the name exists, or another token names the
 * certificate. STATUS_NOT_FOUND: it does not.
 * STATUS_IO: the disk; nothing has changed. STATUS_BUSY: the disk, or in a
 * cluster the journal, which may have the change all the same.
 * STATUS_FORBIDDEN: this broker only reads. STATUS_DENIED: `by`, who asks, has
 * ended, also by an earlier change; NULL: never. */
MUST_CHECK enum status tokens_add(struct tokens *tokens,
                                  const struct authority *by,
                                  const struct token_terms *terms,
                                  char text[TOKEN_TEXT_SIZE],
                                  struct problem *why);
MUST_CHECK enum status tokens_revoke(struct tokens *tokens,
                                     const struct authority *by,
                                     struct slice name, struct problem *why);

/* Makes a new secret; the former ones hold for `grace_us` more. */
MUST_CHECK enum status tokens_rotate(struct tokens *tokens,
                                     const struct authority *by,
                                     struct slice name, int64_t grace_us,
                                     char text[TOKEN_TEXT_SIZE],
                                     struct problem *why);

/* Calls `fn` for each token, those that have ended as well; the newest of a
 * name is the last. A status of `fn` other than 0 ends it. */
typedef enum status token_view_fn(const struct token_view *view, void *user);
MUST_CHECK enum status tokens_each(struct tokens *tokens, token_view_fn *fn,
                                   void *user);

/* Writes the last uses to the disk, if one is a minute newer than the one that
 * the disk has; with `is_end` anyway. A failure leaves them for the next call.
 */
MUST_CHECK enum status tokens_save_uses(struct tokens *tokens, bool is_end,
                                        struct problem *why);
