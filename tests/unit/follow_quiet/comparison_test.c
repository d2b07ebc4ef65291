/*
 * comparison_test.c - a follower compares with the list of a source that has
 * changes, too; and reports doubts.
 */
#include "client/follow/follower.h"
#include "tests/clock.h"
#include "tests/test.h"
#include "tests/unit/follow_quiet/quiet_stage.h"

FIXTURE(set_stage, clear_stage);

static void
offer_lists(struct stage *s)
{
    s->offer = (struct offered){.url = LENT(SET_URL),
                                .change_list = LENT(SET_URL "/list"),
                                .resource_list = LENT(SET_URL "/resources")};
}

#define PLACE "@1970-01-01T00:00:07Z"

/* the changes come first, then the list with its time, and following
 * goes on where it was. */
TEST(a_comparison_leaves_the_place)
{
    struct stage *s = *state;

    offer_lists(s);
    play(s, "start " PLACE "; entry a 8+1; done 8+1; compare it is due;"
            "await lists; done 8+1;"
            "await rebasing; resource r; reason it is due; baseline 6+0;"
            "told a h h C r:r D; as_of 1970-01-01T00:00:06.000000Z;"
            "position @1970-01-01T00:00:08.000000Z+1; await lists;"
            "after 8+1; done 8+1; told a h h C r:r D h");
}

/* Wanted in the middle of a reading it comes after it, and before the end. */
TEST(it_compares_before_it_is_caught_up)
{
    struct stage *s = *state;

    offer_lists(s);
    s->options.until_caught_up = 1;
    play(s, "start " PLACE "; entry a 8+1; compare a deletion; entry b 9+1;"
            "done 9+1; await rebasing; resource r; reason a deletion;"
            "baseline 6+0; await lists; done 9+1; ended ok;"
            "told a b h C r:r D h");
}

/* A doubt is one, unless nobody wants comparisons. */
TEST(a_doubt_leads_to_a_comparison)
{
    struct stage *s = *state;

    offer_lists(s);
    play(s, "start " PLACE);
    quiet_doubt("the list is another one");
    play(s,
         "done 8+1; doubted another one; turn; not rebasing; told ? h; anew");

    s->options.compare_ms = 3600000;
    play(s, "start " PLACE);
    quiet_doubt("the list is another one");
    play(s, "done 8+1; await rebasing; baseline 6+0; reason another one;"
            "told ? h C D; as_of 1970-01-01T00:00:06.000000Z");
}

/* a list that is older than the hole before the changes does not end the
 * doubt; a newer one does. */
TEST(a_list_from_before_the_hole_proves_nothing)
{
    struct stage *s = *state;

    offer_lists(s);
    s->options.baseline = TD_BASELINE_FIRST;
    s->options.compare_ms = 3600000;
    play(s, "start now; baseline 5+0; after 5+0");
    quiet_begins(8);
    play(s, "lists gone - they begin later; after far; entry a 9+1; done 9+1;"
            "doubted what changed between; await rebasing; baseline 6+0;"
            "doubted still older; await lists; done 9+1; turn; not rebasing;"
            "told B E a ? h C ? D h; compare now; turn; not rebasing");
}

/* What cannot be read is reported, and is no end. */
TEST(a_comparison_that_fails_is_given_up)
{
    struct stage *s = *state;

    offer_lists(s);
    s->options.until_caught_up = 1;
    play(s, "start " PLACE "; compare it is due; done 8+1; await rebasing;"
            "resource r; nobaseline refused 403: no; await lists;"
            "troubled cannot compare with the list: 403: no; done 8+1;"
            "ended ok; told h C h");
}

/* Beside a stream, too; and not where there is no such list. */
TEST(a_live_follower_compares)
{
    struct stage *s = *state;

    play(s, "start E-2; say 2-3; compare no list; turn; is live; told 3; anew");
    s->offer.resource_list = LENT(SET_URL "/resources");
    play(s, "start E-2; say 2-3; compare why; await rebasing; resource r;"
            "baseline #3; as_of -; await live; url /stream?after=E-3; say 3-4;"
            "told 3 C r:r D 4");
}

/* compare_ms after the last baseline, and behind the changes of then. */
TEST(comparisons_come_at_an_interval)
{
    struct stage *s = *state;

    offer_lists(s);
    s->options.compare_ms = 1;
    s->options.poll_ms = 2;
    play(s, "start " PLACE "; done 8+1; await lists; done 8+1; await rebasing;"
            "baseline 6+0; reason the last comparison; await lists; leave");
}

/* Each step of it may pause, and close. */
TEST(a_comparison_may_pause_and_close)
{
    struct stage *s = *state;

    offer_lists(s);
    play(s, "pauses_at C; start " PLACE "; compare why; done 8+1;"
            "await rebasing; resource a 7; turn; told h C; is held;"
            "pauses_at D; resume; turn; baseline 6+0; turn; told h C r:a D;"
            "not lists; resume; await lists; anew; closes_at D;"
            "start " PLACE "; compare why; done 8+1; await rebasing;"
            "baseline 6+0; turn; is going");
}
