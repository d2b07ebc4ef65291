#include "client/websub/subscription_request.h"

#include <stdlib.h>
#include <string.h>

#include "client/lib/fetch.h"
#include "proto/number.h"
#include "proto/uri.h"
#include "proto/urlencoded.h"

/* Most redirects from hub to hub (W-033). */
#define REDIRECTS_MAX 5

/* Longest answer of a hub: the reason of a refusal (W-032). */
#define ANSWER_MAX 65536

struct subscription_request {
    struct td_client *client;
    subscription_request_end_fn *on_end;
    void *user;
    struct fetch *fetch;

    enum websub_mode mode;
    char *hub, *topic, *callback, *secret;
    uint64_t lease_s;
    unsigned n_redirects;
    bool has_secret;  /* the hub of this hop gets it */
    bool is_for_good; /* all redirects so far were 308 */
    struct buf body;
    struct slice sent;
};

static bool post_request(struct subscription_request *r);

bool
subscription_request_is_safe(const char *hub)
{
    struct slice host;
    struct buf b;
    bool is_safe = !strncasecmp(hub, "https:", 6);

    if (is_safe)
        return true;
    buf_init(&b, 1024);
    websub_host(&b, slice_of(hub));
    host = buf_slice(&b);
    is_safe =
        !b.failed && (slice_is(host, "localhost") || slice_is(host, "[::1]"));
    /* An address, not a name that begins like one. */
    if (slice_starts(host, "127.")) {
        is_safe = !b.failed;
        for (size_t i = 0; i < host.size; i++)
            if (host.data[i] != '.' &&
                (host.data[i] < '0' || host.data[i] > '9'))
                is_safe = false;
    }
    buf_fini(&b);
    return is_safe;
}

/* A line of the answer's body, for messages. */
static struct slice
reason_of(const struct fetch_answer *answer)
{
    struct slice text = buf_slice(&answer->body);
    size_t size = 0;

    while (size < text.size && size < 300 && text.data[size] != '\n')
        size++;
    text.size = size;
    return slice_trimmed(text);
}

static void
judge_answer(const struct subscription_request *r,
             const struct fetch_answer *answer, struct problem *why)
{
    struct slice text = reason_of(answer);

    why->http_status = answer->status;
    why->retry_after_s = answer->retry_after_s;
    if (answer->status / 100 == 2)
        return;
    if (answer->status / 100 == 3)
        problem(why, STATUS_MALFORMED, "the hub %s: status %u leads nowhere",
                r->hub, answer->status);
    else
        problem(why, fetch_meaning(answer->status),
                "the hub %s: status %u%s%.*s", r->hub, answer->status,
                text.size ? ": " : "", SLICE_ARG(text));
}

/* 307 and 308: sends the same request to the other hub. False: no valid URL. */
static bool
follow_redirect(struct subscription_request *r,
                const struct fetch_answer *answer)
{
    struct buf url;
    bool is_on_its_way = false;
    char *hub;

    if ((answer->status != 307 && answer->status != 308) ||
        !answer->location[0] || r->n_redirects++ >= REDIRECTS_MAX)
        return false;
    buf_init(&url, WEBSUB_URL_MAX);
    uri_resolve(&url, slice_of(r->hub), slice_of(answer->location));
    if (!url.failed && !websub_check_url(buf_slice(&url), "Location", NULL)) {
        hub = slice_dup(buf_slice(&url));
        if (hub) {
            free(r->hub);
            r->hub = hub;
            r->is_for_good = r->is_for_good && answer->status == 308;
            is_on_its_way = post_request(r);
        }
    }
    buf_fini(&url);
    return is_on_its_way;
}

static void
on_answer(struct fetch_answer *answer, const struct problem *end, void *user)
{
    struct subscription_request *r = user;
    struct subscription_request_end told = {.why = *end};

    r->fetch = NULL;
    if (!end->rc && follow_redirect(r, answer))
        return;
    if (!end->rc)
        judge_answer(r, answer, &told.why);
    else if (end->rc != STATUS_MEMORY)
        problem(&told.why, end->rc, "the hub %s: %s", r->hub, end->text);
    told.hub = r->hub;
    told.moved = r->n_redirects > 0 && r->is_for_good ? r->hub : NULL;
    told.has_secret = r->has_secret;
    r->on_end(&told, r->user);
    subscription_request_free(r);
}

static bool
post_request(struct subscription_request *r)
{
    const char *const headers[] = {
        "Content-Type: application/x-www-form-urlencoded", NULL};
    const struct fetch_request request = {
        .url = r->hub,
        .headers = headers,
        .body = &r->sent,
        .max_bytes = ANSWER_MAX,
    };
    char lease[NUMBER_SIZE_MAX];

    buf_clear(&r->body);
    urlencoded_add(&r->body, "hub.mode", slice_of(websub_mode_name(r->mode)));
    urlencoded_add(&r->body, "hub.topic", slice_of(r->topic));
    urlencoded_add(&r->body, "hub.callback", slice_of(r->callback));
    if (r->lease_s > 0)
        urlencoded_add(&r->body, "hub.lease_seconds",
                       (struct slice){lease, number_write(lease, r->lease_s)});
    r->has_secret = r->secret && subscription_request_is_safe(r->hub);
    if (r->has_secret)
        urlencoded_add(&r->body, "hub.secret", slice_of(r->secret));
    r->sent = buf_slice(&r->body);
    if (!r->body.failed)
        r->fetch = fetch_start(r->client, &request, NULL, on_answer, r);
    return r->fetch != NULL;
}

struct subscription_request *
subscription_request_start(struct td_client *client,
                           const struct subscription_request_plan *plan,
                           subscription_request_end_fn *on_end, void *user)
{
    struct subscription_request *r = calloc(1, sizeof(*r));

    if (!r)
        return NULL;
    r->client = client;
    r->on_end = on_end;
    r->user = user;
    r->mode = plan->mode;
    r->lease_s = plan->lease_s;
    r->is_for_good = true;
    buf_init(&r->body, 8 * WEBSUB_URL_MAX);
    r->hub = strdup(plan->hub);
    r->topic = strdup(plan->topic);
    r->callback = strdup(plan->callback);
    r->secret = plan->secret ? strdup(plan->secret) : NULL;
    if (!r->hub || !r->topic || !r->callback || (plan->secret && !r->secret) ||
        !post_request(r)) {
        subscription_request_free(r);
        return NULL;
    }
    return r;
}

void
subscription_request_free(struct subscription_request *r)
{
    if (!r)
        return;
    fetch_free(r->fetch);
    buf_fini(&r->body);
    free(r->hub);
    free(r->topic);
    free(r->callback);
    free(r->secret);
    free(r);
}
