/*
 * seek.c - finds what the source offers, by its links.
 *
 * It looks at the beginning, before a baseline, and again when the answer may
 * be outdated: when a stream is not found, or fails again and again. If the
 * source is unreachable it looks again after a pause, from the first attempt
 * on; a refusal is final.
 */
#include <stdio.h>

#include "client/follow/follower.h"

/* Returns the transports that `offered` and the caller allow. */
static unsigned
carried_by(const struct td_follower *f)
{
    const struct offered *o = &f->offered;
    unsigned open = 0;

    if (o->stream)
        open |= TD_WEBSOCKET;
    if (o->events && f->wish.form == TD_JSON) /* events are never XML */
        open |= TD_EVENTS;
    if (o->memory)
        open |= TD_LONG_POLL;
    if (o->change_list || o->change_dump || o->change_list_archive ||
        survey_is_due(f))
        open |= TD_POLL;
    return open & f->wish.transports;
}

/* until_caught_up: the goal is the present head. */
static void
set_goal(struct td_follower *f)
{
    struct position head;

    if (!f->wish.until_caught_up || f->has_goal || !f->offered.position ||
        position_read(slice_of(f->offered.position), &head))
        return;
    f->has_goal = true;
    f->goal = head;
}

static bool
reaches_beginning(const char *earliest)
{
    struct position at;

    return earliest && !position_read(slice_of(earliest), &at) && !at.seq;
}

/* TD_BASELINE_FIRST: takes a baseline, unless the follower can begin with the
 * first change and no dump would save it fetching each resource. A source with
 * nothing but Change Lists is believed, too: "0" is gone if they do not reach
 * back. */
static void
settle_beginning(struct td_follower *f)
{
    const struct offered *o = &f->offered;
    struct source_position beginning = {.is_time = false};
    struct source_position place;
    bool has_dump = o->resource_dump && f->wish.scratch;

    if (f->wish.baseline != TD_BASELINE_FIRST || follower_place(f, &place) ||
        f->wants_baseline)
        return;
    if (!has_dump && reaches_beginning(o->earliest) &&
        !source_position_read(slice_of(o->earliest), &beginning)) {
        follower_stand(f, &beginning);
    } else if (!o->resource_list && !o->resource_dump && !o->stream &&
               !o->memory) {
        follower_stand(f, &beginning);
    } else {
        f->wants_baseline = true;
        snprintf(f->reason, sizeof(f->reason), "nothing is known yet");
    }
}

static bool
take_offer(struct td_follower *f)
{
    unsigned open = carried_by(f);

    if (f->n_sets > 1)
        return follower_fail(f, STATUS_REFUSED,
                             "%.800s has %u sets: one is followed here",
                             f->wish.url, f->n_sets);
    if (!open)
        return follower_fail(f, STATUS_REFUSED,
                             "%.200s names no Resource List, Change List, "
                             "stream or change memory that may be used here",
                             f->wish.url);
    transport_choice_open(&f->ways, open);
    f->is_sought = true;
    f->is_fresh = true;
    set_goal(f);
    settle_beginning(f);
    if (f->pusher.close && !f->pusher.sought(f, f->pusher.owner))
        return false;
    return follower_go(f);
}

static void
on_set(struct offered *offered, const struct problem *missed, void *user)
{
    struct td_follower *f = user;

    f->n_sets++; /* includes sets that cannot be read now */
    if (missed || f->has_set)
        return;
    f->has_set = true;
    offered_fini(&f->offered);
    f->offered = *offered;
    *offered = (struct offered){.url = NULL};
}

static void
on_sought(const struct problem *why, void *user)
{
    struct td_follower *f = user;

    f->discovery = NULL;
    if (why->rc == STATUS_UNREACHABLE) {
        f->n_mute = 0; /* the transport is not to blame */
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
    offered_fini(&f->offered);
    f->offered = *offered;
    *offered = (struct offered){.url = NULL};
    f->n_sets = 1;
    f->has_offer = true;
}

bool
seek_begin(struct td_follower *f)
{
    follower_enter(f, FOLLOWER_SEEKING);
    if (f->has_offer) {
        f->has_offer = false;
        return take_offer(f);
    }
    f->n_sets = 0;
    f->has_set = false;
    f->discovery =
        discovery_start(f->client, f->wish.url, on_set, on_sought, f);
    if (!f->discovery)
        return follower_fail(f, STATUS_MEMORY, NO_MEMORY);
    discovery_silence(f->discovery, f->wish.silence_s);
    return false;
}
