/*
 * describe_test.c - the offers of a set, from servers that state much, little,
 * nothing, or nonsense.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/tidings.h"
#include "tests/support/fake_broker.h"
#include "tests/test.h"

#define SET "/sets/news"
#define HEAD                                                         \
    "<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\" " \
    "xmlns:rs=\"http://www.openarchives.org/rs/terms/\">"

struct stage {
    struct fake_broker *broker;
    struct td_client *client;
    char host[100]; /* "http://127.0.0.1:PORT" */
    char *texts[8]; /* lent to the broker */
    size_t n_texts;
    char told[16000]; /* a line for each fact */
};

static int
set_stage(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    s->broker = fake_broker_new();
    s->client = td_open();
    assert_non_null(s->client);
    snprintf(s->host, sizeof(s->host), "%s", fake_broker_url(s->broker));
    *strstr(s->host, SET) = '\0';
    *state = s;
    return 0;
}

static int
clear_stage(void **state)
{
    struct stage *s = *state;

    fake_broker_free(s->broker);
    td_close(s->client);
    for (size_t i = 0; i < s->n_texts; i++)
        free(s->texts[i]);
    free(s);
    return 0;
}

/* The next answer; each "@" is the server's address. */
static void
answer(struct stage *s, unsigned status, const char *type, const char *body)
{
    size_t size = 0;
    char *text = NULL;
    FILE *f = open_memstream(&text, &size);

    assert_non_null(f);
    for (; *body; body++)
        if (*body == '@')
            fputs(s->host, f);
        else
            fputc(*body, f);
    fclose(f);
    s->texts[s->n_texts++] = text;
    fake_answer(s->broker, status, type, text);
}

#define ANSWER_XML(s, body) answer(s, 200, "application/xml", body)
#define ANSWER_404(s)       answer(s, 404, "application/problem+json", "{}")

static void
tell(struct stage *s, const char *name, const char *value)
{
    size_t used = strlen(s->told);

    if (value)
        snprintf(s->told + used, sizeof(s->told) - used, "%s=%s\n", name,
                 value);
}

static void
on_offer(const struct td_offer *offer, void *user)
{
    struct stage *s = user;
    char n[20];

    snprintf(n, sizeof(n), "%u", (unsigned)offer->n_lists);
    tell(s, "title", offer->title);
    tell(s, "position", offer->position);
    tell(s, "earliest", offer->earliest);
    tell(s, "digest", offer->digest);
    tell(s, "from", offer->from);
    tell(s, "lists", n);
    for (size_t i = 0; i < offer->n_items; i++) {
        const struct td_item *item = &offer->items[i];

        /* Of our own server only the path. */
        tell(s, item->rel,
             strncmp(item->href, s->host, strlen(s->host))
                 ? item->href
                 : item->href + strlen(s->host));
        tell(s, " type", item->type);
        tell(s, " from", item->from);
        tell(s, " until", item->until);
    }
}

static enum td_status
describe_again(struct stage *s)
{
    return td_describe(s->client, fake_broker_url(s->broker), on_offer, s);
}

static enum td_status
describe(struct stage *s)
{
    fake_broker_start(s->broker);
    return describe_again(s);
}

FIXTURE(set_stage, clear_stage);

/* R-353: by the set's own links, without a built path. */
TEST(follows_the_links_of_the_description)
{
    struct stage *s = *state;

    answer(s, 200, "application/json",
           "{\"name\":\"news\",\"title\":\"All \\\"news\\\"\",\"position\":"
           "\"0123456789abcdef-7\",\"earliest\":\"0123456789abcdef-2\","
           "\"last\":7,\"digest\":\"sha-256:00\",\"settings\":{\"title\":1},"
           "\"links\":[{\"rel\":\"capabilitylist\",\"href\":\"@/a/b.xml\"},"
           "{\"rel\":\"stream\",\"href\":\"@/s\",\"type\":\"x/y\"},"
           "{\"href\":\"@/none\"},{\"rel\":\"odd\",\"href\":\"no uri\"},1]}");
    ANSWER_XML(s, HEAD
               "<rs:ln rel=\"up\" href=\"@/up\"/>"
               "<rs:ln rel=\"stream\" href=\"@/s\" type=\"z/z\"/>"
               "<rs:md capability=\"capabilitylist\"/><url><loc>\n@/c&amp;l\n"
               "</loc><rs:md capability=\"changelist\"/></url>"
               "<url><loc>@/rl</loc><rs:md capability=\"resourcelist\" "
               "type=\"application/xml\"/><rs:ln rel=\"x\" href=\"@/not\"/>"
               "</url></urlset>");
    ANSWER_XML(s,
               "<sitemapindex xmlns=\"http://www.sitemaps.org/schemas/sitemap/"
               "0.9\" xmlns:rs=\"http://www.openarchives.org/rs/terms/\"><rs:md"
               " capability=\"changelist\" from=\"2026-01-01T00:00:00Z\"/>"
               "<sitemap><loc>@/1</loc></sitemap><sitemap><loc>@/2</loc>"
               "</sitemap></sitemapindex>");
    assert_int_equal(describe(s), TD_OK);

    assert_string_equal(s->told, "title=All \"news\"\n"
                                 "position=0123456789abcdef-7\n"
                                 "earliest=0123456789abcdef-2\n"
                                 "digest=sha-256:00\n"
                                 "from=2026-01-01T00:00:00Z\n"
                                 "lists=2\n"
                                 "capabilitylist=/a/b.xml\n"
                                 "stream=/s\n type=x/y\n"
                                 "up=/up\n"
                                 "changelist=/c&l\n"
                                 "resourcelist=/rl\n type=application/xml\n");
    assert_memory_equal(fake_request(s->broker, 0), "GET /sets/news HTTP", 19);
    assert_memory_equal(fake_request(s->broker, 1), "GET /a/b.xml HTTP", 17);
    assert_memory_equal(fake_request(s->broker, 2), "GET /c&l HTTP", 13);
}

/* R-041, R-044: by the well-known address, under any name of the server. */
TEST(finds_the_set_in_the_source_description)
{
    struct stage *s = *state;

    ANSWER_404(s);
    ANSWER_XML(s, HEAD
               "<rs:md capability=\"description\"/><url><loc>@/sets/newsletter/"
               "c</loc><rs:md capability=\"capabilitylist\"/></url><url><loc>@"
               "/sets/news/c</loc><rs:md capability=\"capabilitylist\"/></url>"
               "</urlset>");
    ANSWER_XML(s, HEAD "<rs:md capability=\"capabilitylist\"/></urlset>");
    assert_int_equal(describe(s), TD_OK);

    assert_string_equal(s->told, "lists=0\ncapabilitylist=/sets/news/c\n");
    assert_memory_equal(fake_request(s->broker, 1),
                        "GET /.well-known/resourcesync HTTP", 34);
}

/* A page for people is no description; a list that is missing is left out. */
TEST(makes_do_with_what_there_is)
{
    struct stage *s = *state;

    answer(s, 200, "text/html", "<html></html>");
    ANSWER_XML(s, HEAD "<url><loc>@/sets/news/c</loc>"
                       "<rs:md capability=\"capabilitylist\"/></url></urlset>");
    ANSWER_XML(s, HEAD "<url><loc>@/sets/news/l</loc>"
                       "<rs:md capability=\"changelist\"/></url></urlset>");
    ANSWER_404(s);
    assert_int_equal(describe(s), TD_OK);
    assert_non_null(strstr(s->told, "changelist=/sets/news/l\n"));
    assert_null(strstr(s->told, "from="));
}

TEST(says_that_there_is_no_such_set)
{
    struct stage *s = *state;

    ANSWER_404(s);
    ANSWER_404(s);
    assert_int_equal(describe(s), TD_REFUSED);
    assert_non_null(strstr(td_problem(s->client), ": 404: "));
    assert_string_equal(s->told, "");
}

/* Hostile documents are problems, not crashes. */
TEST(says_what_cannot_be_read)
{
    static const char *const bad[] = {
        "<urlset",
        "<html/>",
        "",
        "not xml",
        "<!DOCTYPE a [<!ENTITY b \"c\">]><urlset/>",
    };
    struct stage *s = *state;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        fake_answer(s->broker, 404, "text/plain", "");
        fake_answer(s->broker, 200, "application/xml", bad[i]);
    }
    fake_broker_start(s->broker);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(describe_again(s), TD_BROKEN);
        assert_non_null(strstr(td_problem(s->client), "cannot be read"));
    }
}

/* The client cuts off an offer of more items. */
TEST(keeps_a_bounded_number_of_items)
{
    struct stage *s = *state;
    size_t size = 0;
    char *text = NULL;
    FILE *f = open_memstream(&text, &size);

    assert_non_null(f);
    fputs("{\"links\":[", f);
    for (unsigned i = 0; i < 2000; i++)
        fprintf(f, "%s{\"rel\":\"%u\",\"href\":\"http://e.com/%u\"}",
                i ? "," : "", i, i);
    fputs("]}", f);
    fclose(f);
    s->texts[s->n_texts++] = text;
    fake_answer(s->broker, 200, "application/json", text);
    ANSWER_404(s);
    assert_int_equal(describe(s), TD_OK);
    assert_non_null(strstr(s->told, "255=http"));
    assert_null(strstr(s->told, "256=http"));
}

TEST(says_that_the_server_is_away)
{
    struct stage *s = *state;

    fake_nothing(s->broker);
    fake_answer(s->broker, 503, "application/problem+json",
                "{\"detail\":\"later\"}");
    fake_broker_start(s->broker);
    assert_int_equal(describe_again(s), TD_UNREACHABLE);
    assert_int_equal(describe_again(s), TD_UNREACHABLE);
    assert_non_null(strstr(td_problem(s->client), ": 503: later"));
    assert_int_equal(td_describe(s->client, "news", on_offer, s), TD_INVALID);
}

static void
on_trouble(const char *why, unsigned pause_ms, void *user)
{
    struct stage *s = user;

    (void)why;
    (void)pause_ms;
    assert_int_equal(describe_again(s), TD_INVALID);
    assert_string_equal(td_problem(s->client),
                        "called from a callback of the same handle");
    td_stop(s->client);
}

static int
on_message(const struct td_message *message, void *user)
{
    (void)message;
    (void)user;
    return 1;
}

TEST(says_that_it_blocks)
{
    struct stage *s = *state;
    const struct td_follow_options options = {.on_trouble = on_trouble};

    assert_int_equal(td_follow(s->client, fake_broker_url(s->broker), &options,
                               on_message, s),
                     TD_STOPPED);
}
