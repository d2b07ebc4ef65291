/*
 * list_read.h - THE reader of XML lists: what is posted and what is fetched.
 *
 *     xml.h --> places --> elements --> members --> change
 *                  (tables: what may stand where)     |
 *          strict:  change_check --> on_change of input_reader.h
 *          lenient: report, URLs --> on_entry of document_read.h
 *
 * One machine with two policies. Strict, for posts and messages: a name that
 * ResourceSync does not have there, or a bad value, ends the reading with a
 * sentence. Lenient, for lists of others: a value is rewritten as the strict
 * policy wants it, and counted as mended, or left out. Foreign elements are
 * skipped by both. Both convert values in entry_builder.h.
 *
 * Only list_read.c and document_read.c see this.
 */
#pragma once

#include "proto/input/document_read.h"
#include "proto/input/input_reader.h"
#include "proto/input/text_encoding.h"
#include "proto/input/urlset_scan.h"
#include "proto/resourcesync/xml.h"

/* A loc of 2,048 characters, in bytes, with white space around it. */
#define LIST_TEXT_MAX 16384

#define LIST_WORDS_MAX 64

/* What a namespace is to the reader. */
enum list_space {
    SPACE_NONE,
    SPACE_SITEMAP,
    SPACE_RS,
    SPACE_TIDINGS,
    SPACE_ATOM,
    SPACE_RSS, /* 1.0 */
    SPACE_RDF,
    SPACE_DUBLIN_CORE,
    SPACE_DRAFT, /* of ResourceSync in 2012 */
    SPACE_FOREIGN
};

/*
 * Where the parser stands:
 *
 *   NOWHERE --> ROOT --> ENTRY --> TEXT     <loc> and the like: text alone
 *                |         +-----> EMPTY    <rs:md>, <rs:ln> of an entry
 *                +---------------> EMPTY    those of the document
 *
 * and from any place into skipped elements, whose depth is `n_passed`. The
 * channel of a feed is passed through: its children are those of the root.
 */
enum list_place {
    PLACE_NOWHERE,
    PLACE_ROOT,
    PLACE_ENTRY,
    PLACE_TEXT,
    PLACE_EMPTY
};

struct list_element;

struct list_reader {
    struct input_reader *input; /* strict: of the post; NULL: lenient */
    struct xml *xml;
    const char *words[LIST_WORDS_MAX];
    xml_name names[LIST_WORDS_MAX];
    xml_name last_ns; /* the last namespace that was looked up ... */
    enum list_space last_space;

    enum list_place place, outside; /* outside of EMPTY */
    unsigned n_passed;
    bool has_md;                        /* the root's */
    uint64_t seen;                      /* members of the entry */
    const struct list_element *text_of; /* the element of `text` */
    struct buf text;                    /* of an element, or a line */
    struct entry *entry;

    /* Strict */
    unsigned depth;               /* elements that are open */
    bool is_faulty;               /* the rest of the entry is skipped */
    char scanned[SCAN_TOKEN_MAX]; /* texts of the scanned entry */

    /* Lenient */
    struct document_events events;
    void *user;
    enum status fn_rc; /* the failure of a callback */
    struct document_head head;
    const struct list_element *root; /* NULL: none yet */
    xml_name root_ns;
    char *base;
    char *outer_base;   /* the base outside of the entry; NULL: the same */
    bool is_in_channel; /* of RSS, whose links count there alone */
    /* No memory for a part of the entry: the reader skips what it cannot
     * understand, but never such an entry, as a mirror would delete its file.
     */
    bool is_starved;
    bool is_lines; /* no XML: a text */
    struct text_encoding *encoding;
    uint64_t lines;     /* in front of the XML; or the line of the text */
    uint64_t head_seen; /* members of the root */
    struct document_entry row;
    uint64_t row_line;
    char unknown[64];   /* the child of the root that is skipped; "": none */
    uint64_t n_unknown; /* 1: it stands for a row ... */
    uint64_t n_locs;    /* ... or for so many */
    bool is_stray;
    bool is_change_bad;       /* a change of no known kind */
    struct slice bad;         /* the loc or change that cannot be used */
    struct buf url, raw;      /* the value that is rewritten */
    char time[DATETIME_SIZE]; /* likewise */
};

/* Begins with `r` all zero but for its policy. STATUS_MEMORY: list_reader_fini
 * has to be called all the same. */
MUST_CHECK enum status list_reader_init(struct list_reader *r);
void list_reader_fini(struct list_reader *r);

/* Of the lenient policy: the line, in the document as it was sent. */
uint64_t list_reader_line(const struct list_reader *r);

void list_reader_mend(struct list_reader *r, enum list_fault fault,
                      struct slice text);

/* Begins an entry, sets its loc, or notes a text that is none, and hands it
 * over. */
void list_reader_begin_entry(struct list_reader *r);
void list_reader_set_loc(struct list_reader *r, struct slice text);
void list_reader_bad_loc(struct list_reader *r, struct slice text);
MUST_CHECK enum status list_reader_end_entry(struct list_reader *r);
