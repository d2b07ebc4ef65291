#include "broker/sets/filters.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/test.h"

static struct filter_class *
enter(struct filters *filters, const char *query)
{
    struct filter_class *class;
    struct filter f;

    assert_int_equal(filter_read(&f, slice_of(query), NULL), STATUS_OK);
    assert_int_equal(filters_enter(filters, &f, SLICE("me"), &class, NULL),
                     STATUS_OK);
    return class;
}

/* log.md, reading: readers with equal filters are of one class. */
TEST(gives_equal_filters_one_class)
{
    struct filter_class *a, *b, *other;
    struct filters filters;
    uint64_t id;

    filters_init(&filters);
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
    filters_fini(&filters);
}

/* What works for a reader that has gone keeps the class, and is no reader. */
TEST(lives_as_long_as_somebody_works_with_it)
{
    struct filter_class *a;
    struct filters filters;

    filters_init(&filters);
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
    filters_fini(&filters);
}

static enum status
enter_as(struct filters *filters, const char *client, const char *query,
         struct filter_class **class, struct problem *why)
{
    struct filter f;

    assert_int_equal(filter_read(&f, slice_of(query), NULL), STATUS_OK);
    return filters_enter(filters, &f, slice_of(client), class, why);
}

/* Lets a client have as many as it may. */
static unsigned
fill(struct filters *filters, const char *client, struct filter_class **classes)
{
    char query[64];
    unsigned n = 0;

    for (;; n++) {
        snprintf(query, sizeof(query), "tag=%s-%u", client, n);
        if (enter_as(filters, client, query, &classes[n], NULL))
            return n;
    }
}

/* Rule 8: limited in number, and nobody takes what others need. */
TEST(each_client_leaves_as_many_as_it_has)
{
    static struct filter_class *all[3][FILTERS_MAX];
    struct filter_class *more = NULL;
    struct problem why = {""};
    struct filters filters;
    unsigned n[3];

    filters_init(&filters);
    n[0] = fill(&filters, "one", all[0]);
    assert_int_equal(n[0], FILTERS_MAX / 2);
    n[1] = fill(&filters, "two", all[1]);
    assert_int_equal(n[1], FILTERS_MAX / 4);
    n[2] = fill(&filters, "three", all[2]);
    assert_int_equal(n[2], FILTERS_MAX / 8);

    assert_int_equal(enter_as(&filters, "one", "tag=x", &more, &why),
                     STATUS_BUSY);
    assert_null(more);
    assert_string_equal(why.text, "you read with as many filters as there is "
                                  "room for: try again later, or pull");
    /* Joining the class of another client needs no room. */
    assert_int_equal(enter_as(&filters, "one", "tag=two-7", &more, NULL), 0);
    assert_ptr_equal(more, all[1][7]);
    filters_leave(more);
    /* When a client leaves its classes, other clients may use the room. */
    for (unsigned i = 0; i < n[0]; i++)
        filters_leave(all[0][i]);
    assert_int_equal(enter_as(&filters, "two", "tag=x", &more, NULL), 0);
    filters_leave(more);
    for (unsigned c = 1; c < 3; c++)
        for (unsigned i = 0; i < n[c]; i++)
            filters_leave(all[c][i]);
    assert_int_equal(filters.n, 0);
    filters_fini(&filters);
}

/* A pull and a subscription always get one. */
TEST(without_room_a_reader_may_have_one_of_its_own)
{
    static struct filter_class *all[FILTERS_MAX];
    struct filter_class *own, *again;
    struct filters filters;
    struct filter f;
    unsigned n;

    filters_init(&filters);
    n = fill(&filters, "one", all);
    assert_int_equal(filter_read(&f, SLICE("tag=x"), NULL), STATUS_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            filters_enter_anyhow(&filters, &f, SLICE("one"), &own, NULL), 0);
        assert_int_equal(filters.n, n);
        assert_int_equal(
            filters_enter_anyhow(&filters, &f, SLICE("one"), &again, NULL), 0);
        assert_ptr_not_equal(own, again);
        assert_int_not_equal(own->id, again->id); /* bodies are shared by it */
        assert_false(filter_class_is_shared(own));
        assert_ptr_equal(filter_class_ref(own), own);
        filters_leave(own);
        filter_class_unref(own);
        filters_leave(again);
    }
    for (unsigned i = 0; i < n; i++)
        filters_leave(all[i]);
    filters_fini(&filters);
}

/* One that is alone takes nobody's place, and is like none of them. */
TEST(one_that_is_alone_is_not_among_them)
{
    struct filter_class alone, *other;
    struct filters filters;

    filters_init(&filters);
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
    filters_fini(&filters);
}
