/*
 * attempt_log.h - the last attempts of each subscription, for people who ask
 * why a callback got nothing.
 *
 *     delivery, single_delivery --attempt_log_add--> rows, the oldest first
 *                                                    | more than ATTEMPTS_MAX,
 *                                                    v or too many bytes in all
 *                                                  dropped
 *
 *   {"time":"2026-11-20T10:00:00.25Z","kind":"delivery",
 *    "delivery":"9f86d081884c7d65-17-4710-4723","first":4711,"last":4723,
 *    "entries":13,"try":2,"outcome":"failed","status":503,"ms":12,
 *    "answer":"<h1>Down for maintenance</h1>","nextTry":"2026-11-20T10:00:02Z"}
 *
 * The logs are in memory: a row of hub.db would cost each delivery a write. So
 * they begin with the start of the hub, and `since` says from when on a log
 * lacks nothing. A row has some 100 bytes and the beginning of the answer.
 *
 * All logs together have ATTEMPT_LOGS_BYTES. Beyond that the log with the most
 * rows loses its oldest one. So a subscription with few attempts keeps them,
 * however many others fail: with 100,000 subscriptions each keeps five.
 *
 * Answers come from strangers: a row has the text with U+FFFD for each control
 * character and each byte that is no UTF-8.
 *
 * The delivery thread's.
 */
#pragma once

#include "broker/calls/caller.h"

struct hub;
struct json_shape;
struct subscription;

#define ATTEMPTS_MAX       50
#define ATTEMPT_LOGS_BYTES ((size_t)64 << 20)

/* Bytes of an answer that a row keeps. */
#define ATTEMPT_ANSWER_KEPT 200

/* Which delivery it is; see delivery.c for the text of it. */
struct delivery_name {
    uint64_t after, last; /* its entries; `last` 0: not known yet */
    uint32_t form;        /* attempt_form */
    uint32_t generation;  /* of the subscription */
    int64_t single_us;    /* of a single delivery: a time of its own; else 0 */
};

#define DELIVERY_ID_SIZE 128

/* Writes its Tidings-Delivery, terminated. */
void delivery_name_write(char to[DELIVERY_ID_SIZE],
                         const struct subscription *s,
                         const struct delivery_name *name);

enum attempt_kind { ATTEMPT_DELIVERY, ATTEMPT_AGAIN, ATTEMPT_TEST };

enum attempt_outcome {
    ATTEMPT_DELIVERED,
    ATTEMPT_FAILED,
    ATTEMPT_SKIPPED, /* failed, and the hub gave the delivery up */
    ATTEMPT_ENDED    /* 410: the subscription is over */
};

struct attempt_row {
    struct list node; /* log->rows */
    struct delivery_name name;
    int64_t at_us;   /* wall clock: when its turn came */
    int64_t next_us; /* wall clock; 0: there is no next try */
    uint32_t n_entries;
    uint32_t took_ms;
    uint32_t tries;  /* of the delivery, with this one */
    uint16_t status; /* HTTP; 0: no answer */
    uint16_t size;
    uint8_t kind, outcome;
    bool is_cut;
    char text[]; /* of the answer; without one the reason */
};

/* Of a subscription. */
struct attempt_log {
    struct list node; /* among those with as many rows, if it has some */
    struct list rows; /* the oldest first */
    unsigned n;
    bool is_cut; /* rows were dropped */
};

/* All of them; struct hub has one. */
struct attempt_logs {
    struct list with[ATTEMPTS_MAX + 1]; /* by the number of rows; in each, the
                                           log that was added to first */
    size_t bytes, max_bytes;
    int64_t since_us; /* wall clock: the hub's start */
};

void attempt_logs_open(struct attempt_logs *all);

/* Adds an attempt: what `row` says, but for the time and the answer, which are
 * those of the call. A callback that has never confirmed, and another hub, may
 * be any address that a client has named: of their answers no text is kept, so
 * that nobody reads by the broker what it can reach. */
void attempt_log_add(struct subscription *s, const struct attempt_row *row,
                     const struct call *call);

/* Frees the rows of a subscription. */
void attempt_log_free(struct subscription *s);

/* The newest attempt of the delivery that is called so; NULL: none. */
const struct attempt_row *attempt_log_find(const struct subscription *s,
                                           struct slice delivery);

extern const struct json_shape attempt_shape, attempts_shape;

/* Appends an attempt as JSON, or all of a subscription, the newest first:
 * {"subscription":17,"since":"...","attempts":[...]}. */
void attempt_row_report(struct buf *to, const struct subscription *s,
                        const struct attempt_row *row);
void attempt_log_report(struct buf *to, const struct subscription *s);
