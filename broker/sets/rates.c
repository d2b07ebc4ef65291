#include "broker/sets/rates.h"

#include <pthread.h>

#include "broker/sets/registry.h"

_Static_assert(RATE_TRANSPORTS >= SET_TRANSPORTS_MAX, "a lag for each");

#define MINUTE_US 60000000
#define SECOND_US 1000000

/* Rings that the search for an empty hour looks at, so that it is short. */
#define SEARCH_MAX 64

/* The minute m is the element m % RATE_MINUTES. */
struct ring {
    struct set *owner; /* NULL: free */
    int64_t minute;    /* the newest */
    struct rate rate;
    int64_t lag_seconds[RATE_TRANSPORTS]; /* when the lags were noted */
};

/* A set among those that lag most; free if it was noted RATE_LAG_S ago. */
struct lagging {
    struct lagging_set at;
    int64_t second; /* of the last note; steady */
};

struct rates {
    int64_t since_us;      /* constant */
    pthread_mutex_t mutex; /* guards everything, and set->rate_ring */
    struct lagging lagging[RATE_READERS][RATE_LAGGING];
    struct ring all; /* of the broker */
    struct ring *rings[RATES_MAX];
    unsigned n;
    unsigned hand; /* where the search goes on */
};

struct rates *
rates_new(void)
{
    struct rates *r = memory_new(1, sizeof(*r));

    if (r) {
        r->since_us = clock_now_us();
        pthread_mutex_init(&r->mutex, NULL);
    }
    return r;
}

void
rates_free(struct rates *r)
{
    if (!r)
        return;
    for (unsigned i = 0; i < r->n; i++)
        free(r->rings[i]);
    pthread_mutex_destroy(&r->mutex);
    free(r);
}

/* Empties the minutes between the newest one and `minute`. Returns the element
 * of that minute; after the clock was set back by more than the ring has, that
 * of the newest one. */
static unsigned
advance_ring(struct ring *ring, int64_t minute)
{
    int64_t from = ring->minute + 1;

    if (minute <= ring->minute - RATE_MINUTES)
        minute = ring->minute;
    if (minute - from >= RATE_MINUTES)
        from = minute - RATE_MINUTES + 1;
    for (int64_t m = from; m <= minute; m++) {
        ring->rate.entries[m % RATE_MINUTES] = 0;
        ring->rate.lags[m % RATE_MINUTES] = 0;
    }
    if (minute > ring->minute)
        ring->minute = minute;
    return (unsigned)(minute % RATE_MINUTES);
}

/* The ring of a set, made if it has none. NULL: all are in use. */
static struct ring *
make_ring(struct rates *r, struct set *set, int64_t minute)
{
    unsigned index = r->n;
    struct ring *ring = NULL;

    if (set->rate_ring > 0)
        return r->rings[set->rate_ring - 1];
    if (r->n < RATES_MAX)
        ring = r->rings[r->n++] = memory_new(1, sizeof(*ring));
    /* Else one whose set has had nothing for an hour, or was removed. */
    for (unsigned i = 0; !ring && i < SEARCH_MAX; i++) {
        index = r->hand;
        r->hand = (r->hand + 1) % RATES_MAX;
        ring = r->rings[index];
        if (ring->owner && minute - ring->minute < RATE_MINUTES)
            ring = NULL;
    }
    if (!ring)
        return NULL;
    if (ring->owner)
        ring->owner->rate_ring = 0;
    memset(ring, 0, sizeof(*ring));
    ring->owner = set;
    ring->minute = minute;
    set->rate_ring = index + 1;
    return ring;
}

static void
add_to(uint32_t *count, uint64_t n)
{
    *count = n > UINT32_MAX - *count ? UINT32_MAX : *count + (uint32_t)n;
}

static void
raise_to(uint32_t *lag, uint64_t value)
{
    if (value > *lag)
        *lag = value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

void
rates_count(struct rates *r, struct set *set, uint64_t n)
{
    int64_t minute = clock_now_us() / MINUTE_US;
    struct ring *ring;

    pthread_mutex_lock(&r->mutex);
    ring = make_ring(r, set, minute);
    if (ring)
        add_to(&ring->rate.entries[advance_ring(ring, minute)], n);
    add_to(&r->all.rate.entries[advance_ring(&r->all, minute)], n);
    pthread_mutex_unlock(&r->mutex);
}

static void
note_lag(struct ring *ring, unsigned transport, uint64_t lag, int64_t now_us)
{
    int64_t second = now_us / SECOND_US;
    unsigned element = advance_ring(ring, now_us / MINUTE_US);

    raise_to(&ring->rate.lags[element], lag);
    if (ring->lag_seconds[transport] != second)
        ring->rate.transport_lags[transport] = 0;
    ring->lag_seconds[transport] = second;
    raise_to(&ring->rate.transport_lags[transport], lag);
}

static bool
is_fresh(const struct lagging *l, int64_t second)
{
    return l->at.set && second - l->second < RATE_LAG_S;
}

/* Within a second the largest note of a set counts; a later one replaces it. A
 * set that had to give way is noted again at the next look of its reader. */
static void
note_last(struct rates *r, enum rate_reader kind, const struct set *set,
          uint64_t lag, int64_t second)
{
    /* The row of the set; else the row that it may take: a free one, or that of
     * the least lag. */
    struct lagging *row = r->lagging[kind];

    for (struct lagging *l = row; l < r->lagging[kind] + RATE_LAGGING; l++) {
        if (l->at.set == set) {
            row = l;
            break;
        }
        if (is_fresh(row, second) &&
            (!is_fresh(l, second) || l->at.lag < row->at.lag))
            row = l;
    }
    if (is_fresh(row, second) && row->at.lag >= lag &&
        (row->at.set != set || row->second == second))
        return;
    *row = (struct lagging){{set, lag}, second};
}

void
rates_note_last(struct rates *r, enum rate_reader kind, const struct set *set,
                uint64_t lag)
{
    pthread_mutex_lock(&r->mutex);
    note_last(r, kind, set, lag, clock_steady_us() / SECOND_US);
    pthread_mutex_unlock(&r->mutex);
}

size_t
rates_lagging(struct rates *r, enum rate_reader kind,
              struct lagging_set found[RATE_LAGGING])
{
    int64_t second = clock_steady_us() / SECOND_US;
    size_t n = 0;

    pthread_mutex_lock(&r->mutex);
    for (size_t i = 0; i < RATE_LAGGING; i++)
        if (is_fresh(&r->lagging[kind][i], second))
            found[n++] = r->lagging[kind][i].at;
    pthread_mutex_unlock(&r->mutex);
    return n;
}

void
rates_note_lag(struct rates *r, struct set *set, unsigned transport,
               uint64_t lag)
{
    int64_t now_us = clock_now_us();
    struct ring *ring;

    pthread_mutex_lock(&r->mutex);
    ring = make_ring(r, set, now_us / MINUTE_US);
    if (ring)
        note_lag(ring, transport, lag, now_us);
    note_lag(&r->all, transport, lag, now_us);
    note_last(r, RATE_SUBSCRIBERS, set, lag, clock_steady_us() / SECOND_US);
    pthread_mutex_unlock(&r->mutex);
}

/* Copies the minutes of a ring in their order. */
static void
copy_ring(struct rate *rate, const struct ring *ring, int64_t now_us)
{
    int64_t minute = now_us / MINUTE_US;

    for (int64_t i = 0; i < RATE_MINUTES; i++) {
        int64_t m = minute - RATE_MINUTES + 1 + i;

        /* An earlier minute than those of the ring has its element. */
        if (m < 0 || m > ring->minute || m <= ring->minute - RATE_MINUTES)
            continue;
        rate->entries[i] = ring->rate.entries[m % RATE_MINUTES];
        rate->lags[i] = ring->rate.lags[m % RATE_MINUTES];
    }
    for (unsigned t = 0; t < RATE_TRANSPORTS; t++)
        if (now_us / SECOND_US - ring->lag_seconds[t] < RATE_LAG_S)
            rate->transport_lags[t] = ring->rate.transport_lags[t];
}

void
rates_read(struct rates *r, const struct set *set, struct rate *rate)
{
    *rate = (struct rate){.since_us = r->since_us};
    pthread_mutex_lock(&r->mutex);
    if (!set)
        copy_ring(rate, &r->all, clock_now_us());
    else if (set->rate_ring > 0)
        copy_ring(rate, r->rings[set->rate_ring - 1], clock_now_us());
    pthread_mutex_unlock(&r->mutex);
}

void
rates_forget(struct rates *r, struct set *set)
{
    pthread_mutex_lock(&r->mutex);
    for (size_t kind = 0; kind < RATE_READERS; kind++)
        for (size_t i = 0; i < RATE_LAGGING; i++)
            if (r->lagging[kind][i].at.set == set)
                r->lagging[kind][i].at.set = NULL;
    if (set->rate_ring > 0)
        r->rings[set->rate_ring - 1]->owner = NULL;
    set->rate_ring = 0;
    pthread_mutex_unlock(&r->mutex);
}

void
rates_write_minutes(struct buf *to, const uint32_t minutes[RATE_MINUTES])
{
    for (unsigned i = 0; i < RATE_MINUTES; i++) {
        buf_add(to, i ? "," : "[", 1);
        buf_add_number(to, minutes[i]);
    }
    BUF_ADD(to, "]");
}

void
rates_write(struct buf *to, const struct rate *rate)
{
    char since[DATETIME_SIZE + 1];

    since[datetime_write_short(since, rate->since_us)] = '\0';
    buf_add_format(to,
                   "\"minutes\":%d,\"since\":\"%s\",\"entries\":", RATE_MINUTES,
                   since);
    rates_write_minutes(to, rate->entries);
    BUF_ADD(to, ",\"lags\":");
    rates_write_minutes(to, rate->lags);
}
