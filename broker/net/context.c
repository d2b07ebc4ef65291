/*
 * context.c - the library's context of a service thread: every setting of it.
 */
#include <string.h>
#include <sys/resource.h>

#include "broker/base/diag.h"
#include "broker/net/connection.h"
#include "broker/net/exchange.h"
#include "broker/net/service.h"
#include "broker/net/stream.h"
#include "broker/net/tls.h"

/* All headers of a request. The library closes without a word when they are
 * longer, so there is room left above HEADER_MAX in which to answer 431. */
#define HEADER_DATA (2 * HEADER_MAX)

/* Requests whose headers are being read, per thread; more wait. */
#define HEADER_POOL 4096

/* Longer than any deadline of ours: the library's timers are to stay quiet. */
#define NEVER_S 100000

/* What a WebSocket client sends arrives in pieces of this size. It is memory of
 * each connection; control frames must fit (125 bytes). */
#define RECEIVE_SIZE 256

/* At least the largest frame, and the largest piece of an answer: with less,
 * the library copies the rest of every write. */
#define SEND_SIZE (STREAM_FRAME_MAX + 65536)

/* Above this the library takes the limit for a mistake, and 2,560 instead. */
#define FILES_MAX 1048576

/* The first of the protocols is also asked for the certificate, once, while the
 * context is made. */
static int
first_dispatch(struct lws *wsi, enum lws_callback_reasons reason, void *user,
               void *in, size_t size)
{
    const struct service *service = NULL;

    if (reason != LWS_CALLBACK_OPENSSL_LOAD_EXTRA_SERVER_VERIFY_CERTS)
        return connection_dispatch(wsi, reason, user, in, size);
    service = lws_context_user(lws_get_context(wsi));
    return tls_apply(service->server->tls, user) ? 0 : -1;
}

/* A name with a space cannot be asked for as a subprotocol. The first is for
 * everything that is not a WebSocket with a subprotocol. */
static const struct lws_protocols protocols[] = {
    {"tidings http", first_dispatch, 0, RECEIVE_SIZE, 0, NULL, SEND_SIZE},
    {"tidings listener", listeners_dispatch, 0, 0, 0, NULL, 0},
    {"resourcesync.json", connection_dispatch, 0, RECEIVE_SIZE, 0, NULL,
     SEND_SIZE},
    {"resourcesync.xml", connection_dispatch, 0, RECEIVE_SIZE, 0, NULL,
     SEND_SIZE},
    {NULL, NULL, 0, 0, 0, NULL, 0},
};

const char *const *
context_subprotocols(void)
{
    static const char *const names[] = {"resourcesync.json", "resourcesync.xml",
                                        NULL};

    return names;
}

/* While contexts are made, complaints matter: the reason why they cannot be. */
static void
write_log(int level, const char *line)
{
    (void)level;
    diag(DIAG_WARNING, "net", "libwebsockets: %.*s", (int)strcspn(line, "\n"),
         line);
}

/* The library makes tables by the limit of open files. */
static void
limit_files(void)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) || files.rlim_cur <= FILES_MAX)
        return;
    files.rlim_cur = FILES_MAX;
    setrlimit(RLIMIT_NOFILE, &files);
}

enum status
context_init(struct service *service, struct problem *why)
{
    /* No pings and no hanging up on silence: a client that does not read for
     * minutes is not lost, and one that vanished is found by TCP. */
    static const lws_retry_bo_t no_pings = {.secs_since_valid_ping = 0};
    static struct lws_token_limits limits;
    void *loops[] = {&service->loop};
    struct lws_context_creation_info info = {
        .port = CONTEXT_PORT_NO_LISTEN_SERVER,
        .protocols = protocols,
        .user = service,
        .options = LWS_SERVER_OPTION_LIBUV |
                   /* unknown methods: LWS_CALLBACK_RAW_RX, else a bare 403 */
                   LWS_SERVER_OPTION_FALLBACK_TO_APPLY_LISTEN_ACCEPT_CONFIG,
        .foreign_loops = loops,
        .alpn = "http/1.1",
        .pt_serv_buf_size = 65536,
        .max_http_header_pool2 = HEADER_POOL,
        .max_http_header_data2 = HEADER_DATA,
        .token_limits = &limits,
        .timeout_secs = NEVER_S,
        .timeout_secs_ah_idle = NEVER_S,
        .keepalive_timeout = NEVER_S,
        .retry_and_idle_policy = &no_pings,
        .pcontext = &service->context,
    };

    /* What does not begin like TLS goes the way of unknown methods, and hears
     * why; the library peeks at the first byte. */
    if (service->server->tls) {
        info.options |= LWS_SERVER_OPTION_CREATE_VHOST_SSL_CTX |
                        LWS_SERVER_OPTION_ALLOW_NON_SSL_ON_SSL_PORT;
        info.provided_client_ssl_ctx = tls_client_ctx(service->server->tls);
    }

    /* Contexts are made one after another, before any thread runs. */
    for (size_t i = 0; i < WSI_TOKEN_COUNT; i++)
        limits.token_limit[i] = HEADER_MAX;
    limit_files();

    /* Silent in operation: the library reports every broken client as an error
     * of its own, and composes the lines of all threads in one buffer. */
    lws_set_log_level(LLL_ERR | LLL_WARN, write_log);
    service->context = lws_create_context(&info);
    lws_set_log_level(0, write_log);
    /* With a foreign loop a failed context comes back, half destroyed. */
    if (service->context)
        service->vhost = lws_get_vhost_by_name(service->context, "default");
    if (!service->vhost)
        return problem(why, STATUS_IO,
                       "libwebsockets does not start; is the package "
                       "libwebsockets-evlib-uv installed?");
    return STATUS_OK;
}

/* With a foreign loop lws_context_destroy only begins, and nothing in the loop
 * goes on to the end; called again, it does. */
void
context_begin_end(struct service *service)
{
    if (service->vhost) /* else it has begun by itself */
        lws_context_destroy(service->context);
}

void
context_end(struct service *service)
{
    if (service->context)
        lws_context_destroy(service->context);
}
