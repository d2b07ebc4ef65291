/*
 * cluster_report.h - what a broker knows of its cluster: the answer to
 * GET /cluster.
 *
 * The follower of the journal reads the rows of all brokers with each of its
 * reports, once a second. So no request waits for PostgreSQL, and a broker that
 * is cut off still names the brokers of its last reading.
 */
#pragma once

#include <pthread.h>

#include "broker/journal/pg_cluster.h"
#include "proto/json_shape.h"

struct log_copy;

/* Begins with its mutex initialized, and ends with buf_fini of the text. */
struct cluster_report {
    pthread_mutex_t mutex; /* guards the text */
    struct buf text; /* members of the JSON; empty: nothing was read yet */
    uint64_t first;  /* the follower's; the journal has forgotten records
                        before it */
};

/* Reads the rows anew, for the follower. The former ones stay if it fails. */
MUST_CHECK enum status cluster_report_read(struct cluster_report *report,
                                           struct pg_connection *c,
                                           struct problem *why);

/* Appends the answer of the broker `name`, with the state of its copy. Any
 * thread. */
void cluster_report_write(struct cluster_report *report, const char *name,
                          const struct log_copy *copy, struct buf *to);

/* Room for it: a thousand brokers. */
#define CLUSTER_TEXT_MAX ((size_t)1 << 18)

/* The members of that JSON. */
extern const struct json_shape cluster_shape, cluster_broker_shape;
