/*
 * harvest.h - the report of a harvester: how a set stands to the source that
 * `tidings harvest` keeps it equal to.
 *
 *     {"source":"https://example.org/sitemap.xml","kind":"sitemap",
 *      "complete_as_of":"2026-04-01T18:10:00.000000Z","not_complete":null,
 *      "last_look":"2026-04-01T18:10:00.000000Z","added":3,"changed":1,
 *      "deleted":0,"held_back":0,"left_out":1,"left_out_example":"line 7: ...",
 *      "mended":2,"every_s":3600}
 *
 * The harvester puts one after each look at its source. The log keeps the last
 * one with the set (ACT_HARVEST), so that it survives both programs. It is no
 * setting: it changes no document of the set, and nobody is notified of it.
 *
 * A struct harvest never changes. Any thread.
 */
#pragma once

#include "base/relaxed.h"
#include "proto/resourcesync/json.h"

/* The largest report, in bytes. */
#define HARVEST_BYTES_MAX 8192

/* The longest `text` of one. */
#define HARVEST_TEXT_MAX (JSON_CHAR_MAX * HARVEST_BYTES_MAX)

struct harvest {
    atomic_uint n_owners;
    int64_t complete_as_of_us; /* DATETIME_NONE: it never was */
    int64_t last_look_us;
    uint64_t held_back, left_out;
    struct slice text; /* the report as a JSON object, behind this struct */
};

/* Reads a report. All members but the source, its kind and the time of the last
 * look may be missing. STATUS_MALFORMED: no JSON object; STATUS_INVALID: `why`
 * names the member. *harvest is the caller's reference. */
MUST_CHECK enum status harvest_read(struct harvest **harvest, struct slice text,
                                    struct problem *why);

/* As GET shows it, and as PUT takes it. */
extern const struct json_shape harvest_shape, harvest_report_shape;

/* Another reference; NULL is allowed. */
struct harvest *harvest_ref(struct harvest *harvest);
void harvest_unref(struct harvest *harvest); /* NULL is allowed */
