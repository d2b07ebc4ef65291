/*
 * access_log.h - a line for each request that has ended, in a file of its own
 * (--access-log).
 *
 *     service thread --access_log_add--> ring --+
 *     service thread --access_log_add--> ring --+--> [thread: lines] --> file
 *
 * A service thread copies what a line says into a ring of its own, of
 * ACCESS_RING_SIZE bytes. That takes no lock and no memory, and waits for
 * nothing; a lock is taken only to wake the thread when it sleeps, at most 200
 * times a second. The thread makes the lines and writes them.
 *
 * A slow file fills the rings, and a full disk refuses writes: then lines are
 * dropped, counted (tidings_access_log_dropped_lines_total) and reported. A
 * file of a kind that can make a writer wait (pipe, terminal, socket) gets
 * bytes only when it has room, so that the end of the broker does not wait for
 * its reader.
 */
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include "proto/problem.h"

struct access_log;

/* The address of a client, small enough to be kept with each connection and
 * each line. */
struct client_address {
    uint16_t family;           /* AF_INET, AF_INET6, AF_UNIX; else unknown */
    unsigned char address[16]; /* of AF_UNIX: the bytes of the uid_t */
};

/* Sets the address; IPv4 in IPv6 becomes IPv4. `uid` counts if the address is
 * of AF_UNIX. */
void client_address_set(struct client_address *client,
                        const struct sockaddr *address, uid_t uid);

/* Writes "192.0.2.1", "2001:db8::1", "uid:1000"; "" if it is unknown. */
#define CLIENT_ADDRESS_TEXT_SIZE 46
void client_address_write(const struct client_address *client,
                          char to[CLIENT_ADDRESS_TEXT_SIZE]);

/* One line. Texts are lent to access_log_add, which cuts long ones; `method`
 * and `pattern` stay for ever. */
struct access_entry {
    int64_t time_us; /* of the end; since 1970 */
    int64_t duration_us;
    uint64_t received_bytes, sent_bytes, n_messages;
    const char *method;  /* NULL: none that the broker knows */
    const char *pattern; /* of the route; NULL: none */
    unsigned status;     /* 0: none */
    bool is_stream, is_whole;
    struct client_address client;
    struct slice id, name, path, query, agent;
};

/* Bytes of a ring: some 4,000 lines. */
#define ACCESS_RING_SIZE ((size_t)1 << 20)

/* For `n_threads` service threads, at first without a file. */
struct access_log *access_log_new(unsigned n_threads);

/* Writes what was added, unless the file has no room for a second, and frees
 * the log. NULL is allowed. */
void access_log_free(struct access_log *log);

/* Checks that the file could be opened. Makes none. */
MUST_CHECK enum status access_log_check(const char *path, struct problem *why);

/* Opens the file to append to, or creates it for this user alone, and prepares
 * the log for it; "-" is standard output, "" none: *fd is -1. `why` names the
 * option. The main thread. */
MUST_CHECK enum status access_log_open(struct access_log *log, const char *path,
                                       int *fd, struct problem *why);

/* Takes over `fd` of access_log_open for the lines from now on; the file before
 * gets those that were added, and is closed. -1: none is added any more. Waits
 * until the thread has changed files, at most 3 seconds. The main thread. */
void access_log_use(struct access_log *log, int fd);

/* True if there is a file. Any thread. NULL is allowed. */
bool access_log_is_on(const struct access_log *log);

/* Adds a line. `thread`: the number of the calling service thread. */
void access_log_add(struct access_log *log, unsigned thread,
                    const struct access_entry *entry);
