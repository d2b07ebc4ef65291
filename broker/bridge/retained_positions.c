/*
 * Positions. A lane is due when its position differs from the published one.
 * After a publication it rests for a second, and is due again if it has moved
 * meanwhile, so the last position is never omitted.
 *
 *     none --moved--> due --told--> resting --a second--> due, or none
 *
 * Positions give way to messages, but every eighth publication may be one. So
 * they come however many messages there are, and the 10,000 positions after a
 * connection do not hold up messages.
 *
 * They have QoS 1 if messages have QoS 1 or 2: after a lost position the
 * retained one would be wrong until the set changes again. They never have QoS
 * 2: a repeated position does no harm.
 */
#include <string.h>

#include "broker/base/diag.h"
#include "broker/bridge/outbound_state.h"
#include "broker/sets/links.h"
#include "proto/datetime.h"
#include "proto/json.h"

#define MESSAGES_BETWEEN 7

/* The most turns that positions may save up while none is due. */
#define TURNS_MAX (64 * MESSAGES_BETWEEN)

#define ONLINE  "online"
#define OFFLINE "offline"

static int
qos_of(const struct outbound *out)
{
    return out->config->qos > 0 ? 1 : 0;
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
        .qos = out->window.in_flight < out->window.max ? qos_of(out) : 0,
        .is_retained = true,
    };
    struct problem why = {""};
    struct flight *flight = flight_window_add(&out->window, FLIGHT_STATUS, NULL,
                                              message.payload.size);

    if (!flight)
        return false;
    flight->upto = is_last;
    list_append(&out->window.others, &flight->node);
    if (!outbound_publish(out, &message, flight, &why))
        return true;
    DIAG(DIAG_WARNING, "bridge", "cannot tell the status of a bridge",
         diag_text("bridge", out->config->name), diag_text("status", text),
         diag_text("error", why.text));
    return false;
}

/* Positions */

static void
make_due(struct lane *lane)
{
    lane->is_due = true;
    if (lane->is_resting)
        return;
    list_remove(&lane->told);
    list_append(&lane->out->due, &lane->told);
}

void
retained_note(struct lane *lane)
{
    if (!lane->is_due)
        make_due(lane);
}

void
retained_connected(struct outbound *out)
{
    struct list *node, *after;

    out->turns_of_positions = MESSAGES_BETWEEN;
    if (out->takes_retained)
        send_status(out, ONLINE, false);
    else
        DIAG(DIAG_WARNING, "bridge",
             "the MQTT broker takes no retained messages: it is told neither "
             "status nor positions",
             diag_text("bridge", out->config->name));
    list_foreach (node, after, &out->lanes)
        retained_note(list_entry(node, struct lane, node));
}

/* T(seq) at the lane's cursor; DATETIME_NONE: no longer known. */
static int64_t
time_of(const struct lane *lane, const struct head *head, uint64_t seq)
{
    struct batch *batch = NULL;
    int64_t us = DATETIME_NONE;

    if (seq == head->last)
        return head->last_us;
    if (seq == 0)
        return head->created_us;
    if (seq >= head->earliest &&
        !log_read(registry_log(lane->out->registry), lane->set->log, seq,
                  LOG_DISK, &batch, NULL) &&
        batch)
        us = batch_time(batch, seq);
    batch_unref(batch);
    return us;
}

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
    struct head head;
    int64_t us;

    position_write(position, lane->epoch, seq);
    BUF_ADD(to, "{\"set\":");
    json_string(to, slice_of(lane->name));
    BUF_ADD(to, ",\"epoch\":");
    json_string(to, slice_of(lane->epoch));
    BUF_ADD(to, ",\"seq\":");
    buf_add_number(to, seq);
    BUF_ADD(to, ",\"position\":");
    json_string(to, slice_of(position));
    log_head(lane->set->log, &head);
    us = time_of(lane, &head, seq);
    if (us != DATETIME_NONE) {
        BUF_ADD(to, ",\"datetime\":");
        datetime_write(time, us); /* as in messages */
        json_string(to, (struct slice){time, DATETIME_SIZE});
    }
    BUF_ADD(to, ",\"changes\":");
    json_string(to, link_slice(&changes));
    BUF_ADD(to, "}");
}

/* Publishes the position; for a removed set an empty message, which deletes the
 * retained one. */
static enum status
send_position(struct lane *lane, struct problem *why)
{
    struct outbound *out = lane->out;
    struct topic_name topic = topic_position(out->config->prefix, lane->name);
    struct mqtt_message message = {
        .topic = topic.text,
        .qos = qos_of(out),
        .is_retained = true,
        .content_type = lane->set ? "application/json" : NULL,
    };
    struct flight *flight;

    buf_clear(&out->position);
    if (lane->set)
        write_position(&out->position, lane);
    message.payload = buf_slice(&out->position);
    flight = out->position.failed
                 ? NULL
                 : flight_window_add(&out->window, FLIGHT_POSITION, lane,
                                     message.payload.size);
    if (!flight)
        return problem_memory(why);
    list_append(&out->window.others, &flight->node);
    return outbound_publish(out, &message, flight, why);
}

/* Skips all positions: the MQTT broker retains none. */
static void
send_none(struct outbound *out)
{
    struct list *node;

    while ((node = list_first(&out->due))) {
        struct lane *lane = list_entry(node, struct lane, told);

        list_remove(node);
        lane->is_due = false;
        if (lane->is_clearing)
            lane_list_forget(lane);
    }
}

/* Publishes the next position that is due. */
static enum status
send_next(struct outbound *out, int64_t now_us)
{
    struct lane *lane = list_entry(out->due.next, struct lane, told);
    struct problem why = {""};
    enum status rc;

    list_remove(&lane->told);
    lane->is_due = false;
    lane->is_resting = true;
    lane->rested_us = now_us + SECOND_US;
    list_append(&out->resting, &lane->told);
    rc = send_position(lane, &why);
    if (rc) {
        lane->is_due = true; /* try again a second later */
        if (rc != STATUS_AGAIN)
            DIAG(DIAG_WARNING, "bridge", "cannot tell a position",
                 diag_text("bridge", out->config->name),
                 diag_text("set", lane->name), diag_text("error", why.text));
    }
    return rc;
}

static void
wake_rested(struct outbound *out, int64_t now_us)
{
    struct list *node;

    while ((node = list_first(&out->resting))) {
        struct lane *lane = list_entry(node, struct lane, told);

        if (lane->rested_us > now_us)
            return;
        list_remove(node);
        lane->is_resting = false;
        if (lane->is_due)
            make_due(lane);
    }
}

void
retained_send(struct outbound *out, int64_t now_us)
{
    unsigned *turns = &out->turns_of_positions;

    wake_rested(out, now_us);
    if (!out->takes_retained)
        send_none(out);
    if (*turns > TURNS_MAX)
        *turns = TURNS_MAX;
    while (!list_is_empty(&out->due) && flight_window_has_room(&out->window)) {
        if (!list_is_empty(&out->ready) && *turns < MESSAGES_BETWEEN)
            return;
        *turns -= *turns < MESSAGES_BETWEEN ? *turns : MESSAGES_BETWEEN;
        if (send_next(out, now_us))
            return;
    }
}

/* Logs a reason once, not with each connection and each position. */
static void
judge_status(struct outbound *out, int reason)
{
    if (reason && reason != out->status_reason)
        DIAG(DIAG_WARNING, "bridge",
             "the MQTT broker refuses the status of a bridge",
             diag_text("bridge", out->config->name),
             diag_text("topic", out->status_topic.text),
             diag_text("reason", mqtt_reason(reason)));
    out->status_reason = (uint8_t)reason;
}

static void
judge_position(struct lane *lane, int reason)
{
    if (reason && reason != lane->position_reason)
        DIAG(DIAG_WARNING, "bridge", "the MQTT broker refuses a position",
             diag_text("bridge", lane->out->config->name),
             diag_text("set", lane->name),
             diag_text("reason", mqtt_reason(reason)));
    lane->position_reason = (uint8_t)reason;
}

void
retained_acknowledged(struct outbound *out, struct flight *flight, int reason)
{
    struct lane *lane = flight->lane;

    if (flight->kind == FLIGHT_STATUS && flight->upto)
        out->is_offline_told = true;
    if (reason < MQTT_REASON_FAILED)
        reason = 0;
    if (flight->kind == FLIGHT_STATUS)
        judge_status(out, reason);
    else if (lane)
        judge_position(lane, reason);
    if (lane && lane->is_clearing && flight->bytes == 0)
        lane_list_forget(lane);
}

/* True when "offline" must go out. Messages in flight and positions have half
 * of the time; "offline" has the other half, so that subscribers do not see a
 * wrong "online". */
static bool
is_time_to_go(const struct outbound *out, int64_t now_us)
{
    return now_us >= out->farewell_us + MQTT_FAREWELL_US / 2 ||
           (out->window.in_flight == 0 && list_is_empty(&out->due));
}

bool
retained_farewell(struct outbound *out, int64_t now_us)
{
    if (!out->takes_retained)
        return out->window.in_flight == 0;
    if (!out->is_offline_sent) {
        wake_rested(out, INT64_MAX);
        while (!list_is_empty(&out->due) &&
               flight_window_has_room(&out->window) && !send_next(out, now_us))
            wake_rested(out, INT64_MAX);
    }
    if (!out->is_offline_sent && is_time_to_go(out, now_us)) {
        out->is_offline_sent = true;
        if (!send_status(out, OFFLINE, true))
            out->is_offline_told = true; /* nothing more can be done */
    }
    return out->is_offline_told && out->window.in_flight == 0;
}
