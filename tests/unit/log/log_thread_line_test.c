/*
 * log_thread_line_test.c - posts in a line: in their order, or not.
 */
#include <stdatomic.h>

#include "broker/log/log_thread.h"
#include "tests/test.h"
#include "tests/unit/log/rounds.h"

#define BEHIND "an earlier post that must come first was not committed"

/* A post of `n` entries in `line`. */
static struct posted *
in_line(struct world *w, struct log_set *set, struct post_line *line,
        unsigned n)
{
    struct posted *p = changes(w, set, n);

    p->post.line = line;
    return p;
}

static void
assert_is_behind(struct posted *p)
{
    assert_refused(p, STATUS_BUSY, BEHIND);
}

FIXTURE(world_setup, world_teardown);

/* After a round fails to keep a post, no later round lets another post of its
 * line overtake it; posts of other lines, and of none, go on. When the line is
 * mended, it goes on. */
TEST(nothing_overtakes_a_post_of_its_line_that_was_refused)
{
    struct world *w = *state;
    struct post_line line = {false}, other = {false};
    struct posted *p[6];

    assert_int_equal(post(w, &w->a, 1, NULL), STATUS_OK);
    p[0] = hold(w, in_line(w, &w->a, &line, 1));
    p[1] = submit(w, in_line(w, &w->a, &line, 1));
    p[2] = submit(w, in_line(w, &w->b, &line, 1)); /* it leads to any set */
    p[3] = submit(w, in_line(w, &w->a, &other, 1));
    p[4] = submit(w, changes(w, &w->a, 1));
    p[5] = submit(w, in_line(w, &w->a, &line, 1));
    refuse(w, 1);
    set_shut(w, false);

    assert_refused(p[0], STATUS_BUSY, "the disk is full");
    assert_is_behind(p[1]);
    assert_is_behind(p[2]);
    assert_kept(p[3], 2);
    assert_kept(p[4], 3);
    assert_is_behind(p[5]);
    assert_true(line.is_broken);
    assert_false(other.is_broken);

    line.is_broken = false;
    for (int i = 0; i < 2; i++)
        p[i] = submit(w, in_line(w, &w->a, &line, 1));
    for (int i = 0; i < 2; i++)
        assert_kept(p[i], (uint64_t)4 + i);
    assert_false(line.is_broken);
}

/* A round is refused as a whole: its other posts have not overtaken the first
 * that fails, and the posts behind it must not either. */
TEST(posts_of_one_line_fail_with_their_round)
{
    struct world *w = *state;
    struct post_line line = {false};
    struct posted *held = hold(w, changes(w, &w->b, 1)), *p[2];

    for (int i = 0; i < 2; i++)
        p[i] = submit(w, in_line(w, &w->a, &line, 1));
    refuse_after(w, 1, 1);
    set_shut(w, false);
    for (int i = 0; i < 2; i++)
        assert_refused(p[i], STATUS_BUSY, "the disk is full");
    assert_is_behind(submit(w, in_line(w, &w->a, &line, 1)));
    assert_kept(held, 1);
}

static void
set_keys(struct world *w, bool is_out, bool is_blind)
{
    pthread_mutex_lock(&w->fake.mutex);
    w->fake.is_out_of_keys = is_out;
    w->fake.is_blind = is_blind;
    pthread_mutex_unlock(&w->fake.mutex);
}

/* Also a post that failed before it was placed, with the rest of its round; and
 * a repeat, although the log may know its answer, waits its turn.
 */
TEST(nothing_overtakes_a_post_whose_key_has_no_place)
{
    struct world *w = *state;

    for (int is_blind = 0; is_blind < 2; is_blind++) {
        const char *key = is_blind ? "before-1" : "before-2";
        struct post_line line = {false};
        struct posted *held, *p[3], *first = changes(w, &w->a, 1);

        give_key(first, key);
        assert_int_equal(posts_wait(submit(w, first)), STATUS_OK);
        held = hold(w, changes(w, &w->b, 1));
        for (int i = 0; i < 3; i++)
            p[i] = in_line(w, &w->a, &line, 1);
        give_key(p[0], "new");
        give_key(p[2], key);
        for (int i = 0; i < 3; i++)
            submit(w, p[i]);
        set_keys(w, !is_blind, is_blind);
        set_shut(w, false);

        assert_int_equal(posts_wait(p[0]), is_blind ? STATUS_IO : STATUS_BUSY);
        assert_string_not_equal(p[0]->post.why.text, BEHIND);
        assert_is_behind(p[1]);
        assert_is_behind(p[2]);
        assert_int_equal(posts_wait(held), STATUS_OK);
        set_keys(w, false, false);
    }
}

/* A post that is bad for ever is refused alone: no other post has to wait for
 * it. */
TEST(a_post_that_is_bad_for_ever_breaks_no_line)
{
    struct world *w = *state;
    struct post_line line = {false};
    struct posted *p[3];

    for (int i = 0; i < 3; i++) {
        p[i] = in_line(w, &w->a, &line, i == 1 ? 2 : 1);
        if (i < 2)
            give_key(p[i], "k"); /* the second with other entries */
        submit(w, p[i]);
        assert_int_equal(posts_wait(p[i]), i == 1 ? STATUS_INVALID : 0);
    }
    assert_int_equal(p[2]->post.first, 2);
    assert_false(line.is_broken);
}

/* An owner that learns of the removal of its set takes another set. */
struct moving {
    struct posted *posted;
    struct world *world;
    void (*on_done)(struct post *post);
};

static struct moving moving[2];

static void
move(struct post *post)
{
    struct moving *m = &moving[post != &moving[0].posted->post];

    if (post->status == STATUS_GONE) {
        post->set = &m->world->b;
        list_prepend(&m->world->log_thread.waiting, &post->node);
        return;
    }
    m->on_done(post);
}

static void
submit_moving(struct moving *m, struct world *w, struct post_line *line)
{
    m->world = w;
    m->posted = in_line(w, &w->a, line, 1);
    m->on_done = m->posted->post.done;
    m->posted->post.done = move;
    submit(w, m->posted);
}

/* A post to a removed set goes to the next set of that name: before later posts
 * to that. */
TEST(a_post_to_a_removed_set_keeps_its_place)
{
    struct world *w = *state;
    struct post_line line = {false};
    struct posted *held, *removal, *behind[2];

    assert_int_equal(post(w, &w->a, 1, NULL), STATUS_OK);
    held = hold(w, changes(w, &w->a, 1));
    removal = submit(w, make_act(w, ACT_REMOVAL, &w->a));
    submit_moving(&moving[0], w, &line);
    behind[0] = submit(w, in_line(w, &w->b, &line, 1));
    submit_moving(&moving[1], w, &line);
    behind[1] = submit(w, changes(w, &w->b, 1));
    set_shut(w, false);

    assert_kept(held, 2);
    assert_int_equal(posts_wait(removal), STATUS_OK);
    assert_kept(moving[0].posted, 1);
    assert_kept(behind[0], 2);
    assert_kept(moving[1].posted, 3);
    assert_kept(behind[1], 4);
    assert_false(line.is_broken);
}

/* And when its line is broken it is not kept either. */
TEST(a_post_to_a_removed_set_waits_for_its_line)
{
    struct world *w = *state;
    struct post_line line = {true};

    assert_int_equal(post(w, &w->a, 1, NULL), STATUS_OK);
    assert_int_equal(posts_wait(submit(w, make_act(w, ACT_REMOVAL, &w->a))),
                     STATUS_OK);
    submit_moving(&moving[0], w, &line);
    assert_is_behind(moving[0].posted);
}
