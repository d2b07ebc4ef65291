/*
 * handle_relays.c - relay topics: made, shown, listed, removed.
 *
 *     PUT /relays/feed   {"topic":"https://source.org/feed","hub":"..."}
 */
#include <string.h>

#include "broker/http/asking.h"
#include "broker/http/routes.h"
#include "broker/net/response.h"
#include "broker/sets/registry.h"

/* Two URLs, written with escapes. */
#define RELAY_MAX 16384

/* NULL: answered. */
static struct asking *
ask(struct http *http, struct request *rq, const struct holes *holes,
    enum order_kind kind)
{
    struct problem why = {""};
    struct asking *a;

    if (!set_name_is_valid(holes->name)) {
        problem_set(&why,
                    "no relay can be called \"%s\": a name is 1 to 64 of a-z "
                    "0-9 . _ - and begins with a letter or digit",
                    problem_quote(holes->name).text);
        request_answer_problem(rq, 404, &why, NULL, NULL);
        return NULL;
    }
    a = asking_new(http, rq, kind, 0, false);
    if (!a)
        return NULL;
    memcpy(a->order->name, holes->name.data, holes->name.size);
    a->order->is_relay = true;
    return a;
}

void
handle_relays_get(struct http *http, struct request *rq,
                  const struct holes *holes)
{
    struct asking *a = asking_new(http, rq, ORDER_RELAY_LIST, 0, false);

    (void)holes;
    if (a)
        asking_defer(rq, a);
}

void
handle_relay_get(struct http *http, struct request *rq,
                 const struct holes *holes)
{
    struct asking *a = ask(http, rq, holes, ORDER_RELAY_SHOW);

    if (a)
        asking_defer(rq, a);
}

static void
take_terms(struct request *rq, struct asking *a)
{
    asking_take_body(a);
    asking_submit(rq, a);
}

void
handle_relay_put(struct http *http, struct request *rq,
                 const struct holes *holes)
{
    struct slice type = routes_media_type(rq);
    struct problem why = {""};
    struct asking *a;

    if (routes_may_publish(http, &why)) {
        request_answer_problem(rq, 403, &why, NULL, NULL);
        return;
    }
    if (!slice_is_word(type, "application/json")) {
        problem_set(&why, "a relay is read as application/json, not as \"%s\"",
                    problem_quote(type).text);
        request_answer_problem(rq, 415, &why, NULL, NULL);
        return;
    }
    a = ask(http, rq, holes, ORDER_RELAY_PUT);
    if (!a)
        return;
    a->whole = take_terms;
    asking_receive(rq, a, RELAY_MAX, "a relay");
}

void
handle_relay_delete(struct http *http, struct request *rq,
                    const struct holes *holes)
{
    struct problem why = {""};
    struct asking *a;

    if (routes_may_publish(http, &why)) {
        request_answer_problem(rq, 403, &why, NULL, NULL);
        return;
    }
    a = ask(http, rq, holes, ORDER_RELAY_REMOVE);
    if (a)
        asking_receive(rq, a, ROUTES_NOTHING_MAX, "a removal");
}
