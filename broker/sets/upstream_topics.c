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
    char *topic; /* comparable */
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
list_of(struct upstreams *u, const char *topic)
{
    uint32_t h = 2166136261u;

    for (; *topic; topic++)
        h = (h ^ (unsigned char)*topic) * 16777619u;
    return &u->lists[h % UPSTREAMS_LISTS];
}

static struct upstream *
find_topic(struct upstreams *u, const char *topic)
{
    struct upstream *at = u->lists ? *list_of(u, topic) : NULL;

    while (at && strcmp(at->topic, topic))
        at = at->next;
    return at;
}

/* Takes over `topic` if it succeeds. */
static struct upstream *
add_topic(struct upstreams *u, char *topic, const char *owner)
{
    struct upstream *new, **list;

    if (!u->lists)
        u->lists = calloc(UPSTREAMS_LISTS, sizeof(*u->lists));
    new = u->lists ? calloc(1, sizeof(*new)) : NULL;
    if (!new)
        return NULL;
    list = list_of(u, topic);
    new->all = u;
    snprintf(new->owner, sizeof(new->owner), "%s", owner);
    new->topic = topic;
    new->next = *list;
    *list = new;
    return new;
}

enum status
upstreams_claim(struct upstreams *u, struct slice url, const char *owner,
                struct upstream **claim, struct problem *why)
{
    char *topic = websub_comparable_dup(url);
    enum status rc = STATUS_OK;
    struct upstream *at;

    if (!topic)
        return problem_memory(why);
    pthread_mutex_lock(&u->mutex);
    at = find_topic(u, topic);
    if (at && strcmp(at->owner, owner)) {
        rc = problem(why, STATUS_INVALID, "\"%s\" is the topic of %s already",
                     problem_quote(url).text, at->owner);
    } else if (!at && (at = add_topic(u, topic, owner))) {
        topic = NULL;
    } else if (!at) {
        rc = problem_memory(why);
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
    struct upstream **at;

    if (!claim)
        return;
    u = claim->all;
    pthread_mutex_lock(&u->mutex);
    if (--claim->n_claims == 0) {
        at = list_of(u, claim->topic);
        while (*at != claim)
            at = &(*at)->next;
        *at = claim->next;
        free(claim->topic);
        free(claim);
    }
    pthread_mutex_unlock(&u->mutex);
}

struct set *
upstreams_find(struct upstreams *u, struct slice url)
{
    char *topic = websub_comparable_dup(url);
    struct set *set = NULL;
    struct upstream *at;

    if (!topic)
        return NULL;
    pthread_mutex_lock(&u->mutex);
    at = find_topic(u, topic);
    if (at)
        set = at->set;
    pthread_mutex_unlock(&u->mutex);
    free(topic);
    return set;
}
