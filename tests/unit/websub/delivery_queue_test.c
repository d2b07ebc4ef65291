/*
 * Deliveries that a subscriber believes, and hands over once.
 */
#include <stdio.h>

#include "client/tidings.h"
#include "tests/test.h"
#include "tests/unit/websub/stage.h"

FIXTURE(stage_setup, stage_teardown);

/* W-104: by the method that the header names. */
TEST(each_method_of_a_signature_is_known)
{
    static const char *const methods[] = {"sha1", "sha256", "sha384", "sha512"};
    struct fake_request *r = stage_join(NULL, 7200);

    for (size_t i = 0; i < 4; i++)
        STAGE_DELIVER(r, 202, .body = methods[i], .method = methods[i]);
    stage_assert_bodies(4, "sha1|sha256|sha384|sha512|");
}

/* W-104, W-105: answered as if it were right. */
TEST(malformed_signatures_are_not_believed)
{
    static const char *const signatures[] = {
        "sha256=",
        "sha256=zz",
        "md5=00",
        "x",
        "sha256",
        "=",
        "sha512=00000000000000000000000000000000000000000000000000000000"};
    struct fake_request *r;
    size_t n = sizeof(signatures) / sizeof(signatures[0]);

    r = stage_join(NULL, 7200);
    for (size_t i = 0; i < n; i++)
        STAGE_DELIVER(r, 202, .body = "evil", .signature = signatures[i]);
    STAGE_DELIVER(r, 202, .body = "good");
    stage_assert_bodies(1, "good|");
    assert_int_equal(stage_counts().wrong, n);
}

/* W-102 seen from here; ids show repeats there, too.
 */
TEST(without_a_secret_everything_is_believed)
{
    const struct td_subscriber_options options = {.has_no_secret = 1};
    struct fake_request *r = stage_join(&options, 7200);

    fake_hub_assert(r, "hub.secret", "");
    STAGE_DELIVER(r, 202, .body = "a", .id = "1");
    STAGE_DELIVER(r, 202, .body = "a", .id = "1");
    STAGE_DELIVER(r, 202, .body = "a", .id = "2");
    stage_assert_bodies(2, "a|a|");
    assert_string_equal(stage.last.id, "2");
    assert_int_equal(stage_counts().repeated, 1);
}

/* W-107 */
TEST(a_repeat_is_known_by_its_id)
{
    struct fake_request *r = stage_join(NULL, 7200);

    for (int i = 0; i < 3; i++)
        STAGE_DELIVER(r, 202, .body = "a", .id = "1");
    STAGE_DELIVER(r, 202, .body = "b", .id = "2");
    stage_assert_bodies(2, "a|b|");
    assert_int_equal(stage_counts().repeated, 2);
}

/* W-107: more than are remembered at first. */
TEST(many_ids_are_remembered)
{
    struct fake_request *r;
    char id[20];

    r = stage_join(NULL, 7200);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 600; i++) {
            snprintf(id, sizeof(id), "%d", i);
            STAGE_DELIVER(r, 202, .body = "", .id = id);
        }
    stage_await_deliveries(600);
    assert_int_equal(stage_counts().repeated, 600);
    assert_int_equal(stage_counts().delivered, 600);
}

/* W-107 */
TEST(timestamps_outside_the_tolerance_are_not_believed)
{
    struct fake_request *r = stage_join(NULL, 7200);

    STAGE_DELIVER(r, 202, .body = "old", .id = "1", .late_s = 301);
    STAGE_DELIVER(r, 202, .body = "early", .id = "2", .late_s = -301);
    STAGE_DELIVER(r, 202, .body = "late", .id = "3", .late_s = 300);
    STAGE_DELIVER(r, 202, .body = "fast", .id = "4", .late_s = -300);
    stage_assert_bodies(2, "late|fast|");
    assert_int_equal(stage_counts().wrong, 2);
}

/* W-106, W-107: a hub that has sent such headers sends them always; without
 * them an attacker could repeat an old delivery. */
TEST(webhook_signatures_cannot_be_left_out_or_forged)
{
    struct fake_request *r = stage_join(NULL, 7200);

    STAGE_DELIVER(r, 202, .body = "before");
    STAGE_DELIVER(r, 202, .body = "a", .id = "1");
    STAGE_DELIVER(r, 202, .body = "a");
    STAGE_DELIVER(r, 202, .body = "a", .id = "2",
                  .webhook_signature = "v1,AAAA");
    STAGE_DELIVER(r, 202, .body = "b", .id = "3");
    stage_assert_bodies(3, "before|a|b|");
    assert_int_equal(stage_counts().wrong, 2);
}

/* W-084 */
TEST(links_of_a_delivery_do_not_matter)
{
    struct fake_request *r = stage_join(NULL, 7200);

    STAGE_DELIVER(r, 202, .body = "a", .has_other_links = true);
    stage_await_deliveries(1);
    assert_string_equal(stage.last.topic, origin_url(stage.source));
}

TEST(what_comes_before_the_verification_is_not_taken)
{
    struct fake_request *r = stage_request();
    STAGE_DELIVER(r, 404, .body = "a");
    fake_hub_answer(r, 202, NULL, "");
    STAGE_DELIVER(r, 404, .body = "a");
    assert_int_equal(stage_counts().unknown, 2);
}

TEST(a_delivery_that_is_too_long_is_413)
{
    const struct td_subscriber_options options = {.max_bytes = 10};
    struct fake_request *r = stage_join(&options, 7200);

    STAGE_DELIVER(r, 413, .body = "12345678901");
    STAGE_DELIVER(r, 202, .body = "1234567890");
    stage_assert_bodies(1, "1234567890|");
}

/* W-029: while the old subscription lives on beside the new one, everything
 * comes twice: by both, in either order. */
TEST(what_comes_by_the_old_and_the_new_is_handed_over_once)
{
    const struct td_subscriber_options options = {.lease_s = 1};
    struct fake_request *old, *new, *unsubscribe;

    old = stage_join(&options, 1);
    STAGE_DELIVER(old, 202, .body = "a");
    stage_pass_us(850000); /* at the latest */
    new = stage_take(NULL);
    fake_hub_assert(new, "hub.mode", "subscribe");
    assert_string_not_equal(fake_hub_value(new, "hub.callback"),
                            fake_hub_value(old, "hub.callback"));
    assert_string_not_equal(fake_hub_value(new, "hub.secret"),
                            fake_hub_value(old, "hub.secret"));
    fake_hub_answer(new, 202, NULL, "");
    assert_int_equal(fake_hub_verify(&stage.hub, new, NULL, 7200), 200);
    unsubscribe = stage_take(NULL);
    fake_hub_assert(unsubscribe, "hub.mode", "unsubscribe");
    fake_hub_assert(unsubscribe, "hub.callback",
                    fake_hub_value(old, "hub.callback"));

    STAGE_DELIVER(old, 202, .body = "b");
    STAGE_DELIVER(new, 202, .body = "b");
    STAGE_DELIVER(new, 202, .body = "c");
    STAGE_DELIVER(old, 202, .body = "c");
    /* The same content again is news, also where it came before. */
    STAGE_DELIVER(new, 202, .body = "b");
    STAGE_DELIVER(old, 202, .body = "b");

    fake_hub_answer(unsubscribe, 202, NULL, "");
    assert_int_equal(fake_hub_verify(&stage.hub, unsubscribe, NULL, 0), 200);
    /* It is news, too, when it comes by the new one alone. */
    STAGE_DELIVER(new, 202, .body = "b");
    STAGE_DELIVER(new, 202, .body = "b");
    STAGE_DELIVER(new, 202, .body = "d");
    stage_assert_bodies(7, "a|b|c|b|b|b|d|");
    assert_int_equal(stage_counts().repeated, 3);
    assert_int_equal(stage_counts().unsigned_ + stage_counts().wrong, 0);
}
