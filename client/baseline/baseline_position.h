/*
 * baseline_position.h - the place of a baseline, derived from its documents as
 * baseline.h says.
 */
#ifndef CLIENT_BASELINE_BASELINE_POSITION_H
#define CLIENT_BASELINE_BASELINE_POSITION_H

#include "client/source/document.h"
#include "client/source/source_position.h"

struct baseline_place {
    bool has_seq;        /* some document has one */
    bool is_seq_open;    /* a list has none, or they are of several logs */
    struct position seq; /* the oldest */
    int64_t time_us;     /* the oldest `at`; or DATETIME_NONE */
    bool is_time_open;   /* a list has none, nor a document above it */
    int64_t lastmod_us;  /* the newest; or DATETIME_NONE */
    int64_t
        made_us; /* the oldest answer (document_stream.h); or DATETIME_NONE */
    int64_t began_us; /* by our own clock */
};

void baseline_place_init(struct baseline_place *place);

/* An `at` of a part, or DATETIME_NONE. */
void baseline_place_time(struct baseline_place *place, int64_t at_us);

/* Adds the head of a complete document. `has_resources`: it is no index.
 * `has_time`, `has_seq`: a document above it has one. */
void baseline_place_head(struct baseline_place *place,
                         const struct document_head *head, bool has_resources,
                         bool has_time, bool has_seq);

void baseline_place_entry(struct baseline_place *place, int64_t lastmod_us);
void baseline_place_made(struct baseline_place *place, int64_t made_us);

struct source_position baseline_place_of(const struct baseline_place *place);

/* Returns a later place, which is likely but not proven. False: none. */
bool baseline_place_guess(const struct baseline_place *place,
                          struct source_position *guess);

#endif
