/*
 * heartbeat_test.c - a heartbeat promises no more than was sent.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "broker/push/frames.h"
#include "tests/support/sets.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

FIXTURE(tempdir_setup, tempdir_teardown);

/* The event's id is what the client connects with again. */
TEST(an_event_stands_where_its_subscriber_is_not_at_the_head)
{
    struct sets sets;
    struct frame_wish wish = {.transport = transports_of_events(true),
                              .upto = UINT64_MAX,
                              .is_heartbeat = true};

    sets_configure(&sets, tempdir_path(state));
    sets_open(&sets);
    wish.set = sets_post(&sets, "demo", 0, 5);
    for (wish.after = 0; wish.after <= 5; wish.after++) {
        struct frame *frame = NULL;
        char id[64];

        assert_int_equal(frame_make(&frame, &wish, LOG_DISK, NULL), STATUS_OK);
        assert_int_equal(frame->last, wish.after);
        snprintf(id, sizeof(id), "id: %s-%" PRIu64 "\n",
                 sets_head(&sets, "demo").epoch, wish.after);
        assert_true(frame->size > strlen(id));
        assert_memory_equal(frame->data, id, strlen(id));
        frame_unref(frame);
    }
    sets_close(&sets);
}
