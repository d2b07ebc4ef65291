/*
 * tickets_test.c - one-time passes.
 */
#include "broker/access/tickets.h"

#include "base/clock.h"
#include "tests/clock.h"
#include "tests/test.h"

static struct clients clients;

static int
setup(void **state)
{
    (void)state;
    clients_init(&clients, 25);
    return 0;
}

static int
teardown(void **state)
{
    (void)state;
    for (int kind = 0; kind < CLIENT_KINDS; kind++)
        assert_int_equal(clients_held(&clients, kind), 0);
    assert_null(clients.tree);
    clients_fini(&clients);
    return 0;
}

FIXTURE(setup, teardown);

/* One of the tokens of that name. */
static struct principal *
make_principal_of(const char *name)
{
    static const struct rights rights = {.observe = true};
    struct principal *p = principal_new(slice_of(name), &rights, INT64_MAX);

    assert_non_null(p);
    return p;
}

static struct principal *
make_principal(void)
{
    return make_principal_of("press");
}

static enum status
add(struct tickets *tickets, struct principal *p, char text[TICKET_TEXT_SIZE])
{
    struct client *owner = client_of_owner(&clients, slice_of(p->name));
    enum status rc = tickets_add(tickets, p, owner, text, NULL);

    client_unref(owner);
    return rc;
}

static bool
takes(struct tickets *tickets, const char *text, struct principal *wanted)
{
    struct principal *found = tickets_find(tickets, slice_of(text), true, NULL);
    bool is_found = found == wanted;

    principal_unref(found);
    return is_found;
}

TEST(a_ticket_is_good_for_one_use_and_a_minute)
{
    struct tickets *tickets = tickets_new(&tickets_of_requests, &clients);
    struct principal *p = make_principal();
    char one[TICKET_TEXT_SIZE], other[TICKET_TEXT_SIZE];

    assert_int_equal(add(tickets, p, one), STATUS_OK);
    assert_int_equal(add(tickets, p, other), STATUS_OK);
    assert_true(takes(tickets, one, p));
    assert_true(takes(tickets, one, NULL));
    assert_true(takes(tickets, "", NULL));
    clock_pass_us(TICKET_US - 1);
    assert_true(takes(tickets, other, p));
    assert_int_equal(add(tickets, p, one), STATUS_OK);
    clock_pass_us(TICKET_US);
    assert_true(takes(tickets, one, NULL));
    principal_unref(p);
    tickets_free(tickets);
}

/* One owner cannot take the room of all, however many tokens it has; old
 * tickets make room. */
TEST(tickets_are_bounded)
{
    struct tickets *tickets = tickets_new(&tickets_of_requests, &clients);
    struct principal *p[10], *other = make_principal_of("desk");
    char text[TICKET_TEXT_SIZE];

    for (int i = 0; i < 10; i++)
        p[i] = make_principal();
    for (int i = 0; i < TICKETS_EACH; i++)
        assert_int_equal(add(tickets, p[i % 10], text), STATUS_OK);
    for (int i = 0; i < 10; i++)
        assert_int_equal(add(tickets, p[i], text), STATUS_LIMITED);
    assert_int_equal(add(tickets, other, text), STATUS_OK);
    clock_pass_us(TICKET_US);
    assert_int_equal(add(tickets, p[0], text), STATUS_OK);
    for (int i = 0; i < 10; i++)
        principal_unref(p[i]);
    principal_unref(other);
    tickets_free(tickets);
}

static bool
finds(struct tickets *sessions, const char *text, struct principal *wanted)
{
    struct authority *authority;
    struct principal *found =
        tickets_find(sessions, slice_of(text), false, &authority);
    bool is_found = found == wanted;

    authority_unref(authority);
    principal_unref(found);
    return is_found;
}

TEST(a_session_is_good_for_many_uses_and_half_a_day)
{
    struct tickets *sessions = tickets_new(&tickets_of_sessions, &clients);
    struct principal *p = make_principal();
    char text[TICKET_TEXT_SIZE];

    assert_int_equal(add(sessions, p, text), STATUS_OK);
    clock_pass_us(SESSION_US - 1);
    assert_true(finds(sessions, text, p));
    assert_true(finds(sessions, text, p));
    clock_pass_us(1);
    assert_true(finds(sessions, text, NULL));
    assert_int_equal(add(sessions, p, text), STATUS_OK);
    assert_true(takes(sessions, text, p));
    assert_true(finds(sessions, text, NULL));
    principal_unref(p);
    tickets_free(sessions);
}

/* Its authority is that of its principal, until somebody signs out. */
TEST(what_a_session_began_ends_with_it_and_with_its_principal)
{
    struct tickets *sessions = tickets_new(&tickets_of_sessions, &clients);
    struct principal *p = make_principal();
    char one[TICKET_TEXT_SIZE], other[TICKET_TEXT_SIZE];
    struct authority *first, *second;

    assert_int_equal(add(sessions, p, one), STATUS_OK);
    assert_int_equal(add(sessions, p, other), STATUS_OK);
    principal_unref(tickets_find(sessions, slice_of(one), false, &first));
    principal_unref(tickets_find(sessions, slice_of(other), false, &second));
    assert_false(authority_is_over(first, clock_now_us()));
    assert_true(takes(sessions, one, p));
    assert_true(authority_is_over(first, clock_now_us()));
    assert_false(authority_is_over(second, clock_now_us()));
    assert_false(principal_is_over(p, clock_now_us()));
    principal_end(p, 0);
    assert_true(authority_is_over(second, clock_now_us()));
    authority_unref(first);
    principal_unref(p);
    tickets_free(sessions);
    assert_true(authority_is_over(second, clock_now_us()));
    authority_unref(second); /* the last reference to the principal, too */
}

/* A script that signs in again and again keeps nobody out: its oldest session
 * ends. */
TEST(a_session_replaces_the_oldest_of_its_owner)
{
    struct tickets *sessions = tickets_new(&tickets_of_sessions, &clients);
    struct principal *p = make_principal(), *other = make_principal_of("desk");
    char first[TICKET_TEXT_SIZE], second[TICKET_TEXT_SIZE];
    char text[TICKET_TEXT_SIZE], others[TICKET_TEXT_SIZE];

    assert_int_equal(add(sessions, other, others), STATUS_OK);
    assert_int_equal(add(sessions, p, first), STATUS_OK);
    assert_int_equal(add(sessions, p, second), STATUS_OK);
    for (int i = 2; i <= SESSIONS_EACH; i++)
        assert_int_equal(add(sessions, p, text), STATUS_OK);
    assert_true(finds(sessions, first, NULL));
    assert_true(finds(sessions, second, p));
    assert_true(finds(sessions, others, other));
    principal_unref(p);
    principal_unref(other);
    tickets_free(sessions);
}

/* All sessions together are bounded; those whose tokens ended make room. */
TEST(sessions_of_ended_tokens_make_room)
{
    struct tickets *sessions = tickets_new(&tickets_of_sessions, &clients);
    struct principal *some[SESSIONS_ALL / SESSIONS_EACH], *p = make_principal();
    char text[TICKET_TEXT_SIZE], name[16];

    for (int i = 0; i < SESSIONS_ALL; i++) {
        snprintf(name, sizeof(name), "owner%d", i / SESSIONS_EACH);
        if (i % SESSIONS_EACH == 0)
            some[i / SESSIONS_EACH] = make_principal_of(name);
        assert_int_equal(add(sessions, some[i / SESSIONS_EACH], text),
                         STATUS_OK);
    }
    assert_int_equal(add(sessions, p, text), STATUS_BUSY);
    principal_end(some[7], clock_now_us());
    assert_int_equal(add(sessions, p, text), STATUS_OK);
    for (int i = 0; i < SESSIONS_ALL / SESSIONS_EACH; i++)
        principal_unref(some[i]);
    principal_unref(p);
    tickets_free(sessions);
}
