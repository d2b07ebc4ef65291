/*
 * deferral.h - a request whose act takes more than its handler: its body comes
 * first, and another thread carries it out: the log's, the archive's, the
 * hub's, or a worker's.
 *
 *     deferral_new --> deferral_receive --> take --> next --> deferral_begin
 *                              |             ^        | |           |
 *                              |             |    step, on a    begin, work
 *                              |             +---- worker           |
 *       refused, or gone <-----+------------------------+           |
 *             | discard, on a worker                                v
 *             v                                               deferral_end
 *           freed <------- answer, on the service thread <----------+
 *
 * The request owns a deferral that receives its body: if the connection breaks,
 * the deferral is freed without effect, unless the body is whole. From
 * deferral_begin on the act owns it. Both go on without the connection, but
 * long work, which only makes an answer (effort.h).
 *
 * All functions run on the service thread of the request, but `step`, `discard`
 * and `work` on a worker, and deferral_end anywhere. While a worker takes a
 * step, `take` must not touch what the step uses.
 */
#pragma once

#include "broker/base/authority.h"
#include "broker/base/client_limits.h"
#include "broker/base/effort.h"
#include "broker/http/routes.h"
#include "broker/net/request.h"

struct deferral;

enum deferral_next {
    DEFERRAL_READS,  /* more of the body must come */
    DEFERRAL_STEPS,  /* `step`, then `next` again */
    DEFERRAL_ENDS,   /* the last step (is_last), then deferral_begin */
    DEFERRAL_BEGINS, /* deferral_begin */
    DEFERRAL_FAILS   /* `why` is the refusal */
};

struct deferral_kind {
    /* Reads bytes of the body as they come. NULL: collects them in `body`. */
    enum status (*take)(struct deferral *d, struct slice bytes,
                        struct problem *why);

    /* Chooses what comes next: after new bytes, the end of the body, or a step.
     * Not while a step is at work. NULL: the body, then deferral_begin. */
    enum deferral_next (*next)(struct deferral *d, struct problem *why);

    /* Does a part of the work, on a worker, while the body arrives. */
    enum status (*step)(struct deferral *d, struct problem *why);

    /* Takes the steps back, on a worker, before a refusal is answered: the
     * client may begin again at once. NULL: there is nothing to do. */
    void (*discard)(struct deferral *d);

    /* Hands the act to its thread, which calls deferral_end. A failure refuses
     * the request, and frees the deferral. NULL: a worker runs `work`. */
    enum status (*begin)(struct deferral *d, struct problem *why);

    /* Carries out the act, on a worker. A failure is the answer; STATUS_AGAIN
     * of long work: it goes on in its next turn. */
    enum status (*work)(struct deferral *d, struct problem *why);

    /* Gives back the owner's holdings, before the answer (client_limits.h).
     * NULL: it has none. */
    void (*give_back)(struct deferral *d);

    /* Answers an act that has not failed, unless the request has ended. */
    void (*answer)(struct deferral *d, struct request *rq);

    /* Frees what the deferral holds; NULL: nothing. */
    void (*fini)(struct deferral *d);

    size_t body_max;     /* the most bytes in `body` at once; 0: all of it */
    unsigned rejected;   /* enum metric of refusals, by status; 0: none */
    unsigned incomplete; /* enum metric of bodies that ended early; 0: none */
};

/* The first member of a struct of its owner. */
struct deferral {
    const struct deferral_kind *kind;
    struct http *http;
    struct principal *principal; /* of the request: a reference */
    struct authority *authority; /* likewise, from deferral_begin on; or NULL */
    struct buf body;             /* of the request */
    struct buf text;             /* of the answer, for the owner */
    struct holding holding;      /* memory, counted as of posts */
    struct request *rq; /* until `begin` has returned; NULL: it has ended */

    /* Long work (`most` is not 0: by the route's row, or set by the owner)
     * takes turns, and ends with the request. */
    struct effort effort;
    bool is_whole; /* the body has arrived */
    bool is_last;  /* DEFERRAL_ENDS was chosen */
    bool is_out;   /* a job is at work */

    /* The body may be long: its memory counts as it grows. Else it is small,
     * and may hold a secret, as `text` may: both are wiped. Set by the
     * owner. */
    bool is_counted;

    /* Only the act asks the authority, at its effect: net no longer ends the
     * request with it (request_take_authority). Set by the owner. */
    bool decides;

    /* For deferral.c only. */
    bool is_begun;      /* the act owns it */
    bool is_paused;     /* it wants another turn */
    bool is_over;       /* refused, or gone */
    bool is_discarding; /* the job at work is kind->discard */
    struct problem *refusal;
    struct problem *failure; /* of a step, or of the act */
    struct ticket ticket;
    struct task task;
    struct job job;
};

/* Makes one, `size` bytes of its owner's struct, zero behind the deferral. */
void *deferral_new(const struct route_call *call,
                   const struct deferral_kind *kind, size_t size);

/* Gives back its memory, and frees it. */
void deferral_free(struct deferral *d);

/* Receives the body, then begins the act. If its owner could not prepare it
 * (`rc`), frees it instead. Returns `rc`, for the router. In on_request. */
MUST_CHECK enum status deferral_receive(struct deferral *d,
                                        const struct route_call *call,
                                        enum status rc);

/* Begins the act: the handler of a request without a body calls it. */
void deferral_begin(struct deferral *d, struct request *rq);

/* Lets the service thread answer: the act is done, or has failed with `rc`,
 * which is the answer, and counts as a refusal. Any thread. */
void deferral_end(struct deferral *d, enum status rc,
                  const struct problem *why);
