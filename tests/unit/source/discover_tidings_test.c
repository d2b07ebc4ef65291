/*
 * discover_tidings_test.c - finding sets of Tidings, with their own facts: a
 * description in JSON, channels, and their position.
 */
#include "client/source/discovery.h"
#include "tests/test.h"
#include "tests/unit/source/discover_stage.h"

FIXTURE(set_stage, clear_stage);

/* A fragment is not sent, and must not swallow the query that the client
 * appends. */
TEST(a_channel_has_no_fragment)
{
    struct stage *s = *state;

    put(s, "/cl.xml",
        LIST("capabilitylist", OFFER("/m?set=a#top", "urn:tidings:1:memory")));
    finds(s, "/cl.xml", "url=/cl.xml cl=/cl.xml memory=/m?set=a\n");
}

/* a set of Tidings states its channels and its position. */
TEST(a_set_of_tidings_is_described_in_json)
{
    struct stage *s = *state;

    put(s, "/sets/news/",
        "{\"name\":\"news\",\"title\":\"All \\\"news\\\"\","
        "\"position\":\"0123456789abcdef-7\",\"earliest\":"
        "\"0123456789abcdef-0\",\"links\":["
        "{\"rel\":\"self\",\"href\":\"http://other.example/sets/news\"},"
        "{\"rel\":\"urn:tidings:1:memory\",\"href\":\"http://o.example/m\"},"
        "{\"rel\":\"urn:tidings:1:stream\",\"href\":\"http://o.example/s\"},"
        "{\"rel\":\"urn:tidings:1:events\",\"href\":\"http://o.example/e\"},"
        "{\"rel\":\"x\",\"href\":\"no uri\"},1]}");
    finds(s, "/sets/news/",
          "url=/sets/news name=news title=All \"news\" "
          "memory=http://o.example/m stream=http://o.example/s "
          "events=http://o.example/e position=0123456789abcdef-7 "
          "earliest=0123456789abcdef-0\n");
    assert_int_equal(site_count(s->site, NULL), 1);
}

TEST(a_set_is_put_together_from_json_and_capability_list)
{
    struct stage *s = *state;
    char json[600];

    snprintf(json, sizeof(json),
             "{\"name\":\"news\",\"position\":\"0123456789abcdef-7\","
             "\"links\":[{\"rel\":\"capabilitylist\",\"href\":\"%s/cl.xml\"}]}",
             site_url(s->site));
    put(s, "/sets/news", json);
    put(s, "/cl.xml",
        LIST("capabilitylist",
             "<rs:ln rel=\"urn:tidings:1:set\" href=\"/sets/news\"/>"
             "<rs:ln rel=\"urn:tidings:1:memory\" href=\"/m\"/>" OFFER(
                 "/ch.xml", "changelist")));

    /* From either end. */
    finds(s, "/sets/news",
          "url=/sets/news name=news cl=/cl.xml ch=/ch.xml memory=/m "
          "position=0123456789abcdef-7\n");
    finds(s, "/cl.xml",
          "url=/sets/news name=news cl=/cl.xml ch=/ch.xml memory=/m "
          "position=0123456789abcdef-7\n");

    /* And if one of them is unavailable. */
    site_delete(s->site, "/sets/news");
    finds(s, "/cl.xml", "url=/cl.xml cl=/cl.xml ch=/ch.xml memory=/m\n");
    put(s, "/sets/news", "<!DOCTYPE html><html></html>");
    finds(s, "/cl.xml", "url=/cl.xml cl=/cl.xml ch=/ch.xml memory=/m\n");
    put(s, "/sets/news", json);
    site_delete(s->site, "/cl.xml");
    finds(s, "/sets/news",
          "url=/sets/news name=news cl=/cl.xml position=0123456789abcdef-7\n");
}

TEST(the_sets_of_a_broker_are_found_page_by_page)
{
    struct stage *s = *state;
    const char *url = site_url(s->site);

    site_putf(s->site, "/sets", NULL,
              "{\"sets\":[{\"name\":\"a\",\"href\":\"%s/sets/a\"}],"
              "\"next\":\"%s/sets?after=a\"}",
              url, url);
    site_putf(s->site, "/sets?after=a", NULL,
              "{\"sets\":[{\"name\":\"b\",\"href\":\"%s/sets/b\"}]}", url);
    put(s, "/sets/a",
        "{\"name\":\"a\",\"links\":[{\"rel\":\"changelist\",\"href\":"
        "\"http://o.example/a\"}]}");
    put(s, "/sets/b",
        "{\"name\":\"b\",\"links\":[{\"rel\":\"changelist\",\"href\":"
        "\"http://o.example/b\"}]}");
    finds(s, "/sets",
          "url=/sets/a name=a ch=http://o.example/a\n"
          "url=/sets/b name=b ch=http://o.example/b\n");

    s->known = "/sets/a"; /* a caller that looks for new sets */
    finds(s, "/sets", "url=/sets/b name=b ch=http://o.example/b\n");
    assert_int_equal(site_count(s->site, "/sets/a"), 1);
    s->known = NULL;

    site_delete(s->site, "/sets/a");
    finds(s, "/sets",
          "missed url=/sets/a\n"
          "url=/sets/b name=b ch=http://o.example/b\n");

    site_putf(s->site, "/sets?after=a", NULL,
              "{\"sets\":[{\"name\":\"b\",\"href\":\"%s/sets/b\"}],"
              "\"next\":\"%s/sets\"}",
              url, url);
    fails(s, "/sets", STATUS_MALFORMED,
          "the pages of its sets lead in a circle");
    site_putf(s->site, "/sets?after=a", NULL,
              "{\"sets\":[],\"next\":\"%s/sets?after=b\"}", url);
    fails(s, "/sets", STATUS_MALFORMED, "a page of its sets has none");
}
