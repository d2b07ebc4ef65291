/*
 * host_places.h - how many requests of a handle a host gets at a time, and
 * when.
 *
 *     host_place_ask --> has the place ------------------> host_place_return
 *           |                  ^    ^
 *           +--> waits --------+    +-- host_place_hold: reads nothing for now
 *                  ^
 *                  +-- the others' places, the host's pause
 *
 * Each request of a handle asks for a place at its host first: documents,
 * pages, packages, files, posts. At most `per_host` requests of a host have
 * one. Files wait while a request of another kind does; and if files have had
 * all places for DOCUMENT_PATIENCE_MS, one request of another kind goes beside
 * them: else a few long files would keep a follower from its source. A request
 * that reads nothing for now, because its user holds it back, gives its place
 * to others, so that what the user waits for can go on; it takes it again at
 * once.
 *
 * Streams stay open for hours: they need no place, but heed the pauses.
 *
 * A host that answers with Retry-After is left alone by all requests until
 * then. Those that would wait for longer than HOST_PAUSE_MOST_S end at once,
 * with the status of that answer.
 *
 * One thread: that of the handle's loop.
 */
#pragma once

#include "client/lib/handle_loop.h"

/* The default of `per_host`. */
#define HOST_PLACES_DEFAULT 4

/* Seconds that a request waits in silence for a host's pause to end. */
#define HOST_PAUSE_MOST_S 60

#define DOCUMENT_PATIENCE_MS 10000

struct places_host;

enum host_place_kind {
    HOST_PLACE_DOCUMENT, /* and posts, and whatever has an end soon */
    HOST_PLACE_FILE,
    HOST_PLACE_STREAM
};

/* Called from the loop when a request that waited may begin. */
typedef void host_place_turn_fn(void *user);

/* A request's; part of a larger struct, zero at first. */
struct host_place {
    enum host_place_kind kind;
    host_place_turn_fn *on_turn;
    void *user;

    /* host_places.c's */
    struct places_host *host; /* NULL: it neither has a place nor waits */
    struct list node;         /* among those that wait */
    int64_t since_ms;
    bool is_waiting;
    bool is_held;
};

/* A member of the handle. */
struct host_places {
    unsigned per_host;
    struct list hosts; /* struct places_host */
    struct timer turn;
};

void host_places_init(struct host_places *places, struct handle_loop *loop);

/* Return all places before. */
void host_places_fini(struct host_places *places);

/* 0: the default. Holds for what begins from now on. */
void host_places_set(struct host_places *places, unsigned per_host);

/* Asks for a place at the host of `url`. True: the request may begin now.
 * False: on_turn is called later, unless the place is returned before. */
bool host_place_ask(struct host_places *places, struct host_place *place,
                    const char *url);

/* Returns it, or ceases to wait. Nothing, if it has none. */
void host_place_return(struct host_places *places, struct host_place *place);

/* The request's user takes no bytes for now, or again. */
void host_place_hold(struct host_places *places, struct host_place *place,
                     bool is_held);

/* The host of `url` wants to be left alone for so many seconds, of which an
 * hour counts: it has answered so with an HTTP status. */
void host_places_pause(struct host_places *places, const char *url,
                       unsigned status, unsigned seconds);

/* Seconds, more than HOST_PAUSE_MOST_S, for which that host wants to be left
 * alone, and the status of that answer; 0: a request may wait that long, or
 * need not wait. */
unsigned host_places_pause_s(struct host_places *places, const char *url,
                             unsigned *status);
