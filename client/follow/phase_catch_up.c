/*
 * phase_catch_up.c - reads the closed Change Lists of a broker, when the
 * follower is far behind; then it goes live from the place that was reached.
 *
 *     far behind --> lists --+--> all read ------------------------> live
 *          ^                 +--> cannot be read in this way ------> live
 *          |                 +--> contradict themselves -----------> end
 *          |                 +--> are of another history ----------> gone
 *          +-- after a pause-+--- server away, and some were read
 *
 * Where the follower goes live, it does so as if there were no lists: by change
 * memory, stream or Change List. What comes after the last list has to continue
 * its digest. One follower of a handle at a time reads closed lists, because of
 * the memory (list_reader.h): the others go live.
 */
#include "client/follow/follower.h"

/* Entries between place and head from which on lists are worth their requests:
 * half of a list of usual size. */
#define FAR_BEHIND 25000

bool
catch_up_pays(const struct td_follower *f)
{
    const struct message_sequence *order = &f->place.order;
    struct position head;

    return order->is_placed && !f->search.is_caught_up &&
           !f->client->is_catching_up && (f->how.transports & TD_POLL) &&
           f->offered.change_list_archive &&
           !position_read(slice_of(f->offered.position), &head) &&
           head.seq >= order->at.seq &&
           head.seq - order->at.seq >= FAR_BEHIND &&
           (!order->at.epoch[0] || !strcmp(order->at.epoch, head.epoch));
}

static bool
on_batch(struct change_batch *batch, const struct position *upto,
         const struct digest *digest, void *user)
{
    struct td_follower *f = user;
    struct change_batch empty = f->delivery.batch;

    f->delivery.batch = *batch; /* it must outlive the reader */
    *batch = empty;
    f->attempts.n_heard = 1;
    f->connection.was_heard = true;
    return deliver_proven(f, upto, digest);
}

static void
on_end(const struct problem *why, void *user)
{
    struct td_follower *f = user;
    struct problem copy = *why;

    f->reading.what = NULL;
    switch (why->rc) {
    case STATUS_MEMORY:
    case STATUS_MALFORMED:
        follower_end(f, &copy);
        break;
    case STATUS_DIFFERENT:
        copy.rc = STATUS_GONE;
        follower_gone(f, &copy);
        break;
    case STATUS_UNREACHABLE:
        /* Without any news the other ways are tried. */
        f->search.is_caught_up = f->attempts.n_heard == 0;
        follower_trouble(f, &copy);
        break;
    default: /* goes live, perhaps although not all lists were read */
        f->search.is_caught_up = true;
        follower_enter(f, FOLLOWER_RESTING);
        problem_prefix(&copy, copy.rc, "closed lists are not used: ");
        if (!copy.rc || follower_report(f, copy.text, 0))
            follower_go(f);
    }
}

static bool
begin_catching_up(struct td_follower *f)
{
    const struct message_sequence *order = &f->place.order;
    struct list_reader_plan plan = {
        .archive = f->offered.change_list_archive,
        .after = order->at,
        .digest = order->has_digest ? &order->digest : NULL,
        .filter = &f->options.filter,
        .form = f->how.form,
        .silence_s = f->options.silence_s,
    };
    struct position head = {.seq = 0};

    follower_enter(f, FOLLOWER_CATCHING_UP);
    f->attempts.n_heard = 0;
    if (!position_read(slice_of(f->offered.position), &head))
        plan.head = head.seq;
    return follower_reads(
               f, list_reader_start(f->client, &plan, on_batch, on_end, f),
               list_reader_free, list_reader_hold) &&
           false;
}

const struct phase phase_catch_up = {.begin = begin_catching_up};
