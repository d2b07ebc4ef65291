#include "broker/sets/upstream_topics.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/buf.h"
#include "proto/websub.h"

struct upstream {
    struct upstreams *all;
    struct upstream *next; /* in its list */
    char owner[UPSTREAM_OWNER_MAX + 1];
    struct set *set; /* NULL: not settled, or a relay's */
    size_t n_claims;
    size_t size;
    char topic[]; /* comparable */
};

void
upstreams_init(struct upstreams *u)
{
    pthread_mutex_init(&u->mutex, NULL);
    u->lists = NULL;
}

void
upstreams_fini(struct upstreams *u)
{
    free(u->lists);
    pthread_mutex_destroy(&u->mutex);
}

/* FNV-1a: only users who may configure sets can add topics. */
static struct upstream **
list_of(struct upstreams *u, struct slice topic)
{
    uint32_t h = 2166136261u;

    for (size_t i = 0; i < topic.size; i++)
        h = (h ^ (unsigned char)topic.data[i]) * 16777619u;
    return &u->lists[h % UPSTREAMS_LISTS];
}

static struct upstream *
find_topic(struct upstreams *u, struct slice topic)
{
    struct upstream *at = u->lists ? *list_of(u, topic) : NULL;

    while (at && !slice_equal((struct slice){at->topic, at->size}, topic))
        at = at->next;
    return at;
}

static struct upstream *
add_topic(struct upstreams *u, struct slice topic, const char *owner)
{
    struct upstream *new, **list;

    if (!u->lists)
        u->lists = calloc(UPSTREAMS_LISTS, sizeof(*u->lists));
    new = u->lists ? calloc(1, sizeof(*new) + topic.size) : NULL;
    if (!new)
        return NULL;
    list = list_of(u, topic);
    new->all = u;
    snprintf(new->owner, sizeof(new->owner), "%s", owner);
    new->size = topic.size;
    memcpy(new->topic, topic.data, topic.size);
    new->next = *list;
    *list = new;
    return new;
}

enum status
upstreams_claim(struct upstreams *u, struct slice url, const char *owner,
                struct upstream **claim, struct problem *why)
{
    enum status rc = STATUS_OK;
    struct upstream *at = NULL;
    struct buf topic;

    buf_init(&topic, 3 * WEBSUB_URL_MAX + 16);
    websub_comparable(&topic, url);
    pthread_mutex_lock(&u->mutex);
    if (!topic.failed)
        at = find_topic(u, buf_slice(&topic));
    if (at && strcmp(at->owner, owner))
        rc = problem(why, STATUS_INVALID, "\"%s\" is the topic of %s already",
                     problem_quote(url).text, at->owner);
    else if (!at && !topic.failed)
        at = add_topic(u, buf_slice(&topic), owner);
    if (!rc && !at)
        rc = problem_memory(why);
    if (!rc) {
        at->n_claims++;
        *claim = at;
    }
    pthread_mutex_unlock(&u->mutex);
    buf_fini(&topic);
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
    struct upstream **at;

    if (!claim)
        return;
    u = claim->all;
    pthread_mutex_lock(&u->mutex);
    if (--claim->n_claims == 0) {
        at = list_of(u, (struct slice){claim->topic, claim->size});
        while (*at != claim)
            at = &(*at)->next;
        *at = claim->next;
        free(claim);
    }
    pthread_mutex_unlock(&u->mutex);
}

struct set *
upstreams_find(struct upstreams *u, struct slice url)
{
    struct set *set = NULL;
    struct upstream *at;
    struct buf topic;

    buf_init(&topic, 3 * WEBSUB_URL_MAX + 16);
    websub_comparable(&topic, url);
    pthread_mutex_lock(&u->mutex);
    at = topic.failed ? NULL : find_topic(u, buf_slice(&topic));
    if (at)
        set = at->set;
    pthread_mutex_unlock(&u->mutex);
    buf_fini(&topic);
    return set;
}
