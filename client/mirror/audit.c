/*
 * audit.c - td_audit: reads the present state of the source into a database of
 * its own, which exists during the audit alone, and compares the mirror with
 * it.
 *
 *     source --> sync_run_source --> .tidings/audit.db --+--> compare
 *                       .tidings/mirror.db, files -------+       --> findings
 *
 * A set whose source offers comparisons (Negentropy) is not read: the audit
 * copies what the mirror has of it, follows the changes since, and reads what
 * differs then (reconcile.h).
 *
 * A source whose history was cut and that has no list cannot send its whole
 * state: then the audit takes the mirror's own database, and the changes since.
 *
 * A diff (td_diff) compares two states in the same way, by what their sources
 * said of them: each that of a mirror, or of a source now or at a past time, in
 * a database that is temporary. It reads no files.
 *
 * Originals: a copy's entry in the source names its original (`via`, R-434). In
 * an audit of originals audit.db has these links, and each file without a
 * finding is compared with what is there now; nothing of that is kept.
 *
 * Repair: copies the source's database into the mirror's, set by set, as a
 * baseline; then makes the files agree, as in any sync.
 */
#include <unistd.h>

#include "base/clock.h"
#include "client/follow/follow_options.h"
#include "client/lib/fetch.h"
#include "client/lib/handle_loop.h"
#include "client/mirror/file_sync.h"
#include "client/mirror/mirror.h"
#include "client/mirror/reconcile.h"
#include "proto/resourcesync/change.h"
#include "proto/resourcesync/digest.h"
#include "proto/resourcesync/position.h"

#define LOC_SIZE  (4 * 2048 + 1)
#define TEXT_SIZE 400
#define LISTS_MAX (1024u * 1024 * 1024)

#define AUDIT_NAME "audit.db"

/* An audit compares no more sets than that by differences. */
#define COMPARED_MAX 100

struct audit {
    struct td_client *client;
    const struct td_audit_options *options;
    struct td_audit_result result;
    struct td_sync_options following; /* of the source */
    struct td_sync_options repairing;
    struct mirror theirs;
    struct mirror mine;
    struct datetime_text as_of; /* the past time of `mine`; "": none */
    bool is_diff;

    /* The sets of the mirror, if all can be compared by differences. */
    bool is_comparable;
    struct reconciliation *compared[COMPARED_MAX];
    size_t n_compared;
    struct reconcile_counts counts;

    struct problem doubt; /* in a diff: why a state is not wholly known */

    /* What the comparison found. */
    struct buf lost;    /* int64_t each: resources of `mine` whose file is
                           missing or changed */
    struct buf strays;  /* paths, terminated: files without a resource */
    uint64_t n_removed; /* resources of `mine` that the source does not have */
    uint64_t n_walked;  /* walk_on */
    bool is_held;       /* the repair does not delete them */
    uint64_t held_of;   /* as of survey_holds_back */
    bool is_doubtful;   /* the source's own state is not known to be complete */
    struct problem why;
};

/* While it asks the source, the audit only reports trouble, what the lists have
 * wrong, and how much of a list was read: the other events are not about the
 * mirror. */
static void
on_asking(const struct td_sync_event *event, void *user)
{
    const struct audit *a = user;

    if (event->n_listed)
        client_progress(a->client, TD_PROGRESS_READ, event->n_listed, 0);
    if ((event->what == TD_SYNC_TROUBLE || event->what == TD_SYNC_REPORT) &&
        a->options->on_event)
        a->options->on_event(event, a->options->user);
}

/* Removes the database of an audit that did not end. */
static void
remove_old(const struct mirror_dir *dir)
{
    char path[PATH_MAX];

    if (snprintf(path, sizeof(path), "%s/" AUDIT_NAME, dir->state) <
        (int)sizeof(path))
        (void)!db_unlink(path, NULL);
}

/* Copies the resources of a set from `from` to `to`, as one baseline: `to`
 * loses those that `from` lacks. */
static bool
copy_set(struct audit *a, struct mirror_db *from, struct mirror_db *to,
         const char *url, int64_t to_set)
{
    const struct mirror_db_end end = {.as_of_us = INT64_MAX,
                                      .is_held = a->is_held};
    char position[TD_POSITION_SIZE];
    struct mirror_db_description description;
    int64_t from_set = 0;
    int64_t id = 0;
    int64_t ignored;
    uint64_t n;

    if (!mirror_db_set(from, url, &from_set, position) ||
        !mirror_db_baseline_begin(to, to_set))
        return false;
    do {
        if (!mirror_db_next_description(from, from_set, id, &id,
                                        &description) ||
            (id && !mirror_db_describe(to, to_set, &description, &ignored)))
            return false;
    } while (id);
    return mirror_db_baseline_end(to, to_set, &end, &n) &&
           mirror_db_set_position(to, to_set, position);
}

/* Calls `fn` for each set of a database. It must not end a transaction. */
static bool
each_set(struct audit *a, struct mirror_db *db,
         bool (*fn)(struct audit *a, const char *url, int64_t set))
{
    int64_t set = 0;
    const char *url;

    do {
        if (!mirror_db_next_set(db, set, &set, &url) ||
            (set && !fn(a, url, set)))
            return false;
    } while (set);
    return true;
}

/* The same in one transaction of the source's database. */
static bool
change_each(struct audit *a, struct mirror_db *db,
            bool (*fn)(struct audit *a, const char *url, int64_t set))
{
    return mirror_db_begin(&a->theirs.db) && each_set(a, db, fn) &&
           mirror_db_commit(&a->theirs.db);
}

/* copies what `from` knows by its place among the changes to be later
 * than the source's list, and `to` does not: one who reads anew has only the
 * times of the changes. `theirs`: the set in the source's database. */
static bool
copy_later(struct audit *a, struct mirror_db *from, int64_t from_set,
           struct mirror_db *to, int64_t to_set, int64_t theirs)
{
    char mark[TD_POSITION_SIZE];
    struct mirror_db_certainty c;
    struct mirror_db_description t;
    struct mirror_db_resource r;
    struct slice loc = SLICE("-");
    bool is_first = true, is_later;
    int64_t id;

    if (!mirror_db_mark(&a->theirs.db, theirs, mark) ||
        !mirror_db_certainty(&a->theirs.db, theirs, &c))
        return false;
    for (; mark[0] == '@' && loc.size; is_first = false) {
        if (!mirror_db_next_later(from, from_set, c.listed_us, is_first,
                                  &loc) ||
            !mirror_db_is_later(to, to_set, loc, c.listed_us, &is_later) ||
            !mirror_db_find(from, loc, &r))
            return false;
        t = r.wanted;
        t.loc = loc;
        t.is_baseline = t.is_noted = true;
        t.is_deleted = !r.is_wanted;
        t.is_held = a->is_held;
        if (t.when_us <= c.listed_us)
            t.when_us = c.listed_us + 1;
        if (loc.size && !is_later && !mirror_db_describe(to, to_set, &t, &id))
            return false;
    }
    return true;
}

static bool
keep_later(struct audit *a, const char *url, int64_t theirs)
{
    int64_t mine;

    return mirror_db_find_set(&a->mine.db, url, &mine) &&
           (!mine ||
            copy_later(a, &a->mine.db, mine, &a->theirs.db, theirs, theirs));
}

/* For a set that the source still offers, but without its whole state: copies
 * what the mirror followed so far. */
static bool
copy_own(struct audit *a, const char *url, int64_t theirs)
{
    char position[TD_POSITION_SIZE];
    char text[4300];
    int64_t ignored, set;

    if (!mirror_db_set(&a->theirs.db, url, &ignored, position) ||
        !mirror_db_find_set(&a->mine.db, url, &set))
        return false;
    if (position[0] || !set)
        return true;
    snprintf(text, sizeof(text),
             "%.4000s no longer lists all resources: the mirror is compared "
             "with the earlier list and the changes since",
             url);
    MIRROR_REPORT(&a->mine, TD_SYNC_TROUBLE, .set = url, .why = text);
    return copy_set(a, &a->mine.db, &a->theirs.db, url, theirs);
}

/* Runs the loop. False: td_stop was called. */
static bool
go_on(void *user)
{
    struct audit *a = user;
    enum status rc = handle_loop_service(a->client->loop);

    if (rc)
        problem(&a->why, rc,
                rc == STATUS_STOPPED ? "stopped"
                                     : "called from a callback of this handle");
    return !rc;
}

/* The same for each row, file or piece of one: a turn of the loop takes ten
 * times as long as to compare a row. */
static bool
walk_on(void *user)
{
    struct audit *a = user;

    return a->n_walked++ % 64 ? !a->why.rc : go_on(a);
}

/* Comparing sets without reading all of them */

static bool
prepare_set(struct audit *a, const char *url, int64_t mine)
{
    char position[TD_POSITION_SIZE];
    struct reconciliation *r = NULL;
    struct position place;

    if (!a->is_comparable)
        return true;
    if (!mirror_db_set(&a->mine.db, url, &mine, position))
        return false;
    if (a->n_compared < COMPARED_MAX &&
        !position_read(slice_of(position), &place))
        r = reconcile_new(&a->theirs, url, &a->counts);
    a->is_comparable = r != NULL;
    if (r)
        a->compared[a->n_compared++] = r;
    return true;
}

/* Makes the copies equal to the sets, and reports how, and at which position
 * the first one. False: `why`, or the audit has failed. */
static bool
compare_sets(struct audit *a, const char *source, struct problem *why)
{
    char position[TD_POSITION_SIZE], text[100];
    const char *url;
    bool is_current = true;
    int64_t set;

    for (size_t i = 0; i < a->n_compared && !why->rc; i++) {
        (void)!reconcile_find(a->compared[i], why);
        is_current &= reconcile_is_current(a->compared[i]);
    }
    if (!why->rc && a->counts.n_differing > 0 && !is_current)
        (void)!sync_run_source(&a->theirs, source, true, why);
    for (size_t i = 0;
         i < a->n_compared && a->counts.n_differing > 0 && !why->rc; i++)
        (void)!reconcile_settle(a->compared[i], why);
    snprintf(text, sizeof(text), "requests: %u, differing ids: %zu",
             a->counts.n_requests, a->counts.n_differing);
    if (why->rc || !mirror_db_next_set(&a->theirs.db, 0, &set, &url) ||
        !mirror_db_set(&a->theirs.db, url, &set, position))
        return false;
    MIRROR_REPORT(&a->mine, TD_SYNC_COMPARED,
                  .set = a->n_compared == 1 ? url : NULL, .why = text,
                  .position = position);
    return true;
}

/* Copies what the mirror followed of a set. */
static bool
copy_mine(struct audit *a, const char *url, int64_t theirs)
{
    return mirror_db_set(&a->theirs.db, url, &theirs, NULL) &&
           copy_set(a, &a->mine.db, &a->theirs.db, url, theirs);
}

/* Begins a set anew: the whole list is read. */
static bool
forget_copy(struct audit *a, const char *url, int64_t theirs)
{
    const struct mirror_db_end end = {.as_of_us = INT64_MAX};
    uint64_t n;

    (void)url;
    return mirror_db_baseline_begin(&a->theirs.db, theirs) &&
           mirror_db_baseline_end(&a->theirs.db, theirs, &end, &n) &&
           mirror_db_set_position(&a->theirs.db, theirs, "");
}

/* Brings the source's database up to date by comparison, if the source offers
 * that for each set of the mirror. *is_done: there is nothing more to read. */
static bool
reconcile_source(struct audit *a, const char *source, bool *is_done)
{
    struct problem why = {""};
    char text[1300];
    bool is_good;

    *is_done = false;
    a->is_comparable = !a->client->reads_all && !a->options->original &&
                       !a->as_of.text[0] && !a->mine.filter.text_size;
    if (client_add_source(a->client, source)) {
        a->why = a->client->problem;
        return false;
    }
    is_good = each_set(a, &a->mine.db, prepare_set) && go_on(a);
    problem_clear(&a->client->problem);
    a->is_comparable &= a->n_compared > 0;
    if (is_good && a->is_comparable) {
        is_good =
            change_each(a, &a->mine.db, copy_mine) &&
            !source_limits_check_resources(
                &a->client->room, a->theirs.db.counts.n_resources, &a->why) &&
            !sync_run_source(&a->theirs, source, true, &a->why);
        if (!is_good && a->why.rc == STATUS_GONE) {
            why = a->why;
            problem_clear(&a->why);
            is_good = true;
        }
        *is_done = is_good && !why.rc && compare_sets(a, source, &why);
        is_good = is_good && (*is_done || go_on(a));
    }
    if (is_good && a->is_comparable && !*is_done) {
        snprintf(text, sizeof(text), "%.1000s: all is read instead", why.text);
        MIRROR_REPORT(&a->mine, TD_SYNC_TROUBLE, .why = text);
        mirror_db_rollback(&a->theirs.db);
        is_good = change_each(a, &a->theirs.db, forget_copy);
    }
    while (a->n_compared > 0)
        reconcile_free(a->compared[--a->n_compared]);
    return is_good;
}

/* Asks a source. `is_only`: the mirror has no other one. */
static bool
ask_source(struct audit *a, const char *url, bool is_only)
{
    struct problem gone = {""};
    bool is_done = false;

    if ((is_only && !reconcile_source(a, url, &is_done)) || is_done)
        return is_done;
    if (sync_run_source(&a->theirs, url, true, &a->why) != STATUS_GONE ||
        a->options->original)
        return !a->why.rc;
    gone = a->why;
    problem_clear(&a->why);
    if (!change_each(a, &a->theirs.db, copy_own))
        return false;
    if (sync_run_source(&a->theirs, url, true, &a->why) == STATUS_GONE)
        a->why = gone;
    return !a->why.rc;
}

/* Asks each source of the mirror. Fails if `url` (NULL: none was given) is not
 * its only one: a repair removes resources that the source lacks, so no other
 * source may be asked, nor one of its sets. */
static bool
ask_sources(struct audit *a, const char *url)
{
    const char *source;
    bool is_only;

    if (!mirror_db_source(&a->mine.db, 1, &source))
        return false;
    is_only = !source[0];
    if (url && !is_only)
        return !problem(
            &a->why, STATUS_INVALID,
            "the mirror is one of several sources, which are audited "
            "together: give no URL");
    for (unsigned n = 0;; n++) {
        if (!mirror_db_source(&a->mine.db, n, &source))
            return false;
        if (!source[0] && n > 0)
            return true;
        if (!source[0])
            return !problem(&a->why, STATUS_IO,
                            "the mirror was never filled; tidings sync "
                            "does that");
        if (url && strcmp(source, url) != 0)
            return !problem(&a->why, STATUS_INVALID,
                            "the mirror is of %.800s, not of %.800s", source,
                            url);
        if (!ask_source(a, source, is_only))
            return false;
    }
}

/*
 * The comparison walks both databases in order of loc, as a merge does.
 *
 *     database of the mirror --+
 *                              +-- by loc --> findings
 *     database of the source --+
 *     files in DIR ------------- by path --> files without a resource
 */

/* The source's certainty of a set: what its lists left out is a finding. */
static bool
judge_set(struct audit *a, const char *url, int64_t theirs)
{
    struct mirror_db_certainty c;

    if (!mirror_db_certainty(&a->theirs.db, theirs, &c))
        return false;
    if (c.n_left_out) {
        a->result.n_left_out += c.n_left_out;
        if (a->options->on_finding)
            a->options->on_finding(TD_LEFT_OUT, NULL, NULL, c.left_out,
                                   a->options->user);
    }
    if (c.doubt[0] || !c.complete_us) {
        a->is_doubtful = true;
        MIRROR_REPORT(&a->mine, TD_SYNC_DOUBT, .set = url,
                      .why = c.doubt[0] ? c.doubt
                                        : "the source has not said all that "
                                          "it has");
    }
    return true;
}

static uint64_t
n_findings(const struct td_audit_result *r)
{
    return r->n_missing + r->n_stale + r->n_extra + r->n_corrupt + r->n_unknown;
}

/* Reports that the mirror is, or was repaired to be, as the whole set. */
static bool
report_complete(struct audit *a, const char *url, int64_t theirs)
{
    struct mirror_db_certainty c;

    if (!mirror_db_certainty(&a->theirs.db, theirs, &c))
        return false;
    if (!c.doubt[0] && c.complete_us &&
        n_findings(&a->result) <= a->result.n_repaired)
        MIRROR_REPORT(&a->mine, TD_SYNC_COMPLETE, .set = url,
                      .as_of = datetime_text_short(c.complete_us).text);
    return true;
}

static void
report_finding(struct audit *a, enum td_finding finding, const char *loc,
               const char *path, const char *why)
{
    uint64_t *counts[] = {[TD_MISSING] = &a->result.n_missing,
                          [TD_STALE] = &a->result.n_stale,
                          [TD_EXTRA] = &a->result.n_extra,
                          [TD_CORRUPT] = &a->result.n_corrupt,
                          [TD_UNKNOWN] = &a->result.n_unknown};

    ++*counts[finding];
    if (a->options->on_finding)
        a->options->on_finding(finding, loc, path, why, a->options->user);
}

/* Says with errno that a file cannot be read. If this process lacks memory or
 * descriptors, the file may be sound: then the comparison ends. */
static const char *
say_unread(struct audit *a, const char *what, const char *path, char *text)
{
    if (!a->why.rc && (errno == ENOMEM || errno == EMFILE || errno == ENFILE))
        problem_errno(&a->why, "cannot read", path);
    snprintf(text, TEXT_SIZE, "it cannot be %s: %s", what, strerror(errno));
    return text;
}

/* NULL if the file is as the mirror wrote it; else says why not. `text` has
 * TEXT_SIZE bytes. If a->why is set, the comparison was stopped. */
static const char *
corruption_of(struct audit *a, const struct mirror_db_resource *mine,
              enum mirror_dir_found found, const struct mirror_dir_mark *mark,
              char *text)
{
    char digest[MIRROR_DIR_DIGEST_SIZE];
    struct digest sha256;

    if (found == MIRROR_DIR_OTHER)
        return "something else is in its place";
    if (found == MIRROR_DIR_FAILED)
        return say_unread(a, "looked at", mine->path, text);
    if (mark->size != mine->have_mark.size) {
        snprintf(text, TEXT_SIZE, "it has %" PRIu64 " bytes, not %" PRIu64,
                 mark->size, mine->have_mark.size);
        return text;
    }
    if (a->options->has_no_digests)
        return mark->mtime_ns == mine->have_mark.mtime_ns
                   ? NULL
                   : "it was changed since it was written";
    if (!mirror_dir_digest(a->mine.dir, mine->path, walk_on, a, digest))
        return say_unread(a, "read", mine->path, text);
    if (hash_find_sha256(mine->have_hash, &sha256) &&
        strcmp(digest_text(&sha256).text, digest) != 0) {
        snprintf(text, TEXT_SIZE, "its %s, not %s", digest,
                 digest_text(&sha256).text);
        return text;
    }
    return NULL;
}

/* NULL if the mirror's file is the source's present one; else says why not.
 * `*by`: the number of those compared in the same way. */
static const char *
staleness_of(struct audit *a, const struct mirror_db_resource *mine,
             const struct mirror_db_resource *theirs, uint64_t **by)
{
    bool has_common;

    *by = &a->result.n_by_digest;
    if (!hashes_agree(theirs->wanted.hash, mine->have_hash, &has_common))
        return "its digest is another one at the source";
    if (theirs->wanted.length != LENGTH_NONE &&
        theirs->wanted.length != mine->have_mark.size)
        return "its length is another one at the source";
    if (has_common)
        return NULL;
    if (theirs->wanted.lastmod_us != DATETIME_NONE &&
        (mine->have_lastmod_us != DATETIME_NONE
             ? theirs->wanted.lastmod_us != mine->have_lastmod_us
             : theirs->wanted.lastmod_us >
                   mine->wanted.when_us)) /* of its last change */
        return "it was modified at the source";
    if (mine->todo == MIRROR_DB_FETCH ||
        theirs->wanted.when_us > mine->wanted.when_us)
        return "it was changed at the source";
    if (theirs->wanted.length != LENGTH_NONE)
        *by = &a->result.n_by_length;
    else if (theirs->wanted.lastmod_us != DATETIME_NONE &&
             !mine->have_second_us)
        *by = &a->result.n_by_time;
    else /* or it may have changed again in the same second */
        *by = &a->result.n_unchecked;
    return NULL;
}

static bool
on_original(const struct fetch_answer *answer, struct slice bytes, void *user)
{
    struct problem why = {""};

    return answer->status == 200 && !digest_check_add(user, bytes, &why);
}

/* Compares a file with its original: by the digests and the length that it was
 * found to have, as the bytes come. */
static bool
compare_original(struct audit *a, const char *loc,
                 const struct mirror_db_resource *mine, struct slice links)
{
    char url[LOC_SIZE], text[LOC_SIZE + 1100];
    const struct fetch_request request = {
        url, .redirects = 10, .skips_refusals = true, .kind = HOST_PLACE_FILE};
    struct digest_check *check;
    struct fetch_answer answer;
    struct downloads_link via;
    enum td_finding finding = TD_UNKNOWN;
    enum status rc;

    if (!duplicate_links_next(&links, &via)) {
        a->result.n_without_via++;
        return true;
    }
    check = digest_check_new(mine->have_hash, mine->have_mark.size, false);
    if (!check)
        return mirror_fail_memory(&a->mine);
    snprintf(url, sizeof(url), "%.*s", SLICE_ARG(via.href));
    rc = fetch_run(a->client, &request, on_original, check, &answer);
    if (!rc)
        rc = answer.status == 200 ? digest_check_end(check, &a->client->problem)
                                  : fetch_refused(&a->client->problem, &answer);
    buf_fini(&answer.body);
    digest_check_free(check);
    if (answer.status == 404 || answer.status == 410)
        finding = TD_EXTRA;
    if (answer.status == 200 && (rc == STATUS_STOPPED || rc == STATUS_INVALID))
        finding = TD_STALE;
    a->result.n_by_original += !rc || finding != TD_UNKNOWN;
    snprintf(text, sizeof(text), "its original %s: %s", url,
             finding == TD_STALE ? "other bytes" : a->client->problem.text);
    if (rc && go_on(a))
        report_finding(a, finding, loc, mine->path, text);
    return true;
}

static bool
compare_file(struct audit *a, const char *loc,
             const struct mirror_db_resource *mine,
             const struct mirror_db_resource *theirs)
{
    struct mirror_dir_mark mark;
    char text[TEXT_SIZE];
    uint64_t *by;
    enum mirror_dir_found found =
        mirror_dir_look(a->mine.dir, mine->path, &mark);
    const char *why = staleness_of(a, mine, theirs, &by);
    enum td_finding finding = TD_STALE;

    if (found == MIRROR_DIR_NOTHING) {
        finding = TD_MISSING;
        why = "its file is not there";
    } else if (!why) {
        finding = TD_CORRUPT;
        why = corruption_of(a, mine, found, &mark, text);
        if (a->why.rc)
            return false;
    }
    if (!why) {
        ++*by;
        return !a->options->original ||
               compare_original(a, loc, mine, theirs->wanted.links);
    }
    report_finding(a, finding, loc, mine->path, why);
    if (finding == TD_STALE)
        return true;
    /* It is to be fetched again. */
    buf_add(&a->lost, &mine->id, sizeof(mine->id));
    return mirror_has_all(&a->mine, &a->lost, "the list of lost files");
}

/* Compares one resource; NULL: missing in that database. */
static bool
compare_one(struct audit *a, const struct mirror_db_resource *mine,
            const struct mirror_db_resource *theirs)
{
    const struct mirror_db_resource *known = mine ? mine : theirs;
    char loc[LOC_SIZE];

    snprintf(loc, sizeof(loc), "%.*s", SLICE_ARG(known->loc));
    a->result.n_compared++;
    client_progress(a->client, TD_PROGRESS_COMPARED, a->result.n_compared,
                    a->mine.db.counts.n_resources);
    if (mine && !mine->is_there)
        mine = NULL;
    if (!mine && !theirs)
        a->result.n_compared--; /* wanted, without a file: all well */
    else if (!mine)
        report_finding(a, TD_MISSING, loc, known->path, "it was never fetched");
    else if (theirs)
        return compare_file(a, loc, mine, theirs);
    else {
        a->n_removed++;
        report_finding(a, TD_EXTRA, loc, mine->path,
                       "the source does not have it");
    }
    return true;
}

/* Diff */

/* Reports which values differ in two states; those of a mirror are of its file.
 */
static void
diff_versions(struct audit *a, const char *loc,
              const struct mirror_db_resource *x,
              const struct mirror_db_resource *y)
{
    const struct mirror_db_description *was = &x->wanted, *is = &y->wanted;
    uint64_t before = x->is_there ? x->have_mark.size : was->length;
    uint64_t after = y->is_there ? y->have_mark.size : is->length;
    bool has_length = before != LENGTH_NONE && after != LENGTH_NONE;
    bool has_lastmod =
        was->lastmod_us != DATETIME_NONE && is->lastmod_us != DATETIME_NONE;
    bool has_type = was->type.size && is->type.size;
    bool has_hash;
    bool agrees =
        hashes_agree(x->is_there ? x->have_hash : was->hash,
                     y->is_there ? y->have_hash : is->hash, &has_hash);
    char text[40];

    snprintf(text, sizeof(text), "%s%s%s%s", agrees ? "" : " hash",
             has_length && before != after ? " length" : "",
             has_lastmod && was->lastmod_us != is->lastmod_us ? " lastmod" : "",
             has_type && !slice_equal(was->type, is->type) ? " type" : "");
    a->result.n_unchecked += !has_hash && !has_length && !has_lastmod;
    if (text[0])
        report_finding(a, TD_STALE, loc, NULL, text + 1);
}

static void
diff_one(struct audit *a, const struct mirror_db_resource *mine,
         const struct mirror_db_resource *theirs)
{
    bool was = mine && (a->mine.dir ? mine->is_there : mine->is_wanted);
    bool is = theirs && (a->theirs.dir ? theirs->is_there : theirs->is_wanted);
    char loc[LOC_SIZE];

    snprintf(loc, sizeof(loc), "%.*s",
             SLICE_ARG(mine ? mine->loc : theirs->loc));
    a->result.n_compared += was || is;
    if (was && is)
        diff_versions(a, loc, mine, theirs);
    else if (was || is)
        report_finding(a, was ? TD_EXTRA : TD_MISSING, loc, NULL, NULL);
}

/* Takes the lower loc of the two databases each time. */
static bool
compare_databases(struct audit *a)
{
    struct mirror_db_resource mine;
    struct mirror_db_resource theirs;
    int order = 0;

    for (bool is_first = true;; is_first = false) {
        if (!walk_on(a) ||
            (order <= 0 && !mirror_db_walk(&a->mine.db, is_first, &mine)) ||
            (order >= 0 && !mirror_db_walk(&a->theirs.db, is_first, &theirs)))
            return false;
        if (!mine.id && !theirs.id)
            return true;
        order = !mine.id     ? 1
                : !theirs.id ? -1
                             : slice_compare(mine.loc, theirs.loc);
        if (a->is_diff) {
            diff_one(a, order <= 0 ? &mine : NULL, order >= 0 ? &theirs : NULL);
            continue;
        }
        /* A file that no set wants waits for its removal. */
        if (!compare_one(a, order <= 0 ? &mine : NULL,
                         order >= 0 && theirs.is_wanted ? &theirs : NULL))
            return false;
    }
}

/* Reports a file of DIR that is in no database. */
static bool
on_file(const char *path, void *user)
{
    struct audit *a = user;
    bool is_found;

    if (!walk_on(a) || !mirror_db_has_path(&a->mine.db, path, &is_found))
        return false;
    /* The path of a resource without a noted file: that resource has its own
     * finding, and its download will take or move the file. */
    if (is_found)
        return true;
    report_finding(a, TD_EXTRA, NULL, path,
                   "no resource of the mirror is there");
    buf_add(&a->strays, path, strlen(path) + 1);
    return mirror_has_all(&a->mine, &a->strays,
                          "the list of files of no resource");
}

/* Repair */

static bool
add_set(struct audit *a, const char *url, int64_t set)
{
    return mirror_db_set(&a->mine.db, url, &set, NULL);
}

/* Adds what is held back of a set. */
static bool
add_held(struct audit *a, const char *url, int64_t mine)
{
    struct mirror_db_certainty c;

    (void)url;
    if (!mirror_db_certainty(&a->mine.db, mine, &c))
        return false;
    a->held_of += c.n_held_of;
    return true;
}

/* The mirror is as certain of a set as the source was. */
static bool
copy_certainty(struct audit *a, const char *url, int64_t mine)
{
    struct mirror_db_certainty c;
    int64_t theirs;

    if (!mirror_db_set(&a->theirs.db, url, &theirs, NULL) ||
        !mirror_db_certainty(&a->theirs.db, theirs, &c))
        return false;
    c.n_left_out_before = c.n_left_out;
    c.n_held_of = a->held_of;
    if (!mirror_db_count_held(&a->mine.db, mine, &c.n_held))
        return false;
    if (c.n_held && !c.doubt_us)
        c.doubt_us = clock_now_us();
    return mirror_db_set_certainty(&a->mine.db, mine, &c);
}

/* Copies a set of the mirror; one that the source lacks becomes empty. */
static bool
copy_theirs(struct audit *a, const char *url, int64_t mine)
{
    int64_t theirs;

    return copy_set(a, &a->theirs.db, &a->mine.db, url, mine) &&
           mirror_db_set(&a->theirs.db, url, &theirs, NULL) &&
           copy_later(a, &a->theirs.db, theirs, &a->mine.db, mine, theirs) &&
           copy_certainty(a, url, mine);
}

/* Writes lost files and the source's state in one transaction; then makes the
 * files agree. */
static bool
repair_files(struct audit *a)
{
    const struct mirror_db_counts *counts = &a->mine.db.counts;
    const char *path = a->strays.data;
    int64_t id;
    uint64_t n = n_findings(&a->result);
    uint64_t n_open;

    if (!each_set(a, &a->mine.db, add_held))
        return false;
    a->is_held = mirror_holds_back(&a->mine, a->n_removed, counts->n_have,
                                   a->is_doubtful || a->result.n_left_out
                                       ? MIRROR_LIST_IN_DOUBT
                                       : MIRROR_LIST,
                                   &a->held_of);
    if (a->is_held)
        MIRROR_REPORT(&a->mine, TD_SYNC_HELD, .n_held = a->n_removed,
                      .n_of = a->held_of);
    if (!mirror_db_begin(&a->mine.db))
        return false;
    for (size_t i = 0; i < a->lost.size; i += sizeof(id)) {
        memcpy(&id, a->lost.data + i, sizeof(id));
        if (!mirror_db_note_loss(&a->mine.db, id))
            return false;
    }
    if (!each_set(a, &a->theirs.db, add_set) ||
        !each_set(a, &a->mine.db, copy_theirs) ||
        !mirror_db_commit(&a->mine.db))
        return false;
    for (size_t i = 0; i < a->strays.size; i += strlen(path + i) + 1)
        if (mirror_dir_set_aside(a->mine.dir, path + i, NULL, &a->why))
            return false;
    sync_run_work(&a->mine, &a->why);
    n_open =
        counts->n_fetch + counts->n_remove + (a->is_held ? a->n_removed : 0);
    a->result.n_repaired = n > n_open ? n - n_open : 0;
    return !a->why.rc;
}

static void
compare_and_repair(struct audit *a)
{
    bool is_good =
        each_set(a, &a->theirs.db, judge_set) && compare_databases(a);
    uint64_t n;

    if (is_good && !mirror_dir_walk(a->mine.dir, on_file, a)) {
        is_good = false;
        if (!a->why.rc && !a->mine.why.rc)
            problem(&a->why, STATUS_IO, "cannot read the mirror: %s",
                    strerror(errno));
    }
    is_good = is_good && go_on(a);
    n = n_findings(&a->result);
    if (is_good && a->options->repair && n > 0)
        is_good = repair_files(a);
    else if (is_good && n == 0)
        is_good = each_set(a, &a->mine.db, copy_certainty);
    if (is_good && !a->is_held)
        is_good = each_set(a, &a->theirs.db, report_complete);
    if (is_good && n > a->result.n_repaired)
        problem(&a->why, STATUS_DIFFERENT,
                "the mirror is not known to be as its source: %" PRIu64
                " findings, %" PRIu64 " of them repaired",
                n, a->result.n_repaired);
    else if (is_good && a->is_doubtful)
        problem(&a->why, STATUS_DIFFERENT,
                "the mirror is as far as anybody can tell: the source is not "
                "known to be complete");
    else if (is_good && a->result.n_left_out)
        problem(&a->why, STATUS_DIFFERENT,
                "the lists of the source have %" PRIu64
                " rows that cannot be used",
                a->result.n_left_out);
}

static bool
open_all(struct audit *a, const char *dir)
{
    int64_t as_of_us;

    mirror_init(&a->theirs, a->client, &a->following);
    mirror_init(&a->mine, a->client, &a->repairing);
    a->mine.dir = mirror_dir_open(dir, false, &a->why);
    if (!a->mine.dir ||
        !mirror_open_db(&a->mine, a->mine.dir, "mirror.db", &a->why) ||
        !mirror_db_as_of(&a->mine.db, DATETIME_NONE, &as_of_us))
        return false;
    a->as_of = datetime_text_short(as_of_us);
    if (a->options->original && (a->options->repair || a->as_of.text[0]))
        return !problem(&a->why, STATUS_INVALID,
                        "originals are of now, and repair no mirror");
    if (a->as_of.text[0])
        a->following.as_of = a->repairing.as_of = a->as_of.text;
    if (!mirror_take_filter(&a->mine, &a->why))
        return false;
    a->theirs.filter = a->mine.filter;
    a->theirs.copies = a->options->original ? "via" : a->mine.copies;
    remove_old(a->mine.dir);
    return mirror_open_db(&a->theirs, a->mine.dir, AUDIT_NAME, &a->why);
}

static enum td_status
end_audit(struct audit *a, struct td_audit_result *result)
{
    mirror_fini(&a->theirs);
    if (a->mine.dir)
        remove_old(a->mine.dir);
    mirror_fini(&a->mine);
    buf_fini(&a->lost);
    buf_fini(&a->strays);
    if (result)
        *result = a->result;
    if (!a->why.rc)
        a->why = a->mine.why.rc ? a->mine.why : a->theirs.why;
    if (a->why.rc)
        client_take_problem(a->client, &a->why);
    return client_end(a->client, a->why.rc);
}

void
td_full_audits(struct td_client *client, int reads_all)
{
    client->reads_all = reads_all != 0;
}

enum td_status
td_audit(struct td_client *client, const char *url, const char *dir,
         const struct td_audit_options *options, struct td_audit_result *result)
{
    static const struct td_audit_options none;
    struct audit a = {.client = client,
                      .options = options ? options : &none,
                      .lost.max = LISTS_MAX,
                      .strays.max = LISTS_MAX};
    struct td_sync_options wishes = {
        .per_host = a.options->per_host,
        .max_delete_percent = a.options->max_delete_percent,
        .accept_deletions = a.options->accept_deletions,
        .until_caught_up = 1,
        .on_event = a.options->on_event,
        .user = a.options->user,
    };
    struct td_sync_options asking = {.on_event = on_asking, .user = &a};
    const char *first; /* set of the source: the result has its position */
    int64_t set;

    client_begin(client);
    mirror_defaults(&a.following, &asking);
    mirror_defaults(&a.repairing, &wishes);
    host_places_set(&client->places, a.repairing.per_host);
    if (!dir || !dir[0])
        problem(&a.why, STATUS_INVALID, "no directory was given");
    else if (open_all(&a, dir) && ask_sources(&a, url) &&
             change_each(&a, &a.theirs.db, keep_later) &&
             mirror_db_next_set(&a.theirs.db, 0, &set, &first) &&
             (!set ||
              mirror_db_set(&a.theirs.db, first, &set, a.result.position)))
        compare_and_repair(&a);
    return end_audit(&a, result);
}

/* A mirror does not know which of its resources would pass. */
static bool
has_part(const struct mirror *m, const char *side, const struct filter *part,
         struct problem *why)
{
    return slice_equal(filter_text(&m->filter), filter_text(part)) ||
           !problem(why, STATUS_INVALID, "%s is the mirror of another part: %s",
                    side, m->db.filter[0] ? m->db.filter : "all");
}

/* Opens one state: of the mirror in the directory `side`, or of the source at
 * that URL. */
static bool
open_side(struct audit *a, struct mirror *m, const char *side)
{
    bool is_web = strstr(side, "://");
    const char *part = a->options->filter;
    struct filter filter = m->filter;

    if (part && part_filter_read(&filter, part, &a->why))
        return false;
    m->filter = filter;
    if ((!is_web && !(m->dir = mirror_dir_open(side, false, &a->why))) ||
        !mirror_open_db(m, m->dir, is_web ? "" : "mirror.db", &a->why) ||
        (m->dir && !mirror_take_filter(m, &a->why)) ||
        (part && !has_part(m, side, &filter, &a->why)) ||
        (is_web && sync_run_source(m, side, true, &a->why)))
        return false;
    a->theirs.filter = m->filter; /* what a mirror has a part of */
    mirror_judge(m, &a->doubt);
    return !m->why.rc;
}

/* Checks what is asked for before anything is read. */
static bool
are_times(struct audit *a, const char *const as_of[2])
{
    for (size_t i = 0; i < 2; i++) {
        const struct td_follow_options how = {.as_of = as_of[i]};

        if (follow_options_check(&how, false, NULL, &a->why))
            return false;
    }
    return true;
}

enum td_status
td_diff(struct td_client *client, const char *const sides[2],
        const char *const as_of[2], const struct td_audit_options *options,
        struct td_audit_result *result)
{
    struct audit a = {.client = client, .options = options, .is_diff = true};
    struct td_sync_options how = {
        .on_event = on_asking, .user = &a, .as_of = as_of[0]};

    client_begin(client);
    mirror_defaults(&a.repairing, &how);
    how.as_of = as_of[1];
    mirror_defaults(&a.following, &how);
    mirror_init(&a.mine, client, &a.repairing);
    mirror_init(&a.theirs, client, &a.following);
    if (are_times(&a, as_of) && open_side(&a, &a.mine, sides[0]) &&
        open_side(&a, &a.theirs, sides[1]) &&
        (!a.mine.dir || a.theirs.dir || as_of[0] || as_of[1] ||
         change_each(&a, &a.theirs.db, keep_later)) &&
        compare_databases(&a)) {
        a.result.is_partial = a.doubt.rc != STATUS_OK;
        if (n_findings(&a.result) || a.doubt.rc)
            problem(&a.why, STATUS_DIFFERENT, "%" PRIu64 " difference%s%s%s",
                    n_findings(&a.result),
                    n_findings(&a.result) == 1 ? "" : "s",
                    a.doubt.rc ? "; " : "", a.doubt.text);
    }
    return end_audit(&a, result);
}
