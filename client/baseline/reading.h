/*
 * reading.h - reads one document of a source, an entry at a time, as fast as
 * the caller takes them.
 *
 *     reading_start --> on_link, on_entry ... --> on_end     nothing after it
 *          +----------> reading_free     at any moment; not from on_link
 *
 * The memory in use is bounded, however long the document is: the server waits
 * while the caller does not take entries. The reading tries once.
 */
#ifndef CLIENT_BASELINE_READING_H
#define CLIENT_BASELINE_READING_H

#include "client/lib/client.h"
#include "client/listing/listing.h"
#include "client/source/document.h"
#include "proto/problem.h"

struct reading;

/* A link of the root; comes before the entries if the document has that order.
 */
typedef void reading_link_fn(struct slice rel, struct slice href, void *user);

typedef void reading_entry_fn(const struct document_entry *entry,
                              const struct document_head *head, void *user);

/* The result, lent until on_end returns. */
struct reading_end {
    const struct document_head *head; /* or NULL */
    int64_t made_us; /* the latest time at which the document was made: the
                        server's Last-Modified, else its clock at the answer; or
                        DATETIME_NONE */
    struct listing_version version; /* its validators */
    bool is_same; /* 304: the known version still holds; nothing was read */
};

/* STATUS_OK: the document was read to its end, or is_same. STATUS_REFUSED,
 * STATUS_GONE, STATUS_UNREACHABLE by the server's status; STATUS_MALFORMED: it
 * is unreadable; STATUS_MEMORY. */
typedef void reading_end_fn(const struct problem *why,
                            const struct reading_end *end, void *user);

struct reading_calls {
    reading_link_fn *on_link;
    reading_entry_fn *on_entry;
    reading_end_fn *on_end;
};

/* `known`: a version that need not be read again; NULL or empty: none. NULL: no
 * memory. The reading frees itself after on_end. */
struct reading *reading_start(struct td_client *client, const char *url,
                              const struct listing_version *known,
                              const struct reading_calls *calls, void *user);
void reading_pause(struct reading *reading);
void reading_resume(struct reading *reading);
void reading_free(struct reading *reading); /* NULL is allowed; not after on_end
                                             */

#endif
