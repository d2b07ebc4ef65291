#include "broker/sets/positions.h"

#include <string.h>

#include "tests/test.h"
#include "tests/unit/sets/stage.h"

#define EPOCH "0123456789abcdef"

static struct head
head_at(uint64_t last)
{
    struct head head;

    head_start(&head, EPOCH, 1000);
    head.last = last;
    return head;
}

static void
assert_judged(const char *text, enum status rc, uint64_t seq, const char *why)
{
    struct head head = head_at(20);
    struct problem told = {""};
    uint64_t got = 99;

    assert_int_equal(positions_judge(&head, slice_of(text), &got, &told), rc);
    if (rc)
        assert_string_equal(told.text, why);
    else
        assert_int_equal(got, seq);
}

/* Design section 4: a position or a plain seq; 0 is the beginning. */
TEST(takes_positions_and_plain_seqs)
{
    assert_judged(EPOCH "-7", STATUS_OK, 7, NULL);
    assert_judged(EPOCH "-0", STATUS_OK, 0, NULL);
    assert_judged(EPOCH "-20", STATUS_OK, 20, NULL);
    assert_judged("0", STATUS_OK, 0, NULL);
    assert_judged("20", STATUS_OK, 20, NULL);
}

/* a position of another epoch, or in the future, is an error. */
TEST(refuses_other_epochs_and_the_future)
{
    assert_judged("fedcba9876543210-7", STATUS_GONE, 0,
                  "position fedcba9876543210-7 belongs to another log: the "
                  "set's epoch is " EPOCH);
    assert_judged(EPOCH "-21", STATUS_GONE, 0,
                  "position 21 is ahead of the log, which ends at 20");
    assert_judged("18446744073709551615", STATUS_GONE, 0,
                  "position 18446744073709551615 is ahead of the log, which "
                  "ends at 20");
}

/* a position before the earliest would miss entries silently. */
TEST(refuses_what_is_no_longer_retained)
{
    struct head head = head_at(20);
    struct problem why = {""};
    uint64_t seq = 99;
    char earliest[POSITION_MAX];

    head.earliest = 8;
    assert_int_equal(positions_judge(&head, SLICE(EPOCH "-7"), &seq, &why),
                     STATUS_GONE);
    assert_string_equal(why.text, "what follows position 7 is no longer "
                                  "retained: the earliest is 8");
    assert_int_equal(positions_judge(&head, SLICE("0"), &seq, &why),
                     STATUS_GONE);
    assert_int_equal(positions_judge(&head, SLICE("8"), &seq, &why), STATUS_OK);
    assert_int_equal(seq, 8);
    position_write(earliest, head.epoch, head.earliest);
    assert_string_equal(earliest, EPOCH "-8");
}

/* Design section 4: text that is no position at all is malformed. */
TEST(refuses_what_is_no_position)
{
    static const char *const bad[] = {
        "",         "-1",        "x",  EPOCH,        EPOCH "-",
        EPOCH "-x", "01234-7",   " 7", "7 ",         "7.0",
        "0x7",      EPOCH "--7", "+7", ("7-" EPOCH), "18446744073709551616"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct head head = head_at(20);
        struct problem why = {""};
        uint64_t seq;

        assert_int_equal(positions_judge(&head, slice_of(bad[i]), &seq, &why),
                         STATUS_MALFORMED);
        assert_non_null(strstr(why.text, "is not a position"));
    }
}

/* R-345, design.md section 4: 410 states earliest, last and where to
 * restart. */
TEST(tells_where_to_go_on, stage_open, stage_close)
{
    char earliest[POSITION_MAX], expected[400];
    struct head head;
    struct buf text;
    struct set *set;

    set = sets_post(&s, "demo", 1, 3);
    head = sets_head(&s, "demo");
    buf_init(&text, 4096);
    positions_members(set, &head, &text);
    position_write(earliest, head.epoch, head.earliest);
    snprintf(expected, sizeof(expected),
             ",\"earliest\":\"%s-0\",\"last\":\"%s-3\","
             "\"restart\":\"" SETS_URL "/sets/demo/capabilitylist.xml\"",
             head.epoch, head.epoch);
    assert_string_equal(text.data, expected);
    snprintf(expected, sizeof(expected), "%s-0", head.epoch);
    assert_string_equal(earliest, expected);
    buf_fini(&text);
}
