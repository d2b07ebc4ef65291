/*
 * announcement_test.c - the events of a round go into its commit, and are
 * published last.
 */
#include "tests/test.h"
#include "tests/unit/log/rounds.h"

/* Posts one entry for each act but batches to set b, and none for acts of b. */
static struct {
    struct world *world;
    struct post post;
    struct fragment fragments[16];
    struct slice sample; /* one fragment's bytes */
    struct fragment fragment;
    enum act_kind kinds[16];
    unsigned n_told;    /* acts, in all */
    unsigned n_done;    /* posts */
    enum status status; /* of the last one */
} t;

static enum status
on_acts(const struct act *acts, size_t n, struct post **post, void *user)
{
    (void)user;
    buf_clear(&t.post.bytes);
    t.post.n_fragments = 0;
    for (size_t i = 0; i < n; i++) {
        if (acts[i].set == &t.world->b || acts[i].kind == ACT_BATCH)
            continue;
        t.kinds[t.n_told++] = acts[i].kind;
        buf_add_slice(&t.post.bytes, t.sample);
        t.fragments[t.post.n_fragments++] = t.fragment;
    }
    if (t.post.n_fragments > 0)
        *post = &t.post;
    return STATUS_OK;
}

static void
on_told(struct post *post)
{
    t.n_done++;
    t.status = post->status;
}

/* Lists of two entries. Nothing was posted yet: the log thread reads the
 * options after the first post was submitted. */
static int
setup(void **state)
{
    struct world *w = world_open(0);
    struct posted *p = make_post(w, POST_CHANGES, NULL);

    posts_add(p, 1, 0);
    t.sample = buf_slice(&p->post.bytes);
    t.fragment = p->post.fragments[0];
    t.world = w;
    t.post = (struct post){.kind = POST_CHANGES,
                           .set = &w->b,
                           .fragments = t.fragments,
                           .done = on_told};
    buf_init(&t.post.bytes, SIZE_MAX);
    w->options.limits.entries = 2;
    w->options.on_acts = on_acts;
    *state = w;
    return 0;
}

static int
teardown(void **state)
{
    world_teardown(state);
    buf_fini(&t.post.bytes);
    memset(&t, 0, sizeof(t));
    return 0;
}

FIXTURE(setup, teardown);

/* A crash leaves both or neither: they are one transaction. Facts of the log
 * that gets the events (a list of two is full) make no events. */
TEST(what_is_told_goes_into_the_same_commit)
{
    struct world *w = *state;

    assert_int_equal(post(w, &w->a, 2, NULL), STATUS_OK);
    assert_int_equal(post(w, &w->a, 1, NULL), STATUS_OK); /* none */
    log_thread_stop(&w->log_thread);
    assert_int_equal(t.n_told, 2);
    assert_int_equal(t.kinds[0], ACT_BIRTH);
    assert_int_equal(t.kinds[1], ACT_LIST_END);
    assert_int_equal(t.n_done, 1);
    assert_int_equal(t.status, STATUS_OK);
    assert_int_equal(w->fake.n_batches, 3);
    assert_int_equal(w->fake.in_commit[0], w->fake.in_commit[1]);
    assert_int_equal(w->fake.batches[1]->last, 2);
    assert_int_equal(w->fake.n_ends, 2);
    assert_int_equal(head_of(&w->b).last, 2);
}

/* A refused round publishes no event, and the poster of the event gets the
 * refusal. */
TEST(a_refused_round_tells_nothing)
{
    struct world *w = *state;

    refuse(w, 1);
    assert_int_equal(post(w, &w->a, 1, NULL), STATUS_BUSY);
    assert_int_equal(head_of(&w->b).last, 0);
    assert_int_equal(post(w, &w->a, 1, NULL), STATUS_OK);
    log_thread_stop(&w->log_thread);
    assert_int_equal(t.n_told, 2); /* born, both times */
    assert_int_equal(t.n_done, 2);
    assert_int_equal(t.status, STATUS_OK);
    assert_int_equal(w->fake.n_batches, 2);
    assert_int_equal(head_of(&w->b).last, 1);
}

static void (*when_posted)(struct post *post);
static uint64_t seen_a, seen_b;

static void
look(struct post *post)
{
    seen_a = head_of(&t.world->a).last;
    seen_b = head_of(&t.world->b).last;
    when_posted(post);
}

/* the effect of a round is published, and the posters have it, before
 * any subscriber gets it. */
TEST(what_is_told_is_published_last)
{
    struct world *w = *state;
    struct posted *p = changes(w, &w->a, 1);

    when_posted = p->post.done;
    p->post.done = look;
    assert_kept(submit(w, p), 1);
    log_thread_stop(&w->log_thread);
    assert_int_equal(seen_a, 1);
    assert_int_equal(seen_b, 0);
    assert_int_equal(head_of(&w->b).last, 1);
}
