/*
 * dispatch.c - where libwebsockets calls back about connections.
 *
 * Every role it can change to, and every way in that it has and we do not want,
 * ends here: CONNECT and unknown methods become raw sockets, h2c and unknown
 * upgrades reach LWS_CALLBACK_HTTP_CONFIRM_UPGRADE.
 */
#include <stdio.h>
#include <string.h>

#include "broker/net/connection.h"
#include "broker/net/exchange.h"
#include "broker/net/service.h"
#include "broker/net/tls.h"

#define PROBLEM(status, title, detail)                                      \
    "{\"type\":\"about:blank\",\"title\":\"" title "\",\"status\":" #status \
    ",\"detail\":\"" detail "\"}"

#define NO_METHOD PROBLEM(501, "Not Implemented", "no such method")
#define NO_TLS                  \
    PROBLEM(400, "Bad Request", \
            "this port speaks TLS only: ask for https:// or wss://")

/* What begins like no method that the library knows, or not like TLS where that
 * is spoken. Of the rest of it nobody knows how much is here. */
static int
refuse_raw(struct connection *c)
{
    bool is_plain = c->service->server->tls && !tls_is_used(c->wsi);
    const char *problem = is_plain ? NO_TLS : NO_METHOD;
    char answer[512];
    int n = snprintf(answer, sizeof(answer),
                     "HTTP/1.1 %s\r\n"
                     "Date: %s\r\n"
                     "X-Content-Type-Options: nosniff\r\n"
                     "Connection: close\r\n"
                     "Content-Length: %zu\r\n"
                     "Content-Type: application/problem+json\r\n\r\n%s",
                     is_plain ? "400 Bad Request" : "501 Not Implemented",
                     service_date(c->service), strlen(problem), problem);

    connection_write(c, answer, (size_t)n);
    tls_say_end(c->wsi); /* the library does not, of a raw socket */
    return -1;
}

static int
dispatch(struct connection *c, enum lws_callback_reasons reason, void *in,
         size_t size)
{
    switch (reason) {
    case LWS_CALLBACK_HTTP:
        return exchange_begin(c);
    case LWS_CALLBACK_HTTP_CONFIRM_UPGRADE:
        return exchange_upgrade(c);
    case LWS_CALLBACK_HTTP_BODY:
        return exchange_body(c, in, size);
    case LWS_CALLBACK_HTTP_BODY_COMPLETION:
        return exchange_body_end(c);
    case LWS_CALLBACK_HTTP_WRITEABLE:
        return exchange_writable(c);
    case LWS_CALLBACK_ESTABLISHED:
        return stream_opened(c);
    case LWS_CALLBACK_RECEIVE:
        return stream_received(c, size);
    case LWS_CALLBACK_WS_PEER_INITIATED_CLOSE:
        return stream_closing(c);
    case LWS_CALLBACK_SERVER_WRITEABLE:
        return stream_writable(c);
    case LWS_CALLBACK_RAW_RX:
        /* Of what is no TLS the library tells first that nothing was read. */
        return size ? refuse_raw(c) : 0;
    case LWS_CALLBACK_RAW_WRITEABLE:
        return refuse_raw(c);
    case LWS_CALLBACK_CLOSED_HTTP:
    case LWS_CALLBACK_CLOSED:
    case LWS_CALLBACK_RAW_CLOSE:
        connection_gone(c);
        return 0;
    case LWS_CALLBACK_WSI_DESTROY:
        connection_free(c);
        return 0;
    default:
        return 0;
    }
}

int
connection_dispatch(struct lws *wsi, enum lws_callback_reasons reason,
                    void *user, void *in, size_t size)
{
    struct connection *c = NULL;
    int rc = 0;

    (void)user;
    switch (reason) {
    case LWS_CALLBACK_SERVER_NEW_CLIENT_INSTANTIATED:
        return connection_new(wsi);
    case LWS_CALLBACK_HTTP:
    case LWS_CALLBACK_HTTP_CONFIRM_UPGRADE:
    case LWS_CALLBACK_HTTP_BODY:
    case LWS_CALLBACK_HTTP_BODY_COMPLETION:
    case LWS_CALLBACK_HTTP_WRITEABLE:
    case LWS_CALLBACK_ESTABLISHED:
    case LWS_CALLBACK_RECEIVE:
    case LWS_CALLBACK_WS_PEER_INITIATED_CLOSE:
    case LWS_CALLBACK_SERVER_WRITEABLE:
    case LWS_CALLBACK_RAW_RX:
    case LWS_CALLBACK_RAW_WRITEABLE:
    case LWS_CALLBACK_CLOSED_HTTP:
    case LWS_CALLBACK_CLOSED:
    case LWS_CALLBACK_RAW_CLOSE:
    case LWS_CALLBACK_WSI_DESTROY:
        break; /* these, and no others, are about a connection */
    default:
        return 0;
    }

    c = connection_of(wsi);
    if (!c) /* destroyed before it was one, or raw before it is one */
        return reason == LWS_CALLBACK_WSI_DESTROY ||
                       (reason == LWS_CALLBACK_RAW_RX && !size)
                   ? 0
                   : -1;
    rc = dispatch(c, reason, in, size);
    if (rc < 0)
        connection_enter(c, PHASE_GONE, 0); /* closed by what we return */
    return rc;
}
