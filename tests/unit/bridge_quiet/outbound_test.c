/* The sets that a bridge publishes, their first entries, and their removal. */
#include <stdio.h>

#include "tests/test.h"
#include "tests/unit/bridge_quiet/outbound_stage.h"

/* Where it begins */

FIXTURE(outs_setup, outs_teardown);

TEST(an_older_set_is_told_from_where_it_is)
{
    play(*state, "add demo 3; begin; told; post demo 2; told demo(3-5)");
}

TEST(an_older_set_is_told_from_its_start_if_that_is_wanted)
{
    struct outs *o = *state;

    o->config.begins_at_start = true;
    play(o, "add demo 3; begin; told demo(0-3)");
}

/* Also before others by its name, and behind them. */
TEST(a_set_that_is_born_is_told_from_its_first_change)
{
    play(*state, "begin; add beta 2; await; told beta(0-2);"
                 "add alpha 1; add gamma 1; pass 1s; until sets 3;"
                 "find alpha(0-1); find gamma(0-1); post beta 1;"
                 "find beta(2-3)");
}

/* Also where the bridge did not run when it was born. */
TEST(a_set_that_is_younger_than_the_bridge_is_told_whole)
{
    play(*state, "begin; cut; add demo 3; begin; told demo(0-3)");
}

TEST(only_the_sets_that_are_named_are_told)
{
    struct outs *o = *state;

    snprintf(o->config.out, sizeof(o->config.out), "%s", "one,two");
    o->config.begins_at_start = true;
    play(o, "add one 1; add other 1; add two 1;"
            "begin; told one(0-1) two(0-1); has sets 2");
}

/* The bridge keeps the position of a set that the configuration no longer
 * names, and goes on from there when it names the set again. */
TEST(a_set_that_is_no_longer_named_is_left_alone)
{
    struct outs *o = *state;

    play(o, "add one 1; add two 1; begin; stop");
    snprintf(o->config.out, sizeof(o->config.out), "%s", "one");
    play(o, "begin; add two 2; pass 1s; all online one@1; stop");
    snprintf(o->config.out, sizeof(o->config.out), "%s", "*");
    play(o, "begin; told two(1-3)");
}

/* Sets that go */

FIXTURE(outs_setup_demo, outs_teardown);

/* The next start has forgotten the set. */
TEST(a_set_that_is_removed_takes_its_position_with_it)
{
    play(*state, "pass 2s; remove demo; await; all demo@-; has sets 0; ackall;"
                 "stop; begin; all online");
}

/* Again with each connection, until that is acknowledged. */
TEST(a_set_that_was_removed_meanwhile_is_so_when_there_is_a_connection)
{
    play(*state, "cut; remove demo; begin; all online demo@-;"
                 "lose; connect; pass 1s; all online demo@-");
}

/* While the bridge runs, with a message in flight whose acknowledgement belongs
 * to the old set; and while it does not run. */
TEST(a_set_that_is_made_anew_is_told_from_its_beginning)
{
    play(*state, "post demo 1; told demo(1-2);"
                 "remove demo; add demo 2; pass 2s; until lag 2;"
                 "told demo(0-2); ack demo(1-2); has lag 2;"
                 "ack demo(0-2); has lag 0;"
                 "stop; remove demo; add demo 1; begin; told demo(0-1)");
}

/* Nor does it inherit a pause. */
TEST(a_set_that_was_refused_is_made_anew_without_that)
{
    play(*state, "post demo 1; refuse demo(1-2); turn; skip;"
                 "remove demo; add demo 2; until lag 2; turn; told demo(0-2)");
}
