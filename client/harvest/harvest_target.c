#include "client/harvest/harvest_target.h"

#include <poll.h>

#include "base/clock.h"
#include "client/harvest/copy.h"
#include "client/harvest/harvest_entry.h"
#include "client/lib/client.h"
#include "client/lib/json_slices.h"
#include "client/lib/pause.h"
#include "client/source/set.h"
#include "proto/number.h"
#include "proto/shown_address.h"

/* A broker remembers keys for 24 hours; less an hour, as clocks differ. */
#define KEY_LIFE_S (23 * 3600)

void
harvest_target_say(const struct harvest_target *t, const char *format, ...)
{
    char text[2048];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    t->options->say(text, t->options->user);
}

bool
harvest_target_end(struct harvest_target *t, enum td_status end)
{
    if (!t->is_over)
        t->end = end;
    t->is_over = true;
    return false;
}

bool
harvest_target_turn(struct harvest_target *t, int wait_ms)
{
    const struct harvest_options *how = t->options;
    struct pollfd ready[HARVEST_SOURCES_MAX + 1];

    for (size_t i = 0; i <= how->n_sources; i++) {
        struct td_client *client =
            i < how->n_sources ? how->sources[i].client : t->client;
        int due_ms = td_timeout_ms(client);

        ready[i] = (struct pollfd){.fd = td_fd(client), .events = POLLIN};
        if (due_ms >= 0 && (wait_ms < 0 || due_ms < wait_ms))
            wait_ms = due_ms;
    }
    poll(ready, how->n_sources + 1, wait_ms);
    for (size_t i = 0; i <= how->n_sources; i++)
        if (td_service(i < how->n_sources ? how->sources[i].client
                                          : t->client) == TD_STOPPED)
            return harvest_target_end(t, TD_STOPPED);
    return !harvest_target_is_over(t);
}

/* Decides what follows on a failed call, and waits if it `is_passing`. True: it
 * may be made again; false: the harvest ends. */
static bool
may_try_again(struct harvest_target *t, enum td_status rc, bool is_passing,
              unsigned *pause_ms)
{
    unsigned asked_s, ms;

    if (rc == TD_STOPPED)
        return harvest_target_end(t, TD_STOPPED);
    if (!is_passing)
        return HARVEST_TARGET_FAIL(t, rc, "%s", td_problem(t->client));
    td_answered(t->client, &asked_s);
    ms = pause_asked(pause_ms, PAUSE_LONGEST, asked_s);
    harvest_target_say(t, "%s; again in %.1f s", td_problem(t->client),
                       ms / 1000.0);
    return !client_wait(t->client, ms, NULL) ||
           harvest_target_end(t, TD_STOPPED);
}

struct position
harvest_place_of(const char *position)
{
    struct position place = {""};

    (void)!position_read(slice_of(position), &place);
    return place;
}

struct survey_resource
harvest_version_of(const struct td_change *c)
{
    return (struct survey_resource){datetime_of(slice_of(c->lastmod)),
                                    slice_of(c->hash), c->length};
}

struct slice
harvest_text_of(const struct td_change *c)
{
    return (struct slice){c->text, c->text ? c->text_size : 0};
}

/* Posts */

/* Records that the set has the post, from entry `first` on. If others have
 * posted since the state's position, that stays: harvest_target_look reads
 * their changes. */
static bool
note_posted(struct harvest_target *t, uint64_t first, const char *position)
{
    bool is_next = first == harvest_place_of(t->db.target).seq + 1;

    strcpy(t->epoch, harvest_place_of(position).epoch);
    return harvest_db_posted(&t->db, is_next ? position : NULL);
}

/* Says the change that the broker refused, if the answer names it. */
static void
say_refused(struct harvest_target *t, const struct harvest_post *post)
{
    unsigned status = td_answered(t->client, NULL);
    struct slice rest = post->changes, entry, loc;
    size_t i = 0, n = 0;

    if (status != 400 && status != 413 && status != 422)
        return;
    /* "422: entry 3: ..." */
    if (sscanf(td_problem(t->client), "%*u: entry %zu", &n) != 1)
        n = 0;
    while (json_slices_element(&rest, &entry))
        if (++i >= n)
            break;
    if (i == 0 || !json_slices_member(entry, "loc", &loc))
        return;
    harvest_target_say(
        t,
        "the set refuses %s%.*s, and with it a post of %zu entries; it has all "
        "changes up to %.*s",
        n ? "" : "what begins with ", SLICE_ARG(loc), post->n,
        post->before[0] ? (int)strcspn(post->before, " ") : -1,
        post->before[0] ? post->before : "the beginning");
}

/* Sends the sealed post until the broker has answered. */
static bool
deliver_post(struct harvest_target *t, const struct harvest_post *post)
{
    const struct td_publish_options how = {.key = post->key};
    unsigned pause_ms = PAUSE_FIRST;
    char type[100] = "application/json";
    bool is_passing, is_others = true; /* no attempt of ours arrived */

    if (post->body[0] == '-') /* "--BOUNDARY": with the bytes of copies */
        snprintf(type, sizeof(type),
                 "multipart/related; boundary=%.*s; type=\"application/json\"",
                 COPY_BOUNDARY_SIZE - 1, post->body + 2);
    for (;;) {
        struct td_receipt receipt;
        enum td_status rc = td_publish(t->client, t->url, type, post->body,
                                       post->size, &how, &receipt);

        if (rc == TD_OK && receipt.is_repeat && t->has_begun && is_others)
            harvest_target_say(t,
                               "the set had a post of %zu entries already: "
                               "another harvest posts the same into it",
                               post->n);
        if (rc == TD_OK)
            return note_posted(t, receipt.first, receipt.position);
        if (rc == TD_UNREACHABLE)
            is_others = false;
        /* 409: the broker still works on an earlier attempt. */
        is_passing = rc == TD_UNREACHABLE ||
                     (rc == TD_REFUSED && td_answered(t->client, NULL) == 409);
        if (!may_try_again(t, rc, is_passing, &pause_ms)) {
            if (!is_passing && rc != TD_STOPPED)
                say_refused(t, post);
            return false;
        }
    }
}

/* The entries of the set */

struct reading {
    struct harvest_target *target;
    struct post_search *search; /* for an own post; NULL: what others did */
    uint64_t found;             /* the last entry of that post; 0: none */
    bool is_adoption;
};

/* Reads the set's entries after `after`, NULL: all of it. */
static bool
read_set(struct harvest_target *t, const char *after, td_message_fn *on_message,
         struct reading *r)
{
    const struct td_follow_options how = {
        .after = after,
        .until_caught_up = 1,
        .baseline = r->search ? TD_NO_BASELINE
                    : after   ? TD_BASELINE_GONE
                              : TD_BASELINE_FIRST,
    };
    unsigned pause_ms = PAUSE_FIRST;

    for (;;) {
        enum td_status rc;

        if (r->search)
            r->search->n_found = 0;
        rc = td_follow(t->client, t->url, &how, on_message, r);
        if (rc == TD_OK || r->found)
            return true;
        db_rollback(&t->db.db); /* up to the last seal or note */
        if (t->why.rc || !may_try_again(t, rc, rc == TD_UNREACHABLE, &pause_ms))
            return false;
    }
}

static int
on_sought(const struct td_message *message, void *user)
{
    struct reading *r = user;

    for (size_t i = 0; i < message->n_changes && !r->found; i++)
        if (post_search_next(r->search,
                             harvest_text_of(&message->changes[i]))) {
            r->found = message->changes[i].seq;
            position_write(r->target->position, message->position, r->found);
        }
    return r->found > 0;
}

/* The broker may have forgotten the key: searches its later entries for the
 * post. */
static bool
look_for(struct harvest_target *t, const struct harvest_post *post)
{
    const char *noted = t->db.target;
    struct post_search search;
    struct reading r = {.target = t, .search = &search};
    bool is_good = false;

    harvest_target_say(
        t, "a post of %zu entries was not answered a day ago; looking for it",
        post->n);
    if (!post_search_init(&search, post))
        HARVEST_TARGET_FAIL(t, TD_MEMORY, NO_MEMORY);
    else if (read_set(t, noted[0] ? noted : "0", on_sought, &r))
        is_good = r.found ? note_posted(t, r.found - post->n + 1, t->position)
                          : deliver_post(t, post);
    post_search_fini(&search);
    return is_good;
}

bool
harvest_target_post(struct harvest_target *t)
{
    struct harvest_post post;
    bool is_there, is_good;
    int64_t age_s;

    if (!harvest_db_unfinished(&t->db, &post, &is_there))
        return false;
    if (!is_there)
        return true;
    age_s = clock_now_us() / 1000000 - post.made_s;
    if (t->options->is_dry)
        is_good = harvest_db_posted(&t->db, NULL);
    else if (age_s >= 0 && age_s < KEY_LIFE_S)
        is_good = deliver_post(t, &post);
    else
        is_good = look_for(t, &post);
    free(post.body);
    return is_good;
}

/* The set */

static void
on_member(const char *path, const char *value, void *user)
{
    struct harvest_target *t = user;

    if (!strcmp(path, "position"))
        snprintf(t->position, TD_POSITION_SIZE, "%s", value);
    else if (!strcmp(path, "links.0.href")) /* its URL as the broker has it */
        snprintf(t->home, HARVEST_HOME_SIZE, "%s/r/", value);
    else if (!strcmp(path, "harvest.accept_deletions"))
        number_read(slice_of(value), &t->accepted);
    else if (!strcmp(path, "harvest.source"))
        snprintf(t->reporter, sizeof(t->reporter), "%s", value);
    else if (!strcmp(path, "harvest.kind"))
        t->is_of_list = strcmp(value, "resourcesync") != 0;
    else if (!strcmp(path, "harvest.last_look"))
        (void)!datetime_read(slice_of(value), &t->reported_us);
    else if (!strcmp(path, "harvest.every_s"))
        number_read(slice_of(value), &t->reports_every_s);
}

/* Asks for the set's position. */
static bool
ask_position(struct harvest_target *t)
{
    unsigned pause_ms = PAUSE_FIRST;

    for (;;) {
        enum td_status rc;

        t->position[0] = '\0';
        t->accepted = t->reports_every_s = 0;
        t->reported_us = DATETIME_NONE;
        snprintf(t->home, sizeof(t->home), "%s/r/", t->url);
        rc = td_set_get(t->client, t->url, on_member, t, NULL);
        if (rc == TD_OK || rc == TD_GONE ||
            (rc == TD_REFUSED && td_answered(t->client, NULL) == 404)) {
            strcpy(t->epoch, harvest_place_of(t->position).epoch);
            return true;
        }
        if (!may_try_again(t, rc, rc == TD_UNREACHABLE, &pause_ms))
            return false;
    }
}

/* The state begins anew if the set is not the one that it was about. */
static bool
check_identity(struct harvest_target *t)
{
    struct position noted = harvest_place_of(t->db.target),
                    now = harvest_place_of(t->position);

    if (!t->db.target[0] ||
        (!strcmp(now.epoch, noted.epoch) && now.seq >= noted.seq))
        return true;
    t->is_other = true;
    harvest_target_say(t, "%s; everything is published anew",
                       t->position[0] ? "the set was made anew"
                                      : "the set was removed");
    return harvest_db_forget(&t->db);
}

/* Ends this harvest if another one of its source, with another state, made the
 * last report: both would post each change. A new state takes the place of a
 * harvest that does not go on, if it posts nothing twice: of a list it posts
 * what the set lacks. */
static bool
check_alone(struct harvest_target *t)
{
    double every_us = 1e6 * (double)t->reports_every_s;
    bool is_same = false, goes_on, may_begin;

    if (t->reported_us <= t->db.reported_us)
        return true;
    goes_on = every_us > 0 &&
              (double)(clock_now_us() - t->reported_us) < 2 * every_us;
    for (size_t i = 0; i < t->options->n_sources; i++) {
        char *shown = shown_address(strdup(t->options->sources[i].url));

        is_same |= shown && !strcmp(shown, t->reporter);
        free(shown);
    }
    if (!is_same)
        return true;
    may_begin =
        t->db.is_new && !goes_on && (t->options->after || t->is_of_list);
    harvest_target_say(t,
                       "another harvest, with another state, %s %s into the "
                       "set: %s",
                       goes_on ? "posts" : "has posted", t->reporter,
                       may_begin ? "this one takes its place"
                                 : "each change would come twice; go on with "
                                   "that state, or delete its report");
    return may_begin ? harvest_db_note_report(&t->db, t->reported_us)
                     : harvest_target_end(t, TD_IO);
}

/* What the set has */

static int
on_own_message(const struct td_message *message, void *user)
{
    struct reading *r = user;
    struct harvest_db *db = &r->target->db;

    for (size_t i = 0; i < message->n_changes && !db->why->rc; i++) {
        const struct td_change *c = &message->changes[i];
        struct harvest_resource has = {.loc = slice_of(c->loc),
                                       .version = harvest_version_of(c)};
        bool is_gone = c->change && !strcmp(c->change, "deleted");

        if (r->target->options->republishes)
            has.version.hash.size = 0; /* another one than the original's */
        /* The state has a digest of the record; one without bytes needs them.
         */
        if (r->target->options->stores_records)
            has.version = (struct survey_resource){c->length == LENGTH_NONE
                                                       ? DATETIME_NONE
                                                       : has.version.lastmod_us,
                                                   {NULL, 0},
                                                   LENGTH_NONE};
        if (!has.loc.size)
            continue;
        if (!r->is_adoption)
            harvest_db_disturb(db, has.loc, is_gone ? NULL : &has.version);
        else if (is_gone)
            harvest_db_remove(db, db->adopter, has.loc, DATETIME_NONE);
        else
            harvest_db_keep(db, db->adopter, &has, DATETIME_NONE);
    }
    if (message->position)
        snprintf(r->target->position, TD_POSITION_SIZE, "%s",
                 message->position);
    return db->why->rc != STATUS_OK;
}

bool
harvest_target_begin(struct harvest_target *t)
{
    struct reading r = {.target = t, .is_adoption = true};

    if (!ask_position(t) || !check_identity(t) ||
        (!t->options->is_dry && !check_alone(t)) || !harvest_target_post(t))
        return false;
    t->has_begun = true;
    t->is_other = false; /* nobody has begun to read a source */
    if (!t->db.is_new)
        return true;
    /* A post that was sealed before may have moved it. */
    return ask_position(t) &&
           (harvest_place_of(t->position).seq == 0 ||
            read_set(t, NULL, on_own_message, &r)) &&
           harvest_db_end_adoption(&t->db, t->position);
}

bool
harvest_target_look(struct harvest_target *t)
{
    const char *noted = t->db.target;
    struct reading r = {.target = t};

    if (t->options->is_dry)
        return true;
    if (!ask_position(t) || !check_identity(t) || !check_alone(t))
        return false;
    if (t->is_other || !strcmp(t->position, noted))
        return true;
    return read_set(t, noted[0] ? noted : "0", on_own_message, &r) &&
           harvest_db_end_disturbance(&t->db, t->position);
}

/* The report */

bool
harvest_target_report(struct harvest_target *t, struct slice json)
{
    enum td_status rc;
    unsigned status;

    if (t->options->is_dry || t->has_no_route)
        return true;
    rc = set_send(t->client, t->url, "/harvest", "PUT", &json, &status);
    t->has_no_route = status == 405;    /* an older broker */
    if (status == 405 || status == 404) /* the same, or there is no set yet */
        rc = TD_OK;
    if (rc == TD_STOPPED)
        return harvest_target_end(t, TD_STOPPED);
    if (rc &&
        strncmp(t->trouble, td_problem(t->client), sizeof(t->trouble) - 1) != 0)
        harvest_target_say(t, "the broker was not told: %s",
                           td_problem(t->client));
    snprintf(t->trouble, sizeof(t->trouble), "%s",
             rc ? td_problem(t->client) : "");
    return true;
}
