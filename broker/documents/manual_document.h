/*
 * manual_document.h - the documentation, which is part of the program:
 * tools/site.py makes this table of the pages in doc/.
 */
#pragma once

#include "proto/resourcesync/digest.h"

struct manual_file {
    const char *name; /* "hub.html" */
    const char *type; /* media type */
    struct slice gzip;
    size_t size;       /* inflated */
    struct digest tag; /* SHA-256 of that */
};

/* Sorted by name. */
extern const struct manual_file manual_files[];
extern const size_t manual_n_files;
