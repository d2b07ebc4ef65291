#include "broker/config/bridge_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/options.h"

/* Making bridges */

enum status
bridging_add(struct bridge_config **bridges, size_t *n, struct problem *why)
{
    struct bridge_config *larger;

    if (*n == BRIDGES_MAX)
        return problem(why, STATUS_INVALID,
                       "there are %d bridges already, which is the limit",
                       BRIDGES_MAX);
    larger = realloc(*bridges, (*n + 1) * sizeof(*larger));
    if (!larger)
        return problem_memory(why);
    larger[(*n)++] = (struct bridge_config){.line = 0};
    *bridges = larger;
    return STATUS_OK;
}

void
bridging_free(struct bridge_config *bridges, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(bridges[i].inputs);
    free(bridges);
}

enum status
bridge_init(struct bridge_config *bridge, struct slice name, unsigned line,
            struct problem *why)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789_-";

    *bridge = (struct bridge_config){.line = line};
    if (name.size > BRIDGE_NAME_MAX)
        return problem(why, STATUS_INVALID, "a name has at most %d characters",
                       BRIDGE_NAME_MAX);
    for (size_t i = 0; i < name.size; i++)
        if (!strchr(allowed, name.data[i]))
            return problem(why, STATUS_INVALID,
                           "a name has a-z 0-9 _ and - only");
    memcpy(bridge->name, name.data, name.size);
    return options_set_defaults(&bridge_options, bridge, why);
}

static bool
are_inputs_same(const struct bridge_config *a, const struct bridge_config *b)
{
    if (a->n_inputs != b->n_inputs)
        return false;
    for (size_t i = 0; i < a->n_inputs; i++)
        if (strcmp(a->inputs[i].filter, b->inputs[i].filter) != 0 ||
            strcmp(a->inputs[i].set, b->inputs[i].set) != 0)
            return false;
    return true;
}

/* Keys with functions of their own come first. */
bool
bridge_is_same(const struct bridge_config *a, const struct bridge_config *b)
{
    if (strcmp(a->name, b->name) != 0 || strcmp(a->url, b->url) != 0 ||
        strcmp(a->user, b->user) != 0 ||
        strcmp(a->client_id, b->client_id) != 0 ||
        strcmp(a->prefix, b->prefix) != 0 || strcmp(a->out, b->out) != 0 ||
        strcmp(a->public_url, b->public_url) != 0 || !are_inputs_same(a, b))
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

/* Checks the keys of TLS: none may be set without TLS, and `cert` and `key`
 * only together. */
static enum status
check_tls(const struct bridge_config *bridge, const char **key,
          struct problem *why)
{
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
    if (bridge->retry_first_us > bridge->retry_max_us)
        return problem(why, STATUS_INVALID, "is longer than retry-max");
    return check_tls(bridge, key, why);
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
bridge_tells(const struct bridge_config *bridge, const char *set)
{
    struct slice rest = slice_of(bridge->out);

    if (!strcmp(bridge->out, "*"))
        return true;
    while (rest.size > 0)
        if (slice_is(slice_take(&rest, ','), set))
            return true;
    return false;
}
