/*
 * hub.db and mqtt.db: their rows against each other, and their positions
 * against the logs. Both are read before tidings.db: beside a broker a log may
 * grow meanwhile, and no position may seem to be behind its end.
 */
#include <inttypes.h>
#include <string.h>

#include "broker/bridge/mqtt_db.h"
#include "broker/check/parts.h"

/* Subscriptions and requests with the log of their topic: that of their set
 * (kind 0), of framework events (1), or of a relay (2). */
#define TOPICS(table)                                                        \
    "(SELECT t.id, t.topic_kind, t.name, t.epoch, CASE t.topic_kind WHEN 2"  \
    " THEN (SELECT epoch FROM relays r WHERE r.name = t.name) WHEN 1 THEN"   \
    " (SELECT f.epoch FROM logs f JOIN logs s ON s.name = t.name WHERE"      \
    " f.name = '_framework') ELSE (SELECT epoch FROM logs l WHERE"           \
    " l.name = t.name) END AS log_epoch, CASE t.topic_kind WHEN 2 THEN"      \
    " (SELECT last FROM relays r WHERE r.name = t.name) WHEN 1 THEN"         \
    " (SELECT last FROM logs WHERE name = '_framework') ELSE (SELECT last"   \
    " FROM logs l WHERE l.name = t.name) END AS log_last, CASE t.topic_kind" \
    " WHEN 0 THEN (SELECT earliest FROM logs l WHERE l.name = t.name) ELSE"  \
    " 0 END AS log_earliest FROM " table " t)"

static const struct inspection_query hub_queries[] = {
    {FINDING_HUB, false,
     "SELECT printf('subscription %d has no position', id) FROM subscriptions"
     " WHERE id NOT IN (SELECT id FROM cursors)"},
    {FINDING_HUB, false,
     "SELECT printf('position %d has no subscription', id) FROM cursors"
     " WHERE id NOT IN (SELECT id FROM subscriptions)"},
    {FINDING_HUB, false,
     "SELECT printf('subscription %d is of kind %d, to a topic of kind %d', id,"
     " kind, topic_kind) FROM subscriptions"
     " WHERE kind NOT BETWEEN 0 AND 1 OR topic_kind NOT BETWEEN 0 AND 2"},
    {FINDING_HUB, false,
     "SELECT printf('request %d is to a topic of kind %d', id, topic_kind)"
     " FROM requests WHERE topic_kind NOT BETWEEN 0 AND 2"},
    {FINDING_HUB, false,
     "SELECT printf('subscription %d has a secret of %d bytes', id,"
     " length(secret)) FROM subscriptions WHERE length(secret) > 199"},
    {FINDING_STALE, false,
     "SELECT printf('subscription %d is to %s, which does not exist (any"
     " more)', id, name) FROM " TOPICS(
         "subscriptions") " WHERE topic_kind BETWEEN 0 AND 2 AND epoch IS NOT "
                          "log_epoch"},
    {FINDING_STALE, false,
     "SELECT printf('request %d is to %s, which does not exist (any more)', id,"
     " name) FROM " TOPICS("requests") " WHERE topic_kind BETWEEN 0 AND 2 AND "
                                       "epoch IS NOT log_epoch"},
    {FINDING_AHEAD, false,
     "SELECT printf('subscription %d has got the entries of %s up to %d, and"
     " the log ends with entry %d', id, name, max(after, range_last),"
     " log_last) FROM " TOPICS(
         "subscriptions") " JOIN cursors USING(id)"
                          " WHERE epoch = log_epoch AND max(after, range_last) "
                          "> log_last"},
    {FINDING_BEHIND, false,
     "SELECT printf('subscription %d has got the entries of %s up to %d, and"
     " the log begins behind entry %d', id, name, after, log_earliest)"
     " FROM " TOPICS(
         "subscriptions") " JOIN cursors USING(id)"
                          " WHERE epoch = log_epoch AND after < log_earliest"},
    {FINDING_HUB, false,
     "SELECT printf('subscription %d is at entry %d, and is given the entries"
     " up to %d', id, after, range_last) FROM cursors"
     " WHERE after < 0 OR (range_last <> 0 AND range_last <= after)"},
    {FINDING_HUB, false,
     "SELECT printf('relay %s has the epoch \"%s\"', name, epoch) FROM relays"
     " WHERE length(epoch) <> 16 OR epoch GLOB '*[^0-9a-f]*'"},
    {FINDING_HUB, false,
     "SELECT printf('relay %s ends with document %d, and has document %d',"
     " name, last, max(seq)) FROM relays r JOIN documents d ON d.relay = r.id"
     " GROUP BY r.id HAVING max(seq) > last"},
    {FINDING_HUB, false,
     "SELECT printf('relay %s has %d documents, numbered %d to %d', name,"
     " count(*), min(seq), max(seq)) FROM relays r JOIN documents d"
     " ON d.relay = r.id GROUP BY r.id"
     " HAVING max(seq) - min(seq) + 1 <> count(*)"},
    {FINDING_HUB, false,
     "SELECT printf('document %d has %d bytes, and counts %d', id,"
     " length(body), size) FROM documents WHERE length(body) <> size"
     " OR length(digest) <> 32"},
    {FINDING_STALE, false,
     "SELECT printf('%d documents belong to no relay', count(*)) FROM documents"
     " WHERE relay NOT IN (SELECT id FROM relays) HAVING count(*) > 0"},
    {FINDING_HUB, false,
     "SELECT printf('the next subscription would get the number of"
     " subscription %d', max(id)) FROM subscriptions HAVING max(id) >"
     " coalesce((SELECT max(seq) FROM sqlite_sequence), 0)"},
    {.sql = NULL},
};

static const struct inspection_query bridge_queries[] = {
    {FINDING_BRIDGE, false,
     "SELECT printf('bridge %s has the identity \"%s\"', name, identity) FROM"
     " bridges WHERE length(identity) <> 8 OR identity GLOB '*[^0-9a-f]*'"},
    {FINDING_BRIDGE, false,
     "SELECT printf('the lane of set %s is of bridge %s, which does not exist',"
     " name, bridge) FROM lanes WHERE bridge NOT IN"
     " (SELECT name FROM bridges)"},
    {FINDING_BRIDGE, false,
     "SELECT printf('filter %s is of bridge %s, which does not exist', filter,"
     " bridge) FROM filters WHERE bridge NOT IN (SELECT name FROM bridges)"},
    {FINDING_STALE, false,
     "SELECT printf('bridge %s has a lane of set %s, which does not exist (any"
     " more)', l.bridge, l.name) FROM lanes l LEFT JOIN logs g"
     " ON g.name = l.name WHERE g.name IS NULL OR g.epoch <> l.epoch"},
    {FINDING_AHEAD, false,
     "SELECT printf('bridge %s has published the entries of set %s up to %d,"
     " and the log ends with entry %d', l.bridge, l.name, acked, last)"
     " FROM lanes l JOIN logs g ON g.name = l.name AND g.epoch = l.epoch"
     " WHERE acked > last"},
    {FINDING_BEHIND, false,
     "SELECT printf('bridge %s has published the entries of set %s up to %d,"
     " and the log begins behind entry %d', l.bridge, l.name, acked, earliest)"
     " FROM lanes l JOIN logs g ON g.name = l.name AND g.epoch = l.epoch"
     " WHERE acked < earliest"},
    {.sql = NULL},
};

/* Lends the logs to a database that is open; false: they are not known. */
static bool
lend_logs(struct inspection *in, struct db *db)
{
    struct db store;
    enum status rc;

    if (inspection_open(in, &databases[DATABASE_TIDINGS], "tidings.db", &store))
        return false;
    rc = inspection_load(in, &store);
    db_close(&store);
    return !rc && !inspection_lend_logs(in, db);
}

/* Compares the documents of relays with their digests. */
static void
check_documents(struct inspection *in, const char *path, struct db *db)
{
    struct problem why = {""};
    struct db_rows rows = DB_SELECT(db, "read it", &why,
                                    "SELECT id, digest, body FROM documents");
    struct digest stored, digest;
    struct slice body;
    uint64_t id;

    while (DB_NEXT(&rows, &id, &stored, &body)) {
        digest_sha256(&digest, body);
        if (!digest_is_equal(&stored, &digest))
            inspection_find(in, FINDING_HUB, path,
                            "document %" PRIu64
                            " is not the one that was stored: its digest is "
                            "wrong",
                            id);
    }
    inspection_end_rows(in, path, &rows);
}

void
check_hub(struct inspection *in)
{
    const char *path = databases[DATABASE_HUB].name;
    struct db db;
    enum status rc = inspection_open(in, &databases[DATABASE_HUB], path, &db);

    if (rc == STATUS_NOT_FOUND)
        inspection_find(in, FINDING_HUB, path,
                        "it is missing, and with it all subscriptions and "
                        "relays");
    if (rc)
        return;
    if (inspection_is_sound(in, path, &db) && lend_logs(in, &db)) {
        inspection_ask(in, path, &db, hub_queries);
        check_documents(in, path, &db);
    }
    db_close(&db);
}

/* Compares the ends of the messages that lanes have begun with their logs. */
static void
check_lanes(struct inspection *in, const char *path, struct db *db)
{
    struct problem why = {""};
    struct db_rows rows =
        DB_SELECT(db, "read it", &why,
                  "SELECT l.bridge, l.name, acked, ends, coalesce(last, -1)"
                  " FROM lanes l LEFT JOIN logs g"
                  " ON g.name = l.name AND g.epoch = l.epoch");
    struct slice bridge, set, ends;
    uint64_t acked;
    int64_t log_last;

    while (DB_NEXT(&rows, &bridge, &set, &acked, &ends, &log_last)) {
        uint64_t last = acked;

        if (!mqtt_db_last_end(&last, ends))
            inspection_find(in, FINDING_BRIDGE, path,
                            "bridge %.*s: the messages of set %.*s are damaged",
                            SLICE_ARG(bridge), SLICE_ARG(set));
        else if (last > acked && log_last >= 0 && last > (uint64_t)log_last)
            inspection_find(in, FINDING_AHEAD, path,
                            "bridge %.*s has begun messages of set %.*s up to "
                            "entry %" PRIu64,
                            SLICE_ARG(bridge), SLICE_ARG(set), last);
    }
    inspection_end_rows(in, path, &rows);
}

void
check_bridges(struct inspection *in)
{
    const char *path = databases[DATABASE_MQTT].name;
    struct db db;

    if (inspection_open(in, &databases[DATABASE_MQTT], path, &db))
        return; /* missing: there never was a bridge */
    if (inspection_is_sound(in, path, &db) && lend_logs(in, &db)) {
        inspection_ask(in, path, &db, bridge_queries);
        check_lanes(in, path, &db);
    }
    db_close(&db);
}
