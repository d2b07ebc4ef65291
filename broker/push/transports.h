/*
 * transports.h - who asked for what: one row per way of pushing on a
 * connection.
 */
#ifndef BROKER_PUSH_TRANSPORTS_H
#define BROKER_PUSH_TRANSPORTS_H

#include "broker/sets/message.h"
#include "proto/buf.h"
#include "proto/slice.h"
#include "proto/status.h"

struct transport {
    const char *subprotocol; /* what the client asks for, and is told */
    enum message_form form;

    /* Appends a message as it goes out on the wire. */
    void (*wrap)(struct buf *to, struct slice message);
};

/* The transport of a WebSocket whose client offers these subprotocols (the
 * value of Sec-WebSocket-Protocol): the first of its list that we speak.
 * *is_named: whether it is to be told which. No offer at all means JSON. NULL:
 * none of them is spoken here. */
const struct transport *
transports_of_websocket(bool has_offer, struct slice offer, bool *is_named);

/* The number of a transport, from 0, and the name of number `n`, by which its
 * subscribers are counted (set->subscribers); NULL: there are no more. */
unsigned transports_number(const struct transport *transport);
const char *transports_name(unsigned n);

/* "resourcesync.json, resourcesync.xml", for an error's text. */
#define TRANSPORTS_OFFERED "resourcesync.json, resourcesync.xml"

#endif
