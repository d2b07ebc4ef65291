#include "broker/base/client_address.h"

#include <arpa/inet.h>

#include "proto/http/network_address.h"

void
client_address_set(struct client_address *client,
                   const struct sockaddr *address, uid_t uid)
{
    memset(client, 0, sizeof(*client));
    client->family = address->sa_family;
    if (address->sa_family == AF_UNIX) {
        memcpy(client->address, &uid, sizeof(uid));
    } else if (address_bytes(address, client->address) &&
               address_is_mapped(client->address)) {
        client->family = AF_INET;
        memmove(client->address, client->address + 12, 4);
    }
}

void
client_address_write(const struct client_address *client,
                     char to[CLIENT_ADDRESS_TEXT_SIZE])
{
    uid_t uid;

    to[0] = '\0';
    if (client->family == AF_UNIX) {
        memcpy(&uid, client->address, sizeof(uid));
        snprintf(to, CLIENT_ADDRESS_TEXT_SIZE, "uid:%u", (unsigned)uid);
    } else if (client->family == AF_INET || client->family == AF_INET6) {
        (void)inet_ntop(client->family, client->address, to,
                        CLIENT_ADDRESS_TEXT_SIZE);
    }
}
