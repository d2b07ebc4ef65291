/*
 * keys_test.c - posts with a key, as the log thread takes them.
 */
#include "broker/log/keys.h"

#include "tests/test.h"
#include "tests/unit/log/rounds.h"

/* A post of `n` light entries with a key. */
static void
begin(struct posted *p, struct log_set *set, const char *key, unsigned n)
{
    posts_begin(p, POST_CHANGES, set);
    posts_add_many(p, 1, n);
    p->post.key = slice_of(key);
    digest_start(&p->post.entries, buf_slice(&p->post.bytes));
}

/* Posts it and waits; *p is to be given to posts_end. */
static enum status
post_key(struct world *w, struct posted *p, struct log_set *set,
         const char *key, unsigned n)
{
    begin(p, set, key, n);
    submit(w, p);
    return posts_wait(p);
}

static void
assert_same_outcome(const struct posted *a, const struct posted *b)
{
    assert_int_equal(a->post.status, STATUS_OK);
    assert_int_equal(b->post.status, STATUS_OK);
    assert_int_equal(a->post.first, b->post.first);
    assert_int_equal(a->post.last, b->post.last);
    assert_int_equal(a->post.last_us, b->post.last_us);
    assert_string_equal(a->post.epoch, b->post.epoch);
}

static uint64_t
last_of(struct log_set *set)
{
    struct head head;

    tail_head(&set->tail, &head);
    return head.last;
}

/* Design section 4: a repeat has the outcome of the first, and is not kept. */
TEST(a_repeat_has_the_outcome_of_the_first)
{
    struct world *w = world_open(50000, 0);
    struct posted first, again;

    assert_int_equal(post(w, &w->a, 5, NULL), STATUS_OK);
    assert_int_equal(post_key(w, &first, &w->a, "k", 3), STATUS_OK);
    assert_int_equal(post(w, &w->a, 5, NULL), STATUS_OK);
    assert_int_equal(post_key(w, &again, &w->a, "k", 3), STATUS_OK);

    assert_same_outcome(&first, &again);
    assert_int_equal(again.post.first, 6);
    assert_int_equal(again.post.last, 8);
    assert_int_equal(last_of(&w->a), 13);
    assert_int_equal(w->fake.n_keys, 1);
    posts_end(&first);
    posts_end(&again);
    world_close(w);
}

/* The same key with other entries is another post: nothing of it is kept, and
 * the problem names the key. */
TEST(a_key_stands_for_its_entries_alone)
{
    struct world *w = world_open(50000, 0);
    struct posted first, other, again;

    assert_int_equal(post_key(w, &first, &w->a, "k/17", 3), STATUS_OK);
    assert_int_equal(post_key(w, &other, &w->a, "k/17", 4), STATUS_INVALID);
    assert_non_null(strstr(other.post.why.text, "\"k/17\""));
    assert_int_equal(post_key(w, &again, &w->a, "k/17", 3), STATUS_OK);

    assert_same_outcome(&first, &again);
    assert_int_equal(last_of(&w->a), 3);
    posts_end(&first);
    posts_end(&other);
    posts_end(&again);
    world_close(w);
}

/* Keys belong to a set: what another one calls its posts does not matter. */
TEST(a_key_belongs_to_its_set)
{
    struct world *w = world_open(50000, 0);
    struct posted a, b;

    assert_int_equal(post(w, &w->b, 1, NULL), STATUS_OK);
    assert_int_equal(post_key(w, &a, &w->a, "k", 3), STATUS_OK);
    assert_int_equal(post_key(w, &b, &w->b, "k", 4), STATUS_OK);

    assert_int_equal(last_of(&w->a), 3);
    assert_int_equal(last_of(&w->b), 5);
    assert_int_equal(w->fake.n_keys, 2);
    posts_end(&a);
    posts_end(&b);
    world_close(w);
}

/* log.md, commit: looked up in the round. Two posts with the same key share a
 * commit, also the one that begins the set: one is kept, both have its outcome,
 * and nobody hears of it before it is on disk. */
TEST(repeats_in_one_round_are_kept_once)
{
    struct world *w = world_open(50000, 0);
    struct posted held, p[4];

    posts_begin(&held, POST_CHANGES, &w->a);
    posts_add_many(&held, 1, 1);
    hold(w, &held);
    for (int i = 0; i < 4; i++) {
        begin(&p[i], &w->b, "k", i == 2 ? 7 : 3);
        submit(w, &p[i]);
    }
    set_shut(w, false);
    assert_int_equal(posts_wait(&p[0]), STATUS_OK);
    assert_int_equal(posts_wait(&p[1]), STATUS_OK);
    assert_int_equal(posts_wait(&p[2]), STATUS_INVALID);
    assert_int_equal(posts_wait(&p[3]), STATUS_OK);
    assert_int_equal(posts_wait(&held), STATUS_OK);

    assert_same_outcome(&p[0], &p[1]);
    assert_same_outcome(&p[0], &p[3]);
    assert_int_equal(p[3].post.last, 3);
    assert_int_equal(last_of(&w->b), 3);
    assert_int_equal(w->fake.n_keys, 1);
    assert_int_equal(w->fake.n_commits, 3); /* idle; held; all four */
    for (int i = 0; i < 4; i++)
        posts_end(&p[i]);
    posts_end(&held);
    world_close(w);
}

/* Design rule 5: what was refused left no key; whoever shared its round was
 * refused with it, whatever the round had made of him. */
TEST(a_refused_post_leaves_no_key)
{
    struct world *w = world_open(50000, 0);
    struct posted held, p[3], again;

    assert_int_equal(post(w, &w->a, 1, NULL), STATUS_OK);
    posts_begin(&held, POST_CHANGES, &w->a);
    posts_add_many(&held, 1, 1);
    hold(w, &held);
    refuse(w, 2);
    for (int i = 0; i < 3; i++) {
        begin(&p[i], &w->a, "k", i == 2 ? 7 : 3);
        submit(w, &p[i]);
    }
    set_shut(w, false);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(posts_wait(&p[i]), STATUS_BUSY);
        assert_string_equal(p[i].post.why.text, "the disk is full");
        posts_end(&p[i]);
    }
    assert_int_equal(posts_wait(&held), STATUS_BUSY);
    assert_int_equal(w->fake.n_keys, 0);

    assert_int_equal(post_key(w, &again, &w->a, "k", 5), STATUS_OK);
    assert_int_equal(again.post.first, 2);
    assert_int_equal(w->fake.n_keys, 1);
    posts_end(&again);
    posts_end(&held);
    world_close(w);
}

/* Posts without a key pay nothing: nobody looks for them. */
TEST(looks_nothing_up_for_posts_without_a_key)
{
    struct world *w = world_open(50000, 0);
    struct posted p;

    assert_int_equal(post_key(w, &p, &w->a, "k", 1), STATUS_OK);
    assert_int_equal(w->fake.n_finds, 0); /* the set did not exist */
    assert_int_equal(post(w, &w->a, 5, NULL), STATUS_OK);
    assert_int_equal(w->fake.n_finds, 0);
    posts_end(&p);
    assert_int_equal(post_key(w, &p, &w->a, "k", 1), STATUS_OK);
    assert_int_equal(w->fake.n_finds, 1);
    posts_end(&p);
    world_close(w);
}

/* log.md, commit: a bounded count of keys, then posts with one are refused;
 * repeats and posts without a key are not. */
TEST(refuses_new_keys_when_there_is_no_room)
{
    struct world *w = world_open(50000, 0);
    struct posted first, again, other;

    assert_int_equal(post_key(w, &first, &w->a, "k", 3), STATUS_OK);
    w->fake.is_out_of_keys = true;
    assert_int_equal(post_key(w, &other, &w->a, "l", 3), STATUS_BUSY);
    posts_end(&other);
    assert_int_equal(post_key(w, &other, &w->b, "l", 3), STATUS_BUSY);
    assert_non_null(strstr(other.post.why.text, "Idempotency-Key"));
    assert_int_equal(post_key(w, &again, &w->a, "k", 3), STATUS_OK);
    assert_int_equal(post(w, &w->a, 2, NULL), STATUS_OK);

    assert_same_outcome(&first, &again);
    assert_int_equal(last_of(&w->a), 5);
    assert_false(w->b.draft.exists);
    posts_end(&first);
    posts_end(&again);
    posts_end(&other);
    world_close(w);
}

/* Who cannot look does not guess: the post is refused, alone. */
TEST(refuses_a_post_whose_key_it_cannot_look_up)
{
    struct world *w = world_open(50000, 0);
    struct posted p;

    assert_int_equal(post(w, &w->a, 1, NULL), STATUS_OK);
    w->fake.is_blind = true;
    assert_int_equal(post_key(w, &p, &w->a, "k", 3), STATUS_IO);
    assert_string_equal(p.post.why.text, "the disk went away");
    assert_int_equal(post(w, &w->a, 1, NULL), STATUS_OK);

    assert_int_equal(last_of(&w->a), 2);
    assert_int_equal(w->fake.n_keys, 0);
    posts_end(&p);
    world_close(w);
}

/* A key adds a page to a transaction (KEYS_COMMIT_BYTES): rounds stay short. */
TEST(a_round_takes_a_bounded_number_of_keys)
{
    struct world *w = world_open(50000, 0);
    struct posted held, *p = calloc(600, sizeof(*p));
    unsigned before;

    assert_non_null(p);
    assert_int_equal(post(w, &w->a, 1, NULL), STATUS_OK);
    posts_begin(&held, POST_CHANGES, &w->a);
    posts_add_many(&held, 1, 1);
    hold(w, &held);
    before = count(w, &w->fake.n_commits);
    for (int i = 0; i < 600; i++) {
        static char keys[600][8];

        snprintf(keys[i], sizeof(keys[i]), "k%d", i % 500);
        begin(&p[i], &w->a, keys[i], 1);
        submit(w, &p[i]);
    }
    set_shut(w, false);
    for (int i = 0; i < 600; i++) {
        assert_int_equal(posts_wait(&p[i]), STATUS_OK);
        posts_end(&p[i]);
    }
    assert_int_equal(posts_wait(&held), STATUS_OK);
    assert_true(count(w, &w->fake.n_commits) >= before + 3); /* held, 2 more */
    assert_int_equal(last_of(&w->a), 502);
    assert_int_equal(w->fake.n_keys, 500);
    posts_end(&held);
    free(p);
    world_close(w);
}
