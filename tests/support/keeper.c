#include "tests/support/keeper.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#include "client/tidings_follow.h"
#include "tests/support/patience.h"
#include "tests/support/process.h"
#include "tests/test.h"

#define NAME   "kept"
#define PREFIX "http://example.com/r/"

/* The program */

struct keeping {
    sqlite3 *db;
    sqlite3_stmt *apply;
    uint64_t last, until;
    const char *why; /* NULL: nothing is wrong */
};

static const char schema[] =
    "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
    "CREATE TABLE IF NOT EXISTS resource(id INTEGER PRIMARY KEY,"
    " length INTEGER NOT NULL, n INTEGER NOT NULL) STRICT;";

static const char apply_sql[] =
    "INSERT INTO resource VALUES(?1, ?2, 1) ON CONFLICT(id) DO UPDATE SET"
    " length = excluded.length, n = n + 1";

static uint64_t
status_kib(pid_t pid, const char *name)
{
    char path[60], line[200];
    uint64_t kib = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    file = fopen(path, "re");
    while (file && fgets(line, sizeof(line), file))
        if (!strncmp(line, name, strlen(name)))
            kib = strtoull(line + strlen(name) + 1, NULL, 10);
    if (file)
        fclose(file);
    return kib;
}

static bool
apply(struct keeping *k, const struct td_change *c)
{
    bool is_deleted = c->change && !strcmp(c->change, "deleted");

    if (strncmp(c->loc, PREFIX, strlen(PREFIX)) != 0)
        return false;
    sqlite3_bind_int64(k->apply, 1, atoll(c->loc + strlen(PREFIX)));
    sqlite3_bind_int64(k->apply, 2, is_deleted ? 0 : (sqlite3_int64)c->length);
    if (sqlite3_step(k->apply) != SQLITE_DONE)
        return false;
    return sqlite3_reset(k->apply) == SQLITE_OK;
}

static int
on_message(const struct td_message *m, void *user)
{
    struct keeping *k = user;

    if (m->kind != TD_CHANGES || m->after != k->last ||
        (m->n_changes && m->last != m->after + m->n_changes)) {
        k->why = "a message that does not follow the last one";
        return 1;
    }
    if (sqlite3_exec(k->db, "BEGIN IMMEDIATE", NULL, NULL, NULL))
        k->why = "no transaction";
    for (size_t i = 0; i < m->n_changes && !k->why; i++)
        if (m->changes[i].seq != m->after + 1 + i || !apply(k, &m->changes[i]))
            k->why = "a change cannot be applied";
    if (!k->why && td_position_save(k->db, NAME, m->position) != TD_OK)
        k->why = "the position cannot be kept";
    if (!k->why && sqlite3_exec(k->db, "COMMIT", NULL, NULL, NULL))
        k->why = "it cannot be committed";
    k->last = m->last;
    return k->why || k->last >= k->until;
}

static void
on_trouble(const char *why, unsigned pause_ms, void *user)
{
    (void)user;
    fprintf(stderr, "keeper: %s; again in %u ms\n", why, pause_ms);
}

int
keeper_main(char **argv)
{
    struct keeping k = {.until = strtoull(argv[4], NULL, 10)};
    char position[TD_POSITION_SIZE];
    struct td_follow_options options = {
        .after = position,
        .idle_ms = 2000,
        .on_trouble = on_trouble,
        .transports = (unsigned)strtoul(argv[5], NULL, 10),
        .poll_ms = 100};
    struct td_client *client = td_open();
    enum td_status rc;

    if (!client || sqlite3_open(argv[3], &k.db) ||
        sqlite3_busy_timeout(k.db, PATIENCE_MS) ||
        sqlite3_exec(k.db, schema, NULL, NULL, NULL) ||
        sqlite3_prepare_v2(k.db, apply_sql, -1, &k.apply, NULL) ||
        td_position_load(k.db, NAME, position) != TD_OK) {
        fprintf(stderr, "keeper: the database: %s\n", sqlite3_errmsg(k.db));
        return 2;
    }
    if (position[0])
        k.last = strtoull(strchr(position, '-') + 1, NULL, 10);
    else
        options.after = "0";
    rc = td_follow(client, argv[2], &options, on_message, &k);
    if (rc != TD_STOPPED || k.why) {
        fprintf(stderr, "keeper: %d: %s\n", rc,
                k.why ? k.why : td_problem(client));
        return 1;
    }
    printf("%" PRIu64 " %" PRIu64 "\n", status_kib(getpid(), "VmRSS"),
           status_kib(getpid(), "VmHWM"));
    sqlite3_finalize(k.apply);
    sqlite3_close(k.db);
    td_close(client);
    return 0;
}

/* The test */

void
keeper_start(struct keeper *k, const char *url, const char *database,
             uint64_t last, unsigned transports)
{
    char number[24], ways[12];
    const char *const arguments[] = {"/proc/self/exe", KEEPER, url, database,
                                     number,           ways,   NULL};

    snprintf(number, sizeof(number), "%" PRIu64, last);
    snprintf(ways, sizeof(ways), "%u", transports);
    if (!k->log[0])
        process_log(k->log, sizeof(k->log));
    k->pid = process_start(arguments, k->log, &k->out);
}

void
keeper_kill9(struct keeper *k)
{
    kill(k->pid, SIGKILL);
    process_status(k->pid);
    close(k->out);
    k->pid = 0;
}

void
keeper_end(struct keeper *k, uint64_t *rss_kib, uint64_t *peak_kib)
{
    int64_t end_ms = process_now_ms() + PATIENCE_MS;
    char said[200] = "";
    size_t size = 0;
    ssize_t n;

    while ((n = process_read(k->out, said + size, sizeof(said) - 1 - size,
                             end_ms)) > 0)
        size += (size_t)n;
    if (n < 0)
        fail_msg("the keeper does not end");
    assert_int_equal(process_status(k->pid), 0);
    assert_int_equal(sscanf(said, "%" SCNu64 " %" SCNu64, rss_kib, peak_kib),
                     2);
    close(k->out);
    k->pid = 0;
}

uint64_t
keeper_rss_kib(const struct keeper *k)
{
    return status_kib(k->pid, "VmRSS");
}

uint64_t
keeper_seq(const char *database)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *s = NULL;
    uint64_t seq = 0;

    /* It is not there yet, or is being made: it is nowhere. */
    if (!sqlite3_open_v2(database, &db, SQLITE_OPEN_READONLY, NULL) &&
        !sqlite3_busy_timeout(db, PATIENCE_MS) &&
        !sqlite3_prepare_v2(db, "SELECT position FROM td_position", -1, &s,
                            NULL) &&
        sqlite3_step(s) == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(s, 0);
        const char *dash = text ? strrchr(text, '-') : NULL;

        seq = dash ? strtoull(dash + 1, NULL, 10) : 0;
    }
    sqlite3_finalize(s);
    sqlite3_close(db);
    return seq;
}

struct kept *
keeper_all(const char *database, uint32_t n)
{
    struct kept *all = calloc(n, sizeof(*all));
    sqlite3 *db;
    sqlite3_stmt *s;

    assert_non_null(all);
    assert_int_equal(sqlite3_open_v2(database, &db, SQLITE_OPEN_READONLY, NULL),
                     0);
    assert_int_equal(sqlite3_prepare_v2(db,
                                        "SELECT id, n, length FROM resource",
                                        -1, &s, NULL),
                     0);
    while (sqlite3_step(s) == SQLITE_ROW) {
        sqlite3_int64 id = sqlite3_column_int64(s, 0);

        assert_in_range(id, 0, n - 1);
        all[id].n = (uint32_t)sqlite3_column_int64(s, 1);
        all[id].length = (uint64_t)sqlite3_column_int64(s, 2);
    }
    sqlite3_finalize(s);
    sqlite3_close(db);
    return all;
}
