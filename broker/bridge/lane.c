#include "broker/bridge/lane.h"

#include "base/array.h"
#include "broker/bridge/outbound_state.h"

/* Ends */

static uint64_t *
ends_of(const struct lane *lane)
{
    return lane->ends ? lane->ends + lane->first_end : NULL;
}

/* Drops the first `n` ends. The others move when they are the smaller part. A
 * lane at rest frees its ends. */
static void
drop_ends(struct lane *lane, size_t n)
{
    lane->first_end += n;
    lane->n_ends -= n;
    lane->n_begun = lane->n_begun > n ? lane->n_begun - n : 0;
    if (lane->first_end > lane->n_ends && lane->n_ends > 0) {
        memmove(lane->ends, ends_of(lane), lane->n_ends * sizeof(*lane->ends));
        lane->first_end = 0;
    }
    if (lane->n_ends > 0)
        return;
    free(lane->ends);
    lane->ends = NULL;
    lane->first_end = lane->ends_capacity = 0;
}

/* Adds an end, the place `i` of all. */
static enum status
add_end(struct lane *lane, size_t i, uint64_t end)
{
    uint64_t *at;

    if (!ONE_MORE(lane->ends, &lane->ends_capacity,
                  lane->first_end + lane->n_ends))
        return STATUS_MEMORY;
    at = ends_of(lane) + i;
    memmove(at + 1, at, (lane->n_ends - i) * sizeof(*at));
    *at = end;
    lane->n_ends++;
    return STATUS_OK;
}

uint64_t
lane_next_end(const struct lane *lane)
{
    return lane->n_begun < lane->n_ends ? ends_of(lane)[lane->n_begun]
                                        : UINT64_MAX;
}

enum status
lane_begin(struct lane *lane, uint64_t last, bool *is_new)
{
    *is_new = lane_next_end(lane) != last;
    if (*is_new && add_end(lane, lane->n_begun, last))
        return STATUS_MEMORY;
    lane->n_begun++;
    lane->begun = last;
    return STATUS_OK;
}

/* Moving */

/* Begins at `acked`, with nothing begun. */
static void
start_lane(struct lane *lane, const char *epoch, uint64_t acked)
{
    memmove(lane->epoch, epoch, sizeof(lane->epoch));
    drop_ends(lane, lane->n_ends);
    store_relaxed(&lane->acked, acked);
    lane_rewind(lane);
}

void
lane_note_made(struct lane *lane, uint64_t upto, const struct digest *digest)
{
    lane->made_upto = upto;
    lane->made_digest = *digest;
    lane->has_made_digest = true;
    if (upto > lane->begun)
        lane->begun = upto;
}

void
lane_move(struct lane *lane, uint64_t upto)
{
    const uint64_t *ends = ends_of(lane);
    size_t n = 0;

    store_relaxed(&lane->acked, upto);
    while (n < lane->n_ends && ends[n] <= upto)
        n++;
    if (n > 0)
        drop_ends(lane, n);
}

/* Ends within the passed entries stay in the row until they are acknowledged in
 * turn, but no message ends there. */
void
lane_pass(struct lane *lane, uint64_t upto)
{
    while (lane_next_end(lane) <= upto)
        lane->n_begun++;
    if (upto > lane->begun)
        lane->begun = upto;
    if (upto > lane->made_upto) {
        lane->made_upto = upto;
        lane->has_made_digest = false;
    }
}

void
lane_rewind(struct lane *lane)
{
    flight_window_orphan(&lane->out->window, &lane->flights);
    lane->begun = lane->made_upto = lane_acked(lane);
    lane->has_made_digest = false;
    lane->n_begun = 0;
}

/* Queues */

void
lane_ready(struct lane *lane)
{
    bool is_paused = lane->resume_us > 0;

    if (lane->set && !lane->is_withheld && !is_paused &&
        list_is_empty(&lane->queue))
        list_append(&lane->out->queues.ready, &lane->queue);
}

/* There is a queue for each length of a pause, so each is in order of its
 * ends. */
void
lane_pause(struct lane *lane)
{
    static const struct backoff backoff = {SECOND_US, 60 * SECOND_US};
    unsigned failures = lane->failures < PAUSES ? ++lane->failures : PAUSES;

    lane->resume_us = clock_steady_us() + backoff_pause(&backoff, failures, 0);
    list_put(&lane->out->queues.paused[failures - 1], &lane->queue);
}

/* Notes */

void
lane_note(struct lane *lane)
{
    struct outbound *out = lane->out;

    if (list_is_empty(&out->unkept.lanes) && !out->unkept.is_failing)
        out->unkept.keep_at_us = clock_steady_us() + SECOND_US;
    if (list_is_empty(&lane->unkept))
        list_append(&out->unkept.lanes, &lane->unkept);
}

void
lane_note_position(struct lane *lane)
{
    struct lane_position *p = &lane->position;

    if (lane->is_withheld && !p->is_clearing)
        return;
    p->is_due = true;
    if (!p->is_resting && list_is_empty(&p->node))
        list_append(&lane->out->queues.due, &p->node);
}

void
lane_set_refused(struct lane *lane, int reason)
{
    struct outbound *out = lane->out;

    pthread_mutex_lock(&out->mutex);
    lane->reason = (uint8_t)reason;
    if (!reason)
        list_remove(&lane->refused);
    else if (list_is_empty(&lane->refused))
        list_append(&out->refused, &lane->refused);
    pthread_mutex_unlock(&out->mutex);
}

/* The lanes of a bridge */

/* Looks at all sets take at most a twentieth of the thread's time, however
 * often sets come and go. */
#define LOOK_SHARE 20

/* Rows of mqtt.db */

/* Has mqtt.db note a new lane before any message of it. `is_firm`: without its
 * row the next start would let it begin elsewhere. */
static void
note_beginning(struct lane *lane, bool is_firm)
{
    if (lane->is_unseen)
        return;
    lane_note(lane);
    lane->out->unkept.must_keep = true;
    lane->out->unkept.must_be_firm |= is_firm;
}

static void
log_db_failure(struct outbound *out, enum status rc, const struct problem *why)
{
    if (rc && !out->unkept.is_failing)
        DIAG(DIAG_WARNING, "bridge",
             "cannot write the progress of a bridge: after a crash it would "
             "publish messages again",
             diag_text("bridge", out->config->name),
             diag_text("error", why->text));
    if (!rc && out->unkept.is_failing)
        DIAG(DIAG_INFO, "bridge", "the progress of a bridge is written again",
             diag_text("bridge", out->config->name));
    out->unkept.is_failing = rc;
}

/* Writes all rows that were noted; after a failure they stay noted. */
static enum status
write_rows(struct outbound *out, struct problem *why)
{
    struct lane *lane;
    enum status rc = mqtt_db_begin(out->db, out->unkept.must_be_firm, why);

    if (rc)
        return rc;
    list_walk (lane, &out->unkept.lanes, unkept) {
        struct lane_row row = {
            .set = slice_of(lane->name),
            .acked = lane_acked(lane),
            .ends = ends_of(lane),
            .n_ends = lane->n_ends,
        };

        memcpy(row.epoch, lane->epoch, sizeof(row.epoch));
        if (!rc)
            rc = mqtt_db_keep(out->db, out->config->name, &row, why);
    }
    rc = mqtt_db_end(out->db, rc, why);
    if (rc)
        return rc;
    list_drain (lane, &out->unkept.lanes, unkept)
        lane->is_kept = true;
    out->unkept.must_be_firm = false;
    return STATUS_OK;
}

void
lane_list_keep(struct outbound *out, int64_t now_us)
{
    struct problem why = {""};
    bool is_time = now_us >= out->unkept.keep_at_us ||
                   (out->unkept.must_keep && !out->unkept.is_failing);
    enum status rc;

    out->unkept.must_keep = false;
    if (list_is_empty(&out->unkept.lanes) || !is_time)
        return;
    rc = write_rows(out, &why);
    if (rc)
        out->unkept.keep_at_us = clock_steady_us() + SECOND_US;
    log_db_failure(out, rc, &why);
}

/* News of their logs */

/* On the log thread, under the log's lock. */
static void
on_births(struct watch *watch)
{
    struct outbound *out = list_entry(watch, struct outbound, news.births);

    if (!atomic_exchange(&out->news.has_births, true))
        mqtt_wake(out->mqtt);
}

static void
watch_log(struct lane *lane)
{
    if (!lane->out->news.is_watching || !lane->set || lane->is_withheld)
        return;
    watched_listen(&lane->watched, lane->set->log);
    lane_ready(lane); /* for entries from before */
}

void
lane_list_watch(struct outbound *out)
{
    struct lane *lane;

    out->news.is_watching = true;
    out->news.births.wake = on_births;
    log_watch(out->registry->framework->log, &out->news.births);
    atomic_store(&out->news.has_births, true); /* for sets from before */
    list_walk (lane, &out->lanes, node)
        watch_log(lane);
}

void
lane_list_unwatch(struct outbound *out)
{
    struct lane *lane;

    if (!out->news.is_watching)
        return;
    out->news.is_watching = false;
    log_unwatch(out->registry->framework->log, &out->news.births);
    list_walk (lane, &out->lanes, node)
        watched_end(&lane->watched);
}

/* Separates positions in flight from the lane: their acknowledgements mean
 * nothing for later ones. */
static void
disown_positions(struct lane *lane)
{
    struct flight *flight;

    list_walk (flight, &lane->out->window.others, node) {
        if (flight->lane == lane)
            flight->lane = NULL;
    }
}

/* Gives the lane another set, or none. Messages in flight no longer belong to
 * it. */
static void
change_set(struct lane *lane, struct set *set)
{
    struct outbound *out = lane->out;

    watched_end(&lane->watched);
    flight_window_orphan(&out->window, &lane->flights);
    disown_positions(lane);
    list_remove(&lane->queue);
    pthread_mutex_lock(&out->mutex);
    lane->set = set;
    lane->is_withheld = set != NULL;
    pthread_mutex_unlock(&out->mutex);
    lane_set_refused(lane, 0);
    lane->failures = 0;
    lane->resume_us = 0;
    lane->position.is_clearing = false;
}

/* Rights */

static void
set_withheld(struct lane *lane, bool is_withheld)
{
    pthread_mutex_lock(&lane->out->mutex);
    lane->is_withheld = is_withheld;
    pthread_mutex_unlock(&lane->out->mutex);
}

/* The bridge may publish the set: goes on at the cursor. */
static void
release_lane(struct lane *lane)
{
    lane->position.is_clearing = false;
    if (!lane->is_withheld)
        return;
    set_withheld(lane, false);
    if (lane->is_unseen) {
        lane->is_unseen = false;
        note_beginning(lane, lane->is_older || lane_acked(lane) > 0);
    }
    watch_log(lane);
    lane_note_position(lane);
}

static void
clear_position(struct lane *lane)
{
    lane->position.is_clearing = true;
    lane_note_position(lane);
}

/* The bridge may not publish the set. Messages in flight may still be
 * acknowledged. The position of a public set stays at the MQTT broker. */
static void
withhold_lane(struct lane *lane)
{
    struct lane_position *p = &lane->position;

    if (!lane->is_withheld) {
        watched_end(&lane->watched);
        list_remove(&lane->queue);
        lane->resume_us = 0;
        lane_set_refused(lane, 0);
        set_withheld(lane, true);
    }
    if (!p->is_clearing) {
        if (!p->is_resting)
            list_remove(&p->node);
        p->is_due = false;
    }
    if (set_is_private(lane->set) && !lane->is_unseen && !p->is_clearing &&
        !p->is_cleared)
        clear_position(lane);
}

void
lane_list_hide(struct outbound *out)
{
    struct lane *lane;

    list_walk (lane, &out->lanes, node) {
        if (lane->set && !lane->is_withheld && set_is_private(lane->set))
            clear_position(lane);
    }
}

static void
attach_set(struct lane *lane, struct set *set, const struct head *head)
{
    struct outbound *out = lane->out;
    const struct bridge_rights *rights = &out->rights;
    uint64_t at = 0;
    bool is_new = lane->set != set;

    lane->is_there = true;
    if (is_new) {
        change_set(lane, set);
        lane->is_unseen = lane->is_unseen && set_is_private(set);
    }
    if (is_new && strcmp(lane->epoch, head->origin) != 0) {
        /* A set that is older than the bridge, and of which it has published
         * nothing. The first look decides, not the time alone: a clock may be
         * set back. */
        lane->is_older = head->created_us <= out->row.since_us;
        if (!out->news.has_looked && !lane->is_kept && lane->is_older)
            at = out->config->begins_at_start ? head->earliest : head->last;
        start_lane(lane, head->origin, at);
        note_beginning(lane, lane->is_older);
    } else if (is_new && lane_acked(lane) > head->last) {
        /* The log is older than the bridge: an older copy of the data. */
        DIAG(DIAG_WARNING, "bridge",
             "a bridge is ahead of a set, as after an older copy of the data "
             "was restored: it continues at the set's head",
             LANE_KEYS(lane), diag_number("acknowledged", lane_acked(lane)),
             diag_number("last", head->last));
        start_lane(lane, head->origin, head->last);
        note_beginning(lane, true);
    } else if (is_new) {
        lane_rewind(lane);
    }
    if (bridge_rights_include(rights, set))
        release_lane(lane);
    else if (!rights->is_waiting)
        withhold_lane(lane);
}

/* Looking for sets */

static struct lane *
insert_lane(struct outbound *out, struct list *before, struct slice name)
{
    struct lane *lane = memory_new(1, sizeof(*lane) + name.size + 1);

    lane->out = out;
    list_init(&lane->queue);
    list_init(&lane->position.node);
    list_init(&lane->unkept);
    list_init(&lane->flights);
    list_init(&lane->refused);
    watched_init(&lane->watched, &out->news.watcher);
    memcpy(lane->name, name.data, name.size);
    pthread_mutex_lock(&out->mutex);
    list_append(before, &lane->node); /* inserts before `before` */
    pthread_mutex_unlock(&out->mutex);
    return lane;
}

struct look {
    struct outbound *out;
    struct list *at; /* both go by name */
};

static bool
look_at(struct set *set, const struct head *head, void *user)
{
    struct look *look = user;
    struct lane *lane = NULL;
    int order = -1;

    if (!bridge_publishes(look->out->config, set->name))
        return true;
    for (; look->at != &look->out->lanes; look->at = look->at->next) {
        lane = list_entry(look->at, struct lane, node);
        order = strcmp(lane->name, set->name);
        if (order >= 0)
            break;
    }
    if (order != 0) {
        lane = insert_lane(look->out, look->at, slice_of(set->name));
        lane->is_unseen = set_is_private(set);
    } else {
        look->at = look->at->next;
    }
    attach_set(lane, set, head);
    return true;
}

static void
remove_lane(struct lane *lane)
{
    struct outbound *out = lane->out;

    list_remove(&lane->queue);
    list_remove(&lane->position.node);
    list_remove(&lane->unkept);
    pthread_mutex_lock(&out->mutex);
    list_remove(&lane->refused);
    list_remove(&lane->node);
    pthread_mutex_unlock(&out->mutex);
    free(lane->ends);
    free(lane);
}

static void
forget_lane(struct lane *lane)
{
    struct outbound *out = lane->out;
    struct problem why = {""};
    enum status rc = STATUS_OK;

    if (lane->position.is_clearing) {
        rc = mqtt_db_forget(out->db, out->config->name, slice_of(lane->name),
                            &why);
        log_db_failure(out, rc, &why);
    }
    disown_positions(lane);
    remove_lane(lane);
}

void
lane_list_forget(struct outbound *out)
{
    struct lane *lane;

    list_until_empty (lane, &out->queues.leaving, queue)
        forget_lane(lane);
}

void
lane_list_look(struct outbound *out)
{
    struct look look = {out, out->lanes.next};
    int64_t before_us = clock_steady_us(), after_us;
    struct lane *lane;

    atomic_store(&out->news.has_births, false);
    out->news.private_births = atomic_load(&out->registry->private_births);
    list_walk (lane, &out->lanes, node)
        lane->is_there = false;
    registry_each(out->registry, look_at, &look);
    list_walk (lane, &out->lanes, node) {
        struct set *set;

        if (lane->is_there)
            continue;
        /* The look has not met it: its set may be newer than the look, or not
         * be published any more. */
        set = registry_find(out->registry, slice_of(lane->name), NULL);
        if (!set && lane->is_unseen) {
            forget_lane(lane);
        } else if (!set && (lane->set || !lane->position.is_clearing)) {
            change_set(lane, NULL); /* it was removed: its position goes, too */
            clear_position(lane);
        } else if (set && !lane->set &&
                   !bridge_publishes(out->config, lane->name)) {
            forget_lane(lane); /* in memory only: a new configuration may
                                  include it again */
        }
    }
    after_us = clock_steady_us();
    out->news.look_at_us = after_us + LOOK_SHARE * (after_us - before_us);
    out->news.has_looked = true;
}

/* Makes the lane of a row. Rows come by name. */
static enum status
take_row(const struct lane_row *row, void *user)
{
    struct outbound *out = user;
    struct lane *lane = insert_lane(out, &out->lanes, row->set);

    lane->is_kept = true;
    start_lane(lane, row->epoch, row->acked);
    for (size_t i = 0; i < row->n_ends; i++)
        if (add_end(lane, i, row->ends[i]))
            return STATUS_MEMORY;
    return STATUS_OK;
}

enum status
lane_list_learn(struct outbound *out, struct problem *why)
{
    enum status rc =
        mqtt_db_lanes(out->db, out->config->name, take_row, out, why);

    if (rc == STATUS_MEMORY)
        return problem_memory(why);
    if (rc)
        return rc;
    lane_list_look(out);
    /* Publish nothing before the beginnings are on disk: after a crash a lane
     * might begin elsewhere, and skip the entries between the two places. */
    return out->unkept.must_be_firm ? write_rows(out, why) : STATUS_OK;
}

void
lane_list_free(struct outbound *out)
{
    struct lane *lane;

    list_until_empty (lane, &out->lanes, node) {
        flight_window_orphan(&out->window, &lane->flights);
        remove_lane(lane);
    }
}
