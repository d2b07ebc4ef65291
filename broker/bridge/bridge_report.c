#include "broker/bridge/bridge_report.h"

#include <inttypes.h>

#include "proto/datetime.h"
#include "proto/json.h"

static void
add_text(struct buf *to, const char *name, const char *text)
{
    buf_add_format(to, ",\"%s\":", name);
    json_string(to, slice_of(text));
}

static void
add_number(struct buf *to, const char *name, uint64_t value)
{
    buf_add_format(to, ",\"%s\":%" PRIu64, name, value);
}

static void
add_time(struct buf *to, int64_t us)
{
    char text[DATETIME_SIZE];

    buf_add(to, text, datetime_write_short(text, us));
}

static void
add_connection(struct buf *to, const struct mqtt_state *state,
               const struct problem *why)
{
    static const char *const states[] = {
        [MQTT_CONNECTING] = "connecting",
        [MQTT_CONNECTED] = "connected",
        [MQTT_WAITING] = "waiting",
    };

    buf_add_format(to, "{\"state\":\"%s\",\"since\":\"",
                   states[state->condition]);
    add_time(to, state->since_us);
    BUF_ADD(to, "\"");
    add_number(to, "connections", state->connections);
    if (why->text[0])
        add_text(to, "why", why->text);
}

static void
add_out(struct buf *to, const struct outbound_report *out)
{
    BUF_ADD(to, ",\"out\":");
    add_connection(to, &out->mqtt, &out->mqtt.why);
    add_number(to, "published", out->published);
    add_number(to, "acknowledged", out->acknowledged);
    add_number(to, "inFlight", out->in_flight);
    add_number(to, "refused", out->refused);
    add_number(to, "leftOut", out->left_out);
    add_number(to, "sets", out->sets);
    add_number(to, "setsBehind", out->sets_behind);
    add_number(to, "lag", out->lag);
    if (out->slowest[0]) {
        BUF_ADD(to, ",\"slowest\":{\"set\":");
        json_string(to, slice_of(out->slowest));
        add_number(to, "lag", out->slowest_lag);
        BUF_ADD(to, "}");
    }
    BUF_ADD(to, "}");
}

/* The reason that stops a direction: the connection's reason first. */
static const struct problem *
reason_of(const struct inbound_report *in)
{
    return in->mqtt.why.text[0] ? &in->mqtt.why : &in->why;
}

static void
add_in(struct buf *to, const struct inbound_report *in)
{
    BUF_ADD(to, ",\"in\":");
    add_connection(to, &in->mqtt, reason_of(in));
    add_number(to, "received", in->received);
    add_number(to, "posted", in->posted);
    add_number(to, "entries", in->entries);
    add_number(to, "ignored", in->ignored);
    add_number(to, "rejected", in->rejected);
    add_number(to, "repeats", in->repeats);
    BUF_ADD(to, "}");
}

void
bridge_report_write(struct buf *to, const struct bridge_config *config,
                    const struct outbound_report *out,
                    const struct inbound_report *in)
{
    BUF_ADD(to, "{\"name\":");
    json_string(to, slice_of(config->name));
    add_text(to, "url", config->url);
    add_text(to, "version", config->version == BRIDGE_MQTT_311 ? "3.1.1" : "5");
    add_text(to, "prefix", config->prefix);
    if (out)
        add_out(to, out);
    if (in)
        add_in(to, in);
    BUF_ADD(to, "}");
}

/* A first connection that is still being made has no reason yet. It gets a line
 * all the same, because the direction does not work. */
static void
write_warning(struct buf *to, const char *name, const char *direction,
              const struct mqtt_state *state, const struct problem *why)
{
    bool is_connected = state->condition == MQTT_CONNECTED;

    if (is_connected && !why->text[0])
        return;
    buf_add_format(to, "warning: bridge %s, %s: ", name, direction);
    if (!is_connected) {
        BUF_ADD(to, "not connected since ");
        add_time(to, state->since_us);
    }
    if (!is_connected && why->text[0])
        BUF_ADD(to, ": ");
    buf_add_text(to, why->text);
    BUF_ADD(to, "\n");
}

void
bridge_report_warn(struct buf *to, const struct bridge_config *config,
                   const struct mqtt_state *out,
                   const struct inbound_report *in)
{
    if (out)
        write_warning(to, config->name, "out", out, &out->why);
    if (in)
        write_warning(to, config->name, "in", &in->mqtt, reason_of(in));
}
