/*
 * broker.h - the whole broker: opens its parts in order, closes them in
 * reverse.
 */
#pragma once

#include "broker/config/config.h"

struct broker;
struct thread;
struct watched_files;

/* Opens everything and serves. `config` is lent until broker_close.
 * STATUS_INVALID: some settings contradict each other (exit 2). */
MUST_CHECK enum status broker_open(struct broker **broker,
                                   const struct config *config,
                                   struct problem *why);

/* The URL where it listens: "http://127.0.0.1:8787". */
const char *broker_url(const struct broker *broker);

/* Takes over the settings of `next` that can change while the broker runs
 * (config.h, config_compare), and reads again the files that it names. Streams
 * go on. A failure changes nothing. If the bridges of `next` differ, the broker
 * takes them over. Only the thread that opened may call this. */
MUST_CHECK enum status broker_reload(struct broker *broker, struct config *next,
                                     struct problem *why);

/* Shows the present options to GET /config, after config_take_live. */
void broker_report_config(struct broker *broker);

/* Opens the file of the access log again: it may have been renamed. */
MUST_CHECK enum status broker_reopen_log(struct broker *broker,
                                         struct problem *why);

/* The files that the settings name. The thread that opened turns them while it
 * waits, and looks at them (watched_files_look) when settings have changed. */
struct watched_files *broker_files(struct broker *broker);

/* Of the service threads and the log thread, the one that has been silent for
 * the longest time (thread.h). Only the thread that opened may call this. */
const struct thread *broker_most_silent(const struct broker *broker);

/* True if its copy follows its cluster no more: it needs another one. */
bool broker_needs_copy(const struct broker *broker);

/* Stops accepting, finishes requests in flight, says farewell, and closes
 * everything; all with a deadline. NULL is allowed. */
void broker_close(struct broker *broker);

/* Checks that the settings do not contradict each other. */
MUST_CHECK enum status broker_check(const struct config *config,
                                    struct problem *why);

/* Checks that the files of TLS and of bridges in the settings can be used. A
 * broker may run with the same settings. */
MUST_CHECK enum status broker_check_files(const struct config *config,
                                          struct problem *why);

/* Checks that broker_open would succeed: that the address is free, the data
 * directory not in use, and the databases are of this version. Writes
 * nothing. */
MUST_CHECK enum status broker_check_surroundings(const struct config *config,
                                                 struct problem *why);
