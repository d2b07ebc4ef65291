#include "broker/bridge/flight_window.h"

void
flight_window_init(struct flight_window *w, unsigned inflight)
{
    *w = (struct flight_window){.max = inflight};
    list_init(&w->others);
    list_init(&w->unused);
}

void
flight_window_fini(struct flight_window *w)
{
    struct flight *flight;

    list_move(&w->unused, &w->others);
    list_drain (flight, &w->unused, node)
        free(flight);
    map_fini(&w->by_mid);
}

bool
flight_window_has_room(const struct flight_window *w)
{
    return w->in_flight < w->max && w->held < 2 * w->max &&
           w->bytes < FLIGHT_WINDOW_BYTES;
}

struct flight *
flight_window_add(struct flight_window *w, enum flight_kind kind,
                  struct lane *lane, size_t bytes)
{
    struct flight *flight =
        list_take(&w->unused, offsetof(struct flight, node));

    if (!flight)
        flight = memory_room(sizeof(*flight));
    memset(flight, 0, sizeof(*flight));
    list_init(&flight->node);
    flight->kind = kind;
    flight->lane = lane;
    flight->bytes = bytes;
    w->in_flight++;
    w->held++;
    w->bytes += bytes;
    return flight;
}

void
flight_window_sent(struct flight_window *w, struct flight *flight, int mid)
{
    flight->mid = mid;
    /* libmosquitto counts its mids up: they spread evenly. */
    map_add(&w->by_mid, &flight->by_mid, (uint64_t)mid);
}

void
flight_window_land(struct flight_window *w, struct flight *flight)
{
    w->in_flight--;
    w->bytes -= flight->bytes;
    flight->mid = 0;
    flight->is_done = true;
}

struct flight *
flight_window_take(struct flight_window *w, int mid)
{
    struct map_node *node = map_find(&w->by_mid, (uint64_t)mid);
    struct flight *flight;

    if (!node)
        return NULL;
    flight = map_entry(node, struct flight, by_mid);
    map_remove(&w->by_mid, node);
    flight_window_land(w, flight);
    return flight;
}

void
flight_window_release(struct flight_window *w, struct flight *flight)
{
    if (flight->mid > 0)
        flight_window_take(w, flight->mid);
    else if (!flight->is_done)
        flight_window_land(w, flight);
    w->held--;
    list_put(&w->unused, &flight->node);
}

void
flight_window_orphan(struct flight_window *w, struct list *flights)
{
    struct flight *flight;

    list_until_empty (flight, flights, node) {
        flight->lane = NULL;
        if (flight->is_done)
            flight_window_release(w, flight);
        else
            list_put(&w->others, &flight->node);
    }
}

void
flight_window_clear(struct flight_window *w)
{
    map_fini(&w->by_mid);
    list_move(&w->unused, &w->others);
    w->in_flight = w->held = 0;
    w->bytes = 0;
}
