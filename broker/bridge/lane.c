#include "broker/bridge/lane.h"

#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "broker/bridge/outbound_state.h"

struct lane *
lane_new(struct outbound *out, struct slice name)
{
    struct lane *lane = calloc(1, sizeof(*lane) + name.size + 1);

    if (!lane)
        return NULL;
    lane->out = out;
    list_init(&lane->node);
    list_init(&lane->queue);
    list_init(&lane->position.node);
    list_init(&lane->unkept);
    list_init(&lane->flights);
    list_init(&lane->refused);
    memcpy(lane->name, name.data, name.size);
    return lane;
}

void
lane_free(struct lane *lane)
{
    list_remove(&lane->node);
    free(lane->ends);
    free(lane);
}

/* Ends */

/* Drops the first `n` ends. The others do not move here, but in reserve_ends
 * when they are the smaller part. A lane at rest frees its ends. */
static void
drop_ends(struct lane *lane, uint32_t n)
{
    lane->first_end += n;
    lane->n_ends -= n;
    lane->n_begun = lane->n_begun > n ? lane->n_begun - n : 0;
    if (lane->n_ends > 0)
        return;
    free(lane->ends);
    lane->ends = NULL;
    lane->first_end = lane->ends_capacity = 0;
}

static uint64_t *
ends_of(const struct lane *lane)
{
    return lane->ends ? lane->ends + lane->first_end : NULL;
}

static void
drop_ends_upto(struct lane *lane, uint64_t upto)
{
    const uint64_t *ends = ends_of(lane);
    uint32_t n = 0;

    while (n < lane->n_ends && ends[n] <= upto)
        n++;
    if (n > 0)
        drop_ends(lane, n);
}

/* Makes room for so many ends. */
static enum status
reserve_ends(struct lane *lane, size_t n)
{
    size_t capacity = lane->ends_capacity ? lane->ends_capacity : 4;
    uint64_t *ends;

    if (lane->first_end + n <= lane->ends_capacity)
        return STATUS_OK;
    if (lane->first_end > lane->n_ends) {
        memmove(lane->ends, ends_of(lane), lane->n_ends * sizeof(*ends));
        lane->first_end = 0;
    }
    while (capacity < lane->first_end + n)
        capacity *= 2;
    if (capacity == lane->ends_capacity)
        return STATUS_OK;
    ends = realloc(lane->ends, capacity * sizeof(*ends));
    if (!ends)
        return STATUS_MEMORY;
    lane->ends = ends;
    lane->ends_capacity = (uint32_t)capacity;
    return STATUS_OK;
}

uint64_t
lane_next_end(const struct lane *lane)
{
    return lane->n_begun < lane->n_ends ? ends_of(lane)[lane->n_begun]
                                        : UINT64_MAX;
}

enum status
lane_begin(struct lane *lane, uint64_t last, bool *is_new)
{
    uint64_t *at;

    *is_new = lane_next_end(lane) != last;
    if (*is_new) {
        if (reserve_ends(lane, (size_t)lane->n_ends + 1))
            return STATUS_MEMORY;
        at = ends_of(lane) + lane->n_begun;
        memmove(at + 1, at, (lane->n_ends - lane->n_begun) * sizeof(*at));
        *at = last;
        lane->n_ends++;
    }
    lane->n_begun++;
    lane->begun = last;
    return STATUS_OK;
}

/* Moving */

void
lane_start(struct lane *lane, const char *epoch, uint64_t acked)
{
    memmove(lane->epoch, epoch, sizeof(lane->epoch));
    drop_ends(lane, lane->n_ends);
    atomic_store_explicit(&lane->acked, acked, memory_order_relaxed);
    lane_rewind(lane);
}

enum status
lane_take_row(struct lane *lane, const struct lane_row *row)
{
    lane_start(lane, row->epoch, row->acked);
    if (reserve_ends(lane, row->n_ends))
        return STATUS_MEMORY;
    if (row->n_ends > 0)
        memcpy(lane->ends, row->ends, row->n_ends * sizeof(*row->ends));
    lane->n_ends = (uint32_t)row->n_ends;
    return STATUS_OK;
}

struct lane_row
lane_row(const struct lane *lane)
{
    struct lane_row row = {
        .set = slice_of(lane->name),
        .acked = lane_acked(lane),
        .ends = ends_of(lane),
        .n_ends = lane->n_ends,
    };

    memcpy(row.epoch, lane->epoch, sizeof(row.epoch));
    return row;
}

void
lane_note_made(struct lane *lane, uint64_t upto, const struct digest *digest)
{
    lane->made_upto = upto;
    lane->made_digest = *digest;
    lane->has_made_digest = true;
    if (upto > lane->begun)
        lane->begun = upto;
}

void
lane_move(struct lane *lane, uint64_t upto)
{
    atomic_store_explicit(&lane->acked, upto, memory_order_relaxed);
    drop_ends_upto(lane, upto);
}

/* Ends within the passed entries stay in the row until they are acknowledged in
 * turn, but no message ends there. */
void
lane_pass(struct lane *lane, uint64_t upto)
{
    while (lane_next_end(lane) <= upto)
        lane->n_begun++;
    if (upto > lane->begun)
        lane->begun = upto;
    if (upto > lane->made_upto) {
        lane->made_upto = upto;
        lane->has_made_digest = false;
    }
}

void
lane_rewind(struct lane *lane)
{
    flight_window_orphan(&lane->out->window, &lane->flights);
    lane->begun = lane->made_upto = lane_acked(lane);
    lane->has_made_digest = false;
    lane->n_begun = 0;
}

/* Queues */

void
lane_ready(struct lane *lane)
{
    bool is_paused = lane->resume_us > 0;

    if (lane->set && !is_paused && list_is_empty(&lane->queue))
        list_append(&lane->out->queues.ready, &lane->queue);
}

/* There is a queue for each length of a pause, so each is in order of its
 * ends. */
void
lane_pause(struct lane *lane)
{
    static const struct backoff backoff = {SECOND_US, 60 * SECOND_US};
    unsigned failures = lane->failures < PAUSES ? ++lane->failures : PAUSES;

    lane->resume_us = clock_steady_us() + backoff_pause(&backoff, failures, 0);
    list_remove(&lane->queue);
    list_append(&lane->out->queues.paused[failures - 1], &lane->queue);
}

void
lane_leave(struct lane *lane)
{
    list_remove(&lane->queue);
    list_append(&lane->out->queues.leaving, &lane->queue);
}

/* Notes */

void
lane_note(struct lane *lane)
{
    struct outbound *out = lane->out;

    if (list_is_empty(&out->unkept.lanes) && !out->unkept.is_failing)
        out->unkept.keep_at_us = clock_steady_us() + SECOND_US;
    if (list_is_empty(&lane->unkept))
        list_append(&out->unkept.lanes, &lane->unkept);
}

void
lane_note_position(struct lane *lane)
{
    struct lane_position *p = &lane->position;

    p->is_due = true;
    if (!p->is_resting && list_is_empty(&p->node))
        list_append(&lane->out->queues.due, &p->node);
}

void
lane_set_refused(struct lane *lane, int reason)
{
    struct outbound *out = lane->out;

    pthread_mutex_lock(&out->mutex);
    lane->reason = (uint8_t)reason;
    if (!reason)
        list_remove(&lane->refused);
    else if (list_is_empty(&lane->refused))
        list_append(&out->refused, &lane->refused);
    pthread_mutex_unlock(&out->mutex);
}
