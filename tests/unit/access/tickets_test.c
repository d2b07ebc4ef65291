/*
 * tickets_test.c - one-time passes.
 */
#include "broker/access/tickets.h"

#include "tests/clock.h"
#include "tests/test.h"

static struct principal *
make_principal(void)
{
    static const struct rights rights = {.observe = true};
    struct principal *p = principal_new(SLICE("press"), &rights, INT64_MAX);

    assert_non_null(p);
    return p;
}

static bool
takes(struct tickets *tickets, const char *text, struct principal *wanted)
{
    struct principal *found = tickets_take(tickets, slice_of(text));
    bool is_found = found == wanted;

    principal_unref(found);
    return is_found;
}

TEST(a_ticket_is_good_for_one_use_and_a_minute)
{
    struct tickets *tickets = tickets_new();
    struct principal *p = make_principal();
    char one[TICKET_TEXT_SIZE], other[TICKET_TEXT_SIZE];

    assert_int_equal(tickets_add(tickets, p, one, NULL), STATUS_OK);
    assert_int_equal(tickets_add(tickets, p, other, NULL), STATUS_OK);
    assert_true(takes(tickets, one, p));
    assert_true(takes(tickets, one, NULL));
    assert_true(takes(tickets, "", NULL));
    clock_pass_us(TICKET_US - 1);
    assert_true(takes(tickets, other, p));
    assert_int_equal(tickets_add(tickets, p, one, NULL), STATUS_OK);
    clock_pass_us(TICKET_US);
    assert_true(takes(tickets, one, NULL));
    principal_unref(p);
    tickets_free(tickets);
}

/* One principal cannot take the room of all; old tickets make room. */
TEST(tickets_are_bounded)
{
    struct tickets *tickets = tickets_new();
    struct principal *p = make_principal(), *other = make_principal();
    char text[TICKET_TEXT_SIZE];

    for (int i = 0; i < TICKETS_EACH; i++)
        assert_int_equal(tickets_add(tickets, p, text, NULL), STATUS_OK);
    assert_int_equal(tickets_add(tickets, p, text, NULL), STATUS_LIMITED);
    assert_int_equal(tickets_add(tickets, other, text, NULL), STATUS_OK);
    clock_pass_us(TICKET_US);
    assert_int_equal(tickets_add(tickets, p, text, NULL), STATUS_OK);
    principal_unref(p);
    principal_unref(other);
    tickets_free(tickets);
}
