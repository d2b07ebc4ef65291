/*
 * framework_test.c - a set's framework channel, as its topic shows it (R-320 to
 *
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/channel.h"
#include "tests/support/lists.h"
#include "tests/support/patience.h"
#include "tests/support/source.h"
#include "tests/support/xpath.h"
#include "tests/test.h"

#define CAPABILITIES(set) "capabilitylist /sets/" set "/capabilitylist.xml\n"
#define SOURCE            "updated description /.well-known/resourcesync\n"
#define LIST(number) \
    "changelist /sets/" LISTS_SET "/changes/00000000000" #number ".xml < "
#define INDEX "/sets/" LISTS_SET "/changelist.xml\n"
#define ARCHIVE \
    "changelist-archive /sets/" LISTS_SET "/changelist-archive.xml\n"

/* Waits until the topic of `set` shows these events: who posted is answered a
 * moment before they are told. l->http has the document. */
static void
await_told(struct lists *l, const char *set, const char *lines)
{
    char path[100];
    struct buf found;

    snprintf(path, sizeof(path), "/sets/%s/framework-notifications", set);
    buf_init(&found, SIZE_MAX);
    for (int left_ms = PATIENCE_MS;; left_ms -= LISTS_LOOK_MS) {
        buf_clear(&found);
        assert_int_equal(http_get(&l->http, path), 200);
        if (l->http.body.size > 0)
            channel_lines(&found, buf_slice(&l->http.body));
        if (slice_is(buf_slice(&found), lines))
            break;
        if (left_ms <= 0)
            fail_msg("found:\n%.*swanted:\n%s", (int)found.size, found.data,
                     lines);
        poll(NULL, 0, LISTS_LOOK_MS);
    }
    buf_fini(&found);
}

/* What the notification that was got last names: each document is there, and
 * each index names it. */
static void
check_told(struct lists *l)
{
    size_t size = strlen(l->broker.url), n;
    struct xpath x;

    xpath_open(&x, buf_slice(&l->http.body));
    assert_xpath_count(&x, "/s:urlset/rs:ln[@rel='up']", 1);
    n = xpath_count(&x, "/s:urlset/s:url");
    for (size_t i = 1; i <= n; i++) {
        char question[100];
        const char *loc, *index;

        snprintf(question, sizeof(question), "string(/*/s:url[%zu]/s:loc)", i);
        loc = xpath_get(&x, question);
        assert_memory_equal(loc, l->broker.url, size);
        assert_int_equal(http_get(&l->http, loc + size), 200);
        /* of an index itself nothing is told. */
        assert_null(memmem(l->http.body.data, l->http.body.size,
                           "<sitemapindex", strlen("<sitemapindex")));
        snprintf(question, sizeof(question),
                 "string(/*/s:url[%zu]/rs:ln[@rel='index']/@href)", i);
        index = xpath_get(&x, question);
        if (!*index)
            continue;
        assert_memory_equal(index, l->broker.url, size);
        assert_int_equal(http_get(&l->http, index + size), 200);
        assert_non_null(memmem(l->http.body.data, l->http.body.size,
                               "<sitemapindex", strlen("<sitemapindex")));
        assert_non_null(
            memmem(l->http.body.data, l->http.body.size, loc, strlen(loc)));
    }
    xpath_close(&x);
}

FIXTURE(lists_setup, lists_teardown);

/* */
TEST(a_rotation_is_told_when_all_of_it_can_be_had)
{
    struct lists *l = *state;

    LISTS_OPEN(l, "--index-lists", "2");
    source_post(&l->http, LISTS_SET, 1, 3, 0);
    await_told(l, LISTS_SET, "created " CAPABILITIES(LISTS_SET) SOURCE);
    check_told(l);
    source_rotate(&l->http, LISTS_SET);
    await_told(l, LISTS_SET,
               "updated " LIST(1) INDEX "created " LIST(2) INDEX
               "created " ARCHIVE "updated " CAPABILITIES(LISTS_SET));
    check_told(l);
    for (unsigned i = 0; i < 2; i++) {
        source_post(&l->http, LISTS_SET, 4 + i, 1, 0);
        source_rotate(&l->http, LISTS_SET);
    }
    await_told(l, LISTS_SET,
               "updated " LIST(3) INDEX "created " LIST(4) INDEX
               "created changelist-archive /sets/" LISTS_SET
               "/changelist-archive/000000000001-000000000002.xml"
               " < /sets/" LISTS_SET "/changelist-archive.xml\n"
               "created changelist-archive /sets/" LISTS_SET
               "/changelist-archive/000000000003-000000000004.xml"
               " < /sets/" LISTS_SET "/changelist-archive.xml\n");
    check_told(l);
}

/* a set that comes or goes is told to all, and else each
 * hears of itself. */
TEST(the_source_is_told_on_all_channels)
{
    struct lists *l = *state;

    LISTS_OPEN(l, "--threads", "1");
    source_post(&l->http, LISTS_SET, 1, 3, 0);
    source_post(&l->http, "other", 1, 3, 0);
    await_told(l, "other", "created " CAPABILITIES("other") SOURCE);
    await_told(l, LISTS_SET, SOURCE);
    source_rotate(&l->http, "other");
    await_told(l, LISTS_SET, SOURCE);
    assert_int_equal(http_ask(&l->http, "DELETE", "/sets/other", NULL), 204);
    source_post(&l->http, "third", 1, 3, 0);
    await_told(l, "third", "created " CAPABILITIES("third") SOURCE);
    await_told(l, LISTS_SET, SOURCE);
    assert_int_equal(http_get(&l->http, "/sets/other/framework-notifications"),
                     410);
}

#define DESCRIPTION(from, to)                                        \
    "description /descriptions/00000000000" #from "-00000000000" #to \
    ".xml < /.well-known/resourcesync\n"

/* where it has an index, its parts are. */
TEST(a_source_of_many_sets_is_told_by_its_parts)
{
    struct lists *l = *state;

    LISTS_OPEN(l, "--description-sets", "2");
    source_post(&l->http, LISTS_SET, 1, 3, 0);
    source_post(&l->http, "b", 1, 3, 0);
    await_told(l, LISTS_SET, SOURCE);
    source_post(&l->http, "c", 1, 3, 0);
    await_told(l, LISTS_SET,
               "created " DESCRIPTION(1, 2) "created " DESCRIPTION(3, 4));
    check_told(l);
    source_post(&l->http, "d", 1, 3, 0);
    await_told(l, LISTS_SET, "created " DESCRIPTION(5, 6));
    check_told(l);
    assert_int_equal(http_ask(&l->http, "DELETE", "/sets/b", NULL), 204);
    await_told(l, LISTS_SET, "updated " DESCRIPTION(3, 4));
    check_told(l);
}

/* the latest is found again by the next process. */
TEST(what_was_told_is_there_after_a_restart)
{
    struct lists *l = *state;
    const char *lines = "updated " LIST(1) INDEX "created " LIST(2) INDEX
        "created " ARCHIVE "updated " CAPABILITIES(LISTS_SET);

    LISTS_OPEN(l, "--threads", "1");
    source_post(&l->http, LISTS_SET, 1, 3, 0);
    source_rotate(&l->http, LISTS_SET);
    await_told(l, LISTS_SET, lines);
    broker_kill9(&l->broker);
    broker_restart(&l->broker);
    await_told(l, LISTS_SET, lines);
}
