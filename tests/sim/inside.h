/*
 * inside.h - what the parts of libworld.so share, inside of a process.
 *
 * Each replaces calls of the C library. A call made by a thread without the
 * baton goes through unchanged: before the process has joined, in a handler of
 * a signal, and when it ends.
 */
#pragma once

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "tests/sim/world.h"

#define EXPORT __attribute__((visibility("default")))

/* Declares `real`: the C library's function of that name. */
#define REAL(name)                 \
    static __typeof__(name) *real; \
    if (!real)                     \
    real = (__typeof__(name) *)world_symbol(#name)

extern struct world *world;

void *world_symbol(const char *name);

/* True if this thread has the baton. */
bool is_inside(void);

/* Takes a step: the seed may hand the baton to another thread. */
void step(const char *what, int64_t number);

/* Waits for wake(key), until `until_ns`. False: the time is over. */
bool wait_for(uint64_t key, int64_t until_ns);

/* A poll waits for the bits of its descriptors. Two descriptors may have the same
 * bit: then a poll looks once more than it has to. */
enum poll_kind { POLL_LINK, POLL_PORT, POLL_PROCESS };

uint64_t poll_bit(enum poll_kind kind, uint32_t number);

/* Waits for an event of one of these bits, until `until_ns`. */
void wait_event(uint64_t interest, int64_t until_ns);

/* Something happened that a poll may wait for. */
void tell_event(uint64_t bit);

/* Wakes those that wait for `key`: all, or one that the seed chooses. */
void wake(uint64_t key, bool all);

uint64_t key_of(const void *address);
uint32_t this_process(void);
uint64_t random_below(uint64_t n);

/* Files */

enum fd_kind { FD_OTHER, FD_NET, FD_EPOLL, FD_RANDOM, FD_FILE, FD_FOLDER };

struct epoll_row {
    int fd;
    uint32_t events;
    uint64_t data;
};

struct fd {
    enum fd_kind kind;
    int port; /* of a listener */
    int side; /* of a connection */
    uint32_t link;
    uint64_t ino;
    struct epoll_row *rows;
    int n_rows;
    bool is_append;
};

#define FDS 4096

/* Returns what is known of a descriptor; NULL: nothing. */
struct fd *fd_of(int fd);

/* Of close: forgets it. */
void net_close(int fd);

/* Reads or writes of a file of the disk. False: it is none. */
bool disk_write(int fd, const void *bytes, size_t size, int64_t at, ssize_t *n);
