/*
 * verify_list.h - checks one Change List of Tidings as its bytes arrive: it has
 * to continue the chain.
 *
 *     <?xml ...>             +
 *     <urlset ...>           |  head: epoch, after, last, d(last), prev, from:
 *     <rs:ln .../>           |  they must continue the chain
 *     <rs:md .../>           +
 *     <url>...</url>         each: seq + 1, a later time,
 *                            d = SHA-256(d || line)
 *     </urlset>              last is reached, and so is d(last)
 *
 * The chain grows by whole lists: a broken list leaves it as it was.
 * Memory: a header and one entry.
 */
#ifndef CLIENT_VERIFY_VERIFY_LIST_H
#define CLIENT_VERIFY_VERIFY_LIST_H

#include "client/verify/verify_head.h"

/* The proven part of the history. All zero: nothing yet. May be copied. */
struct verify_chain {
    char epoch[EPOCH_SIZE + 1];     /* "": nothing was read yet */
    uint64_t after;                 /* the first list begins after this entry */
    uint64_t last;                  /* the last proven entry */
    struct digest digest;           /* d(last) */
    int64_t from_us;                /* T(after) */
    int64_t last_us;                /* T(last) */
    bool is_open;                   /* the last list is not closed */
    char next[VERIFY_HREF_MAX + 1]; /* its link next, or "" */
    char name[256]; /* its own name: the last segment of its path, no ".gz" */
};

bool verify_is_url(const char *where); /* else the path of a file */

/* The last segment of a path or URL, without query and ".gz". */
struct slice verify_name(const char *where);

struct verify_list;

/* Begins the list at `where` (URL or file) after the chain; copies both. NULL:
 * no memory. */
struct verify_list *verify_list_new(const struct verify_chain *chain,
                                    const char *where);
void verify_list_free(struct verify_list *list); /* NULL is allowed */

/* Sets d(seq) from another document, `where` (lent): if the list has that
 * entry, the digests must agree. */
void verify_list_expect(struct verify_list *list, uint64_t seq,
                        const struct digest *digest, const char *where);

/* STATUS_INVALID, STATUS_MALFORMED: it breaks; `why` has the line, the expected
 * and the found value. STATUS_MEMORY. Nothing is read after it. */
MUST_CHECK enum status verify_list_feed(struct verify_list *list,
                                        struct slice bytes,
                                        struct problem *why);

/* Ends the list: `*chain` becomes the chain with it. */
MUST_CHECK enum status verify_list_end(struct verify_list *list,
                                       struct verify_chain *chain,
                                       struct problem *why);

/* The seq up to which the entries were in order; if one was altered: up to
 * which they are proven. */
uint64_t verify_list_reached(const struct verify_list *list);

/* The root, fit or not; NULL: it has not arrived, or cannot be read. */
const struct verify_head *verify_list_head(const struct verify_list *list);

#endif
