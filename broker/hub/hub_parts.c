#include "broker/hub/hub_parts.h"

#include "broker/base/metrics.h"
#include "broker/hub/hub_rows.h"
#include "broker/hub/hub_state.h"

#define FOLLOW_US 3000000

/* Other threads */

void
hub_give(struct hub *hub, unsigned part, const struct ownership_right *right)
{
    pthread_mutex_lock(&hub->mutex);
    hub->given[part] = right;
    pthread_mutex_unlock(&hub->mutex);
    atomic_store(&hub->parts_changed, true);
    hub_wake(hub);
}

bool
hub_has(struct hub *hub, unsigned part)
{
    return atomic_load(&hub->parts) >> part & 1;
}

bool
hub_is_fit(struct hub *hub)
{
    return !atomic_load(&hub->is_unfit);
}

void
hub_await_left(struct hub *hub, unsigned part)
{
    pthread_mutex_lock(&hub->mutex);
    while (hub->entered >> part & 1)
        pthread_cond_wait(&hub->left, &hub->mutex);
    pthread_mutex_unlock(&hub->mutex);
}

/* Rows */

/* Deletes a row whose topic is gone, and denies its callback. The removal of
 * the set or relay did not, or it would have deleted the row, too: the broker
 * was killed in that moment, or tidings.db is another one. The URL of a relay's
 * topic is lost with the relay. */
static void
deny_stale(struct hub *hub, struct hub_record *record)
{
    enum link_kind kind = record->topic_kind == TOPIC_CHANGES
                              ? LINK_NOTIFICATIONS
                              : LINK_FRAMEWORK_NOTIFICATIONS;
    char name[SET_NAME_MAX + 1];
    struct link_text url;

    if (record->row == HUB_ROW_REQUEST) {
        denial_send(hub, record->callback, &record->terms, record->topic_url,
                    SLICE(DENIAL_TOPIC_GONE));
        return;
    }
    if (record->kind == SUBSCRIPTION_HUB ||
        record->lease_end_us <= clock_now_us() ||
        record->topic_kind == TOPIC_FOREIGN || !set_name_is_valid(record->name))
        return;
    snprintf(name, sizeof(name), "%.*s", SLICE_ARG(record->name));
    url = link_to(hub->registry->options.public_url, kind, name, NULL, 0);
    denial_send(hub, record->callback, &record->terms, link_slice(&url),
                SLICE(DENIAL_TOPIC_GONE));
}

/* W-044: a request was answered 202, so it must come to an end. */
static enum status
on_record(struct hub_record *record, void *user, struct problem *why)
{
    struct hub *hub = user;
    struct topic *topic = NULL;
    struct subscription *s;
    enum status rc = STATUS_OK;

    /* The topic of the row, if it still exists, unchanged. */
    if (record->topic_kind == TOPIC_FOREIGN) {
        struct foreign_topic *foreign =
            foreign_topic_find(&hub->foreign_topics, record->name);

        if (foreign)
            topic = topic_of_foreign(hub, foreign);
    } else {
        struct set *set = registry_find(hub->registry, record->name, NULL);

        if (set)
            rc = topic_of_set(hub, record->topic_kind, set, &topic, why);
    }
    if (rc)
        return rc;
    if (topic && !topic_has_epoch(topic, record->epoch)) {
        topic_release(topic);
        topic = NULL;
    }
    if (!topic) {
        deny_stale(hub, record);
        hub_db_note_stale(hub->db, record->row, record->id, record->part);
        return STATUS_OK;
    }
    topic->n_holds++;
    if (record->row == HUB_ROW_REQUEST)
        verification_restore(topic, record);
    else
        rc = subscription_enter(topic, record, &s, why);
    topic->n_holds--;
    topic_release(topic);
    return rc;
}

enum status
hub_parts_load(struct hub *hub, unsigned parts, struct problem *why)
{
    struct topic *topic;
    enum status rc = hub_keys_begin(&hub->keys, why);

    if (!rc && parts & 1)
        rc = foreign_topics_read(&hub->foreign_topics, why);
    if (!rc)
        rc = hub_rows_read(hub->db, parts, on_record, hub, why);
    list_walk (topic, &hub->topics, node) {
        callback_tables_order(&topic->subscriptions);
        callback_tables_order(&topic->requests);
    }
    return rc;
}

/* Taking and leaving */

static void
leave_parts(struct hub *hub, unsigned parts)
{
    subscriptions_forget(hub, parts);
    verifications_forget(hub, parts);
    if (parts & 1)
        foreign_topics_leave(&hub->foreign_topics);
    hub_db_leave(hub->db, parts);
    hub->parts &= ~parts;
}

static enum status
take_parts(struct hub *hub, unsigned parts,
           const struct ownership_right *const rights[HUB_PARTS])
{
    struct problem why = {""};
    enum status rc = hub_db_take(hub->db, parts, rights, &why);

    if (!rc) {
        rc = hub_parts_load(hub, parts, &why);
        hub->parts |= parts;
    }
    if (rc && hub->parts & parts)
        leave_parts(hub, parts);
    diag_first_failure(&hub->cannot_take, rc != STATUS_OK, "cluster",
                       "the hub cannot take its parts", why.text);
    metrics_add(METRIC_CLUSTER_FAILURES, rc != STATUS_OK);
    if (rc)
        return rc;
    framework_restart(hub);
    subscriptions_resume(hub, parts);
    verification_look(hub);
    hub->has_synced_hubs &= !(parts & 1);
    atomic_store(&hub->topics_changed, true); /* sets may have, meanwhile */
    hub_wake(hub);
    return STATUS_OK;
}

/* A right is entered before it is used, and under the mutex: so hub_await_left
 * waits also for a part that is being taken. */
void
hub_parts_settle(struct hub *hub)
{
    const struct ownership_right *rights[HUB_PARTS];
    unsigned given = 0, leaving, arriving;

    pthread_mutex_lock(&hub->mutex);
    for (unsigned i = 0; i < HUB_PARTS; i++) {
        rights[i] = hub->given[i];
        given |= (unsigned)(rights[i] != NULL) << i;
    }
    leaving = hub->entered & ~given;
    arriving = given & ~hub->entered;
    hub->entered |= arriving;
    pthread_mutex_unlock(&hub->mutex);
    if (leaving)
        leave_parts(hub, leaving);
    if (arriving && take_parts(hub, arriving, rights))
        leaving |= arriving;
    pthread_mutex_lock(&hub->mutex);
    hub->entered &= ~leaving;
    pthread_cond_broadcast(&hub->left);
    pthread_mutex_unlock(&hub->mutex);
}

void
hub_parts_follow(struct hub *hub)
{
    struct problem why = {""};
    enum status rc;

    if (!hub->cluster || hub->db->is_open ||
        clock_steady_us() < hub->follow_at_us)
        return;
    hub->follow_at_us = clock_steady_us() + FOLLOW_US;
    rc = hub_db_follow(hub->db, &why);
    atomic_store(&hub->is_unfit,
                 rc == STATUS_DIFFERENT || rc == STATUS_INVALID);
    diag_first_failure(&hub->cannot_follow, rc && rc != STATUS_BUSY, "cluster",
                       "hub.db does not follow the cluster", why.text);
    if (hub->n_followed != owned_db_last(hub->db->owned))
        hub_keys_read(&hub->keys);
    hub->n_followed = owned_db_last(hub->db->owned);
}

/* Commands */

/* A command without a part is run here: it is of all parts, or will be
 * refused. */
#define NO_PART (-1)

static int
find_part(struct command *command)
{
    struct hub *hub = command->hub;
    unsigned part = 0;

    switch (command->kind) {
    case COMMAND_SUBSCRIBE:
        return verification_part(command);
    case COMMAND_LIST:
        return command->is_relay ? 0 : NO_PART;
    case COMMAND_SHOW:
    case COMMAND_END:
    case COMMAND_REDELIVER:
    case COMMAND_ATTEMPTS:
    case COMMAND_AGAIN:
    case COMMAND_TEST:
        if (!command->is_relay &&
            !hub_rows_find_part(hub->db, command->id, &part))
            part = command->id % HUB_PARTS;
        return (int)part;
    default:
        return 0;
    }
}

static void
send_to_owners(struct command *command, unsigned parts)
{
    const struct hub_cluster *cluster = command->hub->cluster;
    enum status rc =
        cluster->send(cluster->remote, command, parts, &command->why);

    if (rc)
        command_answer_now(command, rc, NULL);
}

bool
hub_parts_have(struct command *command)
{
    struct hub *hub = command->hub;
    bool is_carried = command->part != NO_PART;
    int part = is_carried || !hub->cluster ? command->part : find_part(command);

    if (part == NO_PART || hub->parts >> part & 1)
        return true;
    if (is_carried)
        command_answer_now(
            command,
            problem(&command->why, STATUS_BUSY,
                    "the owner of this part of the hub is changing"),
            NULL);
    else
        send_to_owners(command, 1u << part);
    return false;
}

bool
hub_parts_collect(struct command *command)
{
    struct hub *hub = command->hub;
    unsigned others = HUB_PARTS_ALL & ~hub->parts;

    if (!hub->cluster || command->is_relay || command->part != NO_PART ||
        others == 0)
        return false;
    send_to_owners(command, others);
    return true;
}
