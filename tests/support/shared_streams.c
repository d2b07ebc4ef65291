#include "tests/support/shared_streams.h"

#include <assert.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"

static struct streams_seat *
seat_of(struct streams *streams)
{
    return (struct streams_seat *)(void *)streams;
}

static struct shared_lease *
lease_of(struct shared_streams *all, const struct lease *lease)
{
    struct shared_lease *l = all->leases, *end = l + all->n_leases;

    while (l < end && strcmp(l->name, lease->name) != 0)
        l++;
    if (l < end)
        return l;
    assert(all->n_leases < SHARED_LEASES_MAX);
    all->n_leases++;
    snprintf(l->name, sizeof(l->name), "%s", lease->name);
    /* A patient broker waits from when it hears of a lease, as with
     * PostgreSQL. */
    l->until_us = INT64_MIN / 2;
    l->last_us = clock_steady_us();
    return l;
}

static bool
has_lease(const struct streams_seat *s, const struct shared_lease *l,
          const struct lease *lease)
{
    return l->broker && !strcmp(l->broker, s->broker) && l->term == lease->term;
}

static enum status
hold(struct streams_seat *s, struct lease *lease, struct problem *why)
{
    struct shared_lease *l = lease_of(s->all, lease);
    int64_t now_us = clock_steady_us();
    bool is_mine = has_lease(s, l, lease);

    if (s->is_cut)
        return problem(why, STATUS_UNREACHABLE, "the journal is away");
    if (!is_mine && l->until_us >= now_us)
        return problem(why, STATUS_CONFLICT, "another broker has it");
    if (!is_mine && lease->is_patient && now_us - l->last_us < 2 * LEASE_US)
        return problem(why, STATUS_CONFLICT, "it is for another broker");
    if (!is_mine)
        l->term++;
    l->broker = s->broker;
    l->last_us = now_us;
    l->until_us = now_us + LEASE_US;
    lease->term = l->term;
    return STATUS_OK;
}

static enum status
seat_brokers(struct streams *streams, uint64_t *n, uint64_t *n_before,
             uint64_t *least, struct problem *why)
{
    struct streams_seat *s = seat_of(streams);
    enum status rc = STATUS_OK;

    pthread_mutex_lock(&s->all->mutex);
    if (s->is_cut)
        rc = problem(why, STATUS_UNREACHABLE, "the journal is away");
    else
        *n = *n_before = *least = 0;
    for (size_t i = 0; !rc && i < s->all->n_seats; i++) {
        const struct streams_seat *other = s->all->seats[i];

        if (other->is_cut || other->ability != IS_ABLE)
            continue;
        ++*n;
        *n_before += strcmp(other->broker, s->broker) < 0;
    }
    pthread_mutex_unlock(&s->all->mutex);
    return rc;
}

static enum status
seat_hold(struct streams *streams, struct lease *lease, struct problem *why)
{
    struct streams_seat *s = seat_of(streams);
    enum status rc;

    pthread_mutex_lock(&s->all->mutex);
    rc = hold(s, lease, why);
    s->all->n_asked++;
    pthread_cond_broadcast(&s->all->changed);
    pthread_mutex_unlock(&s->all->mutex);
    return rc;
}

static enum status
seat_renew(struct streams *streams, const struct leases *leases, unsigned *kept,
           struct problem *why)
{
    struct streams_seat *s = seat_of(streams);
    enum status rc = STATUS_OK;

    *kept = 0;
    pthread_mutex_lock(&s->all->mutex);
    s->all->n_asked++;
    for (size_t i = 0; i < LEASES_MAX; i++) {
        struct lease lease;

        if (!leases->all[i])
            continue;
        lease = *leases->all[i];
        if (s->is_cut)
            rc = problem(why, STATUS_UNREACHABLE, "the journal is away");
        else if (has_lease(s, lease_of(s->all, &lease), &lease) &&
                 !hold(s, &lease, why))
            *kept |= 1u << i;
    }
    pthread_cond_broadcast(&s->all->changed);
    pthread_mutex_unlock(&s->all->mutex);
    return rc;
}

static void
seat_leave(struct streams *streams, struct lease *lease)
{
    struct streams_seat *s = seat_of(streams);
    struct shared_streams *all = s->all;

    pthread_mutex_lock(&all->mutex);
    if (!s->is_cut && has_lease(s, lease_of(all, lease), lease)) {
        lease_of(all, lease)->until_us = INT64_MIN / 2;
        lease_of(all, lease)->last_us = clock_steady_us();
    }
    pthread_mutex_unlock(&all->mutex);
    lease->term = 0;
}

static enum status
seat_identify(struct streams *streams, const char *stream, uint64_t *id,
              struct problem *why)
{
    struct streams_seat *s = seat_of(streams);
    bool is_cut;

    (void)stream;
    pthread_mutex_lock(&s->all->mutex);
    is_cut = s->is_cut;
    *id = s->all->id;
    pthread_mutex_unlock(&s->all->mutex);
    return is_cut ? problem(why, STATUS_UNREACHABLE, "the journal is away")
                  : STATUS_OK;
}

static enum status
seat_read(struct streams *streams, const char *stream, uint64_t *n,
          stream_row_fn *fn, void *user, struct problem *why)
{
    struct streams_seat *s = seat_of(streams);
    struct shared_streams *all = s->all;
    uint64_t after = *n;
    enum status rc = STATUS_OK;

    pthread_mutex_lock(&all->mutex);
    if (s->is_cut)
        rc = problem(why, STATUS_UNREACHABLE, "the journal is away");
    else if (after > all->n)
        rc = problem(why, STATUS_DIFFERENT, "the stream has lost rows");
    else if (after > 0 && after < all->forgotten)
        rc = problem(why, STATUS_GONE, "there were other rows");
    else if (after < all->forgotten)
        *n = all->forgotten;
    for (size_t i = 0; !rc && i < all->n_rows; i++) {
        struct shared_row *r = &all->rows[i];
        struct stream_row row = {buf_slice(&r->key), buf_slice(&r->value),
                                 r->is_deleted};

        if (r->n <= after || strcmp(r->stream, stream))
            continue;
        rc = fn(&row, r->n, user, why);
        *n = r->n > *n ? r->n : *n;
    }
    pthread_mutex_unlock(&all->mutex);
    return rc;
}

/* A row whose key comes again is seen no more. */
static void
keep(struct shared_streams *all, const char *stream,
     const struct stream_row *row)
{
    struct shared_row *r = &all->rows[all->n_rows];

    for (size_t i = 0; i < all->n_rows; i++)
        if (!strcmp(all->rows[i].stream, stream) &&
            slice_equal(buf_slice(&all->rows[i].key), row->key))
            all->rows[i].n = 0;
    assert(all->n_rows < SHARED_ROWS_MAX);
    all->n_rows++;
    r->stream = stream;
    r->n = ++all->n;
    r->is_deleted = row->is_deleted;
    buf_init(&r->key, SIZE_MAX);
    buf_init(&r->value, SIZE_MAX);
    buf_add_slice(&r->key, row->key);
    buf_add_slice(&r->value, row->value);
}

static void
keep_note(struct shared_streams *all, const char *lease, uint64_t n,
          struct slice bytes, uint64_t keep_from)
{
    size_t n_kept = 0;

    for (size_t i = 0; i < all->n_notes; i++)
        if (all->notes[i].n < keep_from && !strcmp(all->notes[i].lease, lease))
            buf_fini(&all->notes[i].bytes);
        else
            all->notes[n_kept++] = all->notes[i];
    all->n_notes = n_kept;
    if (bytes.size > 0) {
        struct shared_note *kept = &all->notes[all->n_notes++];

        assert(all->n_notes <= SHARED_NOTES_MAX);
        snprintf(kept->lease, sizeof(kept->lease), "%s", lease);
        kept->n = n;
        buf_init(&kept->bytes, SIZE_MAX);
        buf_add_slice(&kept->bytes, bytes);
    }
}

static enum status
append(struct streams_seat *s, const char *stream, const struct leases *leases,
       uint64_t *n, const struct stream_row *rows, size_t n_rows,
       const struct stream_note *note, struct problem *why)
{
    struct shared_streams *all = s->all;
    bool is_kept =
        s->outcome == APPEND_KEPT || s->outcome == APPEND_UNKNOWN_KEPT;

    if (s->is_cut || s->outcome == APPEND_LOST)
        return problem(why, STATUS_UNREACHABLE, "the journal is away");
    for (size_t i = 0; i < LEASES_MAX; i++)
        if (leases->all[i] &&
            !has_lease(s, lease_of(all, leases->all[i]), leases->all[i]))
            return problem(why, STATUS_REFUSED, "another broker owns");
    if (n_rows > 0 && *n != all->n)
        return problem(why, STATUS_CONFLICT, "there is more");
    for (size_t i = 0; is_kept && i < n_rows; i++)
        keep(all, stream, &rows[i]);
    for (size_t i = 0; is_kept && note && i < LEASES_MAX; i++)
        if (leases->all[i])
            keep_note(all, leases->all[i]->name, note->n, note->bytes[i],
                      note->keep_from);
    if (s->outcome != APPEND_KEPT)
        return problem(why, STATUS_IO, "the journal went away");
    if (n_rows > 0)
        *n = all->n;
    if (n_rows > all->most_rows)
        all->most_rows = n_rows;
    return STATUS_OK;
}

static enum status
seat_append(struct streams *streams, const char *stream,
            const struct leases *leases, uint64_t *n,
            const struct stream_row *rows, size_t n_rows,
            const struct stream_note *note, struct problem *why)
{
    struct streams_seat *s = seat_of(streams);
    enum status rc;

    pthread_mutex_lock(&s->all->mutex);
    rc = append(s, stream, leases, n, rows, n_rows, note, why);
    pthread_mutex_unlock(&s->all->mutex);
    return rc;
}

static enum status
seat_notes(struct streams *streams, const char *lease, order_fn *fn, void *user,
           struct problem *why)
{
    struct streams_seat *s = seat_of(streams);

    (void)why;
    pthread_mutex_lock(&s->all->mutex);
    for (size_t i = 0; i < s->all->n_notes; i++)
        if (!strcmp(s->all->notes[i].lease, lease))
            fn(s->all->notes[i].n, buf_slice(&s->all->notes[i].bytes), user);
    pthread_mutex_unlock(&s->all->mutex);
    return STATUS_OK;
}

static enum status
seat_records(struct streams *streams, uint64_t *n, struct problem *why)
{
    (void)streams;
    (void)why;
    *n = 0;
    return STATUS_OK;
}

/* Orders. The caller has the mutex. */

static void
wake_seats(struct shared_streams *all)
{
    for (size_t i = 0; i < all->n_seats; i++)
        (void)eventfd_write(all->wake_fds[i], 1);
}

static enum status
seat_order(struct streams *streams, const char *lease, struct slice bytes,
           uint64_t *id, struct problem *why)
{
    struct streams_seat *s = seat_of(streams);
    struct shared_streams *all = s->all;
    enum status rc = STATUS_OK;

    pthread_mutex_lock(&all->mutex);
    if (s->is_cut) {
        rc = problem(why, STATUS_UNREACHABLE, "the journal is away");
    } else {
        struct shared_order *o = &all->orders[all->n_orders];

        assert(all->n_orders < SHARED_ORDERS_MAX);
        *id = ++all->n_orders;
        o->broker = s->broker;
        snprintf(o->lease, sizeof(o->lease), "%s", lease);
        buf_init(&o->bytes, SIZE_MAX);
        buf_init(&o->answer, SIZE_MAX);
        buf_add_slice(&o->bytes, bytes);
        wake_seats(all);
    }
    pthread_mutex_unlock(&all->mutex);
    return rc;
}

static enum status
seat_take_orders(struct streams *streams, const struct leases *leases,
                 order_fn *fn, void *user, struct problem *why)
{
    struct streams_seat *s = seat_of(streams);
    struct shared_streams *all = s->all;

    (void)why;
    pthread_mutex_lock(&all->mutex);
    for (size_t i = 0; !s->is_cut && i < all->n_orders; i++)
        for (size_t k = 0; k < LEASES_MAX; k++) {
            struct shared_order *o = &all->orders[i];
            const struct lease *lease = leases->all[k];

            if (!lease || strcmp(o->lease, lease->name) || o->is_answered ||
                o->term >= lease->term)
                continue;
            o->term = lease->term;
            fn(i + 1, buf_slice(&o->bytes), user);
        }
    pthread_mutex_unlock(&all->mutex);
    return STATUS_OK;
}

static enum status
seat_answer(struct streams *streams, uint64_t id, struct slice bytes,
            struct problem *why)
{
    struct shared_streams *all = seat_of(streams)->all;
    struct shared_order *o = &all->orders[id - 1];

    (void)why;
    pthread_mutex_lock(&all->mutex);
    buf_add_slice(&o->answer, bytes);
    o->is_answered = true;
    wake_seats(all);
    pthread_mutex_unlock(&all->mutex);
    return STATUS_OK;
}

static enum status
seat_answers(struct streams *streams, order_fn *fn, void *user,
             struct problem *why)
{
    struct streams_seat *s = seat_of(streams);
    struct shared_streams *all = s->all;

    (void)why;
    pthread_mutex_lock(&all->mutex);
    for (size_t i = 0; !s->is_cut && i < all->n_orders; i++) {
        struct shared_order *o = &all->orders[i];

        if (!o->is_answered || !o->broker || strcmp(o->broker, s->broker))
            continue;
        o->broker = NULL;
        fn(i + 1, buf_slice(&o->answer), user);
    }
    pthread_mutex_unlock(&all->mutex);
    return STATUS_OK;
}

static void
seat_wait(struct streams *streams, int fd, int64_t wait_us)
{
    struct streams_seat *s = seat_of(streams);
    struct pollfd fds[2] = {{.fd = fd, .events = POLLIN},
                            {.fd = s->wake_fd, .events = POLLIN}};
    eventfd_t ignored;

    if (poll(fds, 2, (int)(wait_us / 1000)) > 0 && fds[1].revents)
        (void)eventfd_read(s->wake_fd, &ignored);
}

static void
seat_close(struct streams *streams)
{
    (void)streams;
}

static const struct streams_ops ops = {
    .hold = seat_hold,
    .renew = seat_renew,
    .leave = seat_leave,
    .brokers = seat_brokers,
    .identify = seat_identify,
    .read = seat_read,
    .append = seat_append,
    .notes = seat_notes,
    .records = seat_records,
    .order = seat_order,
    .take = seat_take_orders,
    .answer = seat_answer,
    .answers = seat_answers,
    .wait = seat_wait,
    .close = seat_close,
};

void
shared_streams_init(struct shared_streams *all)
{
    memset(all, 0, sizeof(*all));
    pthread_mutex_init(&all->mutex, NULL);
    pthread_cond_init(&all->changed, NULL);
    all->id = 1;
}

void
shared_streams_fini(struct shared_streams *all)
{
    for (size_t i = 0; i < all->n_notes; i++)
        buf_fini(&all->notes[i].bytes);
    for (size_t i = 0; i < all->n_rows; i++) {
        buf_fini(&all->rows[i].key);
        buf_fini(&all->rows[i].value);
    }
    for (size_t i = 0; i < all->n_orders; i++) {
        buf_fini(&all->orders[i].bytes);
        buf_fini(&all->orders[i].answer);
    }
    for (size_t i = 0; i < all->n_seats; i++)
        close(all->wake_fds[i]);
    pthread_cond_destroy(&all->changed);
    pthread_mutex_destroy(&all->mutex);
}

struct streams *
streams_seat_take(struct streams_seat *seat, struct shared_streams *all,
                  const char *broker)
{
    *seat = (struct streams_seat){
        .streams = {&ops}, .all = all, .broker = broker, .ability = IS_ABLE};
    seat->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    assert(seat->wake_fd >= 0 && all->n_seats < SHARED_SEATS_MAX);
    pthread_mutex_lock(&all->mutex); /* others may look already */
    all->seats[all->n_seats] = seat;
    all->wake_fds[all->n_seats++] = seat->wake_fd;
    pthread_mutex_unlock(&all->mutex);
    return &seat->streams;
}

void
shared_streams_forget(struct shared_streams *all)
{
    pthread_mutex_lock(&all->mutex);
    for (size_t i = 0; i < all->n_rows; i++)
        if (all->rows[i].is_deleted)
            all->rows[i].n = 0;
    all->forgotten = all->n;
    pthread_mutex_unlock(&all->mutex);
}

void
streams_seat_cut(struct streams_seat *seat, bool is_cut)
{
    pthread_mutex_lock(&seat->all->mutex);
    seat->is_cut = is_cut;
    pthread_mutex_unlock(&seat->all->mutex);
}

void
streams_seat_enable(struct streams_seat *seat, enum ability ability)
{
    pthread_mutex_lock(&seat->all->mutex);
    seat->ability = ability;
    pthread_mutex_unlock(&seat->all->mutex);
}

enum ability
streams_seat_ability(struct streams_seat *seat)
{
    enum ability ability;

    pthread_mutex_lock(&seat->all->mutex);
    ability = seat->ability;
    pthread_mutex_unlock(&seat->all->mutex);
    return ability;
}

void
shared_streams_await_asked(struct shared_streams *all, unsigned n)
{
    pthread_mutex_lock(&all->mutex);
    while (all->n_asked < n)
        pthread_cond_wait(&all->changed, &all->mutex);
    pthread_mutex_unlock(&all->mutex);
}

unsigned
shared_streams_leases_of(struct shared_streams *all, const char *broker)
{
    unsigned n = 0;

    pthread_mutex_lock(&all->mutex);
    for (size_t i = 0; i < all->n_leases; i++)
        n += all->leases[i].broker && !strcmp(all->leases[i].broker, broker) &&
             all->leases[i].until_us >= clock_steady_us();
    pthread_mutex_unlock(&all->mutex);
    return n;
}

bool
shared_streams_has_taken(struct shared_streams *all, uint64_t id, uint64_t term)
{
    bool has;

    pthread_mutex_lock(&all->mutex);
    has = id <= all->n_orders && all->orders[id - 1].term == term;
    pthread_mutex_unlock(&all->mutex);
    return has;
}
