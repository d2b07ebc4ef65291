/*
 * audit_compare.c - compares a mirror with its source.
 *
 * Walks two databases in order of loc, as a merge does. A database lends a loc
 * only until its next call: the walk compares copies.
 */
#include "client/mirror/audit_compare.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "client/lib/handle_loop.h"
#include "proto/change.h"
#include "proto/datetime.h"
#include "proto/digest.h"

#define LOC_SIZE  (4 * 2048 + 1)
#define TEXT_SIZE 400
#define LISTS_MAX (1024u * 1024 * 1024)

static bool
fail_db(struct comparison *c, const struct mirror_db *db)
{
    problem(&c->why, STATUS_IO, "%s", mirror_db_trouble(db));
    return false;
}

static bool
no_memory(struct comparison *c)
{
    problem_memory(&c->why);
    return false;
}

/* Runs the loop. False: td_stop was called. */
static bool
go_on(void *user)
{
    struct comparison *c = user;
    enum status rc = handle_loop_service(c->client->loop);

    if (rc)
        problem(&c->why, rc,
                rc == STATUS_STOPPED ? "stopped"
                                     : "called from a callback of this handle");
    return !rc;
}

static void
report_finding(struct comparison *c, enum td_finding finding, const char *loc,
               const char *path, const char *why)
{
    uint64_t *counts[] = {[TD_MISSING] = &c->result->n_missing,
                          [TD_STALE] = &c->result->n_stale,
                          [TD_EXTRA] = &c->result->n_extra,
                          [TD_CORRUPT] = &c->result->n_corrupt};

    ++*counts[finding];
    if (c->options->on_finding)
        c->options->on_finding(finding, loc, path, why, c->options->user);
}

/* The SHA-256 in a list of digests */
static struct slice
sha256_of(struct slice hash)
{
    struct slice algorithm;
    struct slice digits;

    while (hash_next(&hash, &algorithm, &digits))
        if (slice_is(algorithm, "sha-256"))
            return digits;
    return (struct slice){NULL, 0};
}

/* NULL if the file is as the mirror wrote it; else says why not. `text` has
 * TEXT_SIZE bytes. If c->why is set, the comparison was stopped. */
static const char *
corruption_of(struct comparison *c, const struct mirror_db_resource *mine,
              enum mirror_dir_found found, const struct mirror_dir_mark *mark,
              char *text)
{
    char digest[MIRROR_DIR_DIGEST_SIZE];
    struct slice had = sha256_of(mine->have_hash);

    if (found == MIRROR_DIR_OTHER)
        return "something else is in its place";
    if (found == MIRROR_DIR_FAILED) {
        snprintf(text, TEXT_SIZE, "it cannot be looked at: %s",
                 strerror(errno));
        return text;
    }
    if (mark->size != mine->have_mark.size) {
        snprintf(text, TEXT_SIZE, "it has %llu bytes, not %llu",
                 (unsigned long long)mark->size,
                 (unsigned long long)mine->have_mark.size);
        return text;
    }
    if (c->options->has_no_digests)
        return mark->mtime_ns == mine->have_mark.mtime_ns
                   ? NULL
                   : "it was changed since it was written";
    if (!mirror_dir_digest(c->dir, mine->path, go_on, c, digest)) {
        snprintf(text, TEXT_SIZE, "it cannot be read: %s", strerror(errno));
        return text;
    }
    if (had.size > 0 && !slice_is_word(had, digest + 8)) {
        snprintf(text, TEXT_SIZE, "its %s, not sha-256:%.*s", digest,
                 SLICE_ARG(had));
        return text;
    }
    return NULL;
}

/* NULL if the mirror's file is the source's present one; else says why not. */
static const char *
staleness_of(const struct mirror_db_resource *mine,
             const struct mirror_db_resource *theirs)
{
    bool has_common;

    if (!hashes_agree(theirs->hash, mine->have_hash, &has_common))
        return "its digest is another one at the source";
    if (theirs->length != LENGTH_NONE && theirs->length != mine->have_mark.size)
        return "its length is another one at the source";
    if (has_common)
        return NULL;
    if (theirs->lastmod_us != DATETIME_NONE &&
        theirs->lastmod_us != mine->have_lastmod_us)
        return "it was modified at the source";
    if (mine->todo == MIRROR_DB_FETCH || theirs->when_us > mine->when_us)
        return "it was changed at the source";
    return NULL;
}

/* Lists a resource to be fetched again. */
static bool
report_missing(struct comparison *c, const struct mirror_db_resource *mine)
{
    buf_add(&c->lost, &mine->id, sizeof(mine->id));
    return !c->lost.failed || no_memory(c);
}

static bool
compare_file(struct comparison *c, const char *loc,
             const struct mirror_db_resource *mine,
             const struct mirror_db_resource *theirs)
{
    struct mirror_dir_mark mark;
    char text[TEXT_SIZE];
    enum mirror_dir_found found = mirror_dir_look(c->dir, mine->path, &mark);
    const char *why = staleness_of(mine, theirs);

    if (found == MIRROR_DIR_NOTHING) {
        report_finding(c, TD_MISSING, loc, mine->path, "its file is not there");
        return report_missing(c, mine);
    }
    if (why) {
        report_finding(c, TD_STALE, loc, mine->path, why);
        return true;
    }
    why = corruption_of(c, mine, found, &mark, text);
    if (c->why.rc || !why)
        return !c->why.rc;
    report_finding(c, TD_CORRUPT, loc, mine->path, why);
    return report_missing(c, mine);
}

/* Compares one resource; NULL: missing in that database. */
static bool
compare_one(struct comparison *c, const struct mirror_db_resource *mine,
            const struct mirror_db_resource *theirs)
{
    const struct mirror_db_resource *known = mine ? mine : theirs;
    char loc[LOC_SIZE];

    snprintf(loc, sizeof(loc), "%.*s", SLICE_ARG(known->loc));
    c->result->n_compared++;
    if (mine && !mine->is_there)
        mine = NULL;
    if (!mine && !theirs)
        c->result->n_compared--; /* wanted, without a file: all well */
    else if (!mine)
        report_finding(c, TD_MISSING, loc, known->path, "it was never fetched");
    else if (theirs)
        return compare_file(c, loc, mine, theirs);
    else {
        c->n_removed++;
        report_finding(c, TD_EXTRA, loc, mine->path,
                       "the source does not have it");
    }
    return true;
}

static int
order_of(struct slice a, struct slice b)
{
    size_t size = a.size < b.size ? a.size : b.size;
    int order = size ? memcmp(a.data, b.data, size) : 0;

    return order ? order : (a.size > b.size) - (a.size < b.size);
}

/* Takes the lower loc of the two databases each time. */
static bool
compare_databases(struct comparison *c)
{
    struct mirror_db_resource mine;
    struct mirror_db_resource theirs;
    char at[LOC_SIZE] = "";
    struct slice after = {at, 0};

    for (;;) {
        bool has_mine;
        bool has_theirs;
        int order;

        if (!go_on(c))
            return false;
        if (!mirror_db_walk(c->mine, after, &mine, &has_mine))
            return fail_db(c, c->mine);
        if (!mirror_db_walk(c->theirs, after, &theirs, &has_theirs))
            return fail_db(c, c->theirs);
        if (!has_mine && !has_theirs)
            return true;
        order = !has_mine     ? 1
                : !has_theirs ? -1
                              : order_of(mine.loc, theirs.loc);
        has_mine = order <= 0;
        has_theirs = order >= 0;
        after.size = (has_mine ? mine.loc : theirs.loc).size;
        if (after.size >= sizeof(at)) {
            problem(&c->why, STATUS_MALFORMED, "a URI of %zu bytes",
                    after.size);
            return false;
        }
        memcpy(at, (has_mine ? mine.loc : theirs.loc).data, after.size);
        /* A file that no set wants waits for its removal. */
        if (!compare_one(c, has_mine ? &mine : NULL,
                         has_theirs && theirs.is_wanted ? &theirs : NULL))
            return false;
    }
}

/* Reports a file of DIR that is in no database. */
static bool
on_file(const char *path, enum mirror_dir_found what, void *user)
{
    struct comparison *c = user;
    struct mirror_db_resource mine;
    bool is_found;

    (void)what;
    if (!go_on(c))
        return false;
    if (strlen(path) > RESOURCE_PATH_MAX)
        is_found = false;
    else if (!mirror_db_find_path(c->mine, path, &mine, &is_found))
        return fail_db(c, c->mine);
    /* The path of a resource without a noted file: that resource has its own
     * finding, and its download will take or move the file. */
    if (is_found)
        return true;
    report_finding(c, TD_EXTRA, NULL, path,
                   "no resource of the mirror is there");
    buf_add(&c->strays, path, strlen(path) + 1);
    return !c->strays.failed || no_memory(c);
}

bool
compare(struct comparison *c)
{
    buf_init(&c->lost, LISTS_MAX);
    buf_init(&c->strays, LISTS_MAX);
    if (!compare_databases(c))
        return false;
    if (mirror_dir_walk(c->dir, on_file, c))
        return go_on(c);
    if (!c->why.rc)
        problem(&c->why, STATUS_IO, "cannot read the mirror: %s",
                strerror(errno));
    return false;
}
