/*
 * curl_loop.c - libcurl on the handle's loop.
 *
 *     libcurl  --- socket, interest --->  descriptor  curl_multi_socket_action
 *              --- timeout ------------>  timer  --> then: finished transfers
 *
 * A timer of 0 ms reports finished transfers, not libcurl's own callbacks: so
 * the owners may begin, end and free transfers at will.
 */
#include "client/lib/curl_loop.h"

#include "base/certificates.h"

/* Connections that are kept open for the next request. */
#define CONNECTIONS_KEPT 64L

struct curl_loop {
    struct td_client *client;
    CURLM *multi;
    struct timer timeout; /* libcurl's */
    struct timer finish;  /* 0 ms: report finished and lost transfers */
    struct list lost;     /* struct curl_loop_transfer */
};

static void
socket_action(struct curl_loop *web, curl_socket_t fd, int flags)
{
    int running;

    curl_multi_socket_action(web->multi, fd, flags, &running);
    timer_start(&web->finish, 0);
}

static void
on_timeout(void *user)
{
    socket_action(user, CURL_SOCKET_TIMEOUT, 0);
}

/* Reports finished transfers, and lost ones. Each one is out of the multi
 * before its owner's callback, which may free it; the loop then asks for the
 * next one. */
static void
on_finish(void *user)
{
    struct curl_loop *web = user;
    struct curl_loop_transfer *transfer;
    CURLMsg *message;
    int left;

    list_until_empty (transfer, &web->lost, lost) {
        curl_loop_remove(web, transfer);
        transfer->on_done(CURLE_OUT_OF_MEMORY, transfer->user);
    }
    while ((message = curl_multi_info_read(web->multi, &left))) {
        CURLcode result = message->data.result;

        if (message->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE,
                          (char **)&transfer);
        curl_loop_remove(web, transfer);
        transfer->on_done(result, transfer->user);
    }
}

/* A watched descriptor of libcurl, which has the same numbers for events. */
_Static_assert(CURL_POLL_IN == READY_READ && CURL_CSELECT_IN == READY_READ &&
                   CURL_POLL_OUT == READY_WRITE &&
                   CURL_CSELECT_OUT == READY_WRITE,
               "events of libcurl");

struct socket {
    struct curl_loop *web;
    curl_socket_t fd;
    struct descriptor *descriptor;
};

static void
on_socket_ready(int events, void *user)
{
    struct socket *socket = user;

    socket_action(socket->web, socket->fd, events);
}

static int
on_socket(CURL *easy, curl_socket_t fd, int what, void *user, void *known)
{
    struct curl_loop *web = user;
    struct socket *socket = known;

    if (what == CURL_POLL_REMOVE) {
        if (socket)
            descriptor_free(socket->descriptor);
        free(socket);
        curl_multi_assign(web->multi, fd, NULL);
        return 0;
    }
    if (!socket) {
        socket = calloc(1, sizeof(*socket));
        if (socket) {
            socket->web = web;
            socket->fd = fd;
            socket->descriptor =
                descriptor_new(web->client->loop, fd, on_socket_ready, socket);
        }
        if (!socket || !socket->descriptor) {
            struct curl_loop_transfer *transfer = NULL;

            /* Nobody watches the socket of this transfer, so the loop ends
             * it. After an error from here libcurl would end all transfers,
             * and each only when it next wakes, perhaps never. */
            free(socket);
            curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&transfer);
            if (list_is_empty(&transfer->lost))
                list_append(&web->lost, &transfer->lost);
            timer_start(&web->finish, 0);
            return 0;
        }
        curl_multi_assign(web->multi, fd, socket);
    }
    descriptor_set(socket->descriptor, what);
    return 0;
}

static int
on_timer(CURLM *multi, long ms, void *user)
{
    struct curl_loop *web = user;

    (void)multi;
    if (ms < 0)
        timer_stop(&web->timeout);
    else
        timer_start(&web->timeout, (uint64_t)ms);
    return 0;
}

struct curl_loop *
curl_loop_new(struct td_client *client)
{
    struct curl_loop *web = calloc(1, sizeof(*web));

    if (!web)
        return NULL;
    web->client = client;
    list_init(&web->lost);
    web->multi = curl_multi_init();
    timer_init(&web->timeout, client->loop, on_timeout, web);
    timer_init(&web->finish, client->loop, on_finish, web);
    if (!web->multi) {
        curl_loop_free(web);
        return NULL;
    }
    curl_multi_setopt(web->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(web->multi, CURLMOPT_SOCKETDATA, web);
    curl_multi_setopt(web->multi, CURLMOPT_TIMERFUNCTION, on_timer);
    curl_multi_setopt(web->multi, CURLMOPT_TIMERDATA, web);
    curl_multi_setopt(web->multi, CURLMOPT_MAXCONNECTS, CONNECTIONS_KEPT);
    return web;
}

void
curl_loop_free(struct curl_loop *web)
{
    if (!web)
        return;
    /* While it closes connections, libcurl may still report sockets. */
    curl_multi_cleanup(web->multi);
    timer_stop(&web->timeout);
    timer_stop(&web->finish);
    free(web);
}

bool
curl_loop_add(struct curl_loop *web, struct curl_loop_transfer *transfer)
{
    list_init(&transfer->lost);
    transfer->is_under_way = !curl_multi_add_handle(web->multi, transfer->easy);
    return transfer->is_under_way;
}

void
curl_loop_remove(struct curl_loop *web, struct curl_loop_transfer *transfer)
{
    if (!transfer->is_under_way)
        return;
    transfer->is_under_way = false;
    list_remove(&transfer->lost);
    curl_multi_remove_handle(web->multi, transfer->easy);
}

bool
curl_loop_header(struct curl_slist **headers, const char *line)
{
    struct curl_slist *longer = curl_slist_append(*headers, line);

    if (longer)
        *headers = longer;
    return longer != NULL;
}

/* Proxies */

/* The first of the variables that is set and not empty; NULL: none. */
static const char *
first_env(const char *const *names)
{
    const char *value = NULL;

    for (; *names && (!value || !value[0]); names++)
        value = getenv(*names);
    return value && value[0] ? value : NULL;
}

/* True if `host` is `name` or ends with a dot and it: "www.example.org". */
static bool
is_below(struct slice host, struct slice name)
{
    while (slice_take_char(&name, '.'))
        continue;
    while (name.size > 0 && name.data[name.size - 1] == '.')
        name.size--;
    return name.size > 0 && host.size >= name.size &&
           !strncasecmp(host.data + host.size - name.size, name.data,
                        name.size) &&
           (host.size == name.size ||
            host.data[host.size - name.size - 1] == '.');
}

const char *
curl_loop_proxy(const char *scheme, const char *host)
{
    static const char *const of_http[] = {"http_proxy", "all_proxy",
                                          "ALL_PROXY", NULL};
    static const char *const of_https[] = {"https_proxy", "HTTPS_PROXY",
                                           "all_proxy", "ALL_PROXY", NULL};
    static const char *const of_none[] = {"no_proxy", "NO_PROXY", NULL};
    static const char between[] = ", \t";
    const char *proxy =
        first_env(strcasecmp(scheme, "https") ? of_http : of_https);
    const char *excepted = first_env(of_none);
    struct sockaddr_storage address;
    bool is_address = address_read(host, &address);
    struct networks network;

    if (!excepted || !strcmp(excepted, "*"))
        return excepted ? NULL : proxy;
    while (*(excepted += strspn(excepted, between))) {
        struct slice name = {excepted, strcspn(excepted, between)};

        if (is_below(slice_of(host), name) ||
            (is_address && !networks_read(name, false, &network, NULL) &&
             networks_contain(&network, (const struct sockaddr *)&address)))
            return NULL;
        excepted += name.size;
    }
    return proxy;
}

/* Addresses */

bool
curl_loop_url_part(CURLU *url, CURLUPart what, unsigned flags, char *to,
                   size_t size)
{
    char *part = NULL;
    size_t n, is_ipv6;
    bool fits;

    if (curl_url_get(url, what, &part, flags))
        return false;
    n = strlen(part);
    is_ipv6 = what == CURLUPART_HOST && part[0] == '[' && part[n - 1] == ']';
    n -= 2 * is_ipv6;
    fits = n < size;
    if (fits)
        snprintf(to, size, "%.*s", (int)n, part + is_ipv6);
    curl_free(part);
    return fits;
}

bool
curl_loop_read_url(const char *url, char scheme[CURL_LOOP_SCHEME_SIZE],
                   char host[CURL_LOOP_HOST_SIZE])
{
    CURLU *parts = curl_url();
    bool is_url =
        parts && !curl_url_set(parts, CURLUPART_URL, url, 0) &&
        curl_loop_url_part(parts, CURLUPART_SCHEME, 0, scheme,
                           CURL_LOOP_SCHEME_SIZE) &&
        curl_loop_url_part(parts, CURLUPART_HOST, 0, host, CURL_LOOP_HOST_SIZE);

    curl_url_cleanup(parts);
    return is_url;
}

/* As libcurl does it, but closed in programs that the process executes. */
static curl_socket_t
open_socket(void *user, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct curl_loop_transfer *transfer = user;

    (void)purpose;
    if (!address_policy_allows(&transfer->check, &address->addr, false))
        return CURL_SOCKET_BAD;
    return socket(address->family, address->socktype | SOCK_CLOEXEC,
                  address->protocol);
}

/* Judges the address. A kept connection may be another source's, or older than
 * a move of this one. */
static int
on_connected(void *user, char *address, char *local, int port, int local_port)
{
    struct curl_loop_transfer *transfer = user;
    struct sockaddr_storage of;

    (void)local;
    (void)port;
    (void)local_port;
    return address_read(address, &of) &&
                   address_policy_allows(&transfer->check,
                                         (const struct sockaddr *)&of, true)
               ? CURL_PREREQFUNC_OK
               : CURL_PREREQFUNC_ABORT;
}

const char *
curl_loop_ca_file(void)
{
    return first_env(
        (const char *const[]){"CURL_CA_BUNDLE", "SSL_CERT_FILE", NULL});
}

/* CURLOPT_SSL_CTX_FUNCTION. */
static CURLcode
raise_level(CURL *easy, void *ssl_ctx, void *user)
{
    (void)easy;
    (void)user;
    return openssl_raise_level(ssl_ctx) ? CURLE_OK : CURLE_SSL_CONNECT_ERROR;
}

/* Refuses what OpenSSL's level 2 refuses, also where the system's configuration
 * permits more. A libcurl with another library for TLS keeps to the versions
 * alone. */
static void
set_tls(CURL *easy, const struct server *own)
{
    const struct curl_tlssessioninfo *tls = NULL;

    curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    if (!curl_easy_getinfo(easy, CURLINFO_TLS_SSL_PTR, &tls) && tls &&
        tls->backend == CURLSSLBACKEND_OPENSSL)
        curl_easy_setopt(easy, CURLOPT_SSL_CTX_FUNCTION, raise_level);
    if (own && own->cert) {
        curl_easy_setopt(easy, CURLOPT_SSLCERT, own->cert);
        curl_easy_setopt(easy, CURLOPT_SSLKEY, own->key);
        /* Else OpenSSL would ask on the terminal. */
        curl_easy_setopt(easy, CURLOPT_KEYPASSWD, "");
    }
    if (!curl_loop_ca_file())
        return;
    curl_easy_setopt(easy, CURLOPT_CAINFO, curl_loop_ca_file());
    /* Read for each connection: the file may have changed. */
    curl_easy_setopt(easy, CURLOPT_CA_CACHE_TIMEOUT, 0L);
}

bool
curl_loop_add_own(const struct td_client *client, const char *url,
                  bool is_proxied, struct curl_slist **headers,
                  unsigned *token_version)
{
    static const char field[] = "Authorization:";
    const struct server *server = servers_find(&client->servers, url);
    char line[sizeof("Authorization: Bearer ") + TOKEN_MAX];
    bool is_good;

    *token_version = 0;
    for (size_t i = 0; server && i < server->n_lines; i++)
        if (!curl_loop_header(headers, server->lines[i]))
            return false;
    /* libcurl sends no line of the request to the proxy of a tunnel; without a
     * tunnel the proxy would read the token. */
    if (!server || !server->token_version ||
        (is_proxied && strncasecmp(url, "https:", 6) != 0))
        return true;
    /* A line of the program's own stays. */
    for (const struct curl_slist *own = *headers; own; own = own->next)
        if (!strncasecmp(own->data, field, sizeof(field) - 1))
            return true;
    *token_version = server->token_version;
    snprintf(line, sizeof(line), "%s Bearer %s", field, server->token.text);
    is_good = curl_loop_header(headers, line);
    explicit_bzero(line, sizeof(line));
    return is_good;
}

bool
curl_loop_prepare(struct td_client *client, struct curl_loop_transfer *transfer,
                  const struct curl_slist *lines)
{
    char scheme[CURL_LOOP_SCHEME_SIZE] = "", host[CURL_LOOP_HOST_SIZE] = "";
    bool is_url = curl_loop_read_url(transfer->url, scheme,
                                     host); /* else libcurl refuses it */
    bool is_proxied = is_url && curl_loop_proxy(scheme, host);
    CURL *easy = transfer->easy;

    if (!easy)
        easy = transfer->easy = curl_easy_init();
    if (!easy)
        return false;
    curl_easy_reset(easy);
    curl_slist_free_all(transfer->headers);
    transfer->headers = NULL;
    transfer->error[0] = '\0';
    curl_easy_setopt(easy, CURLOPT_PRIVATE, transfer);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer->error);
    curl_easy_setopt(easy, CURLOPT_URL, transfer->url);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    set_tls(easy, servers_find(&client->servers, transfer->url));
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    address_policy_begin(&client->reach, &transfer->check, host,
                         transfer->is_own, is_proxied);
    curl_easy_setopt(easy, CURLOPT_NOPROXY, is_proxied ? "" : "*");
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, transfer);
    curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, on_connected);
    curl_easy_setopt(easy, CURLOPT_PREREQDATA, transfer);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "libtidings/" TIDINGS_VERSION);
    for (; lines; lines = lines->next)
        if (!curl_loop_header(&transfer->headers, lines->data))
            return false;
    return curl_loop_add_own(client, transfer->url, is_proxied,
                             &transfer->headers, &transfer->token_version);
}
