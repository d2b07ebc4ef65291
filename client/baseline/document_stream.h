/*
 * document_stream.h - reads one document of a source, an entry at a time, as
 * fast as the caller takes them.
 *
 *     document_stream_start --> on_link, on_entry ... --> on_end
 *          |                                           nothing after it
 *          +----------> document_stream_free    at any moment; not from on_link
 *
 * The memory in use is bounded, however long the document is: the server waits
 * while the caller does not take entries. The reading tries once.
 *
 * A document whose digest is known is first fetched into a temporary file:
 *
 *     bytes --> digest --+--> as known: is_same, nothing is parsed
 *                 |      +--> another: parsed from the file
 *                 +-- temporary file
 */
#pragma once

#include "client/lib/client.h"
#include "client/source/document.h"
#include "client/survey/survey.h"
#include "proto/input/page_links.h"

struct document_stream;

/* The result, lent until on_end returns. */
struct document_stream_end {
    const struct document_head *head; /* or NULL */
    int64_t made_us; /* the latest time at which the document was made: the
                        server's Last-Modified, else its clock at the answer; or
                        DATETIME_NONE */
    struct survey_version version; /* its validators and digest */
    bool is_same; /* 304, or the bytes of the known version: nothing was read */
};

/* Static. */
struct document_stream_calls {
    /* A link of the root; comes before the entries if the document has that
     * order. */
    pagelink_fn *on_link;
    void (*on_entry)(const struct document_entry *entry,
                     const struct document_head *head, void *user);

    /* STATUS_OK: the document was read to its end, or is_same. STATUS_REFUSED,
     * STATUS_GONE, STATUS_UNREACHABLE by the server's status;
     * STATUS_MALFORMED: it is unreadable; STATUS_MEMORY. */
    void (*on_end)(const struct problem *why,
                   const struct document_stream_end *end, void *user);
};

/* `url` must stay until the end. `known`: a version that need not be read again;
 * NULL or empty: none. NULL: no memory. The reading frees itself after on_end. */
struct document_stream *
document_stream_start(struct td_client *client, const char *url,
                      const struct survey_version *known,
                      const struct document_stream_calls *calls, void *user);
void document_stream_hold(struct document_stream *reading, bool is_held);
void document_stream_free(
    struct document_stream *reading); /* NULL is allowed; not after on_end
                                       */
