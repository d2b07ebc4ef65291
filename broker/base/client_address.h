/*
 * client_address.h - the address of a client, small enough to be kept with each
 * connection and each line of a log.
 */
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include "proto/c.h"

struct client_address {
    uint16_t family;           /* AF_INET, AF_INET6, AF_UNIX; else unknown */
    unsigned char address[16]; /* of AF_UNIX: the bytes of the uid_t */
};

/* Sets the address; IPv4 in IPv6 becomes IPv4. `uid` counts if the address is
 * of AF_UNIX. */
void client_address_set(struct client_address *client,
                        const struct sockaddr *address, uid_t uid);

/* Writes "192.0.2.1", "2001:db8::1", "uid:1000"; "" if it is unknown. */
#define CLIENT_ADDRESS_TEXT_SIZE 46
void client_address_write(const struct client_address *client,
                          char to[CLIENT_ADDRESS_TEXT_SIZE]);
