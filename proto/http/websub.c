#include "proto/http/websub.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "proto/ascii.h"
#include "proto/http/network_address.h"
#include "proto/number.h"
#include "proto/uri.h"

const char *const websub_mode_names[] = {
    [WEBSUB_SUBSCRIBE] = "subscribe",
    [WEBSUB_UNSUBSCRIBE] = "unsubscribe",
    [WEBSUB_PUBLISH] = "publish",
};

/* Reading */

/* The value of a parameter, empty if it is not there. */
static enum status
read_parameter(const struct urlencoded_data *form, const char *name,
               struct slice *value, struct problem *why)
{
    (void)urlencoded_get(form, name, value);
    for (size_t i = 0; i < form->n; i++)
        if (slice_is(form->fields[i].name, name) &&
            !slice_equal(form->fields[i].value, *value))
            return problem(why, STATUS_MALFORMED,
                           "%s: there twice, with different values", name);
    return STATUS_OK;
}

static enum status
read_mode(const struct urlencoded_data *form, enum websub_mode *mode,
          struct problem *why)
{
    struct slice value;
    enum status rc = read_parameter(form, "hub.mode", &value, why);

    if (rc)
        return rc;
    if (value.size == 0)
        return problem(why, STATUS_MALFORMED, "hub.mode: missing or empty");
    for (size_t i = 0; i < N_ELEMENTS(websub_mode_names); i++)
        if (slice_is(value, websub_mode_names[i])) {
            *mode = (enum websub_mode)i;
            return STATUS_OK;
        }
    return problem_quoting(
        why, STATUS_MALFORMED,
        "hub.mode: neither \"subscribe\" nor \"unsubscribe\" nor \"publish\"",
        value);
}

static enum status
read_url(const struct urlencoded_data *form, const char *name,
         struct slice *url, struct problem *why)
{
    enum status rc = read_parameter(form, name, url, why);

    if (rc)
        return rc;
    if (url->size == 0)
        return problem(why, STATUS_MALFORMED, "%s: missing or empty", name);
    return websub_check_url(*url, name, why);
}

enum status
websub_read(const struct urlencoded_data *form, struct websub_request *request,
            struct problem *why)
{
    struct slice lease = {NULL, 0}, topic;
    enum status rc;
    size_t at = 0;

    *request = (struct websub_request){.lease_s = 0};
    rc = read_mode(form, &request->mode, why);
    if (rc)
        return rc;
    if (request->mode == WEBSUB_PUBLISH) {
        if (!websub_next_topic(form, &at, &topic))
            return problem(why, STATUS_MALFORMED,
                           "hub.url or hub.topic: missing; one of them names "
                           "the topic that has changed");
        do
            rc = websub_check_url(topic, "hub.url or hub.topic", why);
        while (!rc && websub_next_topic(form, &at, &topic));
        return rc;
    }

    rc = read_url(form, "hub.topic", &request->topic, why);
    if (!rc)
        rc = read_url(form, "hub.callback", &request->callback, why);
    if (!rc)
        rc = read_parameter(form, "hub.secret", &request->secret, why);
    if (!rc && request->mode == WEBSUB_SUBSCRIBE)
        rc = read_parameter(form, "hub.lease_seconds", &lease, why);
    if (rc)
        return rc;
    if (lease.size > 0 &&
        (!number_read_large(lease, &request->lease_s) || request->lease_s == 0))
        return problem_quoting(
            why, STATUS_MALFORMED,
            "hub.lease_seconds: not a positive number of seconds", lease);
    if (request->secret.size > WEBSUB_SECRET_MAX)
        return problem(why, STATUS_INVALID,
                       "hub.secret: %zu bytes long; at most %d are allowed",
                       request->secret.size, WEBSUB_SECRET_MAX);
    return STATUS_OK;
}

bool
websub_next_topic(const struct urlencoded_data *form, size_t *at,
                  struct slice *topic)
{
    while (*at < form->n) {
        const struct urlencoded_field *field = &form->fields[(*at)++];

        struct slice index = field->name; /* "[]", "[0]": arrays of PHP */
        struct slice name = slice_take_until(&index, "[");

        if (slice_is(name, "hub.url") || slice_is(name, "hub.topic")) {
            *topic = field->value;
            return true;
        }
    }
    return false;
}

/* Composing */

/* Appends the callback, ready for parameters. Its first "?" begins the query: a
 * "?" at the end of a value, or an "&" at the end of a path, separates nothing.
 */
static void
add_callback(struct buf *to, struct slice callback)
{
    struct slice query = callback;
    struct slice path = slice_take(&query, '?');

    buf_add_slice(to, callback);
    if (path.size == callback.size)
        BUF_ADD(to, "?");
    else if (query.size > 0 && query.data[query.size - 1] != '&')
        BUF_ADD(to, "&");
}

void
websub_verification_url(struct buf *to, struct slice callback,
                        enum websub_mode mode, struct slice topic,
                        struct slice challenge, uint64_t lease_s)
{
    add_callback(to, callback);
    urlencoded_add(to, "hub.mode", slice_of(websub_mode_names[mode]));
    urlencoded_add(to, "hub.topic", topic);
    urlencoded_add(to, "hub.challenge", challenge);
    if (mode == WEBSUB_SUBSCRIBE) {
        char digits[NUMBER_SIZE_MAX];

        urlencoded_add(to, "hub.lease_seconds",
                       (struct slice){digits, number_write(digits, lease_s)});
    }
}

void
websub_denial_url(struct buf *to, struct slice callback, struct slice topic,
                  struct slice reason)
{
    add_callback(to, callback);
    urlencoded_add(to, "hub.mode", SLICE("denied"));
    urlencoded_add(to, "hub.topic", topic);
    if (reason.size > 0)
        urlencoded_add(to, "hub.reason", reason);
}

/* URLs */

/* Longest name of a host (RFC 1035 section 2.3.4, without its outer bytes). */
#define HOST_MAX 253

/* The parts of a URL.
 *
 *     https://host:port/path?query
 *             authority rest
 */
struct url {
    bool is_https;
    struct slice authority;
    struct slice host; /* behind user info; an IPv6 address with its brackets */
    struct slice port; /* behind the colon, which is not in it; perhaps empty */
    struct slice rest; /* path and query; perhaps empty */
};

/* Takes it apart without a judgement; `url` starts with a scheme and "//". */
static struct url
url_of(struct slice url)
{
    struct url u = {.is_https = slice_take(&url, ':').size == 5};
    size_t host = 0;

    slice_skip(&url, 2);
    u.rest = url;
    u.authority = u.host = slice_take_until(&u.rest, "/?#");
    while (slice_skip_past(&u.host, "@"))
        continue;
    if (u.host.size > 0 && u.host.data[0] == '[')
        while (host < u.host.size && u.host.data[host] != ']')
            host++;
    while (host < u.host.size && u.host.data[host] != ':')
        host++;
    if (host < u.host.size)
        u.port = slice_from(u.host, host + 1);
    u.host.size = host;
    return u;
}

static unsigned
default_port(const struct url *url)
{
    return url->is_https ? 443 : 80;
}

/* 1 to 65535; 0: it is none. Nothing behind the colon is the default (RFC 3986
 * section 6.2.3). */
static unsigned
port_of(const struct url *url)
{
    uint64_t port;

    if (url->port.size == 0)
        return default_port(url);
    return number_read(url->port, &port) && port <= 65535 ? (unsigned)port : 0;
}

/* Names of letters, digits, "-" and "_", and dots between them. Escapes,
 * which a client might decode on its own before it looks an address up, are
 * not among them; nor is a dot at the end, a second name of the same host. */
static bool
is_name(struct slice host)
{
    char before = '.';

    if (host.size == 0 || host.size > HOST_MAX)
        return false;
    for (size_t i = 0; i < host.size; before = host.data[i++])
        if (!uri_is_unreserved(host.data[i]) || host.data[i] == '~' ||
            (host.data[i] == '.' && before == '.'))
            return false;
    return before != '.';
}

static enum status
check_authority(const struct url *url, const char *what, struct problem *why)
{
    struct in6_addr address;

    if (memchr(url->authority.data, '@', url->authority.size))
        return problem(why, STATUS_MALFORMED,
                       "%s: user info (what stands before \"@\") is not "
                       "allowed in a URL",
                       what);
    if (!slice_is_ascii(url->host))
        return problem(why, STATUS_MALFORMED,
                       "%s: a host beyond ASCII has to be written in its "
                       "\"xn--\" form: \"%s\"",
                       what, problem_quote(url->host).text);
    if (url->host.data[0] == '[' ? !address_read_bracketed(url->host, &address)
                                 : !is_name(url->host))
        return problem(why, STATUS_MALFORMED, "%s: no valid host: \"%s\"", what,
                       problem_quote(url->host).text);
    if (port_of(url) == 0)
        return problem(why, STATUS_MALFORMED,
                       "%s: no port from 1 to 65535: \"%s\"", what,
                       problem_quote(url->port).text);
    return STATUS_OK;
}

enum status
websub_check_url(struct slice url, const char *what, struct problem *why)
{
    struct url parts;
    enum status rc;

    if (url.size > WEBSUB_URL_MAX)
        return problem(why, STATUS_MALFORMED, "%s: longer than %d bytes", what,
                       WEBSUB_URL_MAX);
    if (uri_check(url, what, why))
        return STATUS_MALFORMED;
    for (size_t i = 0; i < url.size; i++)
        if (memchr("\\\"<>", url.data[i], 4))
            return problem(why, STATUS_MALFORMED,
                           "%s: '%c' has to be written as %%%02X: \"%s\"", what,
                           url.data[i], (unsigned)url.data[i],
                           problem_quote(url).text);

    if (!slice_starts_word(url, "http:") && !slice_starts_word(url, "https:"))
        return problem(why, STATUS_MALFORMED,
                       "%s: neither http nor https: \"%s\"", what,
                       problem_quote(url).text);

    parts = url_of(url);
    rc = check_authority(&parts, what, why);
    if (rc)
        return rc;
    if (!slice_is_ascii(parts.rest))
        return problem(why, STATUS_MALFORMED,
                       "%s: characters beyond ASCII have to be written as "
                       "escapes: \"%s\"",
                       what, problem_quote(url).text);
    if (memchr(parts.rest.data, '#', parts.rest.size))
        return problem(why, STATUS_MALFORMED,
                       "%s: a fragment, which no server sees, is not allowed: "
                       "\"%s\"",
                       what, problem_quote(url).text);
    return STATUS_OK;
}

/* Comparing */

static void
add_lower(struct buf *to, struct slice text)
{
    for (size_t i = 0; i < text.size; i++) {
        char c = ascii_lower(text.data[i]);

        buf_add(to, &c, 1);
    }
}

/* Scheme, host, and the port unless it is the default one. */
static void
add_origin(struct buf *to, const struct url *parts)
{
    buf_add_text(to, parts->is_https ? "https://" : "http://");
    add_lower(to, parts->host);
    if (port_of(parts) != default_port(parts)) {
        BUF_ADD(to, ":");
        buf_add_number(to, port_of(parts));
    }
}

struct websub_origin
websub_origin(struct slice url)
{
    struct websub_origin origin = {""};
    struct url parts = url_of(url);
    struct buf text;

    buf_init_fixed(&text, origin.text, sizeof(origin.text) - 1);
    add_origin(&text, &parts);
    origin.text[text.size] = '\0';
    return origin;
}

const char *
websub_comparable(struct websub_comparable *c, struct slice url)
{
    struct url parts = url_of(url);
    struct buf text;

    buf_init_fixed(&text, c->text, sizeof(c->text) - 1);
    add_origin(&text, &parts);
    if (parts.rest.size == 0 || parts.rest.data[0] != '/')
        BUF_ADD(&text, "/");
    /* A "%" without an escape becomes "%25": unchanged, it might form an escape
     * with the decoded bytes behind it. */
    for (struct slice rest = parts.rest; rest.size > 0;) {
        int escape = uri_escape(rest);
        char plain = escape < 0 ? rest.data[0] : (char)escape;

        if (escape < 0 ? plain == '%' : !uri_is_unreserved(plain))
            uri_add_escape(&text, plain);
        else
            buf_add(&text, &plain, 1);
        slice_skip(&rest, escape < 0 ? 1 : 3);
    }
    c->size = text.size;
    c->text[c->size] = '\0';
    return c->text;
}

char *
websub_comparable_dup(struct slice url)
{
    struct websub_comparable c;

    return slice_dup(slice_of(websub_comparable(&c, url)));
}

bool
websub_is_same(struct slice a, struct slice b)
{
    struct websub_comparable x, y;

    return !strcmp(websub_comparable(&x, a), websub_comparable(&y, b));
}

/* An address however it is spelled (W-161), also as IPv6 that means IPv4; else
 * the name in lower case. */
static void
add_host(struct buf *to, struct slice host)
{
    char text[HOST_MAX + 1];
    unsigned char octets[4];
    struct in6_addr six;
    struct in_addr four;
    bool is_six;

    if (host.size > HOST_MAX) { /* none that was checked */
        add_lower(to, host);
        return;
    }
    memcpy(text, host.data, host.size);
    text[host.size] = '\0';
    is_six = address_read_bracketed(host, &six);
    if (is_six && !IN6_IS_ADDR_V4MAPPED(&six)) {
        BUF_ADD(to, "[");
        buf_add_text(to, inet_ntop(AF_INET6, &six, text, sizeof(text)));
        BUF_ADD(to, "]");
        return;
    }
    if (is_six) {
        memcpy(octets, &six.s6_addr[12], sizeof(octets));
    } else if (inet_aton(text, &four)) {
        memcpy(octets, &four, sizeof(octets));
    } else {
        add_lower(to, host);
        return;
    }
    /* Each delivery comes here; inet_ntop calls printf for an octet. */
    for (unsigned i = 0; i < sizeof(octets); i++) {
        if (i > 0)
            BUF_ADD(to, ".");
        buf_add_number(to, octets[i]);
    }
}

void
websub_host(struct buf *to, struct slice url)
{
    add_host(to, url_of(url).host);
}

bool
websub_is_loopback(struct slice url)
{
    /* As an address it may be longer. */
    struct buf host = {.max = WEBSUB_URL_MAX + 64};
    bool is;

    websub_host(&host, url);
    is = !host.failed && address_is_loopback_host(buf_slice(&host));
    buf_fini(&host);
    return is;
}

void
websub_authority(struct buf *to, struct slice url)
{
    struct url parts = url_of(url);

    add_host(to, parts.host);
    BUF_ADD(to, ":");
    buf_add_number(to, port_of(&parts));
}
