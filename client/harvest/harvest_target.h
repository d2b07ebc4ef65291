/*
 * harvest_target.h - the set of a harvest: posts to it, once and in order, and
 * what others do with it.
 *
 *     harvest_target_begin --> harvest_target_post --> harvest_target_report
 *                                  ^                          |
 *                                  +-- harvest_target_look <--+ each look
 *
 * Calls block, and wait while the broker is away.
 */
#pragma once

#include "client/harvest/harvest.h"

/* The URL of a set, "/r/", and a NUL. */
#define HARVEST_HOME_SIZE 1100

struct harvest_target {
    const struct harvest_options *options;
    struct td_client *client; /* of the options, as is `url` */
    const char *url;
    struct harvest_db db;
    struct filter filter;            /* of resources */
    struct problem why;              /* of the state */
    char epoch[TD_POSITION_SIZE];    /* of its log; "": there is no set yet */
    char position[TD_POSITION_SIZE]; /* of the last entry that the harvest has
                                        read; "": there is no set */
    bool is_other; /* the set is another one than before, or was removed: the
                      state begins anew. Stays until the caller clears it */
    enum td_status end;  /* of the harvest, as far as it is known */
    bool is_over;        /* its reason was said */
    bool has_begun;      /* posts are this process's */
    bool has_no_route;   /* the broker has no route for reports */
    uint64_t report;     /* FNV-1a of the last report, without its times */
    int64_t reported_ms; /* when that was */
    char trouble[256];   /* the last report that failed; "": none */
    char home[HARVEST_HOME_SIZE]; /* of copies (copy.h) */

    /* The last report on the set, whoever made it. */
    char reporter[HARVEST_TEXT_SIZE]; /* its source, as people see it */
    int64_t reported_us;              /* DATETIME_NONE: there is none */
    uint64_t reports_every_s;         /* 0: its harvest does not go on */
    bool is_of_list;                  /* its source has no changes to read */

    /* Deletions that somebody consents to at the broker, by the last look at
     * the set. */
    uint64_t accepted;
};

/* Deletions that may be more than --max-delete; 0: none. */
static inline uint64_t
harvest_target_accepts(const struct harvest_target *t)
{
    uint64_t given = t->options->accept_deletions;

    return given > t->accepted ? given : t->accepted;
}

/* True if the harvest has to end: for a reason that was said, or because the
 * state failed. */
static inline bool
harvest_target_is_over(const struct harvest_target *t)
{
    return t->is_over || t->why.rc;
}

/* Says a line. */
void harvest_target_say(const struct harvest_target *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Ends the harvest, unless it is over already: that has its reason. Returns
 * false. */
bool harvest_target_end(struct harvest_target *t, enum td_status end);

/* The same, after a line that says why. */
#define HARVEST_TARGET_FAIL(t, end, ...) \
    (harvest_target_say((t), __VA_ARGS__), harvest_target_end((t), (end)))

/* The functions below return false if the harvest is over. */

/* Waits until a handle has work, for at most `wait_ms` (-1: any), and has it
 * done. */
bool harvest_target_turn(struct harvest_target *t, int wait_ms);

/* Learns the set, ends the harvest beside another one of the source, finishes
 * the post of an earlier process, and reads the resources that the set had
 * before this state. */
bool harvest_target_begin(struct harvest_target *t);

/* Posts what is sealed. */
bool harvest_target_post(struct harvest_target *t);

/* Looks whether others have posted into the set, and marks the resources that
 * they changed (harvest_db_disturb). */
bool harvest_target_look(struct harvest_target *t);

/* Puts the report of a look to the broker. A failure is said, and ends nothing.
 * False: td_stop. */
bool harvest_target_report(struct harvest_target *t, struct slice json);

/* The place of "EPOCH-SEQ"; all zero: it is none. */
struct position harvest_place_of(const char *position);

/* The text of a change; empty: it has none. */
struct slice harvest_text_of(const struct td_change *c);

/* The version that a change describes. */
struct survey_resource harvest_version_of(const struct td_change *c);
