/*
 * simulation.h - a hub without a delivery thread and without a network: turns
 * are made by the test, calls are answered by it, and time is what it says.
 *
 * Everything else is real: the registry, topics, deliveries, hub.db.
 *
 *     simulation_open -> sim_subscribe, sim_turn, sim_answer ... -> _close
 *
 * One thread: the test's (but the log's, which only wakes).
 */
#ifndef TESTS_UNIT_HUB_SIMULATION_H
#define TESTS_UNIT_HUB_SIMULATION_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/hub/inside.h"
#include "broker/hub/order.h"
#include "tests/support/sets.h"
#include "tests/support/tempdir.h"
#include "tests/unit/hub_quiet/quiet.h"

#define SIM_TEXT_MAX 2000000

struct simulation {
    struct tempdir dir;
    struct sets sets;
    struct hub *hub;
};

/* A set "demo" with three entries; the options may be changed in between. */
void simulation_prepare(struct simulation *sim);
void simulation_open(struct simulation *sim);
void simulation_close(struct simulation *sim);

/* The hub ends, and is opened anew on what hub.db has. Crash: what has not been
 * kept by now is not kept at the end, either. Reopen: it was ended by the test.
 */
void simulation_restart(struct simulation *sim);
void simulation_crash(struct simulation *sim);
void simulation_reopen(struct simulation *sim);

/* For cmocka: *state is a simulation that is open. */
int simulation_setup(void **state);
int simulation_teardown(void **state);

/* Time goes on, and all alarms ring that are due by then, in turns. */
void sim_pass(struct simulation *sim, int64_t us);

/* A turn of the loop: what was posted runs, then its end. */
void sim_turn(struct simulation *sim);

/* Entries of the set: a commit, which the log thread has told of, and a turn.
 */
void sim_post(struct simulation *sim, unsigned from, unsigned n);

/* Submits a form to /hub and makes a turn: the answer's status. The problem is
 * sim_why. `form` with %s's for the topic of "demo", encoded. */
unsigned sim_form(struct simulation *sim, const char *form);
extern struct problem sim_why;

/* The same in two steps: submitted, not yet run; NULL: it was refused. */
struct order *sim_submit(struct simulation *sim, const char *form);
unsigned sim_outcome(struct order *order);

/* Submits it and makes a turn; the order is freed. */
unsigned sim_run(struct simulation *sim, struct order *order);

/* Any order about the set "demo". The text stands in sim_text. */
unsigned sim_order(struct simulation *sim, enum order_kind kind, uint64_t id,
                   const char *after);
extern char sim_text[SIM_TEXT_MAX];

/* "hub.mode=subscribe&hub.topic=...&hub.callback=...MORE", 202 and the turn. */
void sim_subscribe(struct simulation *sim, const char *callback,
                   const char *more);

/* The call under way whose URL begins with `url`; NULL: there is none. */
struct call *sim_call(const char *url);
unsigned sim_n_calls(void);

/* Is it on its way: was it given its turn, and all that it sends? */
bool sim_is_sent(const char *url);

/* Its value of a parameter, decoded; "" if there is none. Good until the next
 * but three. */
const char *sim_parameter(const struct call *call, const char *name);

/* Answers it, or lets it fail, and makes a turn. */
void sim_answer(struct simulation *sim, struct call *call, unsigned status,
                const char *body);
void sim_fail(struct simulation *sim, struct call *call,
              enum call_failure failure);

/* Answers the verification that is under way at the callback as it should be.
 */
void sim_confirm(struct simulation *sim, const char *callback);

/* sim_subscribe and sim_confirm. */
struct subscription *sim_active(struct simulation *sim, const char *callback,
                                const char *more);

/* hub.db takes nothing more; or again. */
void sim_fill_disk(struct simulation *sim, bool is_full);

struct subscription *sim_find(struct simulation *sim, const char *callback);

#endif
