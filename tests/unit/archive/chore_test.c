#include "broker/archive/chore.h"

#include <stdio.h>
#include <string.h>

#include "tests/test.h"

static char done[40];

struct noted {
    struct chore chore;
    char name;
    unsigned n_steps;
};

static void
note(struct chore *chore, char what)
{
    size_t n = strlen(done);

    snprintf(done + n, sizeof(done) - n, "%c%c ", what,
             list_entry(chore, struct noted, chore)->name);
}

static void
look(struct chore *chore)
{
    note(chore, 'l');
}

static bool
step(struct chore *chore)
{
    struct noted *n = list_entry(chore, struct noted, chore);

    note(chore, 's');
    return n->n_steps-- > 1;
}

static void
end(struct chore *chore)
{
    note(chore, 'e');
}

#define assert_done(text)                \
    do {                                 \
        assert_string_equal(done, text); \
        done[0] = '\0';                  \
    } while (0)

/* Each has its turn, also while another one has more to do; what a chore uses
 * of those before it is there until it has ended. */
TEST(chores_take_turns_and_end_in_the_reverse_order)
{
    struct noted a = {.name = 'a', .n_steps = 2},
                 b = {.name = 'b', .n_steps = 1}, c = {.name = 'c'};
    struct list chores;

    a.chore = (struct chore){.look = look, .step = step, .end = end};
    b.chore = (struct chore){.step = step, .end = end};
    c.chore = (struct chore){.look = look};
    list_init(&chores);
    list_append(&chores, &a.chore.node);
    list_append(&chores, &b.chore.node);
    list_append(&chores, &c.chore.node);

    chores_look(&chores);
    assert_done("la lc ");
    assert_true(chores_step(&chores));
    assert_done("sa sb ");
    b.n_steps = 1;
    assert_false(chores_step(&chores));
    assert_done("sa sb ");
    chores_end(&chores);
    assert_done("eb ea ");
    chores_end(&chores);
    assert_done("");
}
