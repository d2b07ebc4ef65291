/*
 * document.h - a document, and the request for it; documents that are made
 * while they are read; the lines of a document.
 *
 *     document_wish --document_open_fn--> document --> body, read by pieces
 */
#pragma once

#include "broker/base/effort.h"
#include "broker/log/log.h"
#include "broker/net/body.h"
#include "broker/sets/links.h"
#include "broker/sets/registry.h"
#include "proto/resourcesync/digest.h"
#include "proto/resourcesync/document_write.h"

/* The version of Tidings that first gave documents their present bytes. It is
 * in their ETags, so that these stay over an upgrade. A change of bytes raises
 * it.
 */
#define DOCUMENT_SINCE "0.1.0"

/* The form of a document. All of XML have pages, too (html_document.h). */
enum document_form {
    DOCUMENT_XML,
    DOCUMENT_PLAIN, /* a Sitemap without ResourceSync's elements */
    DOCUMENT_HTML,  /* a page for people */
    DOCUMENT_JSON   /* of past_resources_open */
};

/* The documents that memento_document.c makes of the versions of a resource. */
enum memento_form {
    MEMENTO_LINKS,
    MEMENTO_JSON,
    MEMENTO_GATE,
    MEMENTO_PRESENT /* the bytes of now, at the loc of the resource itself */
};

/* A request for a document. */
struct document_wish {
    struct registry *registry;
    const struct principal *principal; /* a document of the whole Source names
                                          only the sets that it sees */
    struct set *set;  /* NULL for documents of the whole Source */
    struct head head; /* the set's head at one moment: the document is of that
                         moment */
    enum generation_kind kind; /* for documents that are built in generations */
    uint64_t number; /* of a Change List, generation or set; or the first of
                        several */
    uint64_t last;   /* the last of several; the part of a generation */
    enum document_form form;
    uint64_t page;  /* of DOCUMENT_HTML, and of a past state, from 1 on */
    unsigned depth; /* likewise: html_depth of the request's path */
    enum log_patience patience;
    const struct web_file *file; /* for web_file_open */
    enum memento_form memento;   /* for timemap_open */
    struct slice rest;    /* of the path: a digest; or a URI, with its query */
    bool names_epoch;     /* the address has the epoch of `head` */
    enum link_kind topic; /* for notifications_open */
    int64_t at_us; /* of a past state; Accept-Datetime; DATETIME_NONE: none */
    struct identity_provider *provider; /* for landing_open */
    struct effort *effort; /* what the request costs; lent; NULL: not counted */
};

/* A document that was opened. Its receiver reads its bodies, or closes them
 * unread. They cost next to nothing before the first piece is requested. */
struct document {
    struct body *body; /* uncompressed; NULL: `lasting` has the document */
    struct body *gzip; /* compressed; NULL: none */

    /* Two documents of one address with the same tag have the same bytes,
     * whichever process made them. The tag says nothing about the bytes of
     * `gzip`. */
    struct digest tag;

    /* A whole second since which the document is final; every copy of an
     * earlier state is older. DATETIME_NONE: not known, or it still changes.
     * (The time of an event does not serve: a source may set it, and a list
     * changes once more when it closes.) */
    int64_t modified_us;
    int64_t as_of_s;    /* of a checkpoint: its time; 0: none */
    bool is_final;      /* it never changes again */
    bool may_be_packed; /* it has a gzip, or will have one */
    bool is_private;    /* it names a private set */

    /* The address where the document stays, where another one will follow at
     * the requested address; else "". */
    char lasting[LINK_URL_MAX];

    struct buf links; /* for the Link header, beside that to the Capability
                         List of its set; empty: none */
    struct buf type;  /* its media type, terminated; empty: that of the row */
    char memento[HTTPDATE_SIZE]; /* its time; "": it is no memento (RFC 7089) */
};

/* Frees the bodies that nobody reads. */
void document_close(struct document *document);

/* Makes a document of the bytes in `text`, with their digest as its tag. After
 * a failure to write them (`rc` is not STATUS_OK) it makes none, and returns
 * `rc`. Frees `text` in any case. */
MUST_CHECK enum status document_of_text(struct document *document,
                                        struct buf *text, enum status rc,
                                        struct problem *why);

/* Writes the head of a document of a set, with the link `up` and one to `href`
 * of relation `rel` (NULL: none). `state`: of which it is, at `until_us`; NULL:
 * of none. */
void document_begin(struct buf *text, const struct document_wish *wish,
                    enum document_root root, enum capability capability,
                    int64_t from_us, const char *rel, struct link_text href,
                    const struct coverage *state);

/* Opens a document, which the caller then owns. A quick one (documents.h) may
 * return STATUS_AGAIN: call again with LOG_DISK; STATUS_NOT_FOUND. */
typedef enum status document_open_fn(const struct document_wish *wish,
                                     struct document *document,
                                     struct problem *why);

/* Documents that are made while they are read, some entries at a time: a slow
 * reader keeps one piece in memory, not a document of megabytes. The size is
 * still known at the start, because the size of every entry is. */

/* Entries of one piece. */
#define PIECES_STEP 256

/* The first member of a struct that makes the next pieces. */
struct pieces {
    struct body body; /* handed out */
    struct buf text;  /* the present piece; at the start, the header */
    enum document_root root;
    bool is_begun;
    bool is_ended; /* the footer was written */

    /* Appends the next entries to the empty `text`; appends nothing at the end.
     * May block if `blocks`. */
    enum status (*fill)(struct pieces *pieces);
    void (*free)(struct pieces *pieces); /* frees the resources of the
                                            containing struct; or NULL */
    bool blocks;
};

/* Prepares body and text of an allocated struct. Then the caller writes the
 * header to `text`, and the size of the whole document to body.size. */
void pieces_init(struct pieces *pieces, enum document_root root,
                 enum status (*fill)(struct pieces *pieces),
                 void (*free)(struct pieces *pieces), bool blocks);

/* The lines of a document's body: an entry is a line, and so is each element of
 * the header (proto/resourcesync/fragment.h,
 * proto/resourcesync/document_write.h). For workers: reading may block. */

struct lines {
    struct body *body;  /* lent; NULL: the piece is all */
    struct slice piece; /* the unread rest of it */
    struct buf line;    /* a line that spans several pieces; the caller ends
                           it (buf_fini) */
};

void lines_init(struct lines *lines, struct body *body);

/* Returns the next line with its end, lent until the next call.
 * STATUS_NOT_FOUND: none. STATUS_IO: the body cannot be read, or ends within a
 * line. */
MUST_CHECK enum status lines_next(struct lines *lines, struct slice *line);

/* The text between `before` and `after` in a line; empty if there is none. */
struct slice lines_between(struct slice line, const char *before,
                           const char *after);
