/*
 * quiet.h - the lower parts of a follower, without sockets: discovery,
 * connections, pages, lists and baselines that follow the test's orders.
 *
 *     td_follower_open(...);
 *     quiet_found(&offer);                 answers the discovery
 *     quiet_say(message(s, 0, 2));            its connection brings a message
 *     quiet_end(LIVE_LOST, 0, "gone");     and breaks
 *
 * Each lets the time pass until the follower asks for that, and fails if it
 * does not ask, or holds it back.
 */
#ifndef TESTS_UNIT_FOLLOW_QUIET_H
#define TESTS_UNIT_FOLLOW_QUIET_H

#include <stdbool.h>

#include "client/follow/live_connection.h"
#include "client/source/discovery.h"
#include "tests/unit/follow_quiet/quiet_lists.h"

/* Begins, with the client whose loop the test turns. */
void quiet_begin(struct td_client *client);

/* Fails if something was not freed. */
void quiet_finish(void);

/* Does what is due now. */
void quiet_turn(void);

/* True if such an exchange is under way now. */
bool quiet_is_seeking(void);
bool quiet_is_live(void);
bool quiet_is_asking_page(void);
bool quiet_is_held(void); /* any of these */

/* Lets the time pass until one is. */
void quiet_await(bool (*is_so)(void), const char *what);

/* Lets the time pass for which the follower waits; fails where it waits for
 * none. */
void quiet_pass(const char *until);

/* Of the newest connection; and how many there ever were. */
enum td_transport quiet_transport(void);
const char *quiet_url(void);
unsigned quiet_wait_s(void); /* how long its poll may wait; 0: not stated */
unsigned quiet_n_lives(void);

/* Selects a connection for the calls below, from 0; without it that of the
 * highest number. */
void quiet_choose(unsigned i);

/* Seconds of silence that end the exchange that is under way: discovery, page
 * or lists. */
unsigned quiet_silence(void);

const char *quiet_page_url(void);

/* `offer` is copied. */
void quiet_found(const struct offered *offer);
void quiet_found_two(const struct offered *offer); /* both alike */
void quiet_not_found(enum status rc, const char *why);
void quiet_busy(unsigned retry_after_s); /* 503 */

/* Lets followers join a shared connection from now on, or no longer. */
void quiet_share(bool is_sharing);

void quiet_say(struct slice message); /* copied */
void quiet_end(enum live_how how, unsigned code, const char *why);
void quiet_refuse(enum live_how how, unsigned status);

/* status 0: STATUS_UNREACHABLE */
void quiet_page(unsigned status, struct slice body);

#endif
