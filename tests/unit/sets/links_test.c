#include "broker/sets/links.h"

#include <string.h>

#include "proto/uri.h"
#include "tests/test.h"

#define URL "http://example.org:8787/base"

static void
assert_link(enum link_kind kind, const char *set, const char *epoch,
            uint64_t number, const char *text)
{
    struct link_text link = link_to(URL, kind, set, epoch, number);

    assert_string_equal(link.text, text);
    assert_int_equal(link.size, strlen(text));
}

/* every URL begins with the public one. design.md section 4. */
TEST(puts_every_path_behind_the_public_url)
{
    assert_link(LINK_DESCRIPTION, NULL, NULL, 0,
                URL "/.well-known/resourcesync");
    assert_link(LINK_CAPABILITYLIST, "demo", NULL, 0,
                URL "/sets/demo/capabilitylist.xml");
    assert_link(LINK_CHANGELIST, "demo", NULL, 0,
                URL "/sets/demo/changelist.xml");
    assert_link(LINK_CHANGELIST_ARCHIVE, "demo", NULL, 0,
                URL "/sets/demo/changelist-archive.xml");
}

/* a topic for each channel of a set, one hub for all. */
TEST(names_the_hub_and_two_topics)
{
    assert_link(LINK_HUB, NULL, NULL, 0, URL "/hub");
    assert_link(LINK_NOTIFICATIONS, "demo", NULL, 0,
                URL "/sets/demo/notifications");
    assert_link(LINK_FRAMEWORK_NOTIFICATIONS, "demo", NULL, 0,
                URL "/sets/demo/framework-notifications");
}

/* numbers are zero-padded, so that lists stand in order. */
TEST(pads_the_numbers_of_lists)
{
    assert_link(LINK_LIST, "demo", NULL, 1,
                URL "/sets/demo/changes/000000000001.xml");
    assert_link(LINK_LIST, "demo", NULL, 1234567890123,
                URL "/sets/demo/changes/1234567890123.xml");
}

/* change memory is asked by position. */
TEST(names_a_position_in_change_memory)
{
    assert_link(LINK_MEMORY, "demo", "0123456789abcdef", 0,
                URL "/sets/demo/changes?after=0123456789abcdef-0");
    assert_link(
        LINK_MEMORY, "demo", "0123456789abcdef", UINT64_MAX,
        URL "/sets/demo/changes?after=0123456789abcdef-18446744073709551615");
}

/* relations of our own are absolute URIs, each once. */
TEST(names_every_channel_once)
{
    for (const struct channel_link *c = links_channels; c->rel; c++) {
        assert_memory_equal(c->rel, "urn:tidings:1:", 14);
        for (const struct channel_link *d = links_channels; d < c; d++)
            assert_string_not_equal(c->rel, d->rel);
    }
    assert_string_equal(links_channels[0].rel, "urn:tidings:1:memory");
}

/* LINK_URL_MAX: the longest public URL and name, and the longest path. */
TEST(has_room_for_the_longest)
{
    char url[512], name[SET_NAME_MAX + 1];

    memset(url, 'u', sizeof(url) - 1);
    memset(name, 'n', sizeof(name) - 1);
    url[sizeof(url) - 1] = name[sizeof(name) - 1] = '\0';
    for (int kind = LINK_DESCRIPTION; kind <= LINK_FRAMEWORK_NOTIFICATIONS;
         kind++) {
        struct link_text link = link_to(
            url, (enum link_kind)kind, name,
            kind == LINK_MEMORY ? "0123456789abcdef" : NULL, UINT64_MAX);

        assert_true(link.size < LINK_URL_MAX);
        assert_int_equal(strlen(link.text), link.size);
    }
    assert_true(link_format("%s/sets/%s/resourcelist-archive/%" PRIu64
                            "-%" PRIu64 ".xml",
                            url, name, UINT64_MAX, UINT64_MAX)
                    .size < LINK_URL_MAX);
}

/* pages of change memory keep their filter. */
TEST(names_pages_with_their_filter)
{
    struct buf to;

    buf_init(&to, 200);
    link_memory(&to, "http://e.org", "a", "0123456789abcdef", 7,
                SLICE("change=deleted&tag=x"));
    assert_true(slice_is(buf_slice(&to),
                         "http://e.org/sets/a/changes?after="
                         "0123456789abcdef-7&change=deleted&tag=x"));
    buf_clear(&to);
    link_memory(&to, "http://e.org", "a", "0123456789abcdef", 0, SLICE(""));
    assert_true(slice_is(buf_slice(&to), "http://e.org/sets/a/changes?after="
                                         "0123456789abcdef-0"));
    buf_fini(&to);
}
