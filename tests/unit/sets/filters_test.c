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
    assert_int_equal(filters_enter(filters, &f, &class, NULL), STATUS_OK);
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

/* Rule 8: limited in number. */
TEST(are_limited_in_number)
{
    static struct filter_class *classes[FILTERS_MAX];
    struct filter_class *more = NULL;
    struct problem why = {""};
    struct filters filters;
    char query[32];
    struct filter f;

    filters_init(&filters);
    for (int i = 0; i < FILTERS_MAX; i++) {
        snprintf(query, sizeof(query), "tag=%d", i);
        classes[i] = enter(&filters, query);
    }
    assert_int_equal(filter_read(&f, SLICE("tag=one-more"), NULL), STATUS_OK);
    assert_int_equal(filters_enter(&filters, &f, &more, &why), STATUS_BUSY);
    assert_null(more);
    assert_string_equal(why.text, "as many filters are in use as may be, 1024");
    assert_ptr_equal(enter(&filters, "tag=7"), classes[7]); /* one of those */
    filters_leave(classes[7]);
    filters_leave(classes[0]);
    assert_int_equal(filters_enter(&filters, &f, &more, &why), STATUS_OK);
    classes[0] = more;
    for (int i = 0; i < FILTERS_MAX; i++)
        filters_leave(classes[i]);
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
