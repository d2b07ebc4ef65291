#include "broker/access/token_follower.h"

#include <stdlib.h>

#include "base/thread.h"
#include "broker/base/diag.h"
#include "proto/memory.h"

/* A token that another broker revoked ends here within two seconds. */
#define FOLLOW_US 1000000

struct token_follower {
    struct tokens *tokens;
    struct request_tickets *tickets;
    struct thread thread;
    bool is_failing, has_no_key; /* the last time */
};

static enum status
follow_keys(struct streams *streams, void *user, struct problem *why)
{
    return request_tickets_follow(user, streams, why);
}

static void
follow(struct token_follower *f)
{
    struct problem why = {""};
    bool is_failing = tokens_follow(f->tokens, &why) != STATUS_OK;
    bool has_no_key =
        !is_failing && tokens_lend_streams(f->tokens, follow_keys, f->tickets,
                                           &why) != STATUS_OK;

    if (is_failing && !f->is_failing)
        DIAG(DIAG_WARNING, "cluster",
             "this broker does not see the changes of tokens at other brokers",
             diag_text("error", why.text));
    if (has_no_key && !f->has_no_key)
        DIAG(DIAG_WARNING, "cluster",
             "tickets of this broker may hold here alone",
             diag_text("error", why.text));
    f->is_failing = is_failing;
    f->has_no_key = has_no_key;
}

static void
run(struct thread *t)
{
    while (thread_wait(t, FOLLOW_US))
        follow(t->user);
}

enum status
token_follower_open(struct token_follower **follower, struct tokens *tokens,
                    struct request_tickets *tickets, struct problem *why)
{
    struct token_follower *f = memory_new(1, sizeof(*f));
    enum status rc;

    f->tokens = tokens;
    f->tickets = tickets;
    follow(f);
    rc = thread_start(&f->thread, "tokens", run, f, why);
    if (rc)
        free(f);
    else
        *follower = f;
    return rc;
}

void
token_follower_close(struct token_follower *f)
{
    if (!f)
        return;
    thread_stop(&f->thread);
    free(f);
}
