#include "broker/hub/hub_state.h"
#include "broker/sources/foreign_topic.h"
#include "tests/support/origin.h"
#include "tests/test.h"
#include "tests/unit/hub/asked.h"

#define TOPIC "http://127.0.0.1:9/feed"

static void
assert_said(struct told t, unsigned http, const char *part)
{
    if (t.http != http || !strstr(t.status ? t.why.text : t.text, part))
        fail_msg("%u \"%s\" is not %u with \"%s\"", t.http,
                 t.status ? t.why.text : t.text, http, part);
}

FIXTURE(asked_setup, asked_teardown);

/* PUT, GET, DELETE of /relays/{name}. */
TEST(is_made_shown_listed_and_removed)
{
    struct told t;

    assert_said(
        asked_of_relay(COMMAND_RELAY_PUT, "news", "{\"topic\":\"" TOPIC "\"}"),
        201,
        "{\"name\":\"news\",\"topic\":\"" TOPIC "\",\"hub\":\"" ASKED_HUB
        "\",\"epoch\":\"");
    assert_said(asked_of_relay(COMMAND_RELAY_SHOW, "news", ""), 200,
                "\"last\":0,\"documents\":0,\"bytes\":0,"
                "\"subscriptions\":0}");
    assert_said(
        asked_of_relay(COMMAND_RELAY_PUT, "news",
                       "{\"hub\":\"https://b.example/hub\",\"topic\":\"" TOPIC
                       "\"}"),
        200, "\"hub\":\"https://b.example/hub\"");
    assert_said(
        asked_of_relay(COMMAND_RELAY_PUT, "news", "{\"topic\":\"" TOPIC "\"}"),
        200, "\"hub\":\"" ASKED_HUB "\"");
    assert_said(asked_of_relay(COMMAND_RELAY_LIST, "", ""), 200,
                "{\"relays\":[{\"name\":\"news\"");
    t = asked_of_relay(COMMAND_RELAY_REMOVE, "news", "");
    assert_int_equal(t.http, 204);
    assert_said(asked_of_relay(COMMAND_RELAY_SHOW, "news", ""), 404,
                "there is no relay called \"news\"");
    t = asked_of_relay(COMMAND_RELAY_REMOVE, "news", "");
    assert_int_equal(t.http, 404);
    t = asked_of_relay(COMMAND_RELAY_LIST, "", "");
    assert_string_equal(t.text, "{\"relays\":[]}\n");
}

static void
assert_refused(const char *body, unsigned http, const char *part)
{
    struct told t = asked_of_relay(COMMAND_RELAY_PUT, "bad", body);

    assert_true(t.status != STATUS_OK);
    assert_said(t, http, part);
}

/* Each refusal names the member, and no relay is made. */
TEST(refuses_what_is_no_relay)
{
    struct told t;

    assert_refused("", 400, "");
    assert_refused("{", 400, "");
    assert_refused("[]", 422, "a relay is a JSON object");
    assert_refused("{}", 422, "topic: is missing");
    assert_refused("{\"topic\":7}", 422, "topic: is a string");
    assert_refused("{\"topic\":[\"" TOPIC "\"]}", 422, "topic: is a string");
    assert_refused("{\"topic\":\"" TOPIC "\",\"topic\":\"" TOPIC "\"}", 422,
                   "topic: is there twice");
    assert_refused("{\"topik\":\"" TOPIC "\"}", 422,
                   "\"topik\" is no setting of a relay; is \"topic\" meant?");
    assert_refused("{\"colour\":\"\"}", 422,
                   "\"colour\" is no setting of a relay");
    assert_refused("{\"topic\":\"ftp://a.example/\"}", 422, "topic: ");
    assert_refused("{\"topic\":\"http://u@a.example/\"}", 422, "topic: ");
    assert_refused("{\"topic\":\"" TOPIC "\",\"hub\":\"/hub\"}", 422, "hub: ");
    assert_refused("{\"topic\":\"" SETS_URL "/sets/x/notifications\"}", 422,
                   "of this broker itself");
    assert_said(asked_of_relay(COMMAND_RELAY_PUT, "Bad/name",
                               "{\"topic\":\"" TOPIC "\"}"),
                404, "no relay can be called");
    t = asked_of_relay(COMMAND_RELAY_LIST, "", "");
    assert_string_equal(t.text, "{\"relays\":[]}\n");
}

/* A topic is the log of one relay, or is taken in by one set; compared as W-026
 * says. */
TEST(a_topic_has_one_owner)
{
    struct problem why = {""};
    struct told t;

    asked_put_relay("one", "http://127.0.0.1:80/%7efeed", 201);
    assert_said(asked_of_relay(COMMAND_RELAY_PUT, "two",
                               "{\"topic\":\"http://127.0.0.1/~feed\"}"),
                409, "is the topic of relay one already");
    assert_said(
        asked_of_relay(COMMAND_RELAY_PUT, "one", "{\"topic\":\"" TOPIC "\"}"),
        409, "the relay one has another topic");
    assert_int_equal(asked_put_set("demo",
                                   "{\"upstreamTopic\":"
                                   "\"http://127.0.0.1/~feed\"}",
                                   &why),
                     STATUS_INVALID);
    assert_non_null(strstr(why.text, "is the topic of relay one already"));

    assert_int_equal(
        asked_put_set("demo", "{\"upstreamTopic\":\"" TOPIC "\"}", &why),
        STATUS_OK);
    asked_put_relay("three", TOPIC, 409);
    assert_int_equal(asked_put_set("demo", "{}", &why), STATUS_OK);
    asked_put_relay("three", TOPIC, 201);

    t = asked_of_relay(COMMAND_RELAY_REMOVE, "one", "");
    assert_int_equal(t.http, 204);
    asked_put_relay("two", "http://127.0.0.1/~feed", 201);
}

/* Documents, by the hub's own functions: a hub without a thread; the test runs
 * its turns. */

struct still {
    struct sets sets;
    struct hub_db *db;
    struct foreign_topics topics;
    struct foreign_topic *relay;
};

static struct still s;

static void
still_open(void)
{
    struct problem why = {""};

    sets_open(&s.sets);
    assert_int_equal(hub_db_open(&s.db, s.sets.config.data, NULL, &why),
                     STATUS_OK);
    foreign_topics_open(&s.topics, s.sets.registry, s.db);
    assert_int_equal(foreign_topics_read(&s.topics, &why), STATUS_OK);
    s.relay = foreign_topic_find(&s.topics, SLICE("news"));
}

static void
still_close(void)
{
    foreign_topics_close(&s.topics);
    hub_db_close(s.db);
    sets_close(&s.sets);
}

static void
ignore(struct command *command)
{
    (void)command;
}

/* Returns the status of a command to the relay, which is not kept yet. */
static enum status
run(enum command_kind kind, const char *body)
{
    struct command *command = command_new(kind, 0);
    struct command_answers answers;
    enum status rc;

    list_init(&answers.kept);
    command->answers = &answers;
    command->done = ignore;
    strcpy(command->name, "news");
    buf_add_text(&command->body, body);
    foreign_topic_run(&s.topics, command);
    rc = command->status;
    command_free(command);
    return rc;
}

static void
still_make(void)
{
    static const char body[] =
        "{\"topic\":\"" TOPIC "\",\"hub\":\"" ASKED_HUB "\"}";

    assert_int_equal(run(COMMAND_RELAY_PUT, body), STATUS_OK);
    s.relay = list_front(&s.topics.all, offsetof(struct foreign_topic, node));
}

static void
keep(void)
{
    assert_int_equal(hub_db_commit(s.db, NULL), STATUS_OK);
}

/* `key`: its text; behind a blank, the name of its owner. */
static enum status
take(const char *type, const char *key, struct slice body, struct problem *why)
{
    struct slice text = slice_of(key), owner = text;
    struct key read = {.size = 0};
    struct digest digest;

    *why = (struct problem){""};
    digest_sha256(&digest, body);
    if (text.size > 0) {
        text = slice_take(&owner, ' ');
        assert_int_equal(key_read(text, &read, NULL), STATUS_OK);
        snprintf(read.owner, sizeof(read.owner), "%.*s", SLICE_ARG(owner));
    }
    return foreign_topic_take(s.relay, slice_of(type), &read, body, &digest,
                              why);
}

static void
assert_taken(const char *key, const char *body, uint64_t last)
{
    struct problem why;

    assert_int_equal(take("text/plain", key, slice_of(body), &why), STATUS_OK);
    keep();
    assert_int_equal(s.relay->kept.last, last);
}

static void
assert_document(uint64_t after, const char *type, struct slice body)
{
    const char *got = NULL;
    struct buf b;

    buf_init(&b, SIZE_MAX);
    assert_int_equal(foreign_topic_read(s.relay, after, &b, &got, NULL),
                     STATUS_OK);
    assert_string_equal(got, type);
    assert_true(slice_equal(buf_slice(&b), body));
    buf_fini(&b);
}

/* Opens it, with the relay. */
static void
still_begin(void)
{
    still_open();
    still_make();
    keep();
}

static int
still_configure(void **state)
{
    tempdir_setup(state);
    sets_configure(&s.sets, tempdir_path(state));
    return 0;
}

static int
still_setup(void **state)
{
    still_configure(state);
    still_begin();
    return 0;
}

static int
still_teardown(void **state)
{
    still_close();
    return tempdir_teardown(state);
}

FIXTURE(still_setup, still_teardown);

/* a relay delivers any document unchanged, byte for byte. */
TEST(keeps_documents_as_they_are)
{
    static const char bytes[] = "\0\xff\r\n<not xml";
    struct slice odd = {bytes, sizeof(bytes)};
    const char *type = NULL;
    struct problem why;
    struct buf b;

    assert_int_equal(take(" application/x-odd; a=\"b\" ", "", odd, &why),
                     STATUS_OK);
    assert_int_equal(take("text/plain", "", SLICE("two"), &why), STATUS_OK);
    keep();

    assert_document(0, "application/x-odd; a=\"b\"", odd);
    assert_document(1, "text/plain", SLICE("two"));
    buf_init(&b, SIZE_MAX);
    assert_int_equal(foreign_topic_read(s.relay, 2, &b, &type, &why),
                     STATUS_OK);
    assert_int_equal(b.size, 0);
    buf_fini(&b);
}

/* A relay or document that is not kept is neither delivered nor found. */
TEST(shows_nothing_before_it_is_kept, still_configure, still_teardown)
{
    struct problem why;

    still_open();
    still_make();
    assert_null(foreign_topic_find(&s.topics, SLICE("news")));
    assert_null(foreign_topic_of_url(&s.topics, SLICE(TOPIC)));
    hub_db_rollback(s.db);
    assert_true(list_is_empty(&s.topics.all));

    still_make();
    keep();
    assert_ptr_equal(foreign_topic_find(&s.topics, SLICE("news")), s.relay);
    assert_ptr_equal(foreign_topic_of_url(&s.topics, SLICE(TOPIC)), s.relay);

    assert_int_equal(take("text/plain", "", SLICE("lost"), &why), STATUS_OK);
    assert_int_equal(s.relay->kept.last, 0);
    hub_db_rollback(s.db);
    assert_int_equal(s.relay->kept.last, 0);
    assert_taken("", "kept", 1);
    assert_document(0, "text/plain", SLICE("kept"));

    assert_int_equal(run(COMMAND_RELAY_REMOVE, ""), STATUS_OK);
    assert_int_equal(run(COMMAND_RELAY_REMOVE, ""), STATUS_RUNNING);
    hub_db_rollback(s.db);
    assert_taken("", "still there", 2);
}

/* A Source that does not get our answer repeats its document. */
TEST(keeps_what_comes_again_once)
{
    struct problem why;

    assert_taken("", "a", 1);
    assert_taken("", "a", 1);
    assert_taken("", "b", 2);
    assert_taken("", "a", 3);

    assert_taken("k-1", "c", 4);
    assert_taken("\"k-1\"", "c", 4);
    assert_taken("k-2", "c", 5); /* the Source says that it is another */
    assert_taken("k-1", "c", 5);
    assert_int_equal(take("text/plain", "k-1", SLICE("d"), &why),
                     STATUS_INVALID);
    assert_non_null(strstr(why.text, "was given to another document"));

    /* Twice in one turn. */
    assert_int_equal(take("text/plain", "", SLICE("e"), &why), STATUS_OK);
    assert_taken("", "e", 6);
}

/* A key is followed by its owner: each has keys of its own. */
TEST(keeps_the_keys_of_owners_apart)
{
    struct problem why;

    assert_taken("k", "a", 1);
    assert_taken("k press", "b", 2);
    assert_taken("k wire", "c", 3);
    assert_taken("k press", "b", 3);
    assert_int_equal(take("text/plain", "k wire", SLICE("b"), &why),
                     STATUS_INVALID);
    assert_string_equal(why.text,
                        "the Idempotency-Key \"k\" was given to another "
                        "document");
}

TEST(refuses_what_could_not_be_passed_on, still_configure, still_teardown)
{
    char type[400];
    struct problem why;

    s.sets.config.relay_bytes = 10;
    still_begin();

    assert_int_equal(take("text/plain", "", SLICE(""), &why), STATUS_MALFORMED);
    assert_int_equal(take("", "", SLICE("x"), &why), STATUS_MALFORMED);
    assert_non_null(strstr(why.text, "no Content-Type"));
    assert_int_equal(take("text", "", SLICE("x"), &why), STATUS_MALFORMED);
    assert_int_equal(take("text/plain\r\nX: y", "", SLICE("x"), &why),
                     STATUS_MALFORMED);
    assert_non_null(strstr(why.text, "characters that no header can have"));
    memset(type, 'a', sizeof(type) - 1);
    type[sizeof(type) - 1] = '\0';
    type[4] = '/';
    assert_int_equal(take(type, "", SLICE("x"), &why), STATUS_MALFORMED);
    type[255] = '\0';
    assert_int_equal(take(type, "", SLICE("x"), &why), STATUS_OK);
    assert_int_equal(take("text/plain", "", SLICE("12345678901"), &why),
                     STATUS_TOO_LARGE);
    keep();
    assert_int_equal(s.relay->kept.last, 1);
}

static void
assert_gone(uint64_t after)
{
    const char *type = NULL;
    struct problem why = {""};
    struct buf b;

    buf_init(&b, SIZE_MAX);
    assert_int_equal(foreign_topic_read(s.relay, after, &b, &type, &why),
                     STATUS_GONE);
    assert_int_equal(b.size, 0);
    buf_fini(&b);
}

/* --relay-documents and --relay-bytes; the latest document is there however
 * large it is. */
TEST(keeps_the_latest_documents, still_configure, still_teardown)
{
    s.sets.config.relay_documents = 3;
    s.sets.config.relay_bytes = 100;
    still_begin();

    assert_taken("", "1", 1);
    assert_taken("", "2", 2);
    assert_taken("", "3", 3);
    assert_int_equal(s.relay->kept.earliest, 0);
    assert_taken("", "4", 4);
    assert_int_equal(s.relay->kept.earliest, 1);
    assert_gone(0);
    assert_document(1, "text/plain", SLICE("2"));

    s.sets.config.relay_bytes = 2;
    assert_taken("", "56", 5);
    assert_int_equal(s.relay->kept.earliest, 4);
    assert_gone(3);
    assert_document(4, "text/plain", SLICE("56"));
}

/* epoch, documents, their digest and keys are as before. */
TEST(is_the_same_after_a_restart, still_configure, still_teardown)
{
    char epoch[EPOCH_SIZE + 1];
    struct documents_sum sum;
    struct problem why;

    s.sets.config.relay_documents = 2;
    still_begin();
    assert_taken("k-1", "one", 1);
    assert_taken("k-2", "two", 2);
    assert_taken("k-3", "three", 3);
    memcpy(epoch, s.relay->epoch, sizeof(epoch));
    sum = s.relay->kept;

    still_close();
    still_open();

    assert_non_null(s.relay);
    assert_string_equal(s.relay->epoch, epoch);
    assert_string_equal(s.relay->hub_url, ASKED_HUB);
    assert_int_equal(s.relay->kept.earliest, 1);
    assert_int_equal(s.relay->kept.last, 3);
    assert_memory_equal(&s.relay->kept, &sum, sizeof(sum));
    assert_document(2, "text/plain", SLICE("three"));
    assert_taken("k-2", "two", 3);
    assert_taken("", "three", 3);
    assert_taken("", "four", 4);
    assert_int_equal(take("text/plain", "k-3", SLICE("x"), &why),
                     STATUS_INVALID);
}
