#include "broker/sets/changelist_header.h"

#include <string.h>

#include "proto/datetime.h"
#include "proto/resourcesync/document_write.h"
#include "tests/support/schema.h"
#include "tests/support/xpath.h"
#include "tests/test.h"

#define URL   "http://example.org"
#define EPOCH "0123456789abcdef"

static const struct head log_head = {
    .epoch = EPOCH, .former = "fedcba9876543210", .began = 10};

static struct list_info
list_of(uint64_t number, bool is_closed)
{
    struct list_info info = {
        .number = number,
        .after = (number - 1) * 10,
        .last = number * 10,
        .from_us = 1000000,
        .until_us = is_closed ? 2000000 : DATETIME_NONE,
    };

    memset(info.before.bytes, 0xbb, DIGEST_SIZE);
    memset(info.digest.bytes, 0xdd, DIGEST_SIZE);
    return info;
}

static struct xpath x;

/* Header and footer of a list make a document, `x`. */
static void
open_document(uint64_t number, bool is_closed)
{
    struct list_info info = list_of(number, is_closed);
    struct buf text;

    buf_init(&text, DOCUMENT_FRAME_MAX);
    changelist_header_write(&text, URL, "demo", &log_head, &info);
    document_footer(&text, DOCUMENT_URLSET);
    assert_false(text.failed);
    assert_valid(buf_slice(&text));
    xpath_open(&x, buf_slice(&text));
    buf_fini(&text);
    assert_xpath_count(&x, "/s:urlset/rs:md[@capability='changelist']", 1);
    assert_xpath_text(&x, "/s:urlset/rs:ln[@rel='up']/@href",
                      URL "/sets/demo/capabilitylist.xml");
    assert_xpath_text(&x, "/s:urlset/rs:ln[@rel='last']/@href", /* */
                      URL "/sets/demo/changes/latest.xml");
}

/* the first list, while it is open: no index exists yet,
 * nothing before it and no `until`. */
TEST(links_the_first_open_list_upward_and_to_itself)
{
    open_document(1, false);
    assert_xpath_text(&x, "/s:urlset/rs:md/@from",
                      "1970-01-01T00:00:01.000000Z");
    assert_xpath_count(&x, "/s:urlset/rs:md/@until", 0);
    assert_xpath_count(&x, "/s:urlset/rs:ln", 2);
    xpath_close(&x);
}

/* closed, it has an index, a next one and an `until`. */
TEST(links_a_closed_list_to_its_index_and_the_next)
{
    open_document(1, true);
    assert_xpath_text(&x, "/s:urlset/rs:md/@until",
                      "1970-01-01T00:00:02.000000Z");
    assert_xpath_text(&x, "/s:urlset/rs:ln[@rel='index']/@href",
                      URL "/sets/demo/changelist.xml");
    assert_xpath_text(&x, "/s:urlset/rs:ln[@rel='next']/@href",
                      URL "/sets/demo/changes/000000000002.xml");
    assert_xpath_count(&x, "/s:urlset/rs:ln[@rel='prev']", 0);
    assert_xpath_count(&x, "/s:urlset/rs:ln", 4);
    xpath_close(&x);
}

/* R-346, design.md section 1: the list before is named with its digest. */
TEST(links_a_later_list_to_the_one_before)
{
    open_document(8, false);
    assert_xpath_text(&x, "/s:urlset/rs:ln[@rel='prev']/@href",
                      URL "/sets/demo/changes/000000000007.xml");
    assert_xpath(&x, "starts-with(/s:urlset/rs:ln[@rel='prev']/@td:digest,"
                     " 'sha-256:bbbb')");
    assert_xpath_count(&x, "/s:urlset/rs:ln[@rel='index']", 1);
    assert_xpath_count(&x, "/s:urlset/rs:ln[@rel='next']", 0);
    assert_xpath_count(&x, "/s:urlset/rs:md/@td:follows", 0);
    xpath_close(&x);

    open_document(8, true);
    assert_xpath_count(&x, "/s:urlset/rs:ln", 5);
    assert_xpath_text(&x, "/s:urlset/rs:ln[@rel='next']/@href",
                      URL "/sets/demo/changes/000000000009.xml");
    xpath_close(&x);
}

/* design.md section 1: a list says what it covers, and carries the digest of
 * its last event. */
TEST(says_which_part_of_the_log_it_is)
{
    open_document(2, true);
    assert_xpath_text(&x, "/s:urlset/rs:md/@td:epoch", EPOCH);
    assert_xpath_text(&x, "/s:urlset/rs:md/@td:follows", log_head.former);
    assert_xpath_text(&x, "/s:urlset/rs:md/@td:after", "10");
    assert_xpath_text(&x, "/s:urlset/rs:md/@td:last", "20");
    assert_xpath(&x, "starts-with(/s:urlset/rs:md/@td:digest, 'sha-256:dddd')");
    assert_xpath_count(&x, "/s:urlset/rs:md/@td:now", 0);
    assert_xpath_count(&x, "/s:urlset/rs:md/@td:heartbeat", 0);
    xpath_close(&x);
}

/* list limits count on it: the longest header, footer included. */
TEST(keeps_within_the_largest_frame)
{
    char url[512], name[SET_NAME_MAX + 1];
    struct list_info info = list_of(UINT64_MAX - 1, true);
    struct head longest = log_head;
    struct buf text;

    memset(url, 'u', sizeof(url) - 1);
    memset(name, 'n', sizeof(name) - 1);
    url[sizeof(url) - 1] = name[sizeof(name) - 1] = '\0';
    info.after = longest.began = UINT64_MAX - 1;
    info.last = UINT64_MAX;
    buf_init(&text, SIZE_MAX);
    changelist_header_write(&text, url, name, &longest, &info);
    document_footer(&text, DOCUMENT_URLSET);
    assert_true(text.size <= DOCUMENT_FRAME_MAX);
    buf_fini(&text);
}
