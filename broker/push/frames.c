#include "broker/push/frames.h"

#include "broker/readers/message.h"

struct channel
frame_channel(struct set *set, const struct transport *transport,
              struct deflater *deflater)
{
    return (struct channel){.kind = (unsigned)transports_number(transport),
                            .set = set,
                            .source = deflater,
                            .end = UINT64_MAX};
}

static enum status
open_message(struct message *message, const struct shared_wish *wish,
             enum log_patience patience, struct problem *why)
{
    struct set *set = wish->channel.set;
    struct message_wish content = {
        .set = set,
        .form = transports_of_number(wish->channel.kind)->form,
        .after = wish->after,
        .upto = wish->upto,
        .filter = wish->filter,
        .reached = wish->reached,
        .is_silent = wish->filter != NULL,
        .max_bytes = registry_config(set->registry)->message_bytes,
        .patience = patience,
        .is_heartbeat = wish->is_heartbeat,
    };
    enum status rc = STATUS_OK;

    if (wish->is_heartbeat && wish->has_since) {
        rc = log_since(registry_log(set->registry), set->log, wish->since_us,
                       patience, &content.after, why);
        content.reached = content.after;
    }
    return rc ? rc : message_open(message, &content, why);
}

/* Puts the message into its frames. A worker has a deflater of its own. */
static enum status
wrap_message(struct shared_message *frame, const struct message *message,
             enum log_patience patience, struct problem *why)
{
    const struct channel *channel = &frame->wish.channel;
    const struct transport *transport = transports_of_number(channel->kind);
    struct deflater own;
    struct buf wire;

    deflater_init(&own);
    buf_init(&wire, SIZE_MAX);
    if (message->size > 0)
        transport->wrap(&wire, message,
                        patience == LOG_MEMORY ? channel->source : &own);
    deflater_fini(&own);
    if (wire.failed) {
        buf_fini(&wire);
        return problem_memory(why);
    }
    frame->last = message->last;
    frame->committed_us = message->committed_us;
    frame->size = wire.size;
    frame->data = wire.data; /* taken over */
    return STATUS_OK;
}

enum status
frame_make(struct shared_message *frame, enum log_patience patience,
           struct problem *why)
{
    const struct shared_wish *wish = &frame->wish;
    struct message message;
    enum status rc = open_message(&message, wish, patience, why);

    if (rc)
        return rc;
    /* Later wishes find the load. */
    if (transports_of_number(wish->channel.kind)->is_deflated &&
        patience == LOG_MEMORY && message.size > DEFLATER_AT_ONCE)
        rc = STATUS_AGAIN;
    else
        rc = wrap_message(frame, &message, patience, why);
    message_close(&message);
    return rc;
}
