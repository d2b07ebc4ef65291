/*
 * follow_callback.c - tidings follow --callback-listen: a hub's deliveries.
 */
#include "client/cli/follow_callback.h"

#include <stdio.h>
#include <string.h>

/* How long hubs may take to answer the end of subscriptions. */
#define GOODBYE_MS 5000

struct at_callback {
    td_message_fn *on_message;
    void *user;
    void (*on_trouble)(const char *why, unsigned pause_ms, void *user);
    enum td_status rc; /* how it ended */
    char why[1024];
};

static int
on_message(const struct td_message *message, void *user)
{
    struct at_callback *at = user;

    return at->on_message(message, at->user);
}

static void
on_trouble(const char *why, unsigned pause_ms, void *user)
{
    struct at_callback *at = user;

    at->on_trouble(why, pause_ms, at->user);
}

static void
on_end(enum td_status rc, const char *why, void *user)
{
    struct at_callback *at = user;

    at->rc = rc;
    snprintf(at->why, sizeof(at->why), "%s", why);
}

/* Runs until the callback ends by itself, or td_stop. */
static enum exit_code
turn_once(struct td_client *client, const struct at_callback *at)
{
    enum td_status rc = td_run(client);

    if (rc && rc != TD_STOPPED)
        return exit_of(client, rc);
    if (at->rc == TD_OK || at->rc == TD_STOPPED)
        return EXIT_GOOD;
    say("%s", at->why);
    return at->rc == TD_GONE      ? EXIT_GONE
           : at->rc == TD_INVALID ? EXIT_USAGE
                                  : EXIT_FAILED;
}

enum exit_code
follow_at_callback(struct td_client *client, const struct follow_args *args,
                   td_message_fn *on_their_message, void *user)
{
    struct at_callback at = {.on_message = on_their_message,
                             .user = user,
                             .on_trouble = args->how.on_trouble};
    struct td_follow_options how = args->how;
    struct td_callback *callback = NULL;
    struct td_follower *follower = NULL;
    enum exit_code code;

    how.on_end = on_end;
    if (how.on_trouble)
        how.on_trouble = on_trouble;
    /* Text is made of the parts, which XML has as well; then the delivery is
     * printed as it is, without a request. */
    if (!strcmp(args->lines->name, "text"))
        how.form = TD_XML;

    code = exit_of(client, td_callback_open(client, args->callback_listen,
                                            args->callback_url, &callback));
    if (!code)
        code = exit_of(client, td_callback_follow(callback, args->url, &how,
                                                  on_message, &at, &follower));
    if (!code) {
        code = turn_once(client, &at);
        td_follower_close(follower);
        td_callback_settle(callback, GOODBYE_MS);
    }
    td_callback_close(callback);
    return code;
}
