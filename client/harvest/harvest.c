#include "client/harvest/harvest.h"

#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/random.h"
#include "client/harvest/oai.h"
#include "proto/fnv1a.h"
#include "proto/resourcesync/json.h"
#include "proto/shown_address.h"

/* Sets of one source, each with a follower. */
#define SETS_MAX 100

/* So many troubles without a look between are reported: a server that starts
 * again costs one or two. */
#define TROUBLES_MAX 3

/*
 * What the broker gets of a harvest: one small document of the set, PUT
 * SET/harvest, which outlives the harvester.
 *
 *     {"source":"https://example.org/sitemap.xml","kind":"sitemap",
 *      "complete_as_of":"2026-04-01T18:10:00Z","not_complete":null,
 *      "last_look":"2026-04-01T18:10:00Z","added":3,"changed":1,"deleted":0,
 *      "held_back":0,"left_out":1,"left_out_example":"...","mended":2,
 *      "every_s":3600}
 *
 * Several sources are one report: the numbers are sums, and it is complete as
 * of the oldest of their times.
 */

/* The broker takes 8 KiB. */
#define REPORT_MAX 8192

/* Between two reports that differ in their times alone. */
#define QUIET_MS 60000

/* Puts the report, unless nothing but the times has changed within a minute, or
 * the time between two looks, if that is shorter. Nothing may wait to be
 * sealed. False: td_stop, or the state failed. */
static bool
harvest_report_put(struct harvest_target *t, const struct harvest_look *sum)
{
    int64_t age_ms = clock_steady_ms() - t->reported_ms;
    bool is_recent = age_ms < QUIET_MS && age_ms < t->options->every_ms;
    bool is_good = true;
    char *shown = shown_address(strdup(sum->url));
    struct buf text = {.max = REPORT_MAX};
    int64_t now_us = clock_now_us();
    uint64_t told;

    /* All but the times. */
    BUF_ADD(&text, "{\"source\":");
    text.failed |= !shown;
    json_text(&text, slice_of(shown ? shown : ""));
    free(shown);
    json_text_member(&text, "kind",
                     slice_of(sum->kind ? sum->kind : "resourcesync"));
    if (sum->not_complete[0])
        json_text_member(&text, "not_complete", slice_of(sum->not_complete));
    json_number_member(&text, "added", sum->counts.added);
    json_number_member(&text, "changed", sum->counts.changed);
    json_number_member(&text, "deleted", sum->counts.deleted);
    json_number_member(&text, "held_back", sum->counts.held_back);
    json_number_member(&text, "left_out", sum->counts.left_out);
    if (sum->counts.left_out)
        json_text_member(&text, "left_out_example",
                         slice_of(sum->counts.left_out_text));
    json_number_member(&text, "mended", sum->counts.mended);
    json_number_member(&text, "dropped_links", sum->counts.dropped_links);
    if (!t->options->is_once && t->options->every_ms >= 1000)
        json_number_member(&text, "every_s", t->options->every_ms / 1000);
    told = fnv1a(FNV1A_BEGIN, buf_slice(&text));
    json_time_member(&text, "complete_as_of", sum->complete_us);
    json_time_member(&text, "last_look", now_us);
    BUF_ADD(&text, "}");
    if (!text.failed && !(is_recent && t->report == told)) {
        t->report = told;
        t->reported_ms = clock_steady_ms();
        is_good = harvest_db_note_report(&t->db, now_us) &&
                  harvest_target_report(t, buf_slice(&text));
    }
    buf_fini(&text);
    return is_good;
}

struct reader {
    struct harvest *harvest;
    const struct harvest_source *source;
    struct harvest_feed feed;
    char *url;
    char listing[PATH_MAX + 64];
    struct td_follower *follower; /* NULL: it has ended, or has not begun */
    bool has_ended;               /* on_end came */
    bool is_done;                 /* is_once: its look is over */
    bool is_split;    /* it has several sets: their readers follow */
    size_t n_sets;    /* of these */
    bool is_oai;      /* it is read as a provider of OAI-PMH (oai.h) */
    bool is_anew;     /* reads from the beginning: the set lacks something */
    uint64_t consent; /* deletions that somebody consented to; 0: none */
    bool has_consent; /* the follower was opened with it */
    bool is_reopened; /* it is to be opened again, because of a consent */
    bool has_looked;
    struct harvest_look look; /* the last one; url NULL: none */
    bool is_doubted;          /* in this look */
    unsigned n_troubles;      /* since the last look */
    bool has_failed;          /* the last report says so */
    int64_t reported_ms;      /* the last report */
    int64_t begin_ms;         /* when to open the follower */
};

struct harvest {
    const struct harvest_options *options;
    struct harvest_target target;
    struct harvest_outbox outbox;
    struct reader **readers;
    size_t n_readers, capacity;
    bool has_said_strays;
};

/* Looks */

/* Reports a look. `not_complete`: why; "": it is complete. */
static bool
report_look(struct reader *r, const char *not_complete)
{
    struct harvest *h = r->harvest;
    struct harvest_look sum = {.url = h->options->sources[0].url,
                               .complete_us = INT64_MAX};
    const char *kind = r->is_oai ? "oai-pmh" : td_follower_kind(r->follower);

    r->look = (struct harvest_look){.url = r->url,
                                    .kind = kind ? kind : r->look.kind,
                                    .complete_us = r->feed.part.complete_us,
                                    .counts = r->feed.counts};
    snprintf(r->look.not_complete, sizeof(r->look.not_complete), "%s",
             not_complete);
    r->reported_ms = clock_steady_ms();
    h->options->on_look(&r->look, h->options->user);
    for (size_t i = 0; i < h->n_readers; i++) {
        const struct harvest_look *look = &h->readers[i]->look;
        const struct harvest_counts *its = &look->counts;

        if (!look->url)
            continue;
        if (!sum.kind)
            sum.kind = look->kind;
        if (look->complete_us < sum.complete_us)
            sum.complete_us = look->complete_us;
        if (!sum.not_complete[0])
            memcpy(sum.not_complete, look->not_complete,
                   sizeof(sum.not_complete));
        if (!sum.counts.left_out)
            memcpy(sum.counts.left_out_text, its->left_out_text,
                   sizeof(its->left_out_text));
        sum.counts.added += its->added;
        sum.counts.changed += its->changed;
        sum.counts.deleted += its->deleted;
        sum.counts.held_back += its->held_back;
        sum.counts.left_out += its->left_out;
        sum.counts.mended += its->mended;
        sum.counts.dropped_links += its->dropped_links;
    }
    return harvest_report_put(&h->target, &sum);
}

/* Resources that the set had before this harvest, and that no source has. */
static bool
treat_strays(struct reader *r)
{
    struct harvest *h = r->harvest;
    uint64_t n;

    if (h->has_said_strays)
        return true;
    for (size_t i = 0; i < h->n_readers; i++)
        if (!h->readers[i]->has_looked && !h->readers[i]->is_split)
            return true;
    h->has_said_strays = true;
    if (!harvest_feed_strays(&r->feed, &n))
        return false;
    if (n > 0)
        harvest_target_say(
            &h->target,
            "resources of the set that no source has: %" PRIu64 "; "
            "they stay; --accept-deletions %" PRIu64 " deletes them",
            n, n);
    return true;
}

/* Deletes what is held back, if somebody has consented at the broker to as many
 * as all sources hold back. What the follower holds back it deletes when it is
 * opened with the consent, if that is no more by then; then it is opened
 * without it again: the consent does not outlive its use. */
static bool
heed_consent(struct reader *r)
{
    struct harvest *h = r->harvest;
    uint64_t n = 0, n_held;
    bool is_good;

    for (size_t i = 0; i < h->n_readers; i++)
        n += h->readers[i]->look.counts.held_back;
    r->consent = n <= h->target.accepted ? r->feed.counts.held_back : 0;
    h->target.accepted = 0;
    r->is_reopened = r->has_consent && !r->consent;
    if (!r->consent)
        return true;
    if (!harvest_db_waiting(&h->target.db, QUEUE_HELD, r->feed.part.id,
                            &n_held))
        return false;
    r->is_reopened = !n_held && !r->has_consent;
    if (!n_held)
        return true;
    h->target.accepted = n_held;
    is_good = harvest_feed_held(&r->feed) && report_look(r, r->feed.part.doubt);
    h->target.accepted = 0;
    return is_good;
}

#define OTHERS_CHANGED "others have changed resources in the set"

/* Looks for what others did to the set, and has it repaired. */
static bool
look_at_set(struct reader *r)
{
    struct harvest *h = r->harvest;
    bool is_due;

    if (!harvest_target_look(&h->target) ||
        (!h->target.is_other && !heed_consent(r)))
        return false;
    if (r->feed.has_log || h->target.is_other)
        return true;
    if (!harvest_db_is_due(&h->target.db, r->feed.part.id, &is_due))
        return false;
    if (is_due && r->feed.has_only_list)
        r->is_anew = true;
    else if (is_due)
        strcpy(r->feed.suspicion, OTHERS_CHANGED);
    return true;
}

/* Now; or when the source has signed that there was no more. */
static int64_t
complete_us(const struct reader *r)
{
    int64_t signed_s = r->follower ? td_follower_signed_s(r->follower) : 0;

    return signed_s ? signed_s * 1000000 : clock_now_us();
}

static bool
end_look(struct reader *r)
{
    struct harvest *h = r->harvest;
    struct harvest_counts *c = &r->feed.counts;
    bool is_first = !r->has_looked;
    /* A log is looked at with each heartbeat, which is worth a report where
     * something has changed, and else as often as a list is read. */
    bool is_due = !r->feed.has_log ||
                  clock_steady_ms() - r->reported_ms >= h->options->every_ms;

    r->has_looked = true;
    if (r->feed.is_replay && !harvest_feed_end_replay(&r->feed))
        return false;
    if (r->feed.has_only_list && !r->is_doubted && !r->is_oai)
        r->feed.part.doubt[0] = '\0'; /* the whole list was read */
    if (!harvest_feed_retry(&r->feed, is_due))
        return false;
    r->is_doubted = false;
    if (!r->feed.part.doubt[0] && !r->feed.is_unproven)
        r->feed.part.complete_us = complete_us(r);
    if (!treat_strays(r) || !harvest_feed_flush(&h->outbox) ||
        !harvest_db_note_part(&h->target.db, &r->feed.part))
        return false;
    r->feed.listed_us = r->feed.part.listed_us;
    if ((is_due || is_first || r->has_failed ||
         c->added + c->changed + c->deleted > 0) &&
        !report_look(r, r->feed.part.doubt))
        return false;
    r->n_troubles = 0;
    r->has_failed = false;
    if (h->options->is_once) /* harvest_run needs them */
        return true;
    /* The numbers begin again, but for the deletions that are held back: the
     * next reading decides about them. */
    *c = (struct harvest_counts){.held_back = c->held_back,
                                 .held_of = c->held_of};
    return look_at_set(r);
}

/* A follower */

/* Has the follower compare because of `why`. */
static void
compare_now(struct reader *r, const char *why)
{
    td_follower_compare(r->follower, why);
    r->feed.suspicion[0] = '\0';
}

/* True if the follower ends because another one takes its place. */
static bool
is_to_end(const struct reader *r)
{
    return r->is_anew || r->is_reopened || r->harvest->target.is_other;
}

static int
on_message(const struct td_message *message, void *user)
{
    struct reader *r = user;
    struct harvest *h = r->harvest;

    if (harvest_target_is_over(&h->target) ||
        !harvest_feed_message(&r->feed, message) ||
        (message->is_caught_up && !h->options->is_once && !end_look(r)) ||
        is_to_end(r))
        return 1;
    if (r->feed.suspicion[0]) {
        r->feed.is_routine = false;
        compare_now(r, r->feed.suspicion);
    }
    return 0;
}

/* Reports a look that failed. The next one that does not is complete again. */
static bool
report_failure(struct reader *r, const char *why)
{
    r->has_failed = true;
    return harvest_feed_flush(&r->harvest->outbox) && report_look(r, why);
}

static void
on_trouble(const char *why, unsigned pause_ms, void *user)
{
    struct reader *r = user;

    if (pause_ms)
        harvest_target_say(&r->harvest->target, "%s; again in %.1f s", why,
                           pause_ms / 1000.0);
    else
        harvest_target_say(&r->harvest->target, "%s", why);
    if ((r->feed.is_listing || harvest_feed_flush(&r->harvest->outbox)) &&
        pause_ms && ++r->n_troubles == TROUBLES_MAX &&
        !r->harvest->options->is_once)
        report_failure(r, why);
}

static void
on_doubt(const char *why, void *user)
{
    struct reader *r = user;

    r->is_doubted = true;
    r->feed.is_doubtful |= r->feed.is_listing;
    snprintf(r->feed.part.doubt, sizeof(r->feed.part.doubt), "%s", why);
}

static void
on_held(uint64_t n, uint64_t n_of, void *user)
{
    struct reader *r = user;

    r->feed.counts.held_back = n;
    r->feed.counts.held_of = n_of;
}

static void
on_report(const struct td_report *report, void *user)
{
    struct harvest_counts *c = &((struct reader *)user)->feed.counts;

    c->left_out = report->n_left_out;
    c->mended = report->n_mended;
    snprintf(c->left_out_text, sizeof(c->left_out_text), "%s",
             report->left_out ? report->left_out : "");
    snprintf(c->mended_text, sizeof(c->mended_text), "%s",
             report->mended ? report->mended : "");
}

/* A source that fails at its first look ends the harvest: the address may be
 * wrong. So does one that is larger than the user allows. Another failure is
 * said, and tried again. */
static void
handle_failure(struct reader *r, enum td_status rc, const char *why)
{
    struct harvest_target *t = &r->harvest->target;
    const struct harvest_options *how = t->options;
    bool is_last = how->is_once || rc == TD_IO || rc == TD_MEMORY ||
                   strstr(why, "--max-entries") ||
                   (!r->has_looked && !r->feed.part.complete_us);

    if (strstr(why, ": one is followed here")) {
        r->is_split = true;
        return;
    }
    if (strstr(why, ": a provider of OAI-PMH")) {
        r->is_oai = true;
        return;
    }
    if (is_last && !how->is_once) {
        HARVEST_TARGET_FAIL(t, rc, "%s", why);
        return;
    }
    if (is_last) { /* the others go on */
        harvest_target_say(t, "%s", why);
        t->end = t->end ? t->end : rc;
        r->is_done = true;
        return;
    }
    if (!report_failure(r, why))
        return;
    harvest_target_say(t, "%s; again in %.1f s", why, how->every_ms / 1000.0);
    r->begin_ms = clock_steady_ms() + how->every_ms;
}

static void
on_end(enum td_status rc, const char *why, void *user)
{
    struct reader *r = user;
    struct harvest *h = r->harvest;

    r->has_ended = true;
    if (harvest_target_is_over(&h->target) || is_to_end(r) ||
        !harvest_feed_flush(&h->outbox) || (rc == TD_OK && !end_look(r)))
        return;
    if (rc == TD_STOPPED)
        harvest_target_end(&h->target, TD_STOPPED);
    else if (rc)
        handle_failure(r, rc, why);
    r->is_done |= rc == TD_OK && h->options->is_once;
    if (rc == TD_OK)
        r->begin_ms = clock_steady_ms() + h->options->every_ms;
}

/* True if it is a provider of OAI-PMH, or has to be asked first: the host of a
 * base URL may be a source of another kind. */
static bool
may_be_provider(const struct reader *r)
{
    return r->is_oai ||
           (!r->feed.part.position[0] && strcasestr(r->url, "oai"));
}

static bool
is_time_to_compare(const struct reader *r)
{
    return clock_now_us() - r->feed.part.compared_us >=
           (int64_t)r->harvest->options->compare_ms * 1000;
}

/* Reads a provider of OAI-PMH: one look. */
static bool
read_oai(struct reader *r, const char *after)
{
    struct harvest_target *t = &r->harvest->target;
    const struct harvest_options *how = t->options;
    const char *wrong = how->republishes      ? "--republish takes no OAI-PMH"
                        : t->filter.text_size ? "--filter takes no OAI-PMH"
                                              : NULL;
    struct problem why = {.text = ""};
    enum td_status rc;

    if (how->stores_records && strstr(r->url, "verb=ListIdentifiers"))
        wrong = "--records needs ListRecords: ListIdentifiers has no records";
    if (wrong)
        return HARVEST_TARGET_FAIL(t, TD_INVALID, "%s", wrong);

    if ((how->is_once && (r->feed.part.doubt[0] || r->feed.counts.held_back)) ||
        is_time_to_compare(r))
        after = "";
    r->is_oai = true;
    rc = oai_read(r->source->client, &r->feed, after, &why);
    if (rc == TD_STOPPED)
        return false;
    if (!rc && why.text[0])
        on_doubt(why.text, r);
    on_end(rc, why.text, r);
    return !harvest_target_is_over(t);
}

/* Asks for a comparison: where others have disturbed the set, or in
 * doubt; once in a run that ends; or when the last one was long ago. */
static void
compare_at_start(struct reader *r, bool is_due)
{
    r->feed.is_routine = !is_due && !r->feed.part.doubt[0];
    if (!r->feed.is_routine)
        compare_now(r, is_due ? OTHERS_CHANGED : r->feed.part.doubt);
    else if (r->harvest->options->is_once || is_time_to_compare(r))
        compare_now(r, "it is time to compare");
}

static bool
open_follower(struct reader *r)
{
    struct harvest *h = r->harvest;
    const struct harvest_options *how = h->options;
    const char *after = r->feed.part.position;
    /* At the start nobody knows yet what this source alone holds back. */
    uint64_t accepts = r->has_looked ? r->consent : h->target.accepted;
    struct td_follow_options options = {
        .form = TD_JSON,
        .on_trouble = on_trouble,
        .poll_ms = how->every_ms,
        .baseline = TD_BASELINE_GONE,
        .listing = r->listing,
        .max_delete_percent = how->max_delete,
        .until_caught_up = how->is_once,
        .accept_deletions =
            accepts > how->accept_deletions ? accepts : how->accept_deletions,
        .compare_ms = how->compare_ms,
        .on_doubt = on_doubt,
        .on_held = on_held,
        .on_report = on_report,
        .on_end = on_end,
    };
    enum td_status rc;
    bool is_due;

    if (!harvest_db_is_due(&h->target.db, r->feed.part.id, &is_due))
        return false;
    if (!after[0])
        after = how->after ? how->after : "0";
    /* A place of a listing, from which nothing would be repaired. */
    if (r->is_anew || (is_due && after[0] != '@'))
        after = "0";
    r->feed.is_anew = !strcmp(r->feed.part.doubt, HARVEST_REFILTERED);
    if (r->feed.is_anew) {
        options.baseline = TD_BASELINE_FIRST;
        after = "";
    } else {
        options.after = after;
    }
    r->is_anew = r->is_reopened = false;
    r->has_consent = accepts > how->accept_deletions;
    r->has_ended = false;
    r->feed.is_listing = r->feed.is_replay = false;
    if (may_be_provider(r) && !r->is_oai)
        r->is_oai = oai_answers(r->source->client, &r->feed);
    if (r->is_oai)
        return read_oai(r, after);
    if (harvest_target_is_over(&h->target))
        return false;
    rc = td_follower_open(r->source->client, r->url, &options, on_message, r,
                          &r->follower);
    if (rc)
        return HARVEST_TARGET_FAIL(&h->target, rc, "%s",
                                   td_problem(r->source->client));
    if (after[0] == '@' && after != how->after)
        compare_at_start(r, is_due);
    return true;
}

/* Readers */

static void
free_reader(struct reader *r)
{
    td_follower_close(r->follower);
    buf_fini(&r->feed.loc);
    free(r->url);
    free(r);
}

/* Names the listing, and the last one read beside it. That of the first part is
 * STATE.list, as that of `tidings relay` was. A dry run reads and changes
 * copies: else it would not hold back what a real run holds back. */
static bool
name_listing(struct reader *r)
{
    static const char *const ends[] = {"", "-read"};
    struct harvest_db *db = &r->harvest->target.db;
    char number[24] = "", from[PATH_MAX + 64], to[PATH_MAX + 80];

    if (r->feed.part.id != 1)
        snprintf(number, sizeof(number), "-%" PRId64, r->feed.part.id);
    snprintf(r->listing, sizeof(r->listing), "%s.list%s", db->path, number);
    for (size_t i = 0; db->scratch[0] && i < N_ELEMENTS(ends); i++) {
        snprintf(from, sizeof(from), "%s.list%s%s", r->harvest->options->state,
                 number, ends[i]);
        snprintf(to, sizeof(to), "%s%s", r->listing, ends[i]);
        if (!access(from, F_OK) && db_copy(from, to, db->why))
            return false;
    }
    return true;
}

/* Adds a reader of a set. */
static bool
add_reader(struct harvest *h, const struct harvest_source *source,
           const char *url)
{
    struct reader *r = calloc(1, sizeof(*r));
    char *own = strdup(url);
    int64_t us;

    if (!r || !own || !ONE_MORE(h->readers, &h->capacity, h->n_readers) ||
        (source->files && client_add_source(source->files, source->url))) {
        free(own);
        free(r);
        return HARVEST_TARGET_FAIL(&h->target, TD_MEMORY, NO_MEMORY);
    }
    h->readers[h->n_readers++] = r;
    *r = (struct reader){.harvest = h,
                         .source = source,
                         .url = own,
                         .feed = {.target = &h->target,
                                  .db = &h->target.db,
                                  .outbox = &h->outbox,
                                  .url = own,
                                  .files = source->files,
                                  .loc.max = SIZE_MAX / 2}};
    if (!harvest_db_part(&h->target.db, source->url, url, &r->feed.part) ||
        !name_listing(r))
        return false;
    r->feed.listed_us = r->feed.part.listed_us;
    r->is_oai = h->options->stores_records || strstr(url, "?verb=") ||
                strstr(url, "&verb=") ||
                !datetime_read(slice_of(r->feed.part.position), &us);
    r->feed.keeps_missing = r->is_oai; /* until it says what it keeps */
    return true;
}

static void
on_set(const char *url, const char *why, void *user)
{
    struct reader *r = user;

    if (why)
        harvest_target_say(&r->harvest->target, "%s", why);
    else if (++r->n_sets <= SETS_MAX)
        add_reader(r->harvest, r->source, url);
}

/* Replaces the reader of an address that stands for several sets. */
static bool
split_reader(struct harvest *h, struct reader *r)
{
    enum td_status rc = td_sets(r->source->client, r->url, on_set, r);

    if (harvest_target_is_over(&h->target))
        return false;
    if (r->n_sets > SETS_MAX)
        return HARVEST_TARGET_FAIL(
            &h->target, TD_INVALID,
            "%s has %zu sets; a harvest takes up to %d: name those that it "
            "should have",
            r->url, r->n_sets, SETS_MAX);
    if (rc && !r->n_sets)
        return HARVEST_TARGET_FAIL(&h->target, TD_IO, "%s",
                                   td_problem(r->source->client));
    if (rc && !h->target.end)
        h->target.end = TD_DIFFERENT;
    return true;
}

/* Sets `other` to a source of the state that the command does not name; "":
 * none. */
static bool
find_other(struct harvest *h, char other[HARVEST_TEXT_SIZE])
{
    const struct harvest_options *how = h->options;
    struct db_rows rows = harvest_db_sources(&h->target.db);
    struct slice source;

    other[0] = '\0';
    while (DB_NEXT(&rows, &source)) {
        size_t i = 0;

        while (i < how->n_sources && !slice_is(source, how->sources[i].url))
            i++;
        if (i == how->n_sources)
            snprintf(other, HARVEST_TEXT_SIZE, "%.*s", SLICE_ARG(source));
    }
    return !db_rows_end(&rows);
}

/* The loop */

/* Opens the readers that are due: of providers, or the others. */
static bool
open_due(struct harvest *h, bool are_providers)
{
    for (size_t i = 0; i < h->n_readers && !harvest_target_is_over(&h->target);
         i++) {
        struct reader *r = h->readers[i];

        if (!r->follower && !r->is_done && !r->is_split &&
            may_be_provider(r) == are_providers &&
            r->begin_ms <= clock_steady_ms() && !open_follower(r))
            return false;
    }
    return !harvest_target_is_over(&h->target);
}

/* Opens what is due. False: nothing is left to do, or it is over. */
static bool
open_readers(struct harvest *h)
{
    bool is_busy = false, is_other = h->target.is_other;

    h->target.is_other = false;
    for (size_t i = 0; i < h->n_readers && !harvest_target_is_over(&h->target);
         i++) {
        struct reader *r = h->readers[i];

        if (r->follower && (r->has_ended || is_other)) {
            td_follower_close(r->follower);
            r->follower = NULL;
            if (r->is_split && !split_reader(h, r))
                return false;
        }
        if (is_other) {
            r->is_done = false;
            r->feed.part.position[0] = r->feed.part.doubt[0] = '\0';
            r->begin_ms = 0;
        }
        is_busy |= !r->is_done && !r->is_split;
    }
    /* A request to a provider waits while the others go on. */
    return open_due(h, false) && open_due(h, true) && is_busy;
}

/* Waits until a handle or a reader has work, and has it done. */
static bool
turn_handles(struct harvest *h)
{
    int wait_ms = -1;

    for (size_t i = 0; i < h->n_readers; i++) {
        const struct reader *r = h->readers[i];
        int64_t due_ms = r->begin_ms - clock_steady_ms();

        if (!r->follower && !r->is_done && !r->is_split &&
            (wait_ms < 0 || due_ms < wait_ms))
            wait_ms = due_ms < 0 ? 0 : (int)due_ms;
        if (r->follower && r->has_ended)
            wait_ms = 0;
    }
    return harvest_target_turn(&h->target, wait_ms);
}

/* Without a filter it keeps that of the state. */
static bool
take_filter(struct harvest *h)
{
    struct harvest_target *t = &h->target;
    const char *given = h->options->filter;

    if (part_filter_read(&t->filter, given ? given : t->db.filter, &t->why))
        return HARVEST_TARGET_FAIL(t, TD_INVALID, "--filter: %s", t->why.text);
    return slice_is(filter_text(&t->filter), t->db.filter) ||
           harvest_db_set_filter(&t->db, filter_text(&t->filter));
}

static bool
begin_harvest(struct harvest *h)
{
    char other[HARVEST_TEXT_SIZE];

    if (!take_filter(h))
        return false;
    if (!harvest_target_begin(&h->target) || !harvest_target_look(&h->target) ||
        !find_other(h, other))
        return false;
    /* A source that the command names no longer would keep its resources for
     * ever. */
    if (other[0])
        return HARVEST_TARGET_FAIL(
            &h->target, TD_IO,
            "%s is the state of another harvest: of %s, too; name that "
            "source, or another --state",
            h->options->state, other);
    for (size_t i = 0; i < h->options->n_sources; i++)
        if (!add_reader(h, &h->options->sources[i], h->options->sources[i].url))
            return false;
    for (size_t i = 0; i < h->n_readers; i++)
        if (!harvest_feed_held(&h->readers[i]->feed))
            return false;
    return true;
}

enum td_status
harvest_run(const struct harvest_options *options)
{
    struct harvest h = {
        .options = options,
        .target = {.options = options,
                   .client = options->target,
                   .url = options->set_url},
        .outbox = {.body.max = SIZE_MAX / 2, .parts.max = SIZE_MAX / 2},
    };

    (void)!random_hex(h.outbox.boundary, COPY_BOUNDARY_SIZE);
    if (harvest_db_open(&h.target.db, options->state, options->set_url,
                        options->is_dry, &h.target.why) &&
        begin_harvest(&h))
        while (open_readers(&h) && turn_handles(&h))
            continue;
    if (h.target.why.rc && !h.target.is_over)
        HARVEST_TARGET_FAIL(&h.target, TD_IO, "%s", h.target.why.text);
    /* The harvest is partial if it holds back, leaves out or doubts
     * anything. */
    for (size_t i = 0; options->is_once && i < h.n_readers; i++) {
        const struct harvest_feed *f = &h.readers[i]->feed;

        if (!h.target.end && (f->part.doubt[0] || f->counts.held_back ||
                              (f->counts.left_out && !options->skips_bad)))
            h.target.end = TD_DIFFERENT;
    }
    for (size_t i = 0; i < h.n_readers; i++)
        free_reader(h.readers[i]);
    free(h.readers);
    buf_fini(&h.outbox.body);
    buf_fini(&h.outbox.parts);
    harvest_db_close(&h.target.db);
    return h.target.end;
}
