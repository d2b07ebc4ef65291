/*
 * mirror.c - the state that the parts of a running mirror share: end, events.
 */
#include "client/mirror/mirror.h"

#include "client/downloads/downloads.h"
#include "client/lib/pause.h"
#include "client/survey/survey.h"

#define PROGRESS_MS 250

/* Disk space that a transaction usually takes. */
#define WRITE_BYTES 65536

#define COMPARE_MS 86400000
#define ATTEMPTS   5

void
mirror_defaults(struct td_sync_options *to, const struct td_sync_options *from)
{
    *to = from ? *from : (struct td_sync_options){0};
    if (!to->per_host)
        to->per_host = HOST_PLACES_DEFAULT;
    if (!to->attempts)
        to->attempts = ATTEMPTS;
    if (!to->patience_ms)
        to->patience_ms = PATIENCE_DEFAULT;
    if (!to->compare_ms)
        to->compare_ms = COMPARE_MS;
    if (!to->max_delete_percent)
        to->max_delete_percent = SURVEY_PERCENT_DEFAULT;
    if (to->as_of) { /* it is what it is, and does not go on */
        to->max_delete_percent = -1;
        to->until_caught_up = 1;
    }
}

bool
mirror_holds_back(const struct mirror *m, uint64_t n, uint64_t n_of,
                  enum mirror_list by, uint64_t *held_of)
{
    const struct survey_guard guard = {
        m->options->max_delete_percent, m->options->accept_deletions,
        by == MIRROR_LIST_IN_DOUBT, by == MIRROR_TOLD};

    return survey_holds_back(&guard, n, n_of, held_of);
}

/* The end */

bool
mirror_fail(struct mirror *m, const struct problem *why)
{
    if (!m->why.rc)
        m->why = *why;
    m->is_over = true;
    return false;
}

bool
mirror_fail_memory(struct mirror *m)
{
    return mirror_fail(m, &(struct problem)PROBLEM_MEMORY);
}

bool
mirror_has_all(struct mirror *m, const struct buf *b, const char *what)
{
    struct problem why = {.text = ""};

    return !problem_buf(&why, b, what) || mirror_fail(m, &why);
}

/* The database cannot be read or written. */
static void
fail_db(const struct problem *trouble, void *user)
{
    struct mirror *m = user;
    struct problem why = {""};

    mirror_db_rollback(&m->db);
    problem(&why, STATUS_IO, "%s", trouble->text);
    mirror_fail(m, &why);
}

bool
mirror_open_db(struct mirror *m, const struct mirror_dir *home,
               const char *name, struct problem *why)
{
    if (!mirror_db_open(&m->db, home ? home->state : "", name, why))
        return false;
    m->db.on_failure = fail_db;
    m->db.user = m;
    return true;
}

bool
mirror_take_filter(struct mirror *m, struct problem *why)
{
    const char *given = m->options->filter;

    if (!part_filter_read(&m->filter, given ? given : m->db.filter, why) &&
        !slice_is(filter_text(&m->filter), m->db.filter) &&
        !mirror_db_set_filter(&m->db, filter_text(&m->filter)))
        *why = m->why;
    return !why->rc;
}

bool
mirror_may_write(struct mirror *m, struct problem *why)
{
    return m->db.is_writing || !m->dir ||
           !source_limits_look(&m->client->room, m->dir->incoming_fd,
                               WRITE_BYTES, why);
}

bool
mirror_write(struct mirror *m)
{
    struct problem why = {""};

    if (!mirror_may_write(m, &why))
        return mirror_fail(m, &why);
    return m->db.is_writing || mirror_db_begin(&m->db);
}

/* Events */

static void
count_event(const struct mirror *m, struct td_sync_event *event)
{
    const struct mirror_db_counts *c = &m->db.counts;

    event->n_wanted = c->n_fetch - c->n_left;
    event->n_done = m->n_done;
    event->n_failed = c->n_left;
    event->bytes_done =
        m->bytes_done + (m->downloads ? downloads_bytes(m->downloads) : 0);
    event->bytes_wanted = c->bytes_wanted;
    event->n_packages = m->client->room.n_packages;
    event->n_unpacked = m->n_unpacked;
    event->bytes_packages = m->client->room.bytes_packages;
}

void
mirror_report(struct mirror *m, enum td_sync_what what,
              const struct td_sync_event *with)
{
    struct td_sync_event event = with ? *with : (struct td_sync_event){0};

    if (!m->options->on_event)
        return;
    event.what = what;
    event.filter = m->db.filter[0] ? m->db.filter : NULL;
    count_event(m, &event);
    m->options->on_event(&event, m->options->user);
}

static void
on_progress(void *user)
{
    struct mirror *m = user;
    struct td_sync_event now = {0};

    timer_start(&m->progress, PROGRESS_MS);
    count_event(m, &now);
    if (!memcmp(&now, &m->last, sizeof(now)))
        return;
    m->last = now;
    mirror_report(m, TD_SYNC_PROGRESS, NULL);
}

void
mirror_init(struct mirror *m, struct td_client *client,
            const struct td_sync_options *options)
{
    *m = (struct mirror){client, options, .copies = "duplicate"};
    client->room = (struct source_limits){.limits = client->room.limits};
    timer_init(&m->progress, client->loop, on_progress, m);
    if (options->on_event)
        timer_start(&m->progress, PROGRESS_MS);
}

void
mirror_fini(struct mirror *m)
{
    mirror_db_close(&m->db);
    mirror_dir_close(m->dir);
    timer_stop(&m->progress);
}
