/*
 * command.h - a request to the hub: from a service thread to the delivery
 * thread and back.
 *
 * The maker of a command fills in the members that its kind needs, and copies
 * texts into the command's memory (command_keep). command_read_form makes every
 * check that needs no state of the hub, so a flood of bad requests costs the
 * delivery thread nothing.
 */
#pragma once

#include "base/loop.h"
#include "broker/access/principal.h"
#include "broker/base/client_limits.h"
#include "broker/readers/message.h"
#include "proto/http/websub.h"
#include "proto/resourcesync/change_filter.h"

enum command_kind {
    COMMAND_SUBSCRIBE, /* a form at /hub, mode subscribe or unsubscribe; or a
                        simple subscription, is_simple */
    COMMAND_PUBLISH,   /* a form at /hub, mode publish: W-121 */
    COMMAND_NOTIFY,    /* a notification posted to /hub: R-293 */
    COMMAND_LIST,      /* subscriptions of a set or relay, as JSON */
    COMMAND_SHOW,      /* one of them */
    COMMAND_END,       /* ends one */
    COMMAND_REDELIVER, /* moves one's cursor */
    COMMAND_RELAY_PUT, /* makes or changes a relay */
    COMMAND_RELAY_SHOW,
    COMMAND_RELAY_LIST, /* all relays */
    COMMAND_RELAY_REMOVE,
    COMMAND_KEYS,        /* the hub's public keys */
    COMMAND_KEYS_ROTATE, /* makes a new one */
    COMMAND_ATTEMPTS,    /* the last attempts of a subscription, as JSON */
    COMMAND_AGAIN,       /* sends one of its deliveries again, the `key` */
    COMMAND_TEST,        /* sends it a test */
    COMMAND_KINDS
};

/* Commands of a turn, by command->task.node: */
struct command_answers {
    struct list kept;    /* answered by its commit */
    struct list reports; /* answered by its end */
};

struct command {
    struct task task;                /* the hub's */
    struct hub *hub;                 /* likewise, set by hub_submit, */
    struct command_answers *answers; /* and this, of the hub */
    enum command_kind kind;
    int part; /* of a cluster's hub; its owner runs it. -1: not found yet */
    unsigned n_asked; /* likewise: answers of other brokers that it waits for */
    struct principal
        *principal; /* of the request, a reference; NULL: the broker */
    struct authority
        *authority; /* likewise; asked when the command takes effect */

    /* Name of the set or relay. */
    char name[SET_NAME_MAX + 1];
    bool is_relay;

    /* COMMAND_SUBSCRIBE: lends from `form`, or from `memory`. */
    struct urlencoded_data form;
    struct slice form_text;        /* all of it, as it was posted; also of a
                                      COMMAND_PUBLISH; lent */
    struct websub_request request; /* COMMAND_LIST uses only its callback, which
                                      may be empty */
    struct filter filter;
    bool has_after;
    struct slice after; /* a position, not checked yet; also of
                           COMMAND_REDELIVER */
    int64_t interval_us;
    enum message_form message_form;
    bool wants_v1a;
    bool is_local;  /* a client of this machine asked an open broker */
    bool is_simple; /* by POST /sets/{set}/subscribe: R-350 */
    char from[CLIENT_NAME_SIZE]; /* the requester (W-164) */

    uint64_t id; /* a subscription; COMMAND_LIST: the list begins behind it.
                    _KEYS_ROTATE: the grace of the former key, in seconds */

    /* COMMAND_NOTIFY, COMMAND_RELAY_PUT */
    struct buf body;
    struct slice content_type; /* unchanged */
    struct slice links;        /* all Link headers, joined */
    struct slice key;          /* Idempotency-Key; or empty. COMMAND_AGAIN: a
                                  Tidings-Delivery */

    struct buf memory; /* for the texts of the slices above: command_keep */

    /* The outcome, set before `done`. The delivery thread (or the log's) calls
     * `done`, and gives the command back. */
    enum status status;
    unsigned http; /* status of the answer, also of a success */
    struct problem why;
    struct buf text; /* JSON, for some kinds */
    void (*done)(struct command *command);
    void *user;
};

/* Makes a command, zero except its kind, with room for `max` bytes of text.
 * NULL: no memory. */
struct command *command_new(enum command_kind kind, size_t max);
void command_free(struct command *command); /* NULL is allowed */

/* Copies text into the command's memory, which never moves, so earlier slices
 * stay valid. Size 0 and failed memory if there is no room. */
struct slice command_keep(struct command *command, struct slice text);

/* Reads a form posted to /hub: sets kind, request, and the optional parameters
 * of a subscription: filter (change= prefix= type= tag=), after=, interval=
 * (seconds, up to a day, fractions allowed), form= (message_form_of),
 * signature=v1a. Errors are those of websub_read and filter_read; the answer to
 * each is text/plain (W-032). */
MUST_CHECK enum status command_read_form(struct command *command,
                                         struct slice body,
                                         struct problem *why);

/* Reads a form posted to /sets/{set}/subscribe: callbackURI= instead of hub.*
 * at most once. `name` is set. */
MUST_CHECK enum status command_read_simple(struct command *command,
                                           struct slice body,
                                           struct problem *why);

/* True if its answer waits for that of a callback. */
static inline bool
command_calls(const struct command *command)
{
    return command->kind == COMMAND_TEST || command->kind == COMMAND_AGAIN;
}

/* For the hub */

/* Checks that the principal has the right to the set or relay `name`.
 * STATUS_FORBIDDEN. */
MUST_CHECK enum status command_allow(const struct command *command,
                                     enum right right, struct slice name,
                                     struct problem *why);

/* Answers a refused command now, with command->why; else with `http`, when the
 * commit of this turn succeeds; if it fails, with 503 instead of the outcome.
 */
void command_end(struct command *command, enum status status, unsigned http);

/* Answers 200 with the report in command->text at the end of the turn, whether
 * its commit succeeds or not; a refused command now. */
void command_report(struct command *command, enum status status);

/* Answers the command now. Status of the answer to a failure: command->http if
 * it is one of failures, else that of `status`. */
void command_answer_now(struct command *command, enum status status,
                        const struct problem *why);
