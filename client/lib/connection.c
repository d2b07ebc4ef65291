/*
 * connection.c - one WebSocket connection, by libwebsockets.
 *
 * A context per connection, with its own poll loop: whatever a connection left
 * behind goes with it. td_stop is heard through the handle's eventfd, which is
 * adopted as a file: lws_cancel_service is not meant for signal handlers.
 *
 * No farewell is sent: the position is ours, the broker keeps nothing for us.
 */
#include "client/lib/connection.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <libwebsockets.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "proto/buf.h"

/* Seconds for the connect, and for each step of the handshake. */
#define CONNECT_SECONDS 20

/* What is handed over at once; the broker's fragments have at most 64 KB. */
#define RX_BYTES 65536

struct connection {
    const struct connection_plan *plan;
    struct connection_end *end;
    struct buf message;
    struct lws_context *context;
    unsigned status;      /* of the answer to the handshake; 0: none yet */
    const char *distrust; /* why the certificate is not good; NULL: it is */
    bool is_over;
};

/* The only place where a connection ends; the first reason is the true one.
 * Timers are served before the wait of lws_service, not after: without the
 * cancel it would wait for the next one, up to 30 s. */
static void
finish(struct connection *c, enum connection_how how, unsigned code,
       const char *format, ...)
{
    va_list args;

    if (c->is_over)
        return;
    c->is_over = true;
    c->end->how = how;
    c->end->code = code;
    va_start(args, format);
    vsnprintf(c->end->reason, sizeof(c->end->reason), format, args);
    va_end(args);
    if (c->context)
        lws_cancel_service(c->context);
}

static void
listen_again(struct connection *c, struct lws *wsi)
{
    lws_set_timer_usecs(wsi, (lws_usec_t)*c->plan->idle_ms * 1000);
}

/* Part of a message; nonzero ends the connection. */
static int
receive(struct connection *c, struct lws *wsi, const char *bytes, size_t size)
{
    if (lws_frame_is_binary(wsi)) {
        finish(c, CONNECTION_BROKEN, 0, "the broker sent a binary message");
        return -1;
    }
    if (size > c->message.max - c->message.size) {
        finish(c, CONNECTION_BROKEN, 0,
               "the broker sent a message of more than %d bytes",
               CONNECTION_MESSAGE_MAX);
        return -1;
    }
    if (size)
        buf_add(&c->message, bytes, size);
    if (c->message.failed) {
        finish(c, CONNECTION_MEMORY, 0, "no memory");
        return -1;
    }
    if (lws_is_final_fragment(wsi) && !lws_remaining_packet_payload(wsi)) {
        if (!c->plan->on_message(c->message.data, c->message.size,
                                 c->plan->user)) {
            finish(c, CONNECTION_ENOUGH, 0, "%s", "");
            return -1;
        }
        buf_clear(&c->message);
    }
    listen_again(c, wsi); /* after on_message, whose time is not silence */
    return 0;
}

static void
fail_to_connect(struct connection *c, const char *why, size_t size)
{
    if (c->status)
        finish(c, CONNECTION_REFUSED, c->status, "the broker opened no stream");
    else if (c->distrust)
        finish(c, CONNECTION_LOST, 0, "the certificate of %s is not good: %s",
               c->plan->url->authority, c->distrust);
    else
        finish(c, CONNECTION_LOST, 0, "cannot connect to %s%s%.*s",
               c->plan->url->authority, size ? ": " : "", (int)size,
               why ? why : "");
}

static void
take_farewell(struct connection *c, const unsigned char *bytes, size_t size)
{
    if (size < 2)
        finish(c, CONNECTION_CLOSED, 0, "the broker ended the connection");
    else
        finish(c, CONNECTION_CLOSED, (unsigned)bytes[0] << 8 | bytes[1], "%.*s",
               (int)(size - 2), (const char *)bytes + 2);
}

/* The library cuts the name of the host at its first colon, and an address of
 * IPv6 with it: here it is whole. Addresses are not to be told (RFC 6066
 * section 3). */
static void
on_handshake(const SSL *ssl, int where, int unused)
{
    struct connection *c = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    X509_VERIFY_PARAM *expected = SSL_get0_param((SSL *)ssl);

    (void)unused;
    if (!(where & SSL_CB_HANDSHAKE_START) ||
        !X509_VERIFY_PARAM_set1_ip_asc(expected, c->plan->url->host))
        return;
    X509_VERIFY_PARAM_set1_host(expected, NULL, 0);
    SSL_set_tlsext_host_name((SSL *)ssl, NULL);
}

/* Who is trusted: the system's certificates (the library has put them there)
 * and those of a file. */
static void
set_trust(struct connection *c, SSL_CTX *ctx)
{
    const char *file = client_ca_file();

    SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
    SSL_CTX_set_app_data(ctx, c);
    SSL_CTX_set_info_callback(ctx, on_handshake);
    if (file && SSL_CTX_load_verify_file(ctx, file) != 1)
        finish(c, CONNECTION_LOST, 0, "cannot read certificates from %s", file);
}

static int
on_event(struct lws *wsi, enum lws_callback_reasons reason, void *user,
         void *in, size_t size)
{
    struct connection *c = lws_context_user(lws_get_context(wsi));

    if (c->is_over)
        return 0;
    switch (reason) {
    case LWS_CALLBACK_RAW_RX_FILE: /* the eventfd of td_stop */
        finish(c, CONNECTION_STOPPED, 0, "%s", "");
        return 0;
    case LWS_CALLBACK_OPENSSL_LOAD_EXTRA_CLIENT_VERIFY_CERTS:
        set_trust(c, user);
        return 0;
    case LWS_CALLBACK_OPENSSL_PERFORM_SERVER_CERT_VERIFICATION:
        if (!size) /* it was found bad, and stays bad */
            c->distrust = X509_verify_cert_error_string(
                X509_STORE_CTX_get_error((X509_STORE_CTX *)user));
        return 0;
    case LWS_CALLBACK_CLIENT_HTTP_REDIRECT: /* not followed */
        c->status = (unsigned)size;
        return 1;
    case LWS_CALLBACK_ESTABLISHED_CLIENT_HTTP: /* whatever the status */
        c->status = lws_http_client_http_response(wsi);
        return 0;
    case LWS_CALLBACK_CLIENT_CONNECTION_ERROR:
        fail_to_connect(c, in, in ? size : 0);
        return 0;
    case LWS_CALLBACK_CLIENT_ESTABLISHED:
        listen_again(c, wsi);
        return 0;
    case LWS_CALLBACK_CLIENT_RECEIVE:
        return receive(c, wsi, in, size);
    case LWS_CALLBACK_TIMER:
        finish(c, CONNECTION_LOST, 0, "silence for %.1f s",
               *c->plan->idle_ms / 1000.0);
        return -1;
    case LWS_CALLBACK_WS_PEER_INITIATED_CLOSE:
        take_farewell(c, in, size);
        return 0;
    case LWS_CALLBACK_CLIENT_CLOSED:
        finish(c, CONNECTION_LOST, 0, "the connection broke");
        return 0;
    default:
        return 0;
    }
}

/* Lets the context's loop wake on td_stop too. */
static bool
adopt_stop(struct lws_context *context, int stop_fd)
{
    lws_sock_file_fd_type fd = {.filefd = dup(stop_fd)};
    struct lws_vhost *vhost = lws_get_vhost_by_name(context, "default");

    if (fd.filefd < 0)
        return false;
    if (vhost && lws_adopt_descriptor_vhost(vhost, LWS_ADOPT_RAW_FILE_DESC, fd,
                                            "resourcesync", NULL))
        return true;
    close(fd.filefd);
    return false;
}

static struct lws_context *
make_context(struct connection *c, const struct lws_protocols *protocols)
{
    struct lws_context_creation_info info = {0};

    info.port = CONTEXT_PORT_NO_LISTEN;
    info.protocols = protocols;
    info.gid = (gid_t)-1;
    info.uid = (uid_t)-1;
    info.user = c;
    info.timeout_secs = CONNECT_SECONDS;
    info.connect_timeout_secs = CONNECT_SECONDS;
    info.http_proxy_address = ""; /* not from the environment */
    if (c->plan->url->is_tls)
        info.options |= LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT;
    return lws_create_context(&info);
}

static void
begin(struct connection *c)
{
    struct lws_client_connect_info info = {0};

    info.context = c->context;
    info.address = c->plan->url->host;
    info.port = c->plan->url->port;
    info.path = c->plan->target;
    info.host = c->plan->url->authority;
    info.protocol = c->plan->subprotocol;
    info.local_protocol_name = "resourcesync";
    info.ietf_version_or_minus_one = -1;
    info.alpn = "http/1.1";
    info.ssl_connection = c->plan->url->is_tls ? LCCSCF_USE_SSL : 0;
    if (!lws_client_connect_via_info(&info))
        fail_to_connect(c, NULL, 0);
}

void
connection_set_up(void)
{
    lws_set_log_level(0, NULL); /* a library is silent */
}

void
connection_run(struct td_client *client, const struct connection_plan *plan,
               struct connection_end *end)
{
    const struct lws_protocols protocols[] = {
        {.name = "resourcesync",
         .callback = on_event,
         .rx_buffer_size = RX_BYTES},
        {.name = NULL},
    };
    struct connection c = {.plan = plan, .end = end};

    buf_init(&c.message, CONNECTION_MESSAGE_MAX);
    c.context = make_context(&c, protocols);
    if (c.is_over)
        ; /* already known not to come about */
    else if (!c.context || !adopt_stop(c.context, client->stop_fd))
        finish(&c, CONNECTION_MEMORY, 0, "no memory or descriptors left");
    else
        begin(&c);

    while (!c.is_over)
        if (lws_service(c.context, 0) < 0)
            finish(&c, CONNECTION_LOST, 0, "the connection broke");

    if (c.context)
        lws_context_destroy(c.context);
    buf_fini(&c.message);
}
