/*
 * baseline.c - reads all resources of a source, and finds their place.
 *
 *     parts --+--> reading --+--> entries --> on_entry
 *       ^     +--> dump -----+
 *       |            |
 *       +-- index, next page, packages
 *
 * A document is read as what it says it is, wherever it was found: an index may
 * be served for a list, and a list for an index.
 */
#include "client/baseline/baseline.h"

#include "base/clock.h"
#include "client/baseline/document_stream.h"
#include "client/baseline/dump_reader.h"
#include "client/dumps/scratch_dir.h"
#include "client/dumps/zip_reader.h"
#include "client/lib/pause.h"

/*
 * The place of a baseline, derived from its documents as
 * baseline.h says.
 */

struct baseline_place {
    bool has_seq;        /* some document has one */
    bool is_seq_open;    /* a list has none, or they are of several logs */
    bool is_seq_mixed;   /* they differ */
    struct position seq; /* the oldest */
    int64_t time_us;     /* the oldest `at`; or DATETIME_NONE */
    bool is_time_open;   /* a list has none, nor a document above it */
    int64_t lastmod_us;  /* the newest; DATETIME_NONE, less than all: none */
    int64_t
        made_us; /* the oldest answer (document_stream.h); or DATETIME_NONE */
    int64_t began_us; /* by our own clock */
};

/* Subtracted from our own clock, if no document or server states a time: a
 * clock that is ahead by less misses nothing, it only repeats. */
#define OWN_CLOCK_MARGIN_US (3600ll * 1000000)

static void
baseline_place_init(struct baseline_place *place)
{
    *place = (struct baseline_place){
        .time_us = DATETIME_NONE,
        .lastmod_us = DATETIME_NONE,
        .made_us = DATETIME_NONE,
        .began_us = clock_now_us() - OWN_CLOCK_MARGIN_US,
    };
}

/* Adds the head of a complete document. `has_resources`: it is no index.
 * `part`: a document above it may have a time or a seq. */
static void
baseline_place_head(struct baseline_place *place,
                    const struct document_head *head, bool has_resources,
                    const struct part *part)
{
    const char *epoch = head->td.epoch;

    place->time_us = datetime_earlier(place->time_us, head->at_us);
    if (has_resources && head->at_us == DATETIME_NONE && !part->has_time)
        place->is_time_open = true;
    if (!epoch[0]) {
        place->is_seq_open |= has_resources && !part->has_seq;
    } else if (!place->has_seq) {
        place->has_seq = true;
        memcpy(place->seq.epoch, epoch, sizeof(place->seq.epoch));
        place->seq.seq = head->td.last;
    } else if (strcmp(place->seq.epoch, epoch) != 0) {
        place->is_seq_open = true;
    } else {
        place->is_seq_mixed |= head->td.last != place->seq.seq;
        if (head->td.last < place->seq.seq)
            place->seq.seq = head->td.last;
    }
}

/* Attempts to get a document or a package. */
#define ATTEMPTS 5

/* Readings of a list that changes while it is read. */
#define READINGS_MOST 3

/* The list or dump of a past time. */
struct past_base {
    bool is_wanted; /* it is not chosen yet */
    char *url;      /* NULL: none */
    bool is_dump;
    int64_t at_us;
    int64_t earliest_us; /* of all that were found; or DATETIME_NONE */
};

struct baseline {
    struct retired retired; /* the first */
    struct td_client *client;
    struct baseline_plan plan;
    baseline_entry_fn *on_entry;
    baseline_end_fn *on_end;
    void *user;

    struct scratch scratch; /* none before the first package */
    bool is_dump;           /* the dump is being read, not the list */
    struct past_base base;
    bool has_reported;   /* an entry was read */
    uint64_t n_reported; /* resources, including repeats */
    bool is_done;        /* ended without failure */
    struct timer turn;
    struct parts parts;
    struct part now;             /* the current part; `parts` owns its URL */
    unsigned n_led;              /* parts that this one names */
    size_t n_before;             /* parts before them */
    bool has_manifest;           /* the one read last is whole */
    size_t n_known;              /* names of parts already known */
    bool has_list;               /* a list or package was read, or is a part */
    struct survey_version known; /* of `now`, in the last complete reading */
    bool is_changed;             /* some document is not as in that reading */
    struct digest_check *rows;   /* of the document that is read */
    bool is_checking;            /* reads the documents again ... */
    size_t checked;              /* ... of `parts`, up to this one */
    size_t n_documents;          /* of `parts`, no packages */
    unsigned n_readings;         /* that did not agree with what came after */
    char doubt[600];             /* why it may not be complete; "": it is */
    struct problem lost;         /* why the first lost part cannot be had */
    struct document_stream *reading;
    struct dump_reader *dump;
    unsigned n_attempts;
    unsigned pause_ms;
    bool is_paused;
    struct baseline_place place;
    struct problem why;
};

void
baseline_free(void *baseline)
{
    struct baseline *b = baseline;

    if (!b)
        return;
    document_stream_free(b->reading);
    dump_reader_free(b->dump);
    timer_stop(&b->turn);
    baseline_parts_fini(&b->parts);
    free(b->base.url);
    digest_check_free(b->rows);
    scratch_close(&b->scratch, b->is_done);
    handle_loop_retire(b->client->loop, &b->retired, NULL);
}

/* Ends the baseline and frees it. */
static void
end_baseline(struct baseline *b)
{
    const struct baseline_place *p = &b->place;
    struct source_position place = {.is_time = true}, guess = place;
    bool has_seq = p->has_seq && !p->is_seq_open;
    bool is_stated = /* by the documents alone */
        has_seq || (p->time_us != DATETIME_NONE && !p->is_time_open);
    bool has_guess;

    /* A later place, which is likely but not proven: the time of the documents
     * by the servers' clocks, or by ours. */
    guess.time_us = datetime_earlier(
        p->time_us, p->made_us != DATETIME_NONE ? p->made_us : p->began_us);
    has_guess = !is_stated && p->lastmod_us != DATETIME_NONE &&
                p->lastmod_us < guess.time_us;
    if (has_seq)
        place = (struct source_position){.at = p->seq, .time_us = p->time_us};
    else
        place.time_us = is_stated
                            ? p->time_us
                            : datetime_earlier(guess.time_us, p->lastmod_us);
    b->is_done = !b->why.rc;
    b->on_end(&b->why, b->is_done ? &place : NULL,
              b->is_done && has_guess ? &guess : NULL, b->user);
    baseline_free(b);
}

/* Notes the failure. The next turn of the loop ends the part, because one of
 * its callbacks may be running. */
static void
fail_because(struct baseline *b, const struct problem *why)
{
    if (b->why.rc)
        return;
    b->why = *why;
    timer_start(&b->turn, 0);
}

static void
fail_baseline(struct baseline *b, enum status rc, const char *text)
{
    struct problem why = {""};

    problem(&why, rc, "%s", text);
    fail_because(b, &why);
}

static void
fail_without_memory(struct baseline *b)
{
    fail_because(b, &(struct problem)PROBLEM_MEMORY);
}

/* False: the listing cannot be written; the baseline ends. */
static bool
has_listed(struct baseline *b, bool is_good)
{
    if (!is_good)
        fail_because(b, &b->plan.listing->why);
    return is_good;
}

/* The current document is invalid. */
static void
fail_document(struct baseline *b, const char *text)
{
    char whole[600];

    snprintf(whole, sizeof(whole), "%.300s: %s", b->now.url, text);
    fail_baseline(b, STATUS_MALFORMED, whole);
}

static void
add_part(struct baseline *b, const struct part *like, struct slice url,
         struct slice hash)
{
    bool is_new = false;
    enum status rc = baseline_parts_add(&b->parts, like, url, hash, &is_new);

    b->n_led++;
    b->n_known += !rc && !is_new;
    b->has_list |= is_new && like->is_package;
    if (rc == STATUS_MEMORY)
        fail_without_memory(b);
    else if (rc)
        fail_baseline(b, STATUS_MALFORMED, "there are too many parts");
}

/* Documents */

static void
digest_row(struct baseline *b, struct slice text)
{
    if (digest_check_add(b->rows, text, NULL) ||
        digest_check_add(b->rows, SLICE("\n"), NULL))
        fail_without_memory(b);
}

static void
on_link(const struct pagelink *link, void *user)
{
    struct baseline *b = user;
    struct part like = b->now;
    struct slice href = link->href;
    size_t n_known, ahead = b->parts.next + 1;

    if (!slice_has_word(link->rel, b->base.is_wanted ? "archives" : "next"))
        return;
    digest_row(b, href);
    if (b->is_checking)
        return;
    n_known = b->n_known;
    add_part(b, &like, href, (struct slice){NULL, 0});
    while (ahead < b->parts.n && !slice_is(href, b->parts.all[ahead].url))
        ahead++;
    if (b->n_known > n_known && ahead == b->parts.n)
        snprintf(b->doubt, sizeof(b->doubt),
                 "the page %.200s names %.*s as the next one, which was read "
                 "before: resources may be missing",
                 b->now.url, href.size < 200 ? (int)href.size : 200, href.data);
}

/* The kinds of documents; NOTHING: not part of a baseline. */
enum what { RESOURCES, PACKAGES, INDEX, NOTHING };

static enum what
what_of(const struct baseline *b, const struct document_head *head)
{
    if (b->now.is_manifest)
        return b->plan.takes || head->capability != CAP_CHANGEDUMP_MANIFEST
                   ? RESOURCES
                   : NOTHING;
    if (b->plan.takes && (head->capability == CAP_CHANGEDUMP_ARCHIVE ||
                          head->capability == CAP_RESOURCEDUMP_ARCHIVE))
        return INDEX;
    if (b->plan.takes)
        return head->is_index ? INDEX : PACKAGES;
    if (head->has_capability && head->capability != CAP_RESOURCELIST &&
        head->capability != CAP_RESOURCEDUMP)
        return NOTHING;
    if (head->is_index)
        return INDEX;
    if (head->has_capability)
        return head->capability == CAP_RESOURCELIST ? RESOURCES : PACKAGES;
    return b->is_dump ? PACKAGES : RESOURCES;
}

/* Adds the manifest of a package before it, if it has an address. */
static void
add_manifest(struct baseline *b, const struct change *c, struct part *package)
{
    struct part part = *package;
    size_t n_known = b->n_known, i = 0;

    part.is_package = false;
    part.is_manifest = true;
    while (i < c->n_links && !slice_is(c->links[i].rel, "contents"))
        i++;
    if (i == c->n_links)
        return;
    add_part(b, &part, c->links[i].href, (struct slice){NULL, 0});
    package->has_manifest = b->n_known == n_known;
}

static void
add_child(struct baseline *b, const struct document_entry *entry,
          const struct document_head *head, bool is_package)
{
    struct part like = b->now;

    like.depth++;
    like.is_package = is_package;
    like.is_alone = head->kind == DOCUMENT_ROBOTS || b->base.is_wanted;
    like.length = entry->change.length;
    like.from_us = entry->from_us;
    like.until_us = entry->until_us;
    if (b->plan.takes && entry->at_us != DATETIME_NONE)
        like.distance_us = llabs(entry->at_us - b->plan.near_us);
    if (is_package && (b->plan.takes || !b->plan.wants_files))
        add_manifest(b, &entry->change, &like);
    like.has_time |=
        head->at_us != DATETIME_NONE || entry->at_us != DATETIME_NONE;
    like.has_seq |= head->td.epoch[0] != '\0';
    b->place.time_us = datetime_earlier(b->place.time_us, entry->at_us);
    if (like.depth > PARTS_DEPTH_MAX)
        fail_document(b, "an index leads to an index, again and again");
    else
        add_part(b, &like, entry->change.loc,
                 is_package ? entry->change.hash : (struct slice){NULL, 0});
}

/* Goes on in a turn of its own, with all attempts. */
static void
go_on(struct baseline *b)
{
    b->n_attempts = 0;
    b->pause_ms = PAUSE_FIRST;
    timer_start(&b->turn, 0);
}

static void
end_part(struct baseline *b)
{
    b->parts.next++;
    go_on(b);
}

/* Takes a list or dump of the past, which a document of that head is or names,
 * if it is the best one so far. */
static void
consider_base(struct baseline *b, const struct document_head *head,
              struct slice url, int64_t at_us, int64_t completed_us)
{
    struct past_base *base = &b->base;
    bool is_dump = head->capability == CAP_RESOURCEDUMP ||
                   head->capability == CAP_RESOURCEDUMP_ARCHIVE;
    int64_t whole_us = completed_us > at_us ? completed_us : at_us;

    if (!head->has_capability || at_us == DATETIME_NONE)
        return;
    base->earliest_us = datetime_earlier(base->earliest_us, whole_us);
    if (whole_us > *b->plan.as_of_us || at_us < base->at_us ||
        (at_us == base->at_us && (base->is_dump == b->plan.wants_files ||
                                  is_dump != b->plan.wants_files)))
        return; /* of the same time, the better kind */
    free(base->url);
    base->url = slice_dup(url);
    base->at_us = at_us;
    base->is_dump = is_dump;
    if (!base->url)
        fail_without_memory(b);
}

/* The root of a list states its time; that of an archive none. */
static void
end_search_part(struct baseline *b, const struct document_head *head)
{
    consider_base(b, head, slice_of(b->now.url), head->at_us,
                  head->completed_us);
    end_part(b);
}

/* An entry of an archive; of a list its root is enough. */
static void
search_entry(struct baseline *b, const struct document_entry *entry,
             const struct document_head *head)
{
    bool is_archive =
        head->has_capability && (head->capability == CAP_RESOURCELIST_ARCHIVE ||
                                 head->capability == CAP_RESOURCEDUMP_ARCHIVE);

    if (!is_archive) { /* `head` is the stream's */
        end_search_part(b, head);
        document_stream_free(b->reading);
        b->reading = NULL;
    } else if (head->is_index || entry->at_us == DATETIME_NONE) {
        add_child(b, entry, head, false);
    } else {
        consider_base(b, head, entry->change.loc, entry->at_us,
                      entry->completed_us);
    }
}

/* Hands a resource over. The baseline may be over afterwards. */
static void
hand_over_entry(struct baseline *b, const struct document_entry *entry,
                const char *file)
{
    if (entry->has_kind && entry->change.kind == CHANGE_DELETED)
        return;
    b->has_reported = true;
    if (!b->why.rc && source_limits_check_resources(&b->client->room,
                                                    ++b->n_reported, &b->why))
        timer_start(&b->turn, 0);
    if (b->why.rc)
        return;
    if (entry->change.lastmod_us > b->place.lastmod_us)
        b->place.lastmod_us = entry->change.lastmod_us;
    if (b->plan.listing && !has_listed(b, survey_add(b->plan.listing, entry)))
        return;
    if (b->on_entry && !b->on_entry(entry, file, b->user) &&
        !b->retired.is_over)
        baseline_hold(b, true);
}

static void
on_read_entry(const struct document_entry *entry,
              const struct document_head *head, void *user)
{
    struct baseline *b = user;
    const struct change *c = &entry->change;
    int64_t numbers[2] = {c->lastmod_us, (int64_t)c->length};

    if (b->why.rc)
        return;
    /* Two versions of a resource differ in one of these. */
    digest_row(b, c->loc);
    digest_row(b, c->hash);
    digest_row(b, (struct slice){(const char *)numbers, sizeof(numbers)});
    if (b->is_checking)
        return;
    if (b->base.is_wanted) {
        search_entry(b, entry, head);
        return;
    }
    switch (what_of(b, head)) {
    case NOTHING:
        fail_document(b, "it is neither a Resource List nor a Resource Dump");
        break;
    case INDEX:
        add_child(b, entry, head, false);
        break;
    case PACKAGES:
        add_child(b, entry, head,
                  !slice_is(entry->capability, "resourcedump") &&
                      !slice_is(entry->capability, "changedump"));
        break;
    case RESOURCES:
        if (slice_is(entry->capability, "resourcelist"))
            add_child(b, entry, head, false); /* an index served as a list */
        else
            hand_over_entry(b, entry, NULL);
        break;
    }
}

/* Reads the same part again after a pause; the baseline may be over then.
 * False: no further attempt. */
static bool
waits_for_retry(struct baseline *b, const struct problem *why)
{
    struct problem copy = *why; /* a copy: the reading may be freed */
    unsigned ms;

    if (why->rc != STATUS_UNREACHABLE || ++b->n_attempts == ATTEMPTS ||
        (b->plan.patience_s && why->retry_after_s > b->plan.patience_s))
        return false;
    ms = pause_asked(&b->pause_ms, PAUSE_LONGEST, why->retry_after_s);
    timer_start(&b->turn, ms);
    if (b->plan.on_wait && !b->now.is_package)
        b->plan.on_wait(&copy, ms, b->user); /* last: may free `b` */
    return true;
}

/* Adds the report of a document that was read whole. */
static void
note_report(struct baseline *b, const struct document_head *head)
{
    if (b->plan.as_of_us && head->at_us > *b->plan.as_of_us)
        fail_baseline(b, STATUS_UNREACHABLE,
                      "a later list has replaced the one of that time");
    if (b->plan.report)
        list_report_add(b->plan.report, &head->report);
}

/* Notes the document for the listing. An index may be unchanged while its parts
 * change, and a page while later pages change: so both are read each time. A
 * document with rows left out is, too, so that they are reported each
 * time. */
static bool
note_document(struct baseline *b, const struct document_stream_end *end)
{
    struct survey *listing = b->plan.listing;
    struct survey_version version = end->version;
    uint64_t n_left_out =
        end->is_same ? 0 : list_report_n(&end->head->report, LIST_LEFT_OUT);
    bool is_known;

    version.must_read = b->n_led > 0 || n_left_out > 0;
    is_known = b->known.digest[0] &&
               (end->is_same || !strcmp(version.digest, b->known.digest));
    b->is_changed |= !is_known && !end->is_same;
    /* The packages that a known document names are known, too. */
    for (size_t i = b->n_before; b->plan.is_partial && i < b->parts.n; i++)
        b->parts.all[i].is_same = is_known && b->parts.all[i].is_package &&
                                  !b->parts.all[i].has_manifest;
    if (!listing)
        return true;
    return has_listed(
        b, end->is_same ? survey_document_same(listing)
                        : survey_document_end(listing, &version, n_left_out));
}

/* A robots.txt names Sitemaps that do not depend on each other. True: this one
 * is dead; the others are read, and the reading is in doubt. A dead
 * manifest is in its package, too. */
static bool
does_without(struct baseline *b, const struct problem *why)
{
    bool is_manifest = b->now.is_manifest && !b->plan.takes;

    if (!(b->now.is_alone || is_manifest) || b->is_checking ||
        (why->rc != STATUS_REFUSED && why->rc != STATUS_GONE &&
         why->rc != STATUS_MALFORMED))
        return false;
    if (is_manifest) {
        end_part(b);
        return true;
    }
    if (!b->lost.rc)
        b->lost = *why;
    snprintf(b->doubt, sizeof(b->doubt), "%.500s", b->lost.text);
    end_part(b);
    return true;
}

static void judge_check(struct baseline *b,
                        const struct document_stream_end *end);

static void
on_read(const struct problem *why, const struct document_stream_end *end,
        void *user)
{
    struct baseline *b = user;
    const struct document_head *head = end->head;
    struct part *part;

    b->reading = NULL;
    if (b->why.rc || waits_for_retry(b, why) || does_without(b, why))
        return;
    if (why->rc) {
        fail_because(b, why);
        return;
    }
    if (b->is_checking) {
        judge_check(b, end);
        return;
    }
    if (b->base.is_wanted) {
        end_search_part(b, head);
        return;
    }
    if (!end->is_same && what_of(b, head) == NOTHING) {
        fail_document(b, "it is neither a Resource List nor a Resource Dump");
        return;
    }
    b->has_list |= end->is_same || what_of(b, head) != INDEX;
    b->has_manifest = b->now.is_manifest;
    if (!note_document(b, end))
        return;
    /* Keeps what the second look at it, or the next reading, compares. */
    part = baseline_parts_first(&b->parts);
    b->n_documents++;
    strcpy(part->bytes, end->is_same ? b->known.digest : end->version.digest);
    if (digest_check_end(b->rows, NULL) ||
        baseline_parts_keep_etag(&b->parts, part,
                                 end->is_same ? b->known.etag
                                              : end->version.etag)) {
        fail_without_memory(b);
        return;
    }
    digest_check_sha256(b->rows, &part->rows);
    if (!end->is_same) {
        note_report(b, head);
        b->place.made_us = datetime_earlier(b->place.made_us, end->made_us);
        baseline_place_head(&b->place, head, what_of(b, head) == RESOURCES,
                            &b->now);
    }
    end_part(b);
}

/* Packages */

static void
on_manifest(const struct document_head *head, void *user)
{
    struct baseline *b = user;

    if (head->capability == CAP_CHANGEDUMP_MANIFEST && !b->plan.takes)
        fail_document(b, "it is a package of a Change Dump");
    note_report(b, head);
    baseline_place_head(&b->place, head, true, &b->now);
}

static void
on_member(const struct document_entry *entry, const char *file, void *user)
{
    struct baseline *b = user;
    char path[SCRATCH_NAME_SIZE + ZIP_READER_NAME_SIZE];

    if (file)
        snprintf(path, sizeof(path), "%s/%s", b->scratch.name, file);
    hand_over_entry(b, entry, file ? path : NULL);
}

static void
on_dumped(const struct problem *why, void *user)
{
    struct baseline *b = user;

    b->dump = NULL;
    if (!why->rc)
        end_part(b);
    else if (!waits_for_retry(b, why))
        fail_because(b, why);
}

static const struct dump_reader_calls dump_calls = {on_manifest, on_member,
                                                    on_dumped};

/* The way through */

/* Begins a reading at its first document. `is_anew`: forgets an earlier
 * reading. */
static void
begin_reading(struct baseline *b, const char *url, bool is_anew)
{
    struct part first = {.length = LENGTH_NONE,
                         .has_time = b->plan.as_of_us,
                         .from_us = DATETIME_NONE,
                         .until_us = DATETIME_NONE};
    struct slice more = slice_of(b->plan.offered->more_lists);

    if (is_anew)
        baseline_place_init(&b->place);
    if (b->plan.as_of_us) /* its archive may say so alone */
        b->place.time_us = b->base.at_us;
    if (is_anew && b->plan.listing &&
        !has_listed(b, survey_begin(b->plan.listing)))
        return;
    baseline_parts_fini(&b->parts);
    b->n_reported = 0;
    b->n_known = 0;
    b->n_documents = b->checked = 0;
    b->has_list = b->is_checking = b->is_changed = false;
    b->doubt[0] = '\0';
    problem_clear(&b->lost);
    b->n_attempts = 0;
    b->pause_ms = PAUSE_FIRST;
    add_part(b, &first, slice_of(url), (struct slice){NULL, 0});
    while (!b->is_dump && !b->plan.takes && more.size) { /* */
        slice_skip(&more, 1);
        add_part(b, &first, slice_take_until(&more, " "),
                 (struct slice){NULL, 0});
    }
}

/* A part of a Change Dump has failed: goes on with the others. */
static bool
leaves_part(struct baseline *b)
{
    if (!b->plan.takes || b->why.rc == STATUS_MEMORY)
        return false;
    b->plan.on_note(b->why.text, b->user);
    problem_clear(&b->why);
    end_part(b);
    return true;
}

/* The dump has failed: begins the list, if there is one. */
static bool
falls_back(struct baseline *b)
{
    const char *url = b->plan.takes ? NULL : b->plan.offered->resource_list;
    char text[1100];

    if (!b->is_dump || !url || b->base.url || b->why.rc == STATUS_IO ||
        b->why.rc == STATUS_MEMORY)
        return false;
    snprintf(text, sizeof(text), "the Resource Dump is of no use: %s",
             b->why.text);
    if (b->plan.on_note)
        b->plan.on_note(text, b->user);
    b->is_dump = false;
    problem_clear(&b->why);
    /* Once entries of the dump were handed over, its place counts, too: they
     * may be older than the list. */
    begin_reading(b, url, !b->has_reported);
    return true;
}

/* A past time */

/* Looks for the list of that time: among all that the source may have. */
static void
begin_search(struct baseline *b)
{
    const struct offered *o = b->plan.offered;
    const char *const places[] = {o->resource_list_archive,
                                  o->resource_dump_archive, o->resource_list,
                                  o->resource_dump};
    const struct part like = {.length = LENGTH_NONE, .is_alone = true};

    b->pause_ms = PAUSE_FIRST;
    b->base.is_wanted = true;
    b->base.at_us = b->base.earliest_us = DATETIME_NONE;
    for (size_t i = 0; i < N_ELEMENTS(places); i++)
        if (places[i])
            add_part(b, &like, slice_of(places[i]), SLICE(""));
}

/* Begins with the list that was found. */
static void
end_search(struct baseline *b)
{
    struct past_base *base = &b->base;
    bool is_future = *b->plan.as_of_us > clock_now_us();
    struct problem why = {.text = ""};

    base->is_wanted = false;
    if (is_future || !base->url) {
        source_position_has_none(&why, is_future ? STATUS_INVALID : STATUS_GONE,
                                 *b->plan.as_of_us, base->earliest_us);
        fail_because(b, b->lost.rc && base->earliest_us == DATETIME_NONE
                            ? &b->lost
                            : &why);
        return;
    }
    b->is_dump = base->is_dump;
    begin_reading(b, base->url, true);
    timer_start(&b->turn, 0);
}

/* The second look */

/* Calls back. False: the baseline was freed. */
static bool
call_back(struct baseline *b, void (*fn)(const char *why, void *user),
          const char *why)
{
    if (fn)
        fn(why, b->user);
    return !b->retired.is_over;
}

static void
judge_check(struct baseline *b, const struct document_stream_end *end)
{
    const struct part *part = &b->parts.all[b->checked];
    struct digest rows;
    char why[600];

    if (digest_check_end(b->rows, NULL)) {
        fail_without_memory(b);
        return;
    }
    digest_check_sha256(b->rows, &rows);
    if (end->is_same || digest_is_equal(&rows, &part->rows)) {
        b->checked++;
        go_on(b);
        return;
    }
    /* The list has changed since it was read: reads it again. */
    if (++b->n_readings == READINGS_MOST) {
        snprintf(b->doubt, sizeof(b->doubt),
                 "%.300s has changed each of the %d times that it was read: "
                 "resources may be missing",
                 b->parts.all[0].url, READINGS_MOST);
        b->checked = b->parts.next; /* that is the end */
        timer_start(&b->turn, 0);
        return;
    }
    snprintf(why, sizeof(why), "%.300s has changed while the list was read",
             b->now.url);
    if (!call_back(b, b->plan.on_anew, why))
        return;
    if (b->plan.report)
        *b->plan.report = (struct list_report){.n = {0}};
    begin_reading(b,
                  b->base.url  ? b->base.url
                  : b->is_dump ? b->plan.offered->resource_dump
                               : b->plan.offered->resource_list,
                  true);
    timer_start(&b->turn, 0);
}

/* Goes to the next document that needs a second look. False: none. */
static bool
has_to_check(struct baseline *b)
{
    bool is_one_state =
        b->place.has_seq && !b->place.is_seq_open && !b->place.is_seq_mixed;

    if (b->n_documents < 2 || is_one_state || !b->is_changed)
        return false;
    /* One without a digest: a server has said that it is as it was when an
     * earlier version of Tidings read it. */
    while (b->checked < b->parts.next && !b->parts.all[b->checked].bytes[0])
        b->checked++;
    return b->checked < b->parts.next;
}

static const struct document_stream_calls calls = {on_link, on_read_entry,
                                                   on_read};

/* Starts to read `now`, if it is not as `known`. */
static void
start_document(struct baseline *b, const struct survey_version *known)
{
    if (digest_check_reset(b->rows))
        fail_without_memory(b);
    else
        b->reading =
            document_stream_start(b->client, b->now.url, known, &calls, b);
}

static void
start_next(struct baseline *b)
{
    struct dump_reader_request request = {
        .url = b->now.url,
        .hash = slice_of(b->now.hash),
        .length = b->now.length,
        .has_no_files = !b->plan.wants_files,
    };

    b->n_led = 0;
    b->n_before = b->parts.n;
    b->has_manifest = false;
    b->known = (struct survey_version){.etag = ""};
    if (b->plan.listing &&
        !has_listed(b, survey_document(b->plan.listing, b->now.url, &b->known)))
        return;
    if (b->now.is_package && b->scratch.fd < 0 &&
        scratch_open(&b->scratch, b->plan.scratch, &b->why)) {
        timer_start(&b->turn, 0);
        return;
    }
    request.dir_fd = b->scratch.fd;
    if (b->now.is_package)
        b->dump = dump_reader_start(b->client, &request, &dump_calls, b);
    else
        start_document(b, b->plan.is_partial && !b->known.must_read ? &b->known
                                                                    : NULL);
}

/* True if the part need not be read. */
static bool
skips_part(struct baseline *b, const struct part *part)
{
    struct survey *listing = b->plan.listing;

    if (b->plan.takes)
        return !b->plan.takes(part, b->user);
    if (part->is_same)
        (void)has_listed(b, survey_document(listing, part->url, &b->known) &&
                                survey_document_same(listing));
    return part->is_same || (part->has_manifest && b->has_manifest);
}

/* No part is left. True: there is no list to check, and the baseline has ended,
 * or goes on with what the search has found. */
static bool
ends_without_list(struct baseline *b)
{
    if (b->base.is_wanted)
        end_search(b);
    else if (b->plan.takes)
        end_baseline(b);
    else if (b->has_list)
        return false;
    else if (b->lost.rc)
        fail_because(b, &b->lost);
    else if (b->n_known > 0)
        fail_baseline(b, STATUS_MALFORMED,
                      "its index leads in a circle, and to no list");
    else
        return false;
    return true;
}

static void
on_turn(void *user)
{
    struct baseline *b = user;
    struct part *part;

    if (b->why.rc) {
        document_stream_free(b->reading);
        b->reading = NULL;
        dump_reader_free(b->dump);
        b->dump = NULL;
        if (leaves_part(b))
            return;
        if (!falls_back(b)) {
            end_baseline(b);
            return;
        }
    }
    part = baseline_parts_first(&b->parts);
    if (part && skips_part(b, part)) {
        end_part(b);
        return;
    }
    if (part) {
        b->now = *part;
        start_next(b);
    } else if (ends_without_list(b)) {
        return;
    } else if (has_to_check(b)) {
        struct survey_version known = {.etag = ""};

        b->is_checking = true;
        b->now = b->parts.all[b->checked];
        if (b->now.etag)
            snprintf(known.etag, sizeof(known.etag), "%s", b->now.etag);
        strcpy(known.digest, b->now.bytes);
        start_document(b, &known);
    } else {
        if (!b->is_paused &&
            (!b->doubt[0] || call_back(b, b->plan.on_doubt, b->doubt)))
            end_baseline(b);
        return;
    }
    if (!b->dump && !b->reading)
        fail_without_memory(b);
    else if (b->is_paused)
        baseline_hold(b, true);
}

struct baseline *
baseline_start(struct td_client *client, const struct baseline_plan *plan,
               baseline_entry_fn *on_entry, baseline_end_fn *on_end, void *user)
{
    struct baseline *b = calloc(1, sizeof(*b));
    const char *first;

    if (!b)
        return NULL;
    b->client = client;
    b->plan = *plan;
    b->on_entry = on_entry;
    b->on_end = on_end;
    b->user = user;
    b->scratch = SCRATCH_NONE;
    timer_init(&b->turn, client->loop, on_turn, b);
    b->rows = digest_check_new(SLICE(""), LENGTH_NONE, true);
    if (!b->rows) {
        baseline_free(b);
        return NULL;
    }
    first = plan->offered->resource_list;
    b->is_dump = plan->offered->resource_dump && !plan->as_of_us &&
                 (b->plan.wants_files || !first);
    if (b->is_dump)
        first = plan->offered->resource_dump;
    if (!first && !plan->as_of_us)
        fail_baseline(
            b, STATUS_GONE,
            "the source offers neither a Resource List nor a Resource Dump");
    else if (plan->as_of_us)
        begin_search(b);
    else
        begin_reading(b, first, true);
    if (plan->takes && b->parts.n && plan->offered->resource_dump_archive) {
        struct part last = *b->parts.all;

        last.distance_us = INT64_MAX;
        add_part(b, &last, slice_of(plan->offered->resource_dump_archive),
                 SLICE(""));
    }
    timer_start(&b->turn, 0);
    return b;
}

void
baseline_hold(void *baseline, bool is_held)
{
    struct baseline *b = baseline;

    b->is_paused = is_held;
    if (b->reading)
        document_stream_hold(b->reading, is_held);
    else if (b->dump)
        dump_reader_hold(b->dump, is_held);
    else if (!is_held && !baseline_parts_first(&b->parts))
        timer_start(&b->turn, 0);
}
