/*
 * flight_window.h - messages that are published and not finished.
 *
 *     flight_window_add     a message is made, and mqtt.db notes its end
 *     flight_window_sent    it is in flight, found by its mid
 *     flight_window_take    it is acknowledged
 *     flight_window_release it and all earlier ones of its set are done
 *
 * The window counts two things. In flight are messages that the MQTT broker has
 * not acknowledged: `max` messages, FLIGHT_WINDOW_BYTES. Held are all flights,
 * also acknowledged ones that wait for an earlier one of their set, because a
 * set moves in order. At most twice `max` are held, so that one missing
 * acknowledgement cannot make the window grow.
 *
 * The window reuses flights: in a steady state it allocates nothing.
 */
#pragma once

#include "base/list.h"
#include "base/map.h"

/* The most bytes of payloads in flight, not counting the last one. */
#define FLIGHT_WINDOW_BYTES ((size_t)16 << 20)

struct lane;

enum flight_kind { FLIGHT_MESSAGE, FLIGHT_POSITION, FLIGHT_STATUS };

struct flight {
    struct list node;       /* in its lane's list, in order; or in the window's
                               `others` or `unused` */
    struct map_node by_mid; /* in the window, while it is in flight */
    struct lane *lane; /* NULL: none, or its lane makes the message again */
    enum flight_kind kind;
    bool is_done;  /* acknowledged, or nothing was sent */
    int mid;       /* 0: not in flight */
    uint64_t upto; /* the lane moves here when this flight and all before it are
                      done; 0: it does not move */
    size_t bytes;  /* of the payload */
};

struct flight_window {
    unsigned max;       /* the most messages in flight; the owner and tests set
                           it */
    unsigned in_flight; /* includes flights that were added and not sent yet */
    unsigned held;      /* flights in use */
    size_t bytes;       /* in flight */
    struct map by_mid;
    struct list others; /* flights that no lane waits for in order */
    struct list unused;
};

/* Begins a window of at most `inflight` messages. */
void flight_window_init(struct flight_window *w, unsigned inflight);

/* Frees the window. No lane may have a flight. */
void flight_window_fini(struct flight_window *w);

bool flight_window_has_room(const struct flight_window *w);

/* Makes a flight with a payload of `bytes`. The caller puts it into a list. */
struct flight *flight_window_add(struct flight_window *w, enum flight_kind kind,
                                 struct lane *lane, size_t bytes);

/* Notes that the flight was published as `mid`. */
void flight_window_sent(struct flight_window *w, struct flight *flight,
                        int mid);

/* Takes a flight out of the count of those in flight: it is done, also if there
 * was nothing to publish. The lane moves there in turn. */
void flight_window_land(struct flight_window *w, struct flight *flight);

/* Takes the flight with that mid out of those in flight; NULL: none. */
struct flight *flight_window_take(struct flight_window *w, int mid);

/* Frees a flight that is finished, or could not be published. */
void flight_window_release(struct flight_window *w, struct flight *flight);

/* Separates flights from their lane: they stay in flight, and count. */
void flight_window_orphan(struct flight_window *w, struct list *flights);

/* After the end of a connection: nothing is in flight. Releases `others`; lanes
 * have released theirs before. */
void flight_window_clear(struct flight_window *w);
