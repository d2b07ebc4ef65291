#include "broker/posts/posts.h"

void
posts_init(struct posts *p, struct registry *registry)
{
    *p = (struct posts){.registry = registry};
    parser_pool_init(&p->parsers);
    pending_keys_init(&p->keys);
}

void
posts_fini(struct posts *p)
{
    if (!p->registry)
        return;
    parser_pool_fini(&p->parsers);
    pending_keys_fini(&p->keys);
    p->registry = NULL;
}

void
posts_set_checker(struct posts *p, posts_check_fn *check, void *user)
{
    p->check = check;
    p->check_user = user;
}

bool
posts_are_checked(const struct posts *p, struct slice name)
{
    return p->check && registry_content(p->registry, name) == CONTENT_INLINE;
}
