/* Alarms: the work that a caller does at a given time. */
#include "base/clock.h"
#include "broker/calls/caller.h"
#include "tests/clock.h"
#include "tests/test.h"
#include "tests/unit/calls/called.h"

#define ALARMS 20000

static struct timed {
    struct alarm alarm;
    unsigned n_rings;
    bool is_cleared;
} timed[ALARMS];

static unsigned n_rung, n_expected;
static int64_t last_at_us, base_us;

static void
ring_timed(struct alarm *alarm)
{
    struct timed *t = list_entry(alarm, struct timed, alarm);

    assert_false(t->is_cleared);
    assert_true(alarm->at_us >= last_at_us);
    assert_true(alarm->at_us <= clock_steady_us());
    last_at_us = alarm->at_us;
    t->n_rings++;
    if (++n_rung == n_expected)
        sem_post(&all_done);
}

static uint32_t
scattered(uint32_t i)
{
    i *= 2654435761u;
    return i ^ i >> 15;
}

/* All of them within 100 ms, a third set again, a tenth cleared. */
static void
set_timed_now(void *user)
{
    (void)user;
    base_us = last_at_us = clock_steady_us();
    n_rung = 0;
    n_expected = ALARMS;
    for (uint32_t i = 0; i < ALARMS; i++) {
        timed[i] = (struct timed){.alarm.ring = ring_timed};
        caller_set_alarm(called.caller, &timed[i].alarm,
                         base_us + scattered(i) % 100000);
    }
    for (uint32_t i = 0; i < ALARMS; i += 3)
        caller_set_alarm(called.caller, &timed[i].alarm,
                         base_us + scattered(i + 7) % 100000);
    for (uint32_t i = 0; i < ALARMS; i += 10) {
        timed[i].is_cleared = true;
        caller_clear_alarm(called.caller, &timed[i].alarm);
        caller_clear_alarm(called.caller, &timed[i].alarm);
        n_expected--;
    }
}

FIXTURE(called_setup, called_teardown);

TEST(alarms_ring_once_and_in_order)
{
    called_open(1, 1, "");
    clock_run_us(1, 100000);
    called_do(set_timed_now, NULL);
    called_wait(&all_done);
    called_close();
    for (unsigned i = 0; i < ALARMS; i++)
        assert_int_equal(timed[i].n_rings, !timed[i].is_cleared);
}

static struct trial beside;

static void
ring_again(struct alarm *alarm)
{
    if (list_entry(alarm, struct timed, alarm)->n_rings++ == 0)
        caller_start(called.caller, &beside.call);
    if (!beside.place)
        caller_set_alarm(called.caller, alarm, 0); /* is long past */
    else
        sem_post(&all_done);
}

static void
set_again_now(void *user)
{
    (void)user;
    timed[0] = (struct timed){.alarm.ring = ring_again};
    caller_set_alarm(called.caller, &timed[0].alarm, 0);
    assert_int_equal(timed[0].n_rings, 0);
}

/* An alarm that is always due leaves the others their share. */
TEST(an_alarm_may_be_set_as_it_rings)
{
    called_open(1, 1, LOOPBACK);
    clock_run_us(1, 1000);
    trial_init(&beside, "http://127.0.0.1:%u/ok", odd.port);
    called_do(set_again_now, NULL);
    trial_wait(&beside);
    called_wait(&all_done);
    assert_int_equal(beside.call.status, 200);
}

/* An earlier alarm moves the timer, a later one leaves it. */
static struct alarm late, soon;

static void
ring_soon(struct alarm *alarm)
{
    assert_ptr_equal(alarm, &soon);
    sem_post(&all_done);
}

static void
set_late_and_soon_now(void *user)
{
    int64_t now_us = clock_steady_us();

    (void)user;
    late = soon = (struct alarm){.ring = ring_soon};
    caller_set_alarm(called.caller, &late, now_us + 3600000000);
    caller_set_alarm(called.caller, &soon, now_us + 7200000000);
    caller_set_alarm(called.caller, &soon, now_us + 1000);
}

TEST(an_earlier_alarm_is_not_kept_waiting)
{
    called_open(1, 1, "");
    clock_run_us(1, 1000);
    called_do(set_late_and_soon_now, NULL);
    called_wait(&all_done);
}
