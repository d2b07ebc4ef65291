/*
 * heartbeat_test.c - a heartbeat promises no more than was sent.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "broker/push/frames.h"
#include "tests/test.h"
#include "tests/unit/sets/stage.h"

FIXTURE(stage_open, stage_close);

/* The event's id is what the client connects with again. */
TEST(an_event_stands_where_its_subscriber_is_not_at_the_head)
{
    struct frame_wish wish = {.transport = transports_of_events(true),
                              .upto = UINT64_MAX,
                              .is_heartbeat = true};

    wish.set = sets_post(&s, "demo", 0, 5);
    for (wish.after = 0; wish.after <= 5; wish.after++) {
        struct frame *frame = NULL;
        char id[64];

        assert_int_equal(frame_make(&frame, &wish, LOG_DISK, NULL, NULL),
                         STATUS_OK);
        assert_int_equal(frame->last, wish.after);
        snprintf(id, sizeof(id), "id: %s-%" PRIu64 "\n",
                 sets_head(&s, "demo").epoch, wish.after);
        assert_true(frame->size > strlen(id));
        assert_memory_equal(frame->data, id, strlen(id));
        frame_unref(frame);
    }
}
