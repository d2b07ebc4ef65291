/*
 * commit_line_test.c - posts in a line: in their order, or not.
 */
#include <stdatomic.h>

#include "broker/log/commit.h"
#include "tests/test.h"
#include "tests/unit/log/rounds.h"

#define BEHIND "a post before it was not kept, and is to be kept first"

static void
begin(struct posted *p, struct log_set *set, struct post_line *line, unsigned n)
{
    posts_begin(p, POST_CHANGES, set);
    posts_add_many(p, 1, n);
    p->post.line = line;
}

static void
give_key(struct posted *p, const char *key)
{
    p->post.key = slice_of(key);
    digest_start(&p->post.entries, buf_slice(&p->post.bytes));
}

static void
assert_is_behind(struct posted *p)
{
    assert_int_equal(posts_wait(p), STATUS_BUSY);
    assert_string_equal(p->post.why.text, BEHIND);
    posts_end(p);
}

static void
assert_kept(struct posted *p, uint64_t first)
{
    assert_int_equal(posts_wait(p), STATUS_OK);
    assert_int_equal(p->post.first, first);
    posts_end(p);
}

/* What one round could not keep, no later round lets another post overtake; the
 * posts of other lines, and of none, have nothing to do with it. Mended, the
 * line goes on. */
TEST(nothing_overtakes_a_post_of_its_line_that_was_refused)
{
    struct world *w = world_open(50000, 0);
    struct post_line line = {false}, other = {false};
    struct posted p[6];

    assert_int_equal(post(w, &w->a, 1, NULL), STATUS_OK);
    begin(&p[0], &w->a, &line, 1);
    hold(w, &p[0]);
    begin(&p[1], &w->a, &line, 1);
    begin(&p[2], &w->b, &line, 1); /* a line leads to any set */
    begin(&p[3], &w->a, &other, 1);
    begin(&p[4], &w->a, NULL, 1);
    begin(&p[5], &w->a, &line, 1);
    for (int i = 1; i < 6; i++)
        submit(w, &p[i]);
    refuse(w, 1);
    set_shut(w, false);

    assert_int_equal(posts_wait(&p[0]), STATUS_BUSY);
    assert_string_equal(p[0].post.why.text, "the disk is full");
    posts_end(&p[0]);
    assert_is_behind(&p[1]);
    assert_is_behind(&p[2]);
    assert_kept(&p[3], 2);
    assert_kept(&p[4], 3);
    assert_is_behind(&p[5]);
    assert_true(line.is_broken);
    assert_false(other.is_broken);

    line.is_broken = false;
    for (uint64_t i = 0; i < 2; i++) {
        begin(&p[i], &w->a, &line, 1);
        submit(w, &p[i]);
    }
    for (uint64_t i = 0; i < 2; i++)
        assert_kept(&p[i], 4 + i);
    assert_false(line.is_broken);
    world_close(w);
}

/* A round is refused as a whole, so what is in it with the first that fails has
 * not overtaken that; what comes behind it must not either. */
TEST(posts_of_one_line_fail_with_their_round)
{
    struct world *w = world_open(50000, 0);
    struct post_line line = {false};
    struct posted held, p[3];

    begin(&held, &w->b, NULL, 1);
    hold(w, &held);
    for (int i = 0; i < 2; i++) {
        begin(&p[i], &w->a, &line, 1);
        submit(w, &p[i]);
    }
    pthread_mutex_lock(&w->fake.mutex);
    w->fake.acceptances = 1;
    w->fake.refusals = 1;
    pthread_mutex_unlock(&w->fake.mutex);
    set_shut(w, false);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(posts_wait(&p[i]), STATUS_BUSY);
        assert_string_equal(p[i].post.why.text, "the disk is full");
        posts_end(&p[i]);
    }
    begin(&p[2], &w->a, &line, 1);
    submit(w, &p[2]);
    assert_is_behind(&p[2]);
    assert_kept(&held, 1);
    world_close(w);
}

static void
set_keys(struct world *w, bool is_out, bool is_blind)
{
    pthread_mutex_lock(&w->fake.mutex);
    w->fake.is_out_of_keys = is_out;
    w->fake.is_blind = is_blind;
    pthread_mutex_unlock(&w->fake.mutex);
}

/* Also one that failed before it was placed, with what is in its round; and a
 * repeat, of which the order of the log would say otherwise, waits its turn. */
TEST(nothing_overtakes_a_post_whose_key_has_no_place)
{
    struct world *w = world_open(50000, 0);

    for (int is_blind = 0; is_blind < 2; is_blind++) {
        struct post_line line = {false};
        struct posted first, held, p[3];

        begin(&first, &w->a, NULL, 1);
        give_key(&first, is_blind ? "before-1" : "before-2");
        submit(w, &first);
        assert_int_equal(posts_wait(&first), STATUS_OK);
        begin(&held, &w->b, NULL, 1);
        hold(w, &held);
        begin(&p[0], &w->a, &line, 1);
        give_key(&p[0], "new");
        begin(&p[1], &w->a, &line, 1);
        begin(&p[2], &w->a, &line, 1);
        give_key(&p[2], is_blind ? "before-1" : "before-2");
        for (int i = 0; i < 3; i++)
            submit(w, &p[i]);
        set_keys(w, !is_blind, is_blind);
        set_shut(w, false);

        assert_int_equal(posts_wait(&p[0]), is_blind ? STATUS_IO : STATUS_BUSY);
        assert_string_not_equal(p[0].post.why.text, BEHIND);
        posts_end(&p[0]);
        assert_is_behind(&p[1]);
        assert_is_behind(&p[2]);
        assert_int_equal(posts_wait(&held), STATUS_OK);
        set_keys(w, false, false);
        posts_end(&held);
        posts_end(&first);
    }
    world_close(w);
}

/* What is bad for ever is refused alone: nobody has to wait for it. */
TEST(a_post_that_is_bad_for_ever_breaks_no_line)
{
    struct world *w = world_open(50000, 0);
    struct post_line line = {false};
    struct posted p[3];

    begin(&p[0], &w->a, &line, 1);
    begin(&p[1], &w->a, &line, 2);
    give_key(&p[0], "k");
    give_key(&p[1], "k"); /* with other entries */
    begin(&p[2], &w->a, &line, 1);
    for (int i = 0; i < 3; i++) {
        submit(w, &p[i]);
        assert_int_equal(posts_wait(&p[i]), i == 1 ? STATUS_INVALID : 0);
    }
    assert_int_equal(p[2].post.first, 2);
    assert_false(line.is_broken);
    for (int i = 0; i < 3; i++)
        posts_end(&p[i]);
    world_close(w);
}

/* The owner that is told that its set was removed takes another. */
struct moving {
    struct posted posted;
    struct world *world;
    void (*on_done)(struct post *post);
};

static void
move(struct post *post)
{
    struct moving *m = list_entry(post, struct moving, posted.post);

    if (post->status == STATUS_GONE) {
        post->set = &m->world->b;
        committer_submit_again(&m->world->committer, post);
        return;
    }
    m->on_done(post);
}

static void
begin_moving(struct moving *m, struct world *w, struct post_line *line)
{
    m->world = w;
    begin(&m->posted, &w->a, line, 1);
    m->on_done = m->posted.post.done;
    m->posted.post.done = move;
}

/* Where a set was removed, what was posted to it goes to the next one: before
 * what was posted to that one later. */
TEST(a_post_to_a_removed_set_keeps_its_place)
{
    struct world *w = world_open(50000, 0);
    struct post_line line = {false};
    struct moving moving[2];
    struct posted held, removal, behind[2];

    assert_int_equal(post(w, &w->a, 1, NULL), STATUS_OK);
    begin(&held, &w->a, NULL, 1);
    hold(w, &held);
    posts_begin(&removal, POST_REMOVE, &w->a);
    submit(w, &removal);
    begin_moving(&moving[0], w, &line);
    submit(w, &moving[0].posted);
    begin(&behind[0], &w->b, &line, 1);
    submit(w, &behind[0]);
    begin_moving(&moving[1], w, &line);
    submit(w, &moving[1].posted);
    begin(&behind[1], &w->b, NULL, 1);
    submit(w, &behind[1]);
    set_shut(w, false);

    assert_kept(&held, 2);
    assert_int_equal(posts_wait(&removal), STATUS_OK);
    posts_end(&removal);
    assert_kept(&moving[0].posted, 1);
    assert_kept(&behind[0], 2);
    assert_kept(&moving[1].posted, 3);
    assert_kept(&behind[1], 4);
    assert_false(line.is_broken);
    world_close(w);
}

/* And when its line is broken it is not kept either. */
TEST(a_post_to_a_removed_set_waits_for_its_line)
{
    struct world *w = world_open(50000, 0);
    struct post_line line = {true};
    struct moving moving;
    struct posted removal;

    assert_int_equal(post(w, &w->a, 1, NULL), STATUS_OK);
    posts_begin(&removal, POST_REMOVE, &w->a);
    submit(w, &removal);
    assert_int_equal(posts_wait(&removal), STATUS_OK);
    begin_moving(&moving, w, &line);
    submit(w, &moving.posted);
    assert_is_behind(&moving.posted);
    posts_end(&removal);
    world_close(w);
}
