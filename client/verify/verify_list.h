/*
 * verify_list.h - one Change List of Tidings, checked as its bytes arrive: does
 * it continue what is proven?
 *
 *     <?xml ...>             +
 *     <urlset ...>           |  head: epoch, after, last, d(last), prev, from:
 *     <rs:ln .../>           |  they must continue the chain
 *     <rs:md .../>           +
 *     <url>...</url>         each: seq + 1, a later time,
 *                            d = SHA-256(d || line)
 *     </urlset>              last is reached, and so is d(last)
 *
 * The chain grows by whole lists: a list that breaks leaves it as it was.
 * Memory: a header and one entry.
 */
#ifndef CLIENT_VERIFY_VERIFY_LIST_H
#define CLIENT_VERIFY_VERIFY_LIST_H

#include "client/verify/verify_head.h"

/* How far the history is proven. All zero: nothing was read yet. Copied freely.
 */
struct verify_chain {
    char epoch[EPOCH_SIZE + 1]; /* "": nothing was read yet */
    uint64_t after;             /* what was read first begins after this one */
    uint64_t last;              /* up to which it is proven */
    struct digest digest;       /* d(last) */
    int64_t from_us;            /* T(after) */
    int64_t last_us;            /* T(last) */
    bool is_open;               /* the last list that was read is not closed */
    char next[VERIFY_HREF_MAX + 1]; /* and says that this comes next, or "" */
    char name[256]; /* its own name: the last segment of its path, no ".gz" */
};

bool verify_is_url(const char *where); /* no path of a file */

/* The last segment of a path or URL, without query and ".gz". */
struct slice verify_name(const char *where);

struct verify_list;

/* Begins with the list at `where` (URL or file), after what is proven; both are
 * copied. NULL: no memory. */
struct verify_list *verify_list_new(const struct verify_chain *chain,
                                    const char *where);
void verify_list_free(struct verify_list *list); /* NULL is allowed */

/* What was told elsewhere, too: d(seq), if the list has that entry. `where`
 * says where; lent. */
void verify_list_expect(struct verify_list *list, uint64_t seq,
                        const struct digest *digest, const char *where);

/* STATUS_INVALID, STATUS_MALFORMED: it breaks, `why` says what was expected and
 * what is there, and in which line; STATUS_MEMORY. Nothing is read after it. */
MUST_CHECK enum status verify_list_feed(struct verify_list *list,
                                        struct slice bytes,
                                        struct problem *why);

/* That was all of it: `*chain` becomes what is proven now. */
MUST_CHECK enum status verify_list_end(struct verify_list *list,
                                       struct verify_chain *chain,
                                       struct problem *why);

/* The seq up to which the entries were in order; one of them altered: up to
 * which that is proven. */
uint64_t verify_list_reached(const struct verify_list *list);

/* What its root says, fit or not; NULL: it has not arrived, or cannot be read.
 */
const struct verify_head *verify_list_head(const struct verify_list *list);

#endif
