/*
 * Positions. A lane is due when its position differs from the published one.
 * After a publication it rests for a second, and is due again if it has moved
 * meanwhile, so the last position is never omitted.
 *
 *     none --moved--> due --published--> resting --a second--> due, or none
 *
 * Positions give way to messages, but every eighth publication may be one. So
 * they come however many messages there are, and the 10,000 positions after a
 * connection do not hold up messages.
 *
 * They have QoS 1 if messages have QoS 1 or 2: after a lost position the
 * retained one would be wrong until the set changes again. They never have QoS
 * 2: a repeated position does no harm.
 */

#include "broker/base/diag.h"
#include "broker/bridge/outbound_state.h"
#include "broker/sets/links.h"
#include "proto/resourcesync/json.h"

#define MESSAGES_BETWEEN 7

/* The most turns that positions may save up while none is due. */
#define TURNS_MAX (64 * MESSAGES_BETWEEN)

#define ONLINE  "online"
#define OFFLINE "offline"

/* Acknowledgements */

/* Logs a reason once, not with each connection and each position. `of`: the
 * topic, or the set. */
static void
judge_refusal(const struct outbound *out, uint8_t *last, int reason,
              const char *text, struct diag_key of)
{
    if (reason && reason != *last)
        DIAG(DIAG_WARNING, "bridge", text,
             diag_text("bridge", out->config->name), of,
             diag_text("reason", mqtt_reason(reason)));
    *last = (uint8_t)reason;
}

/* The MQTT broker has no position of the lane any more. */
static void
end_clearing(struct lane *lane)
{
    if (lane->position.is_clearing && !lane->set) {
        /* lane_list_forget will free it */
        list_put(&lane->out->queues.leaving, &lane->queue);
        return;
    }
    lane->position.is_cleared |= lane->position.is_clearing;
    lane->position.is_clearing = false;
}

void
retained_acknowledged(struct outbound *out, struct flight *flight, int reason)
{
    struct lane *lane = flight->lane;

    if (flight->kind == FLIGHT_STATUS && flight->upto)
        out->farewell.is_acknowledged = true;
    if (reason < MQTT_REASON_FAILED)
        reason = 0;
    if (flight->kind == FLIGHT_STATUS)
        judge_refusal(out, &out->status_reason, reason,
                      "the MQTT broker refuses the status of a bridge",
                      diag_text("topic", out->status_topic.text));
    else if (lane)
        judge_refusal(out, &lane->position.reason, reason,
                      "the MQTT broker refuses a position",
                      diag_text("set", lane->name));
    if (lane && flight->bytes == 0)
        end_clearing(lane);
    flight_window_release(&out->window, flight);
}

static enum status
publish_retained(struct outbound *out, const struct mqtt_message *message,
                 struct flight *flight, struct problem *why)
{
    int reason;
    enum status rc = flights_publish(out, message, flight, &reason, why);

    if (!rc && reason != FLIGHT_UNACKNOWLEDGED)
        retained_acknowledged(out, flight, reason);
    return rc;
}

/* Status */

/* Publishes the status. If the window is full, at QoS 0, which needs no room.
 * false: it could not be published. */
static bool
send_status(struct outbound *out, const char *text, bool is_last)
{
    struct mqtt_message message = {
        .topic = out->status_topic.text,
        .payload = slice_of(text),
        .qos = out->config->qos > 0 && out->window.in_flight < out->window.max,
        .is_retained = true,
    };
    struct problem why = {""};
    struct flight *flight = flight_window_add(&out->window, FLIGHT_STATUS, NULL,
                                              message.payload.size);

    flight->upto = is_last;
    list_append(&out->window.others, &flight->node);
    if (!publish_retained(out, &message, flight, &why))
        return true;
    DIAG(DIAG_WARNING, "bridge", "cannot publish the status of a bridge",
         diag_text("bridge", out->config->name), diag_text("status", text),
         diag_text("error", why.text));
    return false;
}

/* Positions */

void
retained_connected(struct outbound *out)
{
    struct lane *lane;

    out->turns_of_positions = MESSAGES_BETWEEN;
    if (out->takes_retained)
        send_status(out, ONLINE, false);
    else
        DIAG(DIAG_WARNING, "bridge",
             "the MQTT broker takes no retained messages: the bridge publishes "
             "neither status nor positions",
             diag_text("bridge", out->config->name));
    list_walk (lane, &out->lanes, node)
        lane_note_position(lane);
}

const struct json_shape bridge_position_shape = {
    "BridgePosition", "The position of the last acknowledged message of a set",
    "set string, epoch string, seq count, position string, datetime? time, "
    "changes uri (the change memory from there on)"};

const struct json_shape bridge_status_shape = {
    "BridgeStatus", "If a bridge publishes", "= '" ONLINE "'|'" OFFLINE "'"};

/* {"set":"demo","epoch":"0123456789abcdef","seq":7,
 *  "position":"0123456789abcdef-7","datetime":"2026-04-01T18:10:00.125Z",
 *  "changes":"http://example.org/..."} (in one line) */
static void
write_position(struct buf *to, const struct lane *lane)
{
    uint64_t seq = lane_acked(lane);
    struct link_text changes =
        link_to(registry_public_url(lane->out->registry), LINK_MEMORY,
                lane->name, lane->epoch, seq);
    char position[POSITION_MAX], time[DATETIME_SIZE];
    struct batch *batch = NULL;
    struct head head;
    int64_t us = DATETIME_NONE;

    position_write(position, lane->epoch, seq);
    BUF_ADD(to, "{\"set\":");
    json_text(to, slice_of(lane->name));
    json_text_member(to, "epoch", slice_of(lane->epoch));
    json_number_member(to, "seq", seq);
    json_text_member(to, "position", slice_of(position));
    log_head(lane->set->log, &head);
    /* T(seq), if it is still known */
    if (seq == head.last)
        us = head.last_us;
    else if (seq == 0)
        us = head.created_us;
    else if (seq >= head.earliest &&
             !log_read(registry_log(lane->out->registry), lane->set->log, seq,
                       LOG_DISK, &batch, NULL) &&
             batch)
        us = batch_time(batch, seq);
    batch_unref(batch);
    if (us != DATETIME_NONE) {
        datetime_write(time, us); /* as in messages */
        json_text_member(to, "datetime", (struct slice){time, DATETIME_SIZE});
    }
    json_text_member(to, "changes", link_slice(&changes));
    BUF_ADD(to, "}");
}

/* Publishes the next position that is due; if its set is gone, or the bridge
 * has no right to publish that, an empty message, which deletes the retained
 * one. */
static enum status
send_next(struct outbound *out, int64_t now_us)
{
    struct lane *lane =
        list_entry(out->queues.due.next, struct lane, position.node);
    bool is_hidden = !lane->set || lane->is_withheld ||
                     (out->rights.is_waiting && set_is_private(lane->set));
    struct topic_name topic =
        TOPIC_NAME(out->config->prefix, lane->name, "position");
    struct mqtt_message message = {
        .topic = topic.text,
        .qos = out->config->qos > 0,
        .is_retained = true,
        .content_type = is_hidden ? NULL : "application/json",
    };
    struct problem why = {""};
    struct flight *flight;
    enum status rc;

    list_remove(&lane->position.node);
    lane->position.is_due = false;
    lane->position.is_resting = true;
    lane->position.rested_us = now_us + SECOND_US;
    list_append(&out->queues.resting, &lane->position.node);
    lane->position.is_cleared = lane->position.is_cleared && is_hidden;
    buf_clear(&out->turn.position);
    if (!is_hidden)
        write_position(&out->turn.position, lane);
    message.payload = buf_slice(&out->turn.position);
    flight = flight_window_add(&out->window, FLIGHT_POSITION, lane,
                               message.payload.size);
    list_append(&out->window.others, &flight->node);
    rc = publish_retained(out, &message, flight, &why);
    if (rc) {
        lane->position.is_due = true; /* try again a second later */
        if (rc != STATUS_AGAIN)
            DIAG(DIAG_WARNING, "bridge", "cannot publish a position",
                 LANE_KEYS(lane), diag_text("error", why.text));
    }
    return rc;
}

static void
wake_rested(struct outbound *out, int64_t now_us)
{
    struct lane *lane;

    list_until_empty (lane, &out->queues.resting, position.node) {
        if (lane->position.rested_us > now_us)
            return;
        list_remove(&lane->position.node);
        lane->position.is_resting = false;
        if (lane->position.is_due)
            lane_note_position(lane);
    }
}

void
retained_send(struct outbound *out, int64_t now_us)
{
    unsigned *turns = &out->turns_of_positions;
    struct lane *lane;

    wake_rested(out, now_us);
    if (!out->takes_retained) { /* skips all positions */
        list_drain (lane, &out->queues.due, position.node) {
            lane->position.is_due = false;
            end_clearing(lane);
        }
    }
    if (*turns > TURNS_MAX)
        *turns = TURNS_MAX;
    while (!list_is_empty(&out->queues.due) &&
           flight_window_has_room(&out->window)) {
        if (!list_is_empty(&out->queues.ready) && *turns < MESSAGES_BETWEEN)
            return;
        *turns -= *turns < MESSAGES_BETWEEN ? *turns : MESSAGES_BETWEEN;
        if (send_next(out, now_us))
            return;
    }
}

bool
retained_farewell(struct outbound *out, int64_t now_us)
{
    if (!out->takes_retained)
        return out->window.in_flight == 0;
    if (!out->farewell.is_sent) {
        wake_rested(out, INT64_MAX);
        while (!list_is_empty(&out->queues.due) &&
               flight_window_has_room(&out->window) && !send_next(out, now_us))
            wake_rested(out, INT64_MAX);
    }
    /* Messages in flight and positions have half of the time; "offline" has the
     * other half, so that subscribers do not see a wrong "online". */
    if (!out->farewell.is_sent &&
        (now_us >= out->farewell.begun_us + MQTT_FAREWELL_US / 2 ||
         (out->window.in_flight == 0 && list_is_empty(&out->queues.due)))) {
        out->farewell.is_sent = true;
        if (!send_status(out, OFFLINE, true))
            out->farewell.is_acknowledged = true; /* nothing more can be done */
    }
    return out->farewell.is_acknowledged && out->window.in_flight == 0;
}
