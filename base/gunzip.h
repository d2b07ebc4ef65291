/*
 * gunzip.h - inflates gzip (RFC 1952) as it arrives, and HTTP's deflate (RFC
 * 9110 section 8.4.1.2).
 *
 *     gunzip_new -> gunzip_feed ... -> gunzip_end -> gunzip_free
 *                      |     ^
 *                      v     |        is_behind: in another turn of the loop
 *                     gunzip_step
 *
 * A few bytes can become a thousand times as many. A thread that serves others
 * does not wait for all of them: gunzip_feed and gunzip_step inflate one
 * bounded step, and keep the rest of the input. gunzip_all makes all steps at
 * once, for a thread that has the time. Nothing that comes out is kept. Several
 * members, one after the other, are one body; anything else behind a member is
 * refused.
 *
 * One thread at a time.
 */
#pragma once

#include "proto/problem.h"

struct gunzip;

/* Receives inflated bytes, lent and never empty. A status other than 0 ends the
 * reading. */
typedef enum status gunzip_fn(struct slice bytes, void *user,
                              struct problem *why);

/* What comes in. */
enum gunzip_form {
    GUNZIP_GZIP,
    GUNZIP_PLAIN,  /* passed on unchanged */
    GUNZIP_EITHER, /* plain if it does not begin like a member: many sources
                      keep their lists as .xml.gz without saying so, or call a
                      plain list gzip */
    GUNZIP_DEFLATE /* zlib's format, or the bare one that some servers send
                      instead */
};

/* Makes a reader that passes on at most `max_bytes`. NULL: no memory. */
struct gunzip *gunzip_new(uint64_t max_bytes, enum gunzip_form form,
                          gunzip_fn *on_bytes, void *user);
void gunzip_free(struct gunzip *g); /* NULL is allowed */

/* Takes `bytes` and makes one step. STATUS_MALFORMED: not gzip, or damaged;
 * STATUS_TOO_LARGE: more than max_bytes; STATUS_MEMORY; or the status of
 * on_bytes. After an error only gunzip_free. */
MUST_CHECK enum status gunzip_feed(struct gunzip *g, struct slice bytes,
                                   struct problem *why);

/* True if some of the input is left: another step is due. NULL: false. */
bool gunzip_is_behind(const struct gunzip *g);
MUST_CHECK enum status gunzip_step(struct gunzip *g, struct problem *why);

/* Takes `bytes` and makes all steps. Not together with gunzip_feed. */
MUST_CHECK enum status gunzip_all(struct gunzip *g, struct slice bytes,
                                  struct problem *why);

/* The gunzip_fn of one whose bytes are coded once more: `next` is the reader of
 * what comes out. */
MUST_CHECK enum status gunzip_into(struct slice bytes, void *next,
                                   struct problem *why);

/* Ends the input; no step may be due. STATUS_MALFORMED: the last member is
 * incomplete, or there was none. */
MUST_CHECK enum status gunzip_end(const struct gunzip *g, struct problem *why);

/* The bytes of memory that it uses now. */
size_t gunzip_held(const struct gunzip *g);
