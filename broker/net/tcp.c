#include "broker/net/tcp.h"

#include <arpa/inet.h>
#include <linux/tcp.h> /* the C library's tcp_info lacks bytes_acked */
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

/* <netinet/tcp.h> has their names, but not beside <linux/tcp.h>. (So this file
 * is one of its own: <uv.h> includes that.) */
#define STATE_CLOSED     7
#define STATE_CLOSE_WAIT 8

static struct tcp_info
info_of(int fd)
{
    struct tcp_info info = {.tcpi_bytes_acked = 0};
    socklen_t size = sizeof(info);

    getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size);
    return info;
}

uint64_t
tcp_acked(int fd)
{
    return info_of(fd).tcpi_bytes_acked;
}

bool
tcp_has_unread(int fd)
{
    int n = 0;

    return !ioctl(fd, FIONREAD, &n) && n > 0;
}

bool
tcp_is_ended(int fd)
{
    struct tcp_info info = info_of(fd);

    return info.tcpi_state == STATE_CLOSE_WAIT ||
           info.tcpi_state == STATE_CLOSED;
}

void
tcp_peer(int fd, char *to, size_t size)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } peer = {.any = {.sa_family = AF_UNSPEC}};

    socklen_t length = sizeof(peer);
    int family = AF_UNSPEC;
    const void *address = NULL;

    to[0] = '\0';
    if (getpeername(fd, &peer.any, &length))
        return;
    family = peer.any.sa_family;
    if (family == AF_INET) {
        address = &peer.v4.sin_addr;
    } else if (family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&peer.v6.sin6_addr)) {
        address = &peer.v6.sin6_addr.s6_addr[12];
        family = AF_INET;
    } else if (family == AF_INET6) {
        address = &peer.v6.sin6_addr;
    }
    if (!address || !inet_ntop(family, address, to, (socklen_t)size))
        to[0] = '\0';
}
