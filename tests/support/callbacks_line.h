/*
 * callbacks_line.h - a connection of callbacks, on their thread.
 *
 *     HEAD --> BODY ----+--> (WAIT) --> ANSWER --> HEAD ...
 *          \-> SLOW ----+          \--> TRICKLE -> HEAD
 *                                  \--> ENDLESS
 *                                  \--> HANG        until the peer goes
 */
#ifndef TESTS_SUPPORT_CALLBACKS_LINE_H
#define TESTS_SUPPORT_CALLBACKS_LINE_H

#include "tests/support/callbacks_inside.h"

enum line_state {
    LINE_HEAD,
    LINE_BODY,
    LINE_SLOW,
    LINE_WAIT,
    LINE_ANSWER,
    LINE_TRICKLE,
    LINE_ENDLESS,
    LINE_HANG
};

/* One connection. */
struct line {
    struct callbacks *c;
    struct line *next, *prev;
    int fd;
    unsigned number;
    uint32_t events; /* that epoll looks for */
    enum line_state state;
    struct buf in; /* a head that is not whole, or what follows a request */
    struct buf body;
    size_t body_size;
    struct buf out;
    size_t out_at;
    bool ends; /* after this answer */
    int64_t next_us;
    struct meeting m;
    char *head, *method, *target; /* of the request at hand */
};

/* Adds it to c->lines. */
void line_begin(struct callbacks *c, int fd);
void line_end(struct line *l, bool is_reset);

/* These may end it. */

/* epoll has told that. */
void line_serve(struct line *l, uint32_t events);

/* Something was released. */
void line_wake(struct line *l);

/* false: time means nothing to it. */
bool line_tick(struct line *l, int64_t now_us);

#endif
