#include "broker/log/head.h"

#include <string.h>

#include "proto/datetime.h"
#include "proto/resourcesync/document_write.h"
#include "tests/test.h"

#define EPOCH "0123456789abcdef"

/* A head with `n` entries of 100 bytes, the last at time 1000 + n. */
static struct head
head_with(uint64_t n)
{
    struct head head;

    head_start(&head, EPOCH, 1000);
    head.last += n;
    head.last_us += (int64_t)n;
    head.list_bytes += 100 * n;
    head.digest.bytes[0] ^= (uint8_t)n;
    return head;
}

/* Design section 1: T(0) is the set's creation, d(0) the digest of its epoch;
 * the first list is number 1. */
TEST(begins_a_log_with_an_empty_list_number_one)
{
    struct digest start;
    struct head head = head_with(0);
    struct list_info info;

    digest_sha256(&start, SLICE(EPOCH));
    assert_true(head.exists);
    assert_true(head_list_is_empty(&head));
    assert_string_equal(head.epoch, EPOCH);
    assert_memory_equal(head.digest.bytes, start.bytes, DIGEST_SIZE);
    info = head_open_list(&head);
    assert_int_equal(info.number, 1);
    assert_int_equal(info.after, 0);
    assert_int_equal(info.last, 0);
    assert_int_equal(info.from_us, 1000);
    assert_int_equal(info.until_us, DATETIME_NONE);
    assert_false(info.is_filed);
}

/* an open list has no `until`, and its `from` does not move. */
TEST(describes_the_open_list_as_it_grows)
{
    struct head head = head_with(3);
    struct list_info info = head_open_list(&head);

    assert_false(head_list_is_empty(&head));
    assert_int_equal(info.from_us, 1000);
    assert_int_equal(info.until_us, DATETIME_NONE);
    assert_int_equal(info.last, 3);
    assert_int_equal(info.bytes, 300);
    assert_memory_equal(info.digest.bytes, head.digest.bytes, DIGEST_SIZE);
    assert_memory_equal(info.before.bytes, head.list_before.bytes, DIGEST_SIZE);
}

/* I-01: `until` is the time of the last entry, and the next
 * list's `from`; each list knows the digest before it. */
TEST(ends_a_list_where_the_next_begins)
{
    struct head head = head_with(3), before = head;
    struct list_info open;

    head_end_list(&head);
    open = head_open_list(&head);
    assert_int_equal(open.number, 2);
    assert_int_equal(open.after, 3);
    assert_int_equal(open.last, 3);
    assert_int_equal(open.from_us, 1003);
    assert_int_equal(open.bytes, 0);
    assert_memory_equal(open.before.bytes, before.digest.bytes, DIGEST_SIZE);
    assert_true(head_list_is_empty(&head));
    assert_int_equal(head.last, 3);
    assert_int_equal(head.last_us, 1003);
}

/* a list is full at its last allowed entry, not one later. */
TEST(is_full_at_the_limit_of_entries)
{
    struct list_limits limits = {5, DOCUMENT_BYTES_MAX};
    struct head head = head_with(4);

    assert_false(head_list_is_full(&head, &limits));
    assert_false(head_must_end_list(&head, &limits, 100));
    head.last++;
    assert_true(head_list_is_full(&head, &limits));
    assert_true(head_must_end_list(&head, &limits, 100));
    head_end_list(&head);
    assert_false(head_list_is_full(&head, &limits));
    head.last += 4;
    assert_false(head_list_is_full(&head, &limits));
    head.last++;
    assert_true(head_list_is_full(&head, &limits));
}

/* R-027, log.md: bytes count with the largest header and footer, to the byte.
 */
TEST(must_end_before_the_limit_of_bytes_is_passed)
{
    struct list_limits limits = {50000, DOCUMENT_FRAME_MAX + 1000};
    struct head head = head_with(3);

    assert_false(head_must_end_list(&head, &limits, 700));
    assert_true(head_must_end_list(&head, &limits, 701));
}

/* log.md, lists: an empty list is never closed, however large the entry. */
TEST(never_ends_an_empty_list)
{
    struct list_limits limits = {1, 1};
    struct head head = head_with(0);

    assert_false(head_must_end_list(&head, &limits, 1000000));
}
