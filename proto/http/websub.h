/*
 * websub.h - the requests of W3C WebSub: read, checked, composed.
 *
 *     subscriber -> hub   POST hub.mode=subscribe&hub.topic=..&hub.callback=..
 *     hub -> callback     GET ?hub.mode=subscribe&hub.topic=..&hub.challenge=..
 *     source -> hub       POST hub.mode=publish&hub.url=..
 *
 * Pure: what a hub does with them is broker/hub.
 */
#pragma once

#include "proto/urlencoded.h"

/* Bytes of a topic or callback, and of a secret (W-023: 199 are accepted). */
#define WEBSUB_URL_MAX    2048
#define WEBSUB_SECRET_MAX 199

/* Bytes of a challenge: 256 random bits in hexadecimal (W-053). */
#define WEBSUB_CHALLENGE_SIZE 64

enum websub_mode { WEBSUB_SUBSCRIBE, WEBSUB_UNSUBSCRIBE, WEBSUB_PUBLISH };

/* "subscribe", "unsubscribe", "publish" */
extern const char *const websub_mode_names[];

/* Lends from the form. */
struct websub_request {
    enum websub_mode mode;
    struct slice topic;    /* not of a publish: websub_next_topic */
    struct slice callback; /* likewise; as given (W-051, W-080) */
    struct slice secret;   /* size 0: none; an empty one is none, too (W-037) */
    uint64_t lease_s;      /* 0: none requested, or empty; above 64 bits
                              UINT64_MAX; of an unsubscription 0 (W-024) */
};

/* Reads a request. STATUS_MALFORMED: the problem names a parameter that is
 * missing or empty (W-021), comes twice with different values, is no mode
 * (W-022; in this case alone), no URL (W-027) or no lease (W-024: digits, not
 * zero). STATUS_INVALID: the secret is too long (W-023). Ignores unknown
 * parameters (W-025).
 *
 * A publish needs at least one topic (W-122), each a URL, else it is
 * STATUS_MALFORMED; all else in it is ignored. */
MUST_CHECK enum status websub_read(const struct urlencoded_data *form,
                                   struct websub_request *request,
                                   struct problem *why);

/* The topics that a publish names: hub.url and hub.topic, each as often as it
 * is there (W-121), also as "hub.url[]". *at begins at 0. false: no more. */
bool websub_next_topic(const struct urlencoded_data *form, size_t *at,
                       struct slice *topic);

/* Checks that `url` can be a topic or callback. It has to be http or https,
 * absolute, at most WEBSUB_URL_MAX bytes, ASCII without control characters,
 * blanks and any of \"<> (W-027, W-163), so that it fits unchanged into a
 * request line and a Link header. Its host is a name (IDN: in its "xn--" form),
 * an IPv4 address in any spelling, or an IPv6 address in brackets. Its port is
 * missing, empty, or 1 to 65535. It has no user info and no fragment. Escapes
 * are not checked: they go out as they came in. `what` names it in the problem.
 * STATUS_MALFORMED.
 *
 * Fragments are refused, not stripped: two callbacks that differ only in them
 * would be two subscriptions (W-034) with the same deliveries at the same URL,
 * and no verification could distinguish them. */
MUST_CHECK enum status websub_check_url(struct slice url, const char *what,
                                        struct problem *why);

/* The URL as it is to be compared (W-026, RFC 3986 section 6.2.2): scheme and
 * host in lower case, the default port left out, an empty path "/", unreserved
 * characters decoded, other escapes in upper case, a "%" that begins none as
 * one. Terminated. Never for the wire. */
struct websub_comparable {
    size_t size;
    char text[3 * WEBSUB_URL_MAX + 2];
};

/* Writes that form, without allocating: a lookup that fails for want of memory
 * would refuse a topic for good. `url` has passed websub_check_url. Returns
 * c->text. */
const char *websub_comparable(struct websub_comparable *c, struct slice url);

/* Returns that form as a text that the caller frees; NULL: no memory. */
char *websub_comparable_dup(struct slice url);

/* True if both URLs are the same, compared so. */
bool websub_is_same(struct slice a, struct slice b);

/* The part of a callback that lists and logs may show. The whole URL is a
 * capability: with it everybody can post to the subscriber.
 * "https://host:port", terminated; scheme and host in lower case, without the
 * default port and without user info. `url` begins with http:// or https://. */
struct websub_origin {
    char text[272]; /* "https://", a host, ":65535" */
};

struct websub_origin websub_origin(struct slice url);

/* Appends "host:port" of a URL in lower case, always with the port; an IPv6
 * address in its brackets; an address in its canonical form, in any spelling
 * (W-161: "2130706433" and "[::ffff:7f00:1]" are "127.0.0.1"). Limits per host
 * use it. websub_host: the host alone. `url` has passed websub_check_url. */
void websub_authority(struct buf *to, struct slice url);
void websub_host(struct buf *to, struct slice url);

/* True if websub_host is an address of loopback or "localhost". A name that
 * resolves to loopback today is its owner's to point elsewhere, and one of the
 * Internet may come to do so. `url` has passed websub_check_url. */
bool websub_is_loopback(struct slice url);

/* Appends the URL of a verification: the callback byte for byte, whatever
 * parameters it has, then these behind "?" or "&" (W-050-W-054). lease_s counts
 * for subscribe only. The callback has passed websub_check_url, so that there
 * is no fragment that they would get into. */
void websub_verification_url(struct buf *to, struct slice callback,
                             enum websub_mode mode, struct slice topic,
                             struct slice challenge, uint64_t lease_s);

/* The same for hub.mode=denied; `reason` may be empty (W-041, R-303). */
void websub_denial_url(struct buf *to, struct slice callback,
                       struct slice topic, struct slice reason);
