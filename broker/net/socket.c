#include "broker/net/socket.h"

#include <errno.h>
#include <linux/tcp.h> /* the C library's tcp_info lacks bytes_acked */
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

uint64_t
socket_acked(int fd)
{
    struct tcp_info info = {.tcpi_bytes_acked = 0};
    socklen_t size = sizeof(info);

    getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size);
    return info.tcpi_bytes_acked;
}

bool
socket_has_unread(int fd)
{
    int n = 0;

    return !ioctl(fd, FIONREAD, &n) && n > 0;
}

/* recv said `n`: may there be more, later? */
static bool
is_open(ssize_t n)
{
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

bool
socket_is_ended(int fd)
{
    char byte = 0;

    return !is_open(recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT));
}

bool
socket_drain(int fd, uint64_t *drained, uint64_t max)
{
    char bytes[16384];

    while (*drained < max) {
        ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);

        if (n <= 0)
            return is_open(n);
        *drained += (uint64_t)n;
    }
    return false;
}
