/*
 * audit.c - td_audit: reads the present state of the source into a database of
 * its own, which exists during the audit alone, and compares the mirror with
 * it.
 *
 *     source --> sync_run_source --> .tidings/audit.db --+--> compare
 *                       .tidings/mirror.db, files -------+       --> findings
 *
 * A source whose history was cut and that has no list cannot send its whole
 * state: then the audit takes the mirror's own database, and the changes since.
 *
 * Repair: copies the source's database into the mirror's, set by set, as a
 * baseline; then makes the files agree, as in any sync.
 */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/mirror/audit_compare.h"
#include "client/mirror/sync_run.h"

#define AUDIT_NAME "audit.db"

struct audit {
    struct td_client *client;
    const struct td_audit_options *options;
    struct td_audit_result result;
    struct td_sync_options following; /* of the source */
    struct td_sync_options repairing;
    struct mirror theirs;
    struct mirror mine;
    struct problem why;
};

static bool
fail_db(struct audit *a, const struct mirror_db *db)
{
    problem(&a->why, STATUS_IO, "%s", mirror_db_trouble(db));
    return false;
}

/* While it asks the source, the audit only reports trouble: the other events
 * are not about the mirror. */
static void
on_asking(const struct td_sync_event *event, void *user)
{
    const struct audit *a = user;

    if (event->what == TD_SYNC_TROUBLE && a->options->on_event)
        a->options->on_event(event, a->options->user);
}

/* Removes the database of an audit that did not end. */
static void
remove_old(const struct mirror_dir *dir)
{
    static const char *const ends[] = {"", "-wal", "-shm", "-journal"};
    char path[PATH_MAX];

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        if (snprintf(path, sizeof(path), "%s/" AUDIT_NAME "%s",
                     mirror_dir_state(dir), ends[i]) < (int)sizeof(path))
            unlink(path);
}

/* Copies the resources of a set from `from` to `to`, as one baseline: `to`
 * loses those that `from` lacks. */
static bool
report_again(struct audit *a, struct mirror_db *from, struct mirror_db *to,
             const char *url, int64_t to_set)
{
    char position[TD_POSITION_SIZE];
    struct mirror_db_description description;
    int64_t from_set = 0;
    int64_t id = 0;
    int64_t ignored;
    uint64_t n;
    bool is_found;

    if (!mirror_db_set(from, url, &from_set, position))
        return fail_db(a, from);
    if (!mirror_db_baseline_begin(to, to_set))
        return fail_db(a, to);
    for (;;) {
        if (!mirror_db_next_description(from, from_set, id, &id, &description,
                                        &is_found))
            return fail_db(a, from);
        if (!is_found)
            break;
        if (!mirror_db_describe(to, to_set, &description, &ignored))
            return fail_db(a, to);
    }
    return (mirror_db_baseline_end(to, to_set, &n) &&
            mirror_db_set_position(to, to_set, position)) ||
           fail_db(a, to);
}

/* Calls `fn` for each set of a database. */
static bool
each_set(struct audit *a, struct mirror_db *db,
         bool (*fn)(struct audit *a, const char *url, int64_t set))
{
    int64_t set = 0;
    const char *url;
    bool is_found;

    for (;;) {
        char *copy;
        bool is_good;

        if (!mirror_db_next_set(db, set, &set, &url, &is_found))
            return fail_db(a, db);
        if (!is_found)
            return true;
        copy = strdup(url);
        if (!copy) {
            problem_memory(&a->why);
            return false;
        }
        is_good = fn(a, copy, set);
        free(copy);
        if (!is_good)
            return false;
    }
}

/* Sets `*is` if `url` is a set of the mirror. */
static bool
is_mine(struct audit *a, const char *url, bool *is)
{
    int64_t set = 0;
    const char *mine;
    bool is_found = true;

    for (*is = false; is_found && !*is;) {
        if (!mirror_db_next_set(a->mine.db, set, &set, &mine, &is_found))
            return fail_db(a, a->mine.db);
        *is = is_found && !strcmp(mine, url);
    }
    return true;
}

/* For a set that the source still offers, but without its whole state: copies
 * what the mirror followed so far. */
static bool
tell_own(struct audit *a, const char *url, int64_t theirs)
{
    char position[TD_POSITION_SIZE];
    char text[4300];
    int64_t ignored;
    bool is;

    if (!mirror_db_set(a->theirs.db, url, &ignored, position))
        return fail_db(a, a->theirs.db);
    if (!is_mine(a, url, &is))
        return false;
    if (position[0] || !is)
        return true;
    snprintf(text, sizeof(text),
             "%.4000s no longer lists all resources: the mirror is compared "
             "with the earlier list and the changes since",
             url);
    mirror_tell(&a->mine, TD_SYNC_TROUBLE,
                &(struct td_sync_event){.set = url, .why = text});
    return report_again(a, a->mine.db, a->theirs.db, url, theirs);
}

/* Asks a source. */
static bool
ask_source(struct audit *a, const char *url)
{
    struct problem gone = {.text = ""};

    if (sync_run_source(&a->theirs, url, true, &a->why) != STATUS_GONE)
        return !a->why.rc;
    gone = a->why;
    problem_clear(&a->why);
    if (!mirror_db_begin(a->theirs.db))
        return fail_db(a, a->theirs.db);
    if (!each_set(a, a->theirs.db, tell_own)) {
        mirror_db_rollback(a->theirs.db);
        return false;
    }
    if (!mirror_db_commit(a->theirs.db))
        return fail_db(a, a->theirs.db);
    if (sync_run_source(&a->theirs, url, true, &a->why) == STATUS_GONE)
        a->why = gone;
    return !a->why.rc;
}

/* Fails if the mirror is not one of `url`. A repair removes resources that the
 * source lacks: so no other source may be asked, nor one of its sets. */
static bool
check_source(struct audit *a, const char *url)
{
    const char *source;

    if (!mirror_db_source(a->mine.db, 1, &source))
        return fail_db(a, a->mine.db);
    if (source[0]) {
        problem(&a->why, STATUS_INVALID,
                "the mirror is one of several sources, which are audited "
                "together: give no URL");
        return false;
    }
    if (!mirror_db_source(a->mine.db, 0, &source))
        return fail_db(a, a->mine.db);
    if (strcmp(source, url) != 0)
        problem(&a->why, STATUS_INVALID,
                "the mirror is of %.800s, not of %.800s", source, url);
    return !a->why.rc;
}

/* Asks each source of the mirror. */
static bool
ask_sources(struct audit *a, const char *url)
{
    const char *source;
    char *copy;
    bool is_good;

    if (!mirror_db_source(a->mine.db, 0, &source))
        return fail_db(a, a->mine.db);
    if (!source[0]) {
        problem(&a->why, STATUS_IO,
                "the mirror was never filled; tidings sync "
                "does that");
        return false;
    }
    if (url)
        return check_source(a, url) && ask_source(a, url);
    for (unsigned n = 0;; n++) {
        if (!mirror_db_source(a->mine.db, n, &source))
            return fail_db(a, a->mine.db);
        if (!source[0])
            return true;
        copy = strdup(source);
        if (!copy) {
            problem_memory(&a->why);
            return false;
        }
        is_good = ask_source(a, copy);
        free(copy);
        if (!is_good)
            return false;
    }
}

/* Notes the position of the source: of several sets, the first one. */
static bool
note_position(struct audit *a)
{
    struct mirror_db *db = a->theirs.db;
    const char *url;
    char copy[4096];
    int64_t set = 0;
    bool is_found;

    if (!mirror_db_next_set(db, 0, &set, &url, &is_found))
        return fail_db(a, db);
    if (!is_found)
        return true;
    snprintf(copy, sizeof(copy), "%s", url);
    return mirror_db_set(db, copy, &set, a->result.position) || fail_db(a, db);
}

static bool
add_set(struct audit *a, const char *url, int64_t theirs)
{
    char position[TD_POSITION_SIZE];
    int64_t mine;

    (void)theirs;
    return mirror_db_set(a->mine.db, url, &mine, position) ||
           fail_db(a, a->mine.db);
}

/* Copies a set of the mirror; one that the source lacks becomes empty. */
static bool
retell_mine(struct audit *a, const char *url, int64_t mine)
{
    return report_again(a, a->theirs.db, a->mine.db, url, mine);
}

/* Writes lost files and the source's state in one transaction. */
static bool
rewrite_database(struct audit *a, const struct comparison *c)
{
    const char *at = c->lost.data;

    if (!mirror_db_begin(a->mine.db))
        return fail_db(a, a->mine.db);
    for (size_t i = 0; i < c->lost.size; i += sizeof(int64_t)) {
        int64_t id;

        memcpy(&id, at + i, sizeof(id));
        if (!mirror_db_note_loss(a->mine.db, id))
            return fail_db(a, a->mine.db);
    }
    return each_set(a, a->theirs.db, add_set) &&
           each_set(a, a->mine.db, retell_mine) &&
           (mirror_db_commit(a->mine.db) || fail_db(a, a->mine.db));
}

static uint64_t
n_findings(const struct td_audit_result *r)
{
    return r->n_missing + r->n_stale + r->n_extra + r->n_corrupt;
}

static bool
repair_files(struct audit *a, const struct comparison *c)
{
    const struct mirror_db_counts *counts = mirror_db_counts(a->mine.db);
    const char *path = c->strays.data;
    uint64_t n = n_findings(&a->result);
    uint64_t n_open;

    if (mirror_is_too_much(&a->mine, c->n_removed, counts->n_have)) {
        problem(&a->why, STATUS_REFUSED,
                "the repair would delete %" PRIu64 " of %" PRIu64
                " files, more than the %d %% that are allowed; nothing of "
                "it was done. If that is right, allow more (--max-delete "
                "PERCENT)",
                c->n_removed, counts->n_have, a->repairing.max_delete_percent);
        return false;
    }
    if (!rewrite_database(a, c)) {
        mirror_db_rollback(a->mine.db);
        return false;
    }
    for (size_t i = 0; i < c->strays.size; i += strlen(path + i) + 1)
        if (mirror_dir_set_aside(a->mine.dir, path + i, NULL, &a->why))
            return false;
    sync_run_work(&a->mine, &a->why);
    n_open = counts->n_fetch + counts->n_remove;
    a->result.n_repaired = n > n_open ? n - n_open : 0;
    return !a->why.rc;
}

static bool
compare_and_repair(struct audit *a)
{
    struct comparison c = {.client = a->client,
                           .dir = a->mine.dir,
                           .mine = a->mine.db,
                           .theirs = a->theirs.db,
                           .options = a->options,
                           .result = &a->result};
    bool is_good = compare(&c);
    uint64_t n = n_findings(&a->result);

    if (!is_good)
        a->why = c.why;
    else if (a->options->repair && n > 0)
        is_good = repair_files(a, &c);
    buf_fini(&c.lost);
    buf_fini(&c.strays);
    if (is_good && n > a->result.n_repaired)
        problem(&a->why, STATUS_DIFFERENT,
                "the mirror is not as its source: %" PRIu64
                " findings, %" PRIu64 " of them repaired",
                n, a->result.n_repaired);
    return is_good;
}

static bool
open_all(struct audit *a, const char *dir)
{
    if (!mirror_init(&a->theirs, a->client, &a->following) ||
        !mirror_init(&a->mine, a->client, &a->repairing)) {
        problem_memory(&a->why);
        return false;
    }
    a->mine.dir = mirror_dir_open(dir, false, &a->why);
    if (!a->mine.dir)
        return false;
    a->mine.db =
        mirror_db_open(mirror_dir_state(a->mine.dir), "mirror.db", &a->why);
    if (!a->mine.db)
        return false;
    remove_old(a->mine.dir);
    a->theirs.db =
        mirror_db_open(mirror_dir_state(a->mine.dir), AUDIT_NAME, &a->why);
    return a->theirs.db != NULL;
}

enum td_status
td_audit(struct td_client *client, const char *url, const char *dir,
         const struct td_audit_options *options, struct td_audit_result *result)
{
    static const struct td_audit_options none;
    struct audit a = {.client = client, .options = options ? options : &none};
    struct td_sync_options wishes = {
        .per_host = a.options->per_host,
        .max_delete_percent = a.options->max_delete_percent,
        .until_caught_up = 1,
        .on_event = a.options->on_event,
        .user = a.options->user,
    };
    struct td_sync_options asking = {.on_event = on_asking, .user = &a};

    client_begin(client);
    mirror_defaults(&a.following, &asking);
    mirror_defaults(&a.repairing, &wishes);
    if (!dir || !dir[0])
        problem(&a.why, STATUS_INVALID, "no directory was given");
    else if (open_all(&a, dir) && ask_sources(&a, url) && note_position(&a))
        compare_and_repair(&a);
    mirror_db_close(a.theirs.db);
    if (a.mine.dir)
        remove_old(a.mine.dir);
    mirror_db_close(a.mine.db);
    mirror_dir_close(a.mine.dir);
    mirror_fini(&a.theirs);
    mirror_fini(&a.mine);
    if (result)
        *result = a.result;
    if (a.why.rc)
        client_told(client, &a.why);
    return client_end(client, a.why.rc);
}
