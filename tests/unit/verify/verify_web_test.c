/*
 * verify_web_test.c - td_verify of a server: archive, index and lists have to
 * agree, and documents that they name must exist.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/tidings.h"
#include "tests/clock.h"
#include "tests/support/made_lists.h"
#include "tests/support/site.h"
#include "tests/test.h"
#include "tests/unit/lib/transfers.h"

#define XML "application/xml"
#define NAMESPACES                                           \
    "xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\" " \
    "xmlns:rs=\"http://www.openarchives.org/rs/terms/\" "    \
    "xmlns:td=\"urn:tidings:1\""
#define CLOSED 3 /* lists of five entries; then an open one of two */
#define LAST   17

struct stage {
    struct history history;
    struct site *site;
    struct td_client *client;
    struct td_proof proof;
    enum td_status rc; /* of verify_beside */
};

static struct stage s;

static const char *
path_of(unsigned number)
{
    static char path[40];

    snprintf(path, sizeof(path), "/changes/%012u.xml", number);
    return path;
}

static void
put_list(unsigned number)
{
    struct buf text;
    char url[200];
    bool is_open = number > CLOSED;

    buf_init(&text, 1 << 20);
    made_list(&text, &s.history, number, (number - 1) * 5,
              is_open ? LAST : number * 5, is_open);
    /* Its links prev and next. */
    snprintf(url, sizeof(url), "%s/changes/0", site_url(s.site));
    for (unsigned n = (number > 1) + !is_open; n > 0; n--)
        made_edit(&text, "http://example.com/sets/news/0", url);
    site_put(s.site, path_of(number), XML, buf_slice(&text));
    buf_fini(&text);
}

/* An archive, or an index, that names these lists, with another digest for the
 * list `wrong`. */
static void
put_names(bool is_index, unsigned first, unsigned last, unsigned wrong)
{
    const char *root = is_index ? "sitemapindex" : "urlset";
    const char *row = is_index ? "sitemap" : "url";
    char digest[DIGEST_TEXT_SIZE + 1] = "";
    struct buf text;

    buf_init(&text, 1 << 20);
    buf_add_format(&text, "<%s " NAMESPACES "><rs:md capability=\"%s\"/>\n",
                   root, is_index ? "changelist" : "changelist-archive");
    for (unsigned n = first; n <= last; n++) {
        digest_write(digest, &s.history.digests[n * 5 - (n == wrong)]);
        buf_add_format(&text, "<%s><loc>%s%s</loc>", row, site_url(s.site),
                       path_of(n));
        if (n <= CLOSED)
            buf_add_format(&text,
                           "<rs:md until=\"2026-01-01T00:00:%02u.000000Z\" "
                           "td:digest=\"%s\"/>",
                           n * 5, digest);
        buf_add_format(&text, "</%s>\n", row);
    }
    buf_add_format(&text, "</%s>\n", root);
    site_put(s.site, is_index ? "/changelist.xml" : "/archive.xml", XML,
             buf_slice(&text));
    buf_fini(&text);
}

/* The archive has the lists 1 to 3, the index 2 to 4. */
static int
set_stage(void **state)
{
    (void)state;
    memset(&s, 0, sizeof(s));
    history_init(&s.history, "0123456789abcdef");
    s.site = site_new();
    s.client = td_open();
    assert_non_null(s.client);
    clock_skip_waits(transfers_none, NULL);
    site_putf(s.site, "/capability.xml", XML,
              "<urlset " NAMESPACES "><rs:md capability=\"capabilitylist\"/>"
              "<url><loc>%s/changelist.xml</loc>"
              "<rs:md capability=\"changelist\"/></url>"
              "<url><loc>%s/archive.xml</loc>"
              "<rs:md capability=\"changelist-archive\"/></url></urlset>",
              site_url(s.site), site_url(s.site));
    for (unsigned n = 1; n <= CLOSED + 1; n++)
        put_list(n);
    put_names(false, 1, CLOSED, 0);
    put_names(true, 2, CLOSED + 1, 0);
    return 0;
}

static int
clear_stage(void **state)
{
    (void)state;
    td_close(s.client);
    site_free(s.site);
    history_fini(&s.history);
    return 0;
}

static enum td_status
verify(void)
{
    return td_verify(s.client, site_link(s.site, "/capability.xml"), NULL, NULL,
                     &s.proof);
}

/* It breaks at `path` after entry `at`, for that reason. */
static void
assert_breaks(const char *path, uint64_t at, const char *reason)
{
    assert_int_equal(verify(), TD_DIFFERENT);
    assert_string_equal(s.proof.broken_in, site_link(s.site, path));
    assert_int_equal(s.proof.broken_at, at);
    if (!strstr(td_problem(s.client), reason))
        fail_msg("\"%s\" is not in \"%s\"", reason, td_problem(s.client));
}

FIXTURE(set_stage, clear_stage);

/* each list once, though archive and index name it both. */
TEST(archive_and_index_prove_the_whole)
{
    assert_int_equal(verify(), TD_OK);
    assert_int_equal(s.proof.first, 1);
    assert_int_equal(s.proof.last, LAST);
    assert_int_equal(s.proof.n_lists, CLOSED + 1);
    for (unsigned n = 1; n <= CLOSED + 1; n++)
        assert_int_equal(site_count(s.site, path_of(n)), 1);
}

TEST(a_digest_that_the_archive_alone_tells_is_found)
{
    put_names(false, 1, CLOSED, 1);
    assert_breaks(path_of(1), 0,
                  "the archive or index gives its td:digest as sha-256:");
    assert_int_equal(s.proof.last, 0);
}

TEST(archive_and_index_that_differ_are_found)
{
    put_names(true, 2, CLOSED + 1, 3);
    assert_breaks("/changelist.xml", 15,
                  "archive and index give different td:digest for ");
}

/* Retention takes the oldest; no other may be missing. */
TEST(a_list_that_is_named_and_not_there_is_found)
{
    site_status(s.site, path_of(2), 410, NULL, 0);
    assert_breaks(path_of(2), 5, "410; the list before it names it");
    assert_int_equal(s.proof.last, 5);

    site_status(s.site, path_of(1), 410, NULL, 0);
    assert_int_equal(verify(), TD_OK);
    assert_int_equal(s.proof.first, 11);
    assert_int_equal(s.proof.last, LAST);
    assert_false(s.proof.is_from_start);
}

/* Retention takes the first two lists when the first one was read. */
static void
retain_less(const char *list, const struct td_proof *proof, void *user)
{
    (void)user;
    (void)list;
    if (proof->last != 5)
        return;
    site_status(s.site, path_of(1), 410, NULL, 0);
    site_status(s.site, path_of(2), 410, NULL, 0);
    put_names(false, 3, CLOSED, 0);
    put_names(true, 3, CLOSED + 1, 0);
}

/* */
TEST(retention_that_overtakes_the_proof_breaks_nothing)
{
    assert_int_equal(td_verify(s.client, site_link(s.site, "/capability.xml"),
                               retain_less, NULL, &s.proof),
                     TD_OK);
    assert_int_equal(s.proof.first, 11);
    assert_int_equal(s.proof.last, LAST);
    assert_int_equal(s.proof.n_lists, 2);
    assert_string_equal(s.proof.broken_in, "");
}

/* Closed after the archive was read, and not in the index any more. */
TEST(a_list_between_archive_and_index_is_found_by_its_link)
{
    put_names(false, 1, 1, 0);
    put_names(true, 3, CLOSED + 1, 0);
    assert_int_equal(verify(), TD_OK);
    assert_int_equal(s.proof.last, LAST);
    assert_int_equal(s.proof.n_lists, CLOSED + 1);

    site_delete(s.site, path_of(2));
    assert_breaks(path_of(2), 5, "404; the list before it names it");
}

/* The command asks a busy server again. */
TEST(a_list_is_asked_for_again_while_its_server_is_busy)
{
    site_status(s.site, path_of(2), 503, NULL, 1);
    site_cut(s.site, path_of(3), 300);
    assert_int_equal(verify(), TD_OK);
    assert_int_equal(site_count(s.site, path_of(2)), 2);
    assert_int_equal(site_count(s.site, path_of(3)), 2);
}

/* A server that does not answer now, or not to us, says nothing of what is
 * there. */
TEST(who_is_not_answered_has_found_nothing_broken)
{
    site_status(s.site, path_of(2), 429, "Retry-After: 3600", 0);
    assert_int_equal(verify(), TD_UNREACHABLE);
    assert_string_equal(s.proof.broken_in, "");
    assert_int_equal(s.proof.last, 5);
    /* Nobody waits for so long. */
    assert_int_equal(site_count(s.site, path_of(2)), 1);

    clock_pass_us(3600 * INT64_C(1000000));
    site_status(s.site, path_of(2), 403, NULL, 0);
    assert_int_equal(verify(), TD_REFUSED);
    assert_string_equal(s.proof.broken_in, "");
    assert_int_equal(s.proof.last, 5);
}

static void *
verify_beside(void *user)
{
    (void)user;
    s.rc = verify();
    return NULL;
}

/* The server asks it to come again in half a minute, and it waits. */
TEST(it_is_stopped_while_it_waits_for_a_busy_server)
{
    pthread_t thread;

    site_status(s.site, path_of(2), 429, "Retry-After: 30", 0);
    assert_int_equal(pthread_create(&thread, NULL, verify_beside, NULL), 0);
    site_await(s.site, path_of(2), 1);
    AWAIT(site_answered(s.site, path_of(2), 0));
    clock_await_us(30 * INT64_C(1000000));
    td_stop(s.client);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(s.rc, TD_STOPPED);
    assert_string_equal(s.proof.broken_in, "");
    site_status(s.site, path_of(2), 0, NULL, 0);
    assert_int_equal(verify(), TD_OK);
}

/* Lists that nobody could read prove nothing. */
TEST(lists_that_are_all_refused_prove_nothing)
{
    static const struct {
        unsigned status;
        enum td_status rc;
    } all[] = {{403, TD_REFUSED}, {404, TD_REFUSED}, {410, TD_GONE}};

    for (size_t i = 0; i < 3; i++) {
        for (unsigned n = 1; n <= CLOSED + 1; n++)
            site_status(s.site, path_of(n), all[i].status, NULL, 0);
        assert_int_equal(verify(), all[i].rc);
        assert_int_equal(s.proof.n_lists, 0);
    }
}

/* Retention answers 410; a list that is lost otherwise is missing. */
TEST(a_first_list_that_is_lost_is_not_forgiven)
{
    site_delete(s.site, path_of(1));
    assert_int_equal(verify(), TD_REFUSED);
    assert_int_equal(s.proof.n_lists, 0);
}

/* The archive is read; at the index's address is a list, for one more look. */
static void
not_yet_index(const char *list, const struct td_proof *proof, void *user)
{
    (void)user;
    (void)list;
    if (proof->last == 15)
        site_status(s.site, "/changelist.xml", 302, "Location: /open.xml", 1);
}

/* The address of the first list becomes that of the index when it is closed,
 * here between two looks: its entries are changes, not lists. */
TEST(a_list_that_becomes_an_index_names_nothing)
{
    site_putf(s.site, "/open.xml", XML,
              "<urlset " NAMESPACES "><rs:md capability=\"changelist\"/>"
              "<url><loc>%s/page.html</loc></url></urlset>",
              site_url(s.site));
    site_put(s.site, "/page.html", "text/html", SLICE("<p>"));
    assert_int_equal(td_verify(s.client, site_link(s.site, "/capability.xml"),
                               not_yet_index, NULL, &s.proof),
                     TD_OK);
    assert_int_equal(s.proof.last, LAST);
    assert_int_equal(s.proof.n_lists, CLOSED + 1);
    assert_int_equal(site_count(s.site, "/open.xml"), 1);
    assert_int_equal(site_count(s.site, "/page.html"), 0);
}
