/*
 * signature_test.c - deliveries are signed with the secret of their
 * subscription.
 */
#include <string.h>

#include <openssl/evp.h>

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
    assert_int_equal(signature_check(signature, slice_of(secret), call->body),
                     STATUS_OK);
    assert_int_equal(signature_check(signature, SLICE("another"), call->body),
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

/* How many signatures of the hub's own keys the delivery under way has; each is
 * right, and by its key in the order of the keys. */
static size_t
count_v1a(struct call *call)
{
    const struct hub_key_list *keys = &sim.hub->keys.now;
    const char *id = NULL, *time = NULL, *at = NULL;
    char message[5000];
    size_t n = 0;

    for (size_t i = 0; call->headers[i]; i++) {
        const char *header = call->headers[i], *value = strchr(header, ':');

        assert_non_null(value);
        if (!strncmp(header, "webhook-id", 10))
            id = value + 2;
        else if (!strncmp(header, "webhook-timestamp", 17))
            time = value + 2;
        else if (!strncmp(header, "webhook-signature", 17))
            at = value;
    }
    if (!at)
        return 0;
    snprintf(message, sizeof(message), "%s.%s.%.*s", id, time,
             SLICE_ARG(call->body));
    while ((at = strstr(at, " v1a,"))) {
        EVP_MD_CTX *context = EVP_MD_CTX_new();
        unsigned char bytes[66];
        EVP_PKEY *key = EVP_PKEY_new_raw_public_key(
            EVP_PKEY_ED25519, NULL, signing_key_public(keys->all[n].pair),
            SIGNING_KEY_SIZE);

        at += 5;
        assert_int_equal(EVP_DecodeBlock(bytes, (const unsigned char *)at, 88),
                         66);
        EVP_DigestVerifyInit(context, NULL, NULL, NULL, key);
        assert_int_equal(EVP_DigestVerify(context, bytes, 64,
                                          (unsigned char *)message,
                                          strlen(message)),
                         1);
        EVP_MD_CTX_free(context);
        EVP_PKEY_free(key);
        n++;
    }
    return n;
}

/* Posts entry `seq`; as count_v1a. */
static size_t
count_of_next(unsigned seq)
{
    struct call *call;
    size_t n;

    sim_post(seq, 1);
    call = sim_call(CALLBACK);
    assert_non_null(call);
    n = count_v1a(call);
    sim_answer(call, 200, "");
    return n;
}

static unsigned
rotate(uint64_t grace_s)
{
    return sim_command(COMMAND_KEYS_ROTATE, grace_s, NULL);
}

/* W-109: a subscriber that asks for `v1a` gets signatures. After a restart the
 * hub signs with the same key. */
TEST(a_delivery_is_signed_with_the_keys_of_the_hub)
{
    char id[HUB_KEY_ID_SIZE];

    sim_active(CALLBACK, "");
    assert_int_equal(count_of_next(4), 0);
    sim_subscribe(CALLBACK, "&signature=v1a&hub.secret=whsec_c2VjcmV0LWtleQ==");
    sim_confirm(CALLBACK);
    assert_int_equal(count_of_next(5), 1);
    strcpy(id, sim.hub->keys.now.all[0].id);
    simulation_restart();
    assert_string_equal(sim.hub->keys.now.all[0].id, id);
    assert_int_equal(count_of_next(6), 1);
    sim_subscribe(CALLBACK, "&hub.secret=whsec_c2VjcmV0LWtleQ==");
    sim_confirm(CALLBACK);
    assert_int_equal(count_of_next(7), 0);
}

/* W-109: both sign during the grace, and both are published. */
TEST(a_new_key_has_the_former_one_beside_it_for_the_grace)
{
    char first[HUB_KEY_ID_SIZE];

    sim_active(CALLBACK, "&signature=v1a");
    strcpy(first, sim.hub->keys.now.all[0].id);
    assert_int_equal(rotate(60), 200);
    assert_string_equal(sim.hub->keys.now.all[1].id, first);
    assert_non_null(strstr(sim_text, first));
    assert_non_null(strstr(sim_text, sim.hub->keys.now.all[0].id));
    assert_non_null(strstr(sim_text, "\"ends\":\"2027-01-15T08:01:00Z\""));
    assert_int_equal(count_of_next(4), 2);
    simulation_restart();
    assert_int_equal(count_of_next(5), 2);
    quiet_pass(61 * INT64_C(1000000));
    quiet_set_clock(QUIET_BEGIN_US + 60 * INT64_C(1000000));
    quiet_pass(2 * HUB_TICK_US);
    assert_int_equal(count_of_next(6), 1);
    assert_int_equal(sim_command(COMMAND_KEYS, 0, NULL), 200);
    assert_null(strstr(sim_text, first));
    simulation_restart();
    assert_int_equal(sim.hub->keys.now.n, 1);
}

/* W-109: without a grace the former one ends at once; and there is an end to
 * how many there are. */
TEST(there_are_a_few_keys_at_most)
{
    for (int i = 1; i < HUB_KEYS_MAX; i++)
        assert_int_equal(rotate(1000 * i), 200);
    assert_int_equal(rotate(1000), 409);
    assert_int_equal(rotate(0), 200);
    assert_int_equal(sim.hub->keys.now.n, HUB_KEYS_MAX);
    assert_int_equal(rotate(0), 200);
    assert_int_equal(sim.hub->keys.now.n, HUB_KEYS_MAX);
}

/* W-109: a key that is not kept signs nothing. */
TEST(a_key_counts_when_it_is_kept)
{
    struct db *db = &sim.hub->db->db;
    char first[HUB_KEY_ID_SIZE];

    strcpy(first, sim.hub->keys.now.all[0].id);
    assert_int_equal(
        db_exec(db,
                "PRAGMA foreign_keys=ON;"
                "CREATE TABLE parents(id INTEGER PRIMARY KEY);"
                "CREATE TABLE children(id INTEGER REFERENCES parents(id)"
                " DEFERRABLE INITIALLY DEFERRED);"
                "CREATE TRIGGER orphan AFTER INSERT ON keys BEGIN"
                " INSERT INTO children VALUES(1); END", /* COMMIT fails */
                NULL),
        STATUS_OK);
    assert_int_equal(rotate(60), 503);
    assert_int_equal(sim.hub->keys.now.n, 1);
    assert_string_equal(sim.hub->keys.now.all[0].id, first);
    assert_int_equal(db_exec(db, "DROP TRIGGER orphan", NULL), STATUS_OK);
    assert_int_equal(rotate(60), 200);
    assert_string_equal(sim.hub->keys.now.all[1].id, first);
}
