/*
 * certainty.c - since when a set is known to be complete, or why not.
 */
#include "client/mirror/certainty.h"

#include "base/clock.h"

bool
certainty_open(struct certainty *c, struct mirror *m, const char *url,
               int64_t set)
{
    *c = (struct certainty){.m = m, .url = url, .set = set};
    return mirror_db_certainty(m->db, set, &c->now);
}

static bool
keep_certainty(struct certainty *c)
{
    return mirror_write(c->m) &&
           mirror_db_set_certainty(c->m->db, c->set, &c->now);
}

void
certainty_begin(struct certainty *c)
{
    c->is_doubted = c->is_reported = false;
}

bool
certainty_doubt(struct certainty *c, const char *why)
{
    c->is_doubted = true;
    if (!c->now.doubt_us)
        c->now.doubt_us = clock_now_us();
    snprintf(c->now.doubt, sizeof(c->now.doubt), "%s", why);
    MIRROR_TELL(c->m, TD_SYNC_DOUBT, .set = c->url, .why = why);
    return keep_certainty(c);
}

bool
certainty_report(struct certainty *c, const struct td_report *report)
{
    c->is_reported |= report->n_left_out > 0;
    c->now.n_left_out = report->n_left_out;
    c->now.n_mended = report->n_mended;
    snprintf(c->now.left_out, sizeof(c->now.left_out), "%s",
             report->left_out ? report->left_out : "");
    MIRROR_TELL(c->m, TD_SYNC_REPORT, .set = c->url, .report = report);
    return keep_certainty(c);
}

bool
certainty_is_weak(const struct certainty *c)
{
    return c->is_doubted ||
           (c->is_reported && c->now.n_left_out > c->now.n_left_out_before);
}

bool
certainty_end(struct certainty *c, int64_t as_of_us, const char *by,
              bool is_applied)
{
    char as_of[DATETIME_SIZE + 1] = "";

    if (!c->is_reported) {
        c->now.n_left_out = 0;
        c->now.left_out[0] = '\0';
    }
    c->now.compared_us = clock_now_us();
    if (as_of_us > c->now.listed_us)
        c->now.listed_us = as_of_us;
    if (is_applied)
        c->now.n_left_out_before = c->now.n_left_out;
    if (!c->is_doubted)
        c->now.doubt[0] = '\0';
    if (!c->is_doubted && is_applied) {
        c->now.doubt_us = 0;
        c->now.complete_us = as_of_us;
        snprintf(c->now.complete_by, sizeof(c->now.complete_by), "%s", by);
        as_of[datetime_write_short(as_of, as_of_us)] = '\0';
        MIRROR_TELL(c->m, TD_SYNC_COMPLETE, .set = c->url, .as_of = as_of);
    }
    certainty_begin(c);
    return keep_certainty(c);
}

bool
certainty_hold(struct certainty *c, uint64_t n, uint64_t n_of)
{
    c->now.n_held = n;
    c->now.n_held_of = n_of;
    if (!n && !c->now.doubt[0])
        c->now.doubt_us = 0;
    else if (!c->now.doubt_us)
        c->now.doubt_us = clock_now_us();
    MIRROR_TELL(c->m, TD_SYNC_HELD, .set = c->url, .n_held = n, .n_of = n_of);
    return keep_certainty(c);
}

bool
certainty_note_caught_up(struct mirror *m, int64_t set, bool is_proven)
{
    struct mirror_db_certainty now;

    if (!mirror_db_note_caught_up(m->db, set, clock_now_us()) ||
        !mirror_db_certainty(m->db, set, &now))
        return false;
    if (!is_proven || now.doubt[0] || now.n_held)
        return true;
    now.complete_us = clock_now_us();
    now.complete_by[0] = '\0';
    return mirror_db_set_certainty(m->db, set, &now);
}

void
certainty_judge(struct mirror *m, struct problem *why)
{
    struct mirror_db_certainty now;
    const char *url;
    int64_t set = 0;
    uint64_t n_held = 0;

    do {
        if (!mirror_db_next_set(m->db, set, &set, &url) ||
            !mirror_db_certainty(m->db, set, &now)) {
            *why = m->why;
            return;
        }
        if (now.doubt[0])
            problem(why, STATUS_DIFFERENT,
                    "the mirror is not known to be complete: %s", now.doubt);
        n_held += now.n_held;
    } while (!why->rc && set);
    if (!why->rc && n_held)
        problem(why, STATUS_DIFFERENT,
                "%" PRIu64 " deletions are held back: if they are right, "
                "accept this number of them",
                n_held);
}
