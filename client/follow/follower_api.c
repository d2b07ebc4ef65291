/*
 * follower_api.c - the public functions of followers.
 */
#include "base/clock.h"
#include "client/follow/follower.h"

struct blocking {
    bool is_over;
    struct problem why;
};

static void
on_over(const struct problem *why, void *user)
{
    struct blocking *blocking = user;

    blocking->why = *why;
    blocking->is_over = true;
}

enum td_status
td_follow(struct td_client *client, const char *url,
          const struct td_follow_options *options, td_message_fn *on_message,
          void *user)
{
    struct blocking blocking = {.is_over = false};
    struct td_follower *f;
    enum status rc;

    client_begin(client);
    rc = client_add_source(client, url);
    if (rc)
        return client_end(client, rc);
    rc = follower_new(client, url, options, on_message, user, on_over,
                      &blocking, &f, &blocking.why);
    if (rc)
        return client_end(client, client_told(client, &blocking.why));
    rc = client_until(client, &blocking.is_over);
    follower_free(f);
    if (!rc)
        rc = client_told(client, &blocking.why);
    return client_end(client, rc);
}

/* Calls the caller's on_end last: it may close the follower. */
static void
on_ended(const struct problem *why, void *user)
{
    struct td_follower *f = user;

    if (f->on_public_end)
        f->on_public_end(td_status_of(why->rc), why->text, f->user);
}

enum td_status
td_follower_open(struct td_client *client, const char *url,
                 const struct td_follow_options *options,
                 td_message_fn *on_message, void *user,
                 struct td_follower **follower)
{
    struct problem why = {.rc = STATUS_OK};

    *follower = NULL;
    client_begin(client);
    if (client_add_source(client, url))
        return client_end(client, STATUS_MEMORY);
    if (follower_new(client, url, options, on_message, user, on_ended, NULL,
                     follower, &why))
        return client_end(client, client_told(client, &why));
    (*follower)->end_user = *follower;
    (*follower)->on_public_end = options ? options->on_end : NULL;
    return client_end(client, STATUS_OK);
}

const char *
td_follower_position(const struct td_follower *follower)
{
    return follower->position;
}

void
td_follower_pause(struct td_follower *follower)
{
    follower->is_paused = true;
    if (!follower->is_gone) /* else deliver does so after the callback */
        follower_hold(follower);
}

/* The work goes on in the next turn of the loop, because the caller may be in a
 * callback of another object. */
void
td_follower_resume(struct td_follower *follower)
{
    follower->is_paused = false;
    follower->new_ms =
        clock_steady_ms(); /* the pause does not count as silence */
    if (follower->state == FOLLOWER_ENDED)
        return;
    if (follower->state != FOLLOWER_RESTING || follower->is_due)
        timer_start(follower->timer, 0);
    follower->is_due = false;
}

void
td_follower_close(struct td_follower *follower)
{
    if (follower)
        follower_free(follower);
}
