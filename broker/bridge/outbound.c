#include "broker/bridge/outbound.h"

#include "base/clock.h"
#include "broker/bridge/outbound_state.h"
#include "broker/sets/rates.h"

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
    list_walk (lane, &out->lanes, node)
        lane_ready(lane);
    retained_connected(out);
}

static void
on_lost(void *user)
{
    struct outbound *out = user;
    struct lane *lane;

    list_walk (lane, &out->lanes, node)
        lane_rewind(lane);
    flight_window_clear(&out->window);
    atomic_store_explicit(&out->counts.in_flight, 0, memory_order_relaxed);
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
    if (out->news.private_births != registry_private_births(out->registry))
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
    atomic_store_explicit(&out->counts.in_flight, out->window.in_flight,
                          memory_order_relaxed);
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

    return mqtt_db_may_publish(out->db);
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
    rc = mqtt_db_bridge(db, config->name, &out->row, why);
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
        rates_note_last(registry_rates(out->registry), RATE_BRIDGES, lane->set,
                        lag);
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
