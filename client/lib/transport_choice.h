/*
 * transport_choice.h - chooses the transport of the next connection.
 *
 *     WebSocket, server-sent events, long poll, Change Lists
 *
 * It takes the best one that the source offers, the caller allows, and that was
 * not found unfit: a proxy may carry one transport and not another. An unfit
 * one is tried again after a while; not sooner, because each attempt costs a
 * connection and its pause.
 *
 * A proxy stands before a host, not before a set: the handle keeps what was
 * found of each host (scheme, name and port), so the next set of the host, and
 * the next connection, begin with what works.
 *
 * Pure: the caller passes the time; no sockets.
 */
#pragma once

#include "client/tidings.h"
#include "proto/c.h"

/* The first and the longest time until an unfit transport is tried again; it
 * doubles each time. Short at first, because a broker that just ended looks
 * unfit, too. */
#define TRANSPORT_CHOICE_AGAIN_FIRST_MS ((int64_t)60 * 1000)
#define TRANSPORT_CHOICE_AGAIN_LAST_MS  ((int64_t)60 * 60 * 1000)

enum { TRANSPORT_CHOICE_MAX = 4 };

/* All zero: nothing is known. */
struct transport_choice {
    struct way {
        int64_t again_ms; /* unfit until then */
        int64_t pause_ms; /* the last pause; 0: none yet */
    } ways[TRANSPORT_CHOICE_MAX];

    unsigned wait_s; /* a long poll may wait so long here, until */
    int64_t wait_until_ms;
};

/* The best one of `open` (enum td_transport, or-ed: allowed and offered) that
 * is not unfit at `now_ms`; 0: none. */
unsigned transport_choice_choose(const struct transport_choice *choice,
                                 unsigned open, int64_t now_ms);

/* True if that is news: it was not unfit when it carried something last, or was
 * never tried. */
bool transport_choice_unfit(struct transport_choice *choice, unsigned transport,
                            int64_t now_ms);

/* A connection that began later carried a message: it is not unfit, and its
 * pauses begin anew. */
void transport_choice_fit(struct transport_choice *choice, unsigned transport);

/* Seconds that a long poll may wait; 0: as long as any. */
unsigned transport_choice_wait_s(const struct transport_choice *choice,
                                 int64_t now_ms);

/* Polls were cut when they had lasted so long: later ones wait half of that,
 * for an hour. False: they did so already, or it was no wait. */
bool transport_choice_cut(struct transport_choice *choice, int64_t lasted_ms,
                          int64_t now_ms);

/* Allows all again at once, because none is left. */
void transport_choice_forget(struct transport_choice *choice);

/* "WebSocket" */
const char *transport_choice_name(unsigned transport);

/* The hosts of a handle, as many as it remembers: one more takes the place of
 * the one that was asked for longest ago. All zero: none. */
enum { TRANSPORT_HOSTS_MAX = 64 };

struct transport_hosts {
    struct transport_host {
        uint64_t name; /* the hash of "https://host:port" */
        uint64_t used; /* 0: free */
        struct transport_choice choice;
    } hosts[TRANSPORT_HOSTS_MAX];

    uint64_t n_used;
};

/* Returns the choice of the host of `url`. `hosts` owns it, and gives it to
 * another host after as many others were asked for. */
struct transport_choice *transport_hosts_of(struct transport_hosts *hosts,
                                            const char *url);
