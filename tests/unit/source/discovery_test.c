/*
 * discovery_test.c - sets are found, whichever page of a source one begins
 * with.
 */
#include "client/source/discovery.h"

#include "base/clock.h"
#include "tests/test.h"
#include "tests/unit/source/discover_stage.h"

FIXTURE(set_stage, clear_stage);

TEST(a_server_that_falls_silent_is_not_waited_for_longer_than_told)
{
    struct stage *s = *state;
    int64_t begun_ms = clock_steady_ms();

    put(s, "/cl.xml", CHANGES);
    site_hold(s->site, "/cl.xml");
    clock_skip_waits(transfers_held, s->site);
    s->silence_s = 4;
    fails(s, "/cl.xml", STATUS_UNREACHABLE, "/cl.xml: ");
    assert_in_range(clock_steady_ms() - begun_ms, 4000, 5000);
}

/* The time is that of the answer to the first page, wherever that led. */
TEST(tells_the_time_by_the_servers_clock)
{
    struct stage *s = *state;

    put(s, "/ch.xml", LIST("changelist", UP("/cl.xml") ENTRY("/a")));
    put(s, "/cl.xml", CHANGES);
    site_headers(s->site, "/cl.xml", "Date: Sun, 06 Nov 1994 08:49:37 GMT");
    finds(s, "/ch.xml",
          "url=/cl.xml cl=/cl.xml ch=/changes.xml "
          "date=Sun, 06 Nov 1994 08:49:37 GMT\n");
    site_headers(s->site, "/ch.xml", "Date: Sun, 06 Nov 1994 08:49:31 GMT");
    finds(s, "/ch.xml",
          "url=/cl.xml cl=/cl.xml ch=/changes.xml "
          "date=Sun, 06 Nov 1994 08:49:31 GMT\n");
}

/* every set, in the order of the Source
 * Description. */
TEST(a_source_description_leads_to_all_sets)
{
    struct stage *s = *state;

    put(s, "/.well-known/resourcesync",
        LIST("description", OFFER("/b/cl.xml", "capabilitylist")
                                ENTRY("/a/cl.xml") ENTRY("/b/cl.xml")));
    put(s, "/a/cl.xml",
        LIST("capabilitylist",
             OFFER("rl.xml", "resourcelist") OFFER("rd.xml", "resourcedump")
                 OFFER("ch.xml", "changelist") OFFER("cd.xml", "changedump")
                     OFFER("rla.xml", "resourcelist-archive")
                         OFFER("rda.xml", "resourcedump-archive")
                             OFFER("cla.xml", "changelist-archive")
                                 OFFER("cda.xml", "changedump-archive")
                                     OFFER("t", "change-notification")));
    put(s, "/b/cl.xml", LIST("capabilitylist", OFFER("ch.xml", "changelist")));

    finds(s, "/.well-known/resourcesync",
          "url=/b/cl.xml cl=/b/cl.xml ch=/b/ch.xml\n"
          "url=/a/cl.xml cl=/a/cl.xml rl=/a/rl.xml rd=/a/rd.xml ch=/a/ch.xml "
          "cd=/a/cd.xml rla=/a/rla.xml rda=/a/rda.xml cla=/a/cla.xml "
          "cda=/a/cda.xml topic=/a/t\n");
    assert_int_equal(site_count(s->site, NULL), 3);
}

/* an index of descriptions, and lists of lists. */
TEST(indexes_and_nested_lists_lead_on)
{
    struct stage *s = *state;

    put(s, "/d.xml", INDEX("description", PART("/d1.xml") PART("/d2.xml")));
    put(s, "/d1.xml", LIST("description", ENTRY("/cl1.xml")));
    put(s, "/d2.xml", LIST("description", ENTRY("/cl2.xml")));
    put(s, "/cl1.xml", LIST("capabilitylist", OFFER("/1", "changelist")));
    put(s, "/cl2.xml",
        LIST("capabilitylist",
             OFFER("/2", "changelist") OFFER("/cl3.xml", "capabilitylist")));
    put(s, "/cl3.xml", INDEX("capabilitylist", PART("/cl4.xml")));
    put(s, "/cl4.xml", LIST("capabilitylist", OFFER("/4", "changelist")));

    finds(s, "/d.xml",
          "url=/cl1.xml cl=/cl1.xml ch=/1\n"
          "url=/cl2.xml cl=/cl2.xml ch=/2\n"
          "url=/cl4.xml cl=/cl4.xml ch=/4\n");
}

/* a circle alone is an error; a circle beside sets hides none. */
TEST(a_circle_of_documents_is_broken)
{
    struct stage *s = *state;

    put(s, "/d.xml", INDEX("description", PART("/d.xml") PART("/e.xml")));
    put(s, "/e.xml", INDEX("description", PART("/d.xml")));
    fails(s, "/d.xml", STATUS_MALFORMED, "its documents lead in a circle");
    put(s, "/e.xml", LIST("description", ENTRY("/cl.xml")));
    put(s, "/cl.xml", CHANGES);
    finds(s, "/d.xml", "url=/cl.xml cl=/cl.xml ch=/changes.xml\n");

    put(s, "/c.xml", LIST("capabilitylist", OFFER("/c.xml", "capabilitylist")));
    fails(s, "/c.xml", STATUS_MALFORMED, "its documents lead in a circle");

    put(s, "/a.xml", LIST("changelist", UP("/b.xml")));
    put(s, "/b.xml", LIST("resourcelist", UP("/a.xml")));
    fails(s, "/a.xml", STATUS_MALFORMED, "its links \"up\" lead in a circle");
}

/* each page names one more. */
TEST(a_chain_without_end_is_broken)
{
    static const char *const chains[] = {
        "<sitemapindex" RS "<rs:md capability=\"description\"/>"
        "<sitemap><loc>/%u</loc></sitemap></sitemapindex>",
        "<urlset" RS "<rs:md capability=\"capabilitylist\"/><url>"
        "<loc>/%u</loc><rs:md capability=\"capabilitylist\"/></url></urlset>",
        "<urlset" RS "<rs:md capability=\"changelist\"/>"
        "<rs:ln rel=\"up\" href=\"/%u\"/></urlset>",
        "<urlset" RS "<rs:md capability=\"description\"/>"
        "<rs:ln rel=\"index\" href=\"/%u\"/></urlset>",
    };
    struct stage *s = *state;
    char path[16];

    for (size_t i = 0; i < sizeof(chains) / sizeof(chains[0]); i++) {
        size_t n_before = site_count(s->site, NULL);

        for (unsigned n = 0; n < 100; n++) {
            char body[600];

            snprintf(path, sizeof(path), "/%u", n);
            snprintf(body, sizeof(body), chains[i], n + 1);
            put(s, path, body);
        }
        fails(s, "/0", STATUS_MALFORMED, "lead from one to the next");
        assert_in_range(site_count(s->site, NULL) - n_before, 10, 30);
    }
}

/* a part knows of the other parts by its index. */
TEST(a_part_of_the_description_stands_for_all_of_it)
{
    struct stage *s = *state;

    put(s, "/d.xml", INDEX("description", PART("/d1.xml") PART("/d2.xml")));
    put(s, "/d1.xml",
        LIST("description",
             "<rs:ln rel=\"index\" href=\"/d.xml\"/>" ENTRY("/cl1.xml")));
    put(s, "/d2.xml",
        LIST("description",
             "<rs:ln rel=\"index\" href=\"/d.xml\"/>" ENTRY("/cl2.xml")));
    put(s, "/cl1.xml", CHANGES);
    put(s, "/cl2.xml", CHANGES);
    finds(s, "/d2.xml",
          "url=/cl2.xml cl=/cl2.xml ch=/changes.xml\n"
          "url=/cl1.xml cl=/cl1.xml ch=/changes.xml\n");
}

/* a page that names several sets need not name all of them. */
TEST(a_page_that_names_some_sets_leads_to_all)
{
    struct stage *s = *state;

    put(s, "/page", "<html><body>Our data</body></html>");
    site_headers(s->site, "/page",
                 "Link: </1.xml>; rel=\"resourcesync\", "
                 "</2.xml>; rel=\"resourcesync\"");
    for (unsigned n = 1; n <= 3; n++) {
        char path[16];

        snprintf(path, sizeof(path), "/%u.xml", n);
        put(s, path,
            LIST("capabilitylist",
                 UP("/d1.xml") OFFER("/changes.xml", "changelist")));
    }
    put(s, "/d1.xml",
        LIST("description", "<rs:ln rel=\"index\" href=\"/d.xml\"/>" ENTRY(
                                "/1.xml") ENTRY("/2.xml")));
    put(s, "/d.xml", INDEX("description", PART("/d1.xml") PART("/d2.xml")));
    put(s, "/d2.xml", LIST("description", ENTRY("/3.xml")));
    finds(s, "/page",
          "url=/1.xml cl=/1.xml ch=/changes.xml\n"
          "url=/2.xml cl=/2.xml ch=/changes.xml\n"
          "url=/3.xml cl=/3.xml ch=/changes.xml\n");

    /* A resource stands for the one set that covers it. */
    site_headers(s->site, "/page", "Link: </2.xml>; rel=\"resourcesync\"");
    finds(s, "/page", "url=/2.xml cl=/2.xml ch=/changes.xml\n");

    /* Without the description the sets of the page alone are known. */
    site_headers(s->site, "/page",
                 "Link: </1.xml>; rel=\"resourcesync\", "
                 "</2.xml>; rel=\"resourcesync\"");
    site_delete(s->site, "/d1.xml");
    finds(s, "/page",
          "url=/1.xml cl=/1.xml ch=/changes.xml\n"
          "url=/2.xml cl=/2.xml ch=/changes.xml\n"
          "missed url=/d1.xml\n");
}

/* the root of a host stands for the whole host, not only for the sets on
 * its page. */
TEST(the_root_of_a_host_stands_for_all_its_sets)
{
    struct stage *s = *state;

    put(s, "/", "<html><body>Welcome</body></html>");
    site_headers(s->site, "/", "Link: </1.xml>; rel=\"resourcesync\"");
    put(s, "/1.xml", CHANGES);
    put(s, "/2.xml", CHANGES);
    finds(s, "/", "url=/1.xml cl=/1.xml ch=/changes.xml\n");

    /* Many a host has a page for people at every address. */
    put(s, "/.well-known/resourcesync", "<!DOCTYPE html><p>Welcome");
    fails(s, "/", STATUS_MALFORMED, "/.well-known/resourcesync cannot be read");
    site_headers(s->site, "/.well-known/resourcesync",
                 "Content-Type: text/html");
    finds(s, "/", "url=/1.xml cl=/1.xml ch=/changes.xml\n");

    put(s, "/.well-known/resourcesync",
        LIST("description", ENTRY("/1.xml") ENTRY("/2.xml")));
    finds(s, "/",
          "url=/1.xml cl=/1.xml ch=/changes.xml\n"
          "url=/2.xml cl=/2.xml ch=/changes.xml\n");
    finds(s, "?lang=en",
          "url=/1.xml cl=/1.xml ch=/changes.xml\n"
          "url=/2.xml cl=/2.xml ch=/changes.xml\n");
}

/* by the link "up", over several hops (I-05). */
TEST(a_list_leads_up_to_its_set)
{
    struct stage *s = *state;

    put(s, "/part.xml", LIST("changelist", UP("index.xml") ENTRY("/1")));
    put(s, "/index.xml", INDEX("changelist", UP("/cl.xml") PART("/part.xml")));
    put(s, "/cl.xml",
        LIST("capabilitylist", OFFER("/index.xml", "changelist")
                                   OFFER("/rl.xml", "resourcelist")));

    finds(s, "/part.xml", "url=/cl.xml cl=/cl.xml rl=/rl.xml ch=/index.xml\n");
}

/* that several Sitemaps of a set lead up to it is no circle. */
TEST(the_sitemaps_of_a_host_lead_up_to_their_sets)
{
    struct stage *s = *state;
    char robots[400];

    put(s, "/", "<html><body>Welcome</body></html>");
    snprintf(robots, sizeof(robots),
             "User-agent: *\nSitemap: %s/rl.xml\nSitemap: %s/ch.xml\n",
             site_url(s->site), site_url(s->site));
    put(s, "/robots.txt", robots);
    put(s, "/rl.xml", LIST("resourcelist", UP("/cl.xml") ENTRY("/1")));
    put(s, "/ch.xml", LIST("changelist", UP("/cl.xml") ENTRY("/1")));
    put(s, "/cl.xml",
        LIST("capabilitylist",
             OFFER("/rl.xml", "resourcelist") OFFER("/ch.xml", "changelist")));
    finds(s, "/", "url=/cl.xml cl=/cl.xml rl=/rl.xml ch=/ch.xml\n");
}

TEST(a_list_whose_link_up_leads_nowhere_is_offered_alone)
{
    static const char *const lists[] = {
        LIST("resourcelist", UP("/not-there")),
        LIST("resourcelist", UP("http://127.0.0.1:1/x")),
        LIST("resourcelist", UP("/page.html")),
        LIST("resourcelist", UP("/d.xml")),
    };
    struct stage *s = *state;

    put(s, "/page.html", "<!DOCTYPE html><p>");
    put(s, "/d.xml", LIST("description", ENTRY("/cl.xml")));
    put(s, "/cl.xml", CHANGES);
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        put(s, "/rl.xml", lists[i]);
        if (discover(s, site_link(s->site, "/rl.xml")) ||
            strcmp(s->told.data, "url=/rl.xml rl=/rl.xml\n") != 0)
            fail_msg("%s: %s%s", lists[i], s->why.text, s->told.data);
    }

    /* But a server that is busy is asked again later. */
    site_status(s->site, "/d.xml", 503, "Retry-After: 7", 0);
    fails(s, "/rl.xml", STATUS_UNREACHABLE, NULL);
    assert_int_equal(s->why.retry_after_s, 7);
}

/* the links in its root count. */
TEST(a_document_alone_names_its_index_and_its_archive)
{
    struct stage *s = *state;

    put(s, "/part.xml",
        LIST("changelist", "<rs:ln rel=\"index\" href=\"/index.xml\"/>"
                           "<rs:ln rel=\"archives\" href=\"/old.xml\"/>"));
    finds(s, "/part.xml", "url=/part.xml ch=/index.xml cla=/old.xml\n");

    put(s, "/dump.xml", LIST("resourcedump", ENTRY("/1.zip")));
    finds(s, "/dump.xml", "url=/dump.xml rd=/dump.xml\n");
}

TEST(a_plain_sitemap_is_a_resource_list)
{
    struct stage *s = *state;

    put(s, "/sitemap.xml", "<urlset" RS ENTRY("/1") "</urlset>");
    finds(s, "/sitemap.xml", "url=/sitemap.xml rl=/sitemap.xml\n");

    put(s, "/sitemap.xml", "<sitemapindex>" PART("/1") "</sitemapindex>");
    finds(s, "/sitemap.xml", "url=/sitemap.xml rl=/sitemap.xml\n");
}

/* the links in the head of a page. */
TEST(a_page_leads_to_the_sets_it_names)
{
    struct stage *s = *state;

    put(s, "/sub/page.html",
        "<!DOCTYPE html><html><head><title>A page</title>"
        "<link rel=resourcesync href=\"cl1.xml\">"
        "<link rel=\"resourcesync\" href=\"/cl2.xml\"></head><body>"
        "<link rel=\"resourcesync\" href=\"/cl3.xml\"></body></html>");
    put(s, "/sub/cl1.xml", CHANGES);
    put(s, "/cl2.xml", CHANGES);
    finds(s, "/sub/page.html",
          "url=/sub/cl1.xml cl=/sub/cl1.xml ch=/changes.xml\n"
          "url=/cl2.xml cl=/cl2.xml ch=/changes.xml\n");
}

/* the Link header of any resource. */
TEST(a_resource_leads_to_its_set)
{
    struct stage *s = *state;

    put(s, "/photo", "\x89PNG...");
    site_headers(s->site, "/photo",
                 "Link: <up>; rel=\"up\", <cl.xml>; rel=\"resourcesync\", "
                 "<other.xml>; rel=\"resourcesync\"; anchor=\"/other\"");
    put(s, "/cl.xml", CHANGES);
    finds(s, "/photo", "url=/cl.xml cl=/cl.xml ch=/changes.xml\n");
    assert_int_equal(site_count(s->site, NULL), 2);
}

/* the host's own address for it, if the page says nothing. */
TEST(the_host_is_asked_where_the_page_says_nothing)
{
    struct stage *s = *state;

    put(s, "/.well-known/resourcesync",
        LIST("description", ENTRY("/a/cl.xml") ENTRY("/b/cl.xml")));
    put(s, "/a/cl.xml", CHANGES);
    put(s, "/b/cl.xml", CHANGES);
    put(s, "/page", "<html><body>Welcome</body></html>");

    /* All of them for the host, those below a path for that path. */
    finds(s, "/",
          "url=/a/cl.xml cl=/a/cl.xml ch=/changes.xml\n"
          "url=/b/cl.xml cl=/b/cl.xml ch=/changes.xml\n");
    finds(s, "/b/", "url=/b/cl.xml cl=/b/cl.xml ch=/changes.xml\n");
    finds(s, "/page",
          "url=/a/cl.xml cl=/a/cl.xml ch=/changes.xml\n"
          "url=/b/cl.xml cl=/b/cl.xml ch=/changes.xml\n");
    fails(s, "/c", STATUS_REFUSED, NULL);
    assert_int_equal(s->why.http_status, 404);

    /* The same where the host's description has parts. */
    put(s, "/.well-known/resourcesync",
        INDEX("description", PART("/d1.xml") PART("/d2.xml")));
    put(s, "/d1.xml", LIST("description", ENTRY("/a/cl.xml")));
    put(s, "/d2.xml", LIST("description", ENTRY("/b/cl.xml")));
    finds(s, "/b/", "url=/b/cl.xml cl=/b/cl.xml ch=/changes.xml\n");
    finds(s, "/page",
          "url=/a/cl.xml cl=/a/cl.xml ch=/changes.xml\n"
          "url=/b/cl.xml cl=/b/cl.xml ch=/changes.xml\n");
}

TEST(redirects_are_followed_and_relative_urls_are_of_where_they_lead)
{
    struct stage *s = *state;

    site_status(s->site, "/old", 301, "Location: /new/cl.xml", 0);
    put(s, "/new/cl.xml",
        LIST("capabilitylist", OFFER("ch.xml", "changelist")));
    finds(s, "/old", "url=/old cl=/old ch=/new/ch.xml\n");

    site_status(s->site, "/round", 302, "Location: /round", 0);
    fails(s, "/round", STATUS_REFUSED, NULL);
    assert_int_equal(site_count(s->site, "/round"), 11);
}

/* The discovery asks a busy server again, and reads other pages meanwhile. */
TEST(a_page_of_a_busy_server_is_asked_for_again)
{
    struct stage *s = *state;

    put(s, "/d.xml", LIST("description", ENTRY("/1.xml") ENTRY("/2.xml")));
    put(s, "/1.xml", CHANGES);
    put(s, "/2.xml", CHANGES);
    site_status(s->site, "/1.xml", 503, "Retry-After: 2", 2);
    finds(s, "/d.xml",
          "url=/2.xml cl=/2.xml ch=/changes.xml\n"
          "url=/1.xml cl=/1.xml ch=/changes.xml\n");
    site_status(s->site, "/1.xml", 503, NULL, 0);
    finds(s, "/d.xml",
          "url=/2.xml cl=/2.xml ch=/changes.xml\n"
          "missed url=/1.xml\n");
    assert_int_equal(site_count(s->site, "/1.xml"), 6);
}

/* a discovery reports each named page that it cannot read, and finds the
 * other sets. */
TEST(what_is_named_and_cannot_be_read_is_missed)
{
    static const char missed[] = "missed url=/1.xml\n"
                                 "url=/2.xml cl=/2.xml ch=/changes.xml\n";
    struct stage *s = *state;

    put(s, "/d.xml", LIST("description", ENTRY("/1.xml") ENTRY("/2.xml")));
    put(s, "/2.xml", CHANGES);
    finds(s, "/d.xml", missed);
    site_status(s->site, "/1.xml", 503, "Retry-After: 7", 0);
    finds(s, "/d.xml", missed);
    site_status(s->site, "/1.xml", 410, NULL, 0); /* it was removed */
    finds(s, "/d.xml", "url=/2.xml cl=/2.xml ch=/changes.xml\n");
    site_status(s->site, "/1.xml", 0, NULL, 0);
    put(s, "/1.xml", "<urlset><oops></urlset>");
    finds(s, "/d.xml", missed);
    put(s, "/1.xml", "<!DOCTYPE html><p>Not found");
    finds(s, "/d.xml", missed);

    put(s, "/i.xml", INDEX("description", PART("/1.xml") PART("/d2.xml")));
    put(s, "/d2.xml", LIST("description", ENTRY("/2.xml")));
    finds(s, "/i.xml", missed);

    /* Without any set the unreadable page is the reason of the failure. */
    put(s, "/d2.xml", LIST("description", ENTRY("/1.xml")));
    fails(s, "/i.xml", STATUS_MALFORMED, "/1.xml cannot be read");
    assert_int_equal(s->n_missed, 1);
}

TEST(what_cannot_be_had_is_told)
{
    struct stage *s = *state;

    assert_int_equal(discover(s, "http://127.0.0.1:1/"), STATUS_UNREACHABLE);
    assert_int_equal(discover(s, "ftp://example.com/"), STATUS_INVALID);
    assert_int_equal(discover(s, "nonsense"), STATUS_INVALID);

    put(s, "/half.xml", "<urlset" RS "<url>");
    fails(s, "/half.xml", STATUS_MALFORMED, "/half.xml cannot be read: line 1");

    put(s, "/page", "<html></html>");
    fails(s, "/page", STATUS_REFUSED, "no document of ResourceSync");

    put(s, "/json", "{\"answer\":42}");
    fails(s, "/json", STATUS_REFUSED, "no document of ResourceSync");
}

/* that a source has no sets is no reason to look for a typing error. */
TEST(a_source_without_sets_says_so)
{
    static const char says[] = "the source has no sets yet";
    struct stage *s = *state;

    put(s, "/", "<html></html>");
    put(s, "/.well-known/resourcesync", LIST("description", ""));
    put(s, "/sets", "{\"sets\":[]}");
    put(s, "/d.xml", INDEX("description", PART("/part.xml")));
    put(s, "/part.xml", LIST("description", ""));
    fails(s, "/", STATUS_REFUSED, says);
    fails(s, "/.well-known/resourcesync", STATUS_REFUSED, says);
    fails(s, "/sets", STATUS_REFUSED, says);
    fails(s, "/d.xml", STATUS_REFUSED, says);
    fails(s, "/typo", STATUS_REFUSED, "/typo: 404");
    site_delete(s->site, "/.well-known/resourcesync");
    fails(s, "/", STATUS_REFUSED, "no document of ResourceSync");
}

/* Only its root is looked at: the rest of a large list does not come. */
TEST(of_a_list_only_the_root_is_read)
{
    struct stage *s = *state;
    struct buf list;

    buf_init(&list, SIZE_MAX);
    buf_add_text(&list, "<urlset" RS UP("/cl.xml"));
    for (size_t i = 0; i < 300000; i++)
        buf_add_text(&list, ENTRY("/resource/of/a/large/list"));
    site_put(s->site, "/large.xml", NULL, buf_slice(&list)); /* without end */
    buf_fini(&list);
    put(s, "/cl.xml", CHANGES);
    finds(s, "/large.xml",
          "url=/cl.xml cl=/cl.xml rl=/large.xml ch=/changes.xml\n");
}

TEST(a_source_of_endless_documents_is_broken)
{
    struct stage *s = *state;
    struct buf index;

    buf_init(&index, SIZE_MAX);
    buf_add_text(&index,
                 "<sitemapindex" RS "<rs:md capability=\"description\"/>");
    for (size_t i = 0; i < 26000; i++)
        buf_add_format(&index, "<sitemap><loc>/%zu</loc></sitemap>", i);
    buf_add_text(&index, "</sitemapindex>");
    site_put(s->site, "/d.xml", NULL, buf_slice(&index));
    buf_fini(&index);
    fails(s, "/d.xml", STATUS_MALFORMED, "more documents than any source has");
    assert_int_equal(site_count(s->site, NULL), 1);
}

TEST(it_may_be_freed_when_it_tells_a_set)
{
    struct stage *s = *state;

    put(s, "/d.xml", LIST("description", ENTRY("/1.xml") ENTRY("/2.xml")));
    put(s, "/1.xml", CHANGES);
    s->frees = true;
    assert_int_equal(discover(s, site_link(s->site, "/d.xml")), STATUS_STOPPED);
    assert_string_equal(s->told.data, "url=/1.xml cl=/1.xml ch=/changes.xml\n");
    assert_int_equal(site_count(s->site, "/2.xml"), 0);
}

/* A caller that looks for new sets knows some. Their Capability Lists are not
 * read again, but where they alone lead to the Source Description. */
TEST(sets_that_the_caller_knows_are_passed_over)
{
    struct stage *s = *state;

    put(s, "/d.xml",
        LIST("description", ENTRY("/1.xml") ENTRY("/2.xml") ENTRY("/3.xml")));
    put(s, "/page",
        "<html><link rel=resourcesync href=/1.xml>"
        "<link rel=resourcesync href=/2.xml></html>");
    put(s, "/1.xml",
        LIST("capabilitylist",
             UP("/d.xml") OFFER("/changes.xml", "changelist")));
    put(s, "/2.xml", CHANGES);
    put(s, "/3.xml", CHANGES);
    s->known = "/1.xml";
    finds(s, "/d.xml",
          "url=/2.xml cl=/2.xml ch=/changes.xml\n"
          "url=/3.xml cl=/3.xml ch=/changes.xml\n");
    assert_int_equal(site_count(s->site, "/1.xml"), 0);
    finds(s, "/page",
          "url=/1.xml cl=/1.xml ch=/changes.xml\n"
          "url=/2.xml cl=/2.xml ch=/changes.xml\n"
          "url=/3.xml cl=/3.xml ch=/changes.xml\n");
}

/* a host that has nothing else is asked for its robots.txt. Sitemaps
 * without a set are one list; one with a link "up" leads to its set. */
TEST(sitemaps_of_a_robots_txt_are_found)
{
    static const char robots[] = "Sitemap: /1.xml\nSitemap: /2.xml\n";
    static const char plain[] = "<urlset" RS ENTRY("/a") "</urlset>";
    struct stage *s = *state;

    put(s, "/", "<html></html>");
    put(s, "/page", "<html></html>");
    put(s, "/robots.txt", robots);
    put(s, "/1.xml", plain);
    put(s, "/2.xml", plain);
    finds(s, "/", "url=/robots.txt rl=/robots.txt\n");
    finds(s, "/page", "url=/robots.txt rl=/robots.txt\n");
    finds(s, "/robots.txt", "url=/robots.txt rl=/robots.txt\n");
    fails(s, "/none", STATUS_REFUSED, "/none: 404"); /* a slip of the pen */
    site_status(s->site, "/2.xml", 404, NULL, 0);    /* reading it fails */
    finds(s, "/", "url=/robots.txt rl=/robots.txt\n");
    site_status(s->site, "/2.xml", 0, NULL, 0);

    /* RFC 9309 section 2.3.1.2: it is the host's wherever it leads to. */
    site_status(s->site, "/robots.txt", 302, "Location: /files/robots", 0);
    put(s, "/files/robots", robots);
    finds(s, "/", "url=/robots.txt rl=/robots.txt\n");
    finds(s, "/robots.txt", "url=/robots.txt rl=/robots.txt\n");
    site_status(s->site, "/robots.txt", 0, NULL, 0);

    put(s, "/1.xml", LIST("resourcelist", UP("/c.xml") ENTRY("/a")));
    put(s, "/2.xml", LIST("resourcelist", UP("/c.xml") ENTRY("/b")));
    put(s, "/c.xml",
        LIST("capabilitylist", OFFER("/1.xml", "resourcelist")
                                   OFFER("/changes.xml", "changelist")));
    finds(s, "/", "url=/c.xml cl=/c.xml rl=/1.xml ch=/changes.xml\n");

    put(s, "/robots.txt", "User-agent: *\n");
    fails(s, "/", STATUS_REFUSED,
          "leads to no document of ResourceSync and to no Sitemap");
}

/* all ways are tried; what came is told if nothing is found, with the
 * parser's reason. */
TEST(a_site_is_asked_in_all_ways_for_its_sitemap)
{
    static const char plain[] = "<urlset" RS ENTRY("/a") "</urlset>";
    struct stage *s = *state;

    put(s, "/", "<html></html>");
    put(s, "/x.xml", "<?xml version='1.0' encoding='x-nonsense'?><urlset/>");
    put(s, "/robots.txt", "User-agent: *\n");
    fails(s, "/", STATUS_REFUSED, "/: a page that names none; ");
    fails(s, "/", STATUS_REFUSED, "/.well-known/resourcesync: 404");
    fails(s, "/", STATUS_REFUSED, "/robots.txt: names no Sitemap; ");
    fails(s, "/", STATUS_REFUSED, "/sitemap.xml: 404");
    fails(s, "/x.xml", STATUS_MALFORMED,
          "/x.xml cannot be read: line 1: nobody here reads the encoding: "
          "\"x-nonsense\"");
    put(s, "/sitemap.xml", "<urlset>");
    fails(s, "/", STATUS_REFUSED, "/sitemap.xml cannot be read: line 1: ");

    put(s, "/sitemap.xml", plain);
    finds(s, "/", "url=/sitemap.xml rl=/sitemap.xml\n");
    put(s, "/map.xml", plain);
    put(s, "/robots.txt", "SITEMAP : /map.xml");
    finds(s, "/", "url=/robots.txt rl=/robots.txt\n");
    put(s, "/",
        "<html><head><link rel='sitemap' href='map.xml'></head></html>");
    finds(s, "/", "url=/map.xml rl=/map.xml\n");
}

/* a text and a feed are lists, unless a feed names the source. */
TEST(texts_and_feeds_are_lists)
{
    struct stage *s = *state;

    put(s, "/list.txt", "http://e.org/1\nhttp://e.org/2\n");
    put(s, "/feed",
        "<feed xmlns='http://www.w3.org/2005/Atom'><entry><link "
        "href='/1'/></entry></feed>");
    put(s, "/led",
        "<feed xmlns='http://www.w3.org/2005/Atom'><entry><link "
        "href='/1'/></entry><link rel='resourcesync' "
        "href='/c.xml'/></feed>");
    put(s, "/c.xml",
        LIST("capabilitylist", OFFER("/changes.xml", "changelist")));
    finds(s, "/list.txt", "url=/list.txt rl=/list.txt\n");
    finds(s, "/feed", "url=/feed rl=/feed\n");
    finds(s, "/led", "url=/c.xml cl=/c.xml ch=/changes.xml\n");
}
