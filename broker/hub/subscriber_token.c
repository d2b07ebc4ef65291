#include "broker/hub/subscriber_token.h"

void
subscriber_token_init(struct subscriber_token *owner, struct slice name,
                      int64_t ends_us, struct slice requester)
{
    *owner = (struct subscriber_token){.ends_us = ends_us};
    snprintf(owner->requester, sizeof(owner->requester), "%.*s",
             SLICE_ARG(requester));
    if (name.size > 0)
        owner->name = slice_dup(name);
}

void
subscriber_token_fini(struct subscriber_token *owner)
{
    free(owner->name);
    principal_unref(owner->principal);
    client_unref(owner->client);
    *owner = (struct subscriber_token){.name = NULL};
}

const char *
subscriber_token_name(const struct subscriber_token *owner)
{
    return owner->name ? owner->name : "";
}

struct client *
subscriber_token_client(struct subscriber_token *owner, struct clients *clients)
{
    struct slice name = slice_of(subscriber_token_name(owner));

    if (!owner->client)
        owner->client = name.size && !slice_is(name, PRINCIPAL_EVERYONE)
                            ? client_of_owner(clients, name)
                            : client_named(clients, owner->requester);
    return owner->client;
}

bool
subscriber_token_may_subscribe(struct subscriber_token *owner,
                               struct tokens *tokens, struct slice name,
                               bool is_private, int64_t now_us)
{
    struct principal *p = owner->principal;

    if (!tokens || (p && !principal_is_over(p, now_us)))
        return true;
    if (p)
        owner->ends_us = 0;
    principal_unref(p);
    owner->principal = NULL;
    if (principal_is_outside(subscriber_token_name(owner)))
        return now_us < owner->ends_us;
    p = tokens_owner(tokens, slice_of(subscriber_token_name(owner)), now_us);
    if (p && principal_sees(p, name, is_private)) {
        owner->principal = p;
        return true;
    }
    principal_unref(p);
    return false;
}
