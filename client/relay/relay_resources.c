#include "client/relay/relay_resources.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/db.h"
#include "client/lib/source_limits.h"
#include "client/lib/temporary_file.h"
#include "proto/problem.h"

static const char *const steps[] = {
    "CREATE TABLE resource (loc TEXT PRIMARY KEY, entry TEXT NOT NULL)"};

enum { SQL_INSERT, SQL_ALL, N_SQL };

static const char *const sql[N_SQL] = {
    [SQL_INSERT] = "INSERT OR REPLACE INTO resource VALUES (?1, ?2)",
    [SQL_ALL] = "SELECT entry FROM resource ORDER BY rowid",
};

static const struct db_kind kind = {
    .name = "the temporary file of the source's resources",
    .mode = DB_SCRATCH,
    .steps = steps,
    .n_steps = 1,
    .sql = sql,
    .n_sql = N_SQL,
};

/* Bytes between two looks at the free bytes of the disk. */
#define LOOK_BYTES 65536

struct relay_resources {
    struct db db;
    struct source_limits room;
    uint64_t unlooked; /* bytes since the last look at the disk */
    struct problem why;
};

static bool
fail_resources(struct relay_resources *r, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    problem_vset(&r->why, STATUS_IO, format, args);
    va_end(args);
    return false;
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
    /* One transaction, which nobody commits. */
    if (r &&
        (db_open_kind(&r->db, &kind, "", NULL) || db_begin(&r->db, NULL))) {
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
    db_close(&r->db);
    free(r);
}

bool
relay_resources_add(struct relay_resources *r, struct slice text)
{
    sqlite3_stmt *s = r->db.statements[SQL_INSERT];
    struct slice loc;

    if (!relay_loc(text, &loc))
        return fail_resources(r, "a resource without a loc");
    if (!has_room(r, text.size))
        return false;
    db_bind_text(s, 1, loc);
    db_bind_text(s, 2, text);
    return !db_run(&r->db, s, NULL, &r->why);
}

/* Writing */

static bool
write_one(struct relay_resources *r, struct slice entry, FILE *to,
          const struct relay_rules *rules)
{
    struct slice loc;

    if (!has_room(r, entry.size))
        return false;
    switch (relay_entry(to, "", entry, rules)) {
    case RELAY_WRITTEN:
        /* An error of any piece: a later piece may have been written. */
        fputc('\n', to);
        return !ferror(to) ||
               fail_resources(r, "cannot write a temporary file: %s",
                              strerror(errno));
    case RELAY_RING:
        relay_loc(entry, &loc);
        return fail_resources(
            r,
            "the source has %.*s from the target itself: in a ring of "
            "relays one set cannot be compared with the other",
            SLICE_ARG(loc));
    case RELAY_ODD:
        break;
    }
    return fail_resources(r, "a resource that cannot be read");
}

/* Writes one a line. Without any, writes an empty list, as a document has to
 * show its kind. */
static bool
write_all(struct relay_resources *r, FILE *to, const struct relay_rules *rules)
{
    sqlite3_stmt *s = r->db.statements[SQL_ALL];
    bool is_good;
    bool is_empty = true;
    bool row;

    while ((is_good = !db_step(&r->db, s, &row, NULL, &r->why)) && row) {
        is_empty = false;
        is_good = write_one(r, db_column(s, 0), to, rules);
        if (!is_good)
            break;
    }
    db_reset(s);
    if (is_good && is_empty)
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
        fail_resources(r, "cannot make a temporary file: %s", strerror(errno));
        goto failed;
    }
    is_good = write_all(r, to, rules);
    if (fclose(to) && is_good)
        is_good = fail_resources(r, "cannot write a temporary file: %s",
                                 strerror(errno));
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
