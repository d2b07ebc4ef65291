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
 * For code that runs inside another public call: neither begins nor ends one.
 */

/* Asks for the set's description, and writes the address of its last link of
 * that relation. A source may have named the set: its address is judged
 * (address_policy.h). False: the description has no such link, or nobody can
 * read it. */
bool set_link(struct td_client *client, const char *set_url, const char *rel,
              char *href, size_t size);

/* As td_describe. */
enum status offer_read(struct td_client *client, const char *set_url,
                       td_offer_fn *on_offer, void *user);
