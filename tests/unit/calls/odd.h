/*
 * odd.h - a server as callbacks may be: it answers, hangs, trickles, has no
 * end, or speaks no HTTP at all. The path says which (odd_answers).
 *
 *     /status/NNN     that status, and a body "hi"
 *     /wait           hangs until odd_pass, then 204
 *     /forged         an answer, and another one after odd_pass, unasked
 *     /wide           "0123", in chunks with long extensions
 *     /to?URL         redirects there, 302
 *     /long?N         N bytes, odd_byte each; /long-chunked?N, /long-closed?N
 *     /paced?N        the same, one every 5 ms
 *     /gzip?N         the same, coded as a whole; /deflate?N, /gzip-chunked?N,
 *                     /br?N (which says so alone)
 *
 * It listens at every address of the machine: 127.0.0.2 is another host. One
 * thread per connection; it trickles by the clock of the test.
 */
#ifndef TESTS_UNIT_CALLS_ODD_H
#define TESTS_UNIT_CALLS_ODD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ODD_CONNECTIONS_MAX 512
#define ODD_REQUEST_MAX     (2 * 1024 * 1024)
#define ODD_PACE_US         5000 /* of what trickles */

struct odd {
    int fd;
    unsigned port;
    pthread_t acceptor;
    pthread_mutex_t mutex;
    pthread_cond_t changed;

    struct odd_connection {
        struct odd *odd;
        pthread_t thread;
        int fd;
        char *request;
    } connections[ODD_CONNECTIONS_MAX];

    unsigned n_connections;
    unsigned n_requests;
    unsigned n_waiting;    /* at /wait */
    unsigned most_waiting; /* at once */
    unsigned n_passes;     /* that odd_pass still lets through */
    unsigned n_forged;     /* answers that nobody asked for */
    unsigned n_left;       /* connections that the other side has closed */
    bool is_ending;
    char last[ODD_REQUEST_MAX]; /* request, head and body */
};

void odd_open(struct odd *o);

void odd_close(struct odd *o);

/* Lets `n` of those through who are at /wait, or come there. */
void odd_pass(struct odd *o, unsigned n);

/* Waits until a counter is `least` or more. */
unsigned odd_await_least(struct odd *o, const unsigned *counter,
                         unsigned least);

/* Waits until a counter that grows has a value. */
void odd_await(struct odd *o, const unsigned *counter, unsigned wanted);

/* A counter as it stands. */
unsigned odd_count(struct odd *o, const unsigned *counter);

/* The i-th byte of a long answer. */
static inline char
odd_byte(uint64_t i)
{
    return (char)('a' + i % 23);
}

/* Was `text` part of the last request? */
bool odd_was_sent(struct odd *o, const char *text);

#endif
