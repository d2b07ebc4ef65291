/*
 * relay_order.c - requests to relays: PUT, GET and DELETE /relays/{name}, GET
 * /relays.
 *
 *     {"name":"news","topic":"https://a.example/feed",
 *      "hub":"https://b.example/hub","epoch":"0123456789abcdef","last":7,
 *      "documents":7,"bytes":51234,
 *      "lastDocument":"2026-01-02T03:04:05.678901Z","subscriptions":2}
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/suggest.h"
#include "broker/hub/inside.h"
#include "broker/hub/relay.h"
#include "broker/net/response.h"
#include "broker/sets/peers.h"
#include "proto/datetime.h"
#include "proto/json.h"
#include "proto/json_parse.h"
#include "proto/websub.h"

static void
set_outcome(struct order *order, enum status status, unsigned http)
{
    order->status = status;
    order->http = status ? response_status_of(status) : http;
}

/* Reading */

enum member { MEMBER_TOPIC, MEMBER_HUB, MEMBERS };

static const char *const members[MEMBERS] = {"topic", "hub"};

struct reading {
    bool is_begun;
    enum member member;
    bool is_given[MEMBERS];
    struct buf urls[MEMBERS];
};

static enum status
take_member(struct reading *r, struct slice name, struct problem *why)
{
    struct suggestion meant;

    for (enum member m = 0; m < MEMBERS; m++) {
        if (!slice_is(name, members[m]))
            continue;
        if (r->is_given[m])
            return problem(why, STATUS_INVALID, "%s: is there twice",
                           members[m]);
        r->is_given[m] = true;
        r->member = m;
        return STATUS_OK;
    }
    suggest_begin(&meant, name);
    for (enum member m = 0; m < MEMBERS; m++)
        suggest_consider(&meant, members[m]);
    return problem(why, STATUS_INVALID, "\"%s\" is no setting of a relay%s%s%s",
                   problem_quote(name).text, meant.nearest ? "; is \"" : "",
                   meant.nearest ? meant.nearest : "",
                   meant.nearest ? "\" meant?" : "");
}

static enum status
on_event(void *user, enum json_event event, struct slice text,
         struct problem *why)
{
    struct reading *r = user;

    if (!r->is_begun) {
        r->is_begun = true;
        if (event == JSON_OBJECT)
            return STATUS_OK;
        return problem(why, STATUS_INVALID,
                       "a relay is a JSON object, such as "
                       "{\"topic\":\"https://...\"}");
    }
    if (event == JSON_OBJECT_END)
        return STATUS_OK; /* the only one: an object is no value */
    if (event == JSON_KEY)
        return take_member(r, text, why);
    if (event != JSON_STRING)
        return problem(why, STATUS_INVALID, "%s: is a string",
                       members[r->member]);
    buf_add_slice(&r->urls[r->member], text);
    /* Well-formed, but not acceptable. */
    return websub_check_url(text, members[r->member], why) ? STATUS_INVALID
                                                           : STATUS_OK;
}

static enum status
read_json(struct reading *r, struct slice text, struct problem *why)
{
    struct json_parse *json = json_parse_new(on_event, r);
    enum status rc;

    if (!json)
        return problem_memory(why);
    rc = json_parse_feed(json, text, why);
    if (!rc)
        rc = json_parse_end(json, why);
    if (rc)
        why->line = json_parse_line(json);
    json_parse_free(json);
    return rc;
}

/* Refuses our own topics: they need no relay. */
static enum status
check_topic(const struct reading *r, const char *public_url,
            struct problem *why)
{
    if (!r->is_given[MEMBER_TOPIC])
        return problem(why, STATUS_INVALID, "topic: is missing");
    if (peers_is_ours(buf_slice(&r->urls[MEMBER_TOPIC]), public_url))
        return problem(why, STATUS_INVALID,
                       "topic: \"%s\" is of this broker itself",
                       problem_quote(buf_slice(&r->urls[MEMBER_TOPIC])).text);
    return STATUS_OK;
}

/* Showing */

static void
write_relay(struct buf *to, const struct relay *relay)
{
    const struct documents_sum *sum = &relay->draft;
    char time[DATETIME_SIZE];

    buf_add_format(to, "{\"name\":\"%s\",\"topic\":", relay->name);
    json_string(to, slice_of(relay->topic_url));
    BUF_ADD(to, ",\"hub\":");
    json_string(
        to, slice_of(relay->new_hub_url ? relay->new_hub_url : relay->hub_url));
    buf_add_format(to,
                   ",\"epoch\":\"%s\",\"last\":%" PRIu64
                   ",\"documents\":%" PRIu64 ",\"bytes\":%" PRIu64,
                   relay->epoch, sum->last, sum->last - sum->earliest,
                   sum->bytes);
    if (sum->last_us != 0) {
        datetime_write(time, sum->last_us);
        buf_add_format(to, ",\"lastDocument\":\"%.*s\"", DATETIME_SIZE, time);
    }
    buf_add_format(to, ",\"subscriptions\":%zu}",
                   relay->topic ? relay->topic->subscriptions_by_id.n : 0);
}

static void
show(struct order *order, unsigned http)
{
    enum status rc = STATUS_OK;

    BUF_ADD(&order->text, "\n");
    if (order->text.failed)
        rc = problem_memory(&order->why);
    set_outcome(order, rc, http);
}

/* The orders */

static struct relay *
find(struct order *order)
{
    struct relay *relay = relay_find(order->hub, slice_of(order->name));

    if (!relay)
        set_outcome(order,
                    problem(&order->why, STATUS_NOT_FOUND,
                            "there is no relay called \"%s\"",
                            problem_quote(slice_of(order->name)).text),
                    0);
    return relay;
}

void
relay_put(struct order *order)
{
    struct hub *hub = order->hub;
    struct problem *why = &order->why;
    struct reading r = {.is_begun = false};
    struct relay *relay = NULL;
    bool is_new = false;
    enum status rc = STATUS_OK;

    for (enum member m = 0; m < MEMBERS; m++)
        buf_init(&r.urls[m], WEBSUB_URL_MAX);
    if (!set_name_is_valid(slice_of(order->name)))
        rc = problem(why, STATUS_NOT_FOUND,
                     "no relay can be called \"%s\": a name is 1 to 64 of a-z "
                     "0-9 . _ - and begins with a letter or digit",
                     problem_quote(slice_of(order->name)).text);
    if (!rc)
        rc = read_json(&r, buf_slice(&order->body), why);
    if (!rc)
        rc = check_topic(&r, registry_public_url(hub->registry), why);
    if (!rc && (r.urls[MEMBER_TOPIC].failed || r.urls[MEMBER_HUB].failed))
        rc = problem_memory(why);
    if (!rc)
        rc = relay_make(hub, slice_of(order->name),
                        buf_slice(&r.urls[MEMBER_TOPIC]),
                        buf_slice(&r.urls[MEMBER_HUB]), &relay, &is_new, why);
    if (rc) {
        set_outcome(order, rc, 0);
    } else {
        write_relay(&order->text, relay);
        show(order, is_new ? 201 : 200);
    }
    for (enum member m = 0; m < MEMBERS; m++)
        buf_fini(&r.urls[m]);
}

void
relay_show(struct order *order)
{
    struct relay *relay = find(order);

    if (!relay)
        return;
    write_relay(&order->text, relay);
    show(order, 200);
}

void
relay_list(struct order *order)
{
    const char *before = "{\"relays\":[";
    struct list *node, *after;

    list_foreach (node, after, &order->hub->relays) {
        const struct relay *relay = list_entry(node, struct relay, node);

        if (relay->state == RELAY_NEW)
            continue;
        buf_add_text(&order->text, before);
        write_relay(&order->text, relay);
        before = ",\n";
    }
    buf_add_text(&order->text, *before == '{' ? "{\"relays\":[]}" : "]}");
    show(order, 200);
}

void
relay_remove(struct order *order)
{
    struct relay *relay = find(order);

    if (relay)
        set_outcome(order, relay_unmake(relay, &order->why), 204);
}
