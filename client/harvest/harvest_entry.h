/*
 * harvest_entry.h - turns an entry of a source into an entry for a broker.
 *
 *     {"loc":"http://a.example/1","change":"updated","datetime":"...",
 *      "hash":{...},"length":3,
 *      "links":[{"rel":"collection","href":"..."}],"seq":7}
 *
 *     {"loc":"http://a.example/1","change":"updated",
 *      "links":[{"rel":"via","href":"http://a.example/1",
 *                "hash":{...},"length":3}],
 *      "attributes":[{"ns":"urn:tidings:relay:1","name":"path",
 *                     "value":"0123456789abcdef"}]}
 *
 * Leaves out: seq, and the times of the source's log (the target has its own:
 * R-251); links to documents that the entry belongs to there; of a
 * deletion, members that describe a representation, which brokers refuse. Adds:
 * `via`, unless there is one; and to the path, the epoch of the
 * source's log, if it has one. The path shows loops: no entry returns to a log
 * that it has been in.
 *
 * Of a copy it leaves out more: hash and length, which the broker adds again;
 * links to mirrors, versions and patches of the original.
 *
 * Text to text: all other members stay as they stand.
 */
#pragma once

#include "client/harvest/harvest_db.h"

struct harvest_rules {
    const char *source;  /* epoch; "": the source has none */
    const char *target;  /* epoch; "": still unknown */
    bool keeps_links;    /* also collection and canonical */
    const char *change;  /* instead of the entry's own; NULL: as it stands */
    struct slice copy;   /* loc of a copy (copy.h), which says nothing that is
                            true of its original alone; empty: it is none */
    uint64_t *n_dropped; /* counts its links that were left out */
};

enum harvest_verdict {
    HARVEST_WRITTEN,
    HARVEST_RING, /* it was in the target's log; nothing was written */
    HARVEST_ODD   /* not an entry as brokers write them */
};

/* Writes `before` and the entry, a JSON object, which need not be terminated;
 * or nothing. */
enum harvest_verdict harvest_entry(struct buf *to, const char *before,
                                   struct slice entry,
                                   const struct harvest_rules *rules);

/* True if two entries are the same change, with the same path. `of` came out of
 * harvest_entry, `text` is the target's. */
bool harvest_is_same(struct slice of, struct slice text);

/*
 * Searches the target for a post: for all its entries, one behind the other.
 *
 *     post_search_init(search, post)
 *     for each entry of the target, from the first possible one on
 *         if (post_search_next(search, text))
 *             the target has it, and this is its last entry
 *     post_search_fini(search)
 */

/* As in Knuth, Morris and Pratt: several entries may begin alike. */
struct post_search {
    struct slice *entries;
    size_t *back; /* [i]: length of the longest start that also ends at i */
    size_t n;
    size_t n_found; /* entries of the post that the target ends with */
};

/* The body of `post` is lent until the end. False: no memory, or a post without
 * entries. Call post_search_fini in any case. */
bool post_search_init(struct post_search *search,
                      const struct harvest_post *post);
void post_search_fini(struct post_search *search);

/* Takes the target's next entry; size 0: one without text. True: this one ends
 * the post; call it no more then. */
bool post_search_next(struct post_search *search, struct slice text);
