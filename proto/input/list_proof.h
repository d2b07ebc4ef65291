/*
 * list_proof.h - THE proof of a Change List: as its bytes arrive, each byte has
 * to be as a broker writes it, and the list has to continue a chain.
 *
 *     <?xml ...>             +  head, exactly as document_write.h writes it:
 *     <urlset ...>           |  epoch, after, last, d(last), from, until
 *     <rs:ln .../>           |  up, prev with d(after), next
 *     <rs:md .../>           +
 *     <url>...</url>         each: seq + 1, a later time, plain text,
 *                            d = SHA-256(d || line)
 *     </urlset>              last is reached, and so are d(last) and until
 *
 *     chain  [0 ... 100]     the proven part of the log
 *     list       (100, 200]  begins where the chain ends: epoch, after,
 *                            d(after), from; both name each other by prev and
 *                            next. A new epoch begins with a list that
 *                            names the one before: td:follows
 *     chain  [0 ....... 200]
 *
 * The chain grows by whole lists: a broken list leaves it as it was. Followers,
 * `verify`, `restore` and `check` all prove lists here.
 *
 * STATUS_UNSUPPORTED: no broker writes such a list. STATUS_MALFORMED: the list
 * contradicts itself or the chain. STATUS_DIFFERENT: it contradicts the digest
 * of list_proof_expect. `why` has the line, the expected and the found value.
 * Memory: a head and one entry. One thread at a time.
 */
#pragma once

#include "proto/resourcesync/fragment.h"
#include "proto/resourcesync/position.h"

#define LIST_HREF_MAX 2048

/* The last segment of a path or URL, without ".gz". */
#define LIST_NAME_MAX 255

/* The proven part of a log. All zero: nothing yet. May be copied. */
struct list_chain {
    char epoch[EPOCH_SIZE + 1];   /* of the last list; "": nothing was read */
    uint64_t after;               /* the first list begins after this entry */
    uint64_t last;                /* the last proven entry */
    struct digest digest;         /* d(last) */
    int64_t from_us;              /* T(after) */
    int64_t last_us;              /* T(last) */
    bool is_open;                 /* the last list is not closed */
    char next[LIST_HREF_MAX + 1]; /* the link next of the last list, or "" */
    char name[LIST_NAME_MAX + 1]; /* its own name, or "" */
};

/* Adds the entry that `text` begins with, and describes it in `*view`.
 * STATUS_UNSUPPORTED, STATUS_MALFORMED: the chain stays as it was. */
MUST_CHECK enum status list_chain_add(struct list_chain *chain,
                                      struct slice text,
                                      struct fragment_view *view,
                                      struct problem *why);

/* What a list says of itself. */
struct list_head {
    struct slice text;      /* the bytes before the first entry */
    struct coverage covers; /* with digest; until_us DATETIME_NONE: open */
    char up[LIST_HREF_MAX + 1], prev[LIST_HREF_MAX + 1],
        next[LIST_HREF_MAX + 1]; /* or "" */
    bool has_before;
    struct digest before; /* d(after), of the link prev */
};

/* A proven entry; but the end of the list may still fail. */
struct list_entry {
    struct slice text; /* one line */
    uint64_t at;       /* its first byte in the list */
    const struct fragment_view *view;
    const struct digest *digest; /* d(seq) */
};

/* Each returns 0 to go on; another status ends the proof with it. NULL is
 * allowed. The proof lends the entry until the function returns, and the head
 * until list_proof_free. */
struct list_proof_events {
    enum status (*on_head)(const struct list_head *head, void *user,
                           struct problem *why);
    enum status (*on_entry)(const struct list_entry *entry, void *user,
                            struct problem *why);
};

struct list_proof;

/* Begins with the list at `where` (URL or file) behind the chain; copies both.
 * Links are compared if the names of the documents are those of brokers. NULL:
 * no memory. */
struct list_proof *list_proof_new(const struct list_chain *chain,
                                  const char *where,
                                  const struct list_proof_events *events,
                                  void *user);
void list_proof_free(struct list_proof *proof); /* NULL is allowed */

/* Sets d(seq) as `who` (lent) has it: if the list begins behind that entry, or
 * has it, the digests must agree. */
void list_proof_expect(struct list_proof *proof, uint64_t seq,
                       const struct digest *digest, const char *who);

/* After a failure nothing more is read. */
MUST_CHECK enum status list_proof_feed(struct list_proof *proof,
                                       struct slice bytes, struct problem *why);

/* Ends the list: `*chain` becomes the chain with it. */
MUST_CHECK enum status list_proof_end(struct list_proof *proof,
                                      struct list_chain *chain,
                                      struct problem *why);

/* The last entry that was in order; if an entry was altered: the last proven
 * entry. */
uint64_t list_proof_reached(const struct list_proof *proof);

/* The head of a Change List, whether or not it continues the chain; NULL: it
 * has not arrived, or is none. */
const struct list_head *list_proof_head(const struct list_proof *proof);

/* True if the document is an index, or has another capability. */
bool list_proof_is_another(const struct list_proof *proof);

/* The last segment of a path or URL, without query and ".gz". */
struct slice list_name(const char *where);

/* True for a name like "000000000001.xml", which the broker gives. A copy may
 * have another one. */
bool list_name_is_numbered(struct slice name);
