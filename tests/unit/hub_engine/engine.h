/*
 * engine.h - for tests of the delivery engine: real topics, bodies and
 * deliveries on a real log; the caller is quiet.h, and the other parts of the
 * hub that the engine knows - hub.db, relays, the end of a subscription - are
 * in engine.c. Events happen only in turns(), finish() and pass(), so a test
 * can look at every state.
 *
 *     FIXTURE(engine_setup, engine_teardown);
 *
 *     subscribe -> post -> turns: calls get their turn, ranges are kept, ready
 *     deliveries are `sent` -> finish(status) -> ...
 */
#ifndef TESTS_UNIT_HUB_ENGINE_H
#define TESTS_UNIT_HUB_ENGINE_H

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "broker/hub/delivery.h"
#include "broker/hub/hub_rows.h"
#include "broker/hub/hub_state.h"
#include "broker/sources/foreign_topic.h"
#include "tests/support/sets.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"
#include "tests/unit/hub_quiet/quiet.h"

#define SECOND   ((int64_t)1000000)
#define SENT_MAX 4096

/* A delivery that went out. */
struct sent {
    struct subscription *s;
    struct call *call;
    char headers[4096]; /* one a line */
    struct buf body;
    const char *data; /* the engine's own: shows who shares it */
    bool is_suspect;
};

/* A range as hub.db has it. */
struct kept_range {
    uint64_t id, after, last;
};

struct engine {
    struct sets sets;
    struct hub hub;

    struct kept_range written[SENT_MAX], kept[SENT_MAX];
    size_t n_written, n_kept;
    bool disk_is_full;
    unsigned n_posted; /* to "demo", by post() */

    struct sent *sent;
    size_t n_sent;
    uint64_t last_id;
    unsigned n_ended;
    enum subscription_end how;

    struct foreign_topic foreign;
    const char *documents[8];
};

extern struct engine e;

/* As subscription_end does it. */
void end_subscription(struct subscription *s, enum subscription_end how);

/* engine_setup opens `e`. After engine_configure a test changes the options,
 * and calls engine_start(). After engine_stop() it may be started again on its
 * files. */
int engine_setup(void **state);
int engine_configure(void **state);
int engine_teardown(void **state);
void engine_start(void);
void engine_stop(void);

/* Posts the next `n` entries of the set "demo". */
void post(unsigned n);
void post_heavy(unsigned n, size_t weight);

/* Turns of the loop, until there is nothing more to do. */
void turns(void);

/* Does the waiting reads from the disk, and makes turns. */
void run_jobs(void);

/* Lets time pass; alarms that are due ring, in turns. */
void pass(int64_t us);

/* When the next alarm rings, from now. */
int64_t next_alarm(void);

/* Subscriptions */

struct topic *topic_for(enum topic_kind kind, const char *name);

/* A subscription that has not begun. */
struct subscription *subscription_at(struct topic *topic, const char *callback,
                                     uint64_t after);

/* The same to the changes of "demo", for http://receiver.example`path`. */
struct subscription *new_subscription(const char *path, uint64_t after);

/* One of these that has begun; `path` may have a %u for `nth`. */
struct subscription *subscribe(const char *path, uint64_t after);
struct subscription *subscribe_nth(const char *path, unsigned nth,
                                   uint64_t after);

/* Posts `n` entries and returns a subscription whose first delivery has them,
 * and is under way. */
struct subscription *first_delivery(unsigned n);
void set_filter(struct subscription *s, const char *text);

/* Answers its delivery under way; then turns. */
bool is_under_way(const struct subscription *s);
void finish(const struct subscription *s, unsigned status);
void finish_after(const struct subscription *s, unsigned status,
                  int64_t retry_us);
void break_off(const struct subscription *s, enum call_failure failure,
               const char *why);

/* Sent deliveries */

const struct sent *last_sent(void);

/* The value of a header; "": none. In a buffer of its own until the next but
 * three. */
const char *header(const struct sent *sent, const char *name);

/* Its Tidings-Delivery. */
const char *delivery_id(const struct sent *sent);

void assert_same_body(const struct sent *a, const struct sent *b);

/* It covers (after, last]. */
void assert_sent(const struct sent *sent, uint64_t after, uint64_t last);

/* The range was kept before it went out. */
void assert_kept(const struct subscription *s, uint64_t after, uint64_t last);

#endif
