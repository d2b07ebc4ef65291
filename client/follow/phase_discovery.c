/*
 * phase_discovery.c - finds what the source offers, by its links.
 *
 * It looks at the beginning, before a baseline, and again when the answer may
 * be outdated: when a stream is not found, or fails again and again. If the
 * source is unreachable it looks again after a pause, from the first attempt
 * on; a refusal is final.
 */

#include "client/follow/follower.h"

/* Returns the transports that `offered` and the caller allow. With checkpoints,
 * those that have the lines of the log: polled lists are read as those
 * of any source. */
static unsigned
carried_by(const struct td_follower *f)
{
    const struct offered *o = &f->offered;
    unsigned open = 0;

    if (o->stream)
        open |= TD_WEBSOCKET;
    if (o->events)
        open |= TD_EVENTS;
    if (o->memory)
        open |= TD_LONG_POLL;
    if (f->client->checks && o->checkpoint)
        return open & f->how.transports;
    if (o->change_list || o->change_dump || o->change_list_archive ||
        follower_has_only_list(f))
        open |= TD_POLL;
    return open & f->how.transports;
}

bool
follower_has_beginning(const struct td_follower *f)
{
    struct position at;

    return !position_read(slice_of(f->offered.earliest), &at) && !at.seq;
}

/* TD_BASELINE_FIRST: takes a baseline, unless the follower can begin with the
 * first change and no dump would save it fetching each resource; with a key it
 * does that whenever it can, for nobody signs lists and dumps. R-418: a
 * source with nothing but Change Lists is followed as far back as these reach;
 * the history doubts that this is everything. */
static void
settle_beginning(struct td_follower *f)
{
    const struct offered *o = &f->offered;
    struct source_position beginning = {.is_time = false};
    struct source_position place;
    bool has_dump = o->resource_dump && f->options.scratch && !f->client->trust;
    bool has_lists_alone =
        !o->resource_list && !o->resource_dump && !o->stream && !o->memory;
    bool is_first = f->how.baseline == TD_BASELINE_FIRST;

    if (follower_place(f, &place) || f->rebase.is_wanted)
        return;
    if (f->how.as_of) {
        f->rebase.is_wanted = true;
        strcpy(f->rebase.reason, "it makes the state of a past time");
        return;
    }
    if ((is_first && !has_dump && follower_has_beginning(f)) ||
        (!is_first && f->how.as_far_back && o->earliest)) {
        if (!source_position_read(slice_of(o->earliest), &beginning))
            follower_set_place(f, &beginning);
    } else if (is_first ? has_lists_alone : f->how.as_far_back) {
        beginning.is_time = !follower_has_only_list(f);
        beginning.time_us = DATETIME_NONE;
        follower_set_place(f, &beginning);
    } else if (is_first) {
        f->rebase.is_wanted = true;
        snprintf(f->rebase.reason, sizeof(f->rebase.reason),
                 "nothing is known yet");
    }
}

static bool
take_offer(struct td_follower *f)
{
    unsigned open = carried_by(f);
    struct position head;

    if (f->search.n_sets > 1)
        return follower_fail(f, STATUS_REFUSED,
                             "%.800s has %u sets: one is followed here",
                             f->options.url, f->search.n_sets);
    if (!open && f->client->checks && f->offered.checkpoint)
        return follower_fail(f, STATUS_REFUSED,
                             "%.800s: its checkpoints prove what comes by "
                             "WebSocket, server-sent events or long poll, and "
                             "these are not offered, or not allowed",
                             f->offered.url);
    if (!open && !f->how.as_of)
        return follower_fail(f, STATUS_REFUSED,
                             "%.200s names no Resource List, Change List, "
                             "stream or change memory that may be used here",
                             f->options.url);
    f->connection.open = open;
    f->search.is_sought = true;
    f->search.is_fresh = true;
    f->search.is_caught_up = false;
    /* The goal is the present head; until_caught_up: the first one that was
     * found. */
    if (!f->how.as_of && !(f->how.until_caught_up && f->place.has_goal) &&
        !position_read(slice_of(f->offered.position), &head)) {
        f->place.has_goal = true;
        f->place.goal = head;
    }
    settle_beginning(f);
    if (f->offered.unread && (!follower_report(f, f->offered.unread, 0) ||
                              !follower_doubt(f, f->offered.unread)))
        return false;
    if (f->pusher.close && !f->pusher.sought(f, f->pusher.owner))
        return false;
    return follower_go(f);
}

static void
take_offered(struct td_follower *f, struct offered *offered)
{
    /* A check beside a live connection reads the URLs of the former offer, and
     * the new one may have none. */
    follower_drop_check(f);
    f->checkpoint.due_ms = 0;
    offered_fini(&f->offered);
    f->offered = *offered;
    *offered = (struct offered){.url = NULL};
}

static void
on_set(struct offered *offered, const struct problem *missed, void *user)
{
    struct td_follower *f = user;

    f->search.n_sets++; /* includes sets that cannot be read now */
    if (missed || f->search.has_set)
        return;
    f->search.has_set = true;
    take_offered(f, offered);
}

static void
on_sought(const struct problem *why, void *user)
{
    struct td_follower *f = user;

    f->reading.what = NULL;
    if (why->rc == STATUS_UNREACHABLE) {
        f->connection.n_mute = 0; /* the transport is not to blame */
        follower_trouble(f, why);
    } else if (why->rc) {
        follower_end(f, why);
    } else {
        take_offer(f);
    }
}

void
follower_offer(struct td_follower *f, struct offered *offered)
{
    take_offered(f, offered);
    f->search.n_sets = 1;
    f->search.has_offer = true;
}

static bool
begin_discovery(struct td_follower *f)
{
    follower_enter(f, FOLLOWER_SEEKING);
    if (f->search.has_offer) {
        f->search.has_offer = false;
        return take_offer(f);
    }
    f->search.n_sets = 0;
    f->search.has_set = false;
    return follower_reads(f,
                          discovery_start(f->client, f->options.url,
                                          f->options.silence_s, NULL, on_set,
                                          on_sought, f),
                          discovery_free, NULL) &&
           false;
}

const struct phase phase_discovery = {.begin = begin_discovery};
