/*
 * json_fragment_test.c - the JSON of fragments as they are written, and those
 * that are left to fragment_read. again.h compares both ways for every entry of
 * roundtrip_test and of the fuzz targets of the readers.
 */
#include "proto/resourcesync/entry_builder.h"
#include "proto/resourcesync/fragment.h"
#include "proto/resourcesync/json.h"
#include "tests/test.h"

#define MD "<rs:md change=\"created\" datetime=\"2026-04-01T18:10:00.125000Z\""
#define LINE(before, md, links) \
    "<url><loc>u</loc>" before MD " td:seq=\"7\"" md "/>" links "</url>\n"
#define JSON_MD \
    "\"change\":\"created\",\"datetime\":\"2026-04-01T18:10:00.125000Z\""

/* Design section 4: the members of a change, in their order. */
TEST(converts_fragments_as_they_are_written)
{
    static const struct {
        const char *fragment, *json;
    } rows[] = {
        {LINE("", "", ""), "{\"loc\":\"u\"," JSON_MD ",\"seq\":7}"},
        {"<url><loc>http://h/?a=1&amp;b=&quot;\\&#9;&#10;</loc>" MD
         " td:seq=\"12345678901234567\"/></url>\n",
         "{\"loc\":\"http://h/?a=1&b=\\\"\\\\\\u0009\\u000a\"," JSON_MD
         ",\"seq\":12345678901234567}"},
        {LINE("<lastmod>2026-04-01</lastmod><changefreq>daily</changefreq>"
              "<priority>0.5</priority>",
              " td:datetime=\"2026-03-01T00:00:00Z\" hash=\"md5:0a sha-256:1b\""
              " length=\"0\" type=\"text/csv\" encoding=\"gzip\""
              " td:tags=\"a b\xc3\xa4\"",
              ""),
         "{\"loc\":\"u\"," JSON_MD
         ",\"sourceDatetime\":\"2026-03-01T00:00:00Z\""
         ",\"lastmod\":\"2026-04-01\",\"hash\":{\"md5\":\"0a\",\"sha-256\":"
         "\"1b\"},\"length\":0,\"type\":\"text/csv\",\"encoding\":\"gzip\","
         "\"changefreq\":\"daily\",\"priority\":\"0.5\",\"tags\":[\"a\","
         "\"b\xc3\xa4\"],\"seq\":7}"},
        {LINE("", "",
              "<rs:ln rel=\"via\" href=\"v\" modified=\"2026-03-01T00:00:00Z\""
              " pri=\"3\" hash=\"md5:0a\" length=\"9\" type=\"t/u\"/>"
              "<rs:ln rel=\"up\" href=\"&amp;\"/>"),
         "{\"loc\":\"u\"," JSON_MD
         ",\"links\":[{\"rel\":\"via\",\"href\":\"v\",\"pri\":3,\"modified\":"
         "\"2026-03-01T00:00:00Z\",\"hash\":{\"md5\":\"0a\"},\"length\":9,"
         "\"type\":\"t/u\"},{\"rel\":\"up\",\"href\":\"&\"}],\"seq\":7}"},
        {LINE("", "",
              "<rs:ln rel=\"up\" href=\"v\"/><td:title>&quot;a&quot; &lt; "
              "b</td:title>"
              "<td:summary>1&#10;2</td:summary><td:author>\xc3\xa4</td:author>"
              "<td:data>{&quot;a&quot;:&quot;\\&quot;&lt;&amp;#9;\\u000a&quot;}"
              "</td:data>"),
         "{\"loc\":\"u\"," JSON_MD
         ",\"links\":[{\"rel\":\"up\",\"href\":\"v\"}],\"title\":"
         "\"\\\"a\\\" < b\",\"summary\":\"1\\u000a2\",\"author\":\"\xc3\xa4\","
         "\"data\":{\"a\":\"\\\"<&#9;\\u000a\"},\"seq\":7}"},
        {LINE("", "", "<td:data>0</td:data>"),
         "{\"loc\":\"u\"," JSON_MD ",\"data\":0,\"seq\":7}"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct entry entry;
        struct buf json, slow;

        entry_init(&entry);
        buf_init(&json, 10000);
        buf_init(&slow, 10000);
        assert_true(json_fragment(&json, slice_of(rows[i].fragment)));
        assert_int_equal(fragment_read(&entry, slice_of(rows[i].fragment)), 0);
        json_change(&slow, &entry.change);
        if (!slice_is(buf_slice(&json), rows[i].json) ||
            !slice_is(buf_slice(&slow), rows[i].json))
            fail_msg("%.*s", (int)json.size, json.data);
        buf_fini(&json);
        buf_fini(&slow);
        entry_fini(&entry);
    }
}

/* Unusual fragments, and damaged ones: nothing is appended. */
TEST(leaves_other_fragments_alone)
{
    static const char *const rows[] = {
        "",
        LINE("", " xmlns:a=\"urn:a\" a:b=\"1\"", ""),
        LINE("", " capability=\"changelist\"", ""),
        LINE("", " length=\"3\" hash=\"md5:0a\"", ""), /* another order */
        LINE("", " td:datetime=\"2026-03-01T00:00:00.5Z\"", ""),
        LINE("", " td:datetime=\"2026-03-01T00:00:00+01:00\"", ""),
        LINE("<lastmod>2026-04</lastmod>", "", ""),
        LINE("<changefreq>d&#9;</changefreq>", "", ""),
        LINE("", " length=\"007\"", ""),
        LINE("", " length=\"18446744073709551615\"", ""),
        LINE("", " length=\"-1\"", ""),
        LINE("", " type=\"\"", ""),
        LINE("", " type=\"&gt;&lt\t\"", ""),
        LINE("", " type=\"&\x01\x01\x01\x01;\"", ""),
        LINE("", " td:tags=\"a  b\"", ""),
        LINE("", " td:tags=\"a&#9;b\"", ""),
        LINE("", " hash=\"md5\"", ""),
        LINE("", " hash=\": : : : : :\"", ""),
        LINE("", "", "<rs:ln rel=\"via\"/>"),
        LINE("", "", "<rs:ln rel=\"via\" href=\"v\" xml:lang=\"e\"/>"),
        LINE("", "", "<odd/>"),
        LINE("", "", "<td:data>[&#10;]</td:data>"),
        LINE("", "", "<td:data></td:data>"),
        LINE("", "", "<td:data>1</td:data><td:title>a</td:title>"),
        LINE("", "", "<td:title>1</td:title><rs:ln rel=\"a\" href=\"v\"/>"),
        LINE("", "", "") "\n",
        "<url><loc>u</loc>" MD " td:seq=\"0\"/></url>\n",
        "<url><loc>u</loc>" MD "/></url>\n",
        "<url><loc></loc>" MD " td:seq=\"7\"/></url>\n",
        "<url><loc>u</loc><rs:md change=\"moved\" datetime=\""
        "2026-04-01T18:10:00.125000Z\" td:seq=\"7\"/></url>\n",
        "<url><loc>u</loc><rs:md change=\"created\" datetime=\""
        "2026-04-01T18:10:00Z\" td:seq=\"7\"/></url>\n",
    };
    struct buf json;

    buf_init(&json, 10000);
    BUF_ADD(&json, "before");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (json_fragment(&json, slice_of(rows[i])))
            fail_msg("%s", rows[i]);
        assert_true(slice_is(buf_slice(&json), "before"));
    }
    buf_fini(&json);
}

/* A fragment that was cut is refused, and nobody looks beyond its bytes. */
TEST(does_not_convert_a_part_of_a_fragment)
{
    static const char whole[] =
        LINE("<lastmod>2026-04-01</lastmod>",
             " hash=\"md5:0a\" length=\"1\" type=\"a/b\" td:tags=\"a b\"",
             "<rs:ln rel=\"via\" href=\"v&amp;\"/><td:title>a</td:title>"
             "<td:data>[1]</td:data>");
    struct buf json;

    buf_init(&json, 10000);
    for (size_t n = 0; n + 1 < sizeof(whole) - 1; n++) {
        char *part = malloc(n + 1);

        assert_non_null(part);
        memcpy(part, whole, n);
        assert_false(json_fragment(&json, (struct slice){part, n}));
        free(part);
    }
    buf_fini(&json);
}

/* A buffer without room remembers it. */
TEST(fails_without_room_for_the_json)
{
    struct buf json;

    buf_init(&json, 10);
    assert_false(json_fragment(&json, slice_of(LINE("", "", ""))));
    assert_true(json.failed);
    buf_fini(&json);
}
