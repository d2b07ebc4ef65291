#include "broker/sets/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/base/option.h"
#include "broker/sets/peers.h"
#include "tests/support/sets.h"
#include "tests/test.h"

static struct config
standard_config(void)
{
    struct sets s;

    sets_configure(&s, "unused");
    return s.config;
}

static enum status
read_text(struct settings *settings, const char *text, struct problem *why)
{
    struct config config = standard_config();

    *why = (struct problem){""};
    return settings_read(settings, &config, slice_of(text), why);
}

static void
assert_written(const struct settings *settings, bool all, const char *text)
{
    struct buf b;

    buf_init(&b, SETTINGS_BYTES_MAX);
    settings_write(&b, settings, all);
    buf_add(&b, "", 1);
    assert_false(b.failed);
    assert_string_equal(b.data, text);
    buf_fini(&b);
}

/* What was given is written as it was; what was not, as the options say. */
TEST(reads_back_what_it_writes)
{
    static const char text[] =
        "{\"title\":\"D\\\"emo\",\"description\":\"https://example.org/a?b=c\","
        "\"rotateEntries\":1000,\"rotateBytes\":1048576,\"rotateAge\":0.25,"
        "\"retainLists\":10,\"retainAge\":0,\"resourceListEvery\":0.5,"
        "\"resourceListKeep\":\"daily\",\"content\":\"inline\","
        "\"resourceDumpEvery\":60,\"resourceDumpKeep\":7}";
    struct settings settings;
    struct problem why;

    assert_int_equal(read_text(&settings, text, &why), STATUS_OK);
    assert_string_equal(settings.title, "D\"emo");
    assert_string_equal(settings.description, "https://example.org/a?b=c");
    assert_int_equal(settings.rotate_age_us, 250000);
    assert_int_equal(settings_limits(&settings).entries, 1000);
    assert_int_equal(settings_limits(&settings).bytes, 1048576);
    assert_int_equal(settings.resource_list_every_us, 500000);
    assert_true(settings.resource_list_keep == OPTION_KEEP_DAILY);
    assert_int_equal(settings.content, CONTENT_INLINE);
    assert_int_equal(settings.resource_dump_every_us, 60000000);
    assert_int_equal(settings.resource_dump_keep, 7);
    assert_written(&settings, false, text);
    assert_int_equal(read_text(&settings, "{\"resourceListKeep\":7}", &why),
                     STATUS_OK);
    assert_int_equal(settings.resource_list_keep, 7);
    assert_written(&settings, false, "{\"resourceListKeep\":7}");
    assert_int_equal(
        read_text(&settings, "{\"resourceListKeep\":\"none\"}", &why),
        STATUS_OK);
    assert_int_equal(settings.resource_list_keep, OPTION_KEEP_NONE);
    assert_written(&settings, false, "{\"resourceListKeep\":\"none\"}");
}

/* An absent member takes the broker's default. */
TEST(takes_the_options_for_what_is_not_given)
{
    static const char *const nothing[] = {"", " \r\n\t", "{}", " { } "};
    struct config config = standard_config();
    struct settings settings;
    struct problem why = {""};

    config.rotate_entries = 7;
    config.rotate_age_us = 1500000;
    config.content = CONTENT_FETCH;
    for (size_t i = 0; i < sizeof(nothing) / sizeof(nothing[0]); i++) {
        assert_int_equal(
            settings_read(&settings, &config, slice_of(nothing[i]), &why),
            STATUS_OK);
        assert_int_equal(settings.given, 0);
        assert_written(&settings, false, "{}");
        assert_int_equal(settings.rotate_entries, 7);
        assert_int_equal(settings.rotate_bytes, config.rotate_bytes);
        assert_int_equal(settings.rotate_age_us, 1500000);
        assert_int_equal(settings.content, CONTENT_FETCH);
    }
}

static void
assert_refused(const char *text, enum status rc, const char *part)
{
    struct settings settings;
    struct problem why;

    assert_int_equal(read_text(&settings, text, &why), rc);
    settings_fini(&settings);
    if (!strstr(why.text, part))
        fail_msg("\"%s\" has no \"%s\"", why.text, part);
}

/* The same limits as the options', and each refusal names the member. */
TEST(checks_every_value)
{
    char text[4096];

    assert_refused("{\"rotateEntries\":0}", STATUS_INVALID,
                   "rotateEntries: 0 is not between 1 and 50000");
    assert_refused("{\"rotateEntries\":50001}", STATUS_INVALID,
                   "rotateEntries: 50001 is not between");
    assert_refused("{\"rotateEntries\":1.5}", STATUS_INVALID,
                   "rotateEntries: \"1.5\" is not a whole number");
    assert_refused("{\"rotateEntries\":-1}", STATUS_INVALID, "rotateEntries: ");
    assert_refused("{\"rotateEntries\":1e3}", STATUS_INVALID,
                   "rotateEntries: ");
    assert_refused("{\"rotateEntries\":\"5\"}", STATUS_INVALID,
                   "rotateEntries: is a number");
    assert_refused("{\"rotateEntries\":[5]}", STATUS_INVALID,
                   "rotateEntries: is a number");
    assert_refused("{\"rotateBytes\":1024}", STATUS_INVALID,
                   "rotateBytes: 1024 is not between 512K and 50M");
    assert_refused("{\"rotateAge\":315360001}", STATUS_INVALID, "rotateAge: ");
    assert_refused("{\"resourceListKeep\":0}", STATUS_INVALID,
                   "resourceListKeep: \"0\" is not daily, none or a number "
                   "between 1 and 1000000");
    assert_refused("{\"resourceListKeep\":\"weekly\"}", STATUS_INVALID,
                   "resourceListKeep: \"weekly\" is not daily");
    assert_refused("{\"resourceListKeep\":[1]}", STATUS_INVALID,
                   "resourceListKeep: is a number or string");
    assert_refused("{\"content\":\"all\"}", STATUS_INVALID,
                   "content: \"all\" is not none, fetch or inline");
    assert_refused("{\"content\":1}", STATUS_INVALID, "content: is a string");
    assert_refused("{\"title\":5}", STATUS_INVALID, "title: is a string");
    assert_refused("{\"title\":null}", STATUS_INVALID, "title: is a string");
    assert_refused("{\"title\":{}}", STATUS_INVALID, "title: is a string");
    assert_refused("{\"description\":\"about\"}", STATUS_INVALID,
                   "description");
    assert_refused("{\"description\":\"ftp://example.org/\"}", STATUS_INVALID,
                   "description: \"ftp://example.org/\" is not an http://");
    assert_refused("{\"title\":\"a\",\"title\":\"b\"}", STATUS_INVALID,
                   "title: is there twice");
    snprintf(text, sizeof(text), "{\"title\":\"%0257d\"}", 0);
    assert_refused(text, STATUS_INVALID, "title: is longer than 256 bytes");
    snprintf(text, sizeof(text), "{\"rotateAge\":%0100d}", 0);
    assert_refused(text, STATUS_MALFORMED, "");
    snprintf(text, sizeof(text), "{\"rotateAge\":1%0100d}", 0);
    assert_refused(text, STATUS_INVALID, "rotateAge: has too many digits");
}

/* Unknown members are errors, with what was perhaps meant. */
TEST(suggests_the_member_that_was_meant)
{
    assert_refused("{\"rotate-entries\":5}", STATUS_INVALID,
                   "is \"rotateEntries\" meant?");
    assert_refused("{\"rotateage\":5}", STATUS_INVALID,
                   "is \"rotateAge\" meant?");
    assert_refused("{\"titel\":5}", STATUS_INVALID, "is \"title\" meant?");
    assert_refused("{\"discription\":5}", STATUS_INVALID,
                   "is \"description\" meant?");
    assert_refused("{\"somethingElse\":5}", STATUS_INVALID,
                   "\"somethingElse\" is no setting of a set");
    assert_refused("{\"\":5}", STATUS_INVALID, "\"\" is no setting of a set");
}

TEST(refuses_what_is_no_object)
{
    assert_refused("[]", STATUS_INVALID, "a JSON object");
    assert_refused("5", STATUS_INVALID, "a JSON object");
    assert_refused("{\"title\":\"a\"", STATUS_MALFORMED, "");
    assert_refused("{\"title\":\"a\"} x", STATUS_MALFORMED, "");
    assert_refused("title=a", STATUS_MALFORMED, "");
}

/* Foreign topic and hubs; they are told with what is in effect. */
TEST(reads_back_the_peers_of_a_set)
{
    static const char given[] =
        "{\"upstreamTopic\":\"https://a.example/t?x=%7E\","
        "\"hubs\":[\"https://b.example/hub\",\"http://c.example/?a=b&c\"]}";
    struct settings settings;
    struct problem why;
    struct buf b;

    assert_int_equal(read_text(&settings, given, &why), STATUS_OK);
    assert_string_equal(settings.peers->upstream, "https://a.example/t?x=%7E");
    assert_int_equal(settings.peers->n_hubs, 2);
    assert_written(&settings, false, given);
    buf_init(&b, SETTINGS_BYTES_MAX);
    settings_write(&b, &settings, true);
    buf_add(&b, "", 1);
    assert_non_null(strstr(b.data, given + 1));
    buf_fini(&b);
    settings_fini(&settings);

    /* As the issue spells it. */
    assert_int_equal(read_text(&settings,
                               "{\"upstream_topic\":\"http://a.example/\"}",
                               &why),
                     STATUS_OK);
    assert_written(&settings, false,
                   "{\"upstreamTopic\":\"http://a.example/\"}");
    settings_fini(&settings);

    assert_int_equal(read_text(&settings, "{\"hubs\":[]}", &why), STATUS_OK);
    assert_written(&settings, false, "{\"hubs\":[]}");
    assert_null(settings.peers);
    settings_fini(&settings);
}

TEST(checks_the_peers_of_a_set)
{
    char text[4096];
    int n;

    assert_refused("{\"upstreamTopic\":\"/t\"}", STATUS_INVALID,
                   "upstreamTopic: ");
    assert_refused("{\"upstreamTopic\":\"ftp://a.example/\"}", STATUS_INVALID,
                   "upstreamTopic: ");
    assert_refused("{\"upstreamTopic\":[\"http://a.example/\"]}",
                   STATUS_INVALID, "upstreamTopic: is a string");
    assert_refused("{\"upstreamTopic\":\"http://a.example/\","
                   "\"upstream_topic\":\"http://a.example/\"}",
                   STATUS_INVALID, "upstreamTopic: is there twice");
    assert_refused("{\"upstreamtopik\":\"\"}", STATUS_INVALID,
                   "is \"upstreamTopic\" meant?");
    assert_refused("{\"hubs\":\"http://a.example/\"}", STATUS_INVALID,
                   "hubs: is a list of strings");
    assert_refused("{\"hubs\":[[\"http://a.example/\"]]}", STATUS_INVALID,
                   "hubs: is a list of strings");
    assert_refused("{\"hubs\":[7]}", STATUS_INVALID,
                   "hubs: is a list of strings");
    assert_refused("{\"hubs\":[{}]}", STATUS_INVALID,
                   "hubs: is a list of strings");
    assert_refused("{\"hubs\":[\"https://u:p@a.example/\"]}", STATUS_INVALID,
                   "hubs: user info");
    assert_refused("{\"hubs\":[\"http://a.example/~\","
                   "\"HTTP://a.example:80/%7e\"]}",
                   STATUS_INVALID, "is there twice");
    snprintf(text, sizeof(text), "{\"hubs\":[\"http://a.example/%0496d\"]}", 0);
    assert_refused(text, STATUS_INVALID, "hubs: a URL has at most 512 bytes");
    n = snprintf(text, sizeof(text), "{\"hubs\":[\"http://a.example/\"");
    for (int i = 0; i < 8; i++)
        n += snprintf(text + n, sizeof(text) - (size_t)n,
                      ",\"http://a.example/%d\"", i);
    snprintf(text + n, sizeof(text) - (size_t)n, "]}");
    assert_refused(text, STATUS_INVALID, "hubs: there are more than 8");
}
