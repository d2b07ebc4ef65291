#include "client/relay/relay_resources.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#include "client/lib/source_limits.h"
#include "client/lib/temporary_file.h"
#include "proto/problem.h"

/* SQLite deletes the file of the database "" when it is closed, or the process
 * ends: nothing of it has to survive. */
static const char schema[] =
    "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;"
    "CREATE TABLE resource (loc TEXT PRIMARY KEY, entry TEXT NOT NULL);"
    "BEGIN";

/* Bytes between two looks at the free bytes of the disk. */
#define LOOK_BYTES 65536

struct relay_resources {
    sqlite3 *db;
    sqlite3_stmt *insert;
    struct source_limits room;
    uint64_t unlooked; /* bytes since the last look at the disk */
    struct problem why;
};

static bool
fail(struct relay_resources *r, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    problem_vset(&r->why, STATUS_IO, format, args);
    va_end(args);
    return false;
}

static bool
fail_database(struct relay_resources *r)
{
    return fail(r, "cannot keep the resources of the source for now: %s",
                sqlite3_errmsg(r->db));
}

/* True if `size` more bytes leave enough of the disk free. */
static bool
has_room(struct relay_resources *r, uint64_t size)
{
    r->unlooked += size;
    if (r->unlooked < LOOK_BYTES)
        return true;
    r->unlooked = 0;
    return !source_limits_look_at(&r->room, temporary_directory(), size,
                                  &r->why);
}

struct relay_resources *
relay_resources_new(const struct td_limits *limits)
{
    struct relay_resources *r = calloc(1, sizeof(*r));

    if (r) {
        r->room.limits = *limits;
        r->unlooked = LOOK_BYTES; /* the first one looks */
    }
    if (r && (sqlite3_open("", &r->db) ||
              sqlite3_exec(r->db, schema, NULL, NULL, NULL) ||
              sqlite3_prepare_v2(
                  r->db, "INSERT OR REPLACE INTO resource VALUES (?1, ?2)", -1,
                  &r->insert, NULL))) {
        relay_resources_free(r);
        r = NULL;
    }
    return r;
}

void
relay_resources_free(struct relay_resources *r)
{
    if (!r)
        return;
    sqlite3_finalize(r->insert);
    sqlite3_close(r->db);
    free(r);
}

bool
relay_resources_add(struct relay_resources *r, const char *text, size_t size)
{
    const char *loc;
    size_t loc_size;
    int code;

    if (!relay_loc(text, size, &loc, &loc_size))
        return fail(r, "a resource without a loc");
    if (!has_room(r, size))
        return false;
    sqlite3_bind_text64(r->insert, 1, loc, loc_size, SQLITE_STATIC,
                        SQLITE_UTF8);
    sqlite3_bind_text64(r->insert, 2, text, size, SQLITE_STATIC, SQLITE_UTF8);
    code = sqlite3_step(r->insert);
    sqlite3_reset(r->insert);
    sqlite3_clear_bindings(r->insert);
    return code == SQLITE_DONE || fail_database(r);
}

/* Writing */

static bool
write_one(struct relay_resources *r, sqlite3_stmt *s, FILE *to,
          const struct relay_rules *rules)
{
    const char *text = (const char *)sqlite3_column_text(s, 0);
    size_t size = (size_t)sqlite3_column_bytes(s, 0);
    const char *loc = "";
    size_t loc_size = 0;

    if (!has_room(r, size))
        return false;
    switch (relay_entry(to, "", text ? text : "", size, rules)) {
    case RELAY_WRITTEN:
        /* An error of any piece: a later piece may have been written. */
        fputc('\n', to);
        return !ferror(to) ||
               fail(r, "cannot write a temporary file: %s", strerror(errno));
    case RELAY_RING:
        relay_loc(text, size, &loc, &loc_size);
        return fail(r,
                    "the source has %.*s from the target itself: in a ring of "
                    "relays one set cannot be compared with the other",
                    (int)loc_size, loc);
    case RELAY_ODD:
        break;
    }
    return fail(r, "a resource that cannot be read");
}

/* Writes one a line. Without any, writes an empty list, as a document has to
 * show its kind. */
static bool
write_all(struct relay_resources *r, FILE *to, const struct relay_rules *rules)
{
    sqlite3_stmt *s = NULL;
    bool is_good = true;
    int code, n = 0;

    if (sqlite3_prepare_v2(r->db, "SELECT entry FROM resource ORDER BY rowid",
                           -1, &s, NULL))
        return fail_database(r);
    while ((code = sqlite3_step(s)) == SQLITE_ROW && is_good) {
        is_good = write_one(r, s, to, rules);
        n = 1;
    }
    if (is_good && code != SQLITE_DONE)
        is_good = fail_database(r);
    sqlite3_finalize(s);
    if (is_good && n == 0)
        fputs("<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\"/>",
              to);
    return is_good;
}

bool
relay_resources_write(struct relay_resources *r,
                      const struct relay_rules *rules, int *fd)
{
    int copy;
    FILE *to;
    bool is_good;

    *fd = temporary_file_open(&r->why);
    if (*fd < 0)
        return false;
    copy = fcntl(*fd, F_DUPFD_CLOEXEC, 0);
    to = copy < 0 ? NULL : fdopen(copy, "w");
    if (!to) {
        if (copy >= 0)
            close(copy);
        fail(r, "cannot make a temporary file: %s", strerror(errno));
        goto failed;
    }
    is_good = write_all(r, to, rules);
    if (fclose(to) && is_good)
        is_good = fail(r, "cannot write a temporary file: %s", strerror(errno));
    if (is_good)
        return true;

failed:
    close(*fd);
    *fd = -1;
    return false;
}

const char *
relay_resources_trouble(const struct relay_resources *r)
{
    return r->why.text;
}
