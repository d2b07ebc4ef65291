/*
 * inlined.h - a broker whose set "demo" keeps content inline, what is posted to
 * it, and what it then has on the disk.
 *
 *     inlined_post_one(s, ENTRY(A, "created"), A, SLICE("hello\n"));
 *     inlined_assert_posted(s, 1, 1);
 *     inlined_assert_kept(s, SLICE("hello\n"));
 *
 * As a fixture: inlined_open, inlined_close. A test that wants options opens
 * the broker and the connection itself.
 */
#ifndef TESTS_SUPPORT_INLINED_H
#define TESTS_SUPPORT_INLINED_H

#include <stddef.h>
#include <stdint.h>

#include "tests/support/broker.h"
#include "tests/support/demo.h"
#include "tests/support/http.h"
#include "tests/support/multipart.h"
#include "tests/support/xpath.h"

/* The JSON of a change; with more members. */
#define ENTRY(loc, kind) "{\"loc\":\"" loc "\",\"change\":\"" kind "\"}"
#define ENTRY_OF(loc, kind, more) \
    "{\"loc\":\"" loc "\",\"change\":\"" kind "\"," more "}"

/* SHA-256 and MD5 of "hello\n". */
#define HELLO_SHA256 \
    "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"
#define HELLO_MD5 "b1946ac92492d2347c6235b4d2611184"

struct inlined {
    struct broker broker;
    struct http http;
};

int inlined_open(void **state);
int inlined_close(void **state);

/* Posting: each returns the status. */

/* `another`: one more header line; NULL: none. */
long inlined_post_as(struct inlined *s, const char *path, const char *type,
                     const char *another, struct slice body);

/* Posts what was put together, and frees it. */
long inlined_send_with(struct inlined *s, struct multipart_body *m,
                       const char *another);

/* Changes in JSON, and one content, of `loc`. */
long inlined_post_one(struct inlined *s, const char *changes, const char *loc,
                      struct slice bytes);

/* The last post was taken, as the entries `first` to `last`. */
void inlined_assert_posted(struct inlined *s, uint64_t first, uint64_t last);

/* What there is */

/* The position of the set. */
uint64_t inlined_last(struct inlined *s);

/* Opens the set's open Change List. */
void inlined_list(struct inlined *s, struct xpath *x);

/* Files on the disk: of the set, and on their way. */
size_t inlined_n_kept(const struct inlined *s);
size_t inlined_n_arriving(const struct inlined *s);

/* The bytes are kept, under their name. */
void inlined_assert_kept(const struct inlined *s, struct slice bytes);

/* So many entries, so many files, and nothing on its way. */
void inlined_assert_state(struct inlined *s, uint64_t last, size_t n_kept);

#endif
