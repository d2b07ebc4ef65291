/*
 * handle_bridges.c - GET /bridges: the bridges to MQTT brokers, for operators.
 */
#include "broker/http/made.h"
#include "broker/http/routes.h"

/* BRIDGES_MAX of them, each with two reasons that are all escapes. */
#define TEXT_MAX ((size_t)1 << 18)

/* On a worker, because each bridge looks at the heads of all its sets. */
static void
write_bridges(struct http *http, struct buf *to)
{
    bridges_write(http->bridges, to);
}

void
handle_bridges_get(struct http *http, struct request *rq,
                   const struct route_target *target)
{
    (void)target;
    made_answer(http, rq, "application/json", TEXT_MAX, write_bridges);
}
