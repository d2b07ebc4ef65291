#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "broker/base/diag.h"
#include "broker/bridge/outbound_state.h"

/* Looks at all sets take at most a twentieth of the thread's time, however
 * often sets come and go. */
#define LOOK_SHARE 20

/* Rows of mqtt.db */

void
lane_list_note(struct lane *lane)
{
    struct outbound *out = lane->out;

    if (list_is_empty(&out->unkept) && !out->is_db_failing)
        out->keep_at_us = clock_steady_us() + SECOND_US;
    if (list_is_empty(&lane->unkept))
        list_append(&out->unkept, &lane->unkept);
}

/* Has mqtt.db note a new lane before any message of it. `is_firm`: its
 * beginning could not be computed again after a crash. */
static void
note_beginning(struct lane *lane, bool is_firm)
{
    lane_list_note(lane);
    lane->out->must_keep = true;
    lane->out->must_be_firm |= is_firm;
}

static void
log_db_failure(struct outbound *out, enum status rc, const struct problem *why)
{
    if (rc && !out->is_db_failing)
        DIAG(DIAG_WARNING, "bridge",
             "cannot keep how far a bridge has come: after a crash it would "
             "tell again what it has told",
             diag_text("bridge", out->config->name),
             diag_text("error", why->text));
    if (!rc && out->is_db_failing)
        DIAG(DIAG_INFO, "bridge", "how far a bridge has come is kept again",
             diag_text("bridge", out->config->name));
    out->is_db_failing = rc;
}

/* Writes all rows that were noted; after a failure they stay noted. */
static enum status
write_rows(struct outbound *out, struct problem *why)
{
    struct list *node, *after;
    size_t n = 0;
    enum status rc;

    list_foreach (node, after, &out->unkept) {
        struct lane_row *rows = ONE_MORE(out->rows, &out->rows_capacity, n);

        if (!rows)
            return problem_memory(why);
        out->rows = rows;
        rows[n++] = lane_row(list_entry(node, struct lane, unkept));
    }
    rc = mqtt_db_keep(out->db, out->config->name, out->rows, n,
                      out->must_be_firm, why);
    if (rc)
        return rc;
    list_foreach (node, after, &out->unkept) {
        list_entry(node, struct lane, unkept)->is_kept = true;
        list_remove(node);
    }
    out->must_be_firm = false;
    return STATUS_OK;
}

void
lane_list_keep(struct outbound *out, int64_t now_us)
{
    struct problem why = {""};
    bool is_time =
        now_us >= out->keep_at_us || (out->must_keep && !out->is_db_failing);
    enum status rc;

    out->must_keep = false;
    if (list_is_empty(&out->unkept) || !is_time)
        return;
    rc = write_rows(out, &why);
    if (rc)
        out->keep_at_us = clock_steady_us() + SECOND_US;
    log_db_failure(out, rc, &why);
}

/* News of their logs */

/* On the log thread, under the log's lock. */
static void
on_births(struct watch *watch)
{
    struct outbound *out = list_entry(watch, struct outbound, births);

    if (!atomic_exchange(&out->has_births, true))
        mqtt_wake(out->mqtt);
}

static void
watch(struct lane *lane)
{
    if (!lane->out->is_watching || !lane->set)
        return;
    watched_listen(&lane->watched, lane->set->log);
    outbound_ready(lane); /* for entries from before */
}

void
lane_list_watch(struct outbound *out)
{
    struct list *node, *after;

    out->is_watching = true;
    out->births.wake = on_births;
    log_watch(registry_framework(out->registry), &out->births);
    atomic_store(&out->has_births, true); /* for sets from before */
    list_foreach (node, after, &out->lanes)
        watch(list_entry(node, struct lane, node));
}

void
lane_list_unwatch(struct outbound *out)
{
    struct list *node, *after;

    if (!out->is_watching)
        return;
    out->is_watching = false;
    log_unwatch(registry_framework(out->registry), &out->births);
    list_foreach (node, after, &out->lanes)
        watched_end(&list_entry(node, struct lane, node)->watched);
}

/* Where a lane begins */

static void
begin_anew(struct lane *lane, const struct head *head)
{
    struct outbound *out = lane->out;
    uint64_t at = 0;

    /* A set that is older than the bridge, and of which it has published
     * nothing. The first look decides, not the time alone: a clock may be set
     * back. */
    if (!out->has_looked && !lane->is_kept &&
        head->created_us <= out->row.since_us)
        at = out->config->begins_at_start ? head->earliest : head->last;
    lane_start(lane, head->epoch, at);
    note_beginning(lane, at > 0);
}

/* The log is older than the bridge: an older copy of the data directory. */
static void
begin_at_head(struct lane *lane, const struct head *head)
{
    DIAG(DIAG_WARNING, "bridge",
         "a bridge is ahead of a set, as when an older copy of the data is "
         "restored: it goes on from the set's head",
         diag_text("bridge", lane->out->config->name),
         diag_text("set", lane->name), diag_number("told", lane_acked(lane)),
         diag_number("last", head->last));
    lane_start(lane, head->epoch, head->last);
    note_beginning(lane, true);
}

static void
begin(struct lane *lane, const struct head *head)
{
    if (strcmp(lane->epoch, head->epoch) != 0) {
        begin_anew(lane, head);
    } else if (lane_acked(lane) > head->last) {
        begin_at_head(lane, head);
    } else {
        lane_rewind(lane);
    }
}

/* Separates positions in flight from the lane: their acknowledgements mean
 * nothing for later ones. */
static void
disown_positions(struct lane *lane)
{
    struct list *node, *after;

    list_foreach (node, after, &lane->out->window.others) {
        struct flight *flight = list_entry(node, struct flight, node);

        if (flight->lane == lane)
            flight->lane = NULL;
    }
}

/* Gives the lane another set, or none. Messages in flight no longer belong to
 * it. */
static void
set_of(struct lane *lane, struct set *set)
{
    struct outbound *out = lane->out;

    watched_end(&lane->watched);
    flight_window_orphan(&out->window, &lane->flights);
    disown_positions(lane);
    list_remove(&lane->queue);
    pthread_mutex_lock(&out->mutex);
    lane->set = set;
    pthread_mutex_unlock(&out->mutex);
    outbound_refused(lane, 0);
    lane->failures = 0;
    lane->resume_us = 0;
    lane->is_clearing = false;
}

static void
attach(struct lane *lane, struct set *set, const struct head *head)
{
    lane->is_there = true;
    if (lane->set == set)
        return;
    set_of(lane, set);
    begin(lane, head);
    watch(lane);
    retained_note(lane);
}

/* After the removal of its set: removes its position, too. */
static void
detach(struct lane *lane)
{
    set_of(lane, NULL);
    lane->is_clearing = true;
    retained_note(lane);
}

/* Looking for sets */

static struct lane *
insert(struct outbound *out, struct list *before, struct slice name)
{
    struct lane *lane = lane_new(out, name);

    if (!lane)
        return NULL;
    watched_init(&lane->watched, &out->watcher);
    pthread_mutex_lock(&out->mutex);
    list_append(before, &lane->node); /* inserts before `before` */
    out->n_lanes++;
    pthread_mutex_unlock(&out->mutex);
    return lane;
}

struct look {
    struct outbound *out;
    struct list *at; /* both go by name */
    bool has_failed;
};

static bool
look_at(struct set *set, const struct head *head, void *user)
{
    struct look *look = user;
    struct lane *lane = NULL;
    int order = -1;

    if (!bridge_tells(look->out->config, set->name))
        return true;
    for (; look->at != &look->out->lanes; look->at = look->at->next) {
        lane = list_entry(look->at, struct lane, node);
        order = strcmp(lane->name, set->name);
        if (order >= 0)
            break;
    }
    if (order != 0)
        lane = insert(look->out, look->at, slice_of(set->name));
    else
        look->at = look->at->next;
    if (lane)
        attach(lane, set, head);
    look->has_failed |= !lane;
    return true;
}

/* Handles a lane that the look has not met. Looks its set up by name, because a
 * look may lack memory. */
static void
miss(struct lane *lane)
{
    struct outbound *out = lane->out;
    struct set *set = registry_find(out->registry, slice_of(lane->name), NULL);

    if (!set && !lane->is_clearing)
        detach(lane);
    else if (set && !lane->set && !bridge_tells(out->config, lane->name))
        lane_list_forget(lane); /* in memory only: a new configuration may
                               include it again */
}

void
lane_list_look(struct outbound *out)
{
    struct look look = {out, out->lanes.next, false};
    int64_t before_us = clock_steady_us(), after_us;
    struct list *node, *after;

    atomic_store(&out->has_births, false);
    list_foreach (node, after, &out->lanes)
        list_entry(node, struct lane, node)->is_there = false;
    registry_each(out->registry, look_at, &look);
    list_foreach (node, after, &out->lanes) {
        struct lane *lane = list_entry(node, struct lane, node);

        if (!lane->is_there)
            miss(lane);
    }
    after_us = clock_steady_us();
    out->look_at_us = after_us + LOOK_SHARE * (after_us - before_us);
    out->has_looked |= !look.has_failed;
    if (look.has_failed) {
        atomic_store(&out->has_births, true);
        out->look_at_us = after_us + SECOND_US;
    }
}

/* Makes the lane of a row. Rows come by name. */
static enum status
take_row(const struct lane_row *row, void *user)
{
    struct outbound *out = user;
    struct lane *lane = insert(out, &out->lanes, row->set);

    if (!lane)
        return STATUS_MEMORY;
    lane->is_kept = true;
    return lane_take_row(lane, row);
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
    return out->must_be_firm ? write_rows(out, why) : STATUS_OK;
}

static void
remove_lane(struct lane *lane)
{
    struct outbound *out = lane->out;

    list_remove(&lane->queue);
    list_remove(&lane->told);
    list_remove(&lane->unkept);
    pthread_mutex_lock(&out->mutex);
    out->n_lanes--;
    list_remove(&lane->refused);
    lane_free(lane);
    pthread_mutex_unlock(&out->mutex);
}

void
lane_list_forget(struct lane *lane)
{
    struct outbound *out = lane->out;
    struct problem why = {""};
    enum status rc = STATUS_OK;

    if (lane->is_clearing) {
        rc = mqtt_db_forget(out->db, out->config->name, slice_of(lane->name),
                            &why);
        log_db_failure(out, rc, &why);
    }
    disown_positions(lane);
    remove_lane(lane);
}

void
lane_list_free(struct outbound *out)
{
    while (!list_is_empty(&out->lanes)) {
        struct lane *lane = list_entry(out->lanes.next, struct lane, node);

        flight_window_orphan(&out->window, &lane->flights);
        remove_lane(lane);
    }
    free(out->rows);
}

/* Reports */

void
outbound_refused(struct lane *lane, int reason)
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

/* Explains the refusal that has lasted longest. */
static void
explain(struct outbound *out, struct problem *why)
{
    const struct list *node;
    const struct lane *lane;

    pthread_mutex_lock(&out->mutex);
    node = list_first(&out->refused);
    lane = node ? list_entry(node, struct lane, refused) : NULL;
    if (lane)
        problem_set(why, "the MQTT broker refuses what is told of %s: %s",
                    lane->name, mqtt_reason(lane->reason));
    pthread_mutex_unlock(&out->mutex);
}

static void
measure(struct outbound_report *report, const struct lane *lane)
{
    uint64_t acked = lane_acked(lane), lag;
    struct head head;

    if (!lane->set || !log_head(lane->set->log, &head) || head.last <= acked)
        return;
    lag = head.last - acked;
    report->lag += lag;
    report->sets_behind++;
    if (lag <= report->slowest_lag)
        return;
    report->slowest_lag = lag;
    memcpy(report->slowest, lane->name, strlen(lane->name) + 1);
}

static uint64_t
look_up(atomic_uint_least64_t *count)
{
    return atomic_load_explicit(count, memory_order_relaxed);
}

void
outbound_report(struct outbound *out, struct outbound_report *report)
{
    struct list *node, *after;

    *report = (struct outbound_report){.sets = 0};
    outbound_state(out, &report->mqtt);
    pthread_mutex_lock(&out->mutex);
    list_foreach (node, after, &out->lanes) {
        const struct lane *lane = list_entry(node, struct lane, node);

        report->sets += lane->set != NULL;
        measure(report, lane);
    }
    pthread_mutex_unlock(&out->mutex);
    report->in_flight = look_up(&out->counts.in_flight);
    report->published = look_up(&out->counts.published);
    report->acknowledged = look_up(&out->counts.acknowledged);
    report->refused = look_up(&out->counts.refused);
    report->left_out = look_up(&out->counts.left_out);
}

void
outbound_state(struct outbound *out, struct mqtt_state *state)
{
    mqtt_state(out->mqtt, state);
    if (state->condition == MQTT_CONNECTED && !state->why.text[0])
        explain(out, &state->why);
}
