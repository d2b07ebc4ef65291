/*
 * harvest_report.h - what the broker is told of a harvest: one small document
 * of the set, PUT SET/harvest, which outlives the harvester.
 *
 *     {"source":"https://example.org/sitemap.xml","kind":"sitemap",
 *      "complete_as_of":"2026-04-01T18:10:00Z","not_complete":null,
 *      "last_look":"2026-04-01T18:10:00Z","added":3,"changed":1,"deleted":0,
 *      "held_back":0,"left_out":1,"left_out_example":"...","mended":2,
 *      "every_s":3600}
 *
 * Several sources are one report: the numbers are sums, and it is complete as
 * of the oldest of their times.
 */
#ifndef CLIENT_HARVEST_HARVEST_REPORT_H
#define CLIENT_HARVEST_HARVEST_REPORT_H

#include <stddef.h>
#include <stdint.h>

#include "client/harvest/harvest_target.h"

struct harvest_look;

struct harvest_report {
    const char *source;
    unsigned every_s;
    struct harvest_reported *looks; /* the last one of each part */
    size_t n_looks;
    char *sent; /* without times; NULL: nothing */
    int64_t sent_ms;
};

void harvest_report_init(struct harvest_report *report, const char *source,
                         unsigned every_s);

/* Takes the last look at a part. */
void harvest_report_look(struct harvest_report *report, int64_t part,
                         const struct harvest_look *look);

/* Puts the report, unless nothing but the times has changed within a minute.
 * False: td_stop. */
bool harvest_report_put(struct harvest_report *report,
                        struct harvest_target *target);

void harvest_report_fini(struct harvest_report *report);

#endif
