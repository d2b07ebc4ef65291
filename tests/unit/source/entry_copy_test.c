/*
 * entry_copy_test.c - entries that stay when their document has gone on.
 */
#include "client/source/entry_copy.h"

#include <stdlib.h>

#include "tests/test.h"

#define N 200

static const char *const list =
    "<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\" "
    "xmlns:rs=\"http://www.openarchives.org/rs/terms/\" "
    "xmlns:td=\"urn:tidings:1\" xmlns:x=\"urn:x\"><url>"
    "<loc>http://r.example/a</loc><lastmod>2026-09-01</lastmod>"
    "<changefreq>daily</changefreq><priority>0.5</priority>"
    "<rs:md change=\"updated\" datetime=\"2026-09-02T00:00:00Z\" "
    "hash=\"md5:f97c5d29941bfb1b2fdab0874906ab82\" length=\"3\" "
    "type=\"text/plain\" encoding=\"gzip\" capability=\"changelist\" "
    "path=\"/a\" td:tags=\"one two\" x:own=\"mine\"/>"
    "<rs:ln rel=\"duplicate\" href=\"http://m.example/a\" pri=\"1\" "
    "type=\"text/plain\" encoding=\"br\" path=\"/b\" x:of=\"link\"/>"
    "<rs:ln rel=\"up\" href=\"http://r.example/\"/><td:title>A</td:title>"
    "<td:summary>B</td:summary><td:author>C</td:author>"
    "<td:data>[1]</td:data></url></urlset>";

static enum status
on_entry(const struct document_entry *entry, const struct document_head *head,
         void *user)
{
    (void)head;
    for (size_t i = 0; i < N; i++)
        assert_int_equal(entry_queue_add(user, entry), STATUS_OK);
    return STATUS_OK;
}

static void
assert_slice(struct slice s, const char *text)
{
    if (!slice_is(s, text))
        fail_msg("\"%.*s\", not \"%s\"", SLICE_ARG(s), text);
}

static void
assert_whole(const struct document_entry *e)
{
    const struct change *c = &e->change;

    assert_slice(c->loc, "http://r.example/a");
    assert_slice(c->changefreq, "daily");
    assert_slice(c->priority, "0.5");
    assert_slice(c->hash, "md5:f97c5d29941bfb1b2fdab0874906ab82");
    assert_slice(c->type, "text/plain");
    assert_slice(c->encoding, "gzip");
    assert_slice(c->tags, "one two");
    assert_slice(c->title, "A");
    assert_slice(c->summary, "B");
    assert_slice(c->author, "C");
    assert_slice(c->data, "[1]");
    assert_slice(e->capability, "changelist");
    assert_slice(e->path, "/a");
    assert_int_equal(c->n_attributes, 1);
    assert_slice(c->attributes[0].ns, "urn:x");
    assert_slice(c->attributes[0].value, "mine");
    assert_int_equal(c->n_links, 2);
    assert_slice(c->links[0].href, "http://m.example/a");
    assert_slice(c->links[0].path, "/b");
    assert_slice(c->links[1].rel, "up");
    assert_slice(c->links[0].encoding, "br");
    assert_slice(c->links[0].attributes[0].value, "link");
    assert_slice(c->links[1].href, "http://r.example/");
}

/* All that an entry points at comes along. */
TEST(a_copy_outlives_its_document)
{
    static const struct document_events events = {.on_entry = on_entry};
    struct document_entry *copy;
    struct document *document;
    struct entry_queue entries;
    size_t n = 0;

    entry_queue_init(&entries);
    document = document_new("http://r.example/list", &events, &entries);
    assert_int_equal(document_feed(document, slice_of(list), NULL), STATUS_OK);
    document_free(document);

    while (n < N / 2 && (copy = entry_queue_take(&entries))) {
        assert_whole(copy);
        free(copy);
        n++;
    }
    assert_int_equal(n, N / 2);
    entry_queue_fini(&entries); /* with the remaining ones */
    assert_null(entry_queue_take(&entries));
}
