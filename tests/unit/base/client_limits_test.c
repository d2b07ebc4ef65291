#include "broker/base/client_limits.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>

#include "proto/http/network_address.h"
#include "tests/clock.h"
#include "tests/test.h"

static struct client *
at(struct clients *clients, const char *text)
{
    struct sockaddr_storage address;

    assert_true(address_read(text, &address));
    return client_at(clients, (struct sockaddr *)&address);
}

/* The owner of one IPv6 address has all of the first 64 bits; IPv4 is the same
 * in both of its spellings. */
TEST(clients_are_addresses)
{
    static const struct {
        const char *one, *other, *name;
        bool are_same;
    } rows[] = {
        {"192.0.2.1", "192.0.2.1", "192.0.2.1", true},
        {"192.0.2.1", "192.0.2.2", "192.0.2.1", false},
        {"192.0.2.1", "::ffff:192.0.2.1", "192.0.2.1", true},
        {"::ffff:192.0.2.1", "::ffff:192.0.2.2", "192.0.2.1", false},
        {"2001:db8::1", "2001:db8::2:3", "2001:db8::", true},
        {"2001:db8::1", "2001:db8:0:1::1", "2001:db8::", false},
        {"::1", "0.0.0.1", "::", false},
    };
    struct clients clients;
    char name[CLIENT_NAME_SIZE];

    clients_init(&clients, 25);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct client *one = at(&clients, rows[i].one);
        struct client *other = at(&clients, rows[i].other);

        assert_int_equal(one == other, rows[i].are_same);
        client_name(one, name);
        assert_string_equal(name, rows[i].name);
        client_unref(one);
        client_unref(other);
    }
    client_name(NULL, name);
    assert_string_equal(name, "");
    assert_null(client_at(&clients, &(struct sockaddr){AF_UNIX}));
    /* Nobody refers to a client any more, so that none is there. */
    assert_null(clients.tree);
    clients_fini(&clients);
}

/* Each client has its own limit, independent of the others. */
TEST(each_client_has_its_own_limit)
{
    struct problem why = {""};
    struct clients clients;
    struct client *one, *other;

    clients_init(&clients, 25);
    clients_limit_each(&clients, CLIENT_STREAMS, 3);
    one = at(&clients, "192.0.2.1");
    other = at(&clients, "192.0.2.2");
    for (int i = 0; i < 3; i++)
        assert_int_equal(clients_take(&clients, one, CLIENT_STREAMS, 1, NULL),
                         0);
    assert_int_equal(clients_take(&clients, one, CLIENT_STREAMS, 1, &why),
                     STATUS_LIMITED);
    assert_string_equal(why.text, "your address has as many streams as one "
                                  "client may have: 3");
    assert_int_equal(clients_take(&clients, one, CLIENT_CONNECTIONS, 1, NULL),
                     0);
    assert_int_equal(clients_take(&clients, other, CLIENT_STREAMS, 1, NULL), 0);
    assert_int_equal(clients_take(&clients, NULL, CLIENT_STREAMS, 9, NULL), 0);
    assert_int_equal(client_held(one, CLIENT_STREAMS), 3);
    assert_int_equal(clients_held(&clients, CLIENT_STREAMS), 13);

    clients_give(&clients, one, CLIENT_STREAMS, 1);
    assert_int_equal(clients_take(&clients, one, CLIENT_STREAMS, 1, NULL), 0);
    clients_give(&clients, one, CLIENT_STREAMS, 3);
    clients_give(&clients, one, CLIENT_CONNECTIONS, 1);
    clients_give(&clients, other, CLIENT_STREAMS, 1);
    clients_give(&clients, NULL, CLIENT_STREAMS, 9);
    assert_int_equal(clients_held(&clients, CLIENT_STREAMS), 0);
    client_unref(one);
    client_unref(other);
    clients_fini(&clients);
}

/* No client has over a quarter of the common memory, as long as it has more
 * than one post. A single post may have all. */
TEST(nobody_has_over_a_quarter_unless_by_one_post)
{
    struct holding first, second, others, nobodys = {.clients = NULL};
    struct problem why = {""};
    struct clients clients;
    struct client *one, *other;

    clients_init(&clients, 25);
    clients_limit_all(&clients, CLIENT_POSTS, 1000);
    one = at(&clients, "192.0.2.1");
    other = at(&clients, "192.0.2.2");
    holding_init(&first, &clients, one, CLIENT_POSTS);
    holding_init(&second, &clients, one, CLIENT_POSTS);
    holding_init(&others, &clients, other, CLIENT_POSTS);
    client_unref(one);
    client_unref(other);

    assert_int_equal(holding_add(&first, 200, NULL), 0);
    assert_int_equal(holding_add(&second, 50, NULL), 0);
    assert_int_equal(holding_add(&second, 1, &why), STATUS_LIMITED);
    assert_string_equal(why.text, "your address posts as much at a time as one "
                                  "client may post: 250 bytes of memory");
    assert_int_equal(holding_add(&first, 1, NULL), STATUS_LIMITED);
    assert_false(holding_try(&first, 1));
    assert_int_equal(holding_add(&others, 250, NULL), 0);

    holding_end(&second);
    assert_int_equal(holding_add(&first, 500, NULL), 0); /* 700 of its own */
    assert_int_equal(holding_add(&first, 51, &why), STATUS_BUSY);
    assert_string_equal(why.text, "too much is being posted at the moment");
    assert_int_equal(holding_add(&others, 50, NULL), 0);
    assert_false(clients_have_room(&clients, CLIENT_POSTS, 1));
    holding_release(&others, 100);
    assert_true(clients_have_room(&clients, CLIENT_POSTS, 100));

    holding_end(&first);
    holding_end(&others);
    holding_end(&nobodys);
    assert_int_equal(clients_held(&clients, CLIENT_POSTS), 0);
    assert_null(clients.tree);
    clients_fini(&clients);
}

enum { MANY = 5000 };

/* A client exists as long as anybody refers to it. */
TEST(forgets_clients_that_have_nothing)
{
    static struct client *all[MANY];
    struct client_key hub = {.kind = CLIENT_IS_HUB};
    struct clients clients;
    char text[64];

    clients_init(&clients, 25);
    for (int i = 0; i < MANY; i++) {
        snprintf(text, sizeof(text), "10.0.%d.%d", i / 250, i % 250);
        all[i] = at(&clients, text);
        assert_ptr_equal(client_ref(all[i]), all[i]);
    }
    assert_ptr_equal(at(&clients, "10.0.3.7"), all[757]);
    client_unref(all[757]);
    for (int i = 0; i < MANY; i++) {
        client_unref(all[i]);
        client_unref(all[MANY - 1 - i]);
    }
    assert_null(clients.tree);

    all[0] = client_of(&clients, &hub);
    client_name(all[0], text);
    assert_string_equal(text, "hub");
    client_unref(all[0]);
    all[0] = client_of_user(&clients, 33);
    all[1] = client_of_user(&clients, 34);
    assert_ptr_not_equal(all[0], all[1]);
    client_name(all[0], text);
    assert_string_equal(text, "uid 33");
    client_unref(all[0]);
    client_unref(all[1]);
    client_unref(NULL);
    clients_fini(&clients);
}

/* Checks that the client may use the rate now; else returns the wait. */
static int64_t
wait_of(struct clients *clients, struct client *client)
{
    struct client_charge charge = {.wait_us = 0};
    struct problem why = {""};

    return clients_check_rates(clients, client, &charge, &why) ? charge.wait_us
                                                               : 0;
}

/* Ten seconds of a rate at once, and then as much as the time brings. What an
 * allowed post uses beyond that is waited for. */
TEST(a_rate_has_a_burst_and_a_debt)
{
    struct clients clients;
    struct client *one, *other;

    clients_init(&clients, 25);
    clients_limit_rate(&clients, CLIENT_POST_RATE, 2);
    clients_limit_rate(&clients, CLIENT_BYTE_RATE, 100);
    one = at(&clients, "192.0.2.1");
    other = client_of_owner(&clients, SLICE("press"));
    for (int i = 0; i < 2 * CLIENT_BURST_S; i++) {
        assert_int_equal(wait_of(&clients, one), 0);
        clients_charge(&clients, one, CLIENT_POST_RATE, 1);
    }
    assert_in_range(wait_of(&clients, one), 1, 500001);
    assert_int_equal(wait_of(&clients, other), 0);
    clock_pass_us(500001);
    assert_int_equal(wait_of(&clients, one), 0);
    clients_charge(&clients, one, CLIENT_BYTE_RATE, 5000);
    assert_in_range(wait_of(&clients, one), 39000000, 40000001);
    clock_pass_us(40000001);
    assert_int_equal(wait_of(&clients, one), 0);
    client_unref(one);
    client_unref(other);
    clients_fini(&clients);
}

/* A client that ends its connection does not get rid of its debt; one that has
 * paid leaves the table. */
TEST(a_debt_outlives_the_connection)
{
    struct clients clients;
    struct client *one;

    clients_init(&clients, 25);
    clients_limit_rate(&clients, CLIENT_POST_RATE, 1);
    one = at(&clients, "192.0.2.1");
    clients_charge(&clients, one, CLIENT_POST_RATE, 20);
    client_unref(one);
    clients_settle(&clients);
    one = at(&clients, "192.0.2.1");
    assert_true(wait_of(&clients, one) > 0);
    client_unref(one);
    clock_pass_us(20000001);
    assert_non_null(clients.tree);
    clients_settle(&clients);
    assert_null(clients.tree);
    clients_fini(&clients);
}

/* Without a rate a client pays nothing. */
TEST(a_rate_of_zero_is_none)
{
    struct clients clients;
    struct client *one;

    clients_init(&clients, 25);
    one = at(&clients, "192.0.2.1");
    clients_charge(&clients, one, CLIENT_POST_RATE, 1000000);
    assert_int_equal(wait_of(&clients, one), 0);
    client_unref(one);
    assert_null(clients.tree);
    clients_fini(&clients);
}

TEST(owners_are_told_apart_by_their_names)
{
    struct clients clients;
    struct client *one, *same, *other;
    char name[CLIENT_NAME_SIZE];

    clients_init(&clients, 25);
    one = client_of_owner(&clients, SLICE("press"));
    same = client_of_owner(&clients, SLICE("press"));
    other = client_of_owner(&clients, SLICE("desk"));
    assert_ptr_equal(one, same);
    assert_ptr_not_equal(one, other);
    client_name(one, name);
    assert_string_equal(name, "token press");
    client_unref(one);
    client_unref(same);
    client_unref(other);
    clients_fini(&clients);
}

/* A name that the hub's database has is the same client again; no other text is
 * one of these. */
TEST(clients_are_found_by_their_names)
{
    static const struct {
        const char *name, *found;
    } rows[] = {
        {"192.0.2.1", "192.0.2.1"},
        {"::ffff:192.0.2.1", "192.0.2.1"},
        {"2001:db8::1", "2001:db8::"},
        {"uid 33", "uid 33"},
        {"hub", "hub"},
        {"token press", "hub"},
        {"", "hub"},
    };
    struct clients clients;
    char name[CLIENT_NAME_SIZE];

    clients_init(&clients, 25);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct client *client = client_named(&clients, rows[i].name);

        client_name(client, name);
        assert_string_equal(name, rows[i].found);
        client_unref(client);
    }
    clients_fini(&clients);
}

/* One has seven eighths, several have less each, and the next one finds
 * something. */
TEST(a_client_leaves_room_for_the_next)
{
    for (unsigned n = 1; n <= 100; n++) {
        uint64_t own[100] = {0}, left = 1000, before = 0;

        while (before != left) {
            before = left;
            for (unsigned i = 0; i < n; i++)
                while (left > 0 && client_leaves_room(own[i], left - 1)) {
                    own[i]++;
                    left--;
                    if (own[i] % 10 == 0)
                        break;
                }
        }
        assert_true(left > 0);
        if (n == 1)
            assert_int_equal(own[0], 875);
    }
}
