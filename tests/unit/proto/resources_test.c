/*
 * Resources of a source: read, written again, and compared with the entry of a
 * Resource List.
 */
#include "proto/resourcesync/fragment.h"
#include "proto/resourcesync/json.h"
#include "tests/test.h"
#include "tests/unit/proto/reading.h"

#define HEAD                                          \
    "<urlset xmlns='" NS_SITEMAP "' xmlns:rs='" NS_RS \
    "' xmlns:td='" NS_TIDINGS "' xmlns:x='http://example.org/x'>"
#define MD   "<rs:md capability='resourcelist' at='2026-01-01T00:00:00Z'/>"
#define A    "<url><loc>http://example.com/a</loc></url>"
#define FOOT "</urlset>"

static struct reading
read_resources(const char *type, const char *document)
{
    return read_steps(type, INPUT_RESOURCES, slice_of(document), 7);
}

static void
assert_resources(const char *type, const char *document, size_t n)
{
    struct reading reading = read_resources(type, document);

    assert_string_equal(reading.why.text, "");
    assert_int_equal(reading.rc, STATUS_OK);
    assert_int_equal(reading.n, n);
    reading_fini(&reading);
}

static void
assert_no_resources(const char *type, const char *document, const char *text)
{
    struct reading reading = read_resources(type, document);

    assert_string_equal(reading.why.text, text);
    assert_int_equal(reading.rc, STATUS_INVALID);
    reading_fini(&reading);
}

/* */
TEST(a_resource_list_a_sitemap_json_and_lines_are_read)
{
    assert_resources(XML, HEAD MD A FOOT, 1);
    assert_resources(XML, HEAD A FOOT, 1);
    assert_resources(XML, "<urlset xmlns='" NS_SITEMAP "'/>", 0);
    assert_resources(NDJSON, "{\"loc\":\"http://example.com/a\"}\n", 1);
    assert_resources(NDJSON, "", 0);
    assert_resources(JSON,
                     "[{\"loc\":\"http://example.com/a\"},"
                     "{\"loc\":\"http://example.com/b\",\"length\":3}]",
                     2);
    assert_resources(JSON, "{\"loc\":\"http://example.com/a\"}", 1);
    assert_resources(JSON, "[]", 0);
    /* */
    assert_resources(NDJSON,
                     "{\"loc\":\"http://example.com/a\","
                     "\"datetime\":\"2026-01-01T00:00:00Z\"}\n",
                     1);
}

/* */
TEST(what_is_of_changes_is_refused)
{
    assert_no_resources(XML, HEAD "<rs:md capability='changelist'/>" A FOOT,
                        "capability: not resourcelist: \"changelist\"");
    assert_no_resources(
        XML,
        HEAD
        "<rs:md capability='resourcelist' from='2026-01-01T00:00:00Z'/>" A FOOT,
        "rs:md: attribute \"from\" is for lists of changes, not of resources");
    assert_no_resources(
        NDJSON, "{\"loc\":\"http://example.com/a\",\"change\":\"created\"}\n",
        "change: a list of resources names their state, not changes");
    assert_no_resources(
        JSON, "[{\"loc\":\"http://example.com/a\",\"change\":\"updated\"}]",
        "change: a list of resources names their state, not changes");
    assert_no_resources(JSON, "{\"set\":\"a\",\"changes\":[]}",
                        "unknown member \"set\" in the change");
    assert_no_resources(JSON, "{\"changes\":[]}",
                        "unknown member \"changes\" in the change");
    /* */
    assert_no_resources(
        XML,
        HEAD "<url><loc>http://example.com/a</loc><rs:ln rel='" REL_PATCH
             "' href='http://example.com/p' type='text/x-diff'/></url>" FOOT,
        "link: a patch is of a change, not of a resource");
}

/* Words are of an event. */
TEST(words_are_refused_by_name)
{
    static const char *const names[] = {"title", "summary", "author", "data"};
    char document[600], sentence[100];

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(sentence, sizeof(sentence),
                 "%s: of a change, not of a resource", names[i]);
        snprintf(document, sizeof(document),
                 HEAD "<url><loc>http://example.com/a</loc><td:%s>1</td:%s>"
                      "</url>" FOOT,
                 names[i], names[i]);
        assert_no_resources(XML, document, sentence);
        snprintf(document, sizeof(document),
                 "{\"loc\":\"http://example.com/a\",\"%s\":\"1\"}\n", names[i]);
        assert_no_resources(NDJSON, document, sentence);
    }
}

/* */
TEST(drafts_of_2012_are_refused_by_name)
{
    static const struct {
        const char *ns;
        bool is_draft;
    } cases[] = {
        {"http://www.openarchives.org/rs/", true},
        {"http://www.openarchives.org/rs", true},
        {"https://openarchives.org/rs/0.5/", true},
        {"http://www.resourcesync.org/ns", true},
        {"http://www.openarchives.org/rs/terms/", false},
        {"http://www.openarchives.org/rsx", false},
        {"http://example.org/rs/", false},
        {"", false},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(namespace_is_draft(slice_of(cases[i].ns)),
                         cases[i].is_draft);
    assert_no_resources(
        XML,
        HEAD "<url xmlns:o='http://www.openarchives.org/rs/'>"
             "<loc>http://example.com/a</loc>"
             "<o:md change='deleted'/></url>" FOOT,
        "the namespace \"http://www.openarchives.org/rs/\" is of a draft of "
        "ResourceSync of 2012, which is no longer read; now it is " NS_RS);
}

/* Comparisons */

#define FULL                                                             \
    "<url><loc>http://example.com/a?b=1&amp;c=2</loc>"                   \
    "<lastmod>2026-01-01</lastmod><changefreq>daily</changefreq>"        \
    "<priority>0.5</priority>"                                           \
    "<rs:md hash='md5:1584abdf8ebdc9802ac0c6a7402c03b6' length='3' "     \
    "type='text/csv' encoding='gzip' td:tags='one two' x:y='z &quot;'/>" \
    "<rs:ln rel='describedby' href='http://example.com/d' pri='1' "      \
    "modified='2026-01-02T00:00:00Z' x:y='z'/></url>"

struct compared {
    struct buf fragments;
    struct buf json;
    struct fragment f;
};

static enum status
keep(const struct change *change, void *user, struct problem *why)
{
    struct compared *c = user;

    json_resource(&c->json, change);
    return fragment_write(&c->fragments, change, &c->f, why);
}

static void
compared_read(struct compared *c, const char *type, struct slice document)
{
    struct input_reader *reader = input_reader_new(format_of(slice_of(type)),
                                                   INPUT_RESOURCES, 1, keep, c);
    struct problem why = {""};

    buf_init(&c->fragments, 1 << 20);
    buf_init(&c->json, 1 << 20);
    assert_non_null(reader);
    if (input_reader_feed(reader, document, &why) ||
        input_reader_end(reader, &why))
        fail_msg("%s", why.text);
    input_reader_free(reader);
}

static void
compared_fini(struct compared *c)
{
    buf_fini(&c->fragments);
    buf_fini(&c->json);
}

static bool
buf_has(const struct buf *b, const char *text)
{
    return memmem(b->data, b->size, text, strlen(text)) != NULL;
}

/* Its entry in a Resource List. */
static void
list_entry_of(const struct compared *c, struct buf *entry)
{
    char stamped[4096];
    size_t size =
        fragment_stamp(stamped, c->fragments.data, &c->f, 1767225600000000, 7);
    struct fragment_view view;

    assert_int_equal(fragment_view((struct slice){stamped, size}, &view),
                     STATUS_OK);
    buf_init(entry, 1 << 20);
    fragment_resource(entry, (struct slice){stamped, size}, view.stamp);
}

TEST(an_entry_is_what_was_told_and_nothing_else_is)
{
    struct compared c;
    struct buf entry;
    size_t same = 0;

    compared_read(&c, XML, SLICE(HEAD FULL FOOT));
    list_entry_of(&c, &entry);
    assert_true(buf_has(&entry, " td:seq=\"7\""));
    assert_true(fragment_is_resource(buf_slice(&c.fragments), c.f.hole,
                                     buf_slice(&entry)));
    /* Any other byte, any missing end. */
    for (size_t i = 0; i < entry.size; i++) {
        char *copy = malloc(entry.size);
        struct slice cut = {copy, i};

        assert_non_null(copy);
        memcpy(copy, entry.data, entry.size);
        assert_false(
            fragment_is_resource(buf_slice(&c.fragments), c.f.hole, cut));
        copy[i] ^= 1;
        same += fragment_is_resource(buf_slice(&c.fragments), c.f.hole,
                                     (struct slice){copy, entry.size});
        free(copy);
    }
    assert_int_equal(same, 1); /* the digit of the seq */

    buf_fini(&entry);
    compared_fini(&c);
}

/* A broker of an older version wrote a date as its first moment: the next list
 * of the source must not change all resources. */
TEST(a_date_is_the_same_as_its_first_moment)
{
    static const char *const lastmods[] = {"2026-01-01", "2026-01-01T00:00:00Z",
                                           "2026-01-01T00:00:01Z",
                                           "2026-01-02"};
    struct compared c[4];
    struct buf entries[4];

    for (int i = 0; i < 4; i++) {
        char document[1024];

        snprintf(document, sizeof(document),
                 HEAD "<url><loc>http://example.com/T00:00:00Z</loc><lastmod>%s"
                      "</lastmod><rs:md length='3'/></url>" FOOT,
                 lastmods[i]);
        compared_read(&c[i], XML, slice_of(document));
        list_entry_of(&c[i], &entries[i]);
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            if (fragment_is_resource(buf_slice(&c[i].fragments), c[i].f.hole,
                                     buf_slice(&entries[j])) !=
                (i == j || i + j == 1))
                fail_msg("%s and %s", lastmods[i], lastmods[j]);
    for (int i = 0; i < 4; i++) {
        buf_fini(&entries[i]);
        compared_fini(&c[i]);
    }
}

/* All but the prefix of a foreign attribute, which JSON does not have: one that
 * no document needs to declare is the same in both. */
TEST(lines_that_are_written_say_the_same)
{
    static const char full[] = HEAD FULL FOOT;
    struct compared xml, json;
    struct buf document;

    buf_init(&document, 1 << 16);
    for (const char *p = full; *p; p++)
        if (!strncmp(p, "x:y", 3)) {
            BUF_ADD(&document, "xml:id");
            p += 2;
        } else {
            buf_add(&document, p, 1);
        }
    compared_read(&xml, XML, buf_slice(&document));
    buf_fini(&document);
    compared_read(&json, NDJSON, buf_slice(&xml.json));

    assert_int_equal(xml.fragments.size, json.fragments.size);
    assert_memory_equal(xml.fragments.data, json.fragments.data,
                        xml.fragments.size);
    compared_fini(&xml);
    compared_fini(&json);
}

TEST(the_kind_is_changed_in_its_place)
{
    struct compared c;
    struct fragment f;
    struct buf entry, deleted;

    compared_read(&c, XML, SLICE(HEAD FULL FOOT));
    fragment_set_kind(c.fragments.data, c.f.hole, CHANGE_UPDATED);
    assert_true(buf_has(&c.fragments, "<rs:md change=\"updated\" hash"));
    list_entry_of(&c, &entry);
    buf_init(&deleted, 4096);
    fragment_write_deleted(&deleted, buf_slice(&entry), &f);
    buf_add(&deleted, "", 1);

    assert_string_equal(deleted.data,
                        "<url><loc>http://example.com/a?b=1&amp;c=2</loc>"
                        "<rs:md change=\"deleted\"/></url>\n");
    assert_int_equal(f.size, deleted.size - 1);
    assert_string_equal(deleted.data + f.hole, "/></url>\n");
    buf_fini(&entry);
    buf_fini(&deleted);
    compared_fini(&c);
}

/* the deletion names the source's resource, and drops the rest of the
 * entry.
 */
TEST(a_deletion_keeps_the_link_to_its_source)
{
#define VIA "<rs:ln rel=\"via\" href=\"http://a.example/?x&gt;y\"/>"
    static const char *const links[][2] = {
        {VIA, VIA},
        {"<rs:ln rel=\"describes\" href=\"http://d.example/\"/>" VIA, VIA},
        {"<rs:ln rel=\"viaduct\" href=\"http://d.example/\"/>", ""},
    };

    for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
        struct compared c;
        struct fragment f;
        struct buf document, entry, deleted, expected;

        buf_init(&document, 4096);
        buf_init(&expected, 4096);
        buf_init(&deleted, 4096);
        buf_add_format(&document,
                       HEAD "<url><loc>http://example.com/a</loc>"
                            "<rs:md length=\"3\"/>%s</url>" FOOT,
                       links[i][0]);
        buf_add_format(&expected,
                       "<url><loc>http://example.com/a</loc>"
                       "<rs:md change=\"deleted\"/>%s</url>\n",
                       links[i][1]);
        compared_read(&c, XML, buf_slice(&document));
        list_entry_of(&c, &entry);
        fragment_write_deleted(&deleted, buf_slice(&entry), &f);

        assert_int_equal(f.size, expected.size);
        assert_int_equal(deleted.size, expected.size);
        assert_memory_equal(deleted.data, expected.data, expected.size);
        compared_fini(&c);
        buf_fini(&document);
        buf_fini(&expected);
        buf_fini(&deleted);
        buf_fini(&entry);
    }
}
