#include "broker/hub/delivery.h"
#include "tests/test.h"
#include "tests/unit/hub_engine/engine.h"

FIXTURE(engine_setup, engine_teardown);

/* an external hub gets a fat ping. */
TEST(posts_to_an_external_hub_as_its_source)
{
    struct subscription *s;

    post(1);
    s = subscription_at(topic_for(TOPIC_CHANGES, "demo"),
                        "http://hub.example/hub", 0);
    s->kind = SUBSCRIPTION_HUB;
    delivery_begin(s);
    turns();
    assert_string_equal(header(last_sent(), "Link"),
                        "<http://hub.example/hub>; rel=\"hub\", <" SETS_URL
                        "/sets/demo/notifications>; rel=\"self\", <" SETS_URL
                        "/sets/demo/capabilitylist.xml>; rel=\"resourcesync\"");
    assert_string_equal(header(last_sent(), "Content-Type"), "application/xml");
    assert_string_equal(header(last_sent(), "Idempotency-Key"),
                        delivery_id(last_sent()));
}

/* W-100, W-102, W-103, R-304: signed with its own secret over the exact bytes,
 * or not at all. */
TEST(signs_with_the_secret)
{
    struct subscription *with, *without;
    const struct sent *sent;

    post(1);
    with = new_subscription("/1", 0);
    with->signer = signer_new(SIGNATURE_SHA256, SLICE("s3cret"));
    delivery_begin(with);
    without = subscribe("/2", 0);
    turns();
    assert_int_equal(e.n_sent, 2);
    sent = &e.sent[0];
    assert_ptr_equal(sent->s, with);
    assert_int_equal(signature_check(slice_of(header(sent, "X-Hub-Signature")),
                                     SLICE("s3cret"), buf_slice(&sent->body)),
                     STATUS_OK);
    assert_string_equal(header(sent, "webhook-id"), "");
    assert_ptr_equal(last_sent()->s, without);
    assert_null(strstr(last_sent()->headers, "Signature"));
}

/* W-106: the id stays over retries, the time is that of each try, and the
 * signature goes with it. */
TEST(signs_as_standard_webhooks_do)
{
    struct subscription *s;
    const struct sent *first, *second;

    quiet_set_clock(1700000000 * SECOND);
    post(1);
    s = new_subscription("/", 0);
    s->signer = signer_new(SIGNATURE_SHA256,
                           SLICE("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"));
    delivery_begin(s);
    turns();
    finish(s, 500);
    quiet_set_clock(1700000007 * SECOND - next_alarm());
    pass(next_alarm());
    assert_int_equal(e.n_sent, 2);
    first = &e.sent[0];
    second = &e.sent[1];
    assert_string_equal(header(first, "webhook-timestamp"), "1700000000");
    assert_string_equal(header(second, "webhook-timestamp"), "1700000007");
    assert_string_equal(header(first, "webhook-id"), delivery_id(first));
    assert_string_equal(header(first, "webhook-id"),
                        header(second, "webhook-id"));
    assert_null(strchr(header(first, "webhook-id"), '.'));
    assert_true(!strncmp(header(first, "webhook-signature"), "v1,", 3));
    assert_string_not_equal(header(first, "webhook-signature"),
                            header(second, "webhook-signature"));
    assert_string_equal(header(first, "X-Hub-Signature"),
                        header(second, "X-Hub-Signature"));
}
