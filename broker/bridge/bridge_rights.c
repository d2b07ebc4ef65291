#include "broker/bridge/bridge_rights.h"

#include "broker/base/metrics.h"

static bool
is_operators(const struct bridge_rights *r)
{
    return !r->config->as[0];
}

bool
bridge_rights_renew(struct bridge_rights *r)
{
    struct tokens *tokens = r->registry->tokens;
    struct principal *before = r->principal;
    int64_t now_us = clock_now_us();
    bool is_waiting;

    if (is_operators(r) || (before && !principal_is_over(before, now_us)))
        return false;
    r->principal =
        tokens ? tokens_owner(tokens, slice_of(r->config->as), now_us) : NULL;
    is_waiting = !r->principal;
    if (is_waiting != r->is_waiting) {
        metrics_add(METRIC_MQTT_WITHOUT_TOKEN, is_waiting ? 1 : -1);
        DIAG(is_waiting ? DIAG_WARNING : DIAG_INFO, "bridge",
             is_waiting ? "the bridge stops: it has no token"
                        : "the bridge goes on: it has its token again",
             diag_text("bridge", r->config->name),
             diag_text("direction", r->direction),
             diag_text("token", r->config->as));
    }
    r->is_waiting = is_waiting;
    principal_unref(before);
    return before || r->principal;
}

void
bridge_rights_init(struct bridge_rights *r, struct registry *registry,
                   const struct bridge_config *config, const char *direction)
{
    *r = (struct bridge_rights){
        .registry = registry, .config = config, .direction = direction};
    problem_set(&r->why,
                "there is no token \"%s\": it was revoked, has expired, or was "
                "not made yet",
                config->as);
    bridge_rights_renew(r);
}

void
bridge_rights_fini(struct bridge_rights *r)
{
    if (r->is_waiting)
        metrics_add(METRIC_MQTT_WITHOUT_TOKEN, -1);
    principal_unref(r->principal);
    r->principal = NULL;
    r->is_waiting = false;
}

int64_t
bridge_rights_wait_us(const struct bridge_rights *r)
{
    return is_operators(r) ? -1 : BRIDGE_RIGHTS_LOOK_US;
}

bool
bridge_rights_include(const struct bridge_rights *r, const struct set *set)
{
    bool is_private = set_is_private(set);

    if (is_operators(r))
        return !is_private;
    return r->principal &&
           principal_sees(r->principal, slice_of(set->name), is_private);
}

/* As the routes of HTTP do: everyone may do nothing to a private set, and a
 * post may make a missing one. */
enum status
bridge_rights_check_post(struct bridge_rights *r, struct slice name,
                         struct problem *why)
{
    const struct rights *rights;
    const struct set *set;
    bool may_publish;

    if (is_operators(r))
        return STATUS_OK;
    bridge_rights_renew(r);
    if (r->is_waiting)
        return problem(why, STATUS_STOPPED, "%s", r->why.text);
    rights = &r->principal->rights;
    set = registry_find(r->registry, name, NULL);
    may_publish = rights_include(rights, RIGHT_PUBLISH, name) &&
                  !(set && set_is_private(set) && r->principal->is_everyone);
    if (!may_publish || (!set && !rights_include(rights, RIGHT_MANAGE, name)))
        return problem(why, STATUS_FORBIDDEN,
                       "the token \"%s\" has no right to %s \"%s\"",
                       r->config->as,
                       rights_word(may_publish ? RIGHT_MANAGE : RIGHT_PUBLISH),
                       problem_quote(name).text);
    bridge_rights_use(r);
    return STATUS_OK;
}

void
bridge_rights_use(const struct bridge_rights *r)
{
    if (r->principal)
        store_relaxed(&r->principal->used_us, clock_now_us());
}
