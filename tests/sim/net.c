/*
 * net.c - descriptors, waits for them, and the network of a simulated world.
 *
 * An address of IPv4 is one of a Unix socket without a name in the file system,
 * so that a kernel keeps the bytes, and no port of the machine is taken. The
 * seed decides how many bytes a call moves and when the other side can read
 * them; the operator cuts connections or silences them.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/sim/inside.h"

#define PORT_FIRST 20000 /* of those that connect */

static struct fd fds[FDS];
static int epoll_end; /* one more than the largest descriptor of an epoll */

struct fd *
fd_of(int fd)
{
    return fd >= 0 && fd < FDS ? &fds[fd] : NULL;
}

static struct fd *
net_of(int fd)
{
    struct fd *f = is_inside() ? fd_of(fd) : NULL;

    return f && f->kind == FD_NET ? f : NULL;
}

static struct world_link *
link_of(const struct fd *f)
{
    return f && f->kind == FD_NET && f->link ? &world->links[f->link] : NULL;
}

static bool
is_blocking(int fd, int flags)
{
    return !(flags & MSG_DONTWAIT) && !(fcntl(fd, F_GETFL) & O_NONBLOCK);
}

/* What is polled. Events and pipes are of one process. */
static uint64_t
bit_of(const struct fd *f)
{
    return f && f->kind == FD_NET && f->link ? poll_bit(POLL_LINK, f->link)
           : f && f->kind == FD_NET && f->port
               ? poll_bit(POLL_PORT, (uint32_t)f->port)
               : poll_bit(POLL_PROCESS, this_process());
}

/* Addresses */

static socklen_t
write_name(struct sockaddr_un *to, char kind, unsigned number)
{
    memset(to, 0, sizeof(*to));
    to->sun_family = AF_UNIX;
    snprintf(to->sun_path + 1, sizeof(to->sun_path) - 1, "world%u/%c%u",
             world->name, kind, number);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
                       strlen(to->sun_path + 1));
}

static void
write_address(struct sockaddr *to, socklen_t *size, unsigned port)
{
    struct sockaddr_in in = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};

    if (!to || !size)
        return;
    memcpy(to, &in, *size < sizeof(in) ? *size : sizeof(in));
    *size = sizeof(in);
}

static unsigned
port_of(const struct fd *f, int side)
{
    return f->port     ? (unsigned)f->port
           : side == 0 ? PORT_FIRST + f->link
                       : world->links[f->link].port;
}

/* The name of a listener: a socket of the file system keeps its own. Returns its
 * port; those of the file system are behind all others, by their last name, for
 * the folder is another one in each run. */
static unsigned
name_of(const struct sockaddr *address, socklen_t *size,
        struct sockaddr_un *name)
{
    unsigned port = 0;

    if (address->sa_family == AF_UNIX) {
        memcpy(name, address, *size);
        for (const char *c = name->sun_path; *c; c++)
            port = *c == '/' ? 0 : port * 31 + (unsigned char)*c;
        return WORLD_PORTS + port % WORLD_PORTS;
    }
    port = ntohs(((const struct sockaddr_in *)(const void *)address)->sin_port);
    *size = write_name(name, 'l', port);
    return port;
}

EXPORT int
socket(int domain, int type, int protocol)
{
    int fd;
    REAL(socket);

    if (!is_inside() || (domain != AF_INET && domain != AF_INET6 &&
                         (domain != AF_UNIX || (type & 0xff) != SOCK_STREAM)))
        return real(domain, type, protocol);
    if (domain == AF_INET6 || (type & 0xff) != SOCK_STREAM) {
        errno = EAFNOSUPPORT;
        return -1;
    }
    step("socket", 0);
    fd = real(AF_UNIX, type, 0);
    if (fd >= 0 && fd < FDS)
        fds[fd] = (struct fd){.kind = FD_NET};
    return fd;
}

/* Listeners of one port in one process share the first one's queue. */
EXPORT int
bind(int fd, const struct sockaddr *address, socklen_t size)
{
    struct fd *f = net_of(fd);
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int port;
    REAL(bind);

    if (!f)
        return real(fd, address, size);
    port = (int)name_of(address, &size, &name);
    step("bind", port);
    if (real(fd, (struct sockaddr *)&name, size)) {
        int first = 0;

        while (first < FDS &&
               (fds[first].kind != FD_NET || fds[first].port != port))
            first++;
        if (errno != EADDRINUSE || first == FDS)
            return -1;
        dup3(first, fd, O_CLOEXEC);
    }
    f->port = port;
    return 0;
}

EXPORT int
connect(int fd, const struct sockaddr *address, socklen_t size)
{
    struct fd *f = net_of(fd);
    struct sockaddr_un own, name = {.sun_family = AF_UNIX};
    unsigned port;
    uint32_t n;
    REAL(connect);
    static __typeof__(bind) *real_bind;

    if (!f)
        return real(fd, address, size);
    if (!real_bind)
        real_bind = (__typeof__(real_bind))world_symbol("bind");
    port = name_of(address, &size, &name);
    step("connect", port);
    if (f->link) {
        errno = EISCONN;
        return -1;
    }
    n = world->n_links + 1;
    if (n == WORLD_LINKS)
        abort();
    real_bind(fd, (struct sockaddr *)&own, write_name(&own, 'c', n));
    if (real(fd, (struct sockaddr *)&name, size)) {
        if (errno == EAGAIN)
            errno = ETIMEDOUT; /* the other side accepts no more */
        return -1;
    }
    world->n_links = n;
    world->links[n] =
        (struct world_link){.port = port, .process = {this_process(), 0}};
    f->link = n;
    tell_event(poll_bit(POLL_PORT, port));
    step("connected", n);
    return 0;
}

EXPORT int
accept4(int fd, struct sockaddr *address, socklen_t *size, int flags)
{
    struct fd *f = net_of(fd);
    struct sockaddr_un name = {.sun_family = AF_UNSPEC};
    socklen_t n = sizeof(name) - 1;
    unsigned number = 0;
    int got;
    REAL(accept4);

    if (!f)
        return real(fd, address, size, flags);
    step("accept", f->port);
    while ((got = real(fd, (struct sockaddr *)&name, &n, flags)) < 0 &&
           errno == EAGAIN && is_blocking(fd, 0))
        wait_event(bit_of(f), WORLD_NEVER);
    if (got < 0)
        return -1;
    sscanf(name.sun_path + 1, "world%*u/c%u", &number);
    if (got < FDS)
        fds[got] = (struct fd){.kind = FD_NET, .side = 1, .link = number};
    world->links[number].process[1] = this_process();
    write_address(address, size, PORT_FIRST + number);
    step("accepted", number);
    return got;
}

EXPORT int
accept(int fd, struct sockaddr *address, socklen_t *size)
{
    return accept4(fd, address, size, 0);
}

EXPORT int
getsockname(int fd, struct sockaddr *address, socklen_t *size)
{
    struct fd *f = net_of(fd);
    REAL(getsockname);

    if (!f)
        return real(fd, address, size);
    write_address(address, size, port_of(f, f->side));
    return 0;
}

EXPORT int
getpeername(int fd, struct sockaddr *address, socklen_t *size)
{
    struct fd *f = net_of(fd);
    REAL(getpeername);

    if (!f)
        return real(fd, address, size);
    if (!f->link) {
        errno = ENOTCONN;
        return -1;
    }
    write_address(address, size, port_of(f, !f->side));
    return 0;
}

EXPORT int
setsockopt(int fd, int level, int name, const void *value, socklen_t size)
{
    REAL(setsockopt);

    if (!net_of(fd))
        return real(fd, level, name, value, size);
    if (level == SOL_SOCKET && name == SO_SNDBUF)
        return real(fd, level, name, value, size);
    return 0;
}

EXPORT int
getsockopt(int fd, int level, int name, void *value, socklen_t *size)
{
    struct fd *f = net_of(fd);
    REAL(getsockopt);

    if (!f || (level == SOL_SOCKET && name != SO_ERROR))
        return real(fd, level, name, value, size);
    memset(value, 0, *size);
    if (level == SOL_SOCKET && f->link && link_of(f)->is_cut)
        *(int *)value = ECONNRESET;
    return 0;
}

/* Bytes */

static size_t
shorten(size_t size)
{
    return size > 1 && world->shorts && !random_below(world->shorts)
               ? 1 + random_below(size - 1)
               : size;
}

/* True if the call ends with errno: the connection is cut, or nothing can be
 * read yet (then *until_ns says until when). */
static bool
is_held_back(const struct fd *f, int64_t *until_ns)
{
    const struct world_link *link = link_of(f);

    if (!link || (!link->is_cut && !link->is_silent &&
                  link->visible_ns[f->side] <= world->now_ns))
        return false; /* and errno stays: OpenSSL reads it beside 0 bytes */
    errno = link->is_cut ? ECONNRESET : EAGAIN;
    if (!link->is_cut && !link->is_silent &&
        link->visible_ns[f->side] < *until_ns)
        *until_ns = link->visible_ns[f->side];
    return true;
}

static ssize_t
net_receive(int fd, void *to, size_t size, int flags)
{
    struct fd *f = fd_of(fd);
    ssize_t n;

    step("receive", fd);
    for (;;) {
        int64_t until_ns = WORLD_NEVER;

        if (is_held_back(f, &until_ns)) {
            n = -1;
        } else {
            n = syscall(SYS_recvfrom, fd, to, shorten(size),
                        flags | MSG_DONTWAIT, NULL, NULL);
        }
        if (n >= 0)
            tell_event(bit_of(f));
        if (n >= 0 || errno != EAGAIN || !is_blocking(fd, flags))
            return n;
        wait_event(bit_of(f), until_ns);
    }
}

/* Notes bytes that side `f` has written. */
static void
note_sent(const struct fd *f)
{
    struct world_link *link = link_of(f);
    int64_t ns;

    tell_event(bit_of(f));
    if (!link || !world->delay_ns)
        return;
    ns = world->now_ns + (int64_t)random_below((uint64_t)world->delay_ns);
    if (link->visible_ns[!f->side] < ns)
        link->visible_ns[!f->side] = ns;
}

static ssize_t
net_send(int fd, const struct msghdr *message, int flags)
{
    struct fd *f = fd_of(fd);
    struct msghdr copy = *message;
    struct iovec one =
        copy.msg_iovlen ? copy.msg_iov[0] : (struct iovec){NULL, 0};
    ssize_t n;

    step("send", fd);
    copy.msg_name = NULL;
    copy.msg_namelen = 0;
    if (world->shorts && !random_below(world->shorts)) {
        one.iov_len = shorten(one.iov_len);
        copy.msg_iov = &one;
        copy.msg_iovlen = 1;
    }
    for (;;) {
        const struct world_link *link = link_of(f);

        if (link && link->is_cut) {
            errno = EPIPE;
            return -1;
        }
        if (link && link->is_silent) {
            n = 0;
            for (size_t i = 0; i < copy.msg_iovlen; i++)
                n += (ssize_t)copy.msg_iov[i].iov_len;
            return n;
        }
        n = syscall(SYS_sendmsg, fd, &copy,
                    flags | MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n >= 0)
            note_sent(f);
        if (n >= 0 || errno != EAGAIN || !is_blocking(fd, flags))
            return n;
        wait_event(bit_of(f), WORLD_NEVER);
    }
}

static ssize_t
send_one(int fd, const void *bytes, size_t size, int flags)
{
    struct iovec one = {(void *)(uintptr_t)bytes, size};
    const struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1};

    return net_send(fd, &message, flags);
}

EXPORT ssize_t
recv(int fd, void *to, size_t size, int flags)
{
    REAL(recv);

    return net_of(fd) ? net_receive(fd, to, size, flags)
                      : real(fd, to, size, flags);
}

EXPORT ssize_t
send(int fd, const void *bytes, size_t size, int flags)
{
    REAL(send);

    return net_of(fd) ? send_one(fd, bytes, size, flags)
                      : real(fd, bytes, size, flags);
}

EXPORT ssize_t
sendto(int fd, const void *bytes, size_t size, int flags,
       const struct sockaddr *to, socklen_t to_size)
{
    REAL(sendto);

    return net_of(fd) ? send_one(fd, bytes, size, flags)
                      : real(fd, bytes, size, flags, to, to_size);
}

EXPORT ssize_t
sendmsg(int fd, const struct msghdr *message, int flags)
{
    REAL(sendmsg);

    return net_of(fd) ? net_send(fd, message, flags) : real(fd, message, flags);
}

EXPORT ssize_t
sendfile(int fd, int from, off_t *at, size_t size)
{
    struct fd *f = net_of(fd);
    ssize_t n;
    REAL(sendfile);

    if (!f)
        return real(fd, from, at, size);
    step("sendfile", fd);
    if (link_of(f) && (link_of(f)->is_cut || link_of(f)->is_silent)) {
        errno = link_of(f)->is_cut ? EPIPE : EAGAIN;
        return -1;
    }
    n = real(fd, from, at, shorten(size));
    if (n > 0)
        note_sent(f);
    return n;
}

EXPORT int
shutdown(int fd, int how)
{
    int rc;
    REAL(shutdown);

    rc = real(fd, how);
    if (net_of(fd)) {
        tell_event(bit_of(net_of(fd)));
        step("shutdown", fd);
    }
    return rc;
}

/* Of pipes, events and sockets that are not of the network. */
static bool
is_stream(int fd)
{
    struct stat st;

    return syscall(SYS_fstat, fd, &st) == 0 &&
           (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode) ||
            (st.st_mode & S_IFMT) == 0);
}

EXPORT ssize_t
read(int fd, void *to, size_t size)
{
    struct fd *f = is_inside() ? fd_of(fd) : NULL;
    ssize_t n;
    REAL(read);

    if (!f)
        return real(fd, to, size);
    if (f->kind == FD_NET)
        return net_receive(fd, to, size, 0);
    if (f->kind == FD_RANDOM)
        return getentropy(to, size) ? -1 : (ssize_t)size;
    if (f->kind != FD_OTHER || !is_stream(fd))
        return real(fd, to, size);
    step("read", fd);
    while (is_blocking(fd, 0)) {
        struct pollfd p = {fd, POLLIN, 0};

        if (syscall(SYS_poll, &p, 1, 0))
            break;
        wait_event(bit_of(f), WORLD_NEVER);
    }
    n = real(fd, to, size);
    tell_event(bit_of(f));
    return n;
}

EXPORT ssize_t
write(int fd, const void *bytes, size_t size)
{
    struct fd *f = is_inside() ? fd_of(fd) : NULL;
    ssize_t n;
    REAL(write);

    if (!f)
        return real(fd, bytes, size);
    if (f->kind == FD_NET)
        return send_one(fd, bytes, size, 0);
    if (f->kind == FD_FILE && disk_write(fd, bytes, size, -1, &n))
        return n;
    n = real(fd, bytes, size);
    if (f->kind == FD_OTHER) {
        tell_event(bit_of(f));
        step("write", fd);
    }
    return n;
}

EXPORT ssize_t
writev(int fd, const struct iovec *parts, int n)
{
    const struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)parts,
                                   .msg_iovlen = (size_t)n};
    REAL(writev);

    return net_of(fd) ? net_send(fd, &message, 0) : real(fd, parts, n);
}

/* Waits */

static int look_at_rows(const struct fd *e, int first,
                        struct epoll_event *events, int max, int64_t *until_ns,
                        uint64_t *interest);

/* Polls the descriptors; returns how many are ready. Lowers *until_ns to the
 * moment at which a reader can read the next bytes. Adds the bits of all
 * descriptors to *interest. */
static int
look(struct pollfd *all, nfds_t n, int64_t *until_ns, uint64_t *interest)
{
    int n_ready = 0;

    syscall(SYS_poll, all, n, 0);
    for (nfds_t i = 0; i < n; i++) {
        struct pollfd *p = &all[i];
        struct fd *f = fd_of(p->fd);
        const struct world_link *link = link_of(f);
        struct epoll_event one;

        if (p->fd < 0)
            continue;
        if (f && f->kind == FD_EPOLL)
            p->revents =
                (short)(look_at_rows(f, 0, &one, 1, until_ns, interest) ? POLLIN
                                                                        : 0);
        else
            *interest |= bit_of(f);
        if (link && link->is_cut)
            p->revents =
                (short)((p->events & (POLLIN | POLLOUT)) | POLLERR | POLLHUP);
        else if (p->revents & (POLLIN | POLLHUP | POLLRDHUP) &&
                 is_held_back(f, until_ns))
            p->revents &= (short)~(POLLIN | POLLHUP | POLLRDHUP);
        n_ready += p->revents != 0;
    }
    return n_ready;
}

static int64_t
deadline(int64_t ns)
{
    return ns < 0 ? WORLD_NEVER : world->now_ns + ns;
}

static int
poll_until(struct pollfd *all, nfds_t n, int64_t until_ns)
{
    step("poll", (int64_t)n);
    for (;;) {
        int64_t soonest = until_ns;
        uint64_t interest = 0;
        int ready = look(all, n, &soonest, &interest);

        if (ready || world->now_ns >= until_ns)
            return ready;
        wait_event(interest, soonest);
    }
}

EXPORT int
poll(struct pollfd *all, nfds_t n, int ms)
{
    REAL(poll);

    return is_inside() ? poll_until(all, n, deadline(ms * INT64_C(1000000)))
                       : real(all, n, ms);
}

EXPORT int
ppoll(struct pollfd *all, nfds_t n, const struct timespec *t,
      const sigset_t *mask)
{
    REAL(ppoll);

    if (!is_inside())
        return real(all, n, t, mask);
    return poll_until(
        all, n,
        deadline(t ? t->tv_sec * INT64_C(1000000000) + t->tv_nsec : -1));
}

EXPORT int
pselect(int n, fd_set *in, fd_set *out, fd_set *bad, const struct timespec *t,
        const sigset_t *mask)
{
    struct pollfd all[FD_SETSIZE];
    int n_polled = 0, n_bits = 0;
    REAL(pselect);

    if (!is_inside())
        return real(n, in, out, bad, t, mask);
    for (int fd = 0; fd < n; fd++) {
        short events = (short)((in && FD_ISSET(fd, in) ? POLLIN : 0) |
                               (out && FD_ISSET(fd, out) ? POLLOUT : 0));

        if (events)
            all[n_polled++] = (struct pollfd){fd, events, 0};
    }
    ppoll(all, (nfds_t)n_polled, t, mask);
    if (in)
        FD_ZERO(in);
    if (out)
        FD_ZERO(out);
    if (bad)
        FD_ZERO(bad);
    for (int i = 0; i < n_polled; i++) {
        if (all[i].events & POLLIN &&
            all[i].revents & (POLLIN | POLLHUP | POLLERR)) {
            FD_SET(all[i].fd, in);
            n_bits++;
        }
        if (all[i].events & POLLOUT && all[i].revents & (POLLOUT | POLLERR)) {
            FD_SET(all[i].fd, out);
            n_bits++;
        }
    }
    return n_bits;
}

EXPORT int
select(int n, fd_set *in, fd_set *out, fd_set *bad, struct timeval *t)
{
    const struct timespec time =
        t ? (struct timespec){t->tv_sec, t->tv_usec * 1000}
          : (struct timespec){0, 0};
    REAL(select);

    return is_inside() ? pselect(n, in, out, bad, t ? &time : NULL, NULL)
                       : real(n, in, out, bad, t);
}

/* An epoll is its rows: level-triggered, as libuv uses it. */
EXPORT int
epoll_create1(int flags)
{
    int fd;
    REAL(epoll_create1);

    fd = real(flags);
    if (is_inside() && fd >= 0 && fd < FDS) {
        fds[fd] = (struct fd){.kind = FD_EPOLL};
        epoll_end = fd >= epoll_end ? fd + 1 : epoll_end;
    }
    return fd;
}

EXPORT int
epoll_create(int size)
{
    (void)size;
    return epoll_create1(0);
}

static int
find_row(const struct fd *e, int fd)
{
    for (int i = 0; i < e->n_rows; i++)
        if (e->rows[i].fd == fd)
            return i;
    return -1;
}

static void
remove_row(struct fd *e, int i)
{
    memmove(&e->rows[i], &e->rows[i + 1],
            (size_t)(--e->n_rows - i) * sizeof(*e->rows));
}

EXPORT int
epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
    struct fd *e = is_inside() ? fd_of(epoll) : NULL;
    int i;
    REAL(epoll_ctl);

    if (!e || e->kind != FD_EPOLL)
        return real(epoll, op, fd, event);
    i = find_row(e, fd);
    if ((op == EPOLL_CTL_ADD) != (i < 0)) {
        errno = i < 0 ? ENOENT : EEXIST;
        return -1;
    }
    if (op == EPOLL_CTL_DEL) {
        remove_row(e, i);
        return 0;
    }
    if (i < 0) {
        /* The kernel refuses a file, which nobody can poll. */
        if (real(epoll, EPOLL_CTL_ADD, fd, event))
            return -1;
        real(epoll, EPOLL_CTL_DEL, fd, event);
        i = e->n_rows++;
        e->rows = realloc(e->rows, (size_t)e->n_rows * sizeof(*e->rows));
        if (!e->rows)
            abort();
    }
    e->rows[i] = (struct epoll_row){fd, event->events, event->data.u64};
    return 0;
}

/* Fills `events`, from row `first` on. */
static int
look_at_rows(const struct fd *e, int first, struct epoll_event *events, int max,
             int64_t *until_ns, uint64_t *interest)
{
    struct pollfd *all = malloc((size_t)e->n_rows * sizeof(*all));
    int n = 0;

    for (int i = 0; i < e->n_rows; i++) {
        const struct epoll_row *row = &e->rows[(first + i) % e->n_rows];

        all[i] = (struct pollfd){row->fd, (short)row->events, 0};
    }
    look(all, (nfds_t)e->n_rows, until_ns, interest);
    for (int i = 0; i < e->n_rows && n < max; i++)
        if (all[i].revents)
            events[n++] = (struct epoll_event){
                .events = (uint32_t)(unsigned short)all[i].revents,
                .data.u64 = e->rows[(first + i) % e->n_rows].data};
    free(all);
    return n;
}

EXPORT int
epoll_pwait(int epoll, struct epoll_event *events, int max, int ms,
            const sigset_t *mask)
{
    struct fd *e = is_inside() ? fd_of(epoll) : NULL;
    int64_t until_ns;
    REAL(epoll_pwait);

    if (!e || e->kind != FD_EPOLL)
        return real(epoll, events, max, ms, mask);
    until_ns = deadline(ms * INT64_C(1000000));
    step("epoll", e->n_rows);
    for (;;) {
        int64_t soonest = until_ns;
        uint64_t interest = 0;
        int first = e->n_rows ? (int)random_below((uint64_t)e->n_rows) : 0;
        int n = look_at_rows(e, first, events, max, &soonest, &interest);

        if (n || world->now_ns >= until_ns)
            return n;
        wait_event(interest, soonest);
    }
}

EXPORT int
epoll_wait(int epoll, struct epoll_event *events, int max, int ms)
{
    REAL(epoll_wait);

    return is_inside() ? epoll_pwait(epoll, events, max, ms, NULL)
                       : real(epoll, events, max, ms);
}

EXPORT int
eventfd_write(int fd, eventfd_t value)
{
    return write(fd, &value, sizeof(value)) == sizeof(value) ? 0 : -1;
}

EXPORT int
eventfd_read(int fd, eventfd_t *value)
{
    return read(fd, value, sizeof(*value)) == sizeof(*value) ? 0 : -1;
}

/* Descriptors */

static void
forget(int fd)
{
    struct fd *f = is_inside() ? fd_of(fd) : NULL;

    if (!f)
        return;
    for (int i = 0; i < epoll_end; i++) {
        int row = fds[i].kind == FD_EPOLL ? find_row(&fds[i], fd) : -1;

        if (row >= 0)
            remove_row(&fds[i], row);
    }
    free(f->rows);
    *f = (struct fd){.kind = FD_OTHER};
}

EXPORT int
close(int fd)
{
    const struct fd *f = net_of(fd);
    uint64_t bit = f ? bit_of(f) : 0;
    int rc;
    REAL(close);

    forget(fd);
    rc = real(fd);
    if (bit) {
        tell_event(bit);
        step("close", fd);
    }
    return rc;
}

#define LOCK_NS 1000000 /* until it is tried again */

EXPORT int
flock(int fd, int operation)
{
    REAL(flock);

    if (!is_inside() || operation & (LOCK_NB | LOCK_UN))
        return real(fd, operation);
    step("flock", fd);
    while (real(fd, operation | LOCK_NB)) {
        if (errno != EWOULDBLOCK)
            return -1;
        wait_for(0, world->now_ns + LOCK_NS);
    }
    return 0;
}

/* The C library closes these itself. */
EXPORT int
closedir(DIR *folder)
{
    REAL(closedir);

    forget(dirfd(folder));
    return real(folder);
}

EXPORT int
fclose(FILE *file)
{
    REAL(fclose);

    forget(fileno(file));
    return real(file);
}

static int
copied(int from, int to)
{
    struct fd *f = is_inside() ? fd_of(from) : NULL;

    if (f && to >= 0 && to < FDS && to != from) {
        fds[to] = *f;
        fds[to].rows = NULL;
        fds[to].n_rows = 0;
    }
    return to;
}

EXPORT int
dup(int fd)
{
    REAL(dup);

    return copied(fd, real(fd));
}

EXPORT int
fcntl(int fd, int command, ...)
{
    va_list args;
    void *value;
    int rc;
    static int (*real)(int fd, int command, ...);

    if (!real)
        real = (__typeof__(real))world_symbol("fcntl");
    va_start(args, command);
    value = va_arg(args, void *);
    va_end(args);
    rc = real(fd, command, value);
    return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? copied(fd, rc)
                                                            : rc;
}

EXPORT int fcntl64(int fd, int command, ...) __attribute__((alias("fcntl")));
