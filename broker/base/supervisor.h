/*
 * supervisor.h - reports to the service manager that started the broker:
 * the protocol of sd_notify(3).
 *
 *     start --READY=1--> serving --STOPPING=1--> end
 *                         |   ^
 *     SIGHUP: RELOADING=1 |   | READY=1
 *                         v   |
 *                       reloading
 *
 * Each message is one datagram to the unix socket that NOTIFY_SOCKET names: a
 * path, or "@" and an abstract name. Without that variable nobody listens, and
 * all functions do nothing.
 *
 * WATCHDOG_USEC asks for a sign of life at least that often: WATCHDOG=1. The
 * broker sends four in that time, while each thread that it must not be without
 * shows life (thread_show_life). Once one is silent for three quarters of the
 * time, no more come, and the service manager ends the broker and starts it
 * again. Threads show life once a second, so a time below 4 seconds ends a
 * broker that is well.
 *
 * Own code instead of libsystemd: the protocol is fixed and public, and that
 * library loads four others (compression, libgcrypt) into the broker, in
 * containers without systemd, too.
 *
 * A service manager that does not read delays each message by a second at most,
 * and only the main thread, which serves nobody.
 */
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include "proto/c.h"

struct supervisor {
    int fd; /* -1: nobody listens. Kept, so that a broker without free
               descriptors still shows life */
    struct sockaddr_un address;
    socklen_t address_size;
    int64_t watchdog_us; /* 0: no watchdog */
    int64_t next_us;     /* when it is due; steady clock */
    bool is_silent;      /* a thread hangs */
};

/* Reads the environment of the process. A socket that cannot be used is
 * logged. */
void supervisor_open(struct supervisor *s);
void supervisor_close(struct supervisor *s);

/* Sends a message: the start takes longer than usual, for at least another
 * minute; the broker serves at a URL, after its start and after a reload; a
 * reload begins, at the steady clock's microseconds; the end begins. */
void supervisor_say(struct supervisor *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#define SUPERVISOR_DELAY     "EXTEND_TIMEOUT_USEC=60000000\nSTATUS=%s"
#define SUPERVISOR_READY     "READY=1\nSTATUS=serving at %s/"
#define SUPERVISOR_RELOADING "RELOADING=1\nMONOTONIC_USEC=%" PRId64
#define SUPERVISOR_STOPPING  "STOPPING=1"

/* Milliseconds until supervisor_turn has something to do; -1: never. */
int supervisor_wait_ms(const struct supervisor *s);

/* Sends a sign of life if it is due. `thread` is the one that has been silent
 * for the longest time, `silent_us`. */
void supervisor_turn(struct supervisor *s, const char *thread,
                     int64_t silent_us);
