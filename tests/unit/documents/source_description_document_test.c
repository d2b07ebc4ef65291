/*
 * The Source Description, and the index of several.
 */
#include <stdio.h>

#include "tests/support/set_changes.h"
#include "tests/unit/documents/stage.h"

#define SOURCE SETS_URL "/.well-known/resourcesync"
#define PART(from, to) \
    SETS_URL "/descriptions/00000000000" #from "-00000000000" #to ".xml"
#define SET(name) SETS_URL "/sets/" name "/capabilitylist.xml"

/* Two sets a document. The framework log, which nobody sees, has the number 1:
 * so of those that begin, a has 2, b has 3. */
static void
open_small(struct sets *s)
{
    s->config.description_sets = 2;
    sets_open(s);
}

static void
make(struct sets *s, const char *names)
{
    for (; *names; names++) {
        const char name[] = {*names, '\0'};

        sets_post(s, name, 1, 1);
    }
}

static enum status
try_part(struct sets *s, uint64_t first, uint64_t last,
         struct document *document)
{
    const struct document_wish wish = {.registry = s->registry,
                                       .number = first,
                                       .last = last,
                                       .patience = LOG_DISK};

    return first ? source_description_part_open(&wish, document, NULL)
                 : source_description_open(&wish, document, NULL);
}

/* `first` is 0: the document at the well-known address. */
static void
read_source(struct sets *s, uint64_t first, uint64_t last, struct xpath *x)
{
    struct document document;

    assert_int_equal(try_part(s, first, last, &document), STATUS_OK);
    stage_parse(document.body, x);
    assert_xpath_count(x, "/*/rs:md[@capability='description']", 1);
    assert_xpath_text(x, "/*/rs:ln[@rel='describedby']/@href", SETS_URL "/");
    assert_xpath_count(x, "//s:lastmod", 0);
}

/* The locs of the entries, in order. */
static void
assert_locs(struct xpath *x, const char *const *locs, size_t n)
{
    char question[60];

    assert_xpath_count(x, "/*/*/s:loc", n);
    for (size_t i = 0; i < n; i++) {
        snprintf(question, sizeof(question), "string(/*/*[s:loc][%zu]/s:loc)",
                 i + 1);
        assert_xpath_text(x, question, locs[i]);
    }
}

#define assert_source(s, root, ...)                                \
    do {                                                           \
        const char *const locs_[] = {__VA_ARGS__};                 \
        struct xpath x_;                                           \
                                                                   \
        read_source((s), 0, 0, &x_);                               \
        assert_xpath(&x_, "/s:" root);                             \
        assert_locs(&x_, locs_, sizeof(locs_) / sizeof(locs_[0])); \
        xpath_close(&x_);                                          \
    } while (0)

#define assert_part(s, from, to, ...)                                          \
    do {                                                                       \
        const char *const locs_[] = {__VA_ARGS__};                             \
        struct xpath x_;                                                       \
                                                                               \
        read_source((s), from, to, &x_);                                       \
        assert_xpath_text(&x_, "/s:urlset/rs:ln[@rel='index']/@href", SOURCE); \
        assert_locs(&x_, locs_, sizeof(locs_) / sizeof(locs_[0]));             \
        xpath_close(&x_);                                                      \
    } while (0)

static void
assert_no_part(struct sets *s, uint64_t from, uint64_t to)
{
    struct document document;

    assert_int_equal(try_part(s, from, to, &document), STATUS_NOT_FOUND);
}

/* of a Capability List. */
static void
assert_up(struct sets *s, const char *name, const char *url)
{
    const struct document_wish wish = {.registry = s->registry,
                                       .set = sets_find(s, name),
                                       .head = sets_head(s, name),
                                       .patience = LOG_MEMORY};
    struct xpath x;

    stage_parse(stage_body(capabilitylist_open, &wish), &x);
    assert_xpath_text(&x, "/s:urlset/rs:ln[@rel='up']/@href", url);
    xpath_close(&x);
}

FIXTURE(stage_setup, stage_teardown);

/* one document
 * as long as it is enough, then an index of several, each set in one of them.
 */
TEST(many_sets_have_an_index)
{
    struct sets *s = *state;
    struct xpath x;

    open_small(s);
    make(s, "ab");
    assert_source(s, "urlset", SET("a"), SET("b"));
    read_source(s, 0, 0, &x);
    assert_xpath_count(&x, "/*/rs:ln[@rel='index']", 0);
    xpath_close(&x);
    assert_up(s, "b", SOURCE);

    make(s, "cd");
    assert_source(s, "sitemapindex", PART(1, 2), PART(3, 4), PART(5, 6));
    read_source(s, 0, 0, &x);
    assert_xpath_count(&x, "/*/s:sitemap/rs:md[@capability='description']", 3);
    xpath_close(&x);
    assert_part(s, 1, 2, SET("a"));
    assert_part(s, 3, 4, SET("b"), SET("c"));
    assert_part(s, 5, 6, SET("d"));
    read_source(s, 3, 4, &x);
    assert_xpath_count(
        &x, "/s:urlset/s:url/rs:md[@capability='capabilitylist']", 2);
    xpath_close(&x);
    assert_up(s, "a", PART(1, 2));
    assert_up(s, "c", PART(3, 4));
}

/* at once; and nobody else's part changes. */
TEST(sets_come_and_go_in_their_parts)
{
    struct sets *s = *state;
    struct document before, after;

    open_small(s);
    make(s, "abcde");
    assert_int_equal(try_part(s, 3, 4, &before), STATUS_OK);
    set_changes_remove(s, "a");
    assert_source(s, "sitemapindex", PART(3, 4), PART(5, 6));
    assert_no_part(s, 1, 2);
    set_changes_remove(s, "d");
    assert_part(s, 5, 6, SET("e"));
    make(s, "d");
    assert_part(s, 7, 8, SET("d"));
    assert_source(s, "sitemapindex", PART(3, 4), PART(5, 6), PART(7, 8));
    assert_int_equal(try_part(s, 3, 4, &after), STATUS_OK);
    assert_memory_equal(&before.tag, &after.tag, sizeof(before.tag));
    document_close(&before);
    document_close(&after);

    set_changes_remove(s, "b");
    set_changes_remove(s, "e");
    assert_source(s, "urlset", SET("c"), SET("d"));
    assert_up(s, "d", SOURCE);
}

/* its address is a part's for as long as a set is there. */
TEST(parts_are_the_same_after_a_restart)
{
    struct sets *s = *state;

    open_small(s);
    make(s, "abcd");
    set_changes_remove(s, "b");
    sets_close(s);
    sets_open(s);
    assert_source(s, "sitemapindex", PART(1, 2), PART(3, 4), PART(5, 6));
    assert_part(s, 3, 4, SET("c"));
    sets_close(s);

    s->config.description_sets = 4;
    sets_open(s);
    assert_source(s, "urlset", SET("a"), SET("c"), SET("d"));
    make(s, "ef");
    assert_source(s, "sitemapindex", PART(1, 4), PART(5, 8));
    assert_part(s, 3, 4, SET("c")); /* for readers that have its address */
}

TEST(what_is_no_part_is_not_there)
{
    struct sets *s = *state;

    open_small(s);
    make(s, "abcd");
    assert_no_part(s, 2, 3);
    assert_no_part(s, 4, 3);
    assert_no_part(s, 7, 8);
    assert_no_part(s, 1, 5001);
    assert_no_part(s, 1, UINT64_MAX);
}
