#include "broker/bridge/flight_window.h"

#include <stdlib.h>
#include <string.h>

enum status
flight_window_init(struct flight_window *w, unsigned inflight)
{
    size_t n = 16;

    /* libmosquitto counts its mids up, so they spread evenly. */
    while (n < inflight)
        n *= 2;
    memset(w, 0, sizeof(*w));
    list_init(&w->others);
    list_init(&w->unused);
    w->max = inflight;
    w->mask = n - 1;
    w->buckets = calloc(n, sizeof(*w->buckets));
    return w->buckets ? STATUS_OK : STATUS_MEMORY;
}

static void
free_all(struct list *flights)
{
    struct list *node, *after;

    list_foreach (node, after, flights)
        free(list_entry(node, struct flight, node));
    list_init(flights);
}

void
flight_window_fini(struct flight_window *w)
{
    if (!w->buckets)
        return;
    free_all(&w->others);
    free_all(&w->unused);
    free(w->buckets);
    w->buckets = NULL;
}

bool
flight_window_has_room(const struct flight_window *w)
{
    return w->in_flight < w->max && w->held < 2 * w->max &&
           w->bytes < FLIGHT_WINDOW_BYTES;
}

static struct flight *
take_unused(struct flight_window *w)
{
    struct list *node = list_first(&w->unused);

    if (!node)
        return malloc(sizeof(struct flight));
    list_remove(node);
    return list_entry(node, struct flight, node);
}

struct flight *
flight_window_add(struct flight_window *w, enum flight_kind kind,
                  struct lane *lane, size_t bytes)
{
    struct flight *flight = take_unused(w);

    if (!flight)
        return NULL;
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

static struct flight **
bucket_of(struct flight_window *w, int mid)
{
    return &w->buckets[(size_t)mid & w->mask];
}

void
flight_window_sent(struct flight_window *w, struct flight *flight, int mid)
{
    struct flight **bucket = bucket_of(w, mid);

    flight->mid = mid;
    flight->next = *bucket;
    *bucket = flight;
}

/* Takes the flight out of the count of those in flight. */
static void
land_flight(struct flight_window *w, struct flight *flight)
{
    w->in_flight--;
    w->bytes -= flight->bytes;
    flight->mid = 0;
    flight->is_done = true;
}

void
flight_window_skip(struct flight_window *w, struct flight *flight)
{
    land_flight(w, flight);
}

struct flight *
flight_window_take(struct flight_window *w, int mid)
{
    for (struct flight **at = bucket_of(w, mid); *at; at = &(*at)->next) {
        struct flight *flight = *at;

        if (flight->mid != mid)
            continue;
        *at = flight->next;
        land_flight(w, flight);
        return flight;
    }
    return NULL;
}

void
flight_window_release(struct flight_window *w, struct flight *flight)
{
    if (flight->mid > 0)
        flight_window_take(w, flight->mid);
    else if (!flight->is_done)
        land_flight(w, flight);
    w->held--;
    list_remove(&flight->node);
    list_append(&w->unused, &flight->node);
}

void
flight_window_orphan(struct flight_window *w, struct list *flights)
{
    struct list *node;

    while ((node = list_first(flights))) {
        struct flight *flight = list_entry(node, struct flight, node);

        flight->lane = NULL;
        if (flight->is_done) {
            flight_window_release(w, flight);
        } else {
            list_remove(node);
            list_append(&w->others, node);
        }
    }
}

void
flight_window_clear(struct flight_window *w)
{
    memset(w->buckets, 0, (w->mask + 1) * sizeof(*w->buckets));
    list_move(&w->unused, &w->others);
    w->in_flight = w->held = 0;
    w->bytes = 0;
}
