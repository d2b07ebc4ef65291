#include "broker/bridge/outbound.h"

#include "broker/bridge/outbound_state.h"
#include "broker/sets/rates.h"
#include "proto/resourcesync/json.h"

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

/* Handles the acknowledgement of a status or a position; releases the
 * flight. */
static void
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
    struct link_text changes;
    struct batch *batch = NULL;
    struct head head;
    int64_t us = DATETIME_NONE;

    log_head(lane->set->log, &head);
    changes = link_to(lane->out->registry->options.public_url, LINK_MEMORY,
                      lane->name, head.epoch, seq);
    BUF_ADD(to, "{\"set\":");
    json_text(to, slice_of(lane->name));
    json_text_member(to, "epoch", slice_of(head.epoch));
    json_number_member(to, "seq", seq);
    json_position_member(to, "position", head.epoch, seq);
    /* T(seq), if it is still known */
    if (seq == head.last)
        us = head.last_us;
    else if (seq == 0)
        us = head.created_us;
    else if (seq >= head.earliest &&
             !log_read(lane->out->registry->log, lane->set->log, seq, LOG_DISK,
                       &batch, NULL) &&
             batch)
        us = batch_time(batch, seq);
    batch_unref(batch);
    if (us != DATETIME_NONE)
        json_datetime_member(to, "datetime", us); /* as in messages */
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

/* Publishes positions that are due, as many as give way to messages. */
static void
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

/* At the end: publishes positions, then "offline". Returns true when all is
 * published. */
static bool
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

/* Calls of the client */

static void
on_connected(void *user, bool has_session)
{
    struct outbound *out = user;
    struct lane *lane;

    (void)has_session;
    out->farewell = (struct farewell){0}; /* that of a token's end */
    out->is_proven = false;
    out->window.max = mqtt_window(out->mqtt);
    out->takes_retained = mqtt_takes_retained(out->mqtt);
    out->turns_of_positions = MESSAGES_BETWEEN;
    if (out->takes_retained)
        send_status(out, ONLINE, false);
    else
        DIAG(DIAG_WARNING, "bridge",
             "the MQTT broker takes no retained messages: the bridge publishes "
             "neither status nor positions",
             diag_text("bridge", out->config->name));
    list_walk (lane, &out->lanes, node) {
        lane_ready(lane);
        lane_note_position(lane);
    }
}

static void
on_lost(void *user)
{
    struct outbound *out = user;
    struct lane *lane;

    list_walk (lane, &out->lanes, node)
        lane_rewind(lane);
    flight_window_clear(&out->window);
    store_relaxed(&out->counts.in_flight, 0);
}

static void
on_acknowledged(void *user, int mid, int reason)
{
    struct outbound *out = user;
    struct flight *flight = flight_window_take(&out->window, mid);

    if (!flight && out->early.is_open) {
        out->early.mid = mid;
        out->early.reason = reason;
    }
    if (!flight)
        return;
    if (flight->kind == FLIGHT_MESSAGE) {
        flights_acknowledged(out, flight, reason);
        return;
    }
    retained_acknowledged(out, flight, reason);
}

/* A turn */

static void
make_earlier(int64_t *at_us, int64_t other_us)
{
    if (other_us < *at_us)
        *at_us = other_us;
}

/* The next time when something is due without a wake. */
static int64_t
next_time(const struct outbound *out, int64_t now_us, bool is_connected)
{
    int64_t at_us = INT64_MAX;

    if (!list_is_empty(&out->unkept.lanes))
        make_earlier(&at_us, out->unkept.keep_at_us);
    if (atomic_load(&out->news.has_births))
        make_earlier(&at_us, out->news.look_at_us);
    for (int i = 0; is_connected && i < PAUSES; i++)
        if (!list_is_empty(&out->queues.paused[i]))
            make_earlier(&at_us, list_entry(out->queues.paused[i].next,
                                            struct lane, queue)
                                     ->resume_us);
    if (is_connected && !list_is_empty(&out->queues.resting))
        make_earlier(&at_us, list_entry(out->queues.resting.next, struct lane,
                                        position.node)
                                 ->position.rested_us);
    if (out->farewell.begun_us > 0 &&
        out->farewell.begun_us + MQTT_FAREWELL_US / 2 > now_us)
        make_earlier(&at_us, out->farewell.begun_us + MQTT_FAREWELL_US / 2);
    if (bridge_rights_wait_us(&out->rights) >= 0)
        make_earlier(&at_us, now_us + bridge_rights_wait_us(&out->rights));
    return at_us;
}

/* Makes and publishes messages while the window has room. The client writes
 * them, and the next turn makes the rest. */
static void
make_and_send(struct outbound *out, int64_t now_us)
{
    struct watched_log *watched;
    struct lane *lane;

    out->window.max = mqtt_window(out->mqtt);
    /* A lane stays marked until its turn, so that no commit wakes it twice. */
    watcher_take(&out->news.watcher);
    while ((watched = watcher_next(&out->news.watcher)))
        lane_ready(list_entry(watched, struct lane, watched));
    for (int i = 0; i < PAUSES; i++) {
        list_until_empty (lane, &out->queues.paused[i], queue) {
            if (lane->resume_us > now_us)
                break;
            list_remove(&lane->queue);
            lane->resume_us = 0;
            lane_ready(lane);
        }
    }
    retained_send(out, now_us);
    outbound_messages_make(out);
    if (out->turn.n_made > 0)
        bridge_rights_use(&out->rights);
    lane_list_keep(out, now_us);
    flights_send(out);
    retained_send(out, now_us);
}

static int64_t
on_turn(void *user, bool is_connected)
{
    struct outbound *out = user;
    int64_t now_us = clock_steady_us(), at_us;
    bool is_renewed;

    if (!out->news.is_watching)
        lane_list_watch(out);
    is_renewed = bridge_rights_renew(&out->rights);
    if (is_renewed && out->rights.is_waiting) {
        /* The connection ends with a farewell, which removes the positions of
         * private sets. */
        lane_list_hide(out);
        mqtt_suspend(out->mqtt, &out->rights.why);
    } else if (is_renewed) {
        lane_list_look(out);
        mqtt_resume(out->mqtt);
    }
    if (out->news.private_births != atomic_load(&out->registry->private_births))
        atomic_store(&out->news.has_births, true);
    if (atomic_load(&out->news.has_births) && now_us >= out->news.look_at_us)
        lane_list_look(out);
    is_connected = is_connected && out->farewell.begun_us == 0 &&
                   !out->rights.is_waiting && outbound_may_publish(out);
    if (is_connected)
        make_and_send(out, now_us);
    else /* lanes stay marked: none is woken twice */
        lane_list_keep(out, now_us);
    lane_list_forget(out);
    store_relaxed(&out->counts.in_flight, out->window.in_flight);
    if (is_connected && !list_is_empty(&out->queues.ready) &&
        flight_window_has_room(&out->window))
        return 0;
    now_us = clock_steady_us();
    at_us = next_time(out, now_us, is_connected);
    if (at_us == INT64_MAX)
        return -1;
    return at_us > now_us ? at_us - now_us : 0;
}

static bool
on_farewell(void *user)
{
    struct outbound *out = user;
    int64_t now_us = clock_steady_us();

    if (out->farewell.begun_us == 0)
        out->farewell.begun_us = now_us;
    return retained_farewell(out, now_us);
}

static bool
may_connect(void *user)
{
    const struct outbound *out = user;

    return ownership_allows(&out->db->right);
}

static const struct mqtt_calls calls = {
    .connected = on_connected,
    .acknowledged = on_acknowledged,
    .lost = on_lost,
    .turn = on_turn,
    .farewell = on_farewell,
    .may_connect = may_connect,
};

/* Life */

static void
wake_client(struct watcher *watcher)
{
    mqtt_wake(list_entry(watcher, struct outbound, news.watcher)->mqtt);
}

enum status
outbound_open(struct outbound **opened, struct registry *registry,
              struct mqtt_db *db, const struct bridge_config *config,
              struct problem *why)
{
    struct outbound *out = memory_new(1, sizeof(*out));
    struct mqtt_options options = {
        .config = config,
        .client_id = out->client_id.text,
        .direction = "out",
        .will_topic = out->status_topic.text,
        .will_payload = "offline",
        .calls = &calls,
        .user = out,
    };
    enum status rc;

    out->registry = registry;
    out->db = db;
    out->config = config;
    out->status_topic = TOPIC_NAME(config->prefix, TOPIC_STATUS);
    bridge_rights_init(&out->rights, registry, config, "out");
    pthread_mutex_init(&out->mutex, NULL);
    watcher_init(&out->news.watcher, wake_client);
    list_init(&out->lanes);
    list_init(&out->queues.ready);
    list_init(&out->queues.leaving);
    list_init(&out->queues.due);
    list_init(&out->queues.resting);
    list_init(&out->unkept.lanes);
    list_init(&out->refused);
    flight_window_init(&out->window, (unsigned)config->inflight);
    for (int i = 0; i < PAUSES; i++)
        list_init(&out->queues.paused[i]);
    buf_init(&out->turn.payloads, SIZE_MAX);
    buf_init(&out->turn.position, SIZE_MAX);
    if (out->rights.is_waiting)
        options.suspended = &out->rights.why;
    rc = mqtt_db_bridge(db, config->name, registry->config->cluster_name,
                        &out->row, why);
    if (!rc) {
        out->client_id = client_id_of(config, out->row.identity, "out");
        rc = lane_list_learn(out, why);
    }
    if (!rc)
        rc = mqtt_open(&out->mqtt, &options, why);
    if (rc)
        outbound_close(out);
    else
        *opened = out;
    return rc;
}

void
outbound_end(struct outbound *out)
{
    if (out)
        mqtt_begin_stop(out->mqtt);
}

void
outbound_stop(struct outbound *out)
{
    if (!out || out->has_stopped)
        return;
    out->has_stopped = true;
    mqtt_stop(out->mqtt);
    lane_list_forget(out);
    lane_list_unwatch(out);
    lane_list_keep(out, INT64_MAX);
}

void
outbound_close(struct outbound *out)
{
    if (!out)
        return;
    outbound_stop(out);
    mqtt_close(out->mqtt);
    lane_list_free(out);
    flight_window_fini(&out->window);
    bridge_rights_fini(&out->rights);
    buf_fini(&out->turn.payloads);
    buf_fini(&out->turn.position);
    pthread_mutex_destroy(&out->mutex);
    free(out);
}

/* Reports */

void
outbound_report(struct outbound *out, const struct principal *reader,
                struct outbound_report *report)
{
    struct lane *lane;

    *report = (struct outbound_report){.sets = 0};
    outbound_state(out, &report->mqtt);
    pthread_mutex_lock(&out->mutex);
    list_walk (lane, &out->lanes, node) {
        uint64_t acked = lane_acked(lane), lag;
        struct head head;

        if (!lane->set || lane->is_withheld ||
            (reader && !set_is_visible(lane->set, reader)))
            continue;
        report->sets++;
        if (!log_head(lane->set->log, &head) || head.last <= acked)
            continue;
        lag = head.last - acked;
        rates_note_last(out->registry->rates, RATE_BRIDGES, lane->set, lag);
        report->lag += lag;
        report->sets_behind++;
        if (lag <= report->slowest_lag)
            continue;
        report->slowest_lag = lag;
        memcpy(report->slowest, lane->name, strlen(lane->name) + 1);
    }
    pthread_mutex_unlock(&out->mutex);
    report->in_flight = out->counts.in_flight;
    report->published = out->counts.published;
    report->acknowledged = out->counts.acknowledged;
    report->refused = out->counts.refused;
    report->left_out = out->counts.left_out;
}

void
outbound_state(struct outbound *out, struct mqtt_state *state)
{
    const struct lane *lane;

    mqtt_state(out->mqtt, state);
    if (state->condition != MQTT_CONNECTED || state->why.text[0])
        return;
    /* Explains the refusal of a public set that has lasted longest. */
    pthread_mutex_lock(&out->mutex);
    list_walk (lane, &out->refused, refused) {
        if (lane->set && set_is_private(lane->set))
            continue;
        problem_set(&state->why,
                    "the MQTT broker refuses messages about %s: %s", lane->name,
                    mqtt_reason(lane->reason));
        break;
    }
    pthread_mutex_unlock(&out->mutex);
}
