/*
 * uri.h - absolute URIs and set names.
 */
#pragma once

#include "proto/buf.h"
#include "proto/problem.h"

/* characters, not bytes. */
#define URI_CHARACTERS_MIN 12
#define URI_CHARACTERS_MAX 2048

/* Longest name of a set, in bytes. */
#define SET_NAME_MAX 64

/* Is `text` an absolute URI or IRI: a scheme, ":" and something after it,
 * without white space and control characters, valid UTF-8; "http" and "https"
 * with "//" and a host; at most URI_CHARACTERS_MAX characters? `what` names it
 * in the problem ("loc", "href"). STATUS_INVALID if not. */
MUST_CHECK enum status uri_check(struct slice text, const char *what,
                                 struct problem *why);

/* True if it is an address of a web server, and no path of a file. NULL is
 * none. */
static inline bool
uri_is_web(const char *text)
{
    return text && (!strncasecmp(text, "http://", 7) ||
                    !strncasecmp(text, "https://", 8));
}

/* a URI of at least URI_CHARACTERS_MIN characters. */
MUST_CHECK enum status uri_check_loc(struct slice text, struct problem *why);

/* [a-z0-9][a-z0-9._-]{0,63} */
bool set_name_is_valid(struct slice name);

/* Percent-decodes `text` into `to`, which has room for text.size bytes or is
 * where the text is, and returns the size; -1 for a bad escape or a NUL. '+'
 * stays '+'. */
long uri_decode(struct slice text, char *to);

/* Writes the escape of any byte, "%7E", and returns the end of it; or appends
 * it. */
char *uri_put_escape(char to[3], char c);
void uri_add_escape(struct buf *to, char c);

/* Percent-encodes all of `text` that is not unreserved into `to`, which has
 * room for 3 * text.size bytes, and returns the size. */
size_t uri_encode(struct slice text, char *to);

/* Appends what `reference` means in a document whose URL is `base` (RFC 3986
 * section 5.2), whose fragment does not count: an absolute URL is itself. Only
 * put together, not judged: `base` is absolute, `reference` may be anything. In
 * uri.c. */
void uri_resolve(struct buf *to, struct slice base, struct slice reference);

/* Appends a reference that an author wrote, in a form that can be sent: encodes
 * characters beyond ASCII (RFC 3987 section 3.1) and others that no URI has,
 * and "%" without digits; leaves out line breaks and the white space around
 * them. */
void uri_add_sendable(struct buf *to, struct slice reference);

/* May `c` stand for itself everywhere (RFC 3986 section 2.3): letters, digits,
 * "-._~"? */
bool uri_is_unreserved(char c);

/* The byte that the first three of `text` stand for, "%7E"; -1 if they are no
 * escape. */
int uri_escape(struct slice text);
