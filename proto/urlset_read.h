/*
 * urlset_read.h - reads a <urlset>: its header, then one change after the
 * other.
 *
 *   <urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="...">
 *     <rs:ln rel="up" href="..."/>
 *     <rs:md capability="change-notification" from="..." until="..."/>
 *     <url><loc>...</loc><rs:md change="created" .../></url>
 *   </urlset>
 *
 * Strict where ResourceSync speaks (its names, their places, their number),
 * deaf to what is foreign: elements of other namespaces are skipped whole.
 */
#ifndef PROTO_URLSET_READ_H
#define PROTO_URLSET_READ_H

#include "proto/input_reader.h"

extern const struct parser urlset_parser;

#endif
