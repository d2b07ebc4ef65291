/*
 * reading.h - one document of a source, an entry at a time, as fast as whoever
 * asked for it takes them.
 *
 *     reading_start --> on_link, on_entry ... --> on_end     nothing after it
 *          +----------> reading_free     at any moment; not from on_link
 *
 * However long the document is, what waits in memory is bounded: the server
 * waits while nobody takes. Nothing is tried twice.
 */
#ifndef CLIENT_BASELINE_READING_H
#define CLIENT_BASELINE_READING_H

#include "client/lib/client.h"
#include "client/lib/failure.h"
#include "client/source/document.h"

struct reading;

/* Of the root; before the entries of a document that keeps the order. */
typedef void reading_link_fn(struct slice rel, struct slice href, void *user);

typedef void reading_entry_fn(const struct document_entry *entry,
                              const struct document_head *head, void *user);

/* TD_OK: it was read to its end. TD_REFUSED, TD_GONE, TD_UNREACHABLE by the
 * server's status; TD_BROKEN: it cannot be read; TD_MEMORY. `made_us`: when the
 * document was made at the latest, by the server's Last-Modified, else by its
 * clock when it answered; or DATETIME_NONE. `head` may be NULL. */
typedef void reading_end_fn(const struct failure *why,
                            const struct document_head *head, int64_t made_us,
                            void *user);

struct reading_calls {
    reading_link_fn *on_link;
    reading_entry_fn *on_entry;
    reading_end_fn *on_end;
};

/* NULL: no memory. It frees itself after on_end. */
struct reading *reading_start(struct td_client *client, const char *url,
                              const struct reading_calls *calls, void *user);
void reading_pause(struct reading *reading);
void reading_resume(struct reading *reading);
void reading_free(struct reading *reading); /* NULL is allowed; not after on_end
                                             */

#endif
