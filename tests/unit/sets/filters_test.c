#include "broker/sets/filters.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/test.h"

static struct clients clients;

static void
begin(struct filters *filters)
{
    clients_init(&clients, 25);
    clients_limit_all(&clients, CLIENT_FILTERS, FILTERS_MAX);
    filters_init(filters, &clients);
}

static void
end(struct filters *filters)
{
    assert_int_equal(clients_held(&clients, CLIENT_FILTERS), 0);
    assert_null(clients.tree);
    pthread_mutex_destroy(&filters->mutex);
    clients_fini(&clients);
}

static struct filter_class *
enter(struct filters *filters, const char *query)
{
    struct filter_class *class;
    struct filter f;

    assert_int_equal(filter_read(&f, slice_of(query), NULL), STATUS_OK);
    assert_int_equal(filters_enter(filters, &f, NULL, false, &class, NULL),
                     STATUS_OK);
    return class;
}

/* log.md, reading: readers with equal filters are of one class. */
TEST(gives_equal_filters_one_class)
{
    struct filter_class *a, *b, *other;
    struct filters filters;
    uint64_t id;

    begin(&filters);
    assert_null(enter(&filters, "after=3"));
    a = enter(&filters, "tag=x&change=deleted");
    assert_false(filter_class_is_shared(a));
    b = enter(&filters, "change=deleted&tag=x&tag=x");
    other = enter(&filters, "change=deleted");
    assert_ptr_equal(a, b);
    assert_ptr_not_equal(a, other);
    assert_int_not_equal(a->id, other->id);
    assert_true(filter_class_is_shared(a));
    assert_int_equal(filters.n, 2);

    filters_leave(b);
    assert_false(filter_class_is_shared(a));
    id = a->id;
    filters_leave(a);
    filters_leave(other);
    filters_leave(NULL);
    assert_int_equal(filters.n, 0);
    a = enter(&filters, "tag=x&change=deleted"); /* the same, but another */
    assert_int_not_equal(a->id, id);
    filters_leave(a);
    end(&filters);
}

/* Work for a reader that has gone keeps the class, and does not count as a
 * reader. */
TEST(lives_as_long_as_somebody_works_with_it)
{
    struct filter_class *a;
    struct filters filters;

    begin(&filters);
    a = enter(&filters, "tag=x");
    assert_ptr_equal(filter_class_ref(a), a);
    assert_null(filter_class_ref(NULL));
    assert_false(filter_class_is_shared(a));
    filters_leave(a);
    assert_int_equal(filters.n, 1);
    assert_ptr_equal(enter(&filters, "tag=x"), a);
    filters_leave(a);
    filter_class_unref(a);
    filter_class_unref(NULL);
    assert_int_equal(filters.n, 0);
    end(&filters);
}

/* The client number `client`; 0: nobody in particular. */
static enum status
enter_as(struct filters *filters, unsigned client, const char *query,
         struct filter_class **class, struct problem *why)
{
    struct client_key key = {.address = {(unsigned char)client}};
    struct client *is = client ? client_of(&clients, &key) : NULL;
    struct filter f;
    enum status rc;

    assert_int_equal(filter_read(&f, slice_of(query), NULL), STATUS_OK);
    rc = filters_enter(filters, &f, is, false, class, why);
    client_unref(is);
    return rc;
}

/* Lets a client have as many as it may. */
static unsigned
fill(struct filters *filters, unsigned client, struct filter_class **classes)
{
    char query[64];
    unsigned n = 0;

    for (;; n++) {
        snprintf(query, sizeof(query), "tag=%u-%u", client, n);
        if (enter_as(filters, client, query, &classes[n], NULL))
            return n;
    }
}

/* Rule 8: limited in number, and no client has more than its share. */
TEST(each_client_has_its_share)
{
    enum { CLIENTS = 4, EACH = FILTERS_MAX / CLIENTS };
    static struct filter_class *all[CLIENTS][EACH + 1];
    struct filter_class *more = NULL;
    struct problem why = {""};
    struct filters filters;

    begin(&filters);
    for (unsigned c = 0; c < CLIENTS; c++)
        assert_int_equal(fill(&filters, c + 1, all[c]), EACH);
    assert_int_equal(enter_as(&filters, 1, "tag=x", &more, &why),
                     STATUS_LIMITED);
    assert_null(more);
    assert_string_equal(why.text,
                        "your address reads with as many filters as one client "
                        "may have (try again later, or pull): 512");
    assert_int_equal(enter_as(&filters, 9, "tag=x", &more, &why), STATUS_BUSY);
    assert_string_equal(why.text,
                        "all clients together use as many filters as there is "
                        "room for: try again later, or pull");
    /* Joining the class of another client needs no room. */
    assert_int_equal(enter_as(&filters, 1, "tag=2-7", &more, NULL), 0);
    assert_ptr_equal(more, all[1][7]);
    filters_leave(more);
    /* When a client leaves its classes, other clients may use the room. */
    for (unsigned i = 0; i < EACH; i++)
        filters_leave(all[0][i]);
    assert_int_equal(enter_as(&filters, 9, "tag=x", &more, NULL), 0);
    filters_leave(more);
    for (unsigned c = 1; c < CLIENTS; c++)
        for (unsigned i = 0; i < EACH; i++)
            filters_leave(all[c][i]);
    assert_int_equal(filters.n, 0);
    end(&filters);
}

/* A shared class counts for the client that made it until nobody reads with it
 * (filters.h). */
TEST(a_class_counts_for_its_first_client)
{
    const struct client_key key = {.address = {1}};
    struct filter_class *first, *second;
    struct filters filters;
    struct client *client;

    begin(&filters);
    client = client_of(&clients, &key);
    assert_int_equal(enter_as(&filters, 1, "tag=x", &first, NULL), 0);
    assert_int_equal(enter_as(&filters, 2, "tag=x", &second, NULL), 0);
    assert_ptr_equal(first, second);
    filters_leave(first);
    assert_int_equal(client_held(client, CLIENT_FILTERS), 1);
    filters_leave(second);
    assert_int_equal(client_held(client, CLIENT_FILTERS), 0);
    client_unref(client);
    end(&filters);
}

/* A pull and a subscription always get one. */
TEST(without_room_a_reader_may_have_one_of_its_own)
{
    static struct filter_class *all[FILTERS_MAX + 1];
    struct filter_class *own, *again;
    struct filters filters;
    struct filter f;
    unsigned n;

    begin(&filters);
    n = fill(&filters, 0, all);
    assert_int_equal(filter_read(&f, SLICE("tag=x"), NULL), STATUS_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(filters_enter(&filters, &f, NULL, true, &own, NULL),
                         STATUS_OK);
        assert_int_equal(filters.n, n);
        assert_int_equal(filters_enter(&filters, &f, NULL, true, &again, NULL),
                         STATUS_OK);
        assert_ptr_not_equal(own, again);
        assert_int_not_equal(own->id, again->id); /* the class shares bodies */
        assert_false(filter_class_is_shared(own));
        assert_ptr_equal(filter_class_ref(own), own);
        filters_leave(own);
        filter_class_unref(own);
        filters_leave(again);
    }
    for (unsigned i = 0; i < n; i++)
        filters_leave(all[i]);
    end(&filters);
}

/* A lone class takes nobody's place, and equals none of them. */
TEST(one_that_is_alone_is_not_among_them)
{
    struct filter_class alone, *other;
    struct filters filters;

    begin(&filters);
    filter_class_alone(&alone);
    assert_int_equal(filter_add(&alone.filter, SLICE("tag"), SLICE("a"), NULL),
                     STATUS_OK);
    assert_int_equal(filter_seal(&alone.filter, NULL), STATUS_OK);
    assert_false(filter_class_is_shared(&alone));
    other = enter(&filters, "tag=a");
    assert_ptr_not_equal(other, &alone);
    assert_int_not_equal(other->id, alone.id);
    assert_int_equal(filters.n, 1);
    filters_leave(other);
    end(&filters);
}
