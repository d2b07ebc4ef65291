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

#include "client/harvest/harvest_target.h"

/* Adds a look to the sum of all, whose complete_us is INT64_MAX at first. */
void harvest_report_add(struct harvest_look *sum,
                        const struct harvest_look *look);

/* Puts the report, unless nothing but the times has changed within a minute, or
 * the time between two looks, if that is shorter. False: td_stop. */
bool harvest_report_put(struct harvest_target *target,
                        const struct harvest_look *sum);

#endif
