/*
 * Messages of lanes on their way. They are published when mqtt.db has their
 * ends, and finished in the order in which they were made, whatever the order
 * of their acknowledgements.
 */
#include "broker/base/diag.h"
#include "broker/base/metrics.h"
#include "broker/bridge/outbound_state.h"

/* Order */

struct flight *
flights_add(struct lane *lane, uint64_t upto, size_t bytes)
{
    struct flight *flight =
        flight_window_add(&lane->out->window, FLIGHT_MESSAGE, lane, bytes);

    if (!flight)
        return NULL;
    flight->upto = upto;
    list_append(&lane->flights, &flight->node);
    return flight;
}

void
flights_advance(struct lane *lane)
{
    struct outbound *out = lane->out;
    uint64_t upto = 0;
    struct list *node;

    while ((node = list_first(&lane->flights))) {
        struct flight *flight = list_entry(node, struct flight, node);

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

/* Acknowledgements */

static void
refuse_lane(struct lane *lane, int reason)
{
    if (lane->reason != (uint8_t)reason)
        DIAG(DIAG_WARNING, "bridge",
             "the MQTT broker refuses the messages about a set: the bridge "
             "tries "
             "again after a pause",
             diag_text("bridge", lane->out->config->name),
             diag_text("set", lane->name),
             diag_text("reason", mqtt_reason(reason)));
    lane_set_refused(lane, reason);
    lane_rewind(lane);
    lane_pause(lane);
}

void
flights_acknowledged(struct outbound *out, struct flight *flight, int reason)
{
    struct lane *lane = flight->lane;

    if (reason >= MQTT_REASON_FAILED) {
        outbound_count(&out->counts.refused, 1);
        metrics_add(METRIC_MQTT_REFUSED, 1);
        if (lane)
            refuse_lane(lane, reason); /* frees the flight */
        else
            flight_window_release(&out->window, flight);
        return;
    }
    outbound_count(&out->counts.acknowledged, 1);
    metrics_add(METRIC_MQTT_ACKNOWLEDGED, 1);
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
             diag_text("bridge", out->config->name),
             diag_text("set", lane->name));
        lane_set_refused(lane, 0);
    }
    flights_advance(lane);
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

static enum status
publish_message(struct outbound *out, const struct outbound_message *made,
                struct problem *why)
{
    struct lane *lane = made->flight->lane;
    struct envelope e;
    enum status rc;
    int reason;

    envelope_write(&e, lane, made);
    e.message.payload =
        (struct slice){out->turn.payloads.data + made->offset, made->size};
    rc = flights_publish(out, &e.message, made->flight, &reason, why);
    if (rc)
        return rc;
    out->turns_of_positions++;
    outbound_count(&out->counts.published, 1);
    metrics_add(METRIC_MQTT_PUBLISHED, 1);
    if (reason != FLIGHT_UNACKNOWLEDGED)
        flights_acknowledged(out, made->flight, reason);
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
        DIAG(DIAG_ERROR, "bridge", "cannot publish",
             diag_text("bridge", out->config->name),
             diag_text("set", lane->name), diag_text("error", why->text));
        lane_pause(lane);
    }
}

void
flights_send(struct outbound *out)
{
    struct problem why = {""};
    bool is_over = false;

    for (size_t i = 0; i < out->turn.n_made; i++) {
        struct outbound_message *made = &out->turn.made[i];
        struct lane *lane = made->flight->lane;
        enum status rc;

        if (lane && !is_over) {
            rc = publish_message(out, made, &why);
            if (rc)
                fail_message(lane, rc, &why, &is_over);
            continue;
        }
        if (lane)
            lane_rewind(lane);
        flight_window_release(&out->window, made->flight);
    }
    out->turn.n_made = 0;
}
