/*
 * effort_test.c - turns of long work.
 */
#include "broker/base/effort.h"

#include "tests/test.h"

#define N 12

struct stage {
    struct clients clients;
    struct client *a, *b;
    struct efforts efforts;
    struct effort each[N];
    char begun[N + 1]; /* a letter for each that has begun, in order */
};

static struct stage *stage;

static void
note_begun(struct effort *effort)
{
    size_t n = strlen(stage->begun);

    stage->begun[n] = (char)('a' + (effort - stage->each));
}

static int
set_stage(void **state)
{
    static const struct client_key key = {CLIENT_IS_USER, "b"};

    stage = calloc(1, sizeof(*stage));
    assert_non_null(stage);
    clients_init(&stage->clients, 50);
    clients_limit_all(&stage->clients, CLIENT_EFFORTS, 8);
    efforts_init(&stage->efforts, 1);
    stage->a = client_of_user(&stage->clients, 7);
    stage->b = client_of(&stage->clients, &key);
    for (size_t i = 0; i < N; i++)
        stage->each[i] = (struct effort){
            .efforts = &stage->efforts, .begin = note_begun, .most = 100};
    *state = stage;
    return 0;
}

static int
clear_stage(void **state)
{
    struct stage *s = *state;

    for (size_t i = 0; i < N; i++)
        effort_leave(&s->each[i]);
    client_unref(s->a);
    client_unref(s->b);
    clients_fini(&s->clients);
    free(s);
    return 0;
}

static enum status
wait_turn(struct stage *s, size_t i, struct client *client)
{
    return effort_wait(&s->each[i], &s->clients, client, NULL);
}

/* One is at work at a time; those of a client that has many wait, and one of
 * another client waits for one of these. */
TEST(clients_take_turns, set_stage, clear_stage)
{
    struct stage *s = *state;

    for (size_t i = 0; i < 3; i++)
        assert_int_equal(wait_turn(s, i, s->a), STATUS_OK);
    assert_int_equal(wait_turn(s, 3, s->b), STATUS_OK);
    assert_int_equal(wait_turn(s, 4, NULL), STATUS_OK);
    assert_string_equal(s->begun, "a");
    for (size_t i = 0; i < 5; i++)
        effort_end(&s->each[0]);
    assert_string_equal(s->begun, "abdec");
    assert_int_equal(s->efforts.n, 0);
    assert_int_equal(wait_turn(s, 5, s->a), STATUS_OK);
    assert_string_equal(s->begun, "abdecf");
}

/* A client has its share of places (CLIENT_EFFORTS), until it leaves one. */
TEST(a_client_has_its_share, set_stage, clear_stage)
{
    struct stage *s = *state;
    size_t n = 0;

    while (!wait_turn(s, n, s->a))
        n++;
    assert_int_equal(n, 4);
    assert_int_equal(wait_turn(s, 5, s->b), STATUS_OK);
    effort_leave(&s->each[0]);
    assert_int_equal(wait_turn(s, 4, s->a), STATUS_OK);
}

/* The client goes away: an effort that waits never begins, and one at work
 * stops. */
TEST(work_ends_with_its_client, set_stage, clear_stage)
{
    struct stage *s = *state;

    for (size_t i = 0; i < 3; i++)
        assert_int_equal(wait_turn(s, i, s->a), STATUS_OK);
    assert_true(effort_cancel(&s->each[1]));
    assert_false(effort_cancel(&s->each[0]));
    assert_false(effort_spend(&s->each[0], 1));
    assert_int_equal(effort_why(&s->each[0], STATUS_IO, NULL), STATUS_STOPPED);
    effort_end(&s->each[0]);
    assert_string_equal(s->begun, "ac");
    assert_false(effort_cancel(&s->each[1]));
    effort_end(&s->each[2]);
    assert_int_equal(s->efforts.n, 0);
}

/* What was spent counts until the next turn. */
TEST(a_turn_is_used_up, set_stage, clear_stage)
{
    struct stage *s = *state;
    struct effort *e = &s->each[0];

    assert_int_equal(wait_turn(s, 0, s->a), STATUS_OK);
    assert_true(effort_spend(e, 99) && effort_spend(e, 1));
    assert_int_equal(effort_why(e, STATUS_OK, NULL), STATUS_OK);
    assert_false(effort_is_used_up(e));
    assert_false(effort_spend(e, 1));
    assert_true(effort_is_used_up(e));
    assert_int_equal(effort_why(e, STATUS_STOPPED, NULL), STATUS_LIMITED);
    assert_int_equal(wait_turn(s, 0, s->a), STATUS_OK);
    assert_true(effort_spend(e, 100));
    assert_true(effort_spend(NULL, UINT64_MAX));
    assert_int_equal(effort_why(NULL, STATUS_IO, NULL), STATUS_IO);
}
