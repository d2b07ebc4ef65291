/*
 * change_lines.h - prints changes as lines: text, JSON or XML.
 *
 *     7 2026-11-20T21:00:00.000000Z updated http://example.com/a
 *     {"loc":"http://example.com/a","change":"updated",...,"seq":7}
 *     <url><loc>http://example.com/a</loc>...</url>
 *
 * and of a baseline, whose resources have no change:
 *
 *     - - baseline-begin -
 *     - 2026-11-19T08:00:00Z resource http://example.com/a
 *     - - baseline-end -
 *     {"baseline":"begin"}       {"loc":...}          {"baseline":"end"}
 *     <!-- baseline-begin -->    <url>...</url>       <!-- baseline-end -->
 */
#ifndef CLIENT_CLI_CHANGE_LINES_H
#define CLIENT_CLI_CHANGE_LINES_H

#include <stdio.h>

#include "client/tidings.h"

/* One row per --format. */
struct lines {
    const char *name;
    enum td_form form;
    /* Without its newline. */
    void (*change)(FILE *to, const struct td_change *change);
    const char *begin, *end; /* of a baseline, with it */
};

/* NULL: there is none of that name. */
const struct lines *lines_of(const char *name);

#endif
