/*
 * hub_hostile_test.c - who means the hub ill: a hub that is to call what hangs,
 * what is its own, what it must not call, or what is not who it says it is.
 *
 * What comes to POST /hub is hub_http_test.c, what callbacks answer is
 * websub_subscribe_test.c and websub_deliver_test.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/certificate.h"
#include "tests/support/forms.h"
#include "tests/support/hub_stage.h"
#include "tests/support/jsonpath.h"
#include "tests/test.h"

#define JSON     "application/json"
#define N(array) (sizeof(array) / sizeof((array)[0]))

static bool
has_failed(const struct hub_state *sub)
{
    return sub->last_error[0] != '\0';
}

/* Longer than anybody waits here. */
#define FOREVER "--hub-timeout", "600"

FIXTURE(NULL, hub_stage_teardown);

/* W-092, W-057, W-164: strangers name more callbacks that hang than there are
 * connections, at hosts of their own and at the host of one that is well. It
 * gets what there is all the same, and so does who subscribes now. */
TEST(callbacks_that_strangers_name_delay_no_delivery)
{
    struct hub_stage *s =
        HUB_STAGE_OPEN(state, HUB_QUICK, FOREVER, "--hub-connections", "16",
                       "--hub-host-connections", "4");
    struct callback *well = hub_stage_join(s, "/cb/well"), *cb;
    struct callbacks *hosts[8];
    char text[40];

    for (unsigned i = 0; i < 64; i++) {
        if (i < N(hosts)) {
            snprintf(text, sizeof(text), "127.0.1.%u", i + 1);
            hosts[i] = callbacks_new(text, true);
        }
        snprintf(text, sizeof(text), "/cb/%u", i);
        cb =
            callbacks_add(i % 2 ? s->callbacks : hosts[i / 2 % N(hosts)], text);
        CALLBACK_DOES(cb, SEEN_VERIFICATION, {.kind = MANNER_HANG});
        hub_assert_taken(&s->http, HUB_SUBSCRIBE(&s->http, .set = HUB_SET,
                                                 .callback = callback_url(cb)));
    }
    for (unsigned i = 1; i <= 10; i++)
        callback_await_last(well, hub_stage_post(s, 1));
    callbacks_assert_faultless(s->callbacks);
    hub_stage_end(s);
    for (unsigned i = 0; i < N(hosts); i++)
        callbacks_free(hosts[i]);
}

/* A delivery that comes back as a post would be delivered again, and so on for
 * ever; whatever name of this machine it came by. */
TEST(what_is_delivered_is_not_taken_in_again)
{
    struct hub_stage *s =
        HUB_STAGE_OPEN(state, HUB_QUICK, "--hub-trust-simple");
    struct callback *cb = hub_stage_join(s, "/cb/1");
    static const char *const json[] = {"Content-Type: " JSON, NULL};
    static const char *const delivery[] = {
        "Content-Type: " JSON, "Tidings-Delivery: 0123456789abcdef.1.0.1",
        NULL};
    char url[100], body[200];
    struct hub_state sub;

    /* By the broker's own name it is refused at once. */
    snprintf(url, sizeof(url), "%s/sets/" HUB_SET "/changes", s->broker.url);
    hub_assert_refused(&s->http,
                       HUB_SUBSCRIBE(&s->http, .set = HUB_SET, .callback = url),
                       "is of this broker itself");
    forms_post(&s->http, "/sets/" HUB_SET "/subscribe", "callbackURI=%s", url);
    assert_int_equal(s->http.status, 422);
    snprintf(body, sizeof(body), "{\"hubs\":[\"%s\"]}", url);
    assert_int_equal(
        http_request(&s->http, "PUT", "/sets/" HUB_SET, json, slice_of(body)),
        422);

    /* By another one it is found when it comes. */
    snprintf(url, sizeof(url), "http://localhost:%u/sets/" HUB_SET "/changes",
             s->broker.port);
    forms_post(&s->http, "/sets/" HUB_SET "/subscribe", "callbackURI=%s", url);
    assert_int_equal(s->http.status, 202);
    hub_stage_post(s, 1);
    sub = hub_await(&s->http, HUB_SET, url, has_failed, "an error");
    assert_non_null(strstr(sub.last_error, "422"));
    assert_int_equal(http_request(&s->http, "POST", "/sets/" HUB_SET "/changes",
                                  delivery,
                                  SLICE("{\"loc\":\"http://a.example/\","
                                        "\"change\":\"created\"}")),
                     422);
    callback_await_last(cb, hub_stage_post(s, 1));
    assert_int_equal(callback_journal(cb).last, 2); /* ours, and no more */
    hub_stage_end(s);
}

/* W-160, W-161: whatever it looks like, it is judged by the address, and nobody
 * is connected to. A request is taken (W-031), and fails. */
TEST(addresses_that_are_not_for_strangers_are_not_called)
{
    static const char *const hosts[] = {
        "127.0.0.2",          "2130706434",  "0x7f.2",
        "0177.0.0.2",         "127.2",       "[::ffff:127.0.0.2]",
        "[::ffff:7f00:2]",    "localhost",   "[64:ff9b::7f00:2]",
        "[2002:7f00:2::1]",   "0.0.0.0",     "[::]",
        "[::7f00:2]",         "169.254.1.1", "[fe80::1]",
        "[64:ff9b:1::7f00:2]"};
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK, "--insecure-open",
                                         "--public-url", "http://127.0.0.1");
    struct callback *cb = callbacks_add(s->callbacks, "/cb/1");
    const char *rest = strrchr(callback_url(cb), ':');
    char url[200];

    for (size_t i = 0; i < N(hosts); i++) {
        snprintf(url, sizeof(url), "http://%s%s", hosts[i], rest);
        forms_post(&s->http, "/hub",
                   "hub.mode=subscribe&hub.topic=http://127.0.0.1/sets/" HUB_SET
                   "/notifications&hub.callback=%s",
                   url);
        hub_assert_taken(&s->http, s->http.status);
    }
    for (size_t i = 0; i < N(hosts); i++) {
        snprintf(url, sizeof(url), "http://%s%s", hosts[i], rest);
        hub_await_gone(&s->http, HUB_SET, url);
    }
    assert_int_equal(callbacks_connections(s->callbacks), 0);
    hub_stage_end(s);
}

/* What a library reads in another way than a person. */
TEST(urls_that_are_read_in_two_ways_are_refused)
{
    static const char *const bad[] = {"http://127.0.0.2\\@evil.example/",
                                      "http://127.0.0.2%09/",
                                      "http://evil.example%0d%0aHost:x/",
                                      "http://127.0.0.2%E3%80%820/",
                                      "http://\342\221\24027.0.0.2/",
                                      "//127.0.0.2/cb",
                                      "http:127.0.0.2/cb",
                                      "http:///127.0.0.2/cb",
                                      "http://[::1%25lo]/cb",
                                      "http://127.0.0.2:80:81/",
                                      "http://127.0.0.2./cb",
                                      "file:///etc/passwd",
                                      "http://a@127.0.0.2/",
                                      "http://127.0.0.2:+80/",
                                      "gopher://127.0.0.2/",
                                      "http://127.0.0.2:65616/"};
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);

    for (size_t i = 0; i < N(bad); i++) {
        hub_assert_refused(
            &s->http,
            HUB_SUBSCRIBE(&s->http, .set = HUB_SET, .callback = bad[i]),
            "hub.callback");
        assert_int_equal(s->http.status, 400);
    }
    hub_stage_end(s);
}

/* Neither the environment nor a file of the user has a say in whom the hub
 * calls, and what it tells him (W-162). */
TEST(proxies_and_passwords_of_the_environment_are_not_used)
{
    static const char *const names[] = {"http_proxy", "all_proxy", "ALL_PROXY",
                                        "HTTPS_PROXY"};
    struct tempdir home;
    struct hub_stage *s;
    struct callback *cb;
    const char *had = getenv("HOME");
    char path[400], before[400];
    FILE *file;

    tempdir_open(&home);
    snprintf(before, sizeof(before), "%s", had ? had : "");
    snprintf(path, sizeof(path), "%s/.netrc", home.path);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs("default login somebody password geheim\n", file);
    fclose(file);
    setenv("HOME", home.path, 1);
    for (size_t i = 0; i < N(names); i++)
        setenv(names[i], "http://127.0.0.1:1/", 1);
    s = HUB_STAGE_OPEN(state, HUB_QUICK);
    for (size_t i = 0; i < N(names); i++)
        unsetenv(names[i]);
    setenv("HOME", before, 1);

    cb = callbacks_add(s->callbacks, "/cb/1");
    CALLBACK_DOES(cb, SEEN_DELIVERY,
                  {.status = 401,
                   .times = 1,
                   .headers = "WWW-Authenticate: Basic realm=\"x\"\r\n"
                              "Set-Cookie: a=b; Path=/\r\n"
                              "Alt-Svc: h2=\"127.0.0.9:443\"\r\n"},
                  {.status = 200});
    hub_join(&s->http, HUB_SET, cb);
    callback_await_last(cb, hub_stage_post(s, 1));
    for (size_t i = 0; i < callback_count(cb, SEEN_DELIVERY); i++) {
        const struct seen *d = callback_seen(cb, SEEN_DELIVERY, i);

        assert_int_equal(seen_count(d, "Authorization"), 0);
        assert_int_equal(seen_count(d, "Cookie"), 0);
        assert_int_equal(seen_count(d, "Accept-Encoding"), 0);
    }
    hub_stage_end(s);
    tempdir_close(&home);
}

/* A callback by HTTPS is who its certificate says, or nobody: another broker,
 * which nobody vouches for, is not spoken to; and its answer is not repeated.
 */
TEST(a_certificate_that_nobody_vouches_for_is_refused)
{
    struct hub_stage *s;
    struct tempdir dir;
    struct certificate c;
    struct broker other;
    struct hub_state sub;
    static const char *const json[] = {"Content-Type: " JSON, NULL};
    char body[200], url[100];

    tempdir_open(&dir);
    certificate_make(&c, dir.path, NULL);
    broker_open(&other, "--tls-cert", c.cert, "--tls-key", c.key, NULL);
    s = HUB_STAGE_OPEN(state, HUB_QUICK);
    snprintf(url, sizeof(url), "https://127.0.0.1:%u/hub", other.port);
    snprintf(body, sizeof(body), "{\"hubs\":[\"%s\"]}", url);
    assert_int_equal(
        http_request(&s->http, "PUT", "/sets/" HUB_SET, json, slice_of(body)),
        200);
    hub_stage_post(s, 1);
    sub = hub_await(&s->http, HUB_SET, url, has_failed, "an error");
    assert_non_null(strstr(sub.last_error, "TLS: "));
    hub_stage_end(s);
    broker_close(&other);
    tempdir_close(&dir);
}

/* Other sets' subscriptions and requests stand between those of a set, and of
 * its two topics. */
TEST(a_list_has_the_set_s_own_in_order_of_their_ids)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK, FOREVER);
    struct callback *cb;
    char topic[300], path[100], text[40];
    unsigned long long before = 0;
    struct jsonpath j;

    assert_int_equal(http_ask(&s->http, "PUT", "/sets/other", NULL), 201);
    for (unsigned i = 0; i < 12; i++) {
        snprintf(text, sizeof(text), "/cb/%u", i);
        cb = callbacks_add(s->callbacks, text);
        if (i % 4 == 3)
            CALLBACK_DOES(cb, SEEN_VERIFICATION, {.kind = MANNER_HANG});
        snprintf(topic, sizeof(topic), "%s/sets/%s/%s", s->broker.url,
                 i % 3 ? HUB_SET : "other",
                 i % 2 ? "notifications" : "framework-notifications");
        hub_assert_taken(&s->http, HUB_SUBSCRIBE(&s->http, .topic = topic,
                                                 .callback = callback_url(cb)));
        callback_await(cb, SEEN_VERIFICATION, 1);
        if (i % 4 != 3)
            hub_await_active(&s->http, i % 3 ? HUB_SET : "other",
                             callback_url(cb));
    }
    assert_int_equal(hub_count(&s->http, HUB_SET), 8);
    assert_int_equal(hub_count(&s->http, "other"), 4);
    for (unsigned i = 0; i < 8; i++) {
        unsigned long long id;

        snprintf(path, sizeof(path),
                 "/sets/" HUB_SET "/subscriptions?after=%llu", before);
        assert_int_equal(http_get(&s->http, path), 200);
        jsonpath_open(&j, buf_slice(&s->http.body));
        id = (unsigned long long)jsonpath_number(&j, "subscriptions.0.id");
        assert_true(id > before);
        before = id;
        jsonpath_close(&j);
    }
    snprintf(path, sizeof(path), "/sets/" HUB_SET "/subscriptions?after=%llu",
             before);
    assert_int_equal(http_get(&s->http, path), 200);
    assert_memory_equal(s->http.body.data, "{\"subscriptions\":[]}", 20);
    hub_stage_end(s);
}
