/*
 * blocking_call.h - calls for which a thread waits: those of a command, and of
 * a broker that fetches a backup before it serves.
 *
 *     call = blocking_run(b, &wish, &answer);    the answer, at the end
 *
 *     call = blocking_begin(b, &wish);           the answer, as it comes
 *     while (blocking_next(b, &piece))
 *         ... piece ...
 *     ... call->failure, call->status ...
 *
 * A caller of its own (caller.h) makes them, one after the other, and reads no
 * more of an answer than was taken. They may go to any address: whoever runs a
 * command names it.
 *
 * All functions: the thread that has opened it.
 */
#pragma once

#include "broker/calls/caller.h"

struct blocking;

struct blocking_options {
    const struct sockaddr_un *unix_socket; /* as of a caller */

    /* Asked each second of a wait: true cuts the call, which has failed then,
     * and all later ones. NULL: never. */
    bool (*is_stopped)(void *user);
    void *user;
};

MUST_CHECK enum status blocking_open(struct blocking **blocking,
                                     const struct blocking_options *options,
                                     struct problem *why);
void blocking_close(struct blocking *blocking); /* NULL allowed */

/* Makes a call like `wish`, and returns it, lent until the next one: its
 * failure, the sentence, the status, the ETag (of CALL_HEAD:
 * last_modified) and is_cut. The body of the
 * answer is appended to `answer`, up to its maximum. */
const struct call *blocking_run(struct blocking *blocking,
                                const struct call *wish, struct buf *answer);

/* The same, with the body of an answer 200 for blocking_next, of which
 * wish->max_taken is the most; that of another answer is call->answer at the
 * end, up to wish->max_answer. */
const struct call *blocking_begin(struct blocking *blocking,
                                  const struct call *wish);

/* Waits for the next piece, lent until the next call of a function. False: the
 * call has ended. */
bool blocking_next(struct blocking *blocking, struct slice *piece);
