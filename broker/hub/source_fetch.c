#include "broker/hub/source_fetch.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "broker/base/diag.h"
#include "broker/hub/document_intake.h"
#include "broker/hub/hub_state.h"

/* Longest validator that is sent back. */
#define VALIDATOR_MAX 1000

static void begin_fetch(struct foreign_source *s);

static void
begin_waiting(struct foreign_sources *f)
{
    struct list *node;

    while (f->n_fetching < FETCHES_AT_ONCE &&
           (node = list_first(&f->to_fetch))) {
        list_remove(node);
        begin_fetch(list_entry(node, struct foreign_source, fetch_node));
    }
}

static void
queue_fetch(struct foreign_source *s)
{
    list_remove(&s->fetch_node);
    list_append(&s->foreign->to_fetch, &s->fetch_node);
    begin_waiting(s->foreign);
}

/* True if the body that the validators belong to is what we kept last. Only
 * then may the Source answer that nothing is new. */
static bool
is_newest(const struct foreign_source *s, const struct intake_target *target)
{
    const struct documents_sum *sum;

    if (!target->relay)
        return target->set && s->fetched_into == target->set;
    sum = &target->relay->kept;
    return sum->last > sum->earliest &&
           !memcmp(sum->last_digest.bytes, s->fetched.bytes, DIGEST_SIZE);
}

static void
set_conditions(struct foreign_source *s, const struct intake_target *target)
{
    size_t n = 0;

    if (is_newest(s, target) && s->etag) {
        snprintf(s->header[n], sizeof(s->header[n]), "If-None-Match: %s",
                 s->etag);
        s->headers[n] = s->header[n];
        n++;
    }
    if (is_newest(s, target) && s->last_modified) {
        snprintf(s->header[n], sizeof(s->header[n]), "If-Modified-Since: %s",
                 s->last_modified);
        s->headers[n] = s->header[n];
        n++;
    }
    s->headers[n] = NULL;
}

static char *
copy_validator(struct slice value)
{
    return value.size > 0 && value.size <= VALIDATOR_MAX ? slice_dup(value)
                                                         : NULL;
}

static void
keep_validators(struct foreign_source *s)
{
    free(s->etag);
    free(s->last_modified);
    s->etag = copy_validator(s->get.etag);
    s->last_modified = copy_validator(s->get.last_modified);
    s->n_fetched++;
    s->fetched = (struct digest){{0}};
    s->fetched_into = NULL;
}

static void
on_retry(struct alarm *alarm)
{
    queue_fetch(list_entry(alarm, struct foreign_source, retry));
}

/* Returns false when the fetch is given up. */
static bool
try_again(struct foreign_source *s)
{
    const struct config *config = s->foreign->hub->config;
    int64_t wait_us = config->hub_retry_first_us << s->fetch_tries;

    if (++s->fetch_tries >= FETCH_TRIES) {
        s->fetch_tries = 0;
        return false;
    }
    s->retry.ring = on_retry;
    caller_set_alarm(s->foreign->hub->caller, &s->retry,
                     clock_steady_us() + wait_us);
    return true;
}

/* Takes in the answer. STATUS_AGAIN: a later try may succeed. */
static enum status
take_answer(struct foreign_source *s, struct problem *why)
{
    const struct call *call = &s->get;
    struct intake_target target =
        intake_target_of(s->foreign->hub, slice_of(s->url));
    struct slice type = call->content_type;
    enum status rc;

    if (intake_target_is_none(&target) || call->status == 304)
        return STATUS_OK;
    if (call->failure == CALL_REFUSED)
        return problem(why, STATUS_INVALID, "%s", call->why);
    if (call->failure)
        return problem(why, STATUS_AGAIN, "%s", call->why);
    if (call->status != 200)
        return problem(why, call->status >= 500 ? STATUS_AGAIN : STATUS_INVALID,
                       "the answer is %u", call->status);
    if (call->is_cut)
        return problem(why, STATUS_TOO_LARGE,
                       "it has more than %zu bytes (--max-body)",
                       call->max_answer);
    keep_validators(s);
    if (type.size == 0)
        type = SLICE("application/octet-stream"); /* RFC 9110, 8.3 */
    rc = intake_fetched(s, &target, type, call->answer, why);
    return rc == STATUS_BUSY || rc == STATUS_MEMORY ? STATUS_AGAIN : rc;
}

static void
on_get(struct call *call)
{
    struct foreign_source *s = list_entry(call, struct foreign_source, get);
    struct problem why = {""};
    enum status rc = take_answer(s, &why);
    bool again = false;

    s->is_fetching = false;
    s->foreign->n_fetching--;
    if (rc == STATUS_AGAIN)
        again = try_again(s);
    else
        s->fetch_tries = 0;
    if (rc && !again)
        diag(DIAG_WARNING, "hub", "%s is not fetched: %s", s->url, why.text);
    if (s->is_fetch_wanted && !again) {
        s->is_fetch_wanted = false;
        queue_fetch(s);
    }
    begin_waiting(s->foreign);
}

static void
begin_fetch(struct foreign_source *s)
{
    struct hub *hub = s->foreign->hub;
    struct intake_target target = intake_target_of(hub, slice_of(s->url));

    if (intake_target_is_none(&target)) { /* removed meanwhile */
        s->fetch_tries = 0;
        s->is_fetch_wanted = false;
        return;
    }
    s->is_fetching = true;
    s->is_fetch_wanted = false;
    s->foreign->n_fetching++;
    set_conditions(s, &target);
    s->get = (struct call){
        .method = CALL_GET,
        .url = s->url,
        .timeout_us = hub->config->hub_timeout_us,
        .max_answer = (size_t)hub->config->max_body,
        .max_redirects = SOURCE_REDIRECTS,
        .done = on_get,
        .headers = s->headers,
    };
    caller_start(hub->caller, &s->get);
}

void
source_fetch_ping(struct foreign_source *s)
{
    if (s->is_fetching) {
        s->is_fetch_wanted = true;
        return;
    }
    /* A fetch that failed a moment ago is tried now, with all its tries. */
    caller_clear_alarm(s->foreign->hub->caller, &s->retry);
    s->fetch_tries = 0;
    queue_fetch(s);
}

/* A turn has ended. */
static void
on_ended(struct hub_db_hook *hook, bool is_kept)
{
    struct foreign_sources *f = list_entry(hook, struct foreign_sources, hook);
    struct list *node;

    while ((node = list_first(&f->fetched))) {
        struct foreign_source *s =
            list_entry(node, struct foreign_source, fetched_node);

        list_remove(node);
        if (!is_kept && !s->is_fetching && !try_again(s))
            diag(DIAG_WARNING, "hub",
                 "%s is not fetched: the broker cannot store the document",
                 s->url);
    }
}

void
source_fetch_start(struct foreign_sources *f)
{
    list_init(&f->to_fetch);
    list_init(&f->fetched);
    f->hook.ended = on_ended;
    hub_db_add_hook(f->hub->db, &f->hook);
}
