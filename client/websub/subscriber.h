/*
 * subscriber.h - subscribers that belong to another object on the handle, which
 * closes them.
 */
#ifndef CLIENT_WEBSUB_SUBSCRIBER_H
#define CLIENT_WEBSUB_SUBSCRIBER_H

#include "client/websub/callback.h"

/* As td_subscriber_open, but td_run does not wait for it, and td_close does not
 * close it. */
enum status subscriber_new(struct td_callback *callback, const char *topic_url,
                           const struct td_subscriber_options *options,
                           struct td_subscriber **subscriber);

/* Milliseconds from the last TD_TROUBLE to the attempt after it. */
unsigned subscriber_pause_ms(const struct td_subscriber *subscriber);

#endif
