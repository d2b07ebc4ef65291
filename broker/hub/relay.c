#include "broker/hub/relay.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/random.h"
#include "broker/base/diag.h"
#include "broker/base/metrics.h"
#include "broker/hub/hub_state.h"
#include "broker/hub/topic.h"
#include "broker/sets/alteration.h"
#include "broker/sets/json_members.h"
#include "broker/sets/peers.h"
#include "broker/sets/upstream_topics.h"
#include "proto/datetime.h"
#include "proto/http/websub.h"
#include "proto/memory.h"
#include "proto/resourcesync/json.h"

/* With each new document at most so many old ones go: more than one, so that
 * lower limits take effect soon after a start. */
#define DROP_AT_ONCE 100

struct relaying {
    struct hub *hub;
    struct hub_db_hook hook;
    struct list changed;              /* relays that this turn has changed */
    struct list gone;                 /* RELAY_GONE, by node */
    struct alarm alarm;               /* deletes their rests in steps */
    char type[DOCUMENT_TYPE_MAX + 1]; /* of the document read last */
};

/* Life */

static void
relay_free(struct relay *relay)
{
    upstream_release(relay->claim);
    free(relay->topic_url);
    free(relay->hub_url);
    free(relay->new_hub_url);
    free(relay->comparable);
    free(relay);
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
relay_new(struct hub *hub, const struct relay_wish *wish)
{
    struct relay *relay = memory_new(1, sizeof(*relay));

    list_init(&relay->node);
    list_init(&relay->changed);
    relay->hub = hub;
    memcpy(relay->name, wish->name.data, wish->name.size);
    relay->topic_url = slice_dup(wish->topic);
    relay->hub_url = hub_url_of(hub, wish->hub_url);
    relay->comparable = websub_comparable_dup(wish->topic);
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

static enum status
on_row(const struct relay_record *row, void *user, struct problem *why)
{
    struct hub *hub = user;
    struct problem inner = {""};
    struct relay *relay;

    if (!set_name_is_valid(row->name) || !epoch_is_valid(row->epoch) ||
        websub_check_url(row->topic, "topic", why))
        return problem(why, STATUS_INVALID, "relay %" PRIu64 " is damaged",
                       row->id);
    relay =
        relay_new(hub, &(struct relay_wish){row->name, row->topic, row->hub});
    relay->id = row->id;
    memcpy(relay->epoch, row->epoch.data, EPOCH_SIZE);
    relay->state = RELAY_KEPT;
    relay->kept = relay->draft = row->documents;
    if (claim_topic(relay, &inner))
        diag(DIAG_WARNING, "hub", "the relay %s gets nothing: %s", relay->name,
             inner.text);
    list_append(&hub->relays, &relay->node);
    return STATUS_OK;
}

/* The end of a turn, and of a relay */

/* Deletes a part of the documents of a removed relay, when the hub has ended
 * its subscriptions (hub_topics_changed). True if there is more. */
static bool
delete_rests(const struct relay *relay)
{
    return relay->topic || hub_db_forget_documents(relay->hub->db, relay->id);
}

/* If a turn is lost here, the next start deletes the rest. */
static void
on_rests(struct alarm *alarm)
{
    struct relaying *all = list_entry(alarm, struct relaying, alarm);
    struct list *after;
    struct relay *relay;
    bool more = false;

    list_each (relay, after, &all->gone, node) {
        if (relay->id != 0 && !delete_rests(relay))
            relay->id = 0;
        more |= relay->id != 0;
    }
    if (more)
        caller_set_alarm(all->hub->caller, &all->alarm,
                         clock_steady_us() + 10000);
}

/* Hides the relay from all look-ups, and frees its topic for others. */
static void
hide_relay(struct relaying *all, struct relay *relay)
{
    relay->state = RELAY_GONE;
    upstream_release(relay->claim);
    relay->claim = NULL;
    list_put(&all->gone, &relay->node);
    hub_topics_changed(all->hub);
    caller_set_alarm(all->hub->caller, &all->alarm, clock_steady_us());
}

static void
keep_changes(struct relaying *all, struct relay *relay)
{
    if (relay->new_hub_url) {
        free(relay->hub_url);
        relay->hub_url = relay->new_hub_url;
        relay->new_hub_url = NULL;
    }
    if (relay->state == RELAY_LEAVING) {
        hide_relay(all, relay);
        return;
    }
    relay->state = RELAY_KEPT;
    metrics_add(METRIC_RELAY_DOCUMENTS,
                (int64_t)(relay->draft.last - relay->kept.last));
    relay->kept = relay->draft;
    if (relay->topic)
        watched_mark(&relay->topic->news.watched);
}

static void
lose_changes(struct relay *relay)
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
on_turn_ended(struct hub_db_hook *hook, bool is_kept)
{
    struct relaying *all = list_entry(hook, struct relaying, hook);
    struct relay *relay;

    list_drain (relay, &all->changed, changed) {
        if (is_kept)
            keep_changes(all, relay);
        else
            lose_changes(relay);
    }
}

/* Notes that this turn changes the relay: on_turn_ended. */
static void
note_change(struct relay *relay)
{
    list_put(&relay->hub->relaying->changed, &relay->changed);
}

enum status
relay_load(struct hub *hub, struct problem *why)
{
    struct relaying *all = memory_new(1, sizeof(*all));
    enum status rc;

    hub->relaying = all;
    all->hub = hub;
    all->alarm.ring = on_rests;
    all->hook.ended = on_turn_ended;
    list_init(&hub->relays);
    list_init(&all->changed);
    list_init(&all->gone);
    rc = hub_db_each_relay(hub->db, on_row, hub, why);
    if (!rc)
        hub_db_add_hook(hub->db, &all->hook);
    return rc;
}

static void
free_relays(struct list *relays)
{
    struct relay *relay;

    list_drain (relay, relays, node)
        relay_free(relay);
}

void
relay_close(struct hub *hub)
{
    struct relaying *all = hub->relaying;

    if (!all)
        return;
    free_relays(&hub->relays);
    free_relays(&all->gone);
    free(all);
    hub->relaying = NULL;
}

/* Finding */

static bool
is_findable(const struct relay *relay)
{
    return relay->state == RELAY_KEPT || relay->state == RELAY_LEAVING;
}

/* Finds also a relay that is new in this turn. */
static struct relay *
find_any(struct hub *hub, struct slice name, size_t *n)
{
    struct relay *found = NULL;
    struct list *after;
    struct relay *relay;

    *n = 0;
    list_each (relay, after, &hub->relays, node) {
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
    struct relay *relay = find_any(hub, name, &n);

    return relay && is_findable(relay) ? relay : NULL;
}

struct relay *
relay_of_topic(struct hub *hub, struct slice url)
{
    struct websub_comparable comparable;
    struct relay *found = NULL;
    struct list *after;
    struct relay *relay;

    websub_comparable(&comparable, url);

    list_each (relay, after, &hub->relays, node) {
        if (is_findable(relay) && !strcmp(comparable.text, relay->comparable))
            found = relay;
    }
    return found;
}

/* Making */

static enum status
create_relay(struct relay *relay, struct slice hub_url, struct problem *why)
{
    struct relay_record row;
    enum status rc = claim_topic(relay, why);

    /* Another relay or set has the topic: a conflict, not a wrong request. */
    if (rc)
        return rc == STATUS_INVALID ? STATUS_RUNNING : rc;
    if (!random_hex(relay->epoch, sizeof(relay->epoch)))
        return problem(why, STATUS_IO, "there are no random numbers");
    row = (struct relay_record){
        .name = slice_of(relay->name),
        .topic = slice_of(relay->topic_url),
        .hub = hub_url,
        .epoch = slice_of(relay->epoch),
    };
    note_change(relay);
    hub_db_add_relay(relay->hub->db, &row);
    relay->id = row.id;
    return STATUS_OK;
}

/* Changes the hub's name; nothing else of a relay can be changed. */
static enum status
change_hub_url(struct relay *relay, const struct relay_wish *wish,
               struct problem *why)
{
    if (!websub_is_same(wish->topic, slice_of(relay->topic_url)))
        return problem(why, STATUS_RUNNING,
                       "the relay %s has another topic, \"%s\": a topic is a "
                       "log of its own, so remove the relay first",
                       relay->name,
                       problem_quote(slice_of(relay->topic_url)).text);
    note_change(relay);
    hub_db_set_relay_hub(relay->hub->db, relay->id, wish->hub_url);
    free(relay->new_hub_url);
    relay->new_hub_url = hub_url_of(relay->hub, wish->hub_url);
    return STATUS_OK;
}

enum status
relay_make(struct hub *hub, const struct relay_wish *wish, struct relay **relay,
           bool *is_new, struct problem *why)
{
    size_t n;
    enum status rc;

    *relay = find_any(hub, wish->name, &n);
    *is_new = !*relay;
    if (*relay && (*relay)->state == RELAY_LEAVING)
        return problem(why, STATUS_RUNNING, "the relay %s is being removed",
                       (*relay)->name);
    if (*relay)
        return change_hub_url(*relay, wish, why);
    if (n >= RELAYS_MAX)
        return problem(why, STATUS_INVALID,
                       "this broker has no room for another relay: it holds "
                       "%d at most",
                       RELAYS_MAX);
    *relay = relay_new(hub, wish);
    rc = create_relay(*relay, wish->hub_url, why);
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
    if (relay->state != RELAY_KEPT)
        return problem(why, STATUS_RUNNING, "the relay %s is being removed",
                       relay->name);
    relay->state = RELAY_LEAVING;
    note_change(relay);
    hub_db_delete_relay(relay->hub->db, relay->id);
    return STATUS_OK;
}

/* Documents */

/* The type becomes a header of our deliveries: it must not end the line. */
static enum status
check_media_type(struct slice type, struct problem *why)
{
    if (type.size == 0)
        return problem(why, STATUS_MALFORMED,
                       "no Content-Type: subscribers get the document with the "
                       "type that it came with");
    if (type.size > DOCUMENT_TYPE_MAX)
        return problem(why, STATUS_MALFORMED,
                       "Content-Type: is longer than %d bytes",
                       DOCUMENT_TYPE_MAX);
    for (size_t i = 0; i < type.size; i++)
        if (type.data[i] < ' ' || type.data[i] == 0x7f)
            return problem(why, STATUS_MALFORMED,
                           "Content-Type: \"%s\" has characters that no header "
                           "can have",
                           problem_quote(type).text);
    if (!memchr(type.data, '/', type.size))
        return problem(why, STATUS_MALFORMED,
                       "Content-Type: \"%s\" is no media type",
                       problem_quote(type).text);
    return STATUS_OK;
}

/* Sets *is: the document has come before. */
static enum status
check_repeat(struct relay *relay, const struct document_record *d,
             const struct key *key, bool *is, struct problem *why)
{
    const struct documents_sum *sum = &relay->draft;
    struct digest other = sum->last_digest;
    enum status rc = STATUS_OK;

    *is = sum->last > sum->earliest;
    if (d->key.size > 0)
        rc = hub_db_find_document(relay->hub->db, relay->id, d->key, &other, is,
                                  why);
    if (rc || !*is)
        return rc;
    *is = digest_is_equal(&other, &d->digest);
    if (d->key.size > 0 && !*is)
        return problem(why, STATUS_INVALID,
                       "the Idempotency-Key \"%s\" was given to another "
                       "document",
                       problem_quote(key_slice(key)).text);
    return STATUS_OK;
}

/* The text of a key in hub.db: with its owner behind a line end, which no key
 * has. */
#define KEPT_KEY_SIZE (KEY_SIZE_MAX + 1 + KEY_OWNER_SIZE)

static struct slice
write_kept_key(char to[KEPT_KEY_SIZE], const struct key *key)
{
    int size = key->size == 0 ? 0
                              : snprintf(to, KEPT_KEY_SIZE, "%.*s%s%s",
                                         SLICE_ARG(key_slice(key)),
                                         key->owner[0] ? "\n" : "", key->owner);

    return (struct slice){to, (size_t)size};
}

static void
keep_within_limits(struct relay *relay)
{
    const struct config *config = relay->hub->config;
    struct documents_sum *sum = &relay->draft;

    for (int i = 0; i < DROP_AT_ONCE; i++) {
        uint64_t n = sum->last - sum->earliest;

        if (n <= 1 ||
            (n <= config->relay_documents && sum->bytes <= config->relay_bytes))
            break;
        sum->bytes -=
            hub_db_drop_document(relay->hub->db, relay->id, ++sum->earliest);
    }
}

static void
keep_document(struct relay *relay, struct document_record *d)
{
    struct documents_sum *sum = &relay->draft;

    d->relay = relay->id;
    d->seq = sum->last + 1;
    d->received_us = clock_now_us();
    note_change(relay);
    hub_db_add_document(relay->hub->db, d);
    sum->last = d->seq;
    sum->bytes += d->body.size;
    sum->last_us = d->received_us;
    sum->last_digest = d->digest;
    keep_within_limits(relay);
}

enum status
relay_take(struct relay *relay, struct slice type, const struct key *key,
           struct slice body, const struct digest *digest, struct problem *why)
{
    struct document_record d = {
        .type = slice_trimmed(type), .body = body, .digest = *digest};
    char kept_key[KEPT_KEY_SIZE];
    bool has_come = false;
    enum status rc;

    if (body.size == 0)
        return problem(why, STATUS_MALFORMED, "the document is empty");
    if (body.size > RELAY_DOCUMENT_MAX)
        return problem(why, STATUS_TOO_LARGE,
                       "a document of a relay has at most %zu bytes, not %zu",
                       RELAY_DOCUMENT_MAX, body.size);
    if (body.size > relay->hub->config->relay_bytes)
        return problem(why, STATUS_TOO_LARGE,
                       "a relay keeps at most %" PRIu64 " bytes, not %zu",
                       relay->hub->config->relay_bytes, body.size);
    rc = check_media_type(d.type, why);
    if (rc)
        return rc;
    d.key = write_kept_key(kept_key, key);
    rc = check_repeat(relay, &d, key, &has_come, why);
    if (!rc && !has_come)
        keep_document(relay, &d);
    return rc;
}

enum status
relay_read(struct relay *relay, uint64_t after, struct buf *to,
           const char **content_type, struct problem *why)
{
    struct relaying *all = relay->hub->relaying;
    enum status rc = STATUS_NOT_FOUND;

    if (after >= relay->kept.last)
        return STATUS_OK;
    if (after >= relay->kept.earliest && relay->state != RELAY_GONE)
        rc = hub_db_read_document(relay->hub->db, relay->id, after + 1, to,
                                  all->type, why);
    /* Or the turn at work drops it. */
    if (rc == STATUS_NOT_FOUND)
        return problem(why, STATUS_GONE,
                       "document %" PRIu64 " of the relay %s is no longer kept",
                       after + 1, relay->name);
    *content_type = all->type;
    return rc;
}

static enum metric_relay
state_of(const struct relay *relay)
{
    if (relay->state == RELAY_LEAVING)
        return RELAYS_LEAVING;
    return relay->claim ? RELAYS_ACTIVE : RELAYS_WITHOUT_TOPIC;
}

void
relay_measure(struct hub *hub)
{
    int64_t n[RELAYS_LEAVING + 1] = {0}, n_kept = 0, bytes = 0;
    struct list *after;
    const struct relay *relay;

    list_each (relay, after, &hub->relays, node) {
        n[state_of(relay)]++;
        n_kept += (int64_t)(relay->kept.last - relay->kept.earliest);
        bytes += (int64_t)relay->kept.bytes;
    }
    for (enum metric_relay i = 0; i <= RELAYS_LEAVING; i++)
        metrics_set_label(METRIC_RELAYS, i, n[i]);
    metrics_set(METRIC_RELAY_KEPT, n_kept);
    metrics_set(METRIC_RELAY_KEPT_BYTES, bytes);
}

/*
 * Commands: PUT, GET and DELETE /relays/{name}, GET /relays
 *
 *     {"name":"news","topic":"https://a.example/feed",
 *      "hub":"https://b.example/hub","epoch":"0123456789abcdef","last":7,
 *      "documents":7,"bytes":51234,
 *      "lastDocument":"2026-01-02T03:04:05.678901Z","subscriptions":2}
 */

/* The JSON of PUT */

enum member { MEMBER_TOPIC, MEMBER_HUB, MEMBERS };

static const char *const members[MEMBERS] = {"topic", "hub"};

static enum status
take_url(void *user, size_t i, enum json_event event, struct slice text,
         struct problem *why)
{
    struct buf *urls = user;

    if (event != JSON_STRING)
        return problem(why, STATUS_INVALID, "%s: is a string", members[i]);
    buf_add_slice(&urls[i], text);
    /* Well-formed, but not acceptable. */
    return websub_check_url(text, members[i], why) ? STATUS_INVALID : STATUS_OK;
}

static const struct json_members relay_members = {
    .form = "a relay is a JSON object, such as {\"topic\":\"https://...\"}",
    .what = "setting of a relay",
    .rows = members,
    .n = MEMBERS,
    .row_size = sizeof(members[0]),
    .take = take_url,
};

/* Refuses our own topics: they need no relay. */
static enum status
check_topic(struct slice topic, const char *public_url, struct problem *why)
{
    if (topic.size == 0)
        return problem(why, STATUS_INVALID, "topic: is missing");
    if (peers_is_ours(topic, public_url))
        return problem(why, STATUS_INVALID,
                       "topic: \"%s\" is of this broker itself",
                       problem_quote(topic).text);
    return STATUS_OK;
}

/* Showing */

static void
write_relay(struct buf *to, const struct relay *relay)
{
    const struct documents_sum *sum = &relay->draft;
    char time[DATETIME_SIZE];

    buf_add_format(to, "{\"name\":\"%s\",\"topic\":", relay->name);
    json_text(to, slice_of(relay->topic_url));
    BUF_ADD(to, ",\"hub\":");
    json_text(
        to, slice_of(relay->new_hub_url ? relay->new_hub_url : relay->hub_url));
    buf_add_format(to,
                   ",\"epoch\":\"%s\",\"last\":%" PRIu64
                   ",\"documents\":%" PRIu64 ",\"bytes\":%" PRIu64,
                   relay->epoch, sum->last, sum->last - sum->earliest,
                   sum->bytes);
    if (sum->last_us != 0) {
        datetime_write(time, sum->last_us);
        buf_add_format(to, ",\"lastDocument\":\"%.*s\"", DATETIME_SIZE, time);
    }
    buf_add_format(to, ",\"subscriptions\":%zu}",
                   relay->topic ? relay->topic->subscriptions_by_id.n : 0);
}

/* The commands */

static struct relay *
find_named(struct command *command)
{
    struct relay *relay = relay_find(command->hub, slice_of(command->name));

    if (!relay)
        command_end(command,
                    problem(&command->why, STATUS_NOT_FOUND,
                            "there is no relay called \"%s\"",
                            problem_quote(slice_of(command->name)).text),
                    0);
    return relay;
}

void
relay_put(struct command *command)
{
    struct hub *hub = command->hub;
    struct problem *why = &command->why;
    struct buf urls[MEMBERS];
    struct relay *relay = NULL;
    bool is_new = false;
    unsigned named = 0;
    enum status rc = name_check("relay", slice_of(command->name), why);

    for (enum member m = 0; m < MEMBERS; m++)
        buf_init(&urls[m], WEBSUB_URL_MAX);
    if (!rc)
        rc = json_members_read(&relay_members, buf_slice(&command->body), urls,
                               &named, why);
    if (!rc)
        rc = check_topic(buf_slice(&urls[MEMBER_TOPIC]),
                         registry_public_url(hub->registry), why);
    if (!rc)
        rc = relay_make(hub,
                        &(struct relay_wish){
                            slice_of(command->name),
                            buf_slice(&urls[MEMBER_TOPIC]),
                            buf_slice(&urls[MEMBER_HUB]),
                        },
                        &relay, &is_new, why);
    if (!rc) {
        write_relay(&command->text, relay);
        BUF_ADD(&command->text, "\n");
    }
    command_end(command, rc, is_new ? 201 : 200);
    for (enum member m = 0; m < MEMBERS; m++)
        buf_fini(&urls[m]);
}

void
relay_show(struct command *command)
{
    struct relay *relay = find_named(command);

    if (!relay)
        return;
    write_relay(&command->text, relay);
    BUF_ADD(&command->text, "\n");
    command_report(command, STATUS_OK);
}

void
relay_list(struct command *command)
{
    const char *before = "{\"relays\":[";
    struct list *after;
    const struct relay *relay;

    list_each (relay, after, &command->hub->relays, node) {
        if (relay->state == RELAY_NEW)
            continue;
        buf_add_text(&command->text, before);
        write_relay(&command->text, relay);
        before = ",\n";
    }
    buf_add_text(&command->text, *before == '{' ? "{\"relays\":[]}\n" : "]}\n");
    command_report(command, STATUS_OK);
}

void
relay_remove(struct command *command)
{
    struct relay *relay = find_named(command);

    if (relay)
        command_end(command, relay_unmake(relay, &command->why), 204);
}
