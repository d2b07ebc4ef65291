/*
 * client.h - the handle, as the files of this library see it.
 */
#pragma once

#include "base/map.h"
#include "client/lib/address_policy.h"
#include "client/lib/host_places.h"
#include "client/lib/servers.h"
#include "client/lib/source_limits.h"
#include "client/lib/transport_choice.h"
#include "client/tidings.h"
#include "proto/input/list_report.h"

struct curl_loop;
struct lws_loop;
struct trust;

struct td_client {
    /* An eventfd, readable from td_stop until it has ended a call: both flag
     * and wake. */
    int stop_fd;
    struct handle_loop *loop;
    struct curl_loop *web;     /* fetch.c's: connections, exchanges under way */
    struct lws_loop *sockets;  /* WebSockets; NULL: there was none yet */
    struct host_places places; /* of those exchanges at their hosts */
    struct servers servers;    /* tokens, headers and certificates of each */
    struct address_policy reach; /* addresses that sources may name */

    struct transport_hosts transports; /* that hosts carry, as was found */

    /* URLs of sets that a source has named, as td_sets reports them. If the
     * program hands one in later, that does not count as named by the program.
     */
    struct text_set found;
    struct text_set accepts;   /* marks of td_accept_history */
    bool is_catching_up;       /* a follower reads closed lists: one at a time,
                                  because of the memory */
    struct running *running;   /* followers, publishers ...; newest first */
    bool is_idle;              /* there are none: ends td_run */
    struct source_limits room; /* td_limit */
    bool reads_all;            /* td_full_audits */
    void (*on_progress)(const struct td_progress *p, void *user); /* or NULL */
    void *progress_user;
    struct trust *trust;   /* td_trust; NULL: no key is known */
    unsigned key_lag_ms;   /* td_key_lag; 0: changes wait for a signed tree */
    bool checks;           /* td_keep_checkpoints; the files: */
    char *checkpoint_path; /* they begin so; or NULL */
    char *checkpoint_kept; /* td_on_checkpoint; or NULL */
    td_checkpoint_fn *on_checkpoint; /* or NULL */
    void *checkpoint_user;
    struct td_checkpoint checkpoint; /* td_checkpoint; origin "": none */
    struct problem problem;          /* of the last public call */
};

/* What the public interface calls a status. STATUS_INVALID is an argument of
 * the program's: bytes of a server that are not acceptable are
 * STATUS_MALFORMED. */
enum td_status td_status_of(enum status rc);

/* Begins a public call: no problem yet. */
void client_begin(struct td_client *client);

/* The program has named a source by this URL: what the source names is judged
 * by where it is (address_policy.h). NULL, or no URL: nothing. STATUS_MEMORY:
 * the problem says so. */
enum status client_add_source(struct td_client *client, const char *url);

/* Reports progress (td_on_progress). */
void client_progress(struct td_client *client, enum td_progress_what what,
                     uint64_t done, uint64_t all);

/* Calls `on_report`, which may be NULL, if something was mended or left out. */
void client_report(const struct list_report *report,
                   void (*on_report)(const struct td_report *report,
                                     void *user),
                   void *user);

/* Ends one, and returns what the public interface calls `rc`: a call that
 * returns TD_STOPPED has used up the td_stop. */
enum td_status client_end(struct td_client *client, enum status rc);

/* Returns `rc`, which a turn of the loop returned, and writes why it did not
 * turn (handle_loop_service). */
enum status client_end_turn(struct td_client *client, enum status rc);

/* Writes the problem of the handle, and returns `rc` (problem). */
#define client_fail(client, rc, ...) \
    problem(&(client)->problem, (rc), __VA_ARGS__)

/* The same, of what failed on the loop. */
enum status client_take_problem(struct td_client *client,
                                const struct problem *failure);

/* An object of a handle from opening to closing: part of a follower, a
 * publisher
 * ... td_run returns when all of them are idle; td_close closes the rest, the
 * newest first. */
struct running {
    struct running *next;
    void (*close)(void *owner); /* frees it, and calls client_leaves before */
    void *owner;
    bool is_idle; /* td_run does not wait for it: it has ended, has nothing to
                     do, or is a server that only listens */
};

void client_runs(struct td_client *client, struct running *running);

/* Call it before freeing the object, even if it was never added. */
void client_leaves(struct td_client *client, struct running *running);

void client_idles(struct td_client *client, struct running *running,
                  bool is_idle);

/* Turns the loop until `*is_over`, then takes `why` as the problem (NULL: there
 * is none). STATUS_STOPPED; STATUS_INVALID: from a callback of this handle. The
 * problem says so. */
enum status client_until(struct td_client *client, const bool *is_over,
                         const struct problem *why);

/* Runs the loop for `ms` milliseconds, or until *is_over, which it sets to true
 * at their end; NULL: there is none. STATUS_STOPPED as soon as td_stop was
 * called; STATUS_INVALID: in a callback of the handle. */
enum status client_wait(struct td_client *client, unsigned ms, bool *is_over);
