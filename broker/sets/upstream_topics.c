#include "broker/sets/upstream_topics.h"

#include "proto/http/websub.h"

struct upstream {
    struct map_node node;
    struct upstreams *all;
    char owner[UPSTREAM_OWNER_MAX + 1];
    struct set *set; /* NULL: not settled, or a relay's */
    size_t n_claims;
    char *topic; /* comparable */
};

void
upstreams_fini(struct upstreams *u)
{
    map_fini(&u->topics);
    pthread_mutex_destroy(&u->mutex);
}

static struct upstream *
find_topic(struct upstreams *u, const char *topic)
{
    uint64_t hash = map_hash(&u->topics, slice_of(topic));
    struct upstream *at;

    map_each_same (at, &u->topics, hash, node) {
        if (!strcmp(at->topic, topic))
            return at;
    }
    return NULL;
}

enum status
upstreams_claim(struct upstreams *u, struct slice url, const char *owner,
                struct upstream **claim, struct problem *why)
{
    char *topic = websub_comparable_dup(url);
    enum status rc = STATUS_OK;
    struct upstream *at;

    pthread_mutex_lock(&u->mutex);
    at = find_topic(u, topic);
    if (at && strcmp(at->owner, owner)) {
        rc = problem(why, STATUS_INVALID, "\"%s\" is the topic of %s already",
                     problem_quote(url).text, at->owner);
    } else if (!at) {
        at = memory_new(1, sizeof(*at));
        at->all = u;
        snprintf(at->owner, sizeof(at->owner), "%s", owner);
        at->topic = topic;
        map_add(&u->topics, &at->node, map_hash(&u->topics, slice_of(topic)));
        topic = NULL;
    }
    if (!rc) {
        at->n_claims++;
        *claim = at;
    }
    pthread_mutex_unlock(&u->mutex);
    free(topic);
    return rc;
}

void
upstream_settle(struct upstream *claim, struct set *set)
{
    pthread_mutex_lock(&claim->all->mutex);
    claim->set = set;
    pthread_mutex_unlock(&claim->all->mutex);
}

void
upstream_release(struct upstream *claim)
{
    struct upstreams *u;

    if (!claim)
        return;
    u = claim->all;
    pthread_mutex_lock(&u->mutex);
    if (--claim->n_claims == 0) {
        map_remove(&u->topics, &claim->node);
        free(claim->topic);
        free(claim);
    }
    pthread_mutex_unlock(&u->mutex);
}

struct set *
upstreams_find(struct upstreams *u, struct slice url)
{
    struct websub_comparable topic;
    struct set *set = NULL;
    struct upstream *at;

    websub_comparable(&topic, url);
    pthread_mutex_lock(&u->mutex);
    at = find_topic(u, topic.text);
    if (at)
        set = at->set;
    pthread_mutex_unlock(&u->mutex);
    return set;
}
