/*
 * signature_test.c - deliveries are signed with the secret of their
 * subscription.
 */
#include <string.h>

#include "proto/http/webhook_signature.h"
#include "tests/test.h"
#include "tests/unit/hub_quiet/simulation.h"

#define CALLBACK "http://a.example/cb"

/* Is the delivery that is under way signed with `secret`, and only with it? */
static void
assert_signed(struct call *call, const char *secret)
{
    static const char name[] = "X-Hub-Signature: ";
    struct slice signature = {NULL, 0};

    for (size_t i = 0; call->headers[i]; i++)
        if (!strncmp(call->headers[i], name, strlen(name)))
            signature = slice_of(call->headers[i] + strlen(name));
    assert_true(signature.size > 0);
    assert_int_equal(
        signature_check(signature, slice_of(secret), call->body, NULL),
        STATUS_OK);
    assert_int_equal(
        signature_check(signature, SLICE("another"), call->body, NULL),
        STATUS_INVALID);
}

FIXTURE(simulation_setup, simulation_teardown);

/* W-100, W-103: also after a restart. */
TEST(a_delivery_is_signed_with_the_secret_of_its_subscription)
{
    struct call *call;

    sim_active(CALLBACK, "&hub.secret=the+first+secret");
    sim_post(4, 1);
    call = sim_call(CALLBACK);
    assert_non_null(call);
    assert_signed(call, "the first secret");
    sim_answer(call, 200, "");

    sim_subscribe(CALLBACK, "&hub.secret=second");
    sim_confirm(CALLBACK);
    simulation_restart();
    sim_post(5, 1);
    call = sim_call(CALLBACK);
    assert_non_null(call);
    assert_signed(call, "second");
    sim_answer(call, 200, "");
}
