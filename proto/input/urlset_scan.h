/*
 * urlset_scan.h - reads the usual form of an entry in XML in one pass.
 *
 *   <url><loc>http://example.com/a?b&amp;c</loc><lastmod>2026-04-01</lastmod>
 *     <rs:md change="updated" length="3"/><rs:ln rel="up" href="..."/></url>
 *
 * Elements in any order, each once, links as often as an entry may have them;
 * the prefixes rs and td, the sitemap's namespace without one; values in
 * quotes, and no attribute of another namespace. Any other entry is left,
 * unread, to libxml2.
 *
 * Measured: tests/bench/README.md, "Reading a post".
 */
#pragma once

#include "proto/resourcesync/entry_builder.h"
#include "proto/resourcesync/xml.h"

/* Reads the entry at the beginning of `text`, at most SCAN_TOKEN_MAX bytes,
 * into `entry`, without the checks of change_check; it lends from `text` and
 * from `room`, which gets the values that have entities. TOKEN_TAKEN: it has
 * `*size` bytes and `*n_lines` line feeds. Otherwise `entry` is undefined. */
enum token urlset_scan_entry(char room[SCAN_TOKEN_MAX], struct slice text,
                             struct entry *entry, struct xml_known known,
                             size_t *size, uint64_t *n_lines);
