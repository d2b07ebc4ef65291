#include "broker/net/tcp.h"

#include <linux/sockios.h>
#include <linux/tcp.h> /* the C library's tcp_info lacks bytes_acked, and its
                          header, which <uv.h> includes, conflicts with it */
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

/* States of the kernel (tcp_states.h). In the others (FIN_WAIT1, LAST_ACK,
 * CLOSING) a FIN is not acknowledged, which counts as a byte. */
#define CLOSED     7
#define FIN_STATES (1U << 4 | 1U << 9 | 1U << 11)

/* Returns a count that the kernel keeps of the socket; 0 if it keeps none. */
static unsigned
count_of(int fd, unsigned long count)
{
    int n = 0;

    return !ioctl(fd, count, &n) && n > 0 ? (unsigned)n : 0;
}

void
tcp_limit_unsent(int fd, int bytes)
{
    setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof(bytes));
}

size_t
tcp_unsent(int fd)
{
    return count_of(fd, SIOCOUTQNSD);
}

size_t
tcp_left(int fd)
{
    struct tcp_info info = {.tcpi_state = 0};
    size_t left = count_of(fd, SIOCOUTQ);

    getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &(socklen_t){sizeof(info)});
    if (info.tcpi_state == CLOSED)
        return 0;
    return left - (left && (FIN_STATES & 1U << info.tcpi_state));
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
    struct tcp_info info = {.tcpi_bytes_acked = 0};

    getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &(socklen_t){sizeof(info)});
    return info.tcpi_bytes_acked;
}

uint64_t
unix_unread(int fd)
{
    return count_of(fd, SIOCOUTQ);
}

bool
tcp_has_unread(int fd)
{
    return count_of(fd, FIONREAD) > 0;
}

bool
tcp_is_ended(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLRDHUP};

    return poll(&p, 1, 0) > 0;
}

void
tcp_peer(int fd, struct sockaddr_storage *peer)
{
    memset(peer, 0, sizeof(*peer));
    if (getpeername(fd, (struct sockaddr *)peer, &(socklen_t){sizeof(*peer)}))
        peer->ss_family = AF_UNSPEC;
}
