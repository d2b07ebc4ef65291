#include "broker/config/bridge_config.h"

#include <arpa/inet.h>

#include "proto/mqtt_topic.h"
#include "proto/uri.h"

#define ROW_OF struct bridge_config
#include "base/option_rows.h"

#define PORT     1883
#define PORT_TLS 8883

/* The address of an MQTT broker */

/* Reads a name, or an address in brackets, and ":PORT", if there is one;
 * returns the end, NULL: neither. All characters of the host are safe in any
 * document. */
static const char *
read_host(const char *text, char *host, size_t room, unsigned *port)
{
    static const char in_name[] = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
    bool is_address = *text == '[';
    const char *from = text + is_address, *end;
    size_t size = is_address ? strcspn(from, "]") : strspn(from, in_name);
    size_t digits;
    struct in6_addr address;

    if (size == 0 || size >= room || (is_address && !from[size]))
        return NULL;
    memcpy(host, from, size);
    host[size] = '\0';
    if (is_address && inet_pton(AF_INET6, host, &address) != 1)
        return NULL;
    end = from + size + is_address;
    if (*end != ':')
        return end;
    digits = strspn(end + 1, "0123456789");
    if (digits == 0 || digits > 5)
        return NULL;
    *port = (unsigned)strtoul(end + 1, NULL, 10);
    return *port > 0 && *port <= UINT16_MAX ? end + 1 + digits : NULL;
}

enum status
bridge_read_url(const char *text, void *values, struct problem *why)
{
    struct bridge_config *bridge = values;
    const char *scheme = "mqtts://", *host, *end;
    size_t size = strlen(text);

    bridge->is_tls = slice_starts(slice_of(text), scheme);
    if (!bridge->is_tls)
        scheme = "mqtt://";
    /* Not quoted: most likely it has a password. */
    if (strchr(text, '@'))
        return problem(why, STATUS_INVALID,
                       "has something before an @: a section [mqtt NAME] has "
                       "the keys user and password-file for that");
    if (!slice_starts(slice_of(text), scheme))
        return problem(why, STATUS_INVALID,
                       "\"%s\" is not an mqtt:// or mqtts:// URL",
                       problem_quote(slice_of(text)).text);
    host = text + strlen(scheme);
    if (strpbrk(host, "?#"))
        return problem(why, STATUS_INVALID,
                       "\"%s\" has a query or a fragment: what is to be set "
                       "has a key of its own in a section [mqtt NAME]",
                       problem_quote(slice_of(text)).text);
    end = host + strcspn(host, "/");
    if (end[0] && end[1])
        return problem(why, STATUS_INVALID,
                       "\"%s\" has a path: what topics begin with is the key "
                       "prefix of a section [mqtt NAME]",
                       problem_quote(slice_of(text)).text);
    size -= end[0] != '\0';
    if (size >= sizeof(bridge->url))
        return problem(why, STATUS_INVALID, "is longer than %zu bytes",
                       sizeof(bridge->url) - 1);

    bridge->port = bridge->is_tls ? PORT_TLS : PORT;
    end = read_host(host, bridge->host, sizeof(bridge->host), &bridge->port);
    if (!end || end != text + size)
        return problem(why, STATUS_INVALID,
                       "\"%s\" has something else than HOST or HOST:PORT "
                       "behind %s",
                       problem_quote(slice_of(text)).text, scheme);
    snprintf(bridge->url, sizeof(bridge->url), "%.*s", (int)size, text);
    return STATUS_OK;
}

/* The keys that have a reader of their own */

static enum status
read_public_url(const char *text, void *values, struct problem *why)
{
    struct bridge_config *bridge = values;
    struct bridge_config read;
    enum status rc;

    if (!strcmp(text, "none")) {
        memcpy(bridge->public_url, "none", sizeof("none"));
        return STATUS_OK;
    }
    rc = bridge_read_url(text, &read, why);
    if (!rc)
        snprintf(bridge->public_url, sizeof(bridge->public_url), "%s",
                 read.url);
    return rc;
}

/* Reads a text that becomes a string of MQTT. */
static enum status
read_string(const char *text, char *to, size_t room, struct problem *why)
{
    enum status rc = option_text(text, to, room, why);

    if (rc)
        return rc;
    if (!mqtt_text_is_valid(slice_of(text)))
        return problem(why, STATUS_INVALID,
                       "\"%s\" is not UTF-8 without control characters",
                       problem_quote(slice_of(text)).text);
    return STATUS_OK;
}

static enum status
read_user(const char *text, void *values, struct problem *why)
{
    struct bridge_config *bridge = values;

    return read_string(text, bridge->user, sizeof(bridge->user), why);
}

static enum status
read_client_id(const char *text, void *values, struct problem *why)
{
    struct bridge_config *bridge = values;

    return read_string(text, bridge->client_id, sizeof(bridge->client_id), why);
}

static enum status
read_prefix(const char *text, void *values, struct problem *why)
{
    struct bridge_config *bridge = values;
    char *prefix = bridge->prefix;
    enum status rc = read_string(text, prefix, sizeof(bridge->prefix), why);

    if (rc)
        return rc;
    for (size_t size = strlen(prefix); size > 0 && prefix[size - 1] == '/';)
        prefix[--size] = '\0';
    if (!mqtt_topic_is_valid(slice_of(prefix)))
        return problem(why, STATUS_INVALID,
                       "\"%s\" is not what topics can begin with: it has + or "
                       "#, or nothing but slashes",
                       problem_quote(slice_of(text)).text);
    if (prefix[0] == '$')
        return problem(why, STATUS_INVALID,
                       "\"%s\": topics that begin with $ are the MQTT broker's "
                       "own",
                       problem_quote(slice_of(text)).text);
    return STATUS_OK;
}

/* Names of tokens follow the rules of names of sets (access/tokens.c). The
 * problem does not quote the value, which may be a token. */
static enum status
read_as(const char *text, void *values, struct problem *why)
{
    struct bridge_config *bridge = values;

    if (!set_name_is_valid(slice_of(text)))
        return problem(why, STATUS_INVALID,
                       "is not the name of a token (tidingsd token list), "
                       "which has 1 to %zu of a-z 0-9 . _ -; the token itself "
                       "does not belong here",
                       sizeof(bridge->as) - 1);
    snprintf(bridge->as, sizeof(bridge->as), "%s", text);
    return STATUS_OK;
}

static enum status
read_out(const char *text, void *values, struct problem *why)
{
    struct bridge_config *bridge = values;
    struct slice rest = slice_of(text);

    do {
        struct slice name = slice_trimmed(slice_take(&rest, ','));
        size_t size = strlen(bridge->out);
        bool is_all = slice_is(name, "*");
        char set[SET_NAME_MAX + 1];

        if (!is_all && !set_name_is_valid(name))
            return problem(why, STATUS_INVALID,
                           "\"%s\" is neither * nor the name of a set",
                           problem_quote(name).text);
        if (size > 0 && (is_all || !strcmp(bridge->out, "*")))
            return problem(why, STATUS_INVALID,
                           "* is all sets: nothing can stand beside it");
        snprintf(set, sizeof(set), "%.*s", SLICE_ARG(name));
        if (bridge_publishes(bridge, set))
            return problem(why, STATUS_INVALID, "%s is there twice", set);
        if (size + 1 + name.size >= sizeof(bridge->out))
            return problem(why, STATUS_INVALID,
                           "all names together are longer than %zu bytes",
                           sizeof(bridge->out) - 1);
        snprintf(bridge->out + size, sizeof(bridge->out) - size, "%s%s",
                 size > 0 ? "," : "", set);
    } while (rest.size > 0);
    return STATUS_OK;
}

/* Reads FILTER -> SET, and checks what one line can show. */
static enum status
read_input(const char *text, struct bridge_input *input, struct problem *why)
{
    static const char arrow[] = "->";
    const char *at = NULL;
    struct slice filter, set;

    for (const char *p = text; (p = strstr(p, arrow)); p += strlen(arrow))
        at = p; /* the last one: a filter may contain one, a set's name
                   cannot */
    if (!at)
        return problem(why, STATUS_INVALID,
                       "\"%s\" is not FILTER -> SET, such as plant/+/changes "
                       "-> plant",
                       problem_quote(slice_of(text)).text);
    filter = slice_trimmed((struct slice){text, (size_t)(at - text)});
    set = slice_trimmed(slice_of(at + strlen(arrow)));

    if (!mqtt_filter_is_valid(filter))
        return problem(why, STATUS_INVALID,
                       "\"%s\" is not a filter of MQTT: levels with / between "
                       "them; + is a level, # the last one",
                       problem_quote(filter).text);
    if (filter.size >= sizeof(input->filter))
        return problem(why, STATUS_INVALID,
                       "the filter is longer than %zu bytes",
                       sizeof(input->filter) - 1);
    /* Messages come on the topic behind it, and do not name the filter. */
    if (slice_starts(filter, "$share/"))
        return problem(why, STATUS_INVALID,
                       "\"%s\": a bridge has no shared subscriptions",
                       problem_quote(filter).text);
    if (!slice_is(set, "+") && !set_name_is_valid(set))
        return problem(why, STATUS_INVALID,
                       "\"%s\" is neither + nor the name of a set",
                       problem_quote(set).text);
    snprintf(input->filter, sizeof(input->filter), "%.*s", (int)filter.size,
             filter.data);
    snprintf(input->set, sizeof(input->set), "%.*s", (int)set.size, set.data);
    if (slice_is(set, "+") && !strchr(input->filter, '+'))
        return problem(why, STATUS_INVALID,
                       "the set + is the level at the first + of the filter: "
                       "\"%s\" has none",
                       problem_quote(filter).text);
    return STATUS_OK;
}

static enum status
read_in(const char *text, void *values, struct problem *why)
{
    struct bridge_config *bridge = values;
    struct bridge_input input;
    enum status rc = read_input(text, &input, why);

    if (rc)
        return rc;
    for (size_t i = 0; i < bridge->n_inputs; i++)
        if (!strcmp(bridge->inputs[i].filter, input.filter))
            return problem(why, STATUS_INVALID,
                           "the filter \"%s\" is there twice",
                           problem_quote(slice_of(input.filter)).text);
    if (bridge->n_inputs == BRIDGE_INPUT_MAX)
        return problem(why, STATUS_INVALID, "is there more than %d times",
                       BRIDGE_INPUT_MAX);
    bridge->inputs =
        memory_grow(bridge->inputs, bridge->n_inputs + 1, sizeof(input));
    bridge->inputs[bridge->n_inputs++] = input;
    return STATUS_OK;
}

static const struct option rows[] = {
    {"url", "URL", OWN(bridge_read_url), NULL,
     "the MQTT broker: mqtt://HOST[:PORT] (1883 if not given), or mqtts:// for "
     "TLS (8883)"},
    {"as", "TOKEN", OWN(read_as), NULL,
     "the name of a token, whose rights the bridge has; \"everyone\": those of "
     "requests without a token; all rights, but no private set goes out, if "
     "not given"},
    {"user", "NAME", OWN(read_user), NULL, "who we are to it"},
    {"password-file", "FILE", TEXT(password_file), NULL,
     "the first line of it is the user's password"},
    {"ca", "FILE", TEXT(ca), NULL,
     "certificates to trust, PEM; those of the system and of --ca-file if not "
     "given"},
    {"cert", "FILE", TEXT(cert), NULL, "our certificate and its chain, PEM"},
    {"key", "FILE", TEXT(key), NULL, "its private key, PEM, not encrypted"},
    {"client-id", "ID", OWN(read_client_id), NULL,
     "our client ids begin with it: ID-out, ID-in; made once if not given"},
    {"version", "5|3.1.1", CHOICE(version, enum bridge_version, BRIDGE_MQTT_5),
     "5", "of MQTT"},
    {"keepalive", "SECONDS", SECONDS(keepalive_us, 5 * SECOND, 65535 * SECOND),
     "30", "the MQTT broker hears from us at least this often; whole seconds"},
    {"retry-first", "SECONDS",
     SECONDS(retry.first_us, SECOND / 1000, 3600 * SECOND), "0.5",
     "pause after a connection's first failure; it doubles with each"},
    {"retry-max", "SECONDS",
     SECONDS(retry.max_us, SECOND / 1000, 3600 * SECOND), "30",
     "longest pause between two tries to connect"},
    {"inflight", "N", COUNT(inflight, 1, 65535), "100",
     "messages that may be on their way, not acknowledged"},
    /* The largest of MQTT is a little above its largest payload, 256M - 1. */
    {"packet-bytes", "BYTES", BYTES(packet_bytes, KIB, 256 * MIB), "1M",
     "largest packet that is sent; a change that does not fit is left out"},
    {"prefix", "TOPIC", OWN(read_prefix), "tidings",
     "our topics begin with it: TOPIC/SET/notifications, TOPIC/status"},
    {"out", "SET,...", OWN(read_out), NULL,
     "sets whose changes the MQTT broker gets; * is all", .may_repeat = true},
    {"begin", "now|start", EITHER(begins_at_start), "now",
     "where a set that is older than the bridge begins: with its next change, "
     "or with its first retained one"},
    {"qos", "0|1|2", CHOICE(qos, int, 0), "1", "of what goes out"},
    {"form", "json|xml", CHOICE(form, enum bridge_form, BRIDGE_JSON), "json",
     "of what goes out"},
    {"publish", "notifications|changes|both",
     CHOICE(publish, unsigned, BRIDGE_NOTIFICATIONS), "notifications",
     "a message for all changes of a commit, or for each change"},
    {"public-url", "URL", OWN(read_public_url), NULL,
     "what documents call the MQTT broker; url if not given; none: they do not "
     "name it"},
    {"in", "FILTER -> SET", OWN(read_in), NULL,
     "what comes on topics that FILTER matches becomes changes of SET; if that "
     "is +, of the set that is named by the level at the first + of FILTER",
     .may_repeat = true},
};

#define N_ROWS N_ELEMENTS(rows)
_Static_assert(N_ROWS <= OPTIONS_MAX, "raise OPTIONS_MAX");

const struct options bridge_options = {rows, N_ROWS};

/* Making bridges */

enum status
bridging_add(struct bridge_config **bridges, size_t *n, struct slice name,
             unsigned line, struct problem *why)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789_-";
    struct bridge_config *larger, *bridge;

    if (*n == BRIDGES_MAX)
        return problem(why, STATUS_INVALID,
                       "there are %d bridges already, which is the limit",
                       BRIDGES_MAX);
    if (name.size > BRIDGE_NAME_MAX)
        return problem(why, STATUS_INVALID, "a name has at most %d characters",
                       BRIDGE_NAME_MAX);
    if (!slice_is_of(name, allowed))
        return problem(why, STATUS_INVALID, "a name has a-z 0-9 _ and - only");
    larger = memory_grow(*bridges, *n + 1, sizeof(*larger));
    if (!larger)
        return problem_memory(why);
    *bridges = larger;
    bridge = &larger[(*n)++];
    *bridge = (struct bridge_config){.line = line};
    memcpy(bridge->name, name.data, name.size);
    return options_take(&bridge_options, NULL, bridge, why);
}

void
bridging_free(struct bridge_config *bridges, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(bridges[i].inputs);
    free(bridges);
}

/* Keys with functions of their own come first. */
bool
bridge_is_same(const struct bridge_config *a, const struct bridge_config *b)
{
    if (strcmp(a->name, b->name) != 0 || strcmp(a->url, b->url) != 0 ||
        strcmp(a->as, b->as) != 0 || strcmp(a->user, b->user) != 0 ||
        strcmp(a->client_id, b->client_id) != 0 ||
        strcmp(a->prefix, b->prefix) != 0 || strcmp(a->out, b->out) != 0 ||
        strcmp(a->public_url, b->public_url) != 0 || a->n_inputs != b->n_inputs)
        return false;
    for (size_t i = 0; i < a->n_inputs; i++)
        if (strcmp(a->inputs[i].filter, b->inputs[i].filter) != 0 ||
            strcmp(a->inputs[i].set, b->inputs[i].set) != 0)
            return false;
    for (size_t i = 0; i < bridge_options.n; i++)
        if (bridge_options.rows[i].type != OPTION_OWN &&
            !option_is_same(&bridge_options.rows[i], a, b))
            return false;
    return true;
}

struct bridge_place
bridge_place(const struct bridge_config *bridge)
{
    struct bridge_place place = {"--mqtt"};

    if (bridge->line > 0)
        snprintf(place.text, sizeof(place.text), "[mqtt %s]", bridge->name);
    return place;
}

enum status
bridge_check(const struct bridge_config *bridge, const char **key,
             struct problem *why)
{
    *key = NULL;
    if (!bridge->url[0])
        return problem(why, STATUS_INVALID, "url is missing");
    if (!bridge->out[0] && bridge->n_inputs == 0)
        return problem(why, STATUS_INVALID,
                       "has neither out nor in: nothing would go either way");
    *key = "password-file";
    if (bridge->password_file[0] && !bridge->user[0] &&
        bridge->version == BRIDGE_MQTT_311)
        return problem(why, STATUS_INVALID,
                       "has no user with it, which version 3.1.1 wants");
    *key = "keepalive";
    if (bridge->keepalive_us % 1000000)
        return problem(why, STATUS_INVALID, "has to be whole seconds");
    *key = "retry-first";
    if (bridge->retry.first_us > bridge->retry.max_us)
        return problem(why, STATUS_INVALID, "is longer than retry-max");
    /* Checks the keys of TLS: none may be set without TLS, and `cert` and `key`
     * only together. */
    *key = bridge->ca[0] ? "ca" : bridge->cert[0] ? "cert" : "key";
    if (!bridge->is_tls && (bridge->ca[0] || bridge->cert[0] || bridge->key[0]))
        return problem(why, STATUS_INVALID,
                       "is for TLS only: url has to begin with mqtts://");
    *key = bridge->cert[0] ? "cert" : "key";
    if (!bridge->cert[0] != !bridge->key[0])
        return problem(why, STATUS_INVALID, "has no %s with it",
                       bridge->cert[0] ? "key" : "cert");
    *key = NULL;
    return STATUS_OK;
}

/* Checks that the bridges do not write the same topics on one MQTT broker. */
static enum status
check_two(const struct bridge_config *one, const struct bridge_config *two,
          struct problem *why)
{
    if (!strcmp(one->name, two->name))
        return problem(why, STATUS_INVALID, "is a bridge of the name %s, as",
                       two->name);
    if (one->port != two->port || strcasecmp(one->host, two->host))
        return STATUS_OK;
    if (one->out[0] && two->out[0] && !strcmp(one->prefix, two->prefix))
        return problem(why, STATUS_INVALID,
                       "tells %s on topics with the prefix %s, and would "
                       "overwrite positions and status of",
                       two->url, problem_quote(slice_of(two->prefix)).text);
    if (one->client_id[0] && !strcmp(one->client_id, two->client_id))
        return problem(why, STATUS_INVALID,
                       "has at %s the client-id \"%s\", and each would "
                       "disconnect the other:",
                       two->url, problem_quote(slice_of(two->client_id)).text);
    return STATUS_OK;
}

enum status
bridging_check(const struct bridge_config *bridges, size_t n, const char *path,
               struct problem *why)
{
    for (size_t i = 1; i < n; i++)
        for (size_t k = 0; k < i; k++) {
            const struct bridge_config *one = &bridges[k], *two = &bridges[i];
            struct problem inner = {.text = ""};
            char line[32] = "";
            enum status rc = check_two(one, two, &inner);

            if (one->line > 0)
                snprintf(line, sizeof(line), " (line %u)", one->line);
            /* The second one is from the file: --mqtt is the first. */
            if (rc)
                return problem(why, rc, "%s:%u: %s: %s %s%s", path, two->line,
                               bridge_place(two).text, inner.text,
                               bridge_place(one).text, line);
        }
    return STATUS_OK;
}

/* Using bridges */

bool
bridge_publishes(const struct bridge_config *bridge, const char *set)
{
    struct slice rest = slice_of(bridge->out);

    if (!strcmp(bridge->out, "*"))
        return true;
    while (rest.size > 0)
        if (slice_is(slice_take(&rest, ','), set))
            return true;
    return false;
}
