/* A bridge outwards with the rights of a token. */
#include <stdio.h>

#include "tests/test.h"
#include "tests/unit/bridge_quiet/outbound_stage.h"

static int
set_up(void **state)
{
    struct outs *o;

    outs_setup(state);
    o = *state;
    snprintf(o->config.as, sizeof(o->config.as), "press");
    return 0;
}

FIXTURE(set_up, outs_teardown);

TEST(only_the_sets_that_the_token_may_subscribe_to_are_told)
{
    play(*state, "token press news,plans; begin; private plans; add plans 2;"
                 "private other; add other 1; add news 1; add free 1; pass 1s;"
                 "until sets 2; told news(0-1) plans(0-2); has lag 3");
}

/* The rights of the operator reach no private set. */
TEST(without_a_token_no_private_set_is_told)
{
    struct outs *o = *state;

    o->config.as[0] = '\0';
    play(o, "begin; private plans; add plans 1; add news 1; pass 1s;"
            "until sets 1; told news(0-1); remove plans; post news 1;"
            "told news(1-2)");
}

/* Where a set begins does not depend on the rights. */
TEST(a_right_that_comes_later_leaves_nothing_out)
{
    play(*state, "add old 2; token press none; begin; add old 1; add new 1;"
                 "private plans; add plans 1; pass 1s; told; has sets 0;"
                 "revoke press; token press *; pass 1s;"
                 "told new(0-1) old(2-3) plans(0-1)");
}

/* The same after a restart; but the bridge knows nothing of a private set
 * before it may publish it. */
TEST(a_cursor_waits_for_the_right_over_a_restart)
{
    play(*state, "add old 2; token press none; begin; add old 1; add new 1;"
                 "pass 1s; told; kill; add old 1; revoke press; token press *;"
                 "begin; told new(0-1) old(2-4)");
}

/* The set is older than the bridge, and no message was sent yet. */
TEST(a_private_set_has_a_cursor_on_disk_as_soon_as_it_is_seen)
{
    play(*state, "private plans; add plans 2; token press none; begin;"
                 "revoke press; token press *; pass 1s; told ; kill;"
                 "add plans 1; begin; told plans(2-3)");
}

TEST(a_right_that_goes_and_comes_back_leaves_nothing_out)
{
    play(*state, "token press *; begin; add news 1; pass 1s; until sets 1;"
                 "ackall; skip; revoke press; token press none; pass 1s;"
                 "add news 2; pass 2s; all ; has sets 0; has lag 0;"
                 "revoke press; token press *; pass 1s; told news(1-3)");
}

/* A message in flight is acknowledged after its right has gone: it does not go
 * again. */
TEST(an_acknowledgement_counts_without_the_right)
{
    play(*state, "token press *; begin; add news 1; pass 1s; until sets 1;"
                 "told news(0-1); revoke press; token press none; pass 1s;"
                 "ackall; revoke press; token press *; add news 1; pass 1s;"
                 "told news(1-2)");
}

/* The retained position names the set, so the MQTT broker must forget that. */
TEST(the_position_of_a_private_set_goes_with_the_right)
{
    play(*state, "token press *; begin; private plans; add plans 1; add news 1;"
                 "pass 1s; until sets 2; ackall; pass 2s; skip;"
                 "revoke press; token press none; pass 1s; all plans@-;"
                 "ackall; pass 2s; add plans 1; add other 1; await;"
                 "pass 2s; all ;"
                 "lose; connect; pass 2s; all online;"
                 "revoke press; token press *; pass 1s;"
                 "find plans(1-2); find plans@1");
}

/* The bridge was killed, and finds fewer rights: it does not know what the MQTT
 * broker has. */
TEST(a_position_from_before_a_restart_goes_with_the_right)
{
    play(*state, "token press *; begin; private plans; add plans 1; pass 1s;"
                 "until sets 1; ackall; kill; revoke press; token press none;"
                 "begin; all online plans@-; ackall; pass 2s; all ");
}

TEST(a_private_set_that_it_never_had_is_never_named)
{
    play(*state, "private old; add old 1; token press none; begin;"
                 "private plans; add plans 1; pass 2s; remove old;"
                 "remove plans; pass 2s; all online; stop; begin; pass 2s;"
                 "all online");
}

/* Another set has its name. */
TEST(a_private_set_may_give_way_to_a_public_one)
{
    play(*state, "token press news; begin; private plans; add plans 1; pass 1s;"
                 "remove plans; add plans 1; pass 2s; told ; revoke press;"
                 "token press *; pass 1s; told plans(0-1)");
}

/* The token */

TEST(a_bridge_waits_without_its_token)
{
    play(*state, "token root *; begin; suspended; add news 1; pass 2s; told ");
}

TEST(a_bridge_waits_until_its_token_is_back)
{
    play(*state, "token press *; begin; goes-on; private plans; add plans 1;"
                 "add news 1; pass 1s; until sets 2; ackall; pass 2s; skip;"
                 "revoke press; add news 1; pass 1s; suspended; told ;"
                 "part; all plans@- offline; add other 1; await; pass 2s;"
                 "add news 1; add plans 1; pass 1s;"
                 "has lag 3; has sets 2;"
                 "token press *; pass 1s; goes-on; connect; pass 2s;"
                 "find news(1-3); find plans(1-2); find plans@1");
}

/* The MQTT broker is away meanwhile, so nothing can remove the position; and
 * the token is back with fewer rights. */
TEST(a_position_goes_later_if_it_could_not_go_at_once)
{
    play(*state, "token press *; begin; private plans; add plans 1; pass 1s;"
                 "until sets 1; ackall; pass 2s; skip; lose; revoke press;"
                 "pass 1s; suspended; token press none; pass 1s; goes-on;"
                 "connect; pass 1s; all online plans@-");
}

/* A wake without a turn of the clock. */
TEST(a_rotation_is_no_end)
{
    struct outs *o = *state;
    char text[TOKEN_TEXT_SIZE];

    play(o, "token press *; begin; add news 1; pass 1s; until sets 1; ackall;"
            "skip");
    assert_int_equal(
        tokens_rotate(o->tokens, NULL, SLICE("press"), 0, text, NULL),
        STATUS_OK);
    play(o, "pass 1s; goes-on; post news 1; told news(1-2)");
}

/* It looks once a second. */
TEST(it_looks_at_its_token_while_it_rests)
{
    play(*state, "token press *; begin; pass 10s; waits");
}

/* Everybody may read /readyz. */
TEST(no_refusal_names_a_private_set)
{
    play(*state, "token press *; begin; private plans; add plans 1; add news 1;"
                 "pass 1s; until sets 2; refuse plans(0-1); why ;"
                 "refuse news(0-1);"
                 "why the MQTT broker refuses messages about news: not "
                 "authorized");
}
