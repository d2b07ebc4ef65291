/* The position of a bridge outlives its connection and its process: repeated
 * notifications end at the same entries. */
#include <stdlib.h>
#include <string.h>

#include "tests/test.h"
#include "tests/unit/bridge_quiet/outbound_stage.h"

FIXTURE(outs_setup_demo, outs_teardown);

/* The same ends */

TEST(a_connection_that_ends_is_gone_over_again_with_the_same_ends)
{
    play(*state, "post demo 2; post demo 3; post demo 1;"
                 "told demo(1-3) demo(3-6) demo(6-7);"
                 "ack demo(1-3); ack demo(6-7);"
                 "lose; has in_flight 0; post demo 5; told;"
                 "connect; turn; told demo(3-6) demo(6-7) demo(7-12)");
}

/* The second post keeps the acknowledgement, too. */
TEST(so_it_is_after_a_kill)
{
    play(*state, "post demo 2; post demo 3; ack demo(1-3); post demo 1;"
                 "kill; add demo 4;"
                 "begin; told demo(3-6) demo(6-7) demo(7-11)");
}

TEST(a_smaller_packet_cuts_within_the_old_ends)
{
    struct outs *o = *state;
    char *again;

    play(o, "heavy demo 4 10000; turn; told demo(1-5);"
            "lose; packet 30000; post demo 1; connect; turn");
    outs_told(o, false);
    assert_non_null(strstr(o->text, "-5) demo(5-6) "));
    assert_true(strncmp(o->text, "demo(1-5)", 9) != 0);

    /* And so again. */
    again = strdup(o->text);
    play(o, "lose; packet 1000000; connect; turn");
    assert_string_equal(outs_told(o, false), again);
    free(again);
}

/* Acknowledgements */

/* Without a connection the thread waits for no other time. */
TEST(acknowledgements_are_kept_within_a_second)
{
    play(*state, "post demo 2; ack demo(1-3); lose; turn; waits;"
                 "pass 1s; rests; connect; kill; begin; told");
}

TEST(a_graceful_end_keeps_what_is_acknowledged)
{
    play(*state, "post demo 2; stop; begin; told; has lag 0");
}
