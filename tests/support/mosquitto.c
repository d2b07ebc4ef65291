#include "tests/support/mosquitto.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/command.h"
#include "tests/support/patience.h"
#include "tests/support/process.h"
#include "tests/test.h"

#define PROGRAM "/usr/sbin/mosquitto"
#define PASSWD  "/usr/bin/mosquitto_passwd"

/* Below the ports that Linux assigns (ip_local_port_range: 32768 to 60999). */
#define PORT_FIRST 20000U
#define PORTS      12000U

/* How often a port may turn out to be taken. */
#define PORT_TRIES 50

/* Ports */

static struct sockaddr_in
address_of(unsigned port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

/* A socket that `call`, bind or connect, gave that port; -1. */
static int
socket_by(int (*call)(int, const struct sockaddr *, socklen_t), unsigned port)
{
    struct sockaddr_in address = address_of(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    if (!call(fd, (struct sockaddr *)&address, sizeof(address)))
        return fd;
    close(fd);
    return -1;
}

/* True if Mosquitto is at work. It listens earlier: before it looks at any
 * connection, and before it handles signals. When it is at work, it closes the
 * connection of a client that has shut down its side. */
static bool
is_at_work(unsigned port, int64_t end_ms)
{
    int fd = socket_by(connect, port);
    char unread[16];
    bool is = false;

    if (fd < 0)
        return false;
    if (!shutdown(fd, SHUT_WR))
        is = process_read(fd, unread, sizeof(unread), end_ms) >= 0;
    close(fd);
    return is;
}

/* Returns a port of the loopback address that nobody listens on, and that the
 * kernel assigns to nobody: so a client's own port is never that of a server it
 * waits for, which on the loopback address would connect it to itself. */
static unsigned
free_port(void)
{
    for (int i = 0; i < PORT_TRIES; i++) {
        uint32_t random = 0;
        unsigned port;
        int fd;

        assert_int_equal(getrandom(&random, sizeof(random), 0), sizeof(random));
        port = PORT_FIRST + random % PORTS;
        fd = socket_by(bind, port);
        if (fd < 0)
            continue;
        close(fd);
        return port;
    }
    fail_msg("no port is free");
    return 0;
}

/* The configuration */

static void
write_passwords(struct mosquittod *m, const struct mosquittod_wish *wish,
                FILE *to)
{
    char path[300];
    const char *const argv[] = {PASSWD,     "-b",           "-c", path,
                                wish->user, wish->password, NULL};
    struct command c;

    snprintf(path, sizeof(path), "%s/passwords", m->dir.path);
    command_start(&c, argv);
    if (command_end(&c))
        fail_msg("mosquitto_passwd: %s", c.err_text);
    fprintf(to, "allow_anonymous false\npassword_file %s\n", path);
}

static void
write_config(struct mosquittod *m, const struct mosquittod_wish *wish)
{
    FILE *to = fopen(m->config, "we");

    assert_non_null(to);
    fprintf(to, "listener %u 127.0.0.1\n", m->port);
    if (m->is_tls)
        fprintf(to, "certfile %s\nkeyfile %s\n", m->certificate.cert,
                m->certificate.key);
    if (wish->asks_certificate)
        fprintf(to, "require_certificate true\ncafile %s\n", m->certificate.ca);

    /* Mosquitto stays root if the test is root: no other user can read the
     * directory. */
    fprintf(to, "user root\n"
                "set_tcp_nodelay true\n"
                "max_queued_messages 0\n"
                "sys_interval 0\n"
                "log_dest stderr\n"
                "log_timestamp_format %%H:%%M:%%S\n"
                "log_type error\nlog_type warning\nlog_type notice\n"
                "log_type information\nlog_type subscribe\n");
    if (wish->user)
        write_passwords(m, wish, to);
    else
        fprintf(to, "allow_anonymous true\n");
    if (wish->acl) {
        tempdir_write(m->dir.fd, "acl", wish->acl);
        fprintf(to, "acl_file %s/acl\n", m->dir.path);
    }
    if (wish->more)
        fputs(wish->more, to);
    assert_int_equal(fclose(to), 0);
}

/* The process */

/* Starts it; false: it ended before it was at work. */
static bool
start(struct mosquittod *m)
{
    struct patience p = {.with = "Mosquitto to be at work"};
    int64_t end_ms = process_now_ms() + PATIENCE_MS;
    char unread[256];

    assert_int_equal(m->pid, 0);
    m->pid = process_start(m->arguments, m->log, &m->out);
    while (!is_at_work(m->port, end_ms)) {
        if (process_read(m->out, unread, sizeof(unread), process_now_ms()) ==
            0) {
            process_status(m->pid);
            close(m->out);
            m->pid = 0;
            return false;
        }
        patience_step(&p); /* it dies with the test */
    }
    return true;
}

void
mosquittod_open(struct mosquittod *m, const struct mosquittod_wish *wish)
{
    static const struct mosquittod_wish none = {NULL};

    if (!wish)
        wish = &none;
    *m = (struct mosquittod){.is_tls = wish->is_tls,
                             .arguments = {PROGRAM, "-c", m->config}};
    tempdir_open(&m->dir);
    process_log(m->log, sizeof(m->log));
    snprintf(m->config, sizeof(m->config), "%s/mosquitto.conf", m->dir.path);
    if (m->is_tls)
        certificate_make(&m->certificate, m->dir.path,
                         &(struct certificate_wish){.names = wish->tls_names});

    /* Between the look for a port and its use, another may take it. */
    for (int i = 0; !m->pid; i++) {
        m->port = free_port();
        write_config(m, wish);
        if (!start(m) &&
            (i == PORT_TRIES || !process_said(m->log, "already in use")))
            fail_msg("Mosquitto does not start");
    }
    snprintf(m->url, sizeof(m->url), "%s://127.0.0.1:%u",
             m->is_tls ? "mqtts" : "mqtt", m->port);
}

void
mosquittod_close(struct mosquittod *m)
{
    if (m->pid)
        mosquittod_kill9(m);
    if (m->dir.path[0])
        tempdir_close(&m->dir);
}

void
mosquittod_kill9(struct mosquittod *m)
{
    kill(m->pid, SIGKILL);
    process_status(m->pid);
    close(m->out);
    m->pid = 0;
}

void
mosquittod_restart(struct mosquittod *m)
{
    if (!start(m))
        fail_msg("Mosquitto does not start again");
}

void
mosquittod_freeze(struct mosquittod *m)
{
    kill(m->pid, SIGSTOP);
}

void
mosquittod_thaw(struct mosquittod *m)
{
    kill(m->pid, SIGCONT);
}
