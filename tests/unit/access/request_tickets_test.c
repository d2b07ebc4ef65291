/*
 * request_tickets_test.c - tickets of a cluster: those of two brokers, `a` and
 * `b`, with the same tokens and the same keys.
 */
#include "broker/access/request_tickets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "broker/access/tickets.h"
#include "tests/clock.h"
#include "tests/support/shared_streams.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

struct broker {
    struct streams_seat of_tokens, of_tickets;
    struct tokens *tokens;
    struct request_tickets *tickets;
};

struct pair {
    struct tempdir dir;
    struct shared_streams of_tokens, of_tickets;
    struct clients clients;
    struct broker a, b;
    char text[TOKEN_TEXT_SIZE]; /* of the token "press" */
};

static enum status
follow(struct broker *b)
{
    struct problem why = {""};
    enum status rc = tokens_follow(b->tokens, &why);

    return rc ? rc
              : request_tickets_follow(b->tickets, &b->of_tickets.streams,
                                       &why);
}

static void
broker_begin(struct pair *p, struct broker *b, const char *name)
{
    struct problem why = {""};
    char dir[300];

    snprintf(dir, sizeof(dir), "%s/%s", p->dir.path, name);
    assert_int_equal(mkdir(dir, 0700), 0);
    streams_seat_take(&b->of_tokens, &p->of_tokens, name);
    streams_seat_take(&b->of_tickets, &p->of_tickets, name);
    if (tokens_open(&b->tokens, dir, &why) ||
        tokens_join(b->tokens, &b->of_tokens.streams, NULL, &why))
        fail_msg("%s", why.text);
    b->tickets = request_tickets_new(b->tokens, &p->clients);
    assert_non_null(b->tickets);
}

static void
add_token(struct broker *b, const char *name, char text[TOKEN_TEXT_SIZE])
{
    struct token_terms terms = {.ends_us = INT64_MAX};
    struct problem why = {""};

    snprintf(terms.name, sizeof(terms.name), "%s", name);
    snprintf(terms.rights.subscribe, PATTERNS_SIZE, "news");
    if (tokens_add(b->tokens, NULL, &terms, text, &why))
        fail_msg("%s", why.text);
}

static int
setup(void **state)
{
    struct pair *p = calloc(1, sizeof(*p));

    assert_non_null(p);
    tempdir_open(&p->dir);
    clients_init(&p->clients, 100);
    shared_streams_init(&p->of_tokens);
    shared_streams_init(&p->of_tickets);
    broker_begin(p, &p->a, "a");
    broker_begin(p, &p->b, "b");
    add_token(&p->a, "press", p->text);
    assert_int_equal(follow(&p->a), STATUS_OK);
    assert_int_equal(follow(&p->b), STATUS_OK);
    *state = p;
    return 0;
}

static int
teardown(void **state)
{
    struct pair *p = *state;

    request_tickets_free(p->a.tickets);
    request_tickets_free(p->b.tickets);
    tokens_close(p->a.tokens);
    tokens_close(p->b.tokens);
    clients_fini(&p->clients);
    shared_streams_fini(&p->of_tokens);
    shared_streams_fini(&p->of_tickets);
    tempdir_close(&p->dir);
    free(p);
    return 0;
}

FIXTURE(setup, teardown);

/* Makes a ticket of a token. */
static void
make(struct broker *b, const char *token, char ticket[REQUEST_TICKET_SIZE])
{
    struct principal *p =
        tokens_find(b->tokens, slice_of(token), clock_now_us());
    struct problem why = {""};

    assert_non_null(p);
    if (request_tickets_add(b->tickets, p, NULL, ticket, &why))
        fail_msg("%s", why.text);
    principal_unref(p);
}

/* True if the broker lets the ticket in, as the principal of that name. */
static bool
lets_in(struct broker *b, const char *ticket, const char *name)
{
    struct principal *p = request_tickets_take(b->tickets, slice_of(ticket));
    bool is_in = p && !strcmp(p->name, name);

    assert_true(is_in || !p);
    principal_unref(p);
    return is_in;
}

static bool
is_shared(const char *ticket)
{
    return strlen(ticket) == REQUEST_TICKET_SIZE - 1;
}

TEST(a_ticket_of_one_broker_is_good_once_at_each)
{
    struct pair *p = *state;
    char ticket[REQUEST_TICKET_SIZE], other[REQUEST_TICKET_SIZE];

    make(&p->a, p->text, ticket);
    make(&p->a, p->text, other);
    assert_true(is_shared(ticket));
    assert_true(lets_in(&p->b, ticket, "press"));
    assert_false(lets_in(&p->b, ticket, "press"));
    assert_true(lets_in(&p->a, ticket, "press"));
    assert_false(lets_in(&p->a, ticket, "press"));
    assert_true(lets_in(&p->b, other, "press"));
}

/* What a broker forgets is too old to be used again. */
TEST(a_shared_ticket_is_good_for_a_minute)
{
    struct pair *p = *state;
    char ticket[REQUEST_TICKET_SIZE];

    make(&p->a, p->text, ticket);
    clock_pass_us(TICKET_US - 1);
    assert_true(lets_in(&p->b, ticket, "press"));
    clock_pass_us(1);
    assert_false(lets_in(&p->a, ticket, "press"));
    clock_pass_us(TICKETS_USED_US);
    assert_false(lets_in(&p->b, ticket, "press"));
}

/* No byte of it may differ: else it would be another ticket, and good again. */
TEST(a_changed_ticket_is_none)
{
    struct pair *p = *state;
    char ticket[REQUEST_TICKET_SIZE], changed[REQUEST_TICKET_SIZE + 1];

    make(&p->a, p->text, ticket);
    for (size_t i = 0; i < REQUEST_TICKET_SIZE - 1; i++) {
        memcpy(changed, ticket, sizeof(ticket));
        changed[i] ^= 1;
        assert_false(lets_in(&p->b, changed, "press"));
        if (ticket[i] >= 'a') {
            changed[i] = (char)(ticket[i] - 'a' + 'A');
            assert_false(lets_in(&p->b, changed, "press"));
        }
    }
    snprintf(changed, sizeof(changed), "%s0", ticket);
    assert_false(lets_in(&p->b, changed, "press"));
    changed[REQUEST_TICKET_SIZE - 2] = '\0';
    assert_false(lets_in(&p->b, changed, "press"));
    assert_false(lets_in(&p->b, "", "press"));
    assert_true(lets_in(&p->b, ticket, "press"));
}

TEST(a_ticket_under_another_key_is_none)
{
    struct pair *p = *state;
    struct shared_streams others;
    struct streams_seat seat;
    struct request_tickets *foreign =
        request_tickets_new(p->a.tokens, &p->clients);
    struct broker forger = {.tokens = p->a.tokens, .tickets = foreign};
    char ticket[REQUEST_TICKET_SIZE];

    assert_non_null(foreign);
    shared_streams_init(&others);
    streams_seat_take(&seat, &others, "c");
    assert_int_equal(request_tickets_follow(foreign, &seat.streams, NULL),
                     STATUS_OK);
    make(&forger, p->text, ticket);
    assert_true(is_shared(ticket));
    assert_false(lets_in(&p->b, ticket, "press"));
    request_tickets_free(foreign);
    shared_streams_fini(&others);
}

TEST(a_ticket_ends_with_its_token_at_all_brokers)
{
    struct pair *p = *state;
    char ticket[REQUEST_TICKET_SIZE], text[TOKEN_TEXT_SIZE];

    make(&p->a, p->text, ticket);
    assert_int_equal(tokens_revoke(p->a.tokens, NULL, SLICE("press"), NULL),
                     STATUS_OK);
    assert_false(lets_in(&p->a, ticket, "press"));
    assert_int_equal(follow(&p->b), STATUS_OK);
    assert_false(lets_in(&p->b, ticket, "press"));
    /* The next token of that name is another one. */
    add_token(&p->b, "press", text);
    assert_false(lets_in(&p->b, ticket, "press"));
}

/* The last two keys count, and no third. */
TEST(keys_are_replaced)
{
    struct pair *p = *state;
    char first[REQUEST_TICKET_SIZE], second[REQUEST_TICKET_SIZE];
    size_t n_rows = p->of_tickets.n_rows;

    assert_int_equal(n_rows, 1);
    clock_pass_us(TICKET_KEY_US - 1);
    assert_int_equal(follow(&p->a), STATUS_OK);
    assert_int_equal(p->of_tickets.n_rows, 1);
    clock_pass_us(1);
    make(&p->b, p->text, first);
    assert_int_equal(follow(&p->a), STATUS_OK);
    assert_int_equal(p->of_tickets.n_rows, 2);
    /* `b` does not know the new key yet: `a` signs with the former one. */
    make(&p->a, p->text, second);
    assert_true(lets_in(&p->b, second, "press"));
    assert_int_equal(follow(&p->b), STATUS_OK);
    assert_int_equal(p->of_tickets.n_rows, 2);
    assert_true(lets_in(&p->a, first, "press"));
    assert_true(lets_in(&p->b, first, "press"));
    clock_pass_us(TICKET_KEY_NEW_US);
    make(&p->a, p->text, second);
    clock_pass_us(TICKET_KEY_US - TICKET_KEY_NEW_US);
    assert_int_equal(follow(&p->b), STATUS_OK);
    assert_int_equal(p->of_tickets.n_rows, 3);
    make(&p->a, p->text, second); /* by the second key; the first is gone */
    assert_int_equal(follow(&p->a), STATUS_OK);
    assert_true(lets_in(&p->b, second, "press"));
    assert_true(lets_in(&p->a, second, "press"));
}

/* A key that nobody replaces ends. */
TEST(a_broker_that_is_cut_off_gives_tickets_of_its_own)
{
    struct pair *p = *state;
    char ticket[REQUEST_TICKET_SIZE];

    streams_seat_cut(&p->a.of_tickets, true);
    clock_pass_us(2 * TICKET_KEY_US - 1);
    assert_int_equal(follow(&p->a), STATUS_UNREACHABLE);
    make(&p->a, p->text, ticket);
    assert_true(is_shared(ticket));
    assert_true(lets_in(&p->b, ticket, "press"));
    make(&p->a, p->text, ticket);
    clock_pass_us(1);
    assert_false(lets_in(&p->b, ticket, "press"));
    make(&p->a, p->text, ticket);
    assert_false(is_shared(ticket));
    assert_true(lets_in(&p->a, ticket, "press"));
    assert_false(lets_in(&p->b, ticket, "press"));
    streams_seat_cut(&p->a.of_tickets, false);
    assert_int_equal(follow(&p->a), STATUS_OK);
    assert_int_equal(follow(&p->b), STATUS_OK);
    make(&p->a, p->text, ticket);
    assert_true(lets_in(&p->b, ticket, "press"));
}

/* The table of tokens does not have it. */
TEST(a_ticket_of_a_json_web_token_holds_at_its_broker)
{
    static const struct rights rights = {.observe = true};
    struct pair *p = *state;
    struct principal *outside =
        principal_new(SLICE("jwt:0123:ada"), &rights, INT64_MAX);
    char ticket[REQUEST_TICKET_SIZE];

    assert_non_null(outside);
    assert_int_equal(
        request_tickets_add(p->a.tickets, outside, NULL, ticket, NULL),
        STATUS_OK);
    assert_false(lets_in(&p->b, ticket, "jwt:0123:ada"));
    assert_true(lets_in(&p->a, ticket, "jwt:0123:ada"));
    principal_unref(outside);
}

/* Another broker does not make a second key, also if the first one dies
 * meanwhile. */
TEST(one_broker_makes_a_key)
{
    struct pair *p = *state;
    struct lease lease = {.name = "tickets"};
    const struct streams_ops *ops = p->b.of_tickets.streams.ops;
    char ticket[REQUEST_TICKET_SIZE];

    clock_pass_us(TICKET_KEY_US);
    assert_int_equal(ops->hold(&p->b.of_tickets.streams, &lease, NULL),
                     STATUS_OK);
    assert_int_equal(follow(&p->a), STATUS_OK);
    assert_int_equal(p->of_tickets.n_rows, 1);
    clock_pass_us(LEASE_US + 1);
    p->a.of_tickets.outcome = APPEND_UNKNOWN_KEPT;
    assert_int_equal(follow(&p->a), STATUS_IO);
    p->a.of_tickets.outcome = APPEND_KEPT;
    assert_int_equal(p->of_tickets.n_rows, 2);
    assert_int_equal(follow(&p->a), STATUS_OK);
    assert_int_equal(follow(&p->b), STATUS_OK);
    assert_int_equal(p->of_tickets.n_rows, 2);
    clock_pass_us(TICKET_KEY_NEW_US);
    make(&p->a, p->text, ticket);
    assert_true(lets_in(&p->b, ticket, "press"));
}

/* A broker with a wrong clock: not a key a second. */
TEST(a_broker_makes_keys_seldom)
{
    struct pair *p = *state;

    clock_pass_us(TICKET_KEY_US);
    p->a.of_tickets.outcome = APPEND_LOST;
    assert_int_equal(follow(&p->a), STATUS_UNREACHABLE);
    p->a.of_tickets.outcome = APPEND_KEPT;
    clock_pass_us(TICKET_KEY_PAUSE_US - 1);
    assert_int_equal(follow(&p->a), STATUS_OK);
    assert_int_equal(p->of_tickets.n_rows, 1);
    clock_pass_us(1);
    assert_int_equal(follow(&p->a), STATUS_OK);
    assert_int_equal(p->of_tickets.n_rows, 2);
}

/* A single broker has no key. */
TEST(a_ticket_of_a_single_broker_is_in_its_memory)
{
    struct pair *p = *state;
    struct request_tickets *alone =
        request_tickets_new(p->a.tokens, &p->clients);
    struct broker single = {.tokens = p->a.tokens, .tickets = alone};
    char ticket[REQUEST_TICKET_SIZE];

    assert_non_null(alone);
    make(&single, p->text, ticket);
    assert_false(is_shared(ticket));
    assert_true(lets_in(&single, ticket, "press"));
    assert_false(lets_in(&single, ticket, "press"));
    request_tickets_free(alone);
}

/* The used tickets of one owner leave room for those of others, and are
 * forgotten. */
TEST(used_tickets_count_for_their_owner)
{
    struct pair *p = *state;
    char press[REQUEST_TICKET_SIZE], other[TOKEN_TEXT_SIZE];

    clients_limit_each(&p->clients, CLIENT_USED_TICKETS, 2);
    add_token(&p->a, "desk", other);
    for (int i = 0; i < 2; i++) {
        make(&p->a, p->text, press);
        assert_true(lets_in(&p->a, press, "press"));
    }
    make(&p->a, p->text, press);
    assert_true(is_shared(press));
    assert_false(lets_in(&p->a, press, "press"));
    make(&p->a, other, press);
    assert_true(lets_in(&p->a, press, "desk"));
    clock_pass_us(TICKETS_USED_US);
    make(&p->a, p->text, press);
    assert_true(lets_in(&p->a, press, "press"));
}
