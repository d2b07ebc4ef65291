/*
 * connection.h - one WebSocket connection to a set's stream, from the handshake
 * to its end.
 *
 *     handshake --> messages ... --> end
 *         +--------------------------^
 */
#ifndef CLIENT_LIB_CONNECTION_H
#define CLIENT_LIB_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>

#include "client/lib/client.h"
#include "client/lib/set_url.h"

/* Longest message: brokers send 1 MiB unless told otherwise. */
#define CONNECTION_MESSAGE_MAX (16 * 1024 * 1024)

/* Gets a whole message, which it may change; false ends the connection. */
typedef bool connection_message_fn(char *bytes, size_t size, void *user);

struct connection_plan {
    const struct set_url *url;
    const char *target; /* path and query of the stream */
    const char *subprotocol;
    const unsigned *idle_ms; /* silence that ends it; read again each time */
    connection_message_fn *on_message;
    void *user;
};

enum connection_how {
    CONNECTION_STOPPED, /* td_stop */
    CONNECTION_ENOUGH,  /* on_message returned false */
    CONNECTION_REFUSED, /* the handshake was answered with HTTP status `code` */
    CONNECTION_CLOSED,  /* the broker's farewell: close code `code` (0: none) */
    CONNECTION_LOST,    /* never came about, broke, or fell silent */
    CONNECTION_BROKEN,  /* the broker sent what cannot be a message */
    CONNECTION_MEMORY
};

struct connection_end {
    enum connection_how how;
    unsigned code;
    char reason[256]; /* a sentence; with CONNECTION_CLOSED the broker's */
};

/* Once per process, before all else here. */
void connection_set_up(void);

/* Connects, hands over the messages and tells how it ended. The name of the
 * host is looked up by the system's resolver, which td_stop cannot hurry. */
void connection_run(struct td_client *client,
                    const struct connection_plan *plan,
                    struct connection_end *end);

#endif
