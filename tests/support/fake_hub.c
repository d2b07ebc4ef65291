#include "tests/support/fake_hub.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "proto/buf.h"
#include "tests/test.h"

void
fake_hub_open(struct fake_hub *hub)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);

    hub->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(hub->listener >= 0);
    assert_int_equal(
        bind(hub->listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(hub->listener, 16), 0);
    assert_int_equal(
        getsockname(hub->listener, (struct sockaddr *)&address, &size), 0);
    snprintf(hub->url, sizeof(hub->url), "http://127.0.0.1:%u/hub",
             ntohs(address.sin_port));
    http_open(&hub->http, "");
}

void
fake_hub_close(struct fake_hub *hub)
{
    http_close(&hub->http);
    close(hub->listener);
}

bool
fake_hub_is_idle(struct fake_hub *hub)
{
    struct pollfd fd = {.fd = hub->listener, .events = POLLIN};

    return poll(&fd, 1, 0) == 0;
}

/* Head and body. */
static void
receive(struct fake_request *r)
{
    const char *body = NULL;
    const char *length;
    size_t size = 0;

    while (!body || r->head + size < body + strtoul(length + 16, NULL, 10)) {
        ssize_t n = recv(r->fd, r->head + size, sizeof(r->head) - 1 - size, 0);

        if (n <= 0)
            fail_msg("the request is not whole: %.*s", (int)size, r->head);
        size += (size_t)n;
        r->head[size] = '\0';
        body = strstr(r->head, "\r\n\r\n");
        if (!body)
            continue;
        body += 4;
        length = strcasestr(r->head, "\r\nContent-Length: ");
        assert_non_null(length);
        length += 2;
    }
    /* A byte behind the last value, too, which may become its NUL. */
    assert_true(size + 1 < sizeof(r->head));
    strcpy(r->head + size, "&");
    assert_int_equal(urlencoded_read(&r->form, slice_of(body), NULL), 0);
    r->head[size] = '\0';
}

/* There is a byte behind each name and value, which nobody needs. */
static void
terminate(struct slice text)
{
    ((char *)(uintptr_t)text.data)[text.size] = '\0';
}

void
fake_hub_take(struct fake_hub *hub, struct fake_request *request)
{
    *request = (struct fake_request){
        .fd = accept4(hub->listener, NULL, NULL, SOCK_CLOEXEC)};
    assert_true(request->fd >= 0);
    receive(request);
    /* W-020 */
    assert_memory_equal(request->head, "POST ", 5);
    assert_non_null(strcasestr(request->head, "\r\nContent-Type: "
                                              "application/"
                                              "x-www-form-urlencoded\r\n"));
    for (size_t i = 0; i < request->form.n; i++) {
        terminate(request->form.fields[i].name);
        terminate(request->form.fields[i].value);
    }
}

void
fake_hub_answer(struct fake_request *request, unsigned status,
                const char *headers, const char *body)
{
    dprintf(request->fd,
            "HTTP/1.1 %u So\r\nConnection: close\r\n%sContent-Length: "
            "%zu\r\n\r\n%s",
            status, headers ? headers : "", strlen(body), body);
    close(request->fd);
    request->fd = -1;
}

void
fake_hub_forget(struct fake_request *request)
{
    if (request->fd >= 0)
        close(request->fd);
    request->fd = -1;
    urlencoded_fini(&request->form);
}

const char *
fake_hub_value(const struct fake_request *request, const char *name)
{
    struct slice value;

    return urlencoded_get(&request->form, name, &value) ? value.data : "";
}

void
fake_hub_assert(const struct fake_request *request, const char *name,
                const char *value)
{
    assert_string_equal(fake_hub_value(request, name), value);
}

long
fake_hub_query(struct fake_hub *hub, const struct fake_request *request,
               const char *query)
{
    char url[9000];

    snprintf(url, sizeof(url), "%s?%s", fake_hub_value(request, "hub.callback"),
             query);
    return http_get(&hub->http, url);
}

/* Percent-encodes all but unreserved characters. */
static void
add_encoded(struct buf *to, const char *text)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "abcdefghijklmnopqrstuvwxyz0123456789-._~";

    for (; *text; text++)
        if (strchr(plain, *text))
            buf_add(to, text, 1);
        else
            buf_add_format(to, "%%%02X", (unsigned char)*text);
}

long
fake_hub_verify(struct fake_hub *hub, const struct fake_request *request,
                const char *topic, uint64_t lease_s)
{
    static const char challenge[] = "challenge <b>&+%";
    const char *mode = fake_hub_value(request, "hub.mode");
    char lease[60] = "";
    struct buf query;
    long status;

    if (!strcmp(mode, "subscribe"))
        snprintf(lease, sizeof(lease), "&hub.lease_seconds=%llu",
                 (unsigned long long)lease_s);
    buf_init(&query, 8000);
    buf_add_text(&query, "hub.mode=");
    buf_add_text(&query, mode);
    buf_add_text(&query, "&hub.topic=");
    add_encoded(&query, topic ? topic : fake_hub_value(request, "hub.topic"));
    buf_add_text(&query, "&hub.challenge=");
    add_encoded(&query, challenge);
    buf_add_text(&query, lease);
    buf_add(&query, "", 1);
    status = fake_hub_query(hub, request, query.data);
    buf_fini(&query);
    if (status == 200) {
        assert_true(slice_is(buf_slice(&hub->http.body), challenge));
        assert_string_equal(http_header(&hub->http, "Content-Type"),
                            "text/plain"); /* W-058 */
    }
    return status;
}

long
fake_hub_deny(struct fake_hub *hub, const struct fake_request *request,
              const char *reason)
{
    struct buf query;
    long status;

    buf_init(&query, 8000);
    buf_add_text(&query, "hub.mode=denied&hub.topic=");
    add_encoded(&query, fake_hub_value(request, "hub.topic"));
    buf_add_text(&query, "&hub.reason=");
    add_encoded(&query, reason);
    buf_add(&query, "", 1);
    status = fake_hub_query(hub, request, query.data);
    buf_fini(&query);
    return status;
}

/* "method=hex", by OpenSSL alone. */
static void
sign(char *to, const char *method, const char *secret, const char *body)
{
    unsigned char bytes[EVP_MAX_MD_SIZE];
    unsigned size = 0;

    HMAC(EVP_get_digestbyname(method), secret, (int)strlen(secret),
         (const unsigned char *)body, strlen(body), bytes, &size);
    to += sprintf(to, "%s=", method);
    for (unsigned i = 0; i < size; i++)
        to += sprintf(to, "%02x", bytes[i]);
}

static void
sign_webhook(char *to, const char *secret, const char *id, int64_t then_s,
             const char *body)
{
    unsigned char key[200], bytes[EVP_MAX_MD_SIZE];
    size_t n = strlen(secret + 6);
    unsigned size = 0;
    char text[5000];
    int key_size;

    assert_memory_equal(secret, "whsec_", 6);
    key_size = EVP_DecodeBlock(key, (const unsigned char *)secret + 6, (int)n);
    assert_true(key_size > 0);
    for (; secret[6 + n - 1] == '='; n--)
        key_size--;
    assert_true(snprintf(text, sizeof(text), "%s.%lld.%s", id,
                         (long long)then_s, body) < (int)sizeof(text));
    HMAC(EVP_sha256(), key, key_size, (const unsigned char *)text, strlen(text),
         bytes, &size);
    to = stpcpy(to, "v1,");
    EVP_EncodeBlock((unsigned char *)to, bytes, (int)size);
}

long
fake_hub_deliver(struct fake_hub *hub, const struct fake_request *request,
                 const struct fake_delivery *d)
{
    const char *secret = fake_hub_value(request, "hub.secret");
    int64_t then_s = (int64_t)time(NULL) - d->late_s;
    char type[200], links[300], signature[300] = "X-Hub-Signature: ";
    char id[200], timestamp[100], webhook[300] = "webhook-signature: v1,bm8= ";
    const char *headers[8];
    size_t n = 0;

    snprintf(type, sizeof(type), "Content-Type: %s",
             d->type ? d->type : "text/plain");
    headers[n++] = type;
    snprintf(links, sizeof(links),
             "Link: <%s>; rel=\"hub\", <%s>; rel=\"self\"", hub->url,
             d->has_other_links ? "http://other.example/"
                                : fake_hub_value(request, "hub.topic"));
    headers[n++] = links;
    if (d->signature)
        strcat(signature, d->signature);
    else if (secret[0])
        sign(signature + strlen(signature), d->method ? d->method : "sha256",
             secret, d->body);
    if (d->signature ? d->signature[0] : secret[0])
        headers[n++] = signature;
    if (d->id && secret[0]) {
        snprintf(id, sizeof(id), "webhook-id: %s", d->id);
        snprintf(timestamp, sizeof(timestamp), "webhook-timestamp: %lld",
                 (long long)then_s);
        if (d->webhook_signature)
            strcat(webhook, d->webhook_signature);
        else
            sign_webhook(webhook + strlen(webhook), secret, d->id, then_s,
                         d->body);
        headers[n++] = id;
        headers[n++] = timestamp;
        headers[n++] = webhook;
    } else if (d->id) {
        snprintf(id, sizeof(id), "webhook-id: %s", d->id);
        headers[n++] = id;
    }
    headers[n] = NULL;
    return http_request(&hub->http, "POST",
                        fake_hub_value(request, "hub.callback"), headers,
                        slice_of(d->body));
}
