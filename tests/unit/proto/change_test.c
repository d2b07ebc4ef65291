#include "proto/resourcesync/change.h"

#include "tests/test.h"

#define MD5 "md5:d41d8cd98f00b204e9800998ecf8427e"

static struct change
sample(void)
{
    struct change change;

    change_init(&change);
    change.loc = SLICE("http://example.com/a");
    change.kind = CHANGE_CREATED;
    return change;
}

static struct link
sample_link(void)
{
    return (struct link){
        .rel = SLICE("via"),
        .href = SLICE("http://example.com/b"),
        .modified_us = DATETIME_NONE,
        .length = LENGTH_NONE,
    };
}

static void
assert_bad(const struct change *change, const char *sentence)
{
    struct problem why = {""};

    assert_int_equal(change_check(change, &why), STATUS_INVALID);
    assert_string_equal(why.text, sentence);
}

TEST(accepts_what_is_right)
{
    struct link link = sample_link();
    struct change change = sample();

    assert_int_equal(change_check(&change, NULL), 0);

    link.rel = SLICE(REL_PATCH);
    link.type = SLICE("text/x-diff");
    change.links = &link;
    change.n_links = 1;
    change.hash = SLICE(MD5);
    change.length = 0;
    change.type = SLICE("text/csv");
    change.encoding = SLICE("gzip, br");
    change.changefreq = SLICE("never");
    change.priority = SLICE("1.0");
    change.tags = SLICE("a b");
    change.title = change.summary = change.author = SLICE("a\t\r\n\x7f");
    change.data = SLICE("{}");
    assert_int_equal(change_check(&change, NULL), 0);
}

/* The words of an event may be as long as their limits, and no longer. */
TEST(bounds_the_words_of_an_event)
{
    static const struct {
        size_t member, max;
        const char *sentence;
    } rows[] = {
        {offsetof(struct change, title), CHANGE_TITLE_MAX,
         "title: 501 bytes, more than 500"},
        {offsetof(struct change, summary), CHANGE_SUMMARY_MAX,
         "summary: 4097 bytes, more than 4096"},
        {offsetof(struct change, author), CHANGE_AUTHOR_MAX,
         "author: 501 bytes, more than 500"},
        {offsetof(struct change, data), CHANGE_DATA_MAX,
         "data: 65537 bytes, more than 65536"},
    };

    static char text[CHANGE_DATA_MAX + 1];

    memset(text, '1', sizeof(text));
    for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
        struct change change = sample();
        struct slice *words =
            (struct slice *)(void *)((char *)&change + rows[i].member);

        *words = (struct slice){text, rows[i].max};
        assert_int_equal(change_check(&change, NULL), 0);
        words->size++;
        assert_bad(&change, rows[i].sentence);
    }
}

TEST(refuses_words_that_xml_cannot_carry)
{
    static const char *const bad[] = {"\x01", "\xff", "\xef\xbf\xbf", "\x1b["};

    for (size_t i = 0; i < N_ELEMENTS(bad); i++) {
        struct change change = sample();
        struct problem why = {""};

        change.summary = slice_of(bad[i]);
        assert_int_equal(change_check(&change, &why), STATUS_INVALID);
        if (!slice_starts(slice_of(why.text),
                          "summary: not UTF-8, or a "
                          "character that XML cannot carry"))
            fail_msg("%s", why.text);
    }
}

/* */
TEST(lets_a_deleted_resource_have_no_representation)
{
    struct change change = sample();

    change.kind = CHANGE_DELETED;
    change.lastmod_us = 0;
    assert_int_equal(change_check(&change, NULL), 0);

    change.hash = SLICE(MD5);
    assert_bad(&change, "hash: a deleted resource has none");
    change.hash.size = 0;
    change.length = 0;
    assert_bad(&change, "length: a deleted resource has none");
    change.length = LENGTH_NONE;
    change.type = SLICE("a/b");
    assert_bad(&change, "type: a deleted resource has none");
    change.type.size = 0;
    change.encoding = SLICE("gzip");
    assert_bad(&change, "encoding: a deleted resource has none");
}

/* */
TEST(refuses_links_that_lead_nowhere)
{
    struct link link = sample_link();
    struct change change = sample();

    change.links = &link;
    change.n_links = 1;

    link.rel.size = 0;
    assert_bad(&change, "link: no rel");
    link.rel = SLICE("a b");
    assert_bad(&change, "rel: neither a relation's name, such as duplicate, "
                        "nor an absolute URI: "
                        "\"a b\"");
    link = sample_link();
    link.href.size = 0;
    assert_bad(&change, "link: no href");
    link.href = SLICE("b");
    assert_bad(
        &change,
        "href: not an absolute URI, such as http://example.com/a: \"b\"");
    link = sample_link();
    link.rel = SLICE(REL_PATCH);
    assert_bad(&change, "link: a patch needs a type");
    link = sample_link();
    link.pri = 1000000;
    assert_bad(&change, "pri: not from 1 to 999999: 1000000");
    link = sample_link();
    link.type = SLICE("text");
    assert_bad(&change, "type: not a media type, such as text/html: \"text\"");
}

TEST(refuses_values_out_of_form)
{
    static char tag[TAG_MAX + 1];
    struct change change = sample();
    struct problem why;

    change.loc.size = 0;
    assert_bad(&change, "no loc");
    change.loc = SLICE("urn:a");
    assert_bad(&change, "loc: shorter than 12 characters: \"urn:a\"");

    change = sample();
    change.encoding = SLICE("gz\nip");
    assert_bad(&change,
               "encoding: not a content coding, such as gzip: \"gz?ip\"");

    change = sample();
    memset(tag, 'a', sizeof(tag));
    change.tags = (struct slice){tag, TAG_MAX};
    assert_int_equal(change_check(&change, NULL), 0);
    change.tags.size++;
    assert_int_equal(change_check(&change, &why), STATUS_INVALID);
    change.tags = SLICE("a  b");
    assert_bad(&change, "tags: not of 1 to 128 bytes: \"\"");
    change.tags = SLICE("a ");
    assert_bad(&change, "tags: one is empty");
}

/* */
TEST(refuses_attributes_that_are_not_foreign)
{
    static const char *const ours[] = {NS_SITEMAP, NS_RS, NS_TIDINGS, ""};
    struct change change = sample();
    char ns[CHANGE_NS_MAX + 1];
    struct attribute attributes[] = {
        {SLICE("urn:x"), SLICE("x"), SLICE("a"), SLICE("1")},
        {SLICE("urn:y"), SLICE("x"), SLICE("a"), SLICE("1")},
    };

    change.attributes = attributes;
    change.n_attributes = 2;
    assert_int_equal(change_check(&change, NULL), 0);
    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
        attributes[1].ns = slice_of(ours[i]);
        assert_int_equal(change_check(&change, NULL), STATUS_INVALID);
    }
    attributes[1].ns = SLICE("urn:x");
    assert_bad(&change, "attribute \"a\" is given twice");
    memset(ns, 'n', sizeof(ns));
    attributes[1].ns = (struct slice){ns, sizeof(ns)};
    assert_bad(&change,
               "attribute \"a\": its namespace has more than 1024 bytes");
    attributes[1].ns.size--;
    assert_int_equal(change_check(&change, NULL), STATUS_OK);
}

/* Its declaration has to be read back from the fragment, by a parser to which
 * it is a URI reference (found by unit/proto/roundtrip). */
TEST(refuses_a_namespace_that_xml_would_not_read_back)
{
    static const char *const good[] = {
        "urn:x", "http://example.com/?a='1'&b=%C3%A5#c", "x", "../x", "x:",
    };
    static const char *const bad[] = {
        "a b", " ", "\xc3\xa5", "http://[", "1:a", "%", "a\tb", "<x>",
    };
    struct attribute attribute = {SLICE(""), SLICE(""), SLICE("a"), SLICE("")};
    struct change change = sample();

    change.attributes = &attribute;
    change.n_attributes = 1;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        attribute.ns = slice_of(good[i]);
        assert_int_equal(change_check(&change, NULL), STATUS_OK);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        attribute.ns = slice_of(bad[i]);
        assert_int_equal(change_check(&change, NULL), STATUS_INVALID);
    }
    attribute.ns = SLICE("a b");
    assert_bad(&change, "attribute \"a\": its namespace is not a URI: \"a b\"");
}
