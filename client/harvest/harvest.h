/*
 * harvest.h - keeps a set equal to one source or several.
 *
 *     source --follower--> feed --+
 *     source --follower--> feed --+--> outbox --> state --> the set
 *       (an address may have several sets)
 *
 *     look: what a source sends, up to its end or its next heartbeat
 *
 * Each set of a source is a part of the state. A resource is in the set as long
 * as one part has it. After each look the caller gets its numbers, and the
 * broker a report (PUT SET/harvest).
 *
 * Thread: one; td_stop of the target's handle ends it.
 */
#pragma once

#include "client/harvest/harvest_db.h"
#include "client/tidings.h"

#define HARVEST_SOURCES_MAX 100

struct harvest_source {
    const char *url;          /* as the user gave it */
    struct td_client *client; /* of its own */
    struct td_client *files;  /* likewise, for republishes; else NULL */
};

/* The numbers of a look. */
struct harvest_counts {
    uint64_t added, changed, deleted;
    uint64_t held_back, held_of;
    uint64_t left_out, mended, dropped_links;
    char left_out_text[HARVEST_TEXT_SIZE];
    char mended_text[HARVEST_TEXT_SIZE];
    char records[HARVEST_TEXT_SIZE]; /* of OAI-PMH: "5 held + ..."; "": none */
};

struct harvest_look {
    const char *url;     /* of the source's set */
    const char *kind;    /* "resourcesync", "sitemap", ...; NULL: unknown */
    int64_t complete_us; /* complete as of; 0: never */
    char not_complete[HARVEST_TEXT_SIZE]; /* why; "": it is complete */
    struct harvest_counts counts;
};

struct harvest_options {
    const char *set_url;
    const char *state;        /* a file; made if it does not exist */
    struct td_client *target; /* of the set */
    const struct harvest_source *sources;
    size_t n_sources;    /* up to HARVEST_SOURCES_MAX */
    const char *after;   /* where a new part begins; NULL: at the beginning */
    const char *loc;     /* of records of OAI-PMH (oai.h); NULL: their own */
    unsigned every_ms;   /* between two looks at a source that pushes nothing */
    unsigned compare_ms; /* between two comparisons */
    int max_delete;      /* percent; negative: no limit */
    uint64_t accept_deletions; /* beyond it; 0: none */
    bool is_once;              /* ends when the set equals the sources */
    bool is_dry;               /* posts nothing, and leaves the state alone */
    bool keeps_links;          /* also collection and canonical */
    bool skips_bad;            /* rows that were left out are no failure */
    bool republishes;          /* the set gets copies (copy.h) */
    bool stores_records;       /* the set gets records of OAI-PMH as bytes */
    uint64_t max_record_bytes; /* of these; 0: no limit */
    const char *filter;        /* of resources (part_filter.h); "all"; NULL:
                                  that of the last time */
    void (*say)(const char *text, void *user);
    void (*on_look)(const struct harvest_look *look, void *user);
    /* The harvest calls it with each change that it posts; NULL: nobody asks.
     */
    void (*on_change)(const char *change, struct slice loc, void *user);
    void *user;
};

/* Runs until it ends by itself, or td_stop. Reasons were said. TD_DIFFERENT: the
 * set does not equal the source. TD_INVALID: a mistake of the options. TD_GONE:
 * the source has no history and no list, or was removed. TD_REWOUND: the history
 * of the source, or of the set, went back. */
enum td_status harvest_run(const struct harvest_options *options);
