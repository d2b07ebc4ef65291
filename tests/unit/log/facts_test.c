/*
 * facts_test.c - what is told of a round goes into its commit, and is published
 * last.
 */
#include "tests/test.h"
#include "tests/unit/log/rounds.h"

/* Tells one entry for each fact, in set b; of its own it tells nothing. */
struct teller {
    struct world *world;
    struct post post;
    struct fragment fragments[16];
    struct buf sample; /* one fragment's bytes */
    struct fragment fragment;
    enum log_fact_kind kinds[16];
    unsigned n_told;    /* facts, in all */
    unsigned n_done;    /* posts */
    enum status status; /* of the last one */
};

static enum status
on_facts(const struct log_fact *facts, size_t n, struct post **post, void *user)
{
    struct teller *t = user;

    buf_clear(&t->post.bytes);
    t->post.n_fragments = 0;
    for (size_t i = 0; i < n; i++) {
        if (facts[i].set == &t->world->b)
            continue;
        t->kinds[t->n_told++] = facts[i].kind;
        buf_add_slice(&t->post.bytes, buf_slice(&t->sample));
        t->fragments[t->post.n_fragments++] = t->fragment;
    }
    if (t->post.n_fragments > 0)
        *post = &t->post;
    return STATUS_OK;
}

static void
on_told(struct post *post)
{
    struct teller *t = list_entry(post, struct teller, post);

    t->n_done++;
    t->status = post->status;
}

static void
facts_header(struct log_set *set, const char *epoch,
             const struct list_info *info, struct buf *header, void *user)
{
    struct teller *t = user;

    on_header(set, epoch, info, header, t->world);
}

static void
facts_closed(void *user)
{
    struct teller *t = user;

    on_closed(t->world);
}

/* Lists of two entries. Nothing was posted yet: the log thread reads the
 * options after the first post was handed over. */
static struct world *
open_world(struct teller *t)
{
    struct world *w = world_open(2, 0);
    struct posted p;

    memset(t, 0, sizeof(*t));
    posts_begin(&p, POST_CHANGES, NULL);
    posts_add(&p, 1, 0);
    buf_init(&t->sample, SIZE_MAX);
    buf_add_slice(&t->sample, buf_slice(&p.post.bytes));
    t->fragment = p.post.fragments[0];
    posts_end(&p);
    t->world = w;
    t->post = (struct post){.kind = POST_CHANGES,
                            .set = &w->b,
                            .fragments = t->fragments,
                            .done = on_told};
    buf_init(&t->post.bytes, SIZE_MAX);
    w->options.on_facts = on_facts;
    w->options.on_header = facts_header;
    w->options.on_closed = facts_closed;
    w->options.user = t;
    return w;
}

static void
close_world(struct world *w, struct teller *t)
{
    world_close(w);
    buf_fini(&t->post.bytes);
    buf_fini(&t->sample);
}

static uint64_t
last_of(struct log_set *set)
{
    struct head head;

    tail_head(&set->tail, &head);
    return head.last;
}

/* A crash leaves both or neither: they are one transaction. What happens to the
 * log that is told in (a list of two is full) is not told. */
TEST(what_is_told_goes_into_the_same_commit)
{
    struct teller t;
    struct world *w = open_world(&t);

    assert_int_equal(post(w, &w->a, 2, NULL), STATUS_OK);
    assert_int_equal(post(w, &w->a, 1, NULL), STATUS_OK); /* none */
    committer_stop(&w->committer);
    assert_int_equal(t.n_told, 2);
    assert_int_equal(t.kinds[0], FACT_BORN);
    assert_int_equal(t.kinds[1], FACT_CLOSED);
    assert_int_equal(t.n_done, 1);
    assert_int_equal(t.status, STATUS_OK);
    assert_int_equal(w->fake.n_batches, 3);
    assert_int_equal(w->fake.in_commit[0], w->fake.in_commit[1]);
    assert_int_equal(w->fake.batches[1]->last, 2);
    assert_int_equal(w->fake.n_ends, 2);
    assert_int_equal(last_of(&w->b), 2);
    close_world(w, &t);
}

/* Nothing is told that is not so: who told it hears that it was not. */
TEST(a_refused_round_tells_nothing)
{
    struct teller t;
    struct world *w = open_world(&t);

    refuse(w, 1);
    assert_int_equal(post(w, &w->a, 1, NULL), STATUS_BUSY);
    assert_int_equal(last_of(&w->b), 0);
    assert_int_equal(post(w, &w->a, 1, NULL), STATUS_OK);
    committer_stop(&w->committer);
    assert_int_equal(t.n_told, 2); /* born, both times */
    assert_int_equal(t.n_done, 2);
    assert_int_equal(t.status, STATUS_OK);
    assert_int_equal(w->fake.n_batches, 2);
    assert_int_equal(last_of(&w->b), 1);
    close_world(w, &t);
}

struct looker {
    struct posted posted;
    struct world *world;
    uint64_t seen_a, seen_b;
};

static void
look(struct post *post)
{
    struct looker *l = list_entry(post, struct looker, posted.post);

    l->seen_a = last_of(&l->world->a);
    l->seen_b = last_of(&l->world->b);
    pthread_mutex_lock(&l->posted.mutex);
    l->posted.is_done = true;
    pthread_cond_broadcast(&l->posted.changed);
    pthread_mutex_unlock(&l->posted.mutex);
}

/* what a round does is seen, and those who posted have taken it in,
 * before anybody hears of it. */
TEST(what_is_told_is_published_last)
{
    struct teller t;
    struct world *w = open_world(&t);
    struct looker l = {.world = w};

    posts_begin(&l.posted, POST_CHANGES, &w->a);
    posts_add(&l.posted, 1, 0);
    l.posted.post.done = look;
    submit(w, &l.posted);
    assert_int_equal(posts_wait(&l.posted), STATUS_OK);
    posts_end(&l.posted);
    committer_stop(&w->committer);
    assert_int_equal(l.seen_a, 1);
    assert_int_equal(l.seen_b, 0);
    assert_int_equal(last_of(&w->b), 1);
    close_world(w, &t);
}
