/*
 * handle_health.c - is the process alive?
 */
#include "broker/http/routes.h"
#include "broker/net/response.h"

void
handle_health_get(struct http *http, struct request *rq, struct slice set)
{
    struct response r;

    (void)http;
    (void)set;
    response_init(&r, 200, "text/plain");
    r.text = SLICE("ok\n");
    request_answer(rq, &r);
}
