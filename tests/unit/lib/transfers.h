/*
 * transfers.h - how many of libcurl's transfers are under way in this process.
 * Stands between the client and libcurl (curl_multi_add_handle), in tests that
 * include it.
 *
 *     clock_skip_waits(transfers_none, NULL);
 *     ... the client pauses for an hour between two requests: at once ...
 *
 * While a transfer is under way its answer has to come: no time passes.
 */
#ifndef TESTS_UNIT_LIB_TRANSFERS_H
#define TESTS_UNIT_LIB_TRANSFERS_H

#include <stdbool.h>

#include "client/lib/handle_loop.h"
#include "tests/support/site.h"

unsigned transfers_under_way(void);

/* For clock_skip_waits; `user` is ignored. */
bool transfers_none(void *user);

/* For clock_skip_waits: true if the transfers that are under way are all held
 * by the site (site_hold), so that only time can end them. */
bool transfers_held(void *site);

/* Turns the loop once, and lets pauses pass. For tests that wait for something
 * other than a callback. */
void transfers_turn(struct handle_loop *loop);

#endif
