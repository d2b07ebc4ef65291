/*
 * change_batch_test.c - the report of a change: everything in its entry, by any
 * transport.
 */
#include "client/follow/change_batch.h"

#include <stdio.h>
#include <string.h>

#include "client/follow/broker_message.h"
#include "tests/test.h"

#define SECOND INT64_C(1000000)

static const struct link links[] = {{.rel = {"duplicate", 9},
                                     .href = {"http://mirror.example/a", 23},
                                     .length = 7,
                                     .pri = 2,
                                     .modified_us = 5 * SECOND},
                                    {.rel = {"patch", 5},
                                     .href = {"http://example.com/p", 20},
                                     .path = {"/changes/p", 10},
                                     .type = {"application/x-patch", 19},
                                     .length = LENGTH_NONE,
                                     .modified_us = DATETIME_NONE}};

static void
fill(struct document_entry *entry)
{
    memset(entry, 0, sizeof(*entry));
    change_init(&entry->change);
    entry->change.loc = SLICE("http://example.com/a?b&c");
    entry->change.lastmod_us = 3 * SECOND;
    entry->change.length = 12;
    entry->change.type = SLICE("text/csv");
    entry->change.tags = SLICE("x y");
    entry->change.hash = SLICE("md5:0123456789abcdef0123456789abcdef");
    entry->change.links = links;
    entry->change.n_links = 2;
    entry->change.title = SLICE("A & b");
    entry->change.summary = SLICE("1\n2");
    entry->change.author = SLICE("me");
    entry->change.data = SLICE("{\"a\":1}");
    entry->when_us = DATETIME_NONE;
}

static const struct td_change *
told(struct change_batch *batch)
{
    assert_int_equal(change_batch_count(batch), 1);
    return change_batch_seal(batch);
}

static void
assert_all_told(const struct td_change *c)
{
    assert_string_equal(c->loc, "http://example.com/a?b&c");
    assert_string_equal(c->lastmod, "1970-01-01T00:00:03Z");
    assert_int_equal(c->length, 12);
    assert_string_equal(c->type, "text/csv");
    assert_null(c->encoding);
    assert_string_equal(c->tags, "x y");
    assert_string_equal(c->hash, "md5:0123456789abcdef0123456789abcdef");
    assert_string_equal(c->title, "A & b");
    assert_string_equal(c->summary, "1\n2");
    assert_string_equal(c->author, "me");
    assert_string_equal(c->data, "{\"a\":1}");
    assert_string_equal(c->links[0].rel, "duplicate");
    assert_string_equal(c->links[0].href, "http://mirror.example/a");
    assert_int_equal(c->links[0].length, 7);
    assert_int_equal(c->links[0].pri, 2);
    assert_string_equal(c->links[0].modified, "1970-01-01T00:00:05Z");
    assert_string_equal(c->links[1].rel, "patch");
    assert_true(c->links[1].length == UINT64_MAX);
    assert_null(c->links[1].modified);
    assert_int_equal(c->n_links, 2);
}

/* A change of a list: with the time it has, of the kind it says. */
TEST(a_change_is_told_with_all_that_its_entry_says)
{
    static const struct filter all = {.text_size = 0};
    struct document_entry entry;
    static struct filter no_data;
    struct change_batch batch;
    const struct td_change *c;

    fill(&entry);
    entry.has_kind = true;
    entry.change.kind = CHANGE_CREATED;
    entry.when_us = 4 * SECOND;
    entry.change.seq = 9;
    change_batch_init(&batch, TD_XML);
    assert_int_equal(change_batch_add(&batch, &all, &entry, true, NULL),
                     STATUS_OK);
    c = told(&batch);
    assert_all_told(c);
    assert_string_equal(c->change, "created");
    assert_string_equal(c->datetime, "1970-01-01T00:00:04.000000Z");
    assert_int_equal(c->seq, 9);
    assert_string_equal(c->links[1].path, "/changes/p");
    assert_string_equal(
        c->text,
        "<url><loc>http://example.com/a?b&amp;c</loc>"
        "<lastmod>1970-01-01T00:00:03Z</lastmod>"
        "<rs:md change=\"created\" datetime=\"1970-01-01T00:00:04.000000Z\" "
        "td:seq=\"9\" hash=\"md5:0123456789abcdef0123456789abcdef\" "
        "length=\"12\" type=\"text/csv\" td:tags=\"x y\"/>"
        "<rs:ln rel=\"duplicate\" href=\"http://mirror.example/a\" "
        "modified=\"1970-01-01T00:00:05Z\" pri=\"2\" length=\"7\"/>"
        "<rs:ln rel=\"patch\" href=\"http://example.com/p\" "
        "type=\"application/x-patch\"/><td:title>A &amp; b</td:title>"
        "<td:summary>1&#10;2</td:summary><td:author>me</td:author>"
        "<td:data>{&quot;a&quot;:1}</td:data></url>");
    assert_int_equal(strlen(c->text), c->text_size);

    /* A filter leaves the data out of it. */
    assert_int_equal(filter_read(&no_data, SLICE("data=no"), NULL), STATUS_OK);
    change_batch_clear(&batch);
    change_batch_add(&batch, &no_data, &entry, true, NULL);
    c = told(&batch);
    assert_null(c->data);
    assert_string_equal(c->title, "A & b");
    assert_null(strstr(c->text, "td:data"));

    /* An entry without a kind is an update. */
    entry.has_kind = false;
    entry.change.kind = CHANGE_UPDATED;
    change_batch_clear(&batch);
    change_batch_add(&batch, &all, &entry, true, NULL);
    assert_string_equal(told(&batch)->change, "updated");
    change_batch_fini(&batch);
}

/* A resource has no change, in no form. */
TEST(a_resource_is_told_without_a_change)
{
    static const struct filter all = {.text_size = 0};
    struct document_entry entry;
    struct change_batch batch;
    const struct td_change *c;

    fill(&entry);
    entry.when_us = 3 * SECOND;
    change_batch_init(&batch, TD_JSON);
    assert_int_equal(change_batch_add(&batch, &all, &entry, false, "/tmp/a"),
                     STATUS_OK);
    c = told(&batch);
    assert_all_told(c);
    assert_null(c->change);
    assert_null(c->datetime);
    assert_string_equal(c->file, "/tmp/a");
    assert_ptr_equal(strstr(c->text, "{\"loc\":\"http://example.com/a?b&c\","
                                     "\"lastmod\":"),
                     c->text);
    change_batch_fini(&batch);

    entry.change.n_links = 0;
    entry.change.length = LENGTH_NONE;
    entry.change.type = entry.change.tags = entry.change.hash = SLICE("");
    entry.change.title = entry.change.summary = SLICE("");
    entry.change.author = entry.change.data = SLICE("");
    change_batch_init(&batch, TD_XML);
    change_batch_add(&batch, &all, &entry, false, NULL);
    assert_string_equal(told(&batch)->text,
                        "<url><loc>http://example.com/a?b&amp;c</loc>"
                        "<lastmod>1970-01-01T00:00:03Z</lastmod>"
                        "<rs:md/></url>");
    change_batch_fini(&batch);
}

static enum status
add_to_batch(const struct document_entry *entry,
             const struct document_head *head, void *user)
{
    static const struct filter all = {.text_size = 0};

    (void)head;
    assert_int_equal(change_batch_add(user, &all, entry, true, NULL),
                     STATUS_OK);
    return STATUS_OK;
}

/* The attributes of an odd entry with more than one rs:md are written once, on
 * the element that they belong to, so that the text is well-formed. */
TEST(the_text_has_each_foreign_attribute_once)
{
    static const struct {
        const char *inside; /* of the <url> in the document */
        const char *text;   /* behind the <loc> that is delivered */
    } cases[] = {
        {"<rs:md change='updated' y:b='2' y:a='1'/>",
         "<rs:md change=\"updated\" xmlns:y=\"urn:y\" y:b=\"2\" y:a=\"1\"/>"},
        {"<rs:md change='updated' y:b='2' y:a='1'/>"
         "<rs:md change='updated' y:b='2' y:a='1'/>",
         "<rs:md change=\"updated\" xmlns:y=\"urn:y\" y:b=\"2\" y:a=\"1\"/>"},
        {"<rs:md change='created' y:a='1' length='3'/>"
         "<rs:ln rel='up' href='http://example.com/' y:c='3'/>"
         "<rs:md change='deleted' y:b='2'/>",
         "<rs:md change=\"deleted\" xmlns:y=\"urn:y\" y:b=\"2\"/>"
         "<rs:ln rel=\"up\" href=\"http://example.com/\" "
         "xmlns:y=\"urn:y\" y:c=\"3\"/>"},
        {"<rs:md y:a='1'/><rs:md change='created' length='3'/>",
         "<rs:md change=\"created\" length=\"3\" xmlns:y=\"urn:y\" "
         "y:a=\"1\"/>"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        static const struct document_events events = {NULL, add_to_batch};
        struct change_batch batch;
        struct document *d;
        char text[1000];

        change_batch_init(&batch, TD_XML);
        d = document_new("http://example.com/list.xml", &events, &batch);
        assert_non_null(d);
        snprintf(text, sizeof(text),
                 "<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9' "
                 "xmlns:rs='http://www.openarchives.org/rs/terms/' "
                 "xmlns:y='urn:y'><url><loc>http://example.com/a</loc>"
                 "%s</url></urlset>",
                 cases[i].inside);
        assert_int_equal(document_feed(d, slice_of(text), NULL), STATUS_OK);
        assert_int_equal(document_end(d, NULL), STATUS_OK);
        document_free(d);

        snprintf(text, sizeof(text),
                 "<url><loc>http://example.com/a</loc>%s</url>", cases[i].text);
        assert_string_equal(told(&batch)->text, text);
        change_batch_fini(&batch);
    }
}

/* A change that is too long to be written is still reported, without its
 * text. */
TEST(an_entry_that_is_too_long_has_no_text)
{
    static const struct filter all = {.text_size = 0};
    static char loc[300000];
    struct document_entry entry;
    struct change_batch batch;

    memset(loc, 'x', sizeof(loc));
    fill(&entry);
    entry.change.loc = (struct slice){loc, sizeof(loc)};
    change_batch_init(&batch, TD_XML);
    assert_int_equal(change_batch_add(&batch, &all, &entry, true, NULL),
                     STATUS_OK);
    assert_null(told(&batch)->text);
    assert_int_equal(strlen(told(&batch)->loc), sizeof(loc));
    assert_true(change_batch_is_full(&batch));
    change_batch_fini(&batch);
}

/* Reads the lines of a message: each tells everything by itself. */
static const struct td_change *
read_lines(struct change_batch *batch, const struct broker_message *in)
{
    static const struct filter nothing = {.text_size = 0};
    struct entry entry;

    entry_init(&entry);
    for (size_t i = 0; i < in->n_changes; i++) {
        assert_int_equal(broker_lines(in)[i].seq, i + 1);
        assert_int_equal(change_batch_add_line(batch, &nothing, &entry,
                                               broker_lines(in)[i].text),
                         STATUS_OK);
    }
    entry_fini(&entry);
    return change_batch_seal(batch);
}

TEST(messages_tell_all_of_their_entries)
{
    static const char xml[] =
        "<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\""
        " xmlns:rs=\"http://www.openarchives.org/rs/terms/\""
        " xmlns:td=\"urn:tidings:1\">\n"
        "<rs:md capability=\"change-notification\""
        " td:epoch=\"0123456789abcdef\" td:after=\"0\" td:last=\"2\"/>\n"
        "<url><loc>http://example.com/a?b&amp;c</loc>"
        "<lastmod>1970-01-01T00:00:03Z</lastmod>"
        "<rs:md change=\"updated\" datetime=\"1970-01-01T00:00:04.000000Z\""
        " td:seq=\"1\" hash=\"md5:0123456789abcdef0123456789abcdef\""
        " length=\"12\" type=\"text/csv\" td:tags=\"x y\"/>"
        "<rs:ln rel=\"duplicate\" href=\"http://mirror.example/a\""
        " modified=\"1970-01-01T00:00:05Z\" pri=\"2\" length=\"7\"/>"
        "<rs:ln rel=\"patch\" href=\"http://example.com/p\"/>"
        "<td:title>A &amp; b</td:title><td:summary>1&#10;2</td:summary>"
        "<td:author>me</td:author><td:data>{&quot;a&quot;:1}</td:data></url>\n"
        "<url><loc>http://example.com/b</loc>"
        "<rs:md change=\"deleted\" datetime=\"1970-01-01T00:00:04.000001Z\""
        " td:seq=\"2\"/></url>\n</urlset>\n";
    struct problem why = {.text = ""};
    struct broker_message in;
    struct change_batch batch;
    const struct td_change *changes;

    change_batch_init(&batch, TD_JSON);
    assert_int_equal(broker_message_init(&in), STATUS_OK);
    if (broker_message_read(&in, SLICE(xml), &why))
        fail_msg("%s", why.text);
    assert_int_equal(in.n_changes, 2);
    changes = read_lines(&batch, &in);
    assert_all_told(&changes[0]);
    assert_string_equal(changes[0].change, "updated");
    assert_int_equal(changes[1].n_links, 0);
    assert_null(changes[1].links);
    assert_null(changes[1].hash);
    assert_true(changes[1].length == UINT64_MAX);
    broker_message_fini(&in);
    change_batch_fini(&batch);
}
