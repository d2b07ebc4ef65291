/*
 * set_sync.c - follows one set into the database.
 */
#include "client/mirror/set_sync.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "client/follow/follower.h"
#include "client/mirror/duplicate_links.h"
#include "client/mirror/file_sync.h"
#include "client/mirror/mirror.h"
#include "proto/change.h"
#include "proto/datetime.h"
#include "proto/digest.h"

/* Silence after which a history counts as read, if the source does not send a
 * heartbeat. It only avoids downloads that a change would overtake. */
#define QUIET_MS 1000

/* A source that is never silent does not block downloads for ever: after this
 * time they begin beside its history. */
#define BEHIND_MOST_MS 5000

#define TEXT_MAX (4 * 1024 * 1024) /* of hash and links of a change */

struct set_sync {
    struct mirror *m;
    struct set_sync_events events;
    char *url;
    char *scratch; /* NULL: no dumps */
    char *listing; /* NULL: a temporary one */
    int64_t set;
    char position[TD_POSITION_SIZE];
    struct td_follower *follower;
    struct timer *quiet;
    struct buf hash;
    struct buf links;
    bool is_behind;
    bool has_arrived; /* changes are new ones, not history */
    int64_t behind_since_ms;
    bool is_heard;      /* the last message was a heartbeat */
    bool is_current;    /* the source has nothing behind the position */
    struct problem why; /* why it ended itself */
};

static int64_t
time_of(const char *text)
{
    int64_t us;

    return text && !datetime_read_any(slice_of(text), &us) ? us : DATETIME_NONE;
}

/* Converts a change for the database. False: no memory. */
static bool
telling_of(struct set_sync *f, const struct td_change *c, bool is_baseline,
           struct mirror_db_description *t)
{
    buf_clear(&f->hash);
    buf_clear(&f->links);
    /* Drops digests of unknown algorithms. */
    if (c->hash &&
        hash_normalise(&f->hash, slice_of(c->hash), NULL) == STATUS_MEMORY)
        return false;
    duplicate_links_write(&f->links, c);
    *t = (struct mirror_db_description){
        .loc = slice_of(c->loc),
        .is_baseline = is_baseline,
        .is_deleted =
            !is_baseline && c->change && !strcmp(c->change, "deleted"),
        .when_us = time_of(c->datetime),
        .lastmod_us = time_of(c->lastmod),
        .hash = buf_slice(&f->hash),
        .length = c->length,
        .type = slice_of(c->type),
        .encoding = slice_of(c->encoding),
        .links = buf_slice(&f->links),
    };
    if (t->when_us == DATETIME_NONE)
        t->when_us = is_baseline ? t->lastmod_us : clock_now_us();
    return !f->hash.failed && !f->links.failed;
}

/* Gives a file of a dump, with checked digests, to work, unless the database
 * wants another one, has it already, or it is too large. */
static bool
take_file(struct set_sync *f, const struct td_change *c, int64_t id)
{
    struct mirror *m = f->m;
    uint64_t max_file = m->client->room.limits.max_file_bytes;
    struct mirror_db_resource r;
    bool is_found;
    bool is_there = false;
    bool is_taken;

    if (!file_sync_make_room(m->work))
        return false;
    if (!mirror_db_get(m->db, id, &r, &is_found)) {
        mirror_fail_db(m);
        return false;
    }
    if (!is_found || r.todo != MIRROR_DB_FETCH || r.length != c->length ||
        !slice_equal(r.hash, buf_slice(&f->hash)) ||
        (max_file && c->length != LENGTH_NONE && c->length > max_file))
        return true;
    if (!mirror_write(m) ||
        (!r.is_there && !file_sync_make_way(m, &r, &is_there)) ||
        !file_sync_take(m->work, &r, is_there ? NULL : c->file, &is_taken))
        return false;
    if (is_taken && !is_there)
        m->bytes_done += c->length == LENGTH_NONE ? 0 : c->length;
    return true;
}

static bool
report_change(struct set_sync *f, const struct td_change *c, bool is_baseline)
{
    struct mirror *m = f->m;
    struct mirror_db_description t;
    struct problem why = {.text = ""};
    int64_t id;

    if (!c->loc)
        return true;
    if (is_baseline && !mirror_write(m))
        return false;
    if (!telling_of(f, c, is_baseline, &t)) {
        problem_clear(&why);
        problem_memory(&why);
        mirror_fail(m, &why);
        return false;
    }
    if (!mirror_db_describe(m->db, f->set, &t, &id)) {
        mirror_fail_db(m);
        return false;
    }
    if (source_limits_check_resources(
            &m->client->room, mirror_db_counts(m->db)->n_resources, &why)) {
        mirror_fail(m, &why);
        return false;
    }
    /* Not for changes: keep() may yet refuse the message. */
    return !is_baseline || !c->file || take_file(f, c, id);
}

/* Reports a refusal; the guard let `n_before` of the `n` pass. */
static void
refuse_deletions(struct set_sync *f, uint64_t n, uint64_t n_of,
                 uint64_t n_before, const char *when)
{
    uint64_t percent = n_of ? (n * 100 + n_of - 1) / n_of : 100;
    char done[120] = "nothing of it was done";

    if (percent > 100)
        percent = 100;
    if (n_before)
        snprintf(
            done, sizeof(done),
            "%" PRIu64
            " of them were reported before and are deleted, the others are not",
            n_before);
    problem(&f->why, STATUS_REFUSED,
            "%s %s wants %" PRIu64 " of %" PRIu64 " files deleted (%" PRIu64
            " %%), more than the %d %% that are allowed; %s. If that is "
            "right, run it again with --max-delete %" PRIu64 ", or none",
            when, f->url, n, n_of, percent, f->m->options->max_delete_percent,
            done, percent);
}

static bool
reach_position(struct set_sync *f, const char *position)
{
    if (!position)
        return true;
    return mirror_db_set_position(f->m->db, f->set, position);
}

/* Each returns false where the feed, or all, is to end. */

static bool
on_changes(struct set_sync *f, const struct td_message *message)
{
    struct mirror_db *db = f->m->db;
    uint64_t n;
    uint64_t n_of;
    uint64_t n_before;

    for (size_t i = 0; i < message->n_changes; i++)
        if (!report_change(f, &message->changes[i], false))
            return false;
    if (!mirror_db_removals(db, &n, &n_of) ||
        !reach_position(f, message->position)) {
        mirror_fail_db(f->m);
        return false;
    }
    if (!mirror_is_too_much(f->m, n, n_of))
        return true;
    mirror_db_rollback(db);
    if (mirror_db_removals(db, &n_before, &(uint64_t){0}))
        refuse_deletions(f, n, n_of, n_before, "in one hour");
    else
        mirror_fail_db(f->m);
    return false;
}

static bool
on_baseline_end(struct set_sync *f, const struct td_message *message)
{
    struct mirror_db *db = f->m->db;
    uint64_t n_of;
    uint64_t n;

    if (!mirror_db_baseline_end(db, f->set, &n) ||
        !reach_position(f, message->position)) {
        mirror_fail_db(f->m);
        return false;
    }
    n_of = mirror_db_counts(db)->n_have;
    if (!mirror_is_too_much(f->m, n, n_of))
        return true;
    mirror_db_rollback(db);
    refuse_deletions(f, n, n_of, 0, "the new baseline of");
    return false;
}

static bool
apply_message(struct set_sync *f, const struct td_message *message)
{
    switch (message->kind) {
    case TD_BASELINE_BEGIN:
        if (mirror_db_baseline_begin(f->m->db, f->set))
            return true;
        mirror_fail_db(f->m);
        return false;
    case TD_BASELINE:
        for (size_t i = 0; i < message->n_changes; i++)
            if (!report_change(f, &message->changes[i], true))
                return false;
        return true;
    case TD_BASELINE_END:
        return on_baseline_end(f, message);
    default:
        return on_changes(f, message);
    }
}

/* Stores a message and its position in one transaction. The resources of a
 * baseline come without a position before its end: they share transactions. */
static bool
keep_message(struct set_sync *f, const struct td_message *message)
{
    struct mirror *m = f->m;

    if (message->kind == TD_BASELINE)
        return apply_message(f, message);
    if (!mirror_settle(m) || !mirror_has_room(m))
        return false;
    if (!mirror_db_begin(m->db)) {
        mirror_fail_db(m);
        return false;
    }
    if (!apply_message(f, message)) {
        mirror_db_rollback(m->db);
        return false;
    }
    if (!mirror_db_commit(m->db)) {
        mirror_fail_db(m);
        return false;
    }
    return true;
}

/* A history begins. */
static void
set_out(struct set_sync *f)
{
    f->has_arrived = false;
    f->is_heard = false;
    f->behind_since_ms = clock_steady_ms();
}

/* A connection begins with a heartbeat anywhere in the history. The set is
 * current if a second one follows without changes between, or after a quiet
 * while. */
static void
note_heartbeat(struct set_sync *f)
{
    f->has_arrived = true;
    f->is_current = f->is_current || f->is_heard;
    if (!f->is_heard)
        timer_start(f->quiet, QUIET_MS);
    f->is_heard = true;
}

static void
note_where(struct set_sync *f, const struct td_message *message)
{
    bool is_heartbeat = message->kind == TD_CHANGES && !message->n_changes;

    if (!is_heartbeat)
        f->is_current = f->is_heard = false;
    if (is_heartbeat)
        note_heartbeat(f);
    else if (message->kind != TD_CHANGES)
        set_out(f);
    else if (clock_steady_ms() - f->behind_since_ms > BEHIND_MOST_MS)
        f->has_arrived = true;
    f->is_behind = message->kind == TD_CHANGES && !f->has_arrived;
    if (f->is_behind)
        timer_start(f->quiet, QUIET_MS);
    if (message->position && strlen(message->position) < sizeof(f->position))
        strcpy(f->position, message->position);
    if (message->kind == TD_BASELINE_BEGIN)
        mirror_tell(
            f->m, TD_SYNC_BASELINE,
            &(struct td_sync_event){.set = f->url, .why = message->reason});
    if (message->kind == TD_BASELINE_END)
        mirror_tell(f->m, TD_SYNC_BASELINED,
                    &(struct td_sync_event){.set = f->url,
                                            .position = message->position});
}

static int
on_message(const struct td_message *message, void *user)
{
    struct set_sync *f = user;
    struct mirror *m = f->m;
    bool is_nothing =
        message->kind == TD_CHANGES && !message->n_changes &&
        (!message->position || !strcmp(message->position, f->position));

    if (m->is_over || f->why.rc)
        return 1;
    if (!is_nothing) {
        if (!keep_message(f, message))
            return 1;
        m->has_news = true;
    }
    note_where(f, message);
    f->events.on_news(f, f->events.user);
    return m->is_over;
}

static void
on_quiet(void *user)
{
    struct set_sync *f = user;

    f->is_behind = false;
    f->has_arrived = true;
    f->is_current = f->is_current || f->is_heard;
    f->events.on_news(f, f->events.user);
}

static void
on_listed(uint64_t n_resources, void *user)
{
    struct set_sync *f = user;

    mirror_tell(
        f->m, TD_SYNC_PROGRESS,
        &(struct td_sync_event){.set = f->url, .n_listed = n_resources});
}

static void
on_trouble(const char *why, unsigned pause_ms, void *user)
{
    struct set_sync *f = user;
    char text[1200];

    (void)pause_ms;
    f->is_behind = false;
    snprintf(text, sizeof(text), "%s; it is tried again", why);
    set_out(f);
    mirror_tell(f->m, TD_SYNC_TROUBLE,
                &(struct td_sync_event){.set = f->url, .why = text});
    f->events.on_news(f, f->events.user);
}

static void
on_end(const struct problem *why, void *user)
{
    struct set_sync *f = user;

    f->is_behind = false;
    f->is_current = why->rc == STATUS_OK && !f->why.rc;
    timer_stop(f->quiet);
    if (!f->why.rc)
        f->why = *why;
    if (f->why.is_limit) /* of all sets: nothing more is fetched */
        mirror_fail(f->m, &f->why);
    f->events.on_end(f, &f->why, f->events.user);
}

/* Life cycle */

static enum status
follow_set(struct set_sync *f, bool until_caught_up, struct problem *why)
{
    const struct td_sync_options *o = f->m->options;
    struct td_follow_options how = {
        .after = f->position[0] ? f->position : NULL,
        .form = TD_JSON,
        .on_trouble = on_trouble,
        .on_progress = on_listed,
        .poll_ms = o->poll_ms,
        .baseline = TD_BASELINE_FIRST,
        .scratch = f->scratch,
        .listing = f->listing,
        .max_delete_percent = o->max_delete_percent,
        .until_caught_up = until_caught_up,
        .patience_ms = o->patience_ms,
    };

    return follower_new(f->m->client, f->url, &how, on_message, f, on_end, f,
                        &f->follower, why);
}

struct set_sync *
set_sync_open(struct mirror *m, const char *url, bool until_caught_up,
              const struct set_sync_events *events, struct problem *why)
{
    struct set_sync *f = calloc(1, sizeof(*f));

    problem_clear(why);
    problem_memory(why);
    if (!f)
        return NULL;
    f->m = m;
    f->events = *events;
    f->url = strdup(url);
    f->quiet = timer_new(m->client->loop, on_quiet, f);
    f->is_behind = true;
    set_out(f);
    buf_init(&f->hash, TEXT_MAX);
    buf_init(&f->links, TEXT_MAX);
    if (!f->url || !f->quiet)
        goto fail;
    if (!mirror_db_set(m->db, url, &f->set, f->position)) {
        problem(why, STATUS_IO, "%s", mirror_db_trouble(m->db));
        goto fail;
    }
    if (m->dir && !m->options->has_no_dumps) {
        f->scratch = mirror_dir_make_scratch(m->dir, f->set, why);
        if (!f->scratch)
            goto fail;
    }
    if (m->dir && !(f->listing = mirror_dir_listing(m->dir, f->set)))
        goto fail;
    timer_start(f->quiet, QUIET_MS);
    if (!follow_set(f, until_caught_up, why))
        return f;
fail:
    set_sync_close(f);
    return NULL;
}

void
set_sync_close(struct set_sync *f)
{
    if (!f)
        return;
    td_follower_close(f->follower);
    timer_free(f->quiet);
    buf_fini(&f->hash);
    buf_fini(&f->links);
    free(f->url);
    free(f->scratch);
    free(f->listing);
    free(f);
}

const char *
set_sync_url(const struct set_sync *f)
{
    return f->url;
}

const char *
set_sync_position(const struct set_sync *f)
{
    return f->position;
}

bool
set_sync_is_behind(const struct set_sync *f)
{
    return f->is_behind;
}

bool
set_sync_is_current(const struct set_sync *f)
{
    return f->is_current;
}

int64_t
set_sync_set(const struct set_sync *f)
{
    return f->set;
}
