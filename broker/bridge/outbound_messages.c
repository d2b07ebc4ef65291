/*
 * Messages of lanes: a Change Notification of the entries behind the last one,
 * as many as fit. If the bridge publishes changes, too, also one message for
 * each change: a notification of one entry on another topic.
 *
 * All messages of a turn are made in one buffer, kept, then published: the
 * database writes once, and libmosquitto copies the payloads. They are
 * published when mqtt.db has their ends, and finished in the order in which
 * they were made, whatever the order of their acknowledgements.
 */

#include "broker/base/diag.h"
#include "broker/bridge/outbound_state.h"
#include "broker/log/batch.h"
#include "broker/readers/message.h"
#include "proto/number.h"
#include "proto/resourcesync/fragment.h"

/* The most changes that a set publishes in one turn before other sets. */
#define BURST 32

/* Flights, in order */

/* Adds a flight to the lane, in order: a message to send, or an entry to pass
 * over. */
static struct flight *
add_flight(struct lane *lane, uint64_t upto, size_t bytes)
{
    struct flight *flight =
        flight_window_add(&lane->out->window, FLIGHT_MESSAGE, lane, bytes);

    flight->upto = upto;
    list_append(&lane->flights, &flight->node);
    return flight;
}

/* Removes finished flights from the front, and moves the lane's cursor behind
 * them. */
static void
advance_lane(struct lane *lane)
{
    struct outbound *out = lane->out;
    uint64_t upto = 0;
    struct flight *flight;

    list_until_empty (flight, &lane->flights, node) {
        if (!flight->is_done)
            break;
        if (flight->upto)
            upto = flight->upto;
        flight_window_release(&out->window, flight);
    }
    if (upto == 0)
        return;
    lane_move(lane, upto);
    lane_note(lane);
    lane_note_position(lane);
    lane->failures = 0;
}

/* Envelopes */

#define ENVELOPE_PROPERTIES 6

/* Describes a message: its topic, its content type, and in the properties of
 * MQTT 5 the entries that it covers, so that a receiver need not parse it.
 *
 *     set=demo epoch=0123456789abcdef after=6 last=7 from=... until=...
 */
struct envelope {
    struct mqtt_message message; /* the caller sets its payload; it lends from
                                    the members below, and from the lane */
    struct topic_name topic;
    struct head head;
    struct mqtt_property properties[ENVELOPE_PROPERTIES];
    char after[NUMBER_SIZE_MAX + 1], last[NUMBER_SIZE_MAX + 1];
    char from[DATETIME_SIZE + 1], until[DATETIME_SIZE + 1];
};

static const char *
write_number(char to[NUMBER_SIZE_MAX + 1], uint64_t number)
{
    to[number_write(to, number)] = '\0';
    return to;
}

static const char *
write_time(char to[DATETIME_SIZE + 1], int64_t us)
{
    datetime_write(to, us); /* as in the message */
    to[DATETIME_SIZE] = '\0';
    return to;
}

static void
write_envelope(struct envelope *e, const struct lane *lane,
               const struct outbound_message *made)
{
    const struct bridge_config *config = lane->out->config;
    const struct mqtt_property properties[] = {
        {"set", lane->name},
        {"epoch", e->head.epoch},
        {"after", write_number(e->after, made->after)},
        {"last", write_number(e->last, made->last)},
        {"from", write_time(e->from, made->from_us)},
        {"until", write_time(e->until, made->until_us)},
    };

    log_head(lane->set->log, &e->head);
    memcpy(e->properties, properties, sizeof(properties));
    e->topic = made->is_change
                   ? TOPIC_NAME(config->prefix, lane->name, "changes",
                                change_kind_names[made->kind])
                   : TOPIC_NAME(config->prefix, lane->name, "notifications");
    e->message = (struct mqtt_message){
        .topic = e->topic.text,
        .qos = config->qos,
        .content_type = config->form == BRIDGE_JSON ? "application/json"
                                                    : "application/xml",
        .properties = e->properties,
        .n_properties = ENVELOPE_PROPERTIES,
    };
}

/* The largest payload, whatever the message covers: assumes numbers and times
 * of the greatest length. */
static size_t
room_for(const struct lane *lane, const struct outbound_message *made)
{
    struct outbound_message longest = *made;
    struct envelope e;

    longest.after = longest.last = UINT64_MAX;
    longest.from_us = longest.until_us = 1; /* six decimals */
    write_envelope(&e, lane, &longest);
    return mqtt_room(lane->out->mqtt, &e.message);
}

/* Passing over */

/* Passes over entries up to `upto`, which cannot be published: a receiver sees
 * the hole by the `after` of the next message. The lane moves to `where`; 0: it
 * does not move, within a notification. */
static void
pass_over(struct lane *lane, uint64_t upto, uint64_t where, uint64_t n)
{
    flight_window_land(&lane->out->window, add_flight(lane, where, 0));
    lane_pass(lane, upto);
    outbound_count(&lane->out->counts.left_out, METRIC_MQTT_LEFT_OUT, n);
    advance_lane(lane);
}

static void
pass_over_large(struct lane *lane, uint64_t seq, uint64_t where,
                const struct outbound_message *made, size_t room)
{
    DIAG(DIAG_WARNING, "bridge",
         "an entry is too large for a packet of the MQTT broker, and is left "
         "out",
         LANE_KEYS(lane), diag_number("seq", seq),
         diag_number("bytes", made->size), diag_number("room", room));
    lane->out->turn.payloads.size = made->offset; /* forgets it */
    pass_over(lane, seq, where, 1);
}

/* Passes over entries that are no longer retained, unless the set is gone. */
static enum status
pass_over_gone(struct lane *lane)
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
         "entries are no longer retained, and are left out", LANE_KEYS(lane),
         diag_number("after", after), diag_number("upto", upto));
    pass_over(lane, upto, is_within && upto < lane->begun ? 0 : upto,
              upto - after);
    return STATUS_OK;
}

/* Making */

/* The state of a lane's reading for one turn. */
struct reading {
    struct lane *lane;
    struct batch *batch;     /* the batch of the last change; or NULL */
    struct coverage covered; /* by the last message */
};

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
        out->turn.payloads.size = made->offset;
        out->turn.payloads.failed = false;
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
static void
add_message(struct lane *lane, struct outbound_message *made, uint64_t where)
{
    struct outbound *out = lane->out;

    made->flight = add_flight(lane, where, made->size);
    out->turn.made[out->turn.n_made++] = *made;
}

/* Makes a notification of the entries behind `begun`. *is_made: there were
 * some. */
static enum status
make_notification(struct reading *r, bool *is_made, struct problem *why)
{
    struct lane *lane = r->lane;
    struct outbound *out = lane->out;
    struct outbound_message made = {.is_change = false};
    size_t room = room_for(lane, &made),
           usual = out->registry->config->message_bytes;
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
        pass_over_large(lane, made.last, made.last, &made, room);
        return STATUS_OK;
    }
    add_message(lane, &made, wants_changes ? 0 : made.last);
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

/* Makes a message of the change behind `made_upto`. */
static enum status
make_change(struct reading *r, bool *is_made, struct problem *why)
{
    struct lane *lane = r->lane;
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
    enum status rc = STATUS_OK;

    /* Finds the batch with the entry; NULL: no batch has it yet. */
    if (!r->batch || seq < r->batch->first || seq > r->batch->last) {
        batch_unref(r->batch);
        r->batch = NULL;
        rc = log_read(lane->out->registry->log, lane->set->log, seq - 1,
                      LOG_DISK, &r->batch, why);
    }
    *is_made = !rc && r->batch;
    if (!*is_made)
        return rc;
    entry = &r->batch->entries[seq - r->batch->first];
    made.kind = fragment_kind(r->batch->bytes + entry->offset, entry->stamp);
    rc = write_payload(lane, &wish, &made, why);
    if (rc)
        return rc;
    room = room_for(lane, &made);
    if (made.size > room) {
        pass_over_large(lane, seq, where, &made, room);
        return STATUS_OK;
    }
    add_message(lane, &made, where);
    lane_note_made(lane, seq, &r->covered.digest);
    return STATUS_OK;
}

static bool
has_room(const struct outbound *out)
{
    return flight_window_has_room(&out->window) &&
           out->turn.n_made < TURN_MESSAGES &&
           out->turn.payloads.size < TURN_BYTES;
}

void
outbound_messages_make(struct outbound *out)
{
    buf_clear(&out->turn.payloads);
    out->turn.n_made = 0;
    while (!list_is_empty(&out->queues.ready) && has_room(out)) {
        /* One turn of a lane: a notification, or some changes. */
        struct lane *lane =
            list_entry(out->queues.ready.next, struct lane, queue);
        struct reading reading = {.lane = lane};
        struct problem why = {""};
        unsigned n = out->config->publish & BRIDGE_CHANGES ? BURST : 1;
        bool has_more = true;
        enum status rc = STATUS_OK;

        list_remove(&lane->queue);
        watched_clear(&lane->watched); /* before reading its log */
        while (!rc && has_more && n-- > 0 && has_room(out))
            rc = out->config->publish & BRIDGE_NOTIFICATIONS &&
                         lane->made_upto == lane->begun
                     ? make_notification(&reading, &has_more, &why)
                     : make_change(&reading, &has_more, &why);
        if (rc == STATUS_GONE) {
            has_more = true;
            rc = pass_over_gone(lane);
        }
        batch_unref(reading.batch);
        if (rc && rc != STATUS_NOT_FOUND) {
            DIAG(DIAG_ERROR, "bridge",
                 "cannot read the entries of a set for a bridge",
                 LANE_KEYS(lane), diag_text("error", why.text));
            lane_pause(lane);
        } else if (!rc && has_more) {
            lane_ready(lane);
        }
    }
}

/* Acknowledgements */

void
flights_acknowledged(struct outbound *out, struct flight *flight, int reason)
{
    struct lane *lane = flight->lane;

    if (reason >= MQTT_REASON_FAILED) {
        outbound_count(&out->counts.refused, METRIC_MQTT_REFUSED, 1);
        if (!lane) {
            flight_window_release(&out->window, flight);
            return;
        }
        if (lane->reason != (uint8_t)reason)
            DIAG(DIAG_WARNING, "bridge",
                 "the MQTT broker refuses the messages about a set: the bridge "
                 "tries again after a pause",
                 LANE_KEYS(lane), diag_text("reason", mqtt_reason(reason)));
        lane_set_refused(lane, reason);
        lane_rewind(lane); /* frees the flight */
        lane_pause(lane);
        return;
    }
    outbound_count(&out->counts.acknowledged, METRIC_MQTT_ACKNOWLEDGED, 1);
    if (!out->is_proven)
        mqtt_prove(out->mqtt);
    out->is_proven = true;
    if (!lane) {
        flight_window_release(&out->window, flight);
        return;
    }
    if (lane->reason) {
        DIAG(DIAG_INFO, "bridge",
             "the MQTT broker accepts the messages about a set again",
             LANE_KEYS(lane));
        lane_set_refused(lane, 0);
    }
    advance_lane(lane);
}

/* Sending */

enum status
flights_publish(struct outbound *out, const struct mqtt_message *message,
                struct flight *flight, int *reason, struct problem *why)
{
    int mid = 0;
    enum status rc;

    *reason = FLIGHT_UNACKNOWLEDGED;
    out->early = (struct early_acknowledgement){.is_open = true};
    rc = mqtt_publish(out->mqtt, message, &mid, why);
    out->early.is_open = false;
    if (rc) {
        flight_window_release(&out->window, flight);
        return rc;
    }
    flight_window_sent(&out->window, flight, mid);
    if (out->early.mid == mid) {
        flight_window_take(&out->window, mid);
        *reason = out->early.reason;
    }
    return STATUS_OK;
}

/* A message could not be published: its lane makes it again. *is_over: no other
 * message can be published, either. */
static void
fail_message(struct lane *lane, enum status rc, const struct problem *why,
             bool *is_over)
{
    struct outbound *out = lane->out;
    struct problem reason = {.text = ""};

    lane_rewind(lane);
    *is_over = rc == STATUS_AGAIN || rc == STATUS_UNSUPPORTED;
    if (rc == STATUS_UNSUPPORTED) {
        problem_set(&reason,
                    "the MQTT broker takes no messages at QoS %d: lower the "
                    "setting qos of this bridge",
                    out->config->qos);
        mqtt_drop(out->mqtt, &reason);
    } else if (rc != STATUS_AGAIN) {
        DIAG(DIAG_ERROR, "bridge", "cannot publish", LANE_KEYS(lane),
             diag_text("error", why->text));
        lane_pause(lane);
    }
}

bool
outbound_may_publish(const struct outbound *out)
{
    return ownership_allows(&out->db->right) &&
           !(out->db->owned && out->unkept.is_failing);
}

void
flights_send(struct outbound *out)
{
    struct problem why = {""};
    bool is_over = !outbound_may_publish(out);

    for (size_t i = 0; i < out->turn.n_made; i++) {
        struct outbound_message *made = &out->turn.made[i];
        struct lane *lane = made->flight->lane;
        struct envelope e;
        enum status rc;
        int reason;

        if (!lane || is_over) {
            if (lane)
                lane_rewind(lane);
            flight_window_release(&out->window, made->flight);
            continue;
        }
        write_envelope(&e, lane, made);
        e.message.payload =
            (struct slice){out->turn.payloads.data + made->offset, made->size};
        rc = flights_publish(out, &e.message, made->flight, &reason, &why);
        if (rc) {
            fail_message(lane, rc, &why, &is_over);
            continue;
        }
        out->turns_of_positions++;
        outbound_count(&out->counts.published, METRIC_MQTT_PUBLISHED, 1);
        if (reason != FLIGHT_UNACKNOWLEDGED)
            flights_acknowledged(out, made->flight, reason);
    }
    out->turn.n_made = 0;
}
