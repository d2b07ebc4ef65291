#include "broker/net/tcp.h"

#include <linux/sockios.h>
#include <linux/tcp.h> /* the C library's tcp_info lacks bytes_acked */
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

/* <netinet/tcp.h> has names for them, but conflicts with <linux/tcp.h>. (<uv.h>
 * includes it, too, so this is a file of its own.) */
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

void
tcp_limit_unsent(int fd, int bytes)
{
    setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof(bytes));
}

size_t
tcp_unsent(int fd)
{
    int n = 0;

    return !ioctl(fd, SIOCOUTQNSD, &n) && n > 0 ? (size_t)n : 0;
}

void
tcp_reset_at_close(int fd)
{
    static const struct linger at_once = {.l_onoff = 1, .l_linger = 0};

    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
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
tcp_peer(int fd, struct sockaddr_storage *peer)
{
    socklen_t size = sizeof(*peer);

    memset(peer, 0, sizeof(*peer));
    if (getpeername(fd, (struct sockaddr *)peer, &size))
        peer->ss_family = AF_UNSPEC;
}
