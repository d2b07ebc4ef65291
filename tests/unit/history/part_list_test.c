/*
 * part_list_test.c - the memory of the documents that an index names.
 */
#include "client/history/part_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/datetime.h"
#include "tests/test.h"

static enum status
add(struct history_parts *parts, const char *url)
{
    return history_parts_add(parts, slice_of(url), NULL);
}

/* For any URLs of an index, even of their full length. */
TEST(what_is_kept_is_bounded)
{
    struct history_parts parts = {.n = 0};
    char url[2001];
    enum status rc = STATUS_OK;

    memset(url, 'x', sizeof(url) - 1);
    url[sizeof(url) - 1] = '\0';
    for (int i = 0; i < HISTORY_PARTS_MAX && !rc; i++) {
        snprintf(url, 7, "%06d", i);
        url[6] = 'x';
        rc = add(&parts, url);
    }
    assert_int_equal(rc, STATUS_TOO_LARGE);
    assert_true(parts.n > 25000 && parts.n < 35000);
    history_parts_fini(&parts);
}

TEST(older_ones_come_first_and_each_once)
{
    struct history_parts parts = {.n = 0}, older = {.n = 0};
    size_t n;

    assert_int_equal(add(&parts, "c"), STATUS_OK);
    assert_int_equal(add(&parts, "d"), STATUS_OK);
    assert_int_equal(add(&older, "a"), STATUS_OK);
    assert_int_equal(add(&older, "c"), STATUS_OK);
    assert_int_equal(add(&older, "b"), STATUS_OK);
    assert_int_equal(add(&older, "a"), STATUS_OK);
    assert_int_equal(older.n, 3);

    assert_int_equal(history_parts_prepend(&parts, &older, &n), STATUS_OK);

    assert_int_equal(n, 2);
    assert_int_equal(older.n, 0);
    assert_int_equal(parts.n, 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(parts.all[i].url[0], "abcd"[i]);
    history_parts_fini(&parts);
    history_parts_fini(&older);
}

/* As a chain of links `prev` is found: each costs as little as the first. */
TEST(as_many_as_are_kept_may_come_one_by_one)
{
    struct history_parts parts = {.n = 0}, older = {.n = 0};
    char url[20];
    size_t n;

    for (int i = HISTORY_PARTS_MAX; i > 0; i--) {
        snprintf(url, sizeof(url), "%06d", i);
        assert_int_equal(add(&older, url), STATUS_OK);
        assert_int_equal(history_parts_prepend(&parts, &older, &n), STATUS_OK);
        assert_int_equal(n, 1);
    }
    assert_int_equal(parts.n, HISTORY_PARTS_MAX);
    for (int i = 0; i < HISTORY_PARTS_MAX; i++)
        assert_int_equal(atoi(parts.all[i].url), i + 1);
    assert_int_equal(add(&older, "one more"), STATUS_OK);
    assert_int_equal(history_parts_prepend(&parts, &older, &n),
                     STATUS_TOO_LARGE);
    history_parts_fini(&parts);
}

TEST(what_was_added_last_may_be_forgotten)
{
    struct history_parts parts = {.n = 0};
    size_t bytes;

    assert_int_equal(add(&parts, "a"), STATUS_OK);
    bytes = parts.bytes;
    assert_int_equal(add(&parts, "b"), STATUS_OK);
    assert_int_equal(add(&parts, "c"), STATUS_OK);
    history_parts_cut(&parts, 1);
    history_parts_cut(&parts, 1);
    assert_int_equal(parts.n, 1);
    assert_int_equal(parts.bytes, bytes);
    assert_int_equal(add(&parts, "a"), STATUS_OK);
    assert_int_equal(parts.n, 1);
    assert_int_equal(add(&parts, "c"), STATUS_OK);
    assert_int_equal(parts.n, 2);
    history_parts_fini(&parts);
}
