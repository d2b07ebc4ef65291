/*
 * fragment_documents_test.c - what other documents than Change Lists have of an
 * entry: Resource Lists, and the manifests of packages.
 */
#include <stdlib.h>

#include "proto/resourcesync/fragment.h"
#include "proto/resourcesync/vocab.h"
#include "tests/support/stamped.h"
#include "tests/test.h"

/* Asserts the entry in a Resource List of the stamped fragment of `change` as
 * entry 7. */
static void
assert_resource(const struct change *change, const char *expected)
{
    char *text = stamped_text(change, STAMPED_US, 7);
    struct fragment_view view;
    struct buf b;

    buf_init(&b, FRAGMENT_MAX);
    assert_int_equal(fragment_view(slice_of(text), &view), STATUS_OK);
    fragment_resource(&b, slice_of(text), view.stamp);
    buf_add(&b, "", 1);
    assert_false(b.failed);
    assert_string_equal(b.data, expected);
    buf_fini(&b);
    free(text);
}

/* all that is known of a resource, and nothing of the event:
 * neither its change nor its times. */
TEST(gives_a_resource_list_what_is_of_the_resource)
{
    struct change change = stamped_sample();
    struct attribute attribute = {SLICE("http://example.org/x"), SLICE("x"),
                                  SLICE("datetime"), SLICE("<4>")};
    struct link link = {.rel = SLICE("duplicate"),
                        .href = SLICE("http://example.org/a&b"),
                        .length = LENGTH_NONE,
                        .modified_us = DATETIME_NONE};

    change.lastmod_us = STAMPED_US - 125000;
    change.changefreq = SLICE("daily");
    change.datetime_us = INT64_C(1772323200000000);
    change.hash = SLICE("md5:d41d8cd98f00b204e9800998ecf8427e");
    change.length = 3;
    change.type = SLICE("text/csv");
    change.encoding = SLICE("br");
    change.tags = SLICE("b a");
    change.attributes = &attribute;
    change.n_attributes = 1;
    change.links = &link;
    change.n_links = 1;
    change.title = change.summary = change.author = SLICE("<td:");
    change.data = SLICE("{\"a\":\"<td:/>\"}");
    assert_resource(
        &change,
        "<url><loc>http://example.com/a?b=1&amp;c=&lt;2&gt;</loc>"
        "<lastmod>2026-04-01T18:10:00Z</lastmod>"
        "<changefreq>daily</changefreq>"
        "<rs:md td:seq=\"7\""
        " hash=\"md5:d41d8cd98f00b204e9800998ecf8427e\" length=\"3\""
        " type=\"text/csv\" encoding=\"br\" td:tags=\"b a\""
        " xmlns:x=\"http://example.org/x\""
        " x:datetime=\"&lt;4&gt;\"/>"
        "<rs:ln rel=\"duplicate\" href=\"http://example.org/a&amp;b\"/>"
        "</url>\n");

    change_init(&change);
    change.loc = SLICE("http://example.com/a");
    change.kind = CHANGE_UPDATED;
    assert_resource(&change, "<url><loc>http://example.com/a</loc>"
                             "<rs:md td:seq=\"7\"/></url>\n");
}

/* a patch is of the change, wherever it stands among the links. */
TEST(leaves_patches_out_of_a_resource_list)
{
    const struct link patch = {
        .rel = SLICE("http://www.openarchives.org/rs/terms/patch"),
        .href = SLICE("http://example.org/patch/>"),
        .type = SLICE("application/json-patch+json"),
        .length = 9,
        .modified_us = DATETIME_NONE,
    };
    struct link other = patch, similar = patch;
    struct link links[] = {patch, patch, patch, patch, patch};
    struct change change = stamped_sample();

    other.rel = SLICE("canonical");
    similar.rel = SLICE("http://www.openarchives.org/rs/terms/patch2");
    change.loc = SLICE("http://example.com/a");
    change.links = links;
    change.n_links = 1;
    assert_resource(&change, "<url><loc>http://example.com/a</loc>"
                             "<rs:md td:seq=\"7\"/></url>\n");
    links[1] = other;
    links[3] = similar;
    change.n_links = 5;
    assert_resource(
        &change,
        "<url><loc>http://example.com/a</loc><rs:md td:seq=\"7\"/>"
        "<rs:ln rel=\"canonical\" href=\"http://example.org/patch/&gt;\""
        " length=\"9\" type=\"application/json-patch+json\"/>"
        "<rs:ln rel=\"http://www.openarchives.org/rs/terms/patch2\""
        " href=\"http://example.org/patch/&gt;\""
        " length=\"9\" type=\"application/json-patch+json\"/></url>\n");
}

static void
assert_in_manifest(const char *entry, const struct fragment_member *member,
                   const char *expected)
{
    struct buf b;

    buf_init(&b, FRAGMENT_MAX);
    fragment_in_manifest(&b, slice_of(entry), member);
    buf_add(&b, "", 1);
    assert_false(b.failed);
    assert_string_equal(b.data, expected);
    buf_fini(&b);
}

/* What a reader gets that asks for entries without data. */
TEST(leaves_the_data_out)
{
    static const char *const rows[][2] = {
        {"<td:title>&lt;td:data&gt;</td:title><td:data>{}</td:data>",
         "<td:title>&lt;td:data&gt;</td:title>"},
        {"<td:data>1</td:data>", ""},
        {"<td:title>a</td:title>", "<td:title>a</td:title>"},
        {"", ""},
    };
    char with[200], without[200];
    struct buf to;

    buf_init(&to, 1000);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        snprintf(with, sizeof(with), "<url><loc>u</loc><rs:md/>%s</url>\n",
                 rows[i][0]);
        snprintf(without, sizeof(without),
                 "<url><loc>u</loc><rs:md/>%s</url>\n", rows[i][1]);
        buf_clear(&to);
        fragment_without_data(&to, slice_of(with));
        assert_true(slice_is(buf_slice(&to), without));
        assert_int_equal(fragment_has_data(slice_of(with)),
                         strcmp(with, without) != 0);
    }
    buf_fini(&to);
}

/* of changes and of resources alike.
 */
TEST(tells_in_a_manifest_where_the_bytes_are)
{
    struct digest digest;
    const struct fragment_member member = {SLICE("/resources/000000000001.csv"),
                                           &digest, 3};

    digest_sha256(&digest, SLICE("abc"));
    assert_in_manifest(
        "<url><loc>http://h/a</loc><rs:md change=\"created\""
        " datetime=\"2026-04-01T18:10:00.125000Z\" td:seq=\"7\""
        " type=\"a/b\"/></url>\n",
        &member,
        "<url><loc>http://h/a</loc><rs:md change=\"created\""
        " datetime=\"2026-04-01T18:10:00.125000Z\" td:seq=\"7\" type=\"a/b\""
        " hash=\"sha-256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410f"
        "f61f20015ad\" length=\"3\""
        " path=\"/resources/000000000001.csv\"/></url>\n");
    assert_in_manifest(
        "<url><loc>http://h/a</loc><rs:md td:seq=\"7\"/>"
        "<td:title>\"&lt;\"</td:title><td:data>{\"a\":1}</td:data></url>\n",
        NULL,
        "<url><loc>http://h/a</loc><rs:md td:seq=\"7\"/>"
        "<td:title>\"&lt;\"</td:title><td:data>{\"a\":1}</td:data></url>\n");
    /* The source's members stay as they are. */
    assert_in_manifest(
        "<url><loc>&lt;rs:md </loc><rs:md td:seq=\"7\" hash=\"md5:0\""
        " length=\"3\" xmlns:x=\"urn:x\" x:length=\"&lt;&gt;/&quot;\"/>"
        "<rs:ln rel=\"" REL_PATCH "\" href=\"http://h/p\"/>"
        "<rs:ln rel=\"duplicate\" href=\"http://h/b\"/></url>\n",
        &member,
        "<url><loc>&lt;rs:md </loc><rs:md td:seq=\"7\" hash=\"md5:0\""
        " length=\"3\" xmlns:x=\"urn:x\" x:length=\"&lt;&gt;/&quot;\""
        " path=\"/resources/000000000001.csv\"/>"
        "<rs:ln rel=\"duplicate\" href=\"http://h/b\"/></url>\n");
    assert_in_manifest(
        "<url><loc>http://h/a</loc><rs:md change=\"deleted\""
        " datetime=\"2026-04-01T18:10:00.125000Z\" td:seq=\"7\"/></url>\n",
        NULL,
        "<url><loc>http://h/a</loc><rs:md change=\"deleted\""
        " datetime=\"2026-04-01T18:10:00.125000Z\" td:seq=\"7\"/></url>\n");
}

TEST(gives_the_loc_and_the_type_of_any_entry)
{
    struct slice loc, type;

    fragment_names(SLICE("<url><loc>http://h/a&amp;b</loc>"
                         "<rs:md td:seq=\"7\" type=\"text/csv\"/></url>\n"),
                   &loc, &type);
    assert_true(slice_is(loc, "http://h/a&amp;b"));
    assert_true(slice_is(type, "text/csv"));
    fragment_names(
        SLICE("<url><loc>http://h/a</loc><rs:md change=\"created\""
              " datetime=\"2026-04-01T18:10:00.125000Z\" td:seq=\"7\"/>"
              "<rs:ln rel=\"duplicate\" href=\"b\" type=\"c/d\"/></url>\n"),
        &loc, &type);
    assert_true(slice_is(loc, "http://h/a"));
    assert_int_equal(type.size, 0);
}
