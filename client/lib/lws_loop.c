/*
 * lws_loop.c - libwebsockets' client role on the handle's loop.
 *
 * A handle has one context of libwebsockets, made for its first WebSocket: a
 * buffer of 64 KB, and tables for CONNECTIONS_MAX connections. It runs on the
 * handle's own libuv loop (a "foreign" one), so a WebSocket needs no thread,
 * and a program that turns the handle by itself (td_fd) needs to know nothing.
 *
 * libwebsockets binds TLS and a proxy to a "vhost". There is one for each
 * server, certificate and file of authorities, as they are now, and it has an
 * SSL_CTX of ours: the names of the server stand there, because libwebsockets
 * takes a name apart at its first colon, also [::1].
 *
 * What this file does itself, and why (libwebsockets 4.1.6):
 *
 *   - Names are looked up on libuv's pool: the library would block the loop.
 *     It gets one address after the other, each judged before.
 *   - Time: the library sets libuv's timer for its own time limits only when
 *     something else happens. All its limits are a day; the owner of a link has
 *     its own, and here each address but the last has ADDRESS_MS.
 *   - SIGPIPE: the library ignores it, in the whole process. The signals are
 *     the program's, so what was before is set again.
 *   - A connection that fails leaves its uv_poll_t open (close_watcher).
 *   - permessage-deflate: the library's own extension ends the process, or
 *     loses bytes, when its buffer is full to the last byte. The one here only
 *     agrees, once; the owner of a link inflates whole messages.
 *   - Its log is silent.
 */
#include "client/lib/lws_loop.h"

#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include <openssl/x509v3.h>

#include "base/certificates.h"
#include "base/inflater.h"

/* Milliseconds to connect to an address, if there is another one. */
#define ADDRESS_MS 4000

/* Bytes that the library reads at once, and its buffer for a request. */
#define BUFFER_SIZE 65536

/* WebSockets of a handle. Each place takes 16 bytes. */
#define CONNECTIONS_MAX 4000

/* A day: not the library's limit. */
#define NO_LIMIT_S 86400

/* Bytes of an answer's head, with the lines of the request. */
#define HEAD_MAX 16384

/* What the library has room for in its lines of the request. */
#define URL_MAX  2000
#define HOST_MAX 90

struct vhost {
    struct vhost *next;
    char *key; /* everything that it depends on */
    struct lws_vhost *lws;
    SSL_CTX *tls; /* NULL: without TLS */
};

/* An eventfd, and a descriptor that is a copy of it; -1: none. */
struct event {
    int fd, copy;
};

struct lws_loop {
    struct td_client *client;
    struct lws_context *context; /* NULL: it could not be made */
    struct vhost *vhosts;
    struct inflater *inflater; /* NULL: no deflated message yet */
    struct event event;
};

/* A look-up may outlive its link. */
struct look_up {
    uv_getaddrinfo_t uv;
    struct lws_link *link; /* NULL: it was closed */
};

static int on_event(struct lws *wsi, enum lws_callback_reasons what, void *user,
                    void *in, size_t size);

/* The library takes the first one for plain HTTP: a WebSocket has another. */
static const struct lws_protocols protocols[] = {
    {"resourcesync.json", on_event, 0, BUFFER_SIZE, 0, NULL, 0},
    {"resourcesync.xml", on_event, 0, BUFFER_SIZE, 0, NULL, 0},
    {NULL, NULL, 0, 0, 0, NULL, 0},
};

/* permessage-deflate */

enum { SERVER_KEEPS_NOTHING, CLIENT_KEEPS_NOTHING, SERVER_BITS };

static const struct lws_ext_options deflate_options[] = {
    [SERVER_KEEPS_NOTHING] = {"server_no_context_takeover", EXTARG_NONE},
    [CLIENT_KEEPS_NOTHING] = {"client_no_context_takeover", EXTARG_NONE},
    [SERVER_BITS] = {"server_max_window_bits", EXTARG_DEC},
    {NULL, EXTARG_NONE},
};

static int
on_deflate(struct lws_context *context, const struct lws_extension *extension,
           struct lws *wsi, enum lws_extension_callback_reasons what,
           void *user, void *in, size_t size)
{
    struct lws_link *link = lws_get_opaque_user_data(wsi);
    const struct lws_ext_option_arg *option = in;

    (void)context;
    (void)extension;
    (void)user;
    (void)size;
    if (what == LWS_EXT_CB_CLIENT_CONSTRUCT) {
        /* The library has room for one, and does not count: for another one it
         * writes behind its memory, unless that fails here. */
        if (!link || link->n_extensions++ > 0)
            return -1;
        *(const struct lws_ext_options **)in = deflate_options;
    } else if (what == LWS_EXT_CB_OPTION_SET && link)
        link->is_deflated |= option->option_index == SERVER_KEEPS_NOTHING;
    else if (what == LWS_EXT_CB_OPTION_CONFIRM)
        return link && link->is_deflated ? 0 : -1;
    return 0;
}

static const struct lws_extension extensions[] = {
    {"permessage-deflate", on_deflate,
     "permessage-deflate; server_no_context_takeover; "
     "client_no_context_takeover"},
    {NULL, NULL, NULL},
};

/* Life cycle */

static void
free_vhost(struct vhost *vhost)
{
    SSL_CTX_free(vhost->tls);
    free(vhost->key);
    free(vhost);
}

/*
 * libwebsockets 4.3.5 (Debian 13) never closes the eventfd by which it wakes
 * its loop. It is the one among the handles of libuv that was not there before
 * the context was made. (Its number does not say that: the kernel gives numbers
 * of closed ones again.) A copy of the descriptor keeps the number from others,
 * so at the end the number shows whether the descriptor is still the library's:
 * alone it may be another thread's by then. 4.1.6 has a pipe, and closes it.
 */

/* The kernel's number of an eventfd; 0: this is none. */
static unsigned
event_id(int fd)
{
    char path[40], line[80];
    unsigned id = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
    file = fopen(path, "re");
    while (file && id == 0 && fgets(line, sizeof(line), file))
        (void)sscanf(line, "eventfd-id: %u", &id);
    if (file)
        fclose(file);
    return id;
}

/* Appends the descriptor of a handle, an int, to a buf. */
static void
add_polled(uv_handle_t *handle, void *polled)
{
    int fd;

    if (handle->type == UV_POLL && !uv_fileno(handle, &fd))
        buf_add(polled, &fd, sizeof(fd));
}

/* Finds the eventfd that `now` has and `before` has not. */
static struct event
new_event(const struct buf *before, const struct buf *now)
{
    struct event event = {-1, -1};
    int fd, other;

    for (size_t i = 0; i < now->size && event.fd < 0; i += sizeof(fd)) {
        bool is_new = !before->failed;

        memcpy(&fd, now->data + i, sizeof(fd));
        for (size_t k = 0; k < before->size && is_new; k += sizeof(fd)) {
            memcpy(&other, before->data + k, sizeof(other));
            is_new = other != fd;
        }
        if (is_new && event_id(fd) > 0)
            event = (struct event){fd, fcntl(fd, F_DUPFD_CLOEXEC, 0)};
    }
    return event;
}

static void
close_event(struct event event)
{
    if (event.copy < 0)
        return;
    if (event_id(event.fd) == event_id(event.copy))
        close(event.fd);
    close(event.copy);
}

void
lws_loop_free(struct lws_loop *web)
{
    struct vhost *vhost;

    if (!web)
        return;
    if (web->context) {
        /* libuv needs two turns to close the handles of the library, which
         * then frees the rest. */
        lws_context_destroy(web->context);
        for (int i = 0; i < 4; i++)
            loop_turn(handle_loop_base(web->client->loop), false);
        lws_context_destroy(web->context);
        close_event(web->event);
    }
    while ((vhost = web->vhosts)) {
        web->vhosts = vhost->next;
        free_vhost(vhost);
    }
    inflater_free(web->inflater);
    free(web);
}

struct inflater *
lws_loop_inflater(struct lws_loop *web)
{
    if (!web->inflater)
        web->inflater = inflater_new();
    return web->inflater;
}

/* Makes the loop of the client's WebSockets for the first one. One at a time in
 * a process, because of SIGPIPE. False: no memory. */
static bool
open_context(struct td_client *client)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    void *loops[] = {loop_uv(handle_loop_base(client->loop))};
    struct lws_context_creation_info info = {
        .port = CONTEXT_PORT_NO_LISTEN,
        .options = LWS_SERVER_OPTION_LIBUV | LWS_SERVER_OPTION_EXPLICIT_VHOSTS,
        .foreign_loops = loops,
        .gid = (gid_t)-1,
        .uid = (uid_t)-1,
        .pt_serv_buf_size = BUFFER_SIZE,
        .fd_limit_per_thread = CONNECTIONS_MAX,
        .max_http_header_data2 = HEAD_MAX,
        .timeout_secs = NO_LIMIT_S,
    };
    struct buf before_it = {.max = SIZE_MAX}, now = {.max = SIZE_MAX};
    struct sigaction before;

    if (!client->sockets)
        client->sockets = calloc(1, sizeof(*client->sockets));
    if (!client->sockets || client->sockets->context)
        return client->sockets;
    client->sockets->client = client;
    info.user = client->sockets;
    pthread_mutex_lock(&mutex);
    sigaction(SIGPIPE, NULL, &before);
    uv_walk(loops[0], add_polled, &before_it);
    client->sockets->context = lws_create_context(&info);
    uv_walk(loops[0], add_polled, &now);
    if (client->sockets->context)
        client->sockets->event = new_event(&before_it, &now);
    buf_fini(&before_it);
    buf_fini(&now);
    sigaction(SIGPIPE, &before, NULL);
    pthread_mutex_unlock(&mutex);
    return client->sockets->context;
}

/* TLS */

/* Adds a file to a key: its path, and whether it is still the same one. */
static void
add_file(struct buf *key, const char *path)
{
    struct stat of = {.st_size = 0};

    if (!path)
        return;
    (void)!stat(path, &of);
    buf_add_format(key, " %s:%lld:%lld.%ld", path, (long long)of.st_size,
                   (long long)of.st_mtim.tv_sec, of.st_mtim.tv_nsec);
}

/* NULL: `why` has the reason. */
static SSL_CTX *
new_tls(const char *host, const struct server *server, struct problem *why)
{
    SSL_CTX *tls = SSL_CTX_new(TLS_client_method());
    X509_VERIFY_PARAM *names = tls ? SSL_CTX_get0_param(tls) : NULL;
    const char *ca = curl_loop_ca_file();

    if (!tls || !openssl_raise_level(tls)) {
        problem_memory(why);
        goto failed;
    }
    SSL_CTX_set_default_verify_paths(tls);
    if (ca && SSL_CTX_load_verify_file(tls, ca) != 1) {
        problem(why, STATUS_UNREACHABLE, "cannot use the authorities of %s: %s",
                ca, openssl_reason());
        goto failed;
    }
    if (server && server->cert &&
        server_use_files(tls, server->cert, server->key, why)) {
        why->rc = STATUS_UNREACHABLE;
        goto failed;
    }
    X509_VERIFY_PARAM_set_hostflags(names,
                                    X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (X509_VERIFY_PARAM_set1_ip_asc(names, host) == 1 ||
        X509_VERIFY_PARAM_set1_host(names, host, 0) == 1)
        return tls;
    problem_memory(why);

failed:
    SSL_CTX_free(tls);
    return NULL;
}

/* The vhost of that key, which is made if needed. NULL: `why` has the reason.
 */
static struct vhost *
open_vhost(struct lws_loop *web, const char *key,
           const struct lws_target *target, const struct server *server,
           struct problem *why)
{
    struct lws_context_creation_info info = {
        .port = CONTEXT_PORT_NO_LISTEN,
        .protocols = protocols,
        .extensions = extensions,
        .connect_timeout_secs = NO_LIMIT_S,
        .http_proxy_address = "", /* else the library asks the environment */
    };
    struct vhost *vhost = web->vhosts;

    while (vhost && strcmp(vhost->key, key) != 0)
        vhost = vhost->next;
    if (vhost)
        return vhost;
    vhost = calloc(1, sizeof(*vhost));
    if (vhost && target->is_tls) {
        vhost->tls = new_tls(target->host, server, why);
        info.provided_client_ssl_ctx = vhost->tls;
        info.options = LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT;
    }
    if (vhost && !why->rc)
        vhost->key = strdup(key);
    if (vhost && vhost->key) {
        info.vhost_name = vhost->key;
        vhost->lws = lws_create_vhost(web->context, &info);
    }
    if (!vhost || !vhost->lws) {
        if (vhost)
            free_vhost(vhost);
        if (!why->rc)
            problem_memory(why);
        return NULL;
    }
    vhost->next = web->vhosts;
    web->vhosts = vhost;
    return vhost;
}

static bool
find_vhost(struct lws_link *link, struct problem *why)
{
    struct lws_target *target = &link->target;
    const struct server *server =
        servers_find(&link->client->servers, link->url);
    struct buf key = {.max = SIZE_MAX / 2};

    buf_add_text(&key, target->proxy_host[0] ? "proxied" : "direct");
    if (target->is_tls) {
        buf_add_format(&key, " %s", target->host);
        add_file(&key, curl_loop_ca_file());
        add_file(&key, server ? server->cert : NULL);
        add_file(&key, server ? server->key : NULL);
    }
    BUF_ADD(&key, "\0");
    if (key.failed || !open_context(link->client))
        problem_memory(why);
    else
        target->vhost =
            open_vhost(link->client->sockets, key.data, target, server, why);
    buf_fini(&key);
    return target->vhost != NULL;
}

/* URLs */

/* Reads the proxy of the environment. False: it is one that the library does
 * not know. */
static bool
read_proxy(struct lws_target *target)
{
    const char *text =
        curl_loop_proxy(target->is_tls ? "https" : "http", target->host);
    char scheme[CURL_LOOP_SCHEME_SIZE], user[40] = "", password[40] = "";
    CURLU *parts = NULL;
    bool is_good;

    if (!text)
        return true;
    parts = curl_url();
    is_good = parts &&
              !curl_url_set(parts, CURLUPART_URL, text,
                            CURLU_GUESS_SCHEME | CURLU_NON_SUPPORT_SCHEME) &&
              curl_loop_url_part(parts, CURLUPART_SCHEME, 0, scheme,
                                 sizeof(scheme)) &&
              !strcmp(scheme, "http") &&
              curl_loop_url_part(parts, CURLUPART_HOST, 0, target->proxy_host,
                                 sizeof(target->proxy_host));

    if (is_good &&
        !curl_loop_url_part(parts, CURLUPART_PORT, 0, target->proxy_port,
                            sizeof(target->proxy_port)))
        strcpy(target->proxy_port, "1080"); /* as libcurl does */
    if (is_good && strchr(text, '@'))
        is_good = curl_loop_url_part(parts, CURLUPART_USER, CURLU_URLDECODE,
                                     user, sizeof(user)) &&
                  curl_loop_url_part(parts, CURLUPART_PASSWORD, CURLU_URLDECODE,
                                     password, sizeof(password)) &&
                  !strchr(user, '@') && !strchr(password, '@');
    if (is_good && user[0])
        snprintf(target->proxy_login, sizeof(target->proxy_login), "%s:%s@",
                 user, password);
    curl_url_cleanup(parts);
    return is_good;
}

/* Takes the URL apart. */
static enum status
read_url(struct lws_link *link, struct lws_target *target, struct problem *why)
{
    char path[URL_MAX], query[URL_MAX] = "", port[10] = "";
    CURLU *parts = curl_url();
    bool has_query, is_ipv6;
    enum status rc = STATUS_OK;

    if (!parts)
        return problem_memory(why);
    if (strlen(link->url) >= URL_MAX)
        rc = problem(why, STATUS_UNSUPPORTED,
                     "the URL is too long for a WebSocket");
    else if (curl_url_set(parts, CURLUPART_URL, link->url, 0) ||
             !curl_loop_url_part(parts, CURLUPART_HOST, 0, target->host,
                                 sizeof(target->host)) ||
             !curl_loop_url_part(parts, CURLUPART_PORT, CURLU_DEFAULT_PORT,
                                 target->port, sizeof(target->port)) ||
             !curl_loop_url_part(parts, CURLUPART_PATH, 0, path, sizeof(path)))
        rc = problem(why, STATUS_MALFORMED, "no URL of a stream: %.200s",
                     link->url);
    else if (strlen(target->host) >= HOST_MAX)
        rc = problem(why, STATUS_UNSUPPORTED,
                     "the host name is too long for a WebSocket");
    if (rc)
        goto out;
    target->is_tls = !strncasecmp(link->url, "https:", 6);
    is_ipv6 = strchr(target->host, ':') != NULL;
    has_query =
        curl_loop_url_part(parts, CURLUPART_QUERY, 0, query, sizeof(query));
    if (strcmp(target->port, target->is_tls ? "443" : "80") != 0)
        snprintf(port, sizeof(port), ":%s", target->port);
    if (asprintf(&target->path, "%s%s%s", path, has_query ? "?" : "", query) <
            0 ||
        asprintf(&link->authority, is_ipv6 ? "[%s]%s" : "%s%s", target->host,
                 port) < 0)
        rc = problem_memory(why);
    else if (!read_proxy(target))
        rc = problem(why, STATUS_UNSUPPORTED,
                     "the proxy that the environment names carries no "
                     "WebSocket");
out:
    curl_url_cleanup(parts);
    return rc;
}

/* Connecting */

static void
drop_socket(struct lws_link *link)
{
    struct lws *wsi = link->wsi;

    link->wsi = NULL;
    if (!wsi)
        return;
    lws_set_opaque_user_data(wsi, NULL);
    if (!link->is_calling && !link->is_leaving)
        lws_set_timeout(wsi, PENDING_TIMEOUT_USER_OK, LWS_TO_KILL_SYNC);
}

/* Fails, or goes on with the next address, in a turn of the loop of its own. */
static void __attribute__((format(printf, 3, 4)))
fail_address(struct lws_link *link, enum status rc, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    problem_vset(&link->why, rc, format, args);
    va_end(args);
    timer_start(&link->timer, 0);
}

static void
refuse_address(struct lws_link *link)
{
    fail_address(link, STATUS_MALFORMED, "%s",
                 address_policy_refused(&link->check).text);
}

/* Lets the library connect to an address. False: `why` of the link says why
 * not. If the connection stands at once, the request is sent by then, and its
 * end may be reported. */
static bool
connect_to(struct lws_link *link, const struct addrinfo *to)
{
    static const lws_retry_bo_t no_pings;
    struct lws_target *target = &link->target;
    char address[NI_MAXHOST], text[NI_MAXHOST + 200];
    bool is_ipv6 = strchr(target->host, ':') != NULL;
    struct lws *wsi;
    struct lws_client_connect_info info = {
        .context = link->client->sockets->context,
        .address = address,
        .port = atoi(target->port),
        .ssl_connection = LCCSCF_HTTP_NO_FOLLOW_REDIRECT,
        .path = target->path,
        .host = link->authority,
        .protocol = "resourcesync.xml",
        .ietf_version_or_minus_one = -1,
        .vhost = target->vhost->lws,
        .alpn = "http/1.1",
        .opaque_user_data = link,
        .retry_and_idle_policy = &no_pings,
    };

    problem(&link->why, STATUS_UNREACHABLE,
            "cannot connect to %s: no connection", link->authority);
    if (getnameinfo(to->ai_addr, to->ai_addrlen, address, sizeof(address), NULL,
                    0, NI_NUMERICHOST))
        return false;
    if (target->is_tls) /* the SSL_CTX checks the name */
        info.ssl_connection |=
            LCCSCF_USE_SSL | LCCSCF_SKIP_SERVER_CERT_HOSTNAME_CHECK;
    if (target->proxy_host[0]) {
        snprintf(text, sizeof(text), "%s[%s]:%s", target->proxy_login, address,
                 target->proxy_port);
        lws_set_proxy(target->vhost->lws, text);
        snprintf(text, sizeof(text), is_ipv6 ? "[%s]" : "%s", target->host);
        info.address = text;
    }
    wsi = lws_client_connect_via_info(&info);
    if (!link->is_asked)
        link->wsi = wsi;
    return link->wsi || link->is_asked;
}

static void
connect_next(struct lws_link *link)
{
    while ((link->current = link->next)) {
        link->next = link->next->ai_next;
        if (!address_policy_allows(&link->check, link->current->ai_addr,
                                   false)) {
            refuse_address(link);
        } else if (connect_to(link, link->current)) {
            timer_stop(&link->timer);
            if (link->next && !link->is_asked)
                timer_start(&link->timer, ADDRESS_MS);
            return;
        }
    }
    timer_start(&link->timer, 0);
}

/* An address has failed, or its time is over. */
static void
on_timer(void *user)
{
    struct lws_link *link = user;

    drop_socket(link);
    if (link->next)
        connect_next(link);
    else
        link->on_failed(&link->why, link->user);
}

static void
on_looked_up(uv_getaddrinfo_t *uv, int status, struct addrinfo *addresses)
{
    struct look_up *look_up = uv->data;
    struct lws_link *link = look_up->link;

    free(look_up);
    if (!link) {
        uv_freeaddrinfo(addresses);
        return;
    }
    link->look_up = NULL;
    link->addresses = link->next = addresses;
    if (status)
        fail_address(link, STATUS_UNREACHABLE, "cannot connect to %s: %s",
                     link->authority, uv_strerror(status));
    else
        connect_next(link);
}

bool
lws_loop_open(struct lws_link *link, struct td_client *client)
{
    static const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct lws_target *target = &link->target;
    struct problem why = {.rc = STATUS_OK};
    struct look_up *look_up;
    bool is_proxied;
    unsigned version;

    link->client = client;
    timer_init(&link->timer, client->loop, on_timer, link);
    if (read_url(link, target, &why) || !find_vhost(link, &why)) {
        fail_address(link, why.rc, "%s", why.text);
        return why.rc != STATUS_MEMORY;
    }
    is_proxied = target->proxy_host[0] != '\0';
    address_policy_begin(&client->reach, &link->check, target->host, false,
                         is_proxied);
    if (!curl_loop_add_own(client, link->url, is_proxied, &target->headers,
                           &version))
        return false;
    look_up = calloc(1, sizeof(*look_up));
    if (!look_up)
        return false;
    look_up->uv.data = look_up;
    look_up->link = link;
    if (uv_getaddrinfo(
            loop_uv(handle_loop_base(client->loop)), &look_up->uv, on_looked_up,
            is_proxied ? target->proxy_host : target->host,
            is_proxied ? target->proxy_port : target->port, &hints)) {
        free(look_up);
        fail_address(link, STATUS_UNREACHABLE, "cannot connect to %s: no name",
                     link->authority);
        return true;
    }
    link->look_up = look_up;
    return true;
}

void
lws_loop_close(struct lws_link *link)
{
    drop_socket(link);
    timer_stop(&link->timer);
    if (link->look_up) {
        link->look_up->link = NULL;
        uv_cancel((uv_req_t *)&link->look_up->uv);
    }
    if (link->addresses)
        uv_freeaddrinfo(link->addresses);
    curl_slist_free_all(link->target.headers);
    free(link->target.path);
    free(link->authority);
}

/* Callbacks of the library */

/* Adds our lines to the request. Not 0: it is not to be sent. */
static int
add_headers(struct lws_link *link, char **at, size_t room)
{
    static const char first[] =
        "User-Agent: libtidings/" TIDINGS_VERSION "\r\n";
    const struct curl_slist *line = link->target.headers;
    size_t size = sizeof(first) - 1;

    if (!address_policy_allows(&link->check, link->current->ai_addr, true)) {
        link->next = NULL;
        refuse_address(link);
        return -1;
    }
    for (; line; line = line->next)
        size += strlen(line->data) + 2;
    if (size >= room) {
        link->next = NULL;
        fail_address(link, STATUS_UNSUPPORTED,
                     "the request is too long for a WebSocket");
        return -1;
    }
    *at = stpcpy(*at, first);
    for (line = link->target.headers; line; line = line->next)
        *at = stpcpy(stpcpy(*at, line->data), "\r\n");
    link->is_asked = true;
    timer_stop(&link->timer);
    return 0;
}

/* Passes an event on. What closes the link in it ends the connection. */
static int
pass_event(struct lws_link *link, enum lws_callback_reasons what, void *in,
           size_t size)
{
    int rc;

    link->is_calling = true;
    rc = link->on_event(what, in, size, link->user);
    link->is_calling = false;
    return link->wsi ? rc : -1;
}

/* The connection is over. If nothing was asked, another address may do. */
static int
end_connection(struct lws_link *link, enum lws_callback_reasons what, void *in,
               size_t size)
{
    if (link->is_asked)
        pass_event(link, what, in, size);
    else
        timer_start(&link->timer, 0);
    link->wsi = NULL;
    return 0;
}

static void
on_watcher_closed(uv_handle_t *handle)
{
    free(handle);
}

static void
close_watcher(uv_handle_t *handle, void *wsi)
{
    if (uv_handle_get_type(handle) == UV_POLL &&
        uv_handle_get_data(handle) == wsi && !uv_is_closing(handle))
        uv_close(handle, on_watcher_closed);
}

static int
on_event(struct lws *wsi, enum lws_callback_reasons what, void *user, void *in,
         size_t size)
{
    struct lws_loop *web = lws_context_user(lws_get_context(wsi));
    struct lws_link *link;

    if (what == LWS_CALLBACK_WSI_DESTROY) {
        uv_walk(loop_uv(handle_loop_base(web->client->loop)), close_watcher,
                wsi);
        return 0;
    }
    link = lws_get_opaque_user_data(wsi);
    if (!link)
        return what == LWS_CALLBACK_CLIENT_RECEIVE ? -1 : 0;
    switch (what) {
    case LWS_CALLBACK_OPENSSL_PERFORM_SERVER_CERT_VERIFICATION:
        if (!size) { /* it is not good for each address of the server */
            link->next = NULL;
            problem(
                &link->why, STATUS_UNREACHABLE,
                "the certificate of %s is not good: %s", link->authority,
                X509_verify_cert_error_string(X509_STORE_CTX_get_error(user)));
        }
        return 0;
    case LWS_CALLBACK_CLIENT_APPEND_HANDSHAKE_HEADER:
        link->wsi = wsi;
        return add_headers(link, in, size);
    case LWS_CALLBACK_CLIENT_FILTER_PRE_ESTABLISH: /* it must name ours */
        return lws_hdr_total_length(wsi, WSI_TOKEN_PROTOCOL) &&
                       link->n_extensions <= 1
                   ? 0
                   : -1;
    case LWS_CALLBACK_CLOSED_CLIENT_HTTP: /* reset before the answer */
        return end_connection(link, LWS_CALLBACK_CLIENT_CONNECTION_ERROR, NULL,
                              0);
    case LWS_CALLBACK_CLIENT_CONNECTION_ERROR:
    case LWS_CALLBACK_CLIENT_CLOSED:
        return end_connection(link, what, in, size);
    case LWS_CALLBACK_WS_PEER_INITIATED_CLOSE:
        link->is_leaving = !pass_event(link, what, in, size);
        return link->is_leaving ? 0 : -1;
    case LWS_CALLBACK_CLIENT_ESTABLISHED:
    case LWS_CALLBACK_CLIENT_RECEIVE:
    case LWS_CALLBACK_CLIENT_WRITEABLE:
        return pass_event(link, what, in, size);
    default:
        return 0;
    }
}
