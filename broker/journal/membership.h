/*
 * membership.h - one broker of a cluster: its journal, and what a cluster
 * cannot do yet.
 */
#pragma once

#include "broker/config/config.h"

struct membership;
struct journal;
struct log;
struct streams;

/* Checks the options of a broker of a cluster (--cluster). STATUS_INVALID:
 * `why` names the option. */
MUST_CHECK enum status membership_check(const struct config *config,
                                        struct problem *why);

/* Opens the journal, for the log; connects when the log first needs it.
 * `config` is lent until membership_close. */
MUST_CHECK enum status membership_open(struct membership **membership,
                                       const struct config *config,
                                       struct problem *why);
struct journal *membership_journal(struct membership *membership);

/* Makes streams for one thread (broker/cluster/streams.h). The caller closes
 * them, before membership_close. */
struct streams *membership_open_streams(struct membership *membership);

/* Checks, before the broker serves, that it belongs to the cluster: name,
 * public URL, and that an empty copy can begin with the first record.
 * STATUS_OK also if the journal does not answer, or does not agree with the
 * copy: the broker then serves reads. */
MUST_CHECK enum status membership_check_copy(struct membership *membership,
                                             struct log *log,
                                             struct problem *why);

/* Follows other brokers, until membership_stop, which comes before the end of
 * the log. NULL is allowed in both functions that end. */
MUST_CHECK enum status membership_follow(struct membership *membership,
                                         struct log *log, struct problem *why);
void membership_stop(struct membership *membership);
void membership_close(struct membership *membership); /* after the log */
