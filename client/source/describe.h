/*
 * describe.h - td_describe for code that runs inside another public call.
 */
#ifndef CLIENT_SOURCE_DESCRIBE_H
#define CLIENT_SOURCE_DESCRIBE_H

#include "client/lib/client.h"

/* As td_describe, but neither begins nor ends a public call. */
enum status offer_read(struct td_client *client, const char *set_url,
                       td_offer_fn *on_offer, void *user);

#endif
