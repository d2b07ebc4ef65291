/*
 * subscriber.h - subscribers that belong to something else, which runs on the
 * handle, and closes them.
 */
#ifndef CLIENT_WEBSUB_SUBSCRIBER_H
#define CLIENT_WEBSUB_SUBSCRIBER_H

#include "client/websub/callback.h"

/* As td_subscriber_open, but neither does td_run wait for it, nor does td_close
 * close it. */
enum status subscriber_new(struct td_callback *callback, const char *topic_url,
                           const struct td_subscriber_options *options,
                           struct td_subscriber **subscriber);

/* Milliseconds from the last TD_TROUBLE to the attempt after it. */
unsigned subscriber_pause_ms(const struct td_subscriber *subscriber);

#endif
