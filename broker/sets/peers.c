#include "broker/sets/peers.h"

#include "broker/sets/upstream_topics.h"
#include "proto/http/websub.h"

struct peers *
peers_ref(struct peers *p)
{
    /* Relaxed: the caller has a reference, or the lock under which it is
     * lent. */
    if (p)
        add_relaxed(&p->n_owners, 1);
    return p;
}

void
peers_unref(struct peers *p)
{
    /* Orders the reads of each owner before the free of the last one. */
    if (!p ||
        atomic_fetch_sub_explicit(&p->n_owners, 1, memory_order_acq_rel) > 1)
        return;
    upstream_release(p->claim);
    for (unsigned i = 0; i < p->n_hubs; i++)
        free(p->hubs[i]);
    free(p->upstream);
    free(p);
}

enum status
peers_add_hub(struct peers *p, struct slice url, struct problem *why)
{
    enum status rc;

    if (p->n_hubs == PEERS_HUBS_MAX)
        return problem(why, STATUS_INVALID, "hubs: there are more than %d",
                       PEERS_HUBS_MAX);
    if (url.size > PEERS_HUB_SIZE_MAX)
        return problem(why, STATUS_INVALID, "hubs: a URL has at most %d bytes",
                       PEERS_HUB_SIZE_MAX);
    /* A bad URL makes the setting invalid, not the document malformed. */
    rc = websub_check_url(url, "hubs", why) ? STATUS_INVALID : STATUS_OK;
    for (unsigned i = 0; !rc && i < p->n_hubs; i++)
        if (websub_is_same(url, slice_of(p->hubs[i])))
            rc = problem(why, STATUS_INVALID, "hubs: \"%s\" is there twice",
                         problem_quote(url).text);
    if (rc)
        return rc;
    p->hubs[p->n_hubs++] = slice_dup(url);
    return STATUS_OK;
}

bool
peers_have_same_hubs(const struct peers *a, const struct peers *b)
{
    unsigned n = a ? a->n_hubs : 0;
    bool are = n == (b ? b->n_hubs : 0);

    for (unsigned i = 0; are && i < n; i++)
        are = !strcmp(a->hubs[i], b->hubs[i]);
    return are;
}

bool
peers_is_ours(struct slice url, const char *public_url)
{
    struct websub_comparable a, b;
    size_t n;

    websub_comparable(&a, url);
    websub_comparable(&b, slice_of(public_url));
    n = b.size;
    if (n > 0 && b.text[n - 1] == '/')
        n--;
    return !strncmp(a.text, b.text, n) && a.text[n] == '/';
}

enum status
peers_check_foreign(const struct peers *p, const char *public_url,
                    struct problem *why)
{
    if (p->upstream && peers_is_ours(slice_of(p->upstream), public_url))
        return problem(why, STATUS_INVALID,
                       "upstreamTopic: \"%s\" is of this broker itself",
                       problem_quote(slice_of(p->upstream)).text);
    for (unsigned i = 0; i < p->n_hubs; i++)
        if (peers_is_ours(slice_of(p->hubs[i]), public_url))
            return problem(why, STATUS_INVALID,
                           "hubs: \"%s\" is this broker's own; its hub gets "
                           "every change anyway",
                           problem_quote(slice_of(p->hubs[i])).text);
    return STATUS_OK;
}
