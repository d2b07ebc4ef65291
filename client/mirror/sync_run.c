/*
 * sync_run.c - follows all sets of a source into the database, until there is a
 * reason to end.
 *
 *     discovery --> feeds of sets -+--> all caught up, nothing left to do: end
 *         ^    |                   +--> one failed: an event, others go on
 *         +----+ unreachable       +--> all failed, or mirror_fail: end
 *
 * visit_schedule.h says which feed is next. While it follows, it looks again
 * from time to time (td_sync_options.poll_ms) and follows new sets, too. A set
 * that the source names and nobody can read has failed. sync_run_source notes
 * the source in the database once it has answered as one.
 *
 * Blocks. With m->work the files follow the database; without (an audit), only
 * the database changes.
 */

#include <fcntl.h>

#include "base/clock.h"
#include "client/follow/follower.h"
#include "client/lib/host_places.h"
#include "client/mirror/change_packages.h"
#include "client/mirror/file_sync.h"
#include "client/source/source_sets.h"
#include "proto/resourcesync/change.h"
#include "proto/resourcesync/digest.h"

/*
 * One set, followed into the database.
 *
 *     on_open --> messages, a transaction each --> on_set_end
 *        +-----> on_close                           at any moment
 *
 * Of a message that would remove too much (td_sync_options.max_delete_percent)
 * the deletions are held back, and all else counts. So they are when a reading
 * of the list may lack resources.
 *
 * Since when a set is known to be complete, or why that is not known (R-430 to
 *
 *
 *     baseline, comparison, whole list --+--> no doubt: complete as of its time
 *                                        +--> a doubt in it, or deletions
 *                                             held back: not complete
 *     a history that proves itself ----------> complete when caught up
 *
 * Each change of that is an event, and in the database with the next commit.
 */

/* Of many sets, one is always behind: after this time their histories no longer
 * hold up the downloads. */
#define HOLD_MOST_MS 10000

/* Silence after which a history counts as read, if the source does not send a
 * heartbeat. It only avoids downloads that a change would overtake. */
#define QUIET_MS 1000

/* A source that is never silent does not block downloads for ever: after this
 * time they begin beside its history. */
#define BEHIND_MOST_MS 5000

#define TEXT_MAX (4 * 1024 * 1024) /* of hash and links of a change */

/* Subtracted from our own clock, where a list does not say when it was true. */
#define CLOCK_MARGIN_US (3600ll * 1000000)

struct run {
    struct mirror *m;
    const char *url;
    struct source_sets tour;
    struct shared_stream shared;
    int64_t begun_ms;
    size_t n_packing;   /* sets with `packages`: no single downloads */
    bool has_searched;  /* searches_dumps */
    struct problem why; /* of the tour */
};

/* A set of the source. */
struct set_sync {
    struct run *run;
    struct mirror *m;
    size_t number;   /* in run->tour */
    const char *url; /* the tour's */
    int64_t set;     /* in the database; 0: not known yet */
    char position[TD_POSITION_SIZE];
    char mark[TD_POSITION_SIZE];     /* that and its digest */
    char reported[TD_POSITION_SIZE]; /* TD_SYNC_CAUGHT_UP */
    bool is_current;  /* the source has nothing behind the position */
    int64_t signed_s; /* td_follower_signed_s */
    struct change_packages *packages; /* of what it has missed, or NULL */

    /* While it is open. */
    struct td_follower *follower;
    struct timer quiet;
    struct buf hash;
    struct buf links;
    bool is_behind;
    bool has_arrived; /* changes are new ones, not history */
    bool is_away;     /* may have missed changes: a Change Dump may have them */
    int64_t behind_since_ms;
    struct mirror_db_certainty certainty;
    bool is_complete;       /* TD_SYNC_COMPLETE waits for the files */
    bool is_doubted;        /* since the reading of the list began */
    bool is_reported;       /* rows were left out since then */
    int64_t listed_us;      /* of that, before this look at the changes */
    uint64_t n_rows;        /* of the list that is read */
    int64_t ordered_us;     /* rows of later changes wait for the list's end */
    bool is_comparison;     /* the baseline that is under way */
    bool is_baselined;      /* no heartbeat came since the last baseline */
    bool is_refiltered;     /* resources not described anew do not pass */
    bool is_compared;       /* by this feed, or that is asked for */
    bool is_held;           /* the deletions of this message are held back */
    uint64_t n_listed_held; /* by the follower, of its list's ... */
    uint64_t n_listed;      /* ... resources */
    bool is_timed;          /* times say what has changed, no proven numbers */
    int64_t begun_us;       /* when the baseline began */
    char unknown[600];  /* of this message: a deleted loc that nobody knows */
    struct problem why; /* why it ended itself */
};

/* The database or the position of the set has changed. */
static void
report_news(const struct set_sync *f)
{
    if (f->m->work)
        file_sync_poke(f->m->work);
    source_sets_turn(&f->run->tour);
}

/* Keeps the certainty. False: mirror_fail was called. */
static bool
keep_certainty(struct set_sync *f)
{
    return mirror_write(f->m) &&
           mirror_db_set_certainty(&f->m->db, f->set, &f->certainty);
}

static bool
note_doubt(struct set_sync *f, const char *why)
{
    f->is_doubted = true;
    if (!f->certainty.doubt_us)
        f->certainty.doubt_us = clock_now_us();
    snprintf(f->certainty.doubt, sizeof(f->certainty.doubt), "%s", why);
    MIRROR_REPORT(f->m, TD_SYNC_DOUBT, .set = f->url, .why = why);
    return keep_certainty(f);
}

/* The reading of a list of all resources ends: if its deletions counted
 * (`is_applied`), the set was as the mirror has it now at `as_of_us`, according
 * to the follower's list. */
static bool
end_reading(struct set_sync *f, int64_t as_of_us, bool is_applied)
{
    struct mirror_db_certainty *c = &f->certainty;
    const struct offered *o = &f->follower->offered;
    const char *by = o->resource_list ? o->resource_list : o->resource_dump;

    if (!f->is_reported) {
        c->n_left_out = 0;
        c->left_out[0] = '\0';
    }
    c->compared_us = clock_now_us();
    if (as_of_us > c->listed_us)
        c->listed_us = as_of_us;
    if (is_applied)
        c->n_left_out_before = c->n_left_out;
    if (!f->is_doubted)
        c->doubt[0] = '\0';
    f->is_complete = !f->is_doubted && is_applied;
    if (f->is_complete) {
        c->doubt_us = 0;
        /* The source's clock may be ahead: nobody knows the future. */
        c->complete_us = datetime_earlier(as_of_us, clock_now_us());
        snprintf(c->complete_by, sizeof(c->complete_by), "%s", by ? by : "");
    }
    f->is_doubted = f->is_reported = false;
    return keep_certainty(f);
}

bool
mirror_describe(struct mirror *m, const struct td_change *c, bool is_baseline,
                struct buf *hash, struct buf *links,
                struct mirror_db_description *t)
{
    buf_clear(hash);
    buf_clear(links);
    /* Drops digests of unknown algorithms. */
    if (c->hash &&
        hash_normalise(hash, slice_of(c->hash), NULL) == STATUS_MEMORY)
        return false;
    /* Of a past time without a digest, a duplicate may be a later version. */
    if (!m->options->as_of || hash->size)
        duplicate_links_write(links, c, m->copies);
    if (m->options->as_of)
        duplicate_links_write(links, c, "memento");
    *t = (struct mirror_db_description){
        .loc = slice_of(c->loc),
        .is_baseline = is_baseline,
        .is_deleted =
            !is_baseline && c->change && !strcmp(c->change, "deleted"),
        .when_us = datetime_of(slice_of(c->datetime)),
        .lastmod_us = datetime_of(slice_of(c->lastmod)),
        .hash = buf_slice(hash),
        .length = c->length,
        .type = slice_of(c->type),
        .encoding = slice_of(c->encoding),
        .links = buf_slice(links),
    };
    if (t->when_us == DATETIME_NONE) /* an audit only compares what was sent */
        t->when_us = is_baseline || !m->dir ? t->lastmod_us : clock_now_us();
    return !hash->failed && !links->failed;
}

static bool
describe_change(struct set_sync *f, const struct td_change *c, bool is_baseline,
                struct mirror_db_description *t)
{
    if (!mirror_describe(f->m, c, is_baseline, &f->hash, &f->links, t))
        return false;
    t->is_held = f->is_held;
    t->is_noted = !is_baseline && f->is_timed;
    t->is_final = t->is_noted && !f->m->dir;
    return true;
}

/* a change that comes after a list counts as later than the list, even
 * if the source gives it an earlier time. One of the very time of the list that
 * this look has read, or without a time, came behind that list, too. */
static void
place_behind_list(const struct set_sync *f, bool has_time,
                  struct mirror_db_description *t)
{
    int64_t listed_us = f->certainty.listed_us;

    if (has_time && t->when_us != listed_us)
        listed_us = f->listed_us;
    if (f->m->dir && listed_us && t->when_us <= listed_us)
        t->when_us = listed_us + 1;
}

/* what a list says of a resource that changed after the last list waits
 * for its end, which brings its time; so does all of a comparison. */
static bool
decide_wait(struct set_sync *f, struct slice loc, bool *waits)
{
    *waits = f->is_comparison;
    return *waits || f->ordered_us == INT64_MAX ||
           mirror_db_is_later(&f->m->db, f->set, loc, f->ordered_us, waits);
}

static bool
report_change(struct set_sync *f, const struct td_change *c, bool is_baseline)
{
    struct mirror *m = f->m;
    struct mirror_db_description t;
    struct problem why = {""};
    int64_t id, stated_us;
    bool is_out, waits = false;

    if (!c->loc)
        return true;
    if (is_baseline && !mirror_write(m))
        return false;
    is_out = !part_filter_passes(&f->m->filter, c, &f->links);
    if (is_baseline && is_out)
        return true;
    if (!describe_change(f, c, is_baseline, &t))
        return mirror_fail_memory(m);
    t.is_deleted |= is_out; /* it may have passed before */
    stated_us = t.when_us;
    if (!is_baseline)
        place_behind_list(f, c->datetime || c->lastmod, &t);
    if (is_baseline && !decide_wait(f, t.loc, &waits))
        return false;
    if (waits)
        return mirror_db_compare(&m->db, f->set, &t);
    if (!mirror_db_describe(&m->db, f->set, &t, &id))
        return false;
    if (t.is_deleted && !is_out && !id && stated_us > f->certainty.complete_us)
        snprintf(f->unknown, sizeof(f->unknown), "%s", c->loc);
    if (source_limits_check_resources(&m->client->room,
                                      m->db.counts.n_resources, &why))
        return mirror_fail(m, &why);
    /* Not for changes: the message may yet be applied in another way. */
    return !is_baseline || !c->file || file_sync_adopt(m->work, &t, c->file);
}

/* Reports how many deletions are held back now, by the follower and by the
 * database: if the number is another one, or `is_again`. */
static bool
report_held(struct set_sync *f, bool is_again)
{
    struct mirror_db *db = &f->m->db;
    struct mirror_db_certainty *c = &f->certainty;
    uint64_t n;

    if (!mirror_db_count_held(db, f->set, &n))
        return false;
    if (n && !c->n_held_of)
        c->n_held_of = db->counts.n_resources;
    if (f->n_listed_held && f->n_listed > c->n_held_of)
        c->n_held_of = f->n_listed; /* new ones follow */
    n += f->n_listed_held;
    if (n == c->n_held && !(is_again && n))
        return true;
    c->n_held = n;
    if (!n)
        c->n_held_of = 0;
    if (!n && !c->doubt[0])
        c->doubt_us = 0;
    else if (!c->doubt_us)
        c->doubt_us = clock_now_us();
    MIRROR_REPORT(f->m, TD_SYNC_HELD, .set = f->url, .n_held = n,
                  .n_of = c->n_held_of);
    return keep_certainty(f);
}

/* Each returns false where the feed, or all, is to end. */

static bool
apply_changes(struct set_sync *f, const struct td_message *message)
{
    f->unknown[0] = '\0';
    f->is_timed = message->position && message->position[0] == '@';
    for (size_t i = 0; i < message->n_changes; i++)
        if (!report_change(f, &message->changes[i], false))
            return false;
    return true;
}

/* Begins the transaction of the message anew. */
static bool
begin_again(struct set_sync *f)
{
    mirror_db_rollback(&f->m->db);
    return mirror_db_begin(&f->m->db);
}

static bool
keep_place(struct set_sync *f, const struct td_message *message)
{
    char mark[TD_POSITION_SIZE];

    td_message_mark(message, mark);
    return !mark[0] || mirror_db_set_position(&f->m->db, f->set, mark);
}

static bool
on_baseline_end(struct set_sync *f, const struct td_message *message)
{
    struct mirror_db *db = &f->m->db;
    int64_t as_of_us =
        datetime_of(slice_of(message->as_of)); /* when the list was true */
    bool is_timed = f->is_comparison || as_of_us != DATETIME_NONE;
    struct mirror_db_end end = {.as_of_us = INT64_MAX};
    uint64_t n_of = db->counts.n_have;
    uint64_t n;
    /* All resources come as changes, or have come. */
    bool follows_all =
        f->is_refiltered ||
        (!f->n_rows && slice_ends(slice_of(message->position), "-0"));
    /* The reading may lack resources that the source has, or has left out more
     * rows than the last one whose deletions counted. */
    bool is_weak = f->is_doubted ||
                   (f->is_reported &&
                    f->certainty.n_left_out > f->certainty.n_left_out_before);

    if (as_of_us == DATETIME_NONE)
        as_of_us = f->begun_us - (f->is_comparison ? CLOCK_MARGIN_US : 0);
    if (is_timed && !f->is_refiltered)
        end.as_of_us = as_of_us;
    if (!mirror_db_baseline_end(db, f->set, &end, &n))
        return false;
    if (!f->n_rows && !f->is_refiltered)
        n_of = n; /* the list lacks all that it could have */
    end.is_held = mirror_holds_back(f->m, n, n_of,
                                    is_weak       ? MIRROR_LIST_IN_DOUBT
                                    : follows_all ? MIRROR_TOLD
                                                  : MIRROR_LIST,
                                    &f->certainty.n_held_of);
    if (end.is_held &&
        (!begin_again(f) || !mirror_db_baseline_end(db, f->set, &end, &n)))
        return false;
    f->is_comparison = f->is_refiltered = false;
    return keep_place(f, message) && end_reading(f, as_of_us, !end.is_held);
}

static bool
apply_message(struct set_sync *f, const struct td_message *message)
{
    uint64_t n, n_of, held_of = 0;
    bool is_good;

    switch (message->kind) {
    case TD_BASELINE_BEGIN:
        f->is_comparison = message->is_comparison;
        f->begun_us = clock_now_us();
        f->is_doubted = f->is_reported = false;
        f->ordered_us = f->mark[0] == '@' ? f->listed_us : INT64_MAX;
        f->n_rows = 0;
        return mirror_db_baseline_begin(&f->m->db, f->set);
    case TD_BASELINE:
        f->n_rows += message->n_changes;
        for (size_t i = 0; i < message->n_changes; i++)
            if (!report_change(f, &message->changes[i], true))
                return false;
        return true;
    case TD_BASELINE_END:
        return on_baseline_end(f, message);
    default:
        if (!apply_changes(f, message) ||
            !mirror_db_removals(&f->m->db, &n, &n_of))
            return false;
        if (mirror_holds_back(f->m, n, n_of, MIRROR_TOLD, &held_of)) {
            f->is_held = true;
            is_good = begin_again(f) && apply_changes(f, message);
            f->is_held = false;
            if (!is_good)
                return false;
        }
        return keep_place(f, message);
    }
}

/* Takes the bytes that came with changes, from the package of a Change Dump
 * once the message is kept. Of a resource that changed twice, the last
 * ones: so it goes backwards. */
static bool
take_files(struct set_sync *f, const struct td_message *message)
{
    struct mirror *m = f->m;

    for (size_t i = message->n_changes; m->work && i-- > 0;) {
        const struct td_change *c = &message->changes[i];
        struct mirror_db_description t;

        if (!c->file || !c->loc)
            continue;
        if (!describe_change(f, c, false, &t))
            return mirror_fail_memory(m);
        t.when_us = DATETIME_NONE; /* that of report_change may be another */
        if (!file_sync_adopt(m->work, &t, c->file))
            return false;
    }
    return true;
}

/* Wants files again that came in the middle of a second. */
static bool
renew_files(struct mirror *m)
{
    return !m->dir ||
           (mirror_write(m) && mirror_db_renew(&m->db, clock_now_us()));
}

/* Asks for a comparison with the source's list, where only times say
 * what has changed: when a deletion does not fit; once in a run that ends; and
 * when the last one, perhaps of an earlier run, was long ago. */
static bool
suspect_loss(struct set_sync *f, const struct td_message *message)
{
    const struct td_sync_options *o = f->m->options;
    int64_t age_us = clock_now_us() - f->certainty.compared_us;
    char why[600] = "this run compares, too";

    f->is_compared |= message->kind == TD_BASELINE_END;
    if (!message->position || message->position[0] != '@' ||
        message->kind != TD_CHANGES)
        return true;
    if (f->unknown[0]) {
        snprintf(why, sizeof(why),
                 "the deletion of %.500s was reported, which is not known",
                 f->unknown);
        f->unknown[0] = '\0';
        if (!note_doubt(f, why))
            return false;
    } else if (!f->m->dir || f->is_compared ||
               (!o->until_caught_up &&
                age_us < (int64_t)o->compare_ms * 1000)) {
        return true;
    }
    f->is_compared = true;
    td_follower_compare(f->follower, why);
    return true;
}

/* What follows from a message that is kept. */
static bool
judge_message(struct set_sync *f, const struct td_message *message)
{
    bool is_heartbeat = message->kind == TD_CHANGES && !message->n_changes;

    /* The whole history was read, in place of a baseline. */
    if (f->is_refiltered && message->is_caught_up &&
        !(mirror_write(f->m) && on_baseline_end(f, message) &&
          mirror_db_commit(&f->m->db)))
        return false;
    if ((message->kind == TD_CHANGES && !take_files(f, message)) ||
        !suspect_loss(f, message))
        return false;
    /* The follower has compared the whole list with the last one. */
    if (is_heartbeat && follower_has_only_list(f->follower) &&
        !f->is_baselined && !end_reading(f, clock_now_us(), !f->n_listed_held))
        return false;
    if (!f->m->options->until_caught_up && !renew_files(f->m))
        return false;
    if (is_heartbeat) {
        f->is_baselined = false;
        f->listed_us = f->certainty.listed_us;
    }
    f->is_baselined |= message->kind == TD_BASELINE_END;
    return message->kind == TD_BASELINE || is_heartbeat ||
           report_held(f, false);
}

/* A history begins. */
static void
set_out(struct set_sync *f)
{
    f->has_arrived = false;
    f->is_away = true;
    f->behind_since_ms = clock_steady_ms();
}

static void
on_packages_end(void *user)
{
    struct set_sync *f = user;

    f->packages = NULL;
    f->run->n_packing--;
    source_sets_turn(&f->run->tour);
}

static void
start_packages(struct set_sync *f, const char *dump, const char *archive)
{
    if (!f->m->work || !(dump || archive) || f->packages ||
        f->m->options->has_no_dumps)
        return;
    f->packages =
        change_packages_start(f->m, f->set, dump ? dump : archive,
                              dump ? archive : NULL, on_packages_end, f);
    f->run->n_packing++;
    if (!f->packages)
        mirror_fail_memory(f->m);
}

/* Looks at the Change Dump, once the set has read what it may have missed. */
static void
look_for_packages(struct set_sync *f)
{
    const struct offered *o = &f->follower->offered;
    bool has_arrived = f->has_arrived && !f->m->options->as_of;

    if (!f->is_away || !(has_arrived || f->is_current))
        return;
    f->is_away = false;
    start_packages(f, o->change_dump, o->change_dump_archive);
}

/* Looks for what cannot be had of a past time in the Resource Dumps, once.
 * False: there is nothing more to do. */
static bool
searches_dumps(struct run *run)
{
    if (!run->m->options->as_of || run->has_searched)
        return run->n_packing > 0;
    run->has_searched = true;
    for (size_t i = 0; run->m->db.counts.n_left && i < run->tour.rounds.n; i++)
        start_packages(run->tour.stops[i].own,
                       run->tour.stops[i].offered.resource_dump_archive,
                       run->tour.stops[i].offered.resource_dump);
    return run->n_packing > 0;
}

static void
note_where(struct set_sync *f, const struct td_message *message)
{
    bool is_heartbeat = message->kind == TD_CHANGES && !message->n_changes;

    f->is_current = message->is_caught_up || (f->is_current && is_heartbeat);
    f->signed_s = td_follower_signed_s(f->follower);
    if (is_heartbeat)
        f->has_arrived = true;
    else if (message->kind != TD_CHANGES)
        set_out(f);
    else if (clock_steady_ms() - f->behind_since_ms > BEHIND_MOST_MS)
        f->has_arrived = true;
    /* A list may be older than the changes that follow. */
    f->is_behind =
        !f->has_arrived && (f->is_refiltered || message->kind == TD_CHANGES ||
                            message->kind == TD_BASELINE_END);
    if (f->is_behind)
        timer_start(&f->quiet, QUIET_MS);
    if (message->position && strlen(message->position) < sizeof(f->position))
        strcpy(f->position, message->position);
    if (message->position)
        td_message_mark(message, f->mark);
    look_for_packages(f);
    if (message->is_comparison) /* TD_SYNC_COMPLETE reports its end */
        return;
    if (message->kind == TD_BASELINE_BEGIN)
        MIRROR_REPORT(f->m, TD_SYNC_BASELINE, .set = f->url,
                      .why = message->reason);
    if (message->kind == TD_BASELINE_END)
        MIRROR_REPORT(f->m, TD_SYNC_BASELINED, .set = f->url,
                      .position = message->position);
}

/* Stores a message and its position in one transaction. The resources of a
 * baseline come without a position before its end: they share transactions. */
static int
on_message(const struct td_message *message, void *user)
{
    struct set_sync *f = user;
    struct mirror *m = f->m;
    char mark[TD_POSITION_SIZE];
    bool is_nothing;

    td_message_mark(message, mark);
    is_nothing = message->kind == TD_CHANGES && !message->n_changes &&
                 (!mark[0] || !strcmp(mark, f->mark));
    if (m->is_over || f->why.rc)
        return 1;
    if (message->kind == TD_BASELINE) {
        if (!apply_message(f, message))
            return 1;
    } else if (!is_nothing) {
        if (!mirror_db_commit(&m->db) || !mirror_write(m))
            return 1;
        if (!apply_message(f, message)) {
            mirror_db_rollback(&m->db);
            return 1;
        }
        if (!mirror_db_commit(&m->db))
            return 1;
    }
    m->has_news |= !is_nothing;
    if (!judge_message(f, message))
        return 1;
    note_where(f, message);
    report_news(f);
    return m->is_over;
}

static void
on_quiet(void *user)
{
    struct set_sync *f = user;

    f->is_behind = false;
    f->has_arrived = true;
    look_for_packages(f);
    report_news(f);
}

static void
on_listed(uint64_t n_resources, void *user)
{
    struct set_sync *f = user;

    MIRROR_REPORT(f->m, TD_SYNC_PROGRESS, .set = f->url,
                  .n_listed = n_resources);
}

static void
on_doubt(const char *why, void *user)
{
    note_doubt(user, why);
}

static void
on_report(const struct td_report *report, void *user)
{
    struct set_sync *f = user;
    struct mirror_db_certainty *c = &f->certainty;

    f->is_reported |= report->n_left_out > 0;
    c->n_left_out = report->n_left_out;
    c->n_mended = report->n_mended;
    snprintf(c->left_out, sizeof(c->left_out), "%s",
             report->left_out ? report->left_out : "");
    MIRROR_REPORT(f->m, TD_SYNC_REPORT, .set = f->url, .report = report);
    keep_certainty(f);
}

static void
on_held(uint64_t n, uint64_t n_of, void *user)
{
    struct set_sync *f = user;

    f->n_listed_held = n;
    f->n_listed = n_of;
    report_held(f, true);
}

static void
on_set_trouble(const char *why, unsigned pause_ms, void *user)
{
    struct set_sync *f = user;
    char text[1200];

    f->is_behind = false;
    snprintf(text, sizeof(text), pause_ms ? "%s; it is tried again" : "%s",
             why);
    set_out(f);
    MIRROR_REPORT(f->m, TD_SYNC_TROUBLE, .set = f->url, .why = text);
    report_news(f);
}

static void
on_set_end(const struct problem *why, void *user)
{
    struct set_sync *f = user;

    f->is_behind = false;
    f->is_current = why->rc == STATUS_OK && !f->why.rc;
    f->signed_s = f->follower ? td_follower_signed_s(f->follower) : 0;
    timer_stop(&f->quiet);
    if (!f->why.rc)
        f->why = *why;
    if (f->why.is_limit) /* of all sets: nothing more is fetched */
        mirror_fail(f->m, &f->why);
    if (!f->why.rc)
        mirror_report(f->m, TD_SYNC_PROGRESS, NULL);
    source_sets_ended(&f->run->tour, f->number, &f->why);
}

/* Life cycle */

/* `scratch` NULL: no dumps; `listing` NULL: a temporary one. */
static enum status
follow_set(struct set_sync *f, bool until_caught_up, const char *scratch,
           const char *listing, struct problem *why)
{
    const struct td_sync_options *o = f->m->options;
    struct run *run = f->run;
    bool is_one = run->tour.rounds.n == 1;
    struct td_follow_options how = {
        .after = f->mark[0] && !o->as_of ? f->mark : NULL,
        .form = TD_JSON,
        .on_trouble = on_set_trouble,
        .on_progress = on_listed,
        .poll_ms = o->poll_ms,
        .baseline = TD_BASELINE_FIRST,
        .scratch = scratch,
        .listing = listing,
        .max_delete_percent = o->max_delete_percent,
        .accept_deletions = o->accept_deletions,
        .compare_ms = o->compare_ms,
        .as_of = o->as_of,
        .on_doubt = on_doubt,
        .on_held = on_held,
        .on_report = on_report,
        .until_caught_up = until_caught_up,
        .patience_ms = o->patience_ms,
    };
    const struct follower_plan plan = {.url = f->url,
                                       .options = &how,
                                       .on_message = on_message,
                                       .user = f,
                                       .on_end = on_set_end,
                                       .end_user = f,
                                       .shared = is_one ? NULL : &run->shared,
                                       .number = f->number};

    return follower_new(f->m->client, &plan, &f->follower, why);
}

/* Harmless if it is not open. */
static void
set_sync_close(struct set_sync *f)
{
    td_follower_close(f->follower);
    timer_stop(&f->quiet);
    buf_fini(&f->hash);
    buf_fini(&f->links);
    f->follower = NULL;
    f->is_behind = false;
}

/* Deletes what is held back, if the caller accepts so many, or any number; else
 * reports it again. */
static bool
settle_held(struct set_sync *f)
{
    const struct td_sync_options *o = f->m->options;
    struct mirror_db *db = &f->m->db;
    bool has_limit = o->max_delete_percent >= 0 && o->max_delete_percent < 100;
    uint64_t n;

    if (!mirror_db_count_held(db, f->set, &n))
        return false;
    if (n && (n <= o->accept_deletions || !has_limit) &&
        !(mirror_write(f->m) && mirror_db_delete_held(db, f->set)))
        return false;
    /* The follower reports those of its list when it has read that. */
    f->n_listed_held = n < f->certainty.n_held ? f->certainty.n_held - n : 0;
    return report_held(f, n > 0);
}

/* True if a baseline of a part, or of what a mirror has a part of, costs less
 * without a dump, which has everything. */
static bool
has_cheaper(const struct set_sync *f)
{
    const struct offered *o = &f->run->tour.stops[f->number].offered;

    return (f->m->filter.text_size || f->is_refiltered) &&
           (o->resource_list || o->resource_list_archive || o->earliest);
}

/* Follows the set from its position in the database. */
static bool
on_open(size_t number, bool is_visit, struct problem *why, void *user)
{
    struct run *run = user;
    struct mirror *m = run->m;
    struct source_stop *stop = &run->tour.stops[number];
    struct set_sync *f = stop->own;
    struct set_sync new = {.run = run,
                           .m = m,
                           .number = number,
                           .url = stop->url,
                           .is_behind = true};
    char *scratch = NULL, *listing = NULL;
    bool is_open = false;

    problem_memory(why);
    new.packages = f->packages;
    new.is_complete = f->is_complete;
    memcpy(new.reported, f->reported, sizeof(new.reported));
    *f = new;
    timer_init(&f->quiet, m->client->loop, on_quiet, f);
    set_out(f);
    buf_init(&f->hash, TEXT_MAX);
    buf_init(&f->links, TEXT_MAX);
    if (!mirror_db_set(&m->db, f->url, &f->set, f->position) ||
        !mirror_db_mark(&m->db, f->set, f->mark) ||
        !mirror_db_certainty(&m->db, f->set, &f->certainty) ||
        !settle_held(f)) {
        *why = m->why;
        goto out;
    }
    f->listed_us = f->certainty.listed_us;
    f->begun_us = clock_now_us();
    f->is_refiltered = !strcmp(f->certainty.doubt, MIRROR_DB_REFILTERED);
    f->is_compared = m->options->as_of; /* with the list of that time */
    if (m->dir && !m->options->has_no_dumps && !has_cheaper(f) &&
        !(scratch = mirror_dir_make_scratch(m->dir, f->set, why)))
        goto out;
    if (m->dir && !m->options->as_of &&
        asprintf(&listing, "%s/list-%" PRId64 ".db", m->dir->state, f->set) <
            0) {
        listing = NULL;
        goto out;
    }
    timer_start(&f->quiet, QUIET_MS);
    is_open = !follow_set(f, is_visit, scratch, listing, why);
    /* A mirror needs the dumps of the stop's later. */
    if (is_open && !m->dir && stop->offered.url)
        follower_offer(f->follower, &stop->offered);
out:
    free(scratch);
    free(listing);
    if (!is_open)
        set_sync_close(f);
    return is_open;
}

static void
on_close(size_t number, void *user)
{
    struct run *run = user;

    set_sync_close(run->tour.stops[number].own);
}

/* Position and progress */

/* True if the set is current, at a position that no event has named yet. */
static bool
has_caught_up(const struct set_sync *set)
{
    return set->is_current && strcmp(set->position, set->reported) != 0;
}

/* Reports the sets that end_reading found to be complete: the files that their
 * lists name are there. */
static void
announce_complete(struct run *run)
{
    for (size_t i = 0; i < run->tour.rounds.n; i++) {
        struct set_sync *set = run->tour.stops[i].own;
        const struct mirror_db_certainty *c = &set->certainty;

        if (!set->is_complete || c->doubt[0])
            continue;
        set->is_complete = false;
        MIRROR_REPORT(run->m, TD_SYNC_COMPLETE, .set = set->url,
                      .as_of = datetime_text_short(c->complete_us).text);
    }
}

/* Notes the time for mirror_status.h, of all sets in one transaction, then
 * reports each. Where the disk has no room the time stays as it was: nothing
 * else has to be written. */
static void
report_caught_up(struct run *run)
{
    struct mirror *m = run->m;
    const char *as_of = m->options->as_of;
    struct problem why = {""};

    for (size_t i = 0; i < run->tour.rounds.n; i++) {
        struct set_sync *set = run->tour.stops[i].own;
        struct mirror_db_certainty *c = &set->certainty;

        if (!has_caught_up(set) || !mirror_may_write(m, &why))
            continue;
        if (!mirror_write(m) ||
            !mirror_db_note_caught_up(&m->db, set->set, clock_now_us()))
            return;
        if ((set->position[0] == '@' && !as_of) || c->doubt[0] || c->n_held)
            continue; /* the history does not prove that the set is complete */
        c->complete_us = as_of           ? datetime_of(slice_of(as_of))
                         : set->signed_s ? set->signed_s * 1000000
                                         : clock_now_us();
        c->complete_by[0] = '\0';
        if (!keep_certainty(set))
            return;
    }
    if (!mirror_db_commit(&m->db))
        return;
    for (size_t i = 0; i < run->tour.rounds.n; i++) {
        struct set_sync *set = run->tour.stops[i].own;

        if (!has_caught_up(set))
            continue;
        memcpy(set->reported, set->position, sizeof(set->reported));
        MIRROR_REPORT(m, TD_SYNC_CAUGHT_UP, .set = set->url,
                      .position = set->position);
    }
}

static void
on_turn(void *user)
{
    struct run *run = user;
    struct mirror *m = run->m;
    bool is_behind = false;
    bool is_idle;

    if (m->is_over)
        return;
    for (size_t i = 0; i < run->tour.rounds.n; i++)
        is_behind |= ((struct set_sync *)run->tour.stops[i].own)->is_behind;
    if (run->tour.rounds.n_opened < run->tour.rounds.n &&
        clock_steady_ms() - run->begun_ms > HOLD_MOST_MS)
        is_behind = false;
    if (m->options->as_of) /* what a later change replaces need not be had */
        is_behind = !source_sets_is_over(&run->tour);
    if (m->work)
        file_sync_hold(m->work, is_behind || run->n_packing);
    is_idle = !m->work || file_sync_is_idle(m->work);
    if (is_idle && !m->db.counts.n_left) {
        announce_complete(run);
        if (!is_behind)
            report_caught_up(run);
    }
    /* All sets have ended, or failed. */
    if (source_sets_is_over(&run->tour) && is_idle && !searches_dumps(run))
        m->is_over = true;
}

static void
on_idle(void *user)
{
    struct run *run = user;

    source_sets_turn(&run->tour);
}

/* The source */

/* Reports the failure of a set; that of a single one is the run's result. */
static void
on_source_trouble(const char *url, const char *why, unsigned pause_ms,
                  void *user)
{
    struct run *run = user;
    char text[1200];
    bool is_one = run->tour.rounds.n == 1 && !run->tour.missed.map.n;

    (void)pause_ms;
    if ((url && is_one) || run->m->is_over)
        return;
    snprintf(text, sizeof(text), "%s%s", why, url ? "" : "; it is tried again");
    MIRROR_REPORT(run->m, TD_SYNC_TROUBLE, .set = url, .why = text);
}

/* Notes the source, for audits, and reports sets of the mirror that it no
 * longer offers. Only a mirror of one source knows them, and only if the tour
 * missed none. */
static bool
on_found(void *user)
{
    struct run *run = user;
    struct mirror *m = run->m;
    const char *url;
    char lost[3000];
    char text[3200];
    int64_t set = 0;
    bool has_more;

    if (!mirror_db_add_source(&m->db, run->url) ||
        !mirror_db_source(&m->db, 1, &url))
        return false;
    has_more = !url[0] && !run->tour.missed.map.n;
    while (has_more) {
        if (!mirror_db_next_set(&m->db, set, &set, &url))
            return false;
        has_more = set != 0;
        if (!set || text_set_has(&run->tour.urls, slice_of(url)))
            continue;
        snprintf(lost, sizeof(lost), "%s", url);
        snprintf(text, sizeof(text),
                 "%s is not offered any more: what the mirror has of it stays; "
                 "tidings audit --repair removes it",
                 lost);
        MIRROR_REPORT(m, TD_SYNC_TROUBLE, .set = lost, .why = text);
    }
    if (m->work)
        file_sync_hold(m->work, true);
    return true;
}

static void
on_tour_end(const struct problem *why, void *user)
{
    struct run *run = user;

    run->why = *why;
    run->m->is_over = true;
}

/* Life */

/* Runs the loop to the end; then commits open writes, whatever the end is.
 * `is_ready` false: there was no memory to begin. */
static enum status
turn_run(struct run *run, bool is_ready, struct problem *why)
{
    struct mirror *m = run->m;
    enum status rc;

    if (!is_ready)
        return problem_memory(why);
    if (m->work && !(run->url && m->options->as_of))
        file_sync_poke(m->work);
    rc = handle_loop_until(m->client->loop, &m->is_over);
    if (!m->why.rc && (!m->work || file_sync_finish(m->work)))
        mirror_db_commit(&m->db);
    if (!m->why.rc && m->work)
        file_sync_report_left(m->work);
    mirror_report(m, TD_SYNC_PROGRESS, NULL);
    problem_clear(why);
    if (rc == STATUS_STOPPED)
        return problem(why, rc, "stopped");
    if (rc)
        return problem(why, rc, "called from a callback of this handle");
    if (m->why.rc)
        *why = m->why;
    else if (run->why.rc)
        *why = run->why;
    else
        source_sets_why(&run->tour, why);
    return why->rc;
}

enum status
sync_run_source(struct mirror *m, const char *url, bool until_caught_up,
                struct problem *why)
{
    static const struct source_sets_events events = {
        on_found, on_open, on_close, on_source_trouble, on_turn, on_tour_end};
    static const struct shared_stream_events shared = {source_sets_share,
                                                       source_sets_trouble};
    const struct td_follow_options how = {
        .form = TD_JSON, .transports = TD_WEBSOCKET | TD_EVENTS};
    const struct source_sets_plan plan = {
        .url = url,
        .is_once = until_caught_up,
        .poll_ms = m->options->poll_ms,
        .patience_ms = m->options->patience_ms,
        .own_size = sizeof(struct set_sync),
    };
    struct run run = {.m = m, .url = url, .begun_ms = clock_steady_ms()};
    bool is_ready;
    enum status rc;

    m->is_over = false;
    source_sets_init(&run.tour, m->client, &plan, &events, &run);
    shared_stream_init(&run.shared, m->client, &how, "", &shared, &run.tour);
    if (m->dir)
        m->work = file_sync_new(m, on_idle, &run);
    is_ready = !client_add_source(m->client, url) && (m->work || !m->dir);
    rc = turn_run(&run, is_ready, why);
    for (size_t i = 0; i < run.tour.rounds.n; i++) {
        struct set_sync *set = run.tour.stops[i].own;

        change_packages_free(set->packages);
        set_sync_close(set);
    }
    shared_stream_fini(&run.shared);
    file_sync_free(m->work);
    m->work = NULL;
    source_sets_fini(&run.tour);
    return rc;
}

static void
on_work_done(void *user)
{
    struct mirror *m = user;

    m->is_over = true;
}

enum status
sync_run_work(struct mirror *m, struct problem *why)
{
    struct run run = {.m = m};
    enum status rc;

    m->is_over = false;
    m->work = file_sync_new(m, on_work_done, m);
    rc = turn_run(&run, m->work, why);
    file_sync_free(m->work);
    m->work = NULL;
    return rc;
}

/* The public call */

/* Sees that the directory is of the time that is asked for: a mirror of the
 * present and the state of a past time are never mixed. */
static bool
is_of_time(struct mirror *m, const char *dir, struct problem *why)
{
    int64_t wanted_us = datetime_of(slice_of(m->options->as_of)), its_us;

    if (!mirror_db_as_of(&m->db, wanted_us, &its_us))
        *why = m->why;
    else if (its_us != wanted_us)
        problem(why, STATUS_INVALID,
                "%.800s is of %s, and stays so: give another directory", dir,
                its_us == DATETIME_NONE ? "the present"
                                        : datetime_text_short(its_us).text);
    return !why->rc;
}

/* Has the followers check what td_trust demands. */
static bool
keep_checkpoints(struct mirror *m, struct problem *why)
{
    struct file_path path = file_path("%s/set", m->dir->state);

    if (m->client->trust && td_keep_checkpoints(m->client, path.text))
        problem_memory(why);
    return !why->rc;
}

void
mirror_judge(struct mirror *m, struct problem *why)
{
    struct mirror_db_certainty now;
    const char *url;
    int64_t set = 0;
    uint64_t n_held = 0, n_fetch = m->dir ? m->db.counts.n_fetch : 0;

    if (n_fetch) {
        problem(why, STATUS_DIFFERENT,
                m->options->as_of
                    ? "%" PRIu64 " resources of that time cannot be had; the "
                      "next run tries them again"
                    : "%" PRIu64 " resources could not be fetched; the next "
                      "run tries them again",
                n_fetch);
        return;
    }
    do {
        if (!mirror_db_next_set(&m->db, set, &set, &url) ||
            !mirror_db_certainty(&m->db, set, &now)) {
            *why = m->why;
            return;
        }
        if (now.doubt[0])
            problem(why, STATUS_DIFFERENT,
                    "the mirror is not known to be complete: %s", now.doubt);
        n_held += now.n_held;
    } while (!why->rc && set);
    if (!why->rc && n_held)
        problem(why, STATUS_DIFFERENT,
                "%" PRIu64 " deletions are held back: if they are right, "
                "accept this number of them",
                n_held);
}

enum td_status
td_sync(struct td_client *client, const char *url, const char *dir,
        const struct td_sync_options *options)
{
    struct td_follow_options how = {.after = NULL};
    struct td_sync_options filled;
    struct mirror m;
    struct problem why = {""};

    client_begin(client);
    mirror_defaults(&filled, options);
    how.as_of = filled.as_of;
    mirror_init(&m, client, &filled);
    host_places_set(&client->places, filled.per_host);
    if (!url || !uri_is_web(url))
        problem(&why, STATUS_INVALID,
                "\"%s\" is no URL of http or https: give that of a set "
                "or of a source",
                url ? url : "");
    else if (!dir || !dir[0])
        problem(&why, STATUS_INVALID, "no directory for the mirror was given");
    else if (client->key_lag_ms)
        problem(&why, STATUS_INVALID,
                "a mirror deletes files: td_key_lag has to be 0");
    else if (!follow_options_check(&how, client->trust, filled.filter, &why) &&
             (m.dir = mirror_dir_open(dir, true, &why)) &&
             mirror_open_db(&m, m.dir, "mirror.db", &why) &&
             is_of_time(&m, dir, &why) && mirror_take_filter(&m, &why) &&
             keep_checkpoints(&m, &why)) {
        if (!renew_files(&m))
            why = m.why;
        else if (!sync_run_source(&m, url, filled.until_caught_up, &why))
            mirror_judge(&m, &why);
    }
    mirror_fini(&m);
    if (why.rc)
        client_take_problem(client, &why);
    return client_end(client, why.rc);
}
