/*
 * websub_ways_test.c - the ways to a callback, and to the hub: TLS and IPv6.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/certificate.h"
#include "tests/support/hub_stage.h"
#include "tests/support/source.h"
#include "tests/support/tls_front.h"
#include "tests/test.h"

static void
make_certificate(struct tempdir *dir, struct certificate *c)
{
    tempdir_open(dir);
    certificate_make(c, dir->path, NULL);
}

/* Where https has the callback that stands behind a front. */
static void
write_url(char *to, size_t size, const struct tls_front *f, const char *target)
{
    snprintf(to, size, "https://127.0.0.1:%u%s", tls_front_port(f), target);
}

static unsigned
port_of(const struct callback *cb)
{
    return (unsigned)strtoul(
        strchr(callback_url(cb) + strlen("http://"), ':') + 1, NULL, 10);
}

FIXTURE(NULL, hub_stage_teardown);

/* W-027, W-080: verified, and delivered to, over TLS that is checked. */
TEST(a_callback_may_be_https)
{
    struct certificate c;
    struct tempdir dir;
    struct hub_stage *s;
    struct callback *cb;
    struct tls_front *f;
    char url[200];

    make_certificate(&dir, &c);
    setenv("SSL_CERT_FILE", c.ca, 1);
    s = HUB_STAGE_OPEN(state, HUB_QUICK);
    unsetenv("SSL_CERT_FILE");
    cb = callbacks_add(s->callbacks, "/cb/1?a=b");
    f = tls_front_new(&c, "127.0.0.1", HUB_CALLBACKS, port_of(cb));
    write_url(url, sizeof(url), f, "/cb/1?a=b");

    hub_assert_taken(&s->http,
                     HUB_SUBSCRIBE(&s->http, .set = HUB_SET, .callback = url,
                                   .secret = "s3cr3t"));
    hub_await_active(&s->http, HUB_SET, url);
    CALLBACK_DOES(cb, SEEN_DELIVERY, {.status = 500, .times = 1});
    callback_await_last(cb, hub_stage_post(s, 2000)); /* many records of TLS */
    seen_assert_signature(callback_seen(cb, SEEN_DELIVERY, 0), "sha256",
                          "s3cr3t");
    hub_await_head(&s->http, HUB_SET, url);
    hub_assert_taken(
        &s->http, HUB_UNSUBSCRIBE(&s->http, .set = HUB_SET, .callback = url));
    hub_await_gone(&s->http, HUB_SET, url);
    hub_stage_end(s);
    tls_front_free(f);
    tempdir_close(&dir);
}

/* Who cannot show that it is the callback's host is told nothing. */
TEST(a_certificate_that_is_not_trusted_confirms_nothing)
{
    struct certificate c;
    struct tempdir dir;
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *cb = callbacks_add(s->callbacks, "/cb/1");
    struct tls_front *f;
    char url[200];

    make_certificate(&dir, &c);
    f = tls_front_new(&c, "127.0.0.1", HUB_CALLBACKS, port_of(cb));
    write_url(url, sizeof(url), f, "/cb/1");
    hub_assert_taken(&s->http,
                     HUB_SUBSCRIBE(&s->http, .set = HUB_SET, .callback = url));
    hub_await_gone(&s->http, HUB_SET, url);
    assert_int_equal(hub_count(&s->http, HUB_SET), 0);
    assert_int_equal(callbacks_requests(s->callbacks), 0);
    hub_stage_end(s);
    tls_front_free(f);
    tempdir_close(&dir);
}

/* W-083: with TLS the hub and its topics are https, for those who are told. */
TEST(a_broker_with_tls_names_itself_so)
{
    struct certificate c;
    struct tempdir dir;
    struct hub_stage *s;
    struct callback *cb;

    make_certificate(&dir, &c);
    setenv("CURL_CA_BUNDLE", c.ca, 1);
    s = HUB_STAGE_OPEN(state, "--tls-cert", c.cert, "--tls-key", c.key);
    assert_memory_equal(s->hub.text, "https://", strlen("https://"));
    cb = hub_stage_join(s, "/cb/1");
    seen_assert_parameter(callback_seen(cb, SEEN_VERIFICATION, 0), "hub.topic",
                          s->topic.text);
    callback_await_last(cb, hub_stage_post(s, 3));
    seen_assert_links(callback_seen(cb, SEEN_DELIVERY, 0), s->topic.text,
                      s->hub.text);
    hub_stage_end(s);
    unsetenv("CURL_CA_BUNDLE");
    tempdir_close(&dir);
}

/* W-027, W-080: an address of IPv6 stands in brackets, in the URL and in Host.
 */
TEST(a_callback_may_be_at_ipv6)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callbacks *others = callbacks_new("::1", true);
    struct callback *cb = callbacks_add(others, "/cb/1?a=b");
    const char *host = callback_url(cb) + strlen("http://");
    char expected[100];

    assert_int_equal(host[0], '[');
    hub_join(&s->http, HUB_SET, cb);
    callback_await_last(cb, hub_stage_post(s, 3));
    snprintf(expected, sizeof(expected), "%.*s", (int)strcspn(host, "/"), host);
    seen_assert_header(callback_seen(cb, SEEN_DELIVERY, 0), "Host", expected);
    seen_assert_header(callback_seen(cb, SEEN_VERIFICATION, 0), "Host",
                       expected);
    hub_stage_end(s);
    callbacks_assert_faultless(others);
    callbacks_free(others);
}
