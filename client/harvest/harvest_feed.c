#include "client/harvest/harvest_feed.h"

#include "base/clock.h"
#include "client/harvest/harvest_entry.h"
#include "client/lib/json_slices.h"
#include "proto/resourcesync/json.h"

/* Limits of a post; a message may have more. */
#define ENTRIES_MAX 10000
#define BYTES_MAX   ((size_t)4 << 20)

/* The outbox */

/* True if its posts have the bytes of resources. */
static bool
has_parts(const struct harvest_feed *f)
{
    return f->files || f->target->options->stores_records;
}

/* Moves the part to the position behind its changes; without changes, it stores
 * the part. */
bool
harvest_feed_flush(struct harvest_outbox *o)
{
    struct harvest_feed *f = o->feed;
    struct harvest_target *t;
    const char *position;
    bool is_good = true;

    if (!f)
        return true;
    t = f->target;
    position = f->has_position ? f->position : NULL;
    BUF_ADD(&o->body, "]\n");
    if (has_parts(f)) {
        buf_add_slice(&o->body, buf_slice(&o->parts));
        buf_add_format(&o->body, "\r\n--%s--\r\n", o->boundary);
    }
    if (o->n > 0) {
        is_good =
            (!o->body.failed || HARVEST_TARGET_FAIL(t, TD_MEMORY, NO_MEMORY)) &&
            harvest_db_seal(f->db, &f->part, buf_slice(&o->body), o->n,
                            position) &&
            harvest_target_post(t);
    } else if (position) {
        snprintf(f->part.position, sizeof(f->part.position), "%s", position);
        is_good = harvest_db_note_part(f->db, &f->part);
    }
    buf_fini(&o->body);
    buf_fini(&o->parts);
    o->n = 0;
    f->has_position = false;
    return is_good;
}

/* Makes the outbox this feed's. */
static bool
take_outbox(struct harvest_feed *f)
{
    struct harvest_outbox *o = f->outbox;

    if (o->feed != f && !harvest_feed_flush(o))
        return false;
    o->feed = f;
    return true;
}

static bool
is_full(const struct harvest_outbox *o)
{
    return o->n >= ENTRIES_MAX || o->body.size + o->parts.size >= BYTES_MAX;
}

/* Posts what waits if that is enough. */
static bool
flush_full(struct harvest_feed *f)
{
    return !is_full(f->outbox) || harvest_feed_flush(f->outbox);
}

/* What a source's entry describes, with its loc in the set. Lent until the next
 * call. */
static struct harvest_resource
resource_of(struct harvest_feed *f, const struct td_change *c)
{
    struct harvest_resource r = {slice_of(c->loc), harvest_text_of(c),
                                 harvest_version_of(c)};

    if (f->target->options->republishes) {
        buf_clear(&f->loc);
        copy_write_loc(&f->loc, f->target->home, r.loc);
        r.loc = buf_slice(&f->loc);
    }
    return r;
}

/* Adds the bytes of a record, or of a copy, to the post; false: they cannot be
 * had. */
static bool
add_bytes(struct harvest_feed *f, const struct harvest_resource *r)
{
    struct harvest_target *t = f->target;
    struct harvest_outbox *o = f->outbox;
    struct slice original = {NULL, 0};
    enum td_status rc = TD_MEMORY;
    char *url;

    if (!f->files) {
        copy_add_part(&o->parts, o->boundary, r->loc, "application/xml",
                      f->record);
        return true;
    }
    json_slices_member(r->entry, "loc", &original);
    url = slice_dup(json_slices_text(original));
    if (url)
        rc = copy_fetch(f->files, url, &r->version, r->loc, o->boundary,
                        &o->parts);
    free(url);
    if (rc == TD_STOPPED || td_service(t->client) == TD_STOPPED)
        return harvest_target_end(t, TD_STOPPED);
    if (rc)
        harvest_target_say(t, "not republished: %.*s: %s", SLICE_ARG(original),
                           td_problem(f->files));
    return !rc;
}

/* Counts a change that is in the outbox. */
static void
note_change(struct harvest_feed *f, struct slice loc, const char *change)
{
    const struct harvest_options *how = f->target->options;

    f->outbox->n++;
    ++*(!strcmp(change, "deleted")   ? &f->counts.deleted
        : !strcmp(change, "created") ? &f->counts.added
                                     : &f->counts.changed);
    if (how->on_change)
        how->on_change(change, loc, how->user);
}

/* Posts a change of a resource, and has `part` keep it, or not any more.
 * `change`: its kind; `is_own`: the entry says it. An entry that was in the
 * set's log changes nothing; one whose bytes cannot be had is tried again. */
static bool
post_change(struct harvest_feed *f, int64_t part,
            const struct harvest_resource *r, const char *change, bool is_own,
            int64_t changed_us)
{
    struct harvest_target *t = f->target;
    const struct harvest_options *how = t->options;
    struct buf *body = &f->outbox->body;
    const struct harvest_rules rules = {f->epoch,
                                        t->epoch,
                                        how->keeps_links,
                                        is_own ? NULL : change,
                                        how->republishes ? r->loc : SLICE(""),
                                        &f->counts.dropped_links};
    bool is_deleted = !strcmp(change, "deleted");
    enum harvest_verdict verdict = HARVEST_ODD;
    size_t mark = body->size;

    if (has_parts(f) && !f->outbox->n)
        buf_add_format(body, "--%s\r\nContent-Type: application/json\r\n\r\n",
                       f->outbox->boundary);
    if (r->entry.size)
        verdict =
            harvest_entry(body, f->outbox->n ? ",\n" : "[", r->entry, &rules);
    if (verdict == HARVEST_ODD)
        return HARVEST_TARGET_FAIL(t, TD_IO,
                                   "%s: the entry of %.*s cannot be read",
                                   f->url, SLICE_ARG(r->loc));
    if (verdict == HARVEST_RING ||
        (has_parts(f) && !is_deleted && !add_bytes(f, r))) {
        body->size = mark;
        return !t->is_over &&
               (verdict == HARVEST_RING || harvest_db_defer(f->db, part, r));
    }
    note_change(f, r->loc, change);
    if (body->failed || f->outbox->parts.failed)
        return HARVEST_TARGET_FAIL(t, TD_MEMORY, NO_MEMORY);
    return is_deleted ? harvest_db_remove(f->db, part, r->loc, changed_us)
                      : harvest_db_keep(f->db, part, r, changed_us);
}

/* Changes */

/* The time of a change, by the source's clock; else by ours. R-412: a change
 * that comes after a list counts as later than the list, even if the source
 * gives it an earlier time. One of the very time of the list that this look has
 * read, or without a time, came behind that list, too. */
static int64_t
time_of(const struct harvest_feed *f, const struct td_change *c)
{
    int64_t us = datetime_of(slice_of(c->datetime ? c->datetime : c->lastmod));
    int64_t listed_us = f->part.listed_us;

    if (us == DATETIME_NONE)
        us = clock_now_us();
    else if (us != listed_us)
        listed_us = f->listed_us;
    return us > listed_us ? us : listed_us + 1;
}

static bool
apply_deletion(struct harvest_feed *f, const struct td_change *c,
               const struct harvest_resource *r,
               const struct harvest_known *known)
{
    bool is_own = c->change && !strcmp(c->change, "deleted");
    int64_t changed_us =
        f->has_log || f->has_only_list ? DATETIME_NONE : time_of(f, c);

    if (!known->is_known && f->target->filter.text_size)
        return true;
    if (!known->is_known && !f->has_log) {
        /* The source may name its deletions otherwise. */
        if (!f->suspicion[0])
            snprintf(f->suspicion, sizeof(f->suspicion),
                     "a deletion of %.*s, which the set does not have",
                     r->loc.size < 300 ? (int)r->loc.size : 300, r->loc.data);
    } else if (!known->is_elsewhere) {
        return post_change(f, f->part.id, r, "deleted", is_own, changed_us);
    }
    return harvest_db_remove(f->db, f->part.id, r->loc, changed_us);
}

/* Posts what the set does not have in this version. */
static bool
apply_resource(struct harvest_feed *f, const struct harvest_resource *r,
               const struct harvest_known *known)
{
    if (known->is_same)
        return true;
    if (!known->is_there && known->is_same_there)
        return harvest_db_keep(f->db, f->part.id, r, DATETIME_NONE);
    return post_change(f, f->part.id, r,
                       known->is_known ? "updated" : "created", false,
                       DATETIME_NONE);
}

/* A list has told of this change before: it is older than the list, which had
 * the resource in this version. */
static bool
was_listed(const struct harvest_feed *f, const struct td_change *c,
           const struct harvest_known *known)
{
    int64_t us = datetime_of(slice_of(c->datetime));

    return known->is_same && known->changed_us == DATETIME_NONE &&
           us != DATETIME_NONE && us <= f->part.listed_us;
}

static bool
apply_change(struct harvest_feed *f, const struct td_change *c)
{
    bool is_deleted = (c->change && !strcmp(c->change, "deleted")) ||
                      !part_filter_passes(&f->target->filter, c, &f->loc);
    struct harvest_resource r = resource_of(f, c);
    struct harvest_known known;

    if (!harvest_db_look(f->db, f->part.id, &r, &known) ||
        (f->is_replay &&
         !harvest_db_list(f->db, f->part.id, r.loc, !is_deleted)))
        return false;
    if (is_deleted)
        return f->is_replay || apply_deletion(f, c, &r, &known);
    if (f->has_only_list || f->is_replay || f->is_anew ||
        (f->target->filter.text_size && !known.is_there))
        return apply_resource(f, &r, &known);
    if (!f->has_log && was_listed(f, c, &known))
        return harvest_db_keep(f->db, f->part.id, &r, time_of(f, c));
    return post_change(f, f->part.id, &r, c->change ? c->change : "updated",
                       c->change != NULL,
                       f->has_log ? DATETIME_NONE : time_of(f, c));
}

/* The position after the entry before `i`, or the message's. */
static void
note_position(struct harvest_feed *f, const struct td_message *message,
              size_t i)
{
    if (i == message->n_changes)
        td_message_mark(message, f->position);
    else
        position_write(f->position, message->position,
                       message->changes[i - 1].seq);
    f->has_position = !f->is_replay;
}

/* Notes what the source is; fails if it is the set itself. A source that is not
 * a set of Tidings has no log and no name: its positions are places in its
 * lists, or of the listing beside the state. */
static bool
learn_source(struct harvest_feed *f, const struct td_message *message)
{
    const char *position = message->position;

    f->has_log = !strstr(message->set, "://");
    f->has_only_list =
        !f->has_log && position[0] != '@' && strchr(position, '-') != NULL;
    strcpy(f->epoch, f->has_log ? harvest_place_of(position).epoch : "");
    if (!f->epoch[0] || strcmp(f->epoch, f->target->epoch) != 0)
        return true;
    return HARVEST_TARGET_FAIL(f->target, TD_INVALID, "the two sets are one");
}

/* A heartbeat ends a reading: what waits is posted. So is what was pushed. */
static bool
apply_changes(struct harvest_feed *f, const struct td_message *message)
{
    if (!message->position || !learn_source(f, message) || !flush_full(f))
        return false;
    if (f->is_anew && f->has_log) {
        f->is_anew = false;
        f->is_replay = harvest_db_begin_list(f->db, f->part.id, &f->n_before);
        if (!f->is_replay)
            return false;
    }
    for (size_t i = 0; i < message->n_changes; i++) {
        /* Entries without seqs have no position between them. */
        if (message->last && i > 0 && is_full(f->outbox)) {
            note_position(f, message, i);
            if (!harvest_feed_flush(f->outbox))
                return false;
        }
        if (message->changes[i].loc && !apply_change(f, &message->changes[i]))
            return false;
    }
    note_position(f, message, message->n_changes);
    if (f->is_replay)
        return message->n_changes > 0 || harvest_feed_end_replay(f);
    return (!f->has_log && message->n_changes > 0) ||
           harvest_feed_flush(f->outbox);
}

/* Lists of all resources */

static bool
list_resource(struct harvest_feed *f, const struct td_change *c)
{
    bool is_out = !part_filter_passes(&f->target->filter, c, &f->loc);
    struct harvest_resource r = resource_of(f, c);
    struct harvest_known known;

    if (is_out)
        return true;
    if (!harvest_db_look(f->db, f->part.id, &r, &known) ||
        !harvest_db_list(f->db, f->part.id, r.loc, true))
        return false;
    /* A list may say less of a resource than its changes did. */
    if (known.is_same || (f->is_comparison && known.is_like))
        return true;
    /* It may have changed after the list was made. */
    if (known.changed_us != DATETIME_NONE)
        return harvest_db_defer(f->db, f->part.id, &r);
    return apply_resource(f, &r, &known);
}

/* The part has the resource no longer: deletes it if no other one has it. */
static bool
delete_resource(struct harvest_feed *f, int64_t part, struct slice loc)
{
    struct harvest_resource r = {loc, .version = survey_resource_unknown};
    struct harvest_known known;
    char text[65536];
    struct buf entry;
    struct change c;

    change_init(&c);
    c.loc = loc;
    buf_init_fixed(&entry, text, sizeof(text));
    json_change(&entry, &c);
    r.entry = buf_slice(&entry);
    if (!harvest_db_look(f->db, part, &r, &known))
        return false;
    if (!known.is_there || known.is_elsewhere)
        return harvest_db_remove(f->db, part, loc, DATETIME_NONE);
    return post_change(f, part, &r, "deleted", false, DATETIME_NONE) &&
           flush_full(f);
}

/* Deletes the resources of `part` that wait in the queue. */
static bool
delete_all(struct harvest_feed *f, int64_t part, enum harvest_queue queue)
{
    struct harvest_resource next;

    while (harvest_db_next(f->db, queue, part, &next))
        if (!next.loc.size)
            return true;
        else if (!delete_resource(f, part, next.loc))
            return false;
    return false;
}

/* Deletes what the list lacks, or holds it back: of a list in doubt, and
 * where there is no new one, all that nobody has consented to. */
static bool
apply_deletions(struct harvest_feed *f, uint64_t n, uint64_t n_of,
                bool is_doubtful)
{
    const struct survey_guard guard = {f->target->options->max_delete,
                                       harvest_target_accepts(f->target),
                                       f->keeps_missing || is_doubtful};

    f->counts.held_back = 0;
    if (!survey_holds_back(&guard, n, n_of, &f->part.n_held_of))
        return n == 0 || delete_all(f, f->part.id, QUEUE_HELD);
    f->counts.held_back = n;
    f->counts.held_of = f->part.n_held_of;
    return true;
}

/* Applies what was deferred, and has not changed behind `as_of_us`. */
static bool
apply_deferred(struct harvest_feed *f, int64_t as_of_us)
{
    struct harvest_resource next;
    struct harvest_known known;
    uint64_t n;

    if (!harvest_db_waiting(f->db, QUEUE_DEFERRED, f->part.id, &n))
        return false;
    while (n-- > 0)
        if (!harvest_db_next(f->db, QUEUE_DEFERRED, f->part.id, &next) ||
            !harvest_db_look(f->db, f->part.id, &next, &known) ||
            (known.changed_us <= as_of_us &&
             !apply_resource(f, &next, &known)) ||
            !flush_full(f))
            return false;
    return true;
}

bool
harvest_feed_retry(struct harvest_feed *f, bool is_due)
{
    static const char lacks[] = "resources whose bytes could not be had: ";
    uint64_t n;

    if (!f->files)
        return true;
    if ((is_due && !(take_outbox(f) && apply_deferred(f, INT64_MAX))) ||
        !harvest_db_waiting(f->db, QUEUE_DEFERRED, f->part.id, &n))
        return false;
    if (n > 0)
        snprintf(f->part.doubt, sizeof(f->part.doubt), "%s%" PRIu64, lacks, n);
    else if (!strncmp(f->part.doubt, lacks, sizeof(lacks) - 1))
        f->part.doubt[0] = '\0';
    return true;
}

/* Ends a list that was true at `as_of_us`. One that is in doubt itself ends no
 * doubt, and deletes nothing. */
static bool
settle_list(struct harvest_feed *f, int64_t as_of_us)
{
    uint64_t n;
    bool is_empty, leaves_out = f->counts.left_out > f->part.n_left_out;

    if (!apply_deferred(f, as_of_us) ||
        !harvest_db_end_list(f->db, f->part.id, as_of_us, &n, &is_empty) ||
        !apply_deletions(f, n, is_empty ? n : f->n_before,
                         f->is_doubtful || leaves_out))
        return false;
    if (!f->counts.held_back)
        f->part.n_left_out = f->counts.left_out;
    f->part.compared_us = clock_now_us();
    if (as_of_us > f->part.listed_us)
        f->part.listed_us = as_of_us;
    if (!f->is_doubtful) {
        f->part.doubt[0] = '\0';
        f->part.complete_us = datetime_earlier(as_of_us, clock_now_us());
    }
    f->is_doubtful = false;
    f->suspicion[0] = '\0';
    f->has_position = true;
    return harvest_feed_flush(f->outbox);
}

bool
harvest_feed_end_replay(struct harvest_feed *f)
{
    f->is_replay = false;
    return settle_list(f, clock_now_us());
}

static bool
end_list(struct harvest_feed *f, const struct td_message *message)
{
    const char *dash = strrchr(message->position, '-');
    int64_t as_of_us = datetime_of(slice_of(message->as_of));

    f->is_listing = false;
    if (!learn_source(f, message))
        return false;
    /* A set of Tidings that has no list, but its whole history: what follows
     * are all its resources. */
    f->is_replay = f->has_log && !f->n_listed && dash && !strcmp(dash, "-0");
    note_position(f, message, message->n_changes);
    if (f->is_replay)
        return true;
    return settle_list(f, as_of_us != DATETIME_NONE ? as_of_us : f->survey_us);
}

bool
harvest_feed_message(struct harvest_feed *f, const struct td_message *message)
{
    if (!take_outbox(f))
        return false;
    switch (message->kind) {
    case TD_CHANGES:
        return apply_changes(f, message);
    case TD_BASELINE_BEGIN:
        if (!harvest_feed_flush(f->outbox))
            return false;
        f->is_listing = true;
        f->is_replay = f->is_anew = f->is_doubtful = false;
        f->n_listed = 0;
        f->is_comparison = message->is_comparison != 0;
        f->survey_us = clock_now_us();
        if (f->part.position[0] && message->reason &&
            !(f->is_comparison && f->is_routine))
            harvest_target_say(f->target,
                               "%s: %s; comparing all resources with the set's",
                               f->url, message->reason);
        return harvest_db_begin_list(f->db, f->part.id, &f->n_before);
    case TD_BASELINE:
        f->n_listed += message->n_changes;
        for (size_t i = 0; i < message->n_changes; i++)
            if (message->changes[i].loc &&
                (!list_resource(f, &message->changes[i]) || !flush_full(f)))
                return false;
        return true;
    case TD_BASELINE_END:
        return end_list(f, message);
    }
    return true;
}

/* Records of OAI-PMH */

bool
harvest_feed_begin_pass(struct harvest_feed *f, bool is_full)
{
    f->has_only_list = true;
    f->is_listing = is_full;
    f->is_doubtful = false;
    f->survey_us = clock_now_us();
    memset(f->n_records, 0, sizeof(f->n_records));
    f->counts.left_out = f->counts.mended = 0;
    return take_outbox(f) && harvest_db_drop_tombs(f->db, f->part.id, true) &&
           (!is_full || harvest_db_begin_list(f->db, f->part.id, &f->n_before));
}

/* Of two states of a record in one pass the later one counts, of equal ones the
 * living one, whichever comes first. False: `now` does not count. One that is
 * older than what another pass had waits: the later one may follow. */
static bool
is_later(const struct harvest_record *had, struct harvest_record *now)
{
    bool is_again = had->pass == now->pass;
    bool is_better = (had->state == RECORD_GONE && now->state != RECORD_GONE) ||
                     (had->state == RECORD_UNREAD && now->state == RECORD_HELD);

    now->known_us =
        is_again || had->state == RECORD_WAITS ? had->known_us : had->stamp_us;
    if (is_again && (now->stamp_us < had->stamp_us ||
                     (now->stamp_us == had->stamp_us && !is_better)))
        return false;
    if (now->state == RECORD_HELD && now->stamp_us < now->known_us)
        now->state = RECORD_WAITS;
    if (now->state == RECORD_UNREAD && now->stamp_us < now->known_us)
        now->stamp_us = now->known_us;
    return true;
}

/* Counts a record once in a pass, as what it is in the end. One that is neither
 * deleted nor held is left out. */
static void
count_record(struct harvest_feed *f, struct slice identifier,
             const struct harvest_record *had, const struct harvest_record *now,
             const char *fault)
{
    bool is_again = had->pass == now->pass;

    if (now->state == RECORD_UNREAD &&
        !(is_again && had->state == RECORD_UNREAD) && !f->counts.left_out++)
        snprintf(f->counts.left_out_text, HARVEST_TEXT_SIZE, "%s: \"%s\"",
                 fault ? fault : "no loc, or that of another record",
                 problem_quote(identifier).text);
    f->n_records[now->state]++;
    if (is_again)
        f->n_records[had->state]--;
}

static bool
apply_record(struct harvest_feed *f, const struct change *c, uint64_t digest)
{
    /* A stamp may be a day. The digest is for the state alone. */
    struct harvest_resource r = {.loc = c->loc,
                                 .version = {c->lastmod_us, {0}, digest >> 1}};
    struct harvest_known known;
    char text[65536];
    struct buf entry;

    buf_init_fixed(&entry, text, sizeof(text));
    json_change(&entry, c);
    r.entry = buf_slice(&entry);
    return harvest_db_look(f->db, f->part.id, &r, &known) &&
           apply_resource(f, &r, &known);
}

/* Applies the state of a record, which had the loc `old`, and notes it. */
static bool
keep_record(struct harvest_feed *f, struct slice identifier, struct slice old,
            const struct change *c, uint64_t digest,
            const struct harvest_record *now)
{
    bool is_gone = now->state == RECORD_GONE;

    if (!is_gone && old.size && !slice_equal(old, c->loc) &&
        !delete_resource(f, f->part.id, old))
        return false;
    return (now->state != RECORD_HELD || apply_record(f, c, digest)) &&
           (is_gone || !c->loc.size || !f->is_listing ||
            harvest_db_list(f->db, f->part.id, c->loc, true)) &&
           harvest_db_note_record(f->db, f->part.id, identifier, c->loc, now) &&
           flush_full(f);
}

bool
harvest_feed_record(struct harvest_feed *f, struct slice identifier,
                    const struct change *c, uint64_t digest, struct slice bytes,
                    const char *fault)
{
    bool is_deleted = c->kind == CHANGE_DELETED && identifier.size;
    struct harvest_record had, now = {.pass = f->survey_us,
                                      .stamp_us = c->lastmod_us,
                                      .known_us = DATETIME_NONE};
    struct change kept = *c;

    if (!take_outbox(f) || !harvest_db_record(f->db, f->part.id, identifier,
                                              c->loc, f->survey_us, &had))
        return false;
    f->record = bytes;
    if (!identifier.size) { /* nobody knows what is missing then */
        had = (struct harvest_record){.stamp_us = DATETIME_NONE};
        f->keeps_missing = true;
    }
    now.state = is_deleted ? RECORD_GONE
                : c->loc.size && !had.is_taken && identifier.size
                    ? RECORD_HELD
                    : RECORD_UNREAD;
    if (!is_later(&had, &now))
        return true;
    if (is_deleted ? had.loc[0] || had.is_taken : now.state != RECORD_HELD)
        kept.loc = slice_of(had.loc); /* it stays as it was, as yet */
    count_record(f, identifier, &had, &now, fault);
    return keep_record(f, identifier, slice_of(had.loc), &kept, digest, &now);
}

bool
harvest_feed_end_pass(struct harvest_feed *f, const char *position,
                      bool is_whole)
{
    if (!is_whole && !harvest_db_drop_tombs(f->db, f->part.id, false))
        return false;
    f->has_position = position != NULL;
    if (position)
        snprintf(f->position, sizeof(f->position), "%s", position);
    return delete_all(f, f->part.id, QUEUE_TOMBS) &&
           (f->is_listing && is_whole ? settle_list(f, f->survey_us)
                                      : harvest_feed_flush(f->outbox));
}

/* What waits for consent */

bool
harvest_feed_held(struct harvest_feed *f)
{
    uint64_t n;

    return harvest_db_waiting(f->db, QUEUE_HELD, f->part.id, &n) &&
           take_outbox(f) && apply_deletions(f, n, n, true) &&
           harvest_feed_flush(f->outbox);
}

bool
harvest_feed_strays(struct harvest_feed *f, uint64_t *n)
{
    uint64_t n_of;
    bool is_empty;

    if (!harvest_db_count(f->db, 0, n))
        return false;
    if (*n == 0 || *n > f->target->options->accept_deletions)
        return true;
    *n = 0;
    /* An empty list: it lacks all of them. */
    return take_outbox(f) && harvest_db_begin_list(f->db, 0, &n_of) &&
           harvest_db_end_list(f->db, 0, DATETIME_NONE, &n_of, &is_empty) &&
           delete_all(f, 0, QUEUE_HELD) && harvest_feed_flush(f->outbox);
}
