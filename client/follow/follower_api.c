/*
 * follower_api.c - the public functions of followers, and their beginning.
 */

#include "base/clock.h"
#include "client/follow/follower.h"
#include "client/lib/pause.h"

static const struct phase *const phases[FOLLOWER_ENDED + 1] = {
    [FOLLOWER_SEEKING] = &phase_discovery,
    [FOLLOWER_CHECKING] = &phase_check,
    [FOLLOWER_PROVING] = &phase_checkpoint,
    [FOLLOWER_CATCHING_UP] = &phase_catch_up,
    [FOLLOWER_LIVE] = &phase_live,
    [FOLLOWER_FILLING] = &phase_gap,
    [FOLLOWER_POLLING] = &phase_poll,
    [FOLLOWER_SURVEYING] = &phase_survey,
    [FOLLOWER_REBASING] = &phase_baseline,
};

/* Beginning */

enum status
follower_new(struct td_client *client, const struct follower_plan *plan,
             struct td_follower **follower, struct problem *why)
{
    struct td_follower *f = calloc(1, sizeof(*f));
    enum status rc;

    if (!f)
        return problem_memory(why);
    f->client = client;
    f->running = (struct running){.close = follower_free, .owner = f};
    f->phases = phases;
    timer_init(&f->timer, client->loop, follower_continue, f);
    timer_init(&f->checkpoint.later, client->loop, follower_checkpoint_ask, f);
    list_init(&f->checkpoint.tiles);
    f->plan = *plan;
    if (!plan->message_user)
        f->plan.message_user = plan->user;
    f->shared.stream = plan->shared;
    f->shared.number = plan->number;
    f->attempts.pause_ms = PAUSE_FIRST;
    f->notes.begins_us = DATETIME_NONE;
    f->lists.later_us = f->notes.until_us = DATETIME_NONE;
    f->attempts.new_ms = f->comparison.interval_ms = clock_steady_ms();
    f->rebase.rebased_ms = f->comparison.compared_ms = -REBASE_LEAST_MS;
    buf_init(&f->gap.kept, LIVE_MESSAGE_MAX);

    if (plan->options)
        f->how = *plan->options;
    rc = follow_options_read(&f->options, plan->url, &f->how, client->checks,
                             why);
    change_batch_init(&f->delivery.batch, f->how.form);
    f->connection.idle_ms = f->how.idle_ms ? f->how.idle_ms : LIVE_IDLE_DEFAULT;
    /* Each line is hashed, and a broker that filters leaves some out,
     * which no checkpoint proves. */
    f->place.order.is_filtered =
        f->options.filter.text_size > 0 && !client->checks;
    f->place.order.needs_digest = client->checks;
    if (!f->place.order.is_filtered)
        f->options.filters[0] = '\0';
    entry_init(&f->delivery.entry);
    f->notes.unknown_us = f->options.place.unknown_us;
    if (f->options.has_place)
        follower_set_place(f, &f->options.place);
    if (f->options.has_place && f->options.digest)
        (void)follower_compare_digest(f, f->options.digest);
    if (!rc && broker_message_init(&f->delivery.message))
        rc = problem_memory(why);
    if (rc) {
        follower_free(f);
        return rc;
    }
    client_runs(client, &f->running);
    *follower = f;
    follower_rest(f, 0);
    return STATUS_OK;
}

/* Public */

static enum status
open_follower(struct td_client *client, const struct follower_plan *plan,
              struct td_follower **follower)
{
    struct problem why = {.rc = STATUS_OK};
    enum status rc = client_add_source(client, plan->url);

    return !rc && follower_new(client, plan, follower, &why)
               ? client_take_problem(client, &why)
               : rc;
}

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
    const struct follower_plan plan = {.url = url,
                                       .options = options,
                                       .on_message = on_message,
                                       .user = user,
                                       .on_end = on_over,
                                       .end_user = &blocking};
    struct td_follower *f;
    enum status rc;

    client_begin(client);
    rc = open_follower(client, &plan, &f);
    if (!rc) {
        rc = client_until(client, &blocking.is_over, &blocking.why);
        follower_free(f);
    }
    return client_end(client, rc);
}

enum td_status
td_follower_open(struct td_client *client, const char *url,
                 const struct td_follow_options *options,
                 td_message_fn *on_message, void *user,
                 struct td_follower **follower)
{
    const struct follower_plan plan = {
        .url = url, .options = options, .on_message = on_message, .user = user};

    *follower = NULL;
    client_begin(client);
    return client_end(client, open_follower(client, &plan, follower));
}

const char *
td_follower_position(const struct td_follower *follower)
{
    return follower->place.position;
}

int64_t
td_follower_signed_s(const struct td_follower *follower)
{
    return follower->checkpoint.time_s;
}

const char *
td_follower_kind(const struct td_follower *follower)
{
    const struct offered *o = &follower->offered;

    if (!o->url)
        return NULL;
    if (o->kind && !o->capability_list)
        return o->kind;
    /* Without both, it is a robots.txt that names Sitemaps. */
    return o->capability_list || o->memory || o->change_list || o->change_dump
               ? "resourcesync"
               : "sitemap";
}

void
td_follower_pause(struct td_follower *follower)
{
    follower->is_paused |= PAUSED_BY_CALLER;
    if (!follower->is_calling) /* else deliver does so after the callback */
        follower_hold(follower);
}

/* The work goes on in the next turn of the loop, because the caller may be in a
 * callback of another object. */
void
td_follower_resume(struct td_follower *follower)
{
    follower->attempts.new_ms =
        clock_steady_ms(); /* the pause does not count as silence */
    follower_unpause(follower, PAUSED_BY_CALLER);
}

void
td_follower_compare(struct td_follower *follower, const char *why)
{
    struct follower_comparison *c = &follower->comparison;

    if (follower->state == FOLLOWER_ENDED)
        return;
    c->is_wanted = true;
    snprintf(c->reason, sizeof(c->reason), "%s", why);
    if (follower->state == FOLLOWER_LIVE)
        timer_start(&follower->timer, 0);
    else if (follower->pusher.is_waiting)
        push_nudge(follower);
}

void
td_follower_close(struct td_follower *follower)
{
    if (follower)
        follower_free(follower);
}
