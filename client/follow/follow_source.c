/*
 * follow_source.c - td_follow_source: a follower for each set of a source; the
 * tour of the sets decides when (visit_schedule.h). The followers share a
 * connection if the broker has one for many sets.
 */

#include "client/follow/follower.h"
#include "client/lib/pause.h"
#include "client/source/source_sets.h"

struct followed {
    struct source *source;
    size_t number; /* in the tour */
    struct td_follower *follower;
    struct td_start start;  /* where it goes on */
    struct survey *listing; /* between two visits, if no file keeps it */
    bool has_started;
};

struct source {
    struct td_client *client;
    const struct td_source_options *options;
    td_message_fn *on_message;
    void *user;
    struct source_sets tour;
    struct shared_stream shared;
    struct problem why;
    bool is_over;
};

static void
end_source(const struct problem *why, void *user)
{
    struct source *s = user;

    if (s->is_over)
        return;
    s->is_over = true;
    s->why = *why;
}

/* A set */

static int
on_message(const struct td_message *message, void *user)
{
    struct followed *set = user;
    struct source *s = set->source;
    int rc;

    if (s->is_over)
        return 1;
    rc = s->on_message(message, s->user);
    if (!rc && message->position)
        td_message_mark(message, set->start.after);
    return rc;
}

static void
on_set_end(const struct problem *why, void *user)
{
    struct followed *set = user;

    if (why->rc == STATUS_STOPPED || why->rc == STATUS_MEMORY ||
        why->rc == STATUS_INVALID)
        end_source(why, set->source);
    else
        source_sets_ended(&set->source->tour, set->number, why);
}

/* Asks the caller where to begin a set. */
static bool
start_set(struct followed *set, struct problem *why)
{
    struct source *s = set->source;
    const char *after = s->options->follow.after;

    if (set->has_started)
        return true;
    set->has_started = true;
    set->start.set_url = s->tour.stops[set->number].url;
    set->start.n_sets = s->tour.rounds.n;
    if (s->options->on_start && s->options->on_start(&set->start, s->user))
        return !problem(why, STATUS_STOPPED, "%s", "");
    if (set->start.after[0] || !after)
        return true;
    if (s->tour.rounds.n > 1 && strcmp(after, "0") != 0)
        return !problem(
            why, STATUS_INVALID,
            "%.80s is a position of one set, and the source has %zu", after,
            s->tour.rounds.n);
    snprintf(set->start.after, sizeof(set->start.after), "%s", after);
    return true;
}

/* The tour */

static bool
on_open(size_t number, bool is_visit, struct problem *why, void *user)
{
    struct source *s = user;
    struct source_stop *stop = &s->tour.stops[number];
    struct followed *set = stop->own;
    struct td_follow_options how = s->options->follow;
    bool is_one = s->tour.rounds.n == 1;
    const struct follower_plan plan = {.url = stop->url,
                                       .options = &how,
                                       .on_message = on_message,
                                       .user = s->user,
                                       .message_user = set,
                                       .on_end = on_set_end,
                                       .end_user = set,
                                       .shared = is_one ? NULL : &s->shared,
                                       .number = number};

    problem_clear(why);
    set->source = s;
    set->number = number;
    if (!start_set(set, why))
        return false;
    how.after = set->start.after[0] ? set->start.after : NULL;
    if (how.after)
        how.since = NULL;
    how.listing = set->start.listing[0] ? set->start.listing : NULL;
    how.until_caught_up = is_visit;
    if (follower_new(s->client, &plan, &set->follower, why))
        return false;
    phase_survey_swap(set->follower, &set->listing);
    if (stop->offered.url) /* else they were moved out before */
        follower_offer(set->follower, &stop->offered);
    return true;
}

static void
on_close(size_t number, void *user)
{
    struct source *s = user;
    struct followed *set = s->tour.stops[number].own;

    if (!set->start.listing[0] && !s->options->follow.until_caught_up)
        phase_survey_swap(set->follower, &set->listing);
    td_follower_close(set->follower);
    set->follower = NULL;
}

static void
on_source_trouble(const char *url, const char *why, unsigned pause_ms,
                  void *user)
{
    struct source *s = user;
    bool is_one = s->tour.rounds.n == 1 && !s->tour.missed.map.n;

    if (!url && s->options->follow.on_trouble)
        s->options->follow.on_trouble(why, pause_ms, s->user);
    else if (url && !is_one && s->options->on_missed)
        s->options->on_missed(url, why, s->user);
}

static void
on_turn(void *user)
{
    struct source *s = user;
    struct problem why = {.text = ""};

    if (!source_sets_is_over(&s->tour))
        return;
    source_sets_why(&s->tour, &why);
    end_source(&why, s);
}

enum td_status
td_follow_source(struct td_client *client, const char *url,
                 const struct td_source_options *options,
                 td_message_fn *on_each, void *user)
{
    static const struct source_sets_events events = {
        .on_open = on_open,
        .on_close = on_close,
        .on_trouble = on_source_trouble,
        .on_turn = on_turn,
        .on_end = end_source,
    };
    static const struct shared_stream_events shared = {source_sets_share,
                                                       source_sets_trouble};
    static const struct td_source_options none;
    struct source s = {.client = client,
                       .options = options ? options : &none,
                       .on_message = on_each,
                       .user = user};
    struct td_follow_options how = s.options->follow;
    const struct source_sets_plan plan = {
        .url = url ? url : "",
        .is_once = how.until_caught_up,
        .poll_ms = how.poll_ms,
        .patience_ms = how.patience_ms ? how.patience_ms : PATIENCE_DEFAULT,
        .own_size = sizeof(struct followed),
    };
    struct follow_options parsed;
    enum status rc;

    client_begin(client);
    rc = follow_options_read(&parsed, url, &how, client->checks,
                             &s.why); /* before anything is sent */
    if (!rc && client_add_source(client, url))
        rc = problem_memory(&s.why);
    if (!rc) {
        source_sets_init(&s.tour, client, &plan, &events, &s);
        shared_stream_init(&s.shared, client, &how, parsed.filters, &shared,
                           &s.tour);
    }
    follow_options_fini(&parsed);
    if (rc)
        return client_end(client, client_take_problem(client, &s.why));
    rc = client_until(client, &s.is_over, &s.why);
    for (size_t i = 0; i < s.tour.rounds.n; i++) {
        struct followed *set = s.tour.stops[i].own;

        td_follower_close(set->follower);
        survey_close(set->listing);
    }
    shared_stream_fini(&s.shared);
    source_sets_fini(&s.tour);
    return client_end(client, rc);
}
