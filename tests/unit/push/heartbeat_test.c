/*
 * heartbeat_test.c - a heartbeat promises no more than was sent.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/push/transports.h"
#include "tests/test.h"
#include "tests/unit/sets/stage.h"

FIXTURE(stage_open, stage_close);

/* The event's id is what the client connects with again. */
TEST(an_event_stands_where_its_subscriber_is_not_at_the_head)
{
    struct shared_wish wish = {
        .upto = UINT64_MAX, .is_heartbeat = true, .since_us = DATETIME_NONE};

    wish.channel = transports_channel(
        sets_post(&s, "demo", 0, 5),
        (unsigned)(transports_of_events(true, false, MESSAGE_JSON) -
                   transport_rows),
        NULL);
    for (wish.after = 0; wish.after <= 5; wish.after++) {
        struct shared_message frame = {.wish = wish};
        char id[64];

        assert_int_equal(transports_make(&frame, LOG_DISK, NULL), STATUS_OK);
        assert_int_equal(frame.last, wish.after);
        snprintf(id, sizeof(id), "id: %s-%" PRIu64 "\n",
                 sets_head(&s, "demo").epoch, wish.after);
        assert_true(frame.size > strlen(id));
        assert_memory_equal(frame.data, id, strlen(id));
        free(frame.data);
    }
}
