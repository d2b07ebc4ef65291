/*
 * handle_rate.c - the last hour of a set, minute by minute (rates.h).
 *
 *     {"set":"news","minutes":60,"entries":[0,...,17],"lags":[0,...,250],
 *      "readers":{"websocket-json":{"connected":2,"lag":250},...}}
 */
#include "broker/http/answers.h"
#include "broker/http/routes.h"
#include "broker/net/response.h"
#include "broker/push/transports.h"
#include "broker/sets/rates.h"
#include "proto/resourcesync/json.h"

/* Two rows of 60 numbers, and the transports. */
#define RATE_TEXT_MAX 8192

static void
add_readers(struct buf *to, const struct set *set, const struct rate *rate)
{
    for (size_t i = 0; i < transports_count(); i++)
        buf_add_format(
            to, "%s\"%s\":{\"connected\":%u,\"lag\":%u}", i ? "," : "",
            transports_of_number(i)->label,
            atomic_load_explicit(&set->subscribers[i], memory_order_relaxed),
            rate->transport_lags[i]);
}

static void
answer_rate(struct request *rq, struct buf *text)
{
    BUF_ADD(text, "}\n");
    answers_buf(rq, 200, "application/json", "no-store", text);
}

void
handle_set_rate_get(struct http *http, struct request *rq,
                    const struct route_target *target)
{
    struct rate rate;
    struct buf text;

    rates_read(registry_rates(http->registry), target->set, &rate);
    buf_init(&text, RATE_TEXT_MAX);
    BUF_ADD(&text, "{\"set\":");
    json_text(&text, target->name);
    BUF_ADD(&text, ",");
    rates_write(&text, &rate);
    BUF_ADD(&text, ",\"readers\":{");
    add_readers(&text, target->set, &rate);
    BUF_ADD(&text, "}");
    answer_rate(rq, &text);
}
