/*
 * membership.h - one broker of a cluster: its journal, and what a cluster
 * cannot do yet.
 */
#pragma once

#include "broker/config/config.h"
#include "broker/journal/pg_journal.h"
#include "broker/journal/pg_streams.h"

/* Follow other brokers with pg_journal_follow; pg_streams_open(&options) makes
 * streams for one thread. */
struct membership {
    const struct config *config; /* lent until membership_close */
    struct pg_options options;
    char instance[PG_INSTANCE_SIZE + 1];
    struct journal *journal;
};

/* Checks the options of a broker of a cluster (--cluster). STATUS_INVALID:
 * `why` names the option. */
MUST_CHECK enum status membership_check(const struct config *config,
                                        struct problem *why);

/* Opens the journal, for the log; connects when the log first needs it. */
MUST_CHECK enum status membership_open(struct membership **membership,
                                       const struct config *config,
                                       struct problem *why);

/* Checks, before the broker serves, that it belongs to the cluster: name,
 * public URL, and that an empty copy can begin with the first record.
 * STATUS_OK also if the journal does not answer, or does not agree with the
 * copy: the broker then serves reads. */
MUST_CHECK enum status membership_check_copy(struct membership *membership,
                                             struct log *log,
                                             struct problem *why);

/* After the log. NULL is allowed. */
void membership_close(struct membership *membership);
