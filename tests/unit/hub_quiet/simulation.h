/*
 * simulation.h - a hub without a delivery thread and without a network: the
 * test makes turns, answers calls, and sets the time.
 *
 * Everything else is real: the registry, topics, deliveries, hub.db.
 *
 *     FIXTURE(simulation_setup, simulation_teardown);
 *
 *     sim_subscribe, quiet_turn, sim_answer ...
 *
 * One thread: the test's (but the log's, which only wakes).
 */
#ifndef TESTS_UNIT_HUB_SIMULATION_H
#define TESTS_UNIT_HUB_SIMULATION_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/hub/hub_parts.h"
#include "broker/hub/hub_rows.h"
#include "broker/hub/hub_state.h"
#include "broker/sources/command.h"
#include "tests/support/sets.h"
#include "tests/support/tempdir.h"
#include "tests/unit/hub_quiet/quiet.h"

#define SIM_TEXT_MAX 2000000

struct simulation {
    struct tempdir dir;
    struct sets sets;
    struct hub *hub;
    struct tokens *tokens;          /* of later hubs; or NULL */
    struct hub_cluster cluster;     /* likewise; without streams: alone */
    struct lease leases[HUB_PARTS]; /* of a cluster */
    struct ownership_right rights[HUB_PARTS];
    struct principal *by; /* of later commands, lent; or NULL */
};

extern struct simulation sim;

/* Opens it, with a set "demo" that has three entries. */
int simulation_setup(void **state);
int simulation_teardown(void **state);

/* Ends the hub and opens another on its hub.db. Crash: hub.db is as it was
 * before the hub ended. Reopen: the test has ended the hub itself. */
void simulation_restart(void);
void simulation_crash(void);
void simulation_reopen(void);

/* Gives the hub parts (a bit for each), or takes them back; and a turn. */
void simulation_give(unsigned parts, bool is_given);

/* Posts entries to the set: a commit, its announcement by the log thread, and a
 * turn.
 */
void sim_post(unsigned from, unsigned n);

/* Submits a form to /hub and makes a turn: the answer's status. The problem is
 * sim_why. */
unsigned sim_form(const char *form);
extern struct problem sim_why;

/* The same for "hub.mode=subscribe&hub.topic=...&hub.callback=...MORE", and for
 * "callbackURI=...". */
unsigned sim_ask(const char *callback, const char *more);
unsigned sim_ask_simply(const char *callback);

/* sim_ask in two steps: submitted, not yet run; NULL: it was refused. */
struct command *sim_request(const char *callback, const char *more);
unsigned sim_outcome(struct command *command);

/* Submits it and makes a turn; the command is freed. */
unsigned sim_run(struct command *command);

/* Any command about the set "demo". The text stands in sim_text. */
unsigned sim_command(enum command_kind kind, uint64_t id, const char *after);
extern char sim_text[SIM_TEXT_MAX];

/* sim_ask, which is answered 202. */
void sim_subscribe(const char *callback, const char *more);

/* The call under way whose URL begins with `url`; NULL: there is none. */
struct call *sim_call(const char *url);
unsigned sim_n_calls(void);

/* True if the call is on its way: it has its turn and all that it sends. */
bool sim_is_sent(const char *url);

/* Its value of a parameter, decoded; "" if there is none. Good until the next
 * but three. */
const char *sim_parameter(const struct call *call, const char *name);

/* Answers it, or lets it fail, and makes a turn. */
void sim_answer(struct call *call, unsigned status, const char *body);
void sim_fail(struct call *call, enum call_failure failure);

/* Answers the verification that is under way at the callback as it should be.
 */
void sim_confirm(const char *callback);

/* Expects that the hub sends the callback a denial. */
void sim_assert_denied(const char *callback);

/* sim_subscribe and sim_confirm. */
struct subscription *sim_active(const char *callback, const char *more);

/* Subscriptions of http://hFROM.example/cb to the one before hTO, without
 * requests. */
void sim_make_active(struct topic *topic, unsigned from, unsigned to);

/* hub.db may not grow; or it may again. sim_use_up_disk: it has no free page
 * either, so the last request was answered 503. */
void sim_fill_disk(bool is_full);
void sim_use_up_disk(void);

/* The first subscription with a greater id, and the first request; NULL:
 * none. */
struct subscription *sim_next(uint64_t after);
struct verification *sim_waiting(void);

struct subscription *sim_find(const char *callback);
struct subscription *sim_by_id(uint64_t id);

/* How many subscriptions there are. */
size_t subscriptions_count(struct hub *hub);

#endif
