/*
 * publishers.h - several sources that post at once, a thread each.
 *
 *     publishers_start(&p, 4, &broker, "demo", next, user);
 *     publishers_await(&p, 100);     until there are a hundred answers
 *     publishers_join(&p);           until all have ended
 *     ... p.journal ...
 *     publishers_fini(&p);
 *
 * Even ones post XML, odd ones JSON. Each answer is noted in the journal. A
 * post that got no answer is kept as the publisher's doubt, and ends it: it may
 * have been committed or not.
 */
#ifndef TESTS_SUPPORT_PUBLISHERS_H
#define TESTS_SUPPORT_PUBLISHERS_H

#include <pthread.h>
#include <stdbool.h>

#include "tests/support/broker.h"
#include "tests/support/journal.h"

#define PUBLISHERS_MAX 4

/* Largest post. */
#define PUBLISHERS_POST_MAX 2000

/* How long publishers_await and publishers_join wait at most. */
#define PUBLISHERS_WAIT_MS 300000

/* Makes the next post of publisher `who` and returns its number of entries; 0:
 * that was all. Runs on the publisher's thread. */
typedef size_t publishers_next_fn(unsigned who, struct posted *entries,
                                  void *user);

struct publisher {
    struct publishers *all;
    unsigned who;
    pthread_t thread;
    bool is_started;
    struct posted *entries; /* the post at work, or in doubt */
    size_t n_doubt;         /* entries of a post without answer; 0: none */
    struct problem why;     /* what went wrong; "": nothing */
};

struct publishers {
    const char *url;
    char path[100];
    publishers_next_fn *next;
    void *user;
    struct journal *journal;
    unsigned n;
    struct publisher each[PUBLISHERS_MAX];

    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned n_running;
    unsigned n_answers;
    char position[64]; /* of the answer with the highest seq */
    uint64_t last;     /* that seq */
    bool is_stopping;
};

/* Writes the post of `n` entries, all "created". */
void publishers_write(struct buf *to, bool is_xml, const struct posted *entries,
                      size_t n);

/* `user` is given to `next`; the journal is lent until the end. */
void publishers_start(struct publishers *p, unsigned n, const struct broker *b,
                      const char *set, struct journal *journal,
                      publishers_next_fn *next, void *user);

/* Waits until there are `n` answers, or nobody posts any more. */
void publishers_await(struct publishers *p, unsigned n);

/* Waits until entry `seq` is acknowledged, or nobody posts any more; `position`
 * becomes that of the answer with the highest seq. Any thread. */
void publishers_await_seq(struct publishers *p, uint64_t seq,
                          char position[64]);

/* Waits until all have ended by themselves; the threads are gone then. Fails
 * the test where one had a wrong answer. */
void publishers_join(struct publishers *p);

/* Also ends those that still run, after the post at work. All zero is fine. */
void publishers_fini(struct publishers *p);

#endif
