/*
 * publisher.h - a connection that posts entries, one post in flight at a time.
 *
 * Its request is made once; before each post only the digits in it change. An
 * entry is about as long as asked for in either form, and carries its number
 * and a time where every form and framing lets them through, in its loc:
 *
 *     http://bench.example/PPNNNNNNNNNNNNNN/TTTTTTTTTTTTTTTTTTT/000...
 *
 * P is the publisher, N the number of the entry among its own, T a monotonic
 * time in ns: 2, 14 and 19 digits.
 */
#ifndef TESTS_BENCH_PUBLISHER_H
#define TESTS_BENCH_PUBLISHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/bench/protocol.h"

#define PUBLISHERS_MAX 64

/* The text before the digits of an entry, and the offsets of the digits in
 * it. */
#define ENTRY_MARK      "//bench.example/"
#define ENTRY_NUMBER    2 /* behind the publisher's digits */
#define ENTRY_TIME      17
#define ENTRY_DIGITS    36
#define ENTRY_BYTES_MIN 256

enum form { FORM_XML, FORM_JSON };

struct publisher {
    int fd;
    unsigned number;
    bool is_busy;       /* a post is in flight */
    uint64_t posted_ns; /* the time it was stamped with */
    uint64_t count;     /* entries posted so far */
    size_t entries;     /* of a post */
    unsigned sets;      /* that it posts to in turn; 1: the set "bench" alone */
    unsigned next_set;
    char *set_digits; /* in the request; NULL: one set */
    char *request;
    size_t size;
    size_t *marks; /* offsets of the digits in the request */
    size_t sent;   /* bytes of the request */
    const struct protocol *protocol;
    size_t answers;     /* to a post */
    size_t outstanding; /* answers to the post in flight */
    char answer[16384]; /* answers that nobody has counted yet */
    size_t received;
};

/* Connects to the server and makes the request: `entries` of `bytes` each. */
void publisher_open(struct publisher *p, unsigned number, unsigned port,
                    enum form form, size_t entries, size_t bytes);

/* The same, posting to the sets "bench00000" and so on in turn; each publisher
 * begins with another one. */
void publisher_open_sets(struct publisher *p, unsigned number, unsigned port,
                         enum form form, size_t entries, size_t bytes,
                         unsigned sets);

/* The same over any protocol that can publish; `sets` is 1. */
void publisher_open_peer(struct publisher *p, unsigned number, unsigned port,
                         const struct protocol *protocol, enum purpose purpose,
                         enum form form, size_t entries, size_t bytes);
void publisher_close(struct publisher *p);

/* Begins a post; its entries are stamped with `time_ns`. */
void publisher_post(struct publisher *p, uint64_t time_ns);

/* To be called when epoll says anything about p->fd (it may be edge-triggered):
 * true if the post in flight was acknowledged now. A refusal or an end of the
 * connection ends the program. */
bool publisher_on_event(struct publisher *p);

#endif
