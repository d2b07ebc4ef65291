/*
 * hub_commands.h - each kind of command, and subscriptions as JSON, for
 * operators.
 *
 *   {"id":17,"topic":"http://...","callback":"https://host","kind":"callback",
 *    "simple":false,"state":"active","leaseEnd":"2026-12-01T10:00:00Z",
 *    "position":"9f86d081884c7d65-4710","lag":3,"delivering":true,
 *    "nextTry":"2026-11-20T10:00:07.5Z","deliveries":12,"attempts":14,
 *    "failures":2,"skipped":0,"lastSuccess":"...","lastFailure":"...",
 *    "lastStatus":503,"lastError":"503 Service Unavailable",
 *    "form":"xml","filter":"change=deleted","interval":0.5,"hasSecret":true}
 *
 * The list includes requests that wait for their verification, with "state"
 * "pending", their "mode", and the time "requested"; their position is where
 * the subscription would begin. Unknown members are left out. Secrets never
 * appear (W-166), and of a callback, which is a capability, only scheme and
 * host. Counters and times of deliveries begin with the start of the broker.
 *
 * The delivery thread's.
 */
#pragma once

#include "broker/hub/subscription.h"
#include "broker/hub/verification.h"

struct json_shape;
extern const struct json_shape subscription_shape, subscriptions_shape;

/* The most rows of one page of a list. */
#define REPORT_PAGE 1000

/* Runs a command, by its task. */
void hub_command_run(struct task *task);

/* Appends the first REPORT_PAGE rows of several lists, as one list; the slices
 * move. */
void hub_lists_merge(struct buf *to, struct slice *lists, size_t n);

/* Sets the metric of the largest lag. */
void report_measure(struct hub *hub);
