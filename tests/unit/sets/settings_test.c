#include "broker/sets/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
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
    return settings_read(settings, &config, slice_of(text), false, why);
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

/* Settings are written as they were given; missing ones come from the
 * options. */
TEST(reads_back_what_it_writes)
{
    static const char text[] =
        "{\"title\":\"D\\\"emo\",\"description\":\"https://example.org/a?b=c\","
        "\"rotateEntries\":1000,\"rotateBytes\":1048576,\"rotateAge\":0.25,"
        "\"retainLists\":10,\"retainAge\":0,\"resourceListEvery\":0.5,"
        "\"resourceListKeep\":\"daily\",\"content\":\"inline\","
        "\"resourceDumpEvery\":60,\"resourceDumpKeep\":7,\"noData\":true}";
    struct settings settings;
    struct problem why;

    assert_int_equal(read_text(&settings, text, &why), STATUS_OK);
    assert_string_equal(settings.title, "D\"emo");
    assert_string_equal(settings.description, "https://example.org/a?b=c");
    assert_int_equal(settings.rotate_age_us, 250000);
    assert_int_equal(settings.limits.entries, 1000);
    assert_int_equal(settings.limits.bytes, 1048576);
    assert_int_equal(settings.resource_list_every_us, 500000);
    assert_true(settings.resource_list_keep == OPTION_KEEP_DAILY);
    assert_int_equal(settings.content, CONTENT_INLINE);
    assert_int_equal(settings.resource_dump_every_us, 60000000);
    assert_int_equal(settings.resource_dump_keep, 7);
    assert_true(settings.has_no_data);
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

/* An age is written in its largest whole unit. */
TEST(reads_how_many_versions_are_kept)
{
    static const struct {
        const char *read;
        uint64_t value;
        const char *written; /* NULL: as it was read */
    } rows[] = {
        {"1", 1},
        {"36500", 36500},
        {"\"5\"", 5, "5"},
        {"\"all\"", OPTION_KEEP_ALL},
        {"\"30d\"", OPTION_KEEP_AGE + 30 * 24},
        {"\"12h\"", OPTION_KEEP_AGE + 12},
        {"\"48h\"", OPTION_KEEP_AGE + 48, "\"2d\""},
        {"\"1h\"", OPTION_KEEP_AGE + 1},
        {"\"36500d\"", OPTION_KEEP_AGE + 36500 * 24},
    };
    struct settings settings;
    struct problem why;
    char text[100];

    for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
        snprintf(text, sizeof(text), "{\"contentVersions\":%s}", rows[i].read);
        assert_int_equal(read_text(&settings, text, &why), STATUS_OK);
        assert_true(settings.content_versions == rows[i].value);
        if (rows[i].written)
            snprintf(text, sizeof(text), "{\"contentVersions\":%s}",
                     rows[i].written);
        assert_written(&settings, false, text);
    }
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
        assert_int_equal(settings_read(&settings, &config, slice_of(nothing[i]),
                                       false, &why),
                         STATUS_OK);
        assert_int_equal(settings.given, 0);
        assert_written(&settings, false, "{}");
        assert_int_equal(settings.limits.entries, 7);
        assert_int_equal(settings.limits.bytes, config.rotate_bytes);
        assert_int_equal(settings.rotate_age_us, 1500000);
        assert_int_equal(settings.content, CONTENT_FETCH);
    }
}

/* RFC 7396: a change leaves alone what it does not name, and null resets. */
TEST(a_change_is_merged)
{
    static const char before[] =
        "{\"title\":\"A\",\"rotateEntries\":7,\"retainAge\":0.5,"
        "\"upstreamTopic\":\"http://a.example/t\","
        "\"hubs\":[\"http://a.example/\",\"http://b.example/\"]}";

    static const struct {
        const char *change, *after;
    } rows[] = {
        {"{}", before},
        {"{\"rotateEntries\":null,\"retainAge\":null,\"content\":null,"
         "\"hubs\":null}",
         "{\"title\":\"A\",\"upstreamTopic\":\"http://a.example/t\"}"},
        {"{\"title\":\"\",\"hubs\":[\"http://c.example/\"],"
         "\"upstream_topic\":null,\"rotateEntries\":8}",
         "{\"title\":\"\",\"rotateEntries\":8,\"retainAge\":0.5,"
         "\"hubs\":[\"http://c.example/\"]}"},
        {"{\"title\":null,\"retainAge\":null,\"rotateEntries\":null,"
         "\"upstreamTopic\":null,\"hubs\":[]}",
         "{\"hubs\":[]}"},
    };
    struct config config = standard_config();
    struct settings settings, change;
    struct problem why;

    assert_int_equal(read_text(&settings, before, &why), STATUS_OK);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct buf merged;

        buf_init(&merged, SETTINGS_BYTES_MAX);
        assert_int_equal(settings_read(&change, &config,
                                       slice_of(rows[i].change), true, &why),
                         STATUS_OK);
        settings_merge(&merged, &settings, &change);
        buf_add(&merged, "", 1);
        assert_string_equal(merged.data, rows[i].after);
        peers_unref(change.peers);
        buf_fini(&merged);
    }
    peers_unref(settings.peers);
    assert_int_equal(settings_read(&change, &config, SLICE(" "), true, &why),
                     STATUS_MALFORMED);
    peers_unref(change.peers);
}

static void
assert_refused(const char *text, enum status rc, const char *part)
{
    struct settings settings;
    struct problem why;
    enum status is = read_text(&settings, text, &why);

    peers_unref(settings.peers);
    if (is != rc || !strstr(why.text, part))
        fail_msg("%s comes to %d, \"%s\", not %d, \"%s\"", text, (int)is,
                 why.text, (int)rc, part);
}

/* The same limits as the options', and each refusal names the member. */
TEST(checks_every_value)
{
    static const struct {
        const char *name, *value, *says;
    } rows[] = {
        {"rotateEntries", "0", "0 is not between 1 and 50000"},
        {"rotateEntries", "50001", "50001 is not between"},
        {"rotateEntries", "1.5", "\"1.5\" is not a whole number"},
        {"rotateEntries", "-1", ""},
        {"rotateEntries", "1e3", ""},
        {"rotateEntries", "\"5\"", "is a number"},
        {"rotateEntries", "[5]", "is a number"},
        {"rotateBytes", "1024", "1024 is not between 512K and 50M"},
        {"rotateAge", "315360001", ""},
        {"resourceListKeep", "0",
         "\"0\" is not daily, none or a number between 1 and 1000000"},
        {"resourceListKeep", "\"weekly\"", "\"weekly\" is not daily"},
        {"resourceListKeep", "[1]", "is a number, such as 7, or a"},
        {"content", "\"all\"", "\"all\" is not none, fetch or inline"},
        {"contentVersions", "0",
         "\"0\" is not all, an age such as 30d or 12h or a number "
         "between 1 and 36500"},
        {"contentVersions", "36501", "\"36501\" is not all"},
        {"contentVersions", "1.5", "\"1.5\" is not all"},
        {"contentVersions", "\"none\"", "\"none\" is not all"},
        {"contentVersions", "\"daily\"", ""},
        {"contentVersions", "\"AGE\"", ""},
        {"contentVersions", "\"\"", ""},
        {"contentVersions", "\"d\"", ""},
        {"contentVersions", "\"0d\"", ""},
        {"contentVersions", "\"-1d\"", ""},
        {"contentVersions", "\"90m\"", ""},
        {"contentVersions", "\"1.5d\"", ""},
        {"contentVersions", "\"30 d\"", ""},
        {"contentVersions", "\"30days\"", ""},
        {"contentVersions", "\"36501d\"", ""},
        {"contentVersions", "\"18446744073709551615d\"", ""},
        {"contentVersions", "true", "is a number, such as 7, or a string"},
        {"resourceListKeep", "\"30d\"", "\"30d\" is not daily, none"},
        {"resourceListKeep", "\"all\"", ""},
        {"content", "1", "is a string"},
        {"private", "1", "is true or false"},
        {"private", "\"true\"", "is true or false"},
        {"private", "null", "is true or false"},
        {"noData", "\"yes\"", "is true or false"},
        {"title", "5", "is a string"},
        {"title", "null", "is a string"},
        {"title", "{}", "is a string"},
        {"title", "\"a\",\"title\":\"b\"", "is there twice"},
        {"description", "\"about\"", ""},
        {"description", "\"ftp://example.org/\"",
         "\"ftp://example.org/\" is not an http://"},
        {"upstreamTopic", "\"/t\"", ""},
        {"upstreamTopic", "\"ftp://a.example/\"", ""},
        {"upstreamTopic", "[\"http://a.example/\"]", "is a string"},
        {"upstreamTopic",
         "\"http://a.example/\",\"upstream_topic\":\"http://a.example/\"",
         "is there twice"},
        {"hubs", "\"http://a.example/\"", "is a list of strings"},
        {"hubs", "[[\"http://a.example/\"]]", "is a list of strings"},
        {"hubs", "[7]", "is a list of strings"},
        {"hubs", "[{}]", "is a list of strings"},
        {"hubs", "[\"https://u:p@a.example/\"]", "user info"},
        {"hubs",
         "[\"http://a/1\",\"http://a/2\",\"http://a/3\",\"http://a/4\","
         "\"http://a/5\",\"http://a/6\",\"http://a/7\",\"http://a/8\","
         "\"http://a/9\"]",
         "there are more than 8"},
    };

    char text[1024], part[256];

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        snprintf(text, sizeof(text), "{\"%s\":%s}", rows[i].name,
                 rows[i].value);
        snprintf(part, sizeof(part), "%s: %s", rows[i].name, rows[i].says);
        assert_refused(text, STATUS_INVALID, part);
    }
    assert_refused("{\"hubs\":[\"http://a.example/~\","
                   "\"HTTP://a.example:80/%7e\"]}",
                   STATUS_INVALID, "is there twice");
    snprintf(text, sizeof(text), "{\"hubs\":[\"http://a.example/%0496d\"]}", 0);
    assert_refused(text, STATUS_INVALID, "hubs: a URL has at most 512 bytes");
    snprintf(text, sizeof(text), "{\"title\":\"%0257d\"}", 0);
    assert_refused(text, STATUS_INVALID, "title: is longer than 256 bytes");
    snprintf(text, sizeof(text), "{\"rotateAge\":%0100d}", 0);
    assert_refused(text, STATUS_MALFORMED, "");
    snprintf(text, sizeof(text), "{\"rotateAge\":1%0100d}", 0);
    assert_refused(text, STATUS_INVALID, "rotateAge: has too many digits");
}

/* Unknown members are errors, with a suggestion. */
TEST(suggests_the_member_that_was_meant)
{
    assert_refused("{\"rotate-entries\":5}", STATUS_INVALID,
                   "is \"rotateEntries\" meant?");
    assert_refused("{\"rotateage\":5}", STATUS_INVALID,
                   "is \"rotateAge\" meant?");
    assert_refused("{\"titel\":5}", STATUS_INVALID, "is \"title\" meant?");
    assert_refused("{\"discription\":5}", STATUS_INVALID,
                   "is \"description\" meant?");
    assert_refused("{\"upstreamtopik\":5}", STATUS_INVALID,
                   "is \"upstreamTopic\" meant?");
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

/* Foreign topic and hubs; they are written among the settings in effect,
 * too. */
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
    peers_unref(settings.peers);

    /* As the issue spells it. */
    assert_int_equal(read_text(&settings,
                               "{\"upstream_topic\":\"http://a.example/\"}",
                               &why),
                     STATUS_OK);
    assert_written(&settings, false,
                   "{\"upstreamTopic\":\"http://a.example/\"}");
    peers_unref(settings.peers);

    assert_int_equal(read_text(&settings, "{\"hubs\":[]}", &why), STATUS_OK);
    assert_written(&settings, false, "{\"hubs\":[]}");
    assert_null(settings.peers);
    peers_unref(settings.peers);
}
