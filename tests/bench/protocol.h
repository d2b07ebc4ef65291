/*
 * protocol.h - the bytes that publishers and subscribers exchange with a
 * server.
 *
 * The address that a server prints names its protocol:
 * "redis://127.0.0.1:7010/". Every protocol answers in order, so a publisher
 * sends a post and counts answers. Entries carry their number and time
 * (publisher.h), so a subscriber counts them without parsing what is around
 * them.
 */
#ifndef TESTS_BENCH_PROTOCOL_H
#define TESTS_BENCH_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* The purpose of a publisher: the server keeps each entry as a record of its
 * own, or sends each post to its subscribers as one message. Over HTTP a post
 * is the same for both. */
enum purpose { PURPOSE_SEND, PURPOSE_KEEP };

/* A post; all of it is lent. */
struct post {
    enum purpose purpose;
    unsigned number; /* of the publisher */
    unsigned port;
    const char *path; /* HTTP */
    const char *type; /* HTTP: the media type */
    const char *body; /* all entries, with the text around them */
    size_t body_size;
    const char *entry; /* one of them: they are alike */
    size_t entry_size;
    size_t entries;
};

struct protocol {
    const char *scheme;

    /* Writes the first bytes of a publisher's connection; returns the number of
     * answers to wait for. NULL: a connection begins with a post. */
    unsigned (*greet)(FILE *to, const struct post *post);

    /* Writes a post; returns the number of its answers. NULL: the server does
     * not publish. */
    size_t (*put_post)(FILE *to, const struct post *post);

    /* The size of the first answer in `data`, 0: it is not whole. `data` ends
     * with a '\0' that is not counted in `size`. *is_counted is set to false if
     * nobody waits for it. A refusal ends the program. */
    size_t (*answer)(const char *data, size_t size, bool *is_counted);

    /* Writes the first bytes of a subscriber's connection; returns the number
     * of answers, after which messages follow. NULL: subscribers are
     * WebSockets, or there are none. */
    unsigned (*subscribe)(FILE *to);
};

/* The protocol of a scheme; ends the program if there is none. */
const struct protocol *protocol_of(const char *scheme);

#endif
