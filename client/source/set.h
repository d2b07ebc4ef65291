/*
 * set.h - a request about a set, with a JSON body.
 */
#pragma once

#include "client/lib/client.h"
#include "client/tidings.h"

/* Sends `json`, NULL: nothing, to the set's URL with `suffix` behind it, as a
 * public call of the handle. *status, unless `status` is NULL: the HTTP status
 * of the answer; 0: there is none.
 * TD_INVALID: `set_url` is no set's; else as td_set_put. */
enum td_status set_send(struct td_client *client, const char *set_url,
                        const char *suffix, const char *method,
                        const struct slice *json, unsigned *status);

/*
 * Td_describe for code that runs inside another public call.
 */

/* As td_describe, but neither begins nor ends a public call. */
enum status offer_read(struct td_client *client, const char *set_url,
                       td_offer_fn *on_offer, void *user);
