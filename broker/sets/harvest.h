/*
 * harvest.h - the report of a harvester: how a set stands to the source that
 * `tidings harvest` keeps it equal to.
 *
 *     {"source":"https://example.org/sitemap.xml","kind":"sitemap",
 *      "complete_as_of":"2026-04-01T18:10:00.000000Z","not_complete":null,
 *      "last_look":"2026-04-01T18:10:00.000000Z","added":3,"changed":1,
 *      "deleted":0,"held_back":0,"left_out":1,"left_out_example":"line 7: ...",
 *      "mended":2,"every_s":3600,"accept_deletions":0}
 *
 * The harvester puts one after each look at its source. The log keeps the last
 * one with the set (ACT_HARVEST), so that it survives both programs. It is no
 * setting: it changes no document of the set, and nobody is notified of it.
 *
 * "accept_deletions" is a person's consent: the harvester deletes what it holds
 * back if it is no more than that. The consent stays with the reports after it
 * until one holds nothing back.
 *
 * A struct harvest never changes. Any thread.
 */
#pragma once

#include "base/relaxed.h"
#include "proto/resourcesync/json.h"

/* The largest report, in bytes. */
#define HARVEST_BYTES_MAX 8192

/* No program counts further: JavaScript reads larger numbers wrongly. */
#define HARVEST_COUNT_MAX ((UINT64_C(1) << 53) - 1)

/* The longest `text` of one. */
#define HARVEST_TEXT_MAX (JSON_CHAR_MAX * HARVEST_BYTES_MAX)

struct harvest {
    atomic_uint n_owners;
    int64_t complete_as_of_us; /* DATETIME_NONE: it never was */
    int64_t last_look_us;
    uint64_t held_back, left_out, accept_deletions;
    struct slice text; /* the report as a JSON object, behind this struct */
};

/* Reads a report. All members but the source, its kind and the time of the last
 * look may be missing. STATUS_MALFORMED: no JSON object; STATUS_INVALID: `why`
 * names the member. *harvest is the caller's reference. */
MUST_CHECK enum status harvest_read(struct harvest **harvest, struct slice text,
                                    struct problem *why);

/* The same report with a consent to `n` deletions. */
struct harvest *harvest_with_consent(const struct harvest *harvest, uint64_t n);

/* As GET shows it, and as PUT takes it. */
extern const struct json_shape harvest_shape, harvest_report_shape;

/* Another reference; NULL is allowed. */
struct harvest *harvest_ref(struct harvest *harvest);
void harvest_unref(struct harvest *harvest); /* NULL is allowed */
