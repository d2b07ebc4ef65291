/*
 * Makes messages: a Change Notification of the entries behind the last one, as
 * many as fit. If the bridge publishes changes, too, also one message for each
 * change: a notification of one entry on another topic.
 *
 * All messages of a turn are made in one buffer, kept, then published: the
 * database writes once, and libmosquitto copies the payloads.
 */
#include "broker/base/diag.h"
#include "broker/base/metrics.h"
#include "broker/bridge/outbound_state.h"
#include "broker/log/batch.h"
#include "broker/readers/message.h"
#include "proto/fragment.h"

/* The most changes that a set publishes in one turn before other sets. */
#define BURST 32

/* Passing over */

/* Passes over entries up to `upto`, which cannot be published: a receiver sees
 * the hole by the `after` of the next message. The lane moves to `where`; 0: it
 * does not move, within a notification. */
static enum status
pass_over(struct lane *lane, uint64_t upto, uint64_t where, uint64_t n,
          struct problem *why)
{
    struct flight *flight = flights_add(lane, where, 0);

    if (!flight)
        return problem_memory(why);
    flight_window_skip(&lane->out->window, flight);
    lane_pass(lane, upto);
    outbound_count(&lane->out->counts.left_out, n);
    metrics_add(METRIC_MQTT_LEFT_OUT, (int64_t)n);
    flights_advance(lane);
    return STATUS_OK;
}

static enum status
pass_over_large(struct lane *lane, uint64_t seq, uint64_t where, size_t size,
                size_t room, struct problem *why)
{
    DIAG(DIAG_WARNING, "bridge",
         "an entry is too large for a packet of the MQTT broker, and is left "
         "out",
         diag_text("bridge", lane->out->config->name),
         diag_text("set", lane->name), diag_number("seq", seq),
         diag_number("bytes", size), diag_number("room", room));
    return pass_over(lane, seq, where, 1, why);
}

/* Passes over entries that are no longer retained, unless the set is gone. */
static enum status
pass_over_gone(struct lane *lane, struct problem *why)
{
    bool is_within = lane->made_upto < lane->begun; /* a notification */
    uint64_t after = is_within ? lane->made_upto : lane->begun, upto;
    struct head head;

    if (!log_head(lane->set->log, &head)) {
        atomic_store(&lane->out->news.has_births, true); /* look soon */
        return STATUS_NOT_FOUND;
    }
    upto =
        is_within && head.earliest > lane->begun ? lane->begun : head.earliest;
    if (upto <= after)
        return STATUS_GONE;
    DIAG(DIAG_WARNING, "bridge",
         "entries are no longer retained, and are left out",
         diag_text("bridge", lane->out->config->name),
         diag_text("set", lane->name), diag_number("after", after),
         diag_number("upto", upto));
    return pass_over(lane, upto, is_within && upto < lane->begun ? 0 : upto,
                     upto - after, why);
}

/* Making */

/* The state of a lane's reading for one turn. */
struct reading {
    struct lane *lane;
    struct batch *batch;     /* the batch of the last change; or NULL */
    struct coverage covered; /* by the last message */
};

static void
forget_payload(struct outbound *out, size_t offset)
{
    out->turn.payloads.size = offset;
    out->turn.payloads.failed = false;
}

/* Appends the payload for `wish`, and describes it. made->last == made->after:
 * there is none. */
static enum status
write_payload(struct lane *lane, struct message_wish *wish,
              struct outbound_message *made, struct problem *why)
{
    struct outbound *out = lane->out;
    const struct coverage before = {.last = lane->made_upto,
                                    .has_digest = lane->has_made_digest,
                                    .digest = lane->made_digest};
    const struct coverage *covered = wish->covered;
    enum status rc;

    wish->before = &before;
    wish->set = lane->set;
    wish->form = out->config->form == BRIDGE_JSON ? MESSAGE_JSON : MESSAGE_XML;
    wish->is_silent = true;
    wish->patience = LOG_DISK;
    made->after = wish->after;
    made->offset = out->turn.payloads.size;
    rc = message_write(&out->turn.payloads, wish, &made->last, why);
    if (rc) {
        forget_payload(out, made->offset);
        return rc;
    }
    made->size = out->turn.payloads.size - made->offset;
    if (made->size > 0) {
        made->from_us = covered->from_us;
        made->until_us = covered->until_us;
    }
    return STATUS_OK;
}

/* Adds a message to out->turn.made, to be published. */
static enum status
add_message(struct lane *lane, struct outbound_message *made, uint64_t where,
            struct problem *why)
{
    struct outbound *out = lane->out;

    made->flight = flights_add(lane, where, made->size);
    if (!made->flight) {
        forget_payload(out, made->offset);
        return problem_memory(why);
    }
    out->turn.made[out->turn.n_made++] = *made;
    return STATUS_OK;
}

/* Makes a notification of the entries behind `begun`. *is_made: there were
 * some. */
static enum status
make_notification(struct reading *r, bool *is_made, struct problem *why)
{
    struct lane *lane = r->lane;
    struct outbound *out = lane->out;
    struct outbound_message made = {.is_change = false};
    size_t room = envelope_room(lane, &made),
           usual = registry_config(out->registry)->message_bytes;
    uint64_t end = lane_next_end(lane);
    struct message_wish wish = {
        .after = lane->begun,
        .upto = end,
        .max_bytes = end != UINT64_MAX || room < usual ? room : usual,
        .covered = &r->covered,
    };
    bool is_new, wants_changes = out->config->publish & BRIDGE_CHANGES;
    enum status rc = write_payload(lane, &wish, &made, why);

    *is_made = !rc && made.last > made.after;
    if (!*is_made)
        return rc;
    if (made.size > room) {
        forget_payload(out, made.offset);
        return pass_over_large(lane, made.last, made.last, made.size, room,
                               why);
    }
    rc = add_message(lane, &made, wants_changes ? 0 : made.last, why);
    if (rc)
        return rc;
    if (lane_begin(lane, made.last, &is_new)) {
        lane_rewind(lane); /* drops the messages of this turn, too */
        return problem_memory(why);
    }
    if (!wants_changes)
        lane_note_made(lane, made.last, &r->covered.digest);
    if (is_new) {
        lane_note(lane);
        out->unkept.must_keep = true;
    }
    return STATUS_OK;
}

/* Finds the batch with entry `seq`; NULL: no batch has it yet. */
static enum status
find_batch(struct reading *r, uint64_t seq, struct problem *why)
{
    if (r->batch && r->batch->first <= seq && seq <= r->batch->last)
        return STATUS_OK;
    batch_unref(r->batch);
    r->batch = NULL;
    return log_read(registry_log(r->lane->out->registry), r->lane->set->log,
                    seq - 1, LOG_DISK, &r->batch, why);
}

/* Makes a message of the change behind `made_upto`. */
static enum status
make_change(struct reading *r, bool *is_made, struct problem *why)
{
    struct lane *lane = r->lane;
    struct outbound *out = lane->out;
    struct outbound_message made = {.is_change = true};
    uint64_t seq = lane->made_upto + 1,
             where = seq < lane->begun ? 0 : seq; /* 0 within a notification */
    struct message_wish wish = {
        .after = seq - 1,
        .upto = seq,
        .max_bytes = SIZE_MAX,
        .covered = &r->covered,
    };
    const struct batch_entry *entry;
    size_t room;
    enum status rc = find_batch(r, seq, why);

    *is_made = !rc && r->batch;
    if (!*is_made)
        return rc;
    entry = &r->batch->entries[seq - r->batch->first];
    made.kind = fragment_kind(r->batch->bytes + entry->offset, entry->stamp);
    rc = write_payload(lane, &wish, &made, why);
    if (rc)
        return rc;
    room = envelope_room(lane, &made);
    if (made.size > room) {
        forget_payload(out, made.offset);
        return pass_over_large(lane, seq, where, made.size, room, why);
    }
    rc = add_message(lane, &made, where, why);
    if (rc)
        return rc;
    lane_note_made(lane, seq, &r->covered.digest);
    return STATUS_OK;
}

static enum status
make_next(struct reading *r, bool *is_made, struct problem *why)
{
    const struct lane *lane = r->lane;
    bool wants_notifications =
        lane->out->config->publish & BRIDGE_NOTIFICATIONS;

    if (wants_notifications && lane->made_upto == lane->begun)
        return make_notification(r, is_made, why);
    return make_change(r, is_made, why);
}

static bool
has_room(const struct outbound *out)
{
    return flight_window_has_room(&out->window) &&
           out->turn.n_made < TURN_MESSAGES &&
           out->turn.payloads.size < TURN_BYTES;
}

/* One turn of a lane: a notification, or some changes. */
static enum status
make_some(struct reading *r, bool *has_more, struct problem *why)
{
    struct outbound *out = r->lane->out;
    unsigned n = out->config->publish & BRIDGE_CHANGES ? BURST : 1;
    enum status rc = STATUS_OK;

    *has_more = true;
    while (!rc && *has_more && n-- > 0 && has_room(out))
        rc = make_next(r, has_more, why);
    if (rc == STATUS_GONE) {
        *has_more = true;
        rc = pass_over_gone(r->lane, why);
    }
    return rc;
}

static void
make_of_lane(struct lane *lane)
{
    struct reading reading = {.lane = lane};
    struct problem why = {""};
    bool has_more;
    enum status rc;

    list_remove(&lane->queue);
    watched_clear(&lane->watched); /* before reading its log */
    rc = make_some(&reading, &has_more, &why);
    batch_unref(reading.batch);
    if (rc && rc != STATUS_NOT_FOUND) {
        DIAG(DIAG_ERROR, "bridge",
             "cannot read the entries of a set for a bridge",
             diag_text("bridge", lane->out->config->name),
             diag_text("set", lane->name), diag_text("error", why.text));
        lane_pause(lane);
    } else if (!rc && has_more) {
        lane_ready(lane);
    }
}

void
outbound_messages_make(struct outbound *out)
{
    buf_clear(&out->turn.payloads);
    out->turn.n_made = 0;
    while (!list_is_empty(&out->queues.ready) && has_room(out))
        make_of_lane(list_entry(out->queues.ready.next, struct lane, queue));
}
