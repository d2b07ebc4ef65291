/*
 * token_json.h - requests about tokens as JSON: of HTTP, and of tidingsd's
 * own commands.
 *
 *     {"name":"press","publish":["news-*"],"subscribe":["*","!internal"],
 *      "manage":[],"observe":false,"admin":false,
 *      "expires":"2027-01-01T00:00:00Z",
 *      "certificate":"HEX"}
 *
 * "certificate" is the SHA-256 of a client certificate, as 64 digits or as
 * OpenSSL prints it.
 *
 * All members but the name may be missing. A token is shown with the same
 * members, its "id", "created", "used", its "state" (active or expired), and
 * when it is new its "token".
 */
#pragma once

#include "broker/access/tokens.h"

enum token_act {
    TOKEN_ADD,
    TOKEN_LIST,
    TOKEN_SHOW,
    TOKEN_REVOKE,
    TOKEN_ROTATE
};

/* Longest JSON of TOKEN_ADD, and room for the answer to TOKEN_LIST. */
#define TOKEN_JSON_MAX  16384
#define TOKENS_JSON_MAX ((size_t)TOKENS_MAX * 4096)

struct token_command {
    enum token_act act;
    struct slice name;          /* of all but TOKEN_ADD and TOKEN_LIST */
    struct slice json;          /* of TOKEN_ADD */
    int64_t grace_us;           /* of TOKEN_ROTATE */
    const struct authority *by; /* of the client; lent; NULL: the operator */
};

/* Does it, and appends the answer to `text` (nothing for TOKEN_REVOKE). Any
 * thread that may wait for the disk. Errors as in tokens.h; STATUS_MALFORMED:
 * the JSON. */
MUST_CHECK enum status token_json_run(struct tokens *tokens,
                                      const struct token_command *command,
                                      struct buf *text, struct problem *why);

/* Appends what a principal may know about itself: its name, its rights and its
 * end. */
void token_json_self(struct buf *text, const struct principal *p);

/* Calls `fn` for each token of an answer of token_json_run, with its text,
 * which is "" unless it is new. STATUS_MALFORMED: it is none. */
typedef void token_shown_fn(const struct token_view *view, struct slice text,
                            void *user);
MUST_CHECK enum status token_json_read(struct slice json, token_shown_fn *fn,
                                       void *user, struct problem *why);

/* Appends the JSON of TOKEN_ADD. */
void token_json_write(struct buf *to, const struct token_terms *terms);

/* The members of the JSON that these functions read and write. */
extern const struct json_shape token_shape, token_request_shape, tokens_shape;
