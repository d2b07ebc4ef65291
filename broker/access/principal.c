#include "broker/access/principal.h"

struct principal *
principal_new(struct slice name, const struct rights *rights, int64_t ends_us)
{
    struct principal *p = memory_new(1, sizeof(*p));

    if (name.size > PRINCIPAL_NAME_MAX)
        name.size = PRINCIPAL_NAME_MAX;
    if (name.size)
        memcpy(p->name, name.data, name.size);
    p->is_everyone = slice_is(name, PRINCIPAL_EVERYONE);
    p->rights = *rights;
    atomic_init(&p->authority.refs, 1);
    atomic_init(&p->authority.ends_us, ends_us);
    return p;
}

struct principal *
principal_ref(struct principal *p)
{
    authority_ref(&p->authority);
    return p;
}

void
principal_unref(struct principal *p)
{
    authority_unref(p ? &p->authority : NULL);
}

void
principal_end(struct principal *p, int64_t at_us)
{
    authority_end(&p->authority, at_us);
}

bool
principal_sees(const struct principal *p, struct slice set, bool is_private)
{
    return (!is_private || !p->is_everyone) &&
           rights_include(&p->rights, RIGHT_SUBSCRIBE, set);
}
