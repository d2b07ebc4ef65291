#include "broker/base/client_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

void
client_address_set(struct client_address *client,
                   const struct sockaddr *address, uid_t uid)
{
    static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff};
    const struct sockaddr_in6 *in6 = (const void *)address;
    const struct sockaddr_in *in = (const void *)address;

    memset(client, 0, sizeof(*client));
    client->family = address->sa_family;
    if (address->sa_family == AF_UNIX) {
        memcpy(client->address, &uid, sizeof(uid));
    } else if (address->sa_family == AF_INET) {
        memcpy(client->address, &in->sin_addr, sizeof(in->sin_addr));
    } else if (address->sa_family == AF_INET6) {
        memcpy(client->address, &in6->sin6_addr, sizeof(in6->sin6_addr));
        if (memcmp(client->address, mapped, sizeof(mapped)) != 0)
            return;
        client->family = AF_INET;
        memmove(client->address, client->address + sizeof(mapped), 4);
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
