#include "broker/bridge/bridges.h"

#include "broker/base/metrics.h"
#include "broker/bridge/inbound.h"
#include "broker/bridge/mqtt_db.h"
#include "broker/bridge/outbound.h"
#include "broker/bridge/outbox.h"
#include "broker/cluster/ownership.h"
#include "broker/mqtt/mqtt.h"
#include "proto/resourcesync/json.h"

/* One section. A direction that it does not have is NULL. */
struct bridge {
    const struct bridge_config *config;
    struct mqtt_db *db; /* all share one if this broker is alone */
    struct outbound *out;
    struct inbound *in;
};

struct bridges {
    struct posts *posts;
    struct registry *registry; /* of the posts */
    bool is_alone;             /* in no cluster */
    struct ownership *ownership;
    struct outbox *outbox; /* each broker of a cluster has one */

    /* Held while bridges are opened, replaced or closed, which takes seconds.
     */
    pthread_mutex_t changing;
    const struct ownership_right *rights[BRIDGES_MAX]; /* of those that this
                                                          broker owns */
    size_t n_rights;
    atomic_bool is_ending;
    struct mqtt_db *db; /* of a broker that is alone; NULL: there was no bridge
                           yet */
    pthread_mutex_t writing; /* mqtt.db */

    pthread_mutex_t mutex; /* protects the next two; a thread that changes them
                              holds `changing`, too */
    struct bridge *all;
    size_t n;
};

/* Opening and replacing bridges */

static void
close_bridge(const struct bridges *b, struct bridge *bridge)
{
    inbound_close(bridge->in);
    outbound_close(bridge->out);
    if (!b->is_alone)
        mqtt_db_close(bridge->db);
    *bridge = (struct bridge){.config = bridge->config};
}

/* The right to a bridge, in a cluster; NULL: another broker owns it. */
static const struct ownership_right *
right_to(const struct bridges *b, const struct bridge_config *config)
{
    for (size_t i = 0; i < b->n_rights; i++)
        if (!strcmp(b->rights[i]->part->file.part_of_rows, config->name))
            return b->rights[i];
    return NULL;
}

/* Moves the bridges whose sections are the same to `all`, and the others to
 * `ended`. Returns how many `all` are, with new ones: those of this broker. */
static size_t
sort_out(const struct bridges *b, const struct bridging *next,
         struct bridge *all, struct bridge ended[BRIDGES_MAX])
{
    size_t n = 0;

    for (size_t i = 0; i < b->n; i++)
        ended[i] = b->all[i];
    for (size_t i = 0; i < next->n; i++) {
        struct bridge *same = ended, *end = ended + b->n;

        if (!b->is_alone && !right_to(b, &next->all[i]))
            continue;
        while (same < end && (!(same->out || same->in) ||
                              !bridge_is_same(same->config, &next->all[i])))
            same++;
        if (same < end) {
            all[n] = *same;
            *same = (struct bridge){NULL};
        }
        all[n++].config = &next->all[i];
    }
    return n;
}

/* Opens the out part first, so that it fixes where each set begins before the
 * in part of the section posts anything. If one fails, none is open. */
static enum status
open_bridge(struct bridges *b, struct bridge *bridge, struct problem *why)
{
    const struct bridge_config *config = bridge->config;
    enum status rc = STATUS_OK;

    bridge->db = b->db;
    if (!b->is_alone)
        rc = mqtt_db_open(&bridge->db, b->registry->config->data,
                          right_to(b, config), &b->writing, why);
    if (!rc && config->out[0])
        rc = outbound_open(&bridge->out, b->registry, bridge->db, config, why);
    if (!rc && config->n_inputs > 0)
        rc = inbound_open(&bridge->in, b->posts, bridge->db, config, why);
    if (!rc)
        return STATUS_OK;
    outbound_stop(bridge->out);
    close_bridge(b, bridge);
    return problem_prefix(why, rc, "bridge %s: ", config->name);
}

/* Makes the bridges those of `next`. First closes the connections that end: an
 * MQTT broker has one for a client id. If this fails, bridges are missing. */
static enum status
make_bridges(struct bridges *b, const struct bridging *next,
             struct problem *why)
{
    struct bridge ended[BRIDGES_MAX] = {0}, *all, *last;
    size_t n_ended = b->n, n;
    enum status rc = STATUS_OK;

    if (b->is_alone && next->n > 0 && !b->db)
        rc = mqtt_db_open(&b->db, b->registry->config->data, NULL, &b->writing,
                          why);
    if (rc)
        return problem_prefix(why, rc, "mqtt.db: ");
    all = memory_new(next->n + 1, sizeof(*all)); /* not 0 */
    n = sort_out(b, next, all, ended);
    /* A direction takes up to MQTT_FAREWELL_US to end: all are asked before the
     * first one is waited for. */
    for (size_t i = 0; i < n_ended; i++) {
        outbound_end(ended[i].out);
        inbound_end(ended[i].in);
    }
    for (size_t i = 0; i < n_ended; i++) {
        outbound_stop(ended[i].out);
        inbound_stop(ended[i].in);
    }
    for (size_t i = 0; !rc && i < n; i++)
        if (!all[i].out && !all[i].in)
            rc = open_bridge(b, &all[i], why);
    pthread_mutex_lock(&b->mutex);
    last = b->all;
    b->all = all;
    b->n = n;
    pthread_mutex_unlock(&b->mutex);
    for (size_t i = 0; i < n_ended; i++)
        close_bridge(b, &ended[i]);
    free(last);
    return rc;
}

/* Ends a bridge. Its lease may go to another broker then. With the broker all
 * end at once, lest their farewells add up. */
static void
forget_right(struct bridges *b, const struct ownership_right *right)
{
    static const struct bridging none;
    size_t n = 0;

    for (size_t i = 0; i < b->n_rights && !b->is_ending; i++)
        if (b->rights[i] != right)
            b->rights[n++] = b->rights[i];
    b->n_rights = n;
    (void)!make_bridges(b, n > 0 ? registry_bridging(b->registry) : &none,
                        NULL);
    mqtt_db_close(b->db);
    b->db = NULL;
}

static enum status
begin_bridges(const struct ownership_right *right, void *user,
              struct problem *why)
{
    struct bridges *b = user;
    enum status rc = STATUS_OK;

    pthread_mutex_lock(&b->changing);
    if (b->n_rights == BRIDGES_MAX) /* those of former sections end first */
        rc = problem(why, STATUS_BUSY, "others have not ended yet");
    else if (!b->is_alone)
        b->rights[b->n_rights++] = right;
    if (!rc)
        rc = make_bridges(b, registry_bridging(b->registry), why);
    if (rc)
        forget_right(b, right);
    pthread_mutex_unlock(&b->changing);
    return rc;
}

static void
end_bridges(const struct ownership_right *right, void *user)
{
    struct bridges *b = user;

    pthread_mutex_lock(&b->changing);
    forget_right(b, right);
    pthread_mutex_unlock(&b->changing);
}

/* Of a cluster: asks for leases once there is a bridge. */
static enum status
start_bridges(struct bridges *b, struct problem *why)
{
    const struct bridging *bridging = registry_bridging(b->registry);
    const char *names[BRIDGES_MAX];

    for (size_t i = 0; i < bridging->n; i++)
        names[i] = bridging->all[i].name;
    if (!b->is_alone)
        ownership_divide(b->ownership, names, bridging->n);
    return b->is_alone || bridging->n > 0 ? ownership_start(b->ownership, why)
                                          : STATUS_OK;
}

enum status
bridges_open(struct bridges **bridges, struct posts *posts,
             const struct cluster_seat *seat, struct problem *why)
{
    struct bridges *b = memory_new(1, sizeof(*b));
    struct ownership_options owning = {
        .seat = seat,
        .file = &mqtt_db_file,
        .dir = posts->registry->config->data,
        .is_divided = true,
        .begin = begin_bridges,
        .end = end_bridges,
        .user = b,
    };
    enum status rc;

    *bridges = NULL;
    b->posts = posts;
    b->registry = posts->registry;
    b->is_alone = !seat;
    pthread_mutex_init(&b->changing, NULL);
    pthread_mutex_init(&b->mutex, NULL);
    pthread_mutex_init(&b->writing, NULL);
    b->ownership = ownership_new(&owning);
    rc = start_bridges(b, why);
    if (!rc)
        rc = outbox_open(&b->outbox, posts, why);
    if (rc)
        bridges_close(b);
    else
        *bridges = b;
    return rc;
}

enum status
bridges_reload(struct bridges *b, const struct bridging *next,
               struct problem *why)
{
    struct problem again = {""};
    enum status rc = STATUS_OK;

    pthread_mutex_lock(&b->changing);
    if (b->is_alone || b->n_rights > 0)
        rc = make_bridges(b, next, why);
    if (rc && make_bridges(b, registry_bridging(b->registry), &again))
        DIAG(DIAG_ERROR, "bridge", "cannot start a bridge again",
             diag_text("error", again.text));
    if (!rc)
        registry_set_bridging(b->registry, next);
    pthread_mutex_unlock(&b->changing);
    return rc ? rc : start_bridges(b, why);
}

enum status
bridges_check_files(const struct config *config, struct problem *why)
{
    enum status rc = STATUS_OK;

    for (size_t i = 0; !rc && i < config->n_bridges; i++) {
        const struct bridge_config *bridge = &config->bridges[i];

        rc = mqtt_check_files(bridge, why);
        if (rc)
            problem_prefix(why, rc, "%s: ", bridge_place(bridge).text);
    }
    return rc;
}

/* The end */

void
bridges_stop(struct bridges *b)
{
    if (!b)
        return;
    outbox_stop(b->outbox);
    b->is_ending = true;
    ownership_stop(b->ownership);
}

void
bridges_close(struct bridges *b)
{
    if (!b)
        return;
    outbox_close(b->outbox);
    ownership_close(b->ownership);
    free(b->all);
    pthread_mutex_destroy(&b->changing);
    pthread_mutex_destroy(&b->mutex);
    pthread_mutex_destroy(&b->writing);
    free(b);
}

/* Reports */

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
    json_number_member(to, "connections", state->connections);
    if (why->text[0])
        json_text_member(to, "why", slice_of(why->text));
}

/* The reason that stops a direction: the connection's reason first. */
static const struct problem *
reason_of(const struct inbound_report *in)
{
    return in->mqtt.why.text[0] ? &in->mqtt.why : &in->why;
}

#define CONNECTION                                                        \
    "state 'connecting'|'connected'|'waiting'|'elsewhere', since? time, " \
    "connections? count, why? string (of the failure), "

const struct json_shape bridge_out_shape = {
    "BridgeOut", "How a bridge publishes",
    CONNECTION "published? count, acknowledged? count, inFlight? count, "
               "refused? count, leftOut? count, sets? count, setsBehind? "
               "count, lag? count "
               "(entries), slowest? BridgeSet"};

const struct json_shape bridge_set_shape = {
    "BridgeSet", "The set that lags most", "set string, lag count"};

const struct json_shape bridge_in_shape = {
    "BridgeIn", "How a bridge takes messages",
    CONNECTION
    "received? count, posted? count, entries? count, ignored? count, "
    "rejected? count, repeats? count"};

const struct json_shape bridge_shape = {
    "Bridge", "A bridge to an MQTT broker",
    "name string, url string, version string, prefix string, as? string, "
    "owner? string (the broker of the cluster that keeps it, if another), "
    "out? BridgeOut, in? BridgeIn"};

const struct json_shape bridges_shape = {"Bridges", "All bridges",
                                         "bridges [Bridge]"};

static void
write_section(struct buf *to, const struct bridge_config *config)
{
    BUF_ADD(to, "{\"name\":");
    json_text(to, slice_of(config->name));
    json_text_member(to, "url", slice_of(config->url));
    json_text_member(
        to, "version",
        slice_of(config->version == BRIDGE_MQTT_311 ? "3.1.1" : "5"));
    json_text_member(to, "prefix", slice_of(config->prefix));
    if (config->as[0])
        json_text_member(to, "as", slice_of(config->as));
}

void
bridge_report_write(struct buf *to, const struct bridge_config *config,
                    const struct outbound_report *out,
                    const struct inbound_report *in)
{
    write_section(to, config);
    if (out) {
        BUF_ADD(to, ",\"out\":");
        add_connection(to, &out->mqtt, &out->mqtt.why);
        json_number_member(to, "published", out->published);
        json_number_member(to, "acknowledged", out->acknowledged);
        json_number_member(to, "inFlight", out->in_flight);
        json_number_member(to, "refused", out->refused);
        json_number_member(to, "leftOut", out->left_out);
        json_number_member(to, "sets", out->sets);
        json_number_member(to, "setsBehind", out->sets_behind);
        json_number_member(to, "lag", out->lag);
        if (out->slowest[0]) {
            BUF_ADD(to, ",\"slowest\":{\"set\":");
            json_text(to, slice_of(out->slowest));
            json_number_member(to, "lag", out->slowest_lag);
            BUF_ADD(to, "}");
        }
        BUF_ADD(to, "}");
    }
    if (in) {
        BUF_ADD(to, ",\"in\":");
        add_connection(to, &in->mqtt, reason_of(in));
        json_number_member(to, "received", in->received);
        json_number_member(to, "posted", in->posted);
        json_number_member(to, "entries", in->entries);
        json_number_member(to, "ignored", in->ignored);
        json_number_member(to, "rejected", in->rejected);
        json_number_member(to, "repeats", in->repeats);
        BUF_ADD(to, "}");
    }
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

/* Its connections are known to its owner alone. */
static void
write_elsewhere(struct buf *to, const char *dir,
                const struct bridge_config *config)
{
    struct bridge_row row;

    mqtt_db_find_owner(dir, config->name, &row);
    write_section(to, config);
    if (row.owner[0])
        json_text_member(to, "owner", slice_of(row.owner));
    if (config->out[0])
        BUF_ADD(to, ",\"out\":{\"state\":\"elsewhere\"}");
    if (config->n_inputs > 0)
        BUF_ADD(to, ",\"in\":{\"state\":\"elsewhere\"}");
    BUF_ADD(to, "}");
}

void
bridges_write(struct bridges *b, const struct principal *reader, struct buf *to)
{
    const struct bridging *all = registry_bridging(b->registry);
    const char *dir = b->registry->config->data;
    bool is_here[BRIDGES_MAX] = {false};
    struct outbound_report out;
    struct inbound_report in;

    BUF_ADD(to, "{\"bridges\":[");
    pthread_mutex_lock(&b->mutex);
    for (size_t i = 0; i < b->n; i++) {
        const struct bridge *bridge = &b->all[i];

        if (bridge->out)
            outbound_report(bridge->out, reader, &out);
        if (bridge->in)
            inbound_report(bridge->in, &in);
        json_separate(to, ",");
        bridge_report_write(to, bridge->config, bridge->out ? &out : NULL,
                            bridge->in ? &in : NULL);
        for (size_t k = 0; k < all->n; k++)
            is_here[k] |= !strcmp(all->all[k].name, bridge->config->name);
    }
    pthread_mutex_unlock(&b->mutex);
    for (size_t k = 0; !b->is_alone && k < all->n; k++)
        if (!is_here[k]) {
            json_separate(to, ",");
            write_elsewhere(to, dir, &all->all[k]);
        }
    BUF_ADD(to, "]}\n");
}

/* Does not look at every set of a direction outwards, because a service thread
 * asks. */
void
bridges_warn(struct bridges *b, struct buf *to)
{
    struct mqtt_state out;
    struct inbound_report in;

    pthread_mutex_lock(&b->mutex);
    for (size_t i = 0; i < b->n; i++) {
        const struct bridge *bridge = &b->all[i];

        if (bridge->out)
            outbound_state(bridge->out, &out);
        if (bridge->in)
            inbound_report(bridge->in, &in);
        bridge_report_warn(to, bridge->config, bridge->out ? &out : NULL,
                           bridge->in ? &in : NULL);
    }
    pthread_mutex_unlock(&b->mutex);
    outbox_warn(b->outbox, to);
}

/* (Each client counts its own connections: mqtt.c.) */
void
bridges_measure(struct bridges *b)
{
    uint64_t in_flight = 0, lag = 0;
    int64_t n_directions = 0;
    struct outbound_report out;

    pthread_mutex_lock(&b->mutex);
    for (size_t i = 0; i < b->n; i++) {
        n_directions += !!b->all[i].in + !!b->all[i].out;
        if (!b->all[i].out)
            continue;
        outbound_report(b->all[i].out, NULL, &out);
        in_flight += out.in_flight;
        lag += out.lag;
    }
    pthread_mutex_unlock(&b->mutex);
    metrics_set(METRIC_MQTT_DIRECTIONS, n_directions);
    metrics_set(METRIC_MQTT_IN_FLIGHT, (int64_t)in_flight);
    metrics_set(METRIC_MQTT_LAG, (int64_t)lag);
}
