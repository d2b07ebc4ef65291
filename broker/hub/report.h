/*
 * report.h - subscriptions as JSON, for who operates the hub.
 *
 *   {"id":17,"topic":"http://...","callback":"https://host","kind":"callback",
 *    "simple":false,"state":"active","leaseEnd":"2026-12-01T10:00:00Z",
 *    "position":"9f86d081884c7d65-4710","lag":3,"delivering":true,
 *    "nextTry":"2026-11-20T10:00:07.5Z","deliveries":12,"attempts":14,
 *    "failures":2,"skipped":0,"lastSuccess":"...","lastFailure":"...",
 *    "lastStatus":503,"lastError":"503 Service Unavailable",
 *    "filter":"change=deleted","interval":0.5,"hasSecret":true}
 *
 * A request that waits for its verification is told, too, with "state"
 * "pending", its "mode", and when it was "requested"; its position is where it
 * would begin. What is not known is left out. Never a secret (W-166), and of a
 * callback, which is a capability, scheme and host only. Counters and times of
 * deliveries are those since the start of the broker.
 *
 * The delivery thread's.
 */
#ifndef BROKER_HUB_REPORT_H
#define BROKER_HUB_REPORT_H

#include "broker/hub/subscription.h"
#include "broker/hub/verify.h"
#include "proto/buf.h"

/* In one page of a list. */
#define REPORT_PAGE 1000

void report_subscription(struct buf *to, const struct subscription *s);
void report_request(struct buf *to, const struct request *request);

/* Makes the metric of the largest lag what it is now. */
void report_measure(struct hub *hub);

/* Those of a set, or relay, with ids above `after`: {"subscriptions":[...]},
 * and, where there are more, "next", the id to go on after. */
void report_list(struct buf *to, struct hub *hub, const char *name,
                 bool is_relay, uint64_t after);

/* The same for one callback: for whoever knows its URL. */
void report_callback(struct buf *to, struct hub *hub, const char *name,
                     bool is_relay, struct slice callback);

#endif
