#include "broker/hub/relay.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <openssl/rand.h>

#include "base/clock.h"
#include "broker/base/diag.h"
#include "broker/hub/inside.h"
#include "broker/hub/topic.h"
#include "broker/sets/upstream_topics.h"
#include "proto/websub.h"

/* Life */

static void
relay_free(struct relay *relay)
{
    if (!relay)
        return;
    upstream_release(relay->claim);
    free(relay->topic_url);
    free(relay->hub_url);
    free(relay->new_hub_url);
    free(relay->comparable);
    free(relay);
}

static char *
comparable_of(struct slice url)
{
    struct buf text;
    char *copy;

    buf_init(&text, 3 * WEBSUB_URL_MAX + 16);
    websub_comparable(&text, url);
    copy = text.failed ? NULL : slice_dup(buf_slice(&text));
    buf_fini(&text);
    return copy;
}

/* The name that the Source has for us: the given one, or our present URL. */
static char *
hub_url_of(const struct hub *hub, struct slice given)
{
    struct link_text ours =
        link_to(registry_public_url(hub->registry), LINK_HUB, NULL, NULL, 0);

    return slice_dup(given.size > 0 ? given : link_slice(&ours));
}

/* Makes a relay, in no list yet. */
static struct relay *
relay_new(struct hub *hub, struct slice name, struct slice topic,
          struct slice hub_url)
{
    struct relay *relay = calloc(1, sizeof(*relay));

    if (!relay)
        return NULL;
    list_init(&relay->node);
    list_init(&relay->changed);
    relay->hub = hub;
    memcpy(relay->name, name.data, name.size);
    relay->topic_url = slice_dup(topic);
    relay->hub_url = hub_url_of(hub, hub_url);
    relay->comparable = comparable_of(topic);
    if (!relay->topic_url || !relay->hub_url || !relay->comparable) {
        relay_free(relay);
        return NULL;
    }
    return relay;
}

static enum status
claim_topic(struct relay *relay, struct problem *why)
{
    char owner[UPSTREAM_OWNER_MAX + 1];

    snprintf(owner, sizeof(owner), "relay %s", relay->name);
    return registry_claim(relay->hub->registry, slice_of(relay->topic_url),
                          owner, &relay->claim, why);
}

static void
settle(struct relay *relay, const struct documents_sum *sum)
{
    relay->kept = relay->draft = *sum;
    relay->earliest = sum->earliest;
    relay->last = sum->last;
}

static enum status
on_relay(const struct relay_record *row, const struct documents_sum *sum,
         void *user, struct problem *why)
{
    struct hub *hub = user;
    struct problem inner = {""};
    struct relay *relay;

    if (!set_name_is_valid(row->name) || !epoch_is_valid(row->epoch) ||
        websub_check_url(row->topic, "topic", why))
        return problem(why, STATUS_INVALID, "relay %" PRIu64 " is damaged",
                       row->id);
    relay = relay_new(hub, row->name, row->topic, row->hub);
    if (!relay)
        return problem_memory(why);
    relay->id = row->id;
    memcpy(relay->epoch, row->epoch.data, EPOCH_SIZE);
    relay->state = RELAY_KEPT;
    settle(relay, sum);
    if (claim_topic(relay, &inner))
        diag(DIAG_WARNING, "hub", "the relay %s gets nothing: %s", relay->name,
             inner.text);
    list_append(&hub->relays, &relay->node);
    return STATUS_OK;
}

/* The end of a turn, and of a relay */

/* Deletes a part of what a removed relay leaves behind: first its
 * subscriptions, then its documents. True if there is more. */
static bool
sweep(struct relaying *all, struct relay *relay)
{
    struct problem why = {""};
    bool more = false;

    if (relay->topic && hub_end_topic(relay->hub, relay->topic))
        return true;
    if (!hub_db_touch(relay->hub->db))
        return true;
    if (relay_db_forget(all->db, relay->id, &more, &why))
        hub_db_fail(relay->hub->db, &why);
    return more;
}

/* If a turn is lost here, the next start deletes the rest. */
static void
on_alarm(struct alarm *alarm)
{
    struct relaying *all = list_entry(alarm, struct relaying, alarm);
    struct list *node, *after;
    bool more = false;

    list_foreach (node, after, &all->gone) {
        struct relay *relay = list_entry(node, struct relay, node);

        if (relay->id != 0 && !sweep(all, relay))
            relay->id = 0;
        more |= relay->id != 0;
    }
    if (more)
        caller_set_alarm(all->hub->caller, &all->alarm,
                         clock_steady_us() + 10000);
}

/* Hides the relay from all look-ups, and frees its topic for others. */
static void
bury(struct relaying *all, struct relay *relay)
{
    relay->state = RELAY_GONE;
    upstream_release(relay->claim);
    relay->claim = NULL;
    list_remove(&relay->node);
    list_append(&all->gone, &relay->node);
    caller_set_alarm(all->hub->caller, &all->alarm, clock_steady_us());
}

static void
on_kept(struct relaying *all, struct relay *relay)
{
    if (relay->new_hub_url) {
        free(relay->hub_url);
        relay->hub_url = relay->new_hub_url;
        relay->new_hub_url = NULL;
    }
    if (relay->state == RELAY_LEAVING) {
        bury(all, relay);
        return;
    }
    relay->state = RELAY_KEPT;
    settle(relay, &relay->draft);
    if (relay->topic)
        topic_mark(relay->topic);
}

static void
on_lost(struct relay *relay)
{
    free(relay->new_hub_url);
    relay->new_hub_url = NULL;
    if (relay->state == RELAY_NEW) {
        list_remove(&relay->node); /* nobody could find it yet */
        relay_free(relay);
        return;
    }
    relay->state = RELAY_KEPT;
    relay->draft = relay->kept;
}

static void
on_ended(struct hub_db_hook *hook, bool is_kept)
{
    struct relaying *all = list_entry(hook, struct relaying, hook);
    struct list *node;

    while ((node = list_first(&all->changed))) {
        struct relay *relay = list_entry(node, struct relay, changed);

        list_remove(node);
        if (is_kept)
            on_kept(all, relay);
        else
            on_lost(relay);
    }
}

bool
relay_touch(struct relay *relay)
{
    list_remove(&relay->changed);
    list_append(&relay->hub->relaying->changed, &relay->changed);
    return hub_db_touch(relay->hub->db);
}

enum status
relay_load(struct hub *hub, struct problem *why)
{
    struct relaying *all = calloc(1, sizeof(*all));
    enum status rc;

    if (!all)
        return problem_memory(why);
    hub->relaying = all;
    all->hub = hub;
    all->alarm.ring = on_alarm;
    all->hook.ended = on_ended;
    list_init(&hub->relays);
    list_init(&all->changed);
    list_init(&all->gone);
    rc = relay_db_open(&all->db, hub_db_handle(hub->db), why);
    if (!rc)
        rc = relay_db_each(all->db, on_relay, hub, why);
    if (!rc)
        hub_db_add_hook(hub->db, &all->hook);
    return rc;
}

static void
free_all(struct list *relays)
{
    struct list *node;

    while ((node = list_first(relays))) {
        list_remove(node);
        relay_free(list_entry(node, struct relay, node));
    }
}

void
relay_close(struct hub *hub)
{
    struct relaying *all = hub->relaying;

    if (!all)
        return;
    free_all(&hub->relays);
    free_all(&all->gone);
    relay_db_close(all->db);
    free(all);
    hub->relaying = NULL;
}

/* Finding */

static bool
is_there(const struct relay *relay)
{
    return relay->state == RELAY_KEPT || relay->state == RELAY_LEAVING;
}

/* Finds also a relay that is new in this turn. */
static struct relay *
find_name(struct hub *hub, struct slice name, size_t *n)
{
    struct relay *found = NULL;
    struct list *node, *after;

    *n = 0;
    list_foreach (node, after, &hub->relays) {
        struct relay *relay = list_entry(node, struct relay, node);

        ++*n;
        if (slice_is(name, relay->name))
            found = relay;
    }
    return found;
}

struct relay *
relay_find(struct hub *hub, struct slice name)
{
    size_t n;
    struct relay *relay = find_name(hub, name, &n);

    return relay && is_there(relay) ? relay : NULL;
}

struct relay *
relay_of_topic(struct hub *hub, struct slice url)
{
    char *comparable = comparable_of(url);
    struct relay *found = NULL;
    struct list *node, *after;

    list_foreach (node, after, &hub->relays) {
        struct relay *relay = list_entry(node, struct relay, node);

        if (comparable && is_there(relay) &&
            !strcmp(comparable, relay->comparable))
            found = relay;
    }
    free(comparable);
    return found;
}

/* Making */

static enum status
random_epoch(char to[EPOCH_SIZE + 1], struct problem *why)
{
    unsigned char bytes[EPOCH_SIZE / 2];

    if (RAND_bytes(bytes, sizeof(bytes)) != 1)
        return problem(why, STATUS_IO, "no random bytes to be had");
    for (size_t i = 0; i < sizeof(bytes); i++)
        snprintf(to + 2 * i, 3, "%02x", bytes[i]);
    return STATUS_OK;
}

static enum status
make(struct relay *relay, struct slice hub_url, struct problem *why)
{
    struct relay_record row;
    enum status rc = claim_topic(relay, why);

    /* Another relay or set has the topic: a conflict, not a wrong request. */
    if (rc)
        return rc == STATUS_INVALID ? STATUS_RUNNING : rc;
    rc = random_epoch(relay->epoch, why);
    if (rc)
        return rc;
    row = (struct relay_record){
        .name = slice_of(relay->name),
        .topic = slice_of(relay->topic_url),
        .hub = hub_url,
        .epoch = slice_of(relay->epoch),
    };
    if (relay_touch(relay) && relay_db_add(relay->hub->relaying->db, &row, why))
        hub_db_fail(relay->hub->db, why);
    relay->id = row.id;
    return STATUS_OK; /* the end of the turn reports a failure to write */
}

/* Changes the hub's name; nothing else of a relay can be changed. */
static enum status
change(struct relay *relay, struct slice topic, struct slice hub_url,
       struct problem *why)
{
    char *comparable = comparable_of(topic), *new_hub_url;
    bool is_other = !comparable || strcmp(comparable, relay->comparable) != 0;

    free(comparable);
    if (is_other)
        return problem(why, STATUS_RUNNING,
                       "the relay %s has another topic, \"%s\": a topic is a "
                       "log of its own, so remove the relay first",
                       relay->name,
                       problem_quote(slice_of(relay->topic_url)).text);
    new_hub_url = hub_url_of(relay->hub, hub_url);
    if (!new_hub_url)
        return problem_memory(why);
    if (relay_touch(relay) &&
        relay_db_set_hub(relay->hub->relaying->db, relay->id, hub_url, why))
        hub_db_fail(relay->hub->db, why);
    free(relay->new_hub_url);
    relay->new_hub_url = new_hub_url;
    return STATUS_OK;
}

enum status
relay_make(struct hub *hub, struct slice name, struct slice topic,
           struct slice hub_url, struct relay **relay, bool *is_new,
           struct problem *why)
{
    size_t n;
    enum status rc;

    *relay = find_name(hub, name, &n);
    *is_new = !*relay;
    if (*relay && (*relay)->state == RELAY_LEAVING)
        return problem(why, STATUS_RUNNING, "the relay %s is being removed",
                       (*relay)->name);
    if (*relay)
        return change(*relay, topic, hub_url, why);
    if (n >= RELAYS_MAX)
        return problem(why, STATUS_INVALID,
                       "this broker has no room for another relay: it holds "
                       "%d at most",
                       RELAYS_MAX);
    *relay = relay_new(hub, name, topic, hub_url);
    if (!*relay)
        return problem_memory(why);
    rc = make(*relay, hub_url, why);
    if (rc) {
        relay_free(*relay);
        *relay = NULL;
        return rc;
    }
    list_append(&hub->relays, &(*relay)->node);
    return STATUS_OK;
}

enum status
relay_unmake(struct relay *relay, struct problem *why)
{
    struct problem inner = {""};

    if (relay->state != RELAY_KEPT)
        return problem(why, STATUS_RUNNING, "the relay %s is being removed",
                       relay->name);
    relay->state = RELAY_LEAVING;
    if (relay_touch(relay) &&
        relay_db_remove(relay->hub->relaying->db, relay->id, &inner))
        hub_db_fail(relay->hub->db, &inner);
    return STATUS_OK;
}
