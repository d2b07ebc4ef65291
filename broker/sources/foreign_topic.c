#include "broker/sources/foreign_topic.h"

#include "base/random.h"
#include "broker/base/metrics.h"
#include "broker/sets/json_members.h"
#include "broker/sets/peers.h"
#include "broker/sets/set_change.h"
#include "proto/resourcesync/json.h"

/* With each new document at most so many old ones go: more than one, so that
 * lower limits take effect soon after a start. */
#define DROP_AT_ONCE 100

/* One step deletes so many documents of a removed topic, or documents with so
 * many bytes: SQLite visits each page of a large body to free it. */
#define FORGET_DOCUMENTS 100
#define FORGET_BYTES     (16 << 20)

/* What a client asks for; all URLs are valid. */
struct foreign_topic_wish {
    struct slice name, url;
    struct slice hub_url; /* empty: our own URL */
};

/* Life */

static void
topic_free(struct foreign_topic *topic)
{
    upstream_release(topic->claim);
    free(topic->url);
    free(topic->hub_url);
    free(topic->new_hub_url);
    free(topic->comparable);
    free(topic);
}

/* The name that the Source has for us: the given one, or our present URL. */
static char *
hub_url_of(const struct foreign_topics *topics, struct slice given)
{
    struct link_text ours =
        link_to(topics->registry->options.public_url, LINK_HUB, NULL, NULL, 0);

    return slice_dup(given.size > 0 ? given : link_slice(&ours));
}

/* Makes a topic, in no list yet. */
static struct foreign_topic *
topic_new(struct foreign_topics *topics, const struct foreign_topic_wish *wish)
{
    struct foreign_topic *topic = memory_new(1, sizeof(*topic));

    list_init(&topic->node);
    list_init(&topic->changed);
    topic->topics = topics;
    memcpy(topic->name, wish->name.data, wish->name.size);
    topic->url = slice_dup(wish->url);
    topic->hub_url = hub_url_of(topics, wish->hub_url);
    topic->comparable = websub_comparable_dup(wish->url);
    return topic;
}

static enum status
claim_url(struct foreign_topic *topic, struct problem *why)
{
    char owner[UPSTREAM_OWNER_MAX + 1];

    snprintf(owner, sizeof(owner), "relay %s", topic->name);
    return upstreams_claim(&topic->topics->registry->upstreams,
                           slice_of(topic->url), owner, &topic->claim, why);
}

/* The end of a turn, and of a topic */

/* Deletes a part of the documents of a removed topic, when the hub has ended
 * its subscriptions. True if there is more. */
static bool
delete_rests(const struct foreign_topic *topic)
{
    struct hub_db *db = topic->topics->db;
    struct problem why = {""};
    struct db_rows rows;
    uint64_t last = 0, size, bytes = 0;
    bool is_more = true;

    if (topic->topic)
        return true;
    rows =
        DB_SELECT(&db->db, "look at a document", &why,
                  "SELECT seq, size FROM documents WHERE relay=? ORDER BY seq",
                  topic->id);
    for (int n = 0; is_more && bytes < FORGET_BYTES && n < FORGET_DOCUMENTS;
         n++) {
        is_more = DB_NEXT(&rows, &last, &size);
        bytes += is_more ? size : 0;
    }
    if (db_rows_end(&rows)) {
        hub_db_fail(db, &why);
        is_more = true;
    }
    if (last > 0)
        HUB_DB_WRITE(db, "DELETE FROM documents WHERE relay=? AND seq<=?",
                     topic->id, last);
    return is_more;
}

/* If a turn is lost here, the next start deletes the rest. */
static void
on_rests(struct alarm *alarm)
{
    struct foreign_topics *topics =
        list_entry(alarm, struct foreign_topics, alarm);
    struct foreign_topic *topic;
    bool more = false;

    list_walk (topic, &topics->gone, node) {
        if (topic->id != 0 && !delete_rests(topic))
            topic->id = 0;
        more |= topic->id != 0;
    }
    if (more)
        caller_set_alarm(topics->caller, alarm, clock_steady_us() + 10000);
}

/* Ends it for all look-ups, and frees its URL for others. */
static void
end_topic(struct foreign_topic *topic)
{
    topic->state = FOREIGN_GONE;
    upstream_release(topic->claim);
    topic->claim = NULL;
    list_put(&topic->topics->gone, &topic->node);
}

static void
on_turn_ended(struct hub_db_hook *hook, bool is_kept)
{
    struct foreign_topics *topics =
        list_entry(hook, struct foreign_topics, hook);
    struct foreign_topic *topic;

    list_drain (topic, &topics->changed, changed) {
        if (topic->new_hub_url) {
            free(is_kept ? topic->hub_url : topic->new_hub_url);
            if (is_kept)
                topic->hub_url = topic->new_hub_url;
            topic->new_hub_url = NULL;
        }
        if (!is_kept && topic->state == FOREIGN_NEW) {
            list_remove(&topic->node); /* nobody could find it yet */
            topic_free(topic);
        } else if (!is_kept) {
            topic->state = FOREIGN_KEPT;
            topic->draft = topic->kept;
        } else if (topic->state == FOREIGN_LEAVING) {
            end_topic(topic);
            topics->has_lost_some = true;
            caller_set_alarm(topics->caller, &topics->alarm, clock_steady_us());
        } else {
            topic->state = FOREIGN_KEPT;
            metrics_add(METRIC_RELAY_DOCUMENTS,
                        (int64_t)(topic->draft.last - topic->kept.last));
            topic->kept = topic->draft;
            if (topic->news)
                watched_mark(topic->news);
        }
    }
}

/* Writes a row of the topic in this turn, whose end keeps or loses the
 * change. */
#define WRITE_TOPIC(topic, sql, ...) \
    write_topic((topic), (sql), DB_VALUES(__VA_ARGS__), DB_INTO())

static void
write_topic(struct foreign_topic *topic, const char *sql,
            const struct db_value *values, const struct db_target *into)
{
    list_put(&topic->topics->changed, &topic->changed);
    hub_db_get(topic->topics->db, sql, values, into);
}

/* Reading hub.db */

/* Sums up without bodies: reads an index, and one small row per document. */
static enum status
sum_documents(struct foreign_topic *topic, struct problem *why)
{
    struct db_rows rows =
        DB_SELECT(&topic->topics->db->db, "read the documents of a relay", why,
                  "SELECT seq, received_us, size, digest FROM documents"
                  " WHERE relay=? ORDER BY seq",
                  topic->id);
    struct documents_sum *sum = &topic->draft;
    uint64_t seq, size;

    while (DB_NEXT(&rows, &seq, &sum->last_us, &size, &sum->last_digest)) {
        if (sum->bytes == 0) /* no document is empty: this is the first one */
            sum->earliest = seq - 1;
        sum->bytes += size;
        if (digest_is_equal(&sum->last_digest, &(struct digest){{0}}))
            rows.rc = problem(why, STATUS_IO, "a document has no digest");
    }
    topic->kept = topic->draft;
    return db_rows_end(&rows);
}

void
foreign_topics_open(struct foreign_topics *topics, struct registry *registry,
                    struct hub_db *db)
{
    *topics = (struct foreign_topics){.registry = registry, .db = db};
    topics->alarm.ring = on_rests;
    topics->hook.ended = on_turn_ended;
    list_init(&topics->all);
    list_init(&topics->changed);
    list_init(&topics->gone);
    list_append(&db->hooks, &topics->hook.node);
}

enum status
foreign_topics_read(struct foreign_topics *topics, struct problem *why)
{
    struct hub_db *db = topics->db;
    struct foreign_topic_wish wish;
    struct db_rows rows;
    struct slice epoch;
    uint64_t id, last;
    enum status rc;

    rc = DB_DO(&db->db, "delete the documents of removed relays", why,
               "DELETE FROM documents WHERE relay NOT IN"
               " (SELECT id FROM relays)");
    if (rc)
        return rc;
    rows = DB_SELECT(&db->db, "read the relays", why,
                     "SELECT id, name, topic, hub, epoch, last FROM relays"
                     " ORDER BY name");
    while (DB_NEXT(&rows, &id, &wish.name, &wish.url, &wish.hub_url, &epoch,
                   &last)) {
        struct problem inner = {""};
        struct foreign_topic *topic;

        if (!set_name_is_valid(wish.name) || !epoch_is_valid(epoch) ||
            websub_check_url(wish.url, "topic", why)) {
            rows.rc = problem(why, STATUS_INVALID,
                              "relay %" PRIu64 " is damaged", id);
            continue;
        }
        topic = topic_new(topics, &wish);
        list_append(&topics->all, &topic->node);
        topic->id = id;
        memcpy(topic->epoch, epoch.data, EPOCH_SIZE);
        topic->state = FOREIGN_KEPT;
        topic->draft.earliest = topic->draft.last = last;
        if (claim_url(topic, &inner))
            diag(DIAG_WARNING, "hub", "the relay %s gets nothing: %s",
                 topic->name, inner.text);
        rows.rc = sum_documents(topic, why);
    }
    return db_rows_end(&rows);
}

void
foreign_topics_leave(struct foreign_topics *topics)
{
    struct foreign_topic *topic;

    list_walk (topic, &topics->gone, node)
        topic->id = 0; /* the other broker deletes the rests */
    list_walk (topic, &topics->all, node) {
        topic->id = 0;
        end_topic(topic);
    }
}

void
foreign_topics_close(struct foreign_topics *topics)
{
    struct foreign_topic *topic;

    if (!topics->db)
        return;
    list_move(&topics->all, &topics->gone);
    list_drain (topic, &topics->all, node)
        topic_free(topic);
}

/* Finding */

static bool
is_findable(const struct foreign_topic *topic)
{
    return topic->state == FOREIGN_KEPT || topic->state == FOREIGN_LEAVING;
}

/* Finds also a topic that is new in this turn. */
static struct foreign_topic *
find_any(struct foreign_topics *topics, struct slice name)
{
    struct foreign_topic *topic;

    list_walk (topic, &topics->all, node) {
        if (slice_is(name, topic->name))
            return topic;
    }
    return NULL;
}

struct foreign_topic *
foreign_topic_find(struct foreign_topics *topics, struct slice name)
{
    struct foreign_topic *topic = find_any(topics, name);

    return topic && is_findable(topic) ? topic : NULL;
}

struct foreign_topic *
foreign_topic_of_url(struct foreign_topics *topics, struct slice url)
{
    struct websub_comparable comparable;
    struct foreign_topic *topic;

    websub_comparable(&comparable, url);
    list_walk (topic, &topics->all, node) {
        if (is_findable(topic) && !strcmp(comparable.text, topic->comparable))
            return topic;
    }
    return NULL;
}

/* Making */

static enum status
check_leaving(const struct foreign_topic *topic, struct problem *why)
{
    return topic->state == FOREIGN_LEAVING
               ? problem(why, STATUS_RUNNING, "the relay %s is being removed",
                         topic->name)
               : STATUS_OK;
}

/* Makes a topic (*is_new), or changes the hub's URL of an existing one.
 * STATUS_RUNNING: it has another URL, or is being removed, or the URL belongs
 * to another; STATUS_INVALID: there are FOREIGN_TOPICS_MAX. */
static enum status
make_topic(struct foreign_topics *topics, const struct foreign_topic_wish *wish,
           struct foreign_topic **topic, bool *is_new, struct problem *why)
{
    size_t n = 0;
    enum status rc;

    for (struct list *at = topics->all.next; at != &topics->all; at = at->next)
        n++;
    *topic = find_any(topics, wish->name);
    *is_new = !*topic;
    if (*topic) {
        rc = check_leaving(*topic, why);
        if (rc)
            return rc;
        /* Only the hub's name can be changed. */
        if (!websub_is_same(wish->url, slice_of((*topic)->url)))
            return problem(
                why, STATUS_RUNNING,
                "the relay %s has another topic, \"%s\": a topic is a log of "
                "its own, so remove the relay first",
                (*topic)->name, problem_quote(slice_of((*topic)->url)).text);
        WRITE_TOPIC(*topic, "UPDATE relays SET hub=? WHERE id=?", wish->hub_url,
                    (*topic)->id);
        free((*topic)->new_hub_url);
        (*topic)->new_hub_url = hub_url_of(topics, wish->hub_url);
        return STATUS_OK;
    }
    if (n >= FOREIGN_TOPICS_MAX)
        return problem(why, STATUS_INVALID,
                       "this broker has no room for another relay: it holds "
                       "%d at most",
                       FOREIGN_TOPICS_MAX);
    *topic = topic_new(topics, wish);
    rc = claim_url(*topic, why);
    if (rc == STATUS_INVALID) /* another relay or set has the topic */
        rc = STATUS_RUNNING;
    else if (!rc && !random_hex((*topic)->epoch, sizeof((*topic)->epoch)))
        rc = problem(why, STATUS_IO, "there are no random numbers");
    if (rc) {
        topic_free(*topic);
        *topic = NULL;
        return rc;
    }
    list_append(&topics->all, &(*topic)->node);
    write_topic(*topic,
                "INSERT INTO relays(name, topic, hub, epoch) VALUES(?,?,?,?)"
                " RETURNING id",
                DB_VALUES((*topic)->name, (*topic)->url, wish->hub_url,
                          (*topic)->epoch),
                DB_INTO(&(*topic)->id));
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
    return memchr(type.data, '/', type.size)
               ? STATUS_OK
               : problem(why, STATUS_MALFORMED,
                         "Content-Type: \"%s\" is no media type",
                         problem_quote(type).text);
}

/* The text of a key in hub.db: with its owner behind a line end, which no key
 * has; "": none. */
#define KEPT_KEY_SIZE (KEY_SIZE_MAX + 1 + KEY_OWNER_SIZE)

/* Sets *is: the document has come before. */
static enum status
check_repeat(struct foreign_topic *topic, const char *kept_key,
             const struct key *key, const struct digest *digest, bool *is,
             struct problem *why)
{
    const struct documents_sum *sum = &topic->draft;
    struct digest other = sum->last_digest;
    enum status rc = STATUS_OK;

    *is = sum->last > sum->earliest;
    if (key->size > 0)
        rc = db_find(&topic->topics->db->db, "look for a document", why, is,
                     "SELECT digest FROM documents WHERE relay=? AND key=?",
                     DB_VALUES(topic->id, kept_key), DB_INTO(&other));
    if (rc || !*is)
        return rc;
    *is = digest_is_equal(&other, digest);
    if (key->size > 0 && !*is)
        return problem(why, STATUS_INVALID,
                       "the Idempotency-Key \"%s\" was given to another "
                       "document",
                       problem_quote(key_slice(key)).text);
    return STATUS_OK;
}

enum status
foreign_topic_take(struct foreign_topic *topic, struct slice type,
                   const struct key *key, struct slice body,
                   const struct digest *digest, struct problem *why)
{
    const struct config *config = topic->topics->registry->config;
    struct documents_sum *sum = &topic->draft;
    char kept_key[KEPT_KEY_SIZE] = "";
    bool has_come = false;
    enum status rc;

    type = slice_trimmed(type);
    if (body.size == 0)
        return problem(why, STATUS_MALFORMED, "the document is empty");
    if (body.size > FOREIGN_DOCUMENT_MAX)
        return problem(why, STATUS_TOO_LARGE,
                       "a document of a relay has at most %zu bytes, not %zu",
                       FOREIGN_DOCUMENT_MAX, body.size);
    if (body.size > config->relay_bytes)
        return problem(why, STATUS_TOO_LARGE,
                       "a relay keeps at most %" PRIu64 " bytes, not %zu",
                       config->relay_bytes, body.size);
    if (key->size > 0)
        snprintf(kept_key, sizeof(kept_key), "%.*s%s%s",
                 SLICE_ARG(key_slice(key)), key->owner[0] ? "\n" : "",
                 key->owner);
    rc = check_media_type(type, why);
    if (!rc)
        rc = check_repeat(topic, kept_key, key, digest, &has_come, why);
    if (rc || has_come)
        return rc;
    sum->last++;
    sum->bytes += body.size;
    sum->last_us = clock_now_us();
    sum->last_digest = *digest;
    WRITE_TOPIC(topic,
                "INSERT INTO documents(relay, seq, received_us, size, digest,"
                " type, key, body) VALUES(?,?,?,?,?,?,nullif(?,''),?)",
                topic->id, sum->last, sum->last_us, body.size, digest, type,
                kept_key, db_blob(body));
    WRITE_TOPIC(topic, "UPDATE relays SET last=? WHERE id=?", sum->last,
                topic->id);
    for (int i = 0; i < DROP_AT_ONCE; i++) { /* the oldest, within limits */
        uint64_t n = sum->last - sum->earliest, size = 0;

        if (n <= 1 ||
            (n <= config->relay_documents && sum->bytes <= config->relay_bytes))
            break;
        hub_db_get(topic->topics->db,
                   "DELETE FROM documents WHERE relay=? AND seq=?"
                   " RETURNING size",
                   DB_VALUES(topic->id, ++sum->earliest), DB_INTO(&size));
        sum->bytes -= size;
    }
    return STATUS_OK;
}

enum status
foreign_topic_read(struct foreign_topic *topic, uint64_t after, struct buf *to,
                   const char **content_type, struct problem *why)
{
    struct foreign_topics *topics = topic->topics;
    bool is_there = false;
    enum status rc = STATUS_OK;

    if (after >= topic->kept.last)
        return STATUS_OK;
    if (after >= topic->kept.earliest && topic->state != FOREIGN_GONE)
        rc = db_find(&topics->db->db, "read a document", why, &is_there,
                     "SELECT type, body FROM documents WHERE relay=? AND seq=?",
                     DB_VALUES(topic->id, after + 1),
                     DB_INTO(&topics->type, to));
    if (!rc && !is_there) /* or the turn at work drops it */
        return problem(why, STATUS_GONE,
                       "document %" PRIu64 " of the relay %s is no longer kept",
                       after + 1, topic->name);
    *content_type = topics->type;
    return !rc && to->failed ? problem_memory(why) : rc;
}

void
foreign_topics_measure(const struct foreign_topics *topics)
{
    int64_t n[RELAYS_LEAVING + 1] = {0}, n_kept = 0, bytes = 0;
    const struct foreign_topic *topic;

    list_walk (topic, &topics->all, node) {
        n[topic->state == FOREIGN_LEAVING ? RELAYS_LEAVING
          : topic->claim                  ? RELAYS_ACTIVE
                                          : RELAYS_WITHOUT_TOPIC]++;
        n_kept += (int64_t)(topic->kept.last - topic->kept.earliest);
        bytes += (int64_t)topic->kept.bytes;
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
        return problem(why, STATUS_INVALID,
                       "%s: is a string, such as \"https://example.org/feed\"",
                       members[i]);
    buf_add_slice(&urls[i], text);
    /* Well-formed, but not acceptable. */
    return websub_check_url(text, members[i], why) ? STATUS_INVALID : STATUS_OK;
}

static const struct json_members topic_members = {
    .form = "a relay is a JSON object, such as {\"topic\":\"https://...\"}",
    .what = "setting of a relay",
    .rows = members,
    .n = MEMBERS,
    .row_size = sizeof(members[0]),
    .take = take_url,
};

const struct json_shape relay_request_shape = {
    "RelayRequest", "A relay that is to be made", "topic uri, hub? uri"};

/* Showing */

const struct json_shape relay_shape = {
    "Relay", "A topic of another source",
    "name string, topic uri, hub string (as subscribers see it), epoch string, "
    "last count, documents count, bytes count, lastDocument? time, "
    "subscriptions count"};

const struct json_shape relays_shape = {"Relays", "All relays",
                                        "relays [Relay]"};

static void
report_topic(struct buf *to, const struct foreign_topic *topic)
{
    const struct documents_sum *sum = &topic->draft;

    BUF_ADD(to, "{");
    json_text_member(to, "name", slice_of(topic->name));
    json_text_member(to, "topic", slice_of(topic->url));
    json_text_member(
        to, "hub",
        slice_of(topic->new_hub_url ? topic->new_hub_url : topic->hub_url));
    json_text_member(to, "epoch", slice_of(topic->epoch));
    json_number_member(to, "last", sum->last);
    json_number_member(to, "documents", sum->last - sum->earliest);
    json_number_member(to, "bytes", sum->bytes);
    if (sum->last_us != 0)
        json_datetime_member(to, "lastDocument", sum->last_us);
    json_number_member(to, "subscriptions", topic->n_subscriptions);
    BUF_ADD(to, "}");
}

/* The commands */

static void
put_topic(struct foreign_topics *topics, struct command *command)
{
    struct problem *why = &command->why;
    struct slice name = slice_of(command->name);
    struct buf urls[MEMBERS] = {{.max = WEBSUB_URL_MAX},
                                {.max = WEBSUB_URL_MAX}};
    struct foreign_topic_wish wish = {.name = name};
    struct foreign_topic *topic = NULL;
    bool is_new = false;
    enum status rc = name_check("relay", name, why);

    if (!rc)
        rc = json_members_read(&topic_members, buf_slice(&command->body), urls,
                               &(unsigned){0}, why);
    wish.url = buf_slice(&urls[MEMBER_TOPIC]);
    wish.hub_url = buf_slice(&urls[MEMBER_HUB]);
    if (!rc && wish.url.size == 0)
        rc = problem(why, STATUS_INVALID, "topic: is missing");
    if (!rc && peers_is_ours(wish.url, topics->registry->options.public_url))
        rc = problem(why, STATUS_INVALID,
                     "topic: \"%s\" is of this broker itself",
                     problem_quote(wish.url).text);
    if (!rc)
        rc = make_topic(topics, &wish, &topic, &is_new, why);
    if (!rc) {
        report_topic(&command->text, topic);
        BUF_ADD(&command->text, "\n");
    }
    command_end(command, rc, is_new ? 201 : 200);
    for (enum member m = 0; m < MEMBERS; m++)
        buf_fini(&urls[m]);
}

void
foreign_topic_run(struct foreign_topics *topics, struct command *command)
{
    struct problem *why = &command->why;
    struct slice name = slice_of(command->name);
    struct foreign_topic *topic = foreign_topic_find(topics, name);
    enum status rc;

    if (command->kind == COMMAND_RELAY_PUT) {
        put_topic(topics, command);
    } else if (command->kind == COMMAND_RELAY_LIST) {
        BUF_ADD(&command->text, "{\"relays\":[");
        list_walk (topic, &topics->all, node) {
            if (topic->state == FOREIGN_NEW)
                continue;
            json_separate(&command->text, ",\n");
            report_topic(&command->text, topic);
        }
        BUF_ADD(&command->text, "]}\n");
        command_report(command, STATUS_OK);
    } else if (!topic) {
        command_answer_now(command,
                           problem(why, STATUS_NOT_FOUND,
                                   "there is no relay called \"%s\"",
                                   problem_quote(name).text),
                           NULL);
    } else if (command->kind == COMMAND_RELAY_REMOVE) {
        rc = check_leaving(topic, why);
        if (!rc) {
            topic->state = FOREIGN_LEAVING;
            WRITE_TOPIC(topic, "DELETE FROM relays WHERE id=?", topic->id);
        }
        command_end(command, rc, 204);
    } else {
        report_topic(&command->text, topic);
        BUF_ADD(&command->text, "\n");
        command_report(command, STATUS_OK);
    }
}
