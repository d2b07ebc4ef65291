#include "broker/documents/documents.h"

#include <stdio.h>

#include "tests/unit/documents/stage.h"

static struct document_found
assert_found(const char *path, document_open_fn *open, const char *set,
             uint64_t number)
{
    struct document_found found;

    if (documents_find(slice_of(path), &found))
        fail_msg("\"%s\" is not found", path);
    if (found.open != open || found.number != number)
        fail_msg("\"%s\" is another document", path);
    assert_int_equal(found.has_set, set != NULL);
    if (set)
        assert_true(slice_is(found.set, set));
    return found;
}

/* Design section 4: every address of the table is its document's. */
TEST(finds_each_document_by_its_path)
{
    static const struct {
        const char *path;
        document_open_fn *open;
        const char *set;
        uint64_t number;
    } rows[] = {
        {"/", landing_open, NULL, 0},
        {"/robots.txt", robots_open, NULL, 0},
        {"/tidings.js", web_file_open, NULL, 0},
        {"/console.css", web_file_open, NULL, 0},
        {"/.well-known/resourcesync", source_description_open, NULL, 0},
        {"/descriptions/000000000001-000000005000.xml",
         source_description_part_open, NULL, 1},
        {"/sets/demo/changes/latest.xml", changelist_latest_open, "demo", 0},
        {"/sets/demo/changelist-archive/000000000001-000000001000.xml",
         changelist_archive_part_open, "demo", 1},
        {"/sets/demo/capabilitylist.xml", capabilitylist_open, "demo", 0},
        {"/sets/demo/changelist.xml", changelist_current_open, "demo", 0},
        {"/sets/demo/changelist-archive.xml", changelist_archive_open, "demo",
         0},
        {"/sets/demo/notifications", notifications_open, "demo", 0},
        {"/sets/demo/framework-notifications", notifications_open, "demo", 0},
        {"/sets/demo/changes/000000000001.xml", changelist_open, "demo", 1},
        {"/sets/a.b-c_d/changes/000000000120.xml", changelist_open, "a.b-c_d",
         120},
        {"/sets/demo/changes/1234567890123.xml", changelist_open, "demo",
         1234567890123},
        {"/sets/demo/changes/9999999999999999999.xml", changelist_open, "demo",
         UINT64_C(9999999999999999999)},
        {"/sets/demo/9f2c5b7d01e4a683/checkpoint", checkpoint_open, "demo", 0},
        {"/sets/demo/9f2c5b7d01e4a683/tile/0/x001/234", tile_open, "demo", 0},
        {"/sets/demo/r/http://a.example/checkpoint", content_open, "demo", 0},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_found(rows[i].path, rows[i].open, rows[i].set, rows[i].number);
}

/* Documents of generations: the same addresses for each kind. */
TEST(finds_dumps_packages_manifests_and_archives)
{
    static const struct {
        const char *end;
        document_open_fn *open;
        uint64_t number, last;
        const char *content_type;
    } rows[] = {
        {".xml", dumps_current_open, 0, 0, "application/xml"},
        {"/000000000007.xml", dumps_generation_open, 7, 0, "application/xml"},
        {"/000000000007/000000000002.zip", dumps_package_open, 7, 2,
         "application/zip"},
        {"/000000000007/000000000002-manifest.xml", dumps_generation_open, 7, 2,
         "application/xml"},
        {"-archive.xml", generation_archive_open, 0, 0, "application/xml"},
        {"-archive/000000000001-000000001000.xml", generation_archive_part_open,
         1, 1000, "application/xml"},
    };

    static const char *const kinds[] = {
        [GENERATION_RESOURCEDUMP] = "resourcedump",
        [GENERATION_CHANGEDUMP] = "changedump",
    };
    struct document_found found;
    char path[120];

    for (int kind = GENERATION_RESOURCEDUMP; kind <= GENERATION_CHANGEDUMP;
         kind++)
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
            snprintf(path, sizeof(path), "/sets/demo/%s%s", kinds[kind],
                     rows[i].end);
            found = assert_found(path, rows[i].open, "demo", rows[i].number);
            assert_int_equal(found.kind, kind);
            assert_int_equal(found.last, rows[i].last);
            assert_string_equal(found.content_type, rows[i].content_type);
        }
}

/* a list has one address; at any other there is nothing. */
TEST(finds_nothing_elsewhere)
{
    static const char *const paths[] = {
        "",
        "/robots.txt/",
        "/sets",
        "/sets/",
        "/sets/demo",
        "/sets/demo/",
        "/sets//capabilitylist.xml",
        "/sets//changes/000000000001.xml",
        "/sets/demo/capabilitylist",
        "/sets/demo/capabilitylist.xml/",
        "/sets/demo/capabilitylist.xml.gz",
        "/sets/demo/x/capabilitylist.xml",
        "/Sets/demo/capabilitylist.xml",
        "//sets/demo/capabilitylist.xml",
        "/.well-known/resourcesync/",
        "/.well-known/resource",
        "/descriptions",
        "/descriptions/000000000001.xml",
        "/descriptions/000000000000-000000005000.xml",
        "/sets/demo/changes/",
        "/sets/demo/changes/.xml",
        "/sets/demo/changes/1.xml",
        "/sets/demo/changes/00000000001.xml",
        "/sets/demo/changes/000000000000.xml",
        "/sets/demo/changes/0000000000001.xml",
        "/sets/demo/changes/00000000000a.xml",
        "/sets/demo/changes/-00000000001.xml",
        "/sets/demo/changes/ 00000000001.xml",
        "/sets/demo/changes/000000000001",
        "/sets/demo/changes/000000000001.xml.gz",
        "/sets/demo/changes/000000000001.XML",
        "/sets/demo/changes/99999999999999999999.xml",
        "/sets/demo/changes/18446744073709551617.xml",
        "/sets/demo/changelist-archive/",
        "/sets/demo/changelist-archive/000000000001.xml",
        "/sets/demo/changelist-archive/000000000001-.xml",
        "/sets/demo/changelist-archive/-000000001000.xml",
        "/sets/demo/changelist-archive/000000000000-000000001000.xml",
        "/sets/demo/changelist-archive/000000000001-1000.xml",
        "/sets/demo/changelist-archive/000000000001-000000001000",
    };

    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        struct document_found found;

        if (!documents_find(slice_of(paths[i]), &found))
            fail_msg("\"%s\" is found", paths[i]);
    }
}

static void
open_source(struct sets *s, struct xpath *x)
{
    struct document_wish wish = {.registry = s->registry,
                                 .patience = LOG_MEMORY};
    struct document_found found;
    struct document document;

    /* There may be many sets: not on a thread that others wait for. */
    assert_int_equal(documents_find(SLICE("/.well-known/resourcesync"), &found),
                     STATUS_OK);
    assert_int_equal(documents_open(&found, &wish, &document, NULL),
                     STATUS_AGAIN);
    wish.patience = LOG_DISK;
    stage_parse(stage_body(source_description_open, &wish), x);
}

/* an entry for each set, in one Source Description,
 * from its first post on. */
TEST(describes_the_source, stage_setup, stage_teardown)
{
    struct sets *s = *state;
    struct xpath x;

    sets_open(s);
    open_source(s, &x);
    assert_xpath_count(&x, "/s:urlset/rs:md[@capability='description']", 1);
    assert_xpath_count(&x, "/s:urlset/s:url", 0);
    xpath_close(&x);

    sets_post(s, "b", 1, 1);
    sets_post(s, "a", 1, 1);
    sets_unborn(s, "unborn");
    open_source(s, &x);
    assert_xpath_count(
        &x, "/s:urlset/s:url[rs:md/@capability='capabilitylist']", 2);
    assert_xpath_text(&x, "/s:urlset/s:url[1]/s:loc",
                      SETS_URL "/sets/a/capabilitylist.xml");
    assert_xpath_count(&x, "//s:lastmod", 0);
    assert_xpath_count(&x, "//@from | //@until | //@td:*", 0);
    xpath_close(&x);
}

/* the topic of each channel, exactly so, with the hub. */
static void
assert_topics(struct xpath *x)
{
    static const char *const topics[][2] = {
        {"change-notification", SETS_URL "/sets/demo/notifications"},
        {"framework-notification",
         SETS_URL "/sets/demo/framework-notifications"},
    };

    for (size_t i = 0; i < 2; i++) {
        char path[120];

        snprintf(path, sizeof(path),
                 "/s:urlset/s:url[rs:md/@capability='%s']/s:loc", topics[i][0]);
        assert_xpath_text(x, path, topics[i][1]);
        snprintf(path, sizeof(path),
                 "/s:urlset/s:url[rs:md/@capability='%s']"
                 "/rs:ln[@rel='hub']/@href",
                 topics[i][0]);
        assert_xpath_text(x, path, SETS_URL "/hub");
    }
    assert_xpath_count(x, "//rs:ln[@rel='hub']", 2);
}

/* The Capability List has `n` entries: the topics, and this one. */
static void
assert_capability(struct sets *s, size_t n, const char *name)
{
    const struct document_wish wish = stage_wish(s, 0, 0, LOG_MEMORY);
    char question[100], loc[100];
    struct xpath x;

    stage_parse(stage_body(capabilitylist_open, &wish), &x);
    assert_xpath_text(&x, "/s:urlset/rs:ln[@rel='up']/@href",
                      SETS_URL "/.well-known/resourcesync");
    assert_xpath_count(&x, "/s:urlset/s:url", n);
    assert_topics(&x);
    snprintf(question, sizeof(question),
             "/s:urlset/s:url[rs:md/@capability='%s']/s:loc", name);
    snprintf(loc, sizeof(loc), SETS_URL "/sets/demo/%s.xml", name);
    assert_xpath_text(&x, question, loc);
    xpath_close(&x);
}

/* Design rule 7, R-222: only what exists is listed: the archive from the first
 * closed list on. */
TEST(lists_the_capabilities_that_a_set_has, stage_setup, stage_teardown)
{
    struct sets *s = *state;

    sets_open(s);
    sets_post(s, "demo", 1, 2);
    assert_capability(s, 3, "changelist");
    sets_rotate(s, "demo");
    assert_capability(s, 4, "changelist-archive");
}
