/*
 * change.h - the model of a change entry: a resource and its event.
 *
 * A change lends everything it points at; readers hand it to a callback and
 * take it back when that returns.
 */
#pragma once

#include "proto/datetime.h"
#include "proto/resourcesync/digest.h"
#include "proto/resourcesync/traceparent.h"
#include "proto/resourcesync/vocab.h"

/* Most links of an entry; most foreign attributes of it and its links together;
 * and the longest name of a namespace, in bytes, which the JSON form repeats
 * with each attribute: so no form of an entry is much larger than its fragment
 * may be. */
#define CHANGE_LINKS_MAX      256
#define CHANGE_ATTRIBUTES_MAX 64
#define CHANGE_NS_MAX         1024

/* Longest tag, in bytes (design section 4). */
#define TAG_MAX 128

/* Longest words of an event, in bytes; and how deep objects and arrays nest in
 * its data: a message in JSON has three levels around them, and readers take
 * JSON_DEPTH_MAX. */
#define CHANGE_TITLE_MAX      500
#define CHANGE_SUMMARY_MAX    4096
#define CHANGE_AUTHOR_MAX     500
#define CHANGE_DATA_MAX       65536
#define CHANGE_DATA_DEPTH_MAX 12

/* These words, in the order in which a fragment has them. */
enum {
    WORD_TITLE,
    WORD_SUMMARY,
    WORD_AUTHOR,
    WORD_DATA, /* compact JSON (data_read.h) */
    CHANGE_WORDS
};

extern const struct change_word {
    const char *name;
    size_t max; /* bytes */
} change_word_rows[CHANGE_WORDS];

/* An attribute of a namespace that is neither ours nor ResourceSync's. */
struct attribute {
    struct slice ns;
    struct slice prefix; /* a wish: kept where it is free; may be empty */
    struct slice name;
    struct slice value;
};

/* rs:ln */
struct link {
    struct slice rel;
    struct slice href;
    struct slice hash; /* normalised list; empty if none */
    struct slice type;
    struct slice encoding;
    int64_t modified_us;  /* or DATETIME_NONE */
    uint64_t length;      /* or LENGTH_NONE */
    uint32_t pri;         /* 1 to 999999; 0: none */
    struct slice path;    /* of a manifest; only document_read.h reads
                             it, and the digest */
    struct digest digest; /* td:digest, of a link "prev" */
    bool has_digest;
    const struct attribute *attributes;
    size_t n_attributes;
};

/* A <url> with its rs:md and rs:ln. */
struct change {
    struct slice loc;
    enum change_kind kind;
    int64_t datetime_us;  /* the event's time as the source gave it, or
                             DATETIME_NONE; in our own documents the event
                             time */
    int64_t source_us;    /* td:datetime: what the source had given, where the
                             event time differs; else DATETIME_NONE */
    uint64_t seq;         /* td:seq in our own documents; 0: none */
    int64_t lastmod_us;   /* the resource's own, or DATETIME_NONE */
    bool is_lastmod_date; /* the source gave a date, and no time of day */
    struct slice changefreq;
    struct slice priority;
    struct slice hash; /* normalised list; empty if none */
    uint64_t length;   /* or LENGTH_NONE */
    struct slice type;
    struct slice encoding;
    struct slice tags;       /* td:tags, single spaces between */
    struct slice capability; /* of the document that changed, in framework
                                notifications; else empty. Only
                                fragment_read reads it */
    const struct attribute *attributes;
    size_t n_attributes;
    const struct link *links;
    size_t n_links;

    union { /* td:title ...: of the event, not of the resource */

        struct {
            struct slice title, summary, author, data;
        };
        struct slice words[CHANGE_WORDS];
    };
    struct slice traceparent; /* td:traceparent, likewise; as it was given: it
                                 counts if it is valid (traceparent.h) */
};

/* Receives one change after the other; `user` is whatever the reader was given.
 * A return other than 0 ends the reading with that status. */
typedef enum status change_fn(const struct change *change, void *user,
                              struct problem *why);

/* A change with nothing in it: all "none". */
void change_init(struct change *change);

/* Its lastmod: a date where the source gave one, else the shortest complete
 * form in UTC; "": it has none. */
struct datetime_text change_lastmod(const struct change *change);

/* Checks a posted change, whatever its format: loc, links (R-010,
 * ), media types, changefreq, priority, tags
 * of 1 to TAG_MAX bytes, words. A deleted entry has no representation: no hash,
 * length, type or encoding. Hashes are already normalised.
 * STATUS_INVALID with a sentence that names the member. */
MUST_CHECK enum status change_check(const struct change *change,
                                    struct problem *why);

/* The name of the first member that is of the event, and of no resource: title,
 * summary, author, data or traceparent. NULL: it has none of them. */
const char *change_words(const struct change *change);

/* Checks a word of an event: its size, and that XML can carry it.
 * STATUS_INVALID */
MUST_CHECK enum status change_check_words(size_t word, struct slice words,
                                          struct problem *why);

/* Checks the relation and the target of a link alone. `what`
 * names the link in the problem. STATUS_INVALID */
MUST_CHECK enum status change_check_target(const struct link *link,
                                           const char *what,
                                           struct problem *why);
