#include "tests/support/crossed.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/lists.h"
#include "tests/test.h"

uint32_t
crossed_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

static size_t
next_post(unsigned who, struct posted *entries, void *user)
{
    struct crossed *s = user;
    size_t n = 1 + crossed_random(&s->random[who]) % CROSSED_POST_MAX;
    unsigned post = ++s->n_posts[who];

    for (size_t i = 0; i < n; i++)
        snprintf(entries[i].loc, sizeof(entries[i].loc),
                 "http://example.com/%u/%u/%zu/%zu", who, post, i, n);
    return n;
}

/* Entries after `last` stand in whole posts, each once and in order: either
 * those that were acknowledged, or one in doubt. */
static void
check_posts(const struct trace *t, uint64_t last)
{
    for (uint64_t seq = last + 1; seq <= t->last;) {
        unsigned who, post;
        size_t place, n;

        assert_int_equal(sscanf(trace_at(t, seq)->loc,
                                "http://example.com/%u/%u/%zu/%zu", &who, &post,
                                &place, &n),
                         4);
        assert_int_equal(place, 0);
        assert_in_range(n, 1, t->last - seq + 1);
        for (size_t i = 0; i < n; i++, seq++) {
            char loc[100];

            snprintf(loc, sizeof(loc), "http://example.com/%u/%u/%zu/%zu", who,
                     post, i, n);
            assert_string_equal(trace_at(t, seq)->loc, loc);
        }
    }
}

/* A post in doubt that is there is as good as acknowledged from now on. Returns
 * how many are. */
static unsigned
settle_doubts(struct crossed *c, const struct publishers *p,
              const struct trace *t, uint64_t last)
{
    struct problem why = {""};
    unsigned n = 0;

    for (unsigned who = 0; who < CROSSED_PUBLISHERS; who++) {
        const struct publisher *m = &p->each[who];

        for (uint64_t seq = last + 1; m->n_doubt && seq <= t->last; seq++) {
            if (strcmp(trace_at(t, seq)->loc, m->entries[0].loc) != 0)
                continue;
            if (!journal_note(&c->journal, seq, seq + m->n_doubt - 1,
                              m->entries, m->n_doubt, &why))
                fail_msg("%s", why.text);
            n++;
        }
    }
    return n;
}

void
crossed_init(struct crossed *c, uint64_t seed)
{
    memset(c, 0, sizeof(*c));
    for (unsigned i = 0; i < CROSSED_PUBLISHERS; i++)
        c->random[i] = seed * 31 + i;
    journal_init(&c->journal);
}

void
crossed_fini(struct crossed *c)
{
    journal_fini(&c->journal);
}

void
crossed_start(struct crossed *c, struct publishers *p, const struct broker *b)
{
    publishers_start(p, CROSSED_PUBLISHERS, b, LISTS_SET, &c->journal,
                     next_post, c);
}

unsigned
crossed_check(struct crossed *c, const struct publishers *p,
              const struct trace *t, uint64_t last)
{
    struct problem why = {""};
    unsigned n;

    if (!journal_is_in(&c->journal, t, &why))
        fail_msg("%s", why.text);
    check_posts(t, last);
    n = settle_doubts(c, p, t, last);
    /* Nothing else is there, and nothing twice. */
    assert_int_equal(c->journal.n, t->last);
    return n;
}
