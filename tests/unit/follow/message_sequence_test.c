/*
 * message_sequence_test.c - what a follower makes of a message, without any
 * network.
 */
#include "client/follow/message_sequence.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/history.h"
#include "tests/test.h"

#define EPOCH "0123456789abcdef"

/* Begins after `at`; NULL: where the first message begins. */
static void
stand_at(struct message_sequence *order, const char *at)
{
    struct position position;

    *order = (struct message_sequence){.is_placed = false};
    if (!at)
        return;
    assert_int_equal(position_read(slice_of(at), &position), STATUS_OK);
    message_sequence_set(order, &position);
}

/* The verdict on the message that covers (after, last], for one who stands at
 * `at`. */
static enum verdict
judge(const char *at, uint64_t after, uint64_t last, size_t *first)
{
    struct history h;
    struct broker_message message;
    struct message_sequence order;
    enum verdict verdict;

    history_init(&h, EPOCH);
    assert_int_equal(broker_message_init(&message), STATUS_OK);
    assert_int_equal(
        broker_message_read(&message, history_xml(&h, after, last), NULL),
        STATUS_OK);
    stand_at(&order, at);

    verdict = message_sequence_judge(&order, &message, first, NULL);

    broker_message_fini(&message);
    history_fini(&h);
    return verdict;
}

/* every way in which a message may meet a position. */
TEST(judges_by_coverage)
{
    static const struct {
        const char *at;
        uint64_t after;
        uint64_t last;
        enum verdict verdict;
        size_t first;
    } cases[] = {
        {NULL, 5, 5, VERDICT_NEW, 0},
        {NULL, 5, 7, VERDICT_NEW, 0},
        {"0", 0, 3, VERDICT_NEW, 0},
        {"0", 1, 3, VERDICT_GAP, 0},
        {"4", 4, 6, VERDICT_NEW, 0},
        {EPOCH "-4", 4, 4, VERDICT_NEW, 0},
        {EPOCH "-4", 4, 6, VERDICT_NEW, 0},
        {EPOCH "-4", 3, 5, VERDICT_NEW, 1},
        {EPOCH "-4", 0, 7, VERDICT_NEW, 4},
        {EPOCH "-4", 3, 4, VERDICT_REPEAT, 0},
        {EPOCH "-4", 1, 2, VERDICT_REPEAT, 0},
        {EPOCH "-4", 3, 3, VERDICT_REPEAT, 0},
        {EPOCH "-4", 5, 5, VERDICT_GAP, 0},
        {EPOCH "-4", 5, 6, VERDICT_GAP, 0},
        {"fedcba9876543210-4", 4, 6, VERDICT_GONE, 0},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t first = 99;
        enum verdict verdict =
            judge(cases[i].at, cases[i].after, cases[i].last, &first);

        if (verdict != cases[i].verdict)
            fail_msg("case %zu: verdict %d", i, verdict);
        assert_int_equal(first, cases[i].first);
    }
}

/* the history is proven from its beginning: d(0) is known. */
TEST(knows_the_digest_of_the_beginning)
{
    struct history h;
    struct broker_message message;
    struct message_sequence order;
    size_t first;
    char *spoilt;

    history_init(&h, EPOCH);
    assert_int_equal(broker_message_init(&message), STATUS_OK);
    spoilt = history_copy(&h, history_xml(&h, 0, 2));
    *strstr(spoilt, "n=1") = 'm';
    assert_int_equal(broker_message_read(&message, slice_of(spoilt), NULL),
                     STATUS_OK);

    stand_at(&order, EPOCH "-0");
    assert_int_equal(message_sequence_judge(&order, &message, &first, NULL),
                     VERDICT_OTHER);
    stand_at(&order, "0");
    assert_int_equal(message_sequence_judge(&order, &message, &first, NULL),
                     VERDICT_OTHER);

    broker_message_fini(&message);
    history_fini(&h);
}

/* a heartbeat without a digest takes nothing away. */
TEST(keeps_the_digest_that_a_heartbeat_does_not_tell)
{
    struct history h;
    struct broker_message message;
    struct message_sequence order;
    size_t first;

    history_init(&h, EPOCH);
    assert_int_equal(broker_message_init(&message), STATUS_OK);
    stand_at(&order, EPOCH "-0");
    assert_int_equal(broker_message_read(&message, history_xml(&h, 0, 2), NULL),
                     STATUS_OK);
    message_sequence_advance(&order, &message);
    assert_int_equal(broker_message_read(&message, history_xml(&h, 2, 2), NULL),
                     STATUS_OK);
    message.coverage.has_digest = false;
    message_sequence_advance(&order, &message);

    message.coverage.has_digest = true;
    message.coverage.digest.bytes[0] ^= 1;
    assert_int_equal(message_sequence_judge(&order, &message, &first, NULL),
                     VERDICT_OTHER);

    broker_message_fini(&message);
    history_fini(&h);
}
