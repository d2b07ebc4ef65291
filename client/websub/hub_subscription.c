#include "client/websub/hub_subscription.h"

#include <sys/random.h>
#include <time.h>

#include <openssl/evp.h>

#include "base/clock.h"
#include "client/lib/fetch.h"
#include "client/lib/pause.h"
#include "proto/number.h"
#include "proto/uri.h"

/* How long a hub may take to verify an accepted request, before the next one.
 */
#define VERIFIED_WITHIN_MS 60000

/* Unsubscriptions: attempts, and the longest pause between them. If the hub
 * hears none of them, the subscription ends with its lease. */
#define LEAVE_ATTEMPTS  10
#define LEAVE_PAUSE_MAX 60000

/* The lease of a hub that names none (W-070: 10 days); and the longest that
 * counts. */
#define LEASE_DEFAULT (10 * 86400)
#define LEASE_MAX     (366 * 86400)

/* Most redirects from hub to hub (W-033). */
#define REDIRECTS_MAX 5

/* Longest answer of a hub: the reason of a refusal (W-032). */
#define ANSWER_MAX 65536

static void
drop_request(struct hub_subscription *l)
{
    fetch_free(l->request.fetch);
    buf_fini(&l->request.body);
    free(l->request.hub);
    l->request = (struct hub_request){.fetch = NULL};
}

/* The one function that changes the state; the diagram is hub_subscription.h's.
 */
static void
enter_state(struct hub_subscription *l, enum lease_state state)
{
    timer_stop(&l->wait);
    if (state == LEASE_ASKED)
        timer_start(&l->wait, VERIFIED_WITHIN_MS);
    if (state == LEASE_ACTIVE && l->state != LEASE_ACTIVE)
        l->key.since_s = time(NULL);
    if (state == LEASE_OVER)
        drop_request(l);
    l->state = state;
}

/* Reports an event. False: the callee freed the lease. */
static bool
report_event(struct hub_subscription *l, enum hub_subscription_event event,
             const struct problem *why)
{
    l->plan.on_event(l, event, why, l->plan.user);
    return !l->retired.is_over;
}

static void
fail_subscription(struct hub_subscription *l, const struct problem *why)
{
    enter_state(l, LEASE_OVER);
    report_event(l, HUB_SUBSCRIPTION_FAILED, why);
}

static void
on_report(void *user)
{
    struct hub_subscription *l = user;
    bool is_verified = l->is_verified && l->state == LEASE_ACTIVE;
    bool is_doubted = l->is_doubted && l->state == LEASE_ACTIVE;

    l->is_verified = l->is_doubted = false;
    if (is_verified && !report_event(l, HUB_SUBSCRIPTION_ACTIVE, &l->why))
        return;
    if (is_doubted && !report_event(l, HUB_SUBSCRIPTION_DOUBTED, &l->why))
        return;
    if (l->is_denied)
        report_event(l, HUB_SUBSCRIPTION_DENIED, &l->why);
    else if (l->is_left)
        report_event(l, HUB_SUBSCRIPTION_LEFT, &l->why);
}

/* Asking */

/* Handles the hub's answer to a request to subscribe. */
static void
end_subscribing(struct hub_subscription *l, const struct problem *why)
{
    struct hub_request *r = &l->request;

    if (l->state != LEASE_ASKING && l->state != LEASE_ACTIVE)
        return;
    if (why->rc) {
        /* Verified already: then the answer does not matter. */
        if (l->state == LEASE_ASKING)
            fail_subscription(l, why);
        return;
    }
    if (!r->has_secret)
        l->key.secret = NULL;
    if (r->n_redirects > 0 && r->is_for_good) {
        free(l->moved);
        l->moved = r->hub;
        r->hub = NULL;
    }
    if (l->state == LEASE_ASKING) {
        enter_state(l, LEASE_ASKED);
        report_event(l, HUB_SUBSCRIPTION_ACCEPTED, why);
    }
}

/* Leaving */

static void
on_left(struct hub_subscription *l)
{
    enter_state(l, LEASE_OVER);
    l->is_left = true;
    timer_start(&l->report, 0);
}

/* True if the subscription ends by itself, or the hub has heard nothing. */
static bool
is_given_up(const struct hub_subscription *l)
{
    return l->n_attempts >= LEAVE_ATTEMPTS || clock_steady_ms() >= l->end_ms;
}

static void
leave_later(struct hub_subscription *l)
{
    enter_state(l, LEASE_LEAVING);
    if (is_given_up(l))
        on_left(l);
    else
        timer_start(&l->wait, pause_take(&l->pause_ms, LEAVE_PAUSE_MAX));
}

/* Requests to the hub */

static bool post_request(struct hub_subscription *l);

bool
hub_subscription_is_safe(const char *hub)
{
    return !strncasecmp(hub, "https:", 6) || websub_is_loopback(slice_of(hub));
}

/* 307 and 308: sends the same request to the other hub (W-033). False: no valid
 * URL. */
static bool
follow_redirect(struct hub_subscription *l, const struct fetch_answer *answer)
{
    struct hub_request *r = &l->request;
    struct buf url = {.max = WEBSUB_URL_MAX};
    char *hub = NULL;

    if ((answer->status != 307 && answer->status != 308) ||
        !answer->location[0] || r->n_redirects++ >= REDIRECTS_MAX)
        return false;
    uri_resolve(&url, slice_of(r->hub), slice_of(answer->location));
    if (!url.failed && !websub_check_url(buf_slice(&url), "Location", NULL))
        hub = slice_dup(buf_slice(&url));
    buf_fini(&url);
    if (!hub)
        return false;
    free(r->hub);
    r->hub = hub;
    r->is_for_good = r->is_for_good && answer->status == 308;
    return post_request(l);
}

static void
on_answer(struct fetch_answer *answer, const struct problem *end, void *user)
{
    struct hub_subscription *l = user;
    struct hub_request *r = &l->request;
    struct slice rest = buf_slice(&answer->body);
    struct slice text = slice_take(&rest, '\n'); /* a line, for messages */
    struct problem why = *end;

    r->fetch = NULL;
    if (!end->rc && follow_redirect(l, answer))
        return;
    if (text.size > 300)
        text.size = 300;
    text = slice_trimmed(text);
    if (end->rc) {
        if (end->rc != STATUS_MEMORY)
            problem(&why, end->rc, "the hub %s: %s", r->hub, end->text);
    } else {
        why.http_status = answer->status;
        why.retry_after_s = answer->retry_after_s;
        if (answer->status / 100 == 3)
            problem(&why, STATUS_MALFORMED,
                    "the hub %s: status %u leads nowhere", r->hub,
                    answer->status);
        else if (answer->status / 100 != 2)
            problem(&why, fetch_meaning(answer->status),
                    "the hub %s: status %u%s%.*s", r->hub, answer->status,
                    text.size ? ": " : "", SLICE_ARG(text));
    }
    if (r->mode == WEBSUB_SUBSCRIBE)
        end_subscribing(l, &why);
    else if (l->state != LEASE_LEAVING)
        return;
    else if (!why.rc)
        timer_start(&l->wait, VERIFIED_WITHIN_MS);
    else if (why.rc == STATUS_REFUSED || why.rc == STATUS_GONE)
        on_left(l); /* the hub has no such subscription */
    else
        leave_later(l);
}

static bool
post_request(struct hub_subscription *l)
{
    static const char *const headers[] = {
        "Content-Type: application/x-www-form-urlencoded", NULL};
    struct hub_request *r = &l->request;
    bool is_asking = r->mode == WEBSUB_SUBSCRIBE;
    struct slice sent;
    const struct fetch_request request = {
        .url = r->hub,
        .headers = headers,
        .body = &sent,
        .max_bytes = ANSWER_MAX,
    };
    char lease[NUMBER_SIZE_MAX];

    buf_clear(&r->body);
    urlencoded_add(&r->body, "hub.mode", slice_of(websub_mode_names[r->mode]));
    urlencoded_add(&r->body, "hub.topic", slice_of(l->topic));
    urlencoded_add(&r->body, "hub.callback", slice_of(l->route->url));
    if (is_asking && l->plan.lease_s > 0)
        urlencoded_add(
            &r->body, "hub.lease_seconds",
            (struct slice){lease, number_write(lease, l->plan.lease_s)});
    r->has_secret =
        is_asking && l->key.secret && hub_subscription_is_safe(r->hub);
    if (r->has_secret)
        urlencoded_add(&r->body, "hub.secret", slice_of(l->key.secret));
    sent = buf_slice(&r->body);
    if (!r->body.failed)
        r->fetch =
            fetch_start(l->plan.callback->client, &request, NULL, on_answer, l);
    return r->fetch != NULL;
}

/* False: no memory. */
static bool
begin_request(struct hub_subscription *l, enum websub_mode mode,
              const char *hub)
{
    struct hub_request *r = &l->request;

    drop_request(l);
    r->mode = mode;
    r->is_for_good = true;
    buf_init(&r->body, 8 * WEBSUB_URL_MAX);
    r->hub = strdup(hub);
    return r->hub && post_request(l);
}

void
hub_subscription_leave(struct hub_subscription *l, bool is_shut)
{
    l->is_shut = is_shut;
    enter_state(l, LEASE_LEAVING);
    l->n_attempts++;
    if (!begin_request(l, WEBSUB_UNSUBSCRIBE, l->moved ? l->moved : l->hub))
        leave_later(l);
}

static void
on_wait(void *user)
{
    struct hub_subscription *l = user;
    struct problem why = {""};

    if (l->state == LEASE_LEAVING) {
        if (is_given_up(l))
            on_left(l);
        else
            hub_subscription_leave(l, l->is_shut);
        return;
    }
    problem(&why, STATUS_UNREACHABLE,
            "the hub %s accepted the request, but has not verified it", l->hub);
    fail_subscription(l, &why);
}

/* Requests of the hub */

/* True if the lease has asked for that. A repeated verification may shorten the
 * lease, never lengthen it: it proves as little as a denial, and a renewal that
 * is too late loses the subscription. */
static bool
confirm_request(struct hub_subscription *l, struct slice mode,
                const struct urlencoded_data *form)
{
    struct slice text;
    uint64_t seconds = 0;
    int64_t end_ms;

    if (slice_is(mode, "unsubscribe") &&
        (l->state == LEASE_LEAVING || (l->state == LEASE_OVER && l->is_left))) {
        on_left(l);
        return true;
    }
    if (!slice_is(mode, "subscribe") ||
        (l->state != LEASE_ASKING && l->state != LEASE_ASKED &&
         l->state != LEASE_ACTIVE))
        return false;
    if (!urlencoded_get(form, "hub.lease_seconds", &text) ||
        !number_read(text, &seconds) || seconds == 0)
        seconds = l->plan.lease_s ? l->plan.lease_s : LEASE_DEFAULT;
    if (seconds > LEASE_MAX)
        seconds = LEASE_MAX;
    end_ms = clock_steady_ms() + (int64_t)seconds * 1000;
    if (l->state != LEASE_ACTIVE || end_ms <= l->end_ms) {
        l->lease_s = seconds;
        l->end_ms = end_ms;
    }
    enter_state(l, LEASE_ACTIVE);
    l->is_verified = true;
    timer_start(&l->report, 0);
    return true;
}

/* A lease in LEAVING ignores denials, and goes on asking the hub to end it. */
static bool
take_denial(struct hub_subscription *l, const struct urlencoded_data *form)
{
    struct slice reason;

    if (l->state == LEASE_LEAVING)
        return true;
    if (l->state == LEASE_OVER)
        return l->is_denied;
    if (!urlencoded_get(form, "hub.reason", &reason))
        reason = SLICE("");
    if (reason.size > 500)
        reason.size = 500;
    problem(&l->why, STATUS_REFUSED, "%.*s", SLICE_ARG(reason));
    l->is_doubted = l->state == LEASE_ACTIVE;
    l->is_denied = !l->is_doubted;
    if (l->is_denied)
        enter_state(l, LEASE_OVER);
    timer_start(&l->report, 0);
    return true;
}

/* W-058, W-059: confirms what the lease asked for; all else gets 404. */
static void
answer_hub(struct hub_subscription *l, struct arrival *arrival,
           struct reply *reply)
{
    struct slice mode, topic, challenge;
    struct urlencoded_data form;
    bool is_ours = false;

    if (!urlencoded_read(&form, arrival->query, NULL) &&
        urlencoded_get(&form, "hub.mode", &mode) &&
        urlencoded_get(&form, "hub.topic", &topic) &&
        (slice_is(topic, l->topic) ||
         (!websub_check_url(topic, "hub.topic", NULL) &&
          websub_is_same(slice_of(l->topic), topic)))) {
        if (!urlencoded_get(&form, "hub.challenge", &challenge))
            challenge = SLICE("");
        if (slice_is(mode, "denied"))
            is_ours = take_denial(l, &form);
        else if (challenge.size > 0)
            is_ours = confirm_request(l, mode, &form);
        if (is_ours && !slice_is(mode, "denied"))
            buf_add_slice(&reply->text, challenge);
    }
    urlencoded_fini(&form);
    reply->status = is_ours ? 200 : 404;
    if (!is_ours)
        l->plan.deliveries->counts.unknown++;
}

static void
on_arrival(struct arrival *arrival, struct reply *reply, void *user)
{
    struct hub_subscription *l = user;

    if (!arrival->is_post) {
        answer_hub(l, arrival, reply);
    } else if (l->is_shut || l->state == LEASE_OVER) {
        /* W-086: that ends the subscription, too. */
        reply->status = 410;
        if (l->state == LEASE_LEAVING)
            on_left(l);
    } else if (l->state == LEASE_ACTIVE || l->state == LEASE_LEAVING) {
        delivery_queue_take(l->plan.deliveries, &l->key, l->topic, time(NULL),
                            arrival, reply);
    } else {
        l->plan.deliveries->counts.unknown++;
    }
}

/* Its life */

struct hub_subscription *
hub_subscription_new(const struct hub_subscription_plan *plan, const char *hub,
                     const char *topic)
{
    struct td_client *client = plan->callback->client;
    struct hub_subscription *l = calloc(1, sizeof(*l));
    unsigned char bytes[SECRET_BYTES];
    bool is_good;

    if (!l)
        return NULL;
    l->plan = *plan;
    l->key.number = plan->number;
    l->pause_ms = PAUSE_FIRST;
    l->hub = strdup(hub);
    l->topic = strdup(topic);
    l->route = route_new(plan->callback, plan->max_bytes, on_arrival, l);
    timer_init(&l->wait, client->loop, on_wait, l);
    timer_init(&l->report, client->loop, on_report, l);
    is_good = l->hub && l->topic && l->route &&
              getrandom(bytes, sizeof(bytes), 0) == sizeof(bytes);
    if (is_good && !plan->has_no_secret) {
        EVP_EncodeBlock((unsigned char *)stpcpy(l->secret, "whsec_"), bytes,
                        sizeof(bytes));
        l->key.secret = l->secret;
    }
    if (!is_good || !begin_request(l, WEBSUB_SUBSCRIBE, l->hub)) {
        hub_subscription_free(l);
        return NULL;
    }
    return l;
}

void
hub_subscription_free(struct hub_subscription *l)
{
    if (!l)
        return;
    drop_request(l);
    route_free(l->route);
    timer_stop(&l->wait);
    timer_stop(&l->report);
    explicit_bzero(l->secret, sizeof(l->secret));
    free(l->hub);
    free(l->topic);
    free(l->moved);
    handle_loop_retire(l->plan.callback->client->loop, &l->retired, NULL);
}
