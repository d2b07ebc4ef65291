#include "broker/base/peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

void
peer_set(struct peer *peer, const struct sockaddr *address, uid_t uid)
{
    static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff};
    const struct sockaddr_in6 *in6 = (const void *)address;
    const struct sockaddr_in *in = (const void *)address;

    memset(peer, 0, sizeof(*peer));
    peer->family = address->sa_family;
    if (address->sa_family == AF_UNIX) {
        memcpy(peer->address, &uid, sizeof(uid));
    } else if (address->sa_family == AF_INET) {
        memcpy(peer->address, &in->sin_addr, sizeof(in->sin_addr));
    } else if (address->sa_family == AF_INET6) {
        memcpy(peer->address, &in6->sin6_addr, sizeof(in6->sin6_addr));
        if (memcmp(peer->address, mapped, sizeof(mapped)) != 0)
            return;
        peer->family = AF_INET;
        memmove(peer->address, peer->address + sizeof(mapped), 4);
    }
}

void
peer_write(const struct peer *peer, char to[PEER_TEXT_SIZE])
{
    uid_t uid;

    to[0] = '\0';
    if (peer->family == AF_UNIX) {
        memcpy(&uid, peer->address, sizeof(uid));
        snprintf(to, PEER_TEXT_SIZE, "uid:%u", (unsigned)uid);
    } else if (peer->family == AF_INET || peer->family == AF_INET6) {
        (void)inet_ntop(peer->family, peer->address, to, PEER_TEXT_SIZE);
    }
}
