/*
 * crowd_inside.h - what crowd.c (who joins, who reads) and crowd_messages.c
 * (what they get) share. For these two only.
 */
#ifndef TESTS_SUPPORT_CROWD_INSIDE_H
#define TESTS_SUPPORT_CROWD_INSIDE_H

#include <openssl/ssl.h>

#include "proto/buf.h"
#include "tests/support/crowd.h"

/* The head of a message, before its entries, and what is after them. */
#define HEAD_MAX   2048
#define FOOTER_MAX 16

#define NO_OFFSET SIZE_MAX

/* The entries of a form. */
struct text {
    struct buf bytes;
    size_t *ends; /* of entry seq; NO_OFFSET: not known */
};

enum phase {
    AT_ANSWER, /* of the handshake, or the head */
    AT_FRAME,  /* its header, or a chunk's */
    AT_PAYLOAD,
    AT_END /* of a chunk */
};

struct member {
    int fd;
    SSL *ssl; /* NULL: plain */
    enum notice_form form;
    bool is_events;
    bool is_reading;
    bool is_greeted;
    char byte; /* the last of the event at hand */
    enum phase phase;

    unsigned char frame[10]; /* header of the frame at hand */
    size_t frame_size;
    uint64_t payload_left;

    bool is_in_entries; /* of the message at hand */
    char head[HEAD_MAX];
    size_t head_size;
    char held[FOOTER_MAX]; /* may be the footer */
    size_t held_size;
    uint64_t message_last;

    uint64_t last;
    size_t at; /* in the text of its form */
};

struct crowd {
    int epoll;
    SSL_CTX *tls; /* NULL: plain */
    size_t n, max;
    struct member *members;
    uint64_t entries_max;
    struct text texts[2];
    char (*digests)[NOTICE_DIGEST_SIZE];
    size_t n_reading, n_there; /* who read; and have all that is waited for */
    uint64_t awaited;
};

/* What a subscriber of that form asks for. */
const char *crowd_subprotocol(enum notice_form form);

/* Has it all that is waited for? */
bool crowd_is_there(const struct crowd *c, const struct member *m);

/* It has got these bytes, however they are cut: checks them, and keeps
 * c->n_there. */
void crowd_take(struct crowd *c, struct member *m, const char *bytes,
                size_t size);

#endif
