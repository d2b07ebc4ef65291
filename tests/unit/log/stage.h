/*
 * stage.h - for tests of a whole log: one in a directory of the test's own,
 * with a set, that is closed and opened again.
 *
 *     FIXTURE(stage_setup, stage_teardown);
 *
 *     struct stage *s = *state;
 *
 *     stage_open(s, 10);                     lists of 10 entries
 *     stage_post(s, 1, 25);
 *     stage_reopen(s);
 */
#ifndef TESTS_UNIT_LOG_STAGE_H
#define TESTS_UNIT_LOG_STAGE_H

#include <stdio.h>
#include <stdlib.h>

#include "tests/support/logs.h"
#include "tests/support/posts.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

#define STAGE_SET "demo"

struct stage {
    struct logs logs; /* the first: see stage_on_removed */
    struct tempdir dir;
    struct log_set *set;
    uint64_t again; /* the list that the removed set goes on with */
};

static inline int
stage_setup(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    tempdir_open(&s->dir);
    *state = s;
    return 0;
}

static inline void
stage_close(struct stage *s)
{
    if (s->logs.log)
        logs_close(&s->logs);
}

static inline int
stage_teardown(void **state)
{
    struct stage *s = *state;

    stage_close(s);
    tempdir_close(&s->dir);
    free(s);
    return 0;
}

static inline enum status
stage_on_removed(const char *name, uint64_t list, struct slice creator,
                 void *user)
{
    struct stage *s = (struct stage *)(void *)(struct logs *)user;

    assert_string_equal(name, STAGE_SET);
    (void)creator;
    s->again = list;
    return STATUS_OK;
}

/* Closes the log and opens it with the options as they are. Makes a removed set
 * again. */
static inline void
stage_reopen(struct stage *s)
{
    struct problem why = {""};

    stage_close(s);
    s->logs.n_sets = s->logs.n_closed = 0;
    s->again = 0;
    if (log_open(&s->logs.log, &s->logs.options, &why))
        fail_msg("%s", why.text);
    s->set = s->again ? log_set_new(s->logs.log, STAGE_SET, s->again, &s->logs)
                      : logs_set(&s->logs, STAGE_SET);
}

/* Opens it anew; this time without removed sets. */
static inline void
stage_open(struct stage *s, uint64_t entries)
{
    stage_close(s);
    logs_open(&s->logs, s->dir.path, entries);
    s->logs.options.on_removed = stage_on_removed;
    s->set = logs_set(&s->logs, STAGE_SET);
}

/* Posts `n` changes of the resources from `from` on. */
static inline void
stage_post(struct stage *s, unsigned from, unsigned n)
{
    assert_int_equal(logs_post(&s->logs, s->set, from, n, NULL, NULL),
                     STATUS_OK);
}

static inline void
stage_remove(struct stage *s, struct log_set *set, int64_t grace_us)
{
    struct posted p;

    posts_begin_act(&p, ACT_REMOVAL, set);
    p.post.grace_us = grace_us;
    assert_int_equal(log_submit(s->logs.log, &p.post, NULL), STATUS_OK);
    assert_int_equal(posts_wait(&p), STATUS_OK);
    posts_end(&p);
}

static inline struct head
stage_head(struct stage *s)
{
    struct head head;

    assert_true(log_head(s->set, &head));
    return head;
}

/* The batch that holds entry `after` + 1; the caller's. */
static inline struct batch *
stage_read(struct stage *s, uint64_t after, enum log_patience patience)
{
    struct batch *b;

    assert_int_equal(log_read(s->logs.log, s->set, after, patience, &b, NULL),
                     STATUS_OK);
    return b;
}

/* The lists from number 1 on; returns how many, at most `n`. */
static inline size_t
stage_lists(struct stage *s, struct list_info *info, size_t n)
{
    assert_int_equal(log_lists(s->logs.log, s->set, 1, info, &n, NULL),
                     STATUS_OK);
    return n;
}

/* The path of a list's file; lent until the next call. */
static inline const char *
stage_file(const struct stage *s, const char *set, unsigned list)
{
    static char path[400];

    snprintf(path, sizeof(path), "%s/sets/%s/changes/%012u.xml.gz", s->dir.path,
             set, list);
    return path;
}

#endif
