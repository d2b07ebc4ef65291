/*
 * broker.h - the roof: opens the floors in order, closes them in reverse.
 */
#ifndef BROKER_BROKER_H
#define BROKER_BROKER_H

#include "broker/config/config.h"
#include "proto/problem.h"
#include "proto/status.h"

struct broker;

/* Opens everything and serves. `config` is lent as long as the broker lives.
 * STATUS_INVALID: the settings do not go together (exit 2). */
MUST_CHECK enum status broker_open(struct broker **broker,
                                   const struct config *config,
                                   struct problem *why);

/* "http://127.0.0.1:8787": where it listens. */
const char *broker_url(const struct broker *broker);

/* Takes over from `next` what can change while the broker runs (config.h,
 * config_compare), and reads the files again that it names. Streams go on. If
 * this fails, all stays as it was. Its bridges, if they are others, become the
 * broker's. The thread that opened. */
MUST_CHECK enum status broker_reload(struct broker *broker, struct config *next,
                                     struct problem *why);

/* Stops accepting, finishes what was begun, says farewell, closes everything;
 * all with a deadline. NULL is allowed. */
void broker_close(struct broker *broker);

/* Do the settings go together? */
MUST_CHECK enum status broker_check(const struct config *config,
                                    struct problem *why);

/* Can the files of TLS and of bridges be used, which the settings name? A
 * broker may be at work with the same settings. */
MUST_CHECK enum status broker_check_files(const struct config *config,
                                          struct problem *why);

/* Would broker_open find what it needs: the address free to listen on, a data
 * directory that nobody uses, databases of this version? Writes nothing. */
MUST_CHECK enum status broker_check_surroundings(const struct config *config,
                                                 struct problem *why);

#endif
