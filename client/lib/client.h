/*
 * client.h - the handle, as the files of this library see it.
 */
#ifndef CLIENT_LIB_CLIENT_H
#define CLIENT_LIB_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "client/tidings.h"

struct fetcher;

struct td_client {
    /* An eventfd, readable from td_stop until a call has ended by it. All that
     * waits in this library waits for it too, so it is both flag and wake. */
    int stop_fd;
    struct fetcher *fetcher;
    unsigned status; /* of the last answer of this call; 0: none */
    unsigned retry_after_s;
    char problem[1024];
};

/* Begins a public call: no problem yet. */
void client_begin(struct td_client *client);

/* Ends one: a call that returns TD_STOPPED has used up the td_stop. */
enum td_status client_end(struct td_client *client, enum td_status rc);

/* Writes the problem, control characters replaced, and returns `rc`. */
enum td_status client_fail(struct td_client *client, enum td_status rc,
                           const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The file with further certificates to trust, as curl's users name it:
 * CURL_CA_BUNDLE or SSL_CERT_FILE of the environment. NULL: none, the system's
 * are enough. */
const char *client_ca_file(void);

/* Milliseconds since some moment; never goes back. */
int64_t client_now_ms(void);

/* Waits `ms` milliseconds; true as soon as td_stop was called. */
bool client_wait(struct td_client *client, unsigned ms);

#endif
