/*
 * check_databases.c - what must hold in each database: one row each in
 * `checks`, with rules in SQL that name the rows that break them.
 *
 * hub.db and mqtt.db are read before tidings.db, with whose logs their
 * positions are compared: beside a broker a log may grow meanwhile, and no
 * position may seem to be behind its end.
 */
#include <sys/stat.h>

#include "base/file.h"
#include "broker/bridge/mqtt_db.h"
#include "broker/check/inspection.h"
#include "broker/state/tile_files.h"
#include "broker/store/store_queries.h"

/* Faults that one database reports. */
#define FAULTS_MAX "20"
#define TILES_MAX  20

/* A query that returns one sentence for each row that breaks the rule. */
struct rule {
    enum finding_kind kind;
    const char *sql;
    bool is_deep; /* it reads all rows of a database that may be large */
};

#define RULES(rules) rules, N_ELEMENTS(rules)

/* tidings.db */

/* Ids of existing sets, and of removed sets that still have rows. */
#define KNOWN "(SELECT id FROM sets UNION SELECT set_id FROM trash)"

static const struct rule store_rules[] = {
    {FINDING_LOG,
     "SELECT printf('set %s has the epoch \"%s\"', name, epoch) FROM sets"
     " WHERE length(epoch) <> 16 OR epoch GLOB '*[^0-9a-f]*'"},
    {FINDING_LOG,
     "SELECT printf('the settings of set %s are no JSON', name) FROM sets"
     " WHERE settings <> '' AND NOT json_valid(settings)"},
    {FINDING_LOG,
     "SELECT printf('set %s begins with list %d, and retains lists from %d on',"
     " name, start_list, first_list) FROM sets"
     " WHERE first_list <> 0 AND first_list < start_list"},
    {FINDING_LOG,
     "SELECT printf('set %s begins with list %d, and an earlier set of that"
     " name had lists up to %d', name, start_list, list - 1)"
     " FROM sets JOIN tombstones USING(name) WHERE start_list < list"},
    {FINDING_LOG,
     "SELECT printf('entries %d to %d belong to set %d, which does not exist',"
     " min(first), max(last), set_id) FROM batches"
     " WHERE set_id NOT IN " KNOWN " GROUP BY set_id"},
    {FINDING_LOG,
     "SELECT printf('lists %d to %d belong to set %d, which does not exist',"
     " min(number), max(number), set_id) FROM lists"
     " WHERE set_id NOT IN " KNOWN " GROUP BY set_id"},
    {FINDING_LOG,
     "SELECT printf('%s %d belongs to set %d, which does not exist',"
     " CASE kind WHEN 0 THEN 'Resource List' WHEN 1 THEN 'Resource Dump' ELSE"
     " 'Change Dump' END, number, set_id) FROM generations"
     " WHERE due_us IS NULL AND set_id NOT IN (SELECT id FROM sets)"},
    {FINDING_LOG,
     "SELECT printf('build %d of set %s is of the unknown kind %d', number,"
     " name, kind) FROM generations WHERE kind NOT BETWEEN 0 AND 2"},
    {FINDING_LOG,
     "SELECT printf('build %d of kind %d of set %s stands for entry %d, and the"
     " log ends with entry %d', number, kind, name, seq, last) FROM"
     " (SELECT *, max(coalesce((SELECT max(last) FROM batches b WHERE"
     " b.set_id = g.set_id), 0), coalesce((SELECT max(last) FROM lists l WHERE"
     " l.set_id = g.set_id), 0)) AS last FROM generations g"
     " WHERE due_us IS NULL) WHERE seq > last"},
    {FINDING_LOG,
     "SELECT printf('build %d of kind %d of set %s is neither current nor"
     " archived', number, kind, name) FROM generations g WHERE due_us IS NULL"
     " AND NOT is_archived AND number < (SELECT max(number) FROM generations"
     " WHERE set_id = g.set_id AND kind = g.kind AND due_us IS NULL"
     " AND NOT " GENERATION_IS_ORDER ")"},

    /* Lists follow each other. */
    {FINDING_LOG,
     "SELECT printf('list %d of set %d is missing', number + 1, set_id)"
     " FROM lists l WHERE NOT EXISTS (SELECT 1 FROM lists WHERE"
     " set_id = l.set_id AND number = l.number + 1) AND number <"
     " (SELECT max(number) FROM lists WHERE set_id = l.set_id)"},
    {FINDING_LOG,
     "SELECT printf('list %d of set %d does not go on where list %d ends',"
     " b.number, b.set_id, a.number) FROM lists a JOIN lists b"
     " ON b.set_id = a.set_id AND b.number = a.number + 1 WHERE"
     " b.after <> a.last OR b.from_us <> a.until_us OR b.before <> a.digest"},
    {FINDING_LOG,
     "SELECT printf('list %d of set %d has the entries %d to %d, from %d us to"
     " %d us', number, set_id, after + 1, last, from_us, until_us)"
     " FROM lists WHERE last <= after OR until_us <= from_us"},
    {FINDING_LOG,
     "SELECT printf('list %d of set %d has a file, and no marks', number,"
     " set_id) FROM lists WHERE filed AND length(coalesce(marks, '')) < 128"},

    /* Batches follow each other, in the list that they name. */
    {FINDING_LOG,
     "SELECT printf('entries %d to %d of set %d do not go on where entry %d"
     " ends', first, last, set_id, last_before) FROM"
     " (SELECT set_id, first, last, before_us, before, lag(last) OVER w AS"
     " last_before, lag(last_us) OVER w AS us_before, lag(digest) OVER w AS"
     " digest_before"
     " FROM batches WINDOW w AS (PARTITION BY set_id ORDER BY first))"
     " WHERE last_before IS NOT NULL AND (first <> last_before + 1 OR"
     " before_us <> us_before OR before <> digest_before)"},
    {FINDING_LOG,
     "SELECT printf('entries %d to %d of set %d name list %d, and the list"
     " ends with entry %d', b.first, b.last, b.set_id, b.list, l.last)"
     " FROM batches b JOIN lists l ON l.set_id = b.set_id AND"
     " l.number = b.list WHERE b.first <= l.after OR b.last > l.last"},
    {FINDING_LOG,
     "SELECT printf('entries %d to %d of set %d name list %d, and the open"
     " list is %d', first, last, set_id, list, open) FROM (SELECT b.*,"
     " (SELECT max(number) + 1 FROM lists WHERE set_id = b.set_id) AS open,"
     " (SELECT max(last) FROM lists WHERE set_id = b.set_id) AS closed"
     " FROM batches b) WHERE last > closed AND list <> open"},
    {FINDING_LOG,
     "SELECT printf('list %d of set %d has %d bytes up to entry %d, and %d are"
     " stored', list, set_id, bytes, last, list_bytes) FROM"
     " (SELECT set_id, list, last, list_bytes, length(body) + size +"
     " lag(list_bytes) OVER (PARTITION BY set_id, list ORDER BY first)"
     " AS bytes FROM batches) WHERE bytes <> list_bytes"},

    {FINDING_LOG,
     "SELECT printf('batches have %d bytes of entries in segment %d, and its"
     " row says %d', n, segment, coalesce(live, 0)) FROM"
     " (SELECT segment, sum(size) AS n FROM batches WHERE segment <> 0"
     " GROUP BY segment) LEFT JOIN segments ON number = segment"
     " WHERE live IS NOT n"},

    /* Idempotency keys */
    {FINDING_KEYS,
     "SELECT printf('keys_state has %d rows', count(*)) FROM keys_state"
     " HAVING count(*) <> 1"},
    {FINDING_KEYS,
     "SELECT printf('table %d of the keys is current, and there are 0 and 1',"
     " current) FROM keys_state WHERE current NOT IN (0, 1)"},
    {FINDING_KEYS,
     "SELECT printf('key %d is no digest, or names the entries %d to %d', id,"
     " first, last) FROM (SELECT * FROM keys_0 UNION ALL SELECT * FROM keys_1)"
     " WHERE length(key) <> 32 OR length(entries) <> 32 OR first > last"},
    {FINDING_KEYS,
     "SELECT printf('%d of %d keys of a table are missing', id - n, id) FROM"
     " (SELECT count(*) n, max(id) id FROM keys_0 UNION ALL"
     " SELECT count(*), max(id) FROM keys_1) WHERE n <> id"},
};

/* hub.db */

/* Subscriptions and requests with the log of their topic: that of their set
 * (kind 0), of framework events (1), or of a relay (2). */
#define TOPICS(table)                                                      \
    "(SELECT t.id, t.topic_kind, t.name, t.epoch, g.epoch AS log_epoch,"   \
    " last AS log_last, earliest AS log_earliest FROM " table              \
    " t LEFT JOIN (SELECT 0 AS kind,"                                      \
    " name, epoch, last, earliest FROM logs UNION ALL SELECT 1, s.name,"   \
    " f.epoch, f.last, 0 FROM logs s JOIN logs f ON f.name = '_framework'" \
    " UNION ALL SELECT 2, name, epoch, last, 0 FROM relays) g"             \
    " ON g.kind = t.topic_kind AND g.name = t.name)"
#define SUBSCRIPTIONS TOPICS("subscriptions")

static const struct rule hub_rules[] = {
    {FINDING_HUB,
     "SELECT printf('subscription %d has no position', id) FROM subscriptions"
     " WHERE id NOT IN (SELECT id FROM cursors)"},
    {FINDING_HUB,
     "SELECT printf('position %d has no subscription', id) FROM cursors"
     " WHERE id NOT IN (SELECT id FROM subscriptions)"},
    {FINDING_HUB,
     "SELECT printf('subscription %d is of kind %d, to a topic of kind %d', id,"
     " kind, topic_kind) FROM subscriptions"
     " WHERE kind NOT BETWEEN 0 AND 1 OR topic_kind NOT BETWEEN 0 AND 2"},
    {FINDING_HUB,
     "SELECT printf('request %d is to a topic of kind %d', id, topic_kind)"
     " FROM requests WHERE topic_kind NOT BETWEEN 0 AND 2"},
    {FINDING_HUB,
     "SELECT printf('subscription %d has a secret of %d bytes', id,"
     " length(secret)) FROM subscriptions WHERE length(secret) > 199"},
    {FINDING_STALE,
     "SELECT printf('subscription %d is to %s, which does not exist (any"
     " more)', id, name) FROM " SUBSCRIPTIONS
     " WHERE topic_kind BETWEEN 0 AND 2 AND epoch IS NOT "
     "log_epoch"},
    {FINDING_STALE,
     "SELECT printf('request %d is to %s, which does not exist (any more)', id,"
     " name) FROM " TOPICS("requests") " WHERE topic_kind BETWEEN 0 AND 2 AND "
                                       "epoch IS NOT log_epoch"},
    {FINDING_AHEAD,
     "SELECT printf('subscription %d has got the entries of %s up to %d, and"
     " the log ends with entry %d', id, name, max(after, range_last),"
     " log_last) FROM " SUBSCRIPTIONS " JOIN cursors USING(id)"
     " WHERE epoch = log_epoch AND max(after, range_last) "
     "> log_last"},
    {FINDING_BEHIND,
     "SELECT printf('subscription %d has got the entries of %s up to %d, and"
     " the log begins behind entry %d', id, name, after, log_earliest)"
     " FROM " SUBSCRIPTIONS " JOIN cursors USING(id)"
     " WHERE epoch = log_epoch AND after < log_earliest"},
    {FINDING_HUB,
     "SELECT printf('subscription %d is at entry %d, and is given the entries"
     " up to %d', id, after, range_last) FROM cursors"
     " WHERE after < 0 OR (range_last <> 0 AND range_last <= after)"},
    {FINDING_HUB,
     "SELECT printf('relay %s has the epoch \"%s\"', name, epoch) FROM relays"
     " WHERE length(epoch) <> 16 OR epoch GLOB '*[^0-9a-f]*'"},
    {FINDING_HUB,
     "SELECT printf('relay %s ends with document %d, and has document %d',"
     " name, last, max(seq)) FROM relays r JOIN documents d ON d.relay = r.id"
     " GROUP BY r.id HAVING max(seq) > last"},
    {FINDING_HUB,
     "SELECT printf('relay %s has %d documents, numbered %d to %d', name,"
     " count(*), min(seq), max(seq)) FROM relays r JOIN documents d"
     " ON d.relay = r.id GROUP BY r.id"
     " HAVING max(seq) - min(seq) + 1 <> count(*)"},
    {FINDING_HUB,
     "SELECT printf('document %d has %d bytes, and counts %d', id,"
     " length(body), size) FROM documents WHERE length(body) <> size"
     " OR length(digest) <> 32"},
    {FINDING_STALE,
     "SELECT printf('%d documents belong to no relay', count(*)) FROM documents"
     " WHERE relay NOT IN (SELECT id FROM relays) HAVING count(*) > 0"},
    {FINDING_HUB,
     "SELECT printf('the next subscription would get the number of"
     " subscription %d', max(id)) FROM subscriptions HAVING max(id) >"
     " coalesce((SELECT max(seq) FROM sqlite_sequence), 0)"},
};

/* Compares the documents of relays with their digests. */
static void
check_documents(struct inspection *in, const char *path, struct db *db)
{
    struct db_rows rows = DB_SELECT(db, "read it", &in->why,
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

/* mqtt.db */

static const struct rule bridge_rules[] = {
    {FINDING_BRIDGE,
     "SELECT printf('bridge %s has the identity \"%s\"', name, identity) FROM"
     " bridges WHERE length(identity) <> 8 OR identity GLOB '*[^0-9a-f]*'"},
    {FINDING_BRIDGE,
     "SELECT printf('the lane of set %s is of bridge %s, which does not exist',"
     " name, bridge) FROM lanes WHERE bridge NOT IN"
     " (SELECT name FROM bridges)"},
    {FINDING_BRIDGE,
     "SELECT printf('filter %s is of bridge %s, which does not exist', filter,"
     " bridge) FROM filters WHERE bridge NOT IN (SELECT name FROM bridges)"},
    {FINDING_STALE,
     "SELECT printf('bridge %s has a lane of set %s, which does not exist (any"
     " more)', l.bridge, l.name) FROM lanes l LEFT JOIN logs g"
     " ON g.name = l.name WHERE g.name IS NULL OR g.epoch <> l.epoch"},
    {FINDING_AHEAD,
     "SELECT printf('bridge %s has published the entries of set %s up to %d,"
     " and the log ends with entry %d', l.bridge, l.name, acked, last)"
     " FROM lanes l JOIN logs g ON g.name = l.name AND g.epoch = l.epoch"
     " WHERE acked > last"},
    {FINDING_BEHIND,
     "SELECT printf('bridge %s has published the entries of set %s up to %d,"
     " and the log begins behind entry %d', l.bridge, l.name, acked, earliest)"
     " FROM lanes l JOIN logs g ON g.name = l.name AND g.epoch = l.epoch"
     " WHERE acked < earliest"},
};

/* Compares the ends of the messages that lanes have begun with their logs. */
static void
check_lanes(struct inspection *in, const char *path, struct db *db)
{
    struct db_rows rows =
        DB_SELECT(db, "read it", &in->why,
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

/* tokens.db: the row of everyone has neither id nor salt nor digest. */
static const struct rule token_rules[] = {
    {FINDING_TOKEN,
     "SELECT printf('token %s has an id, a salt or a digest that is damaged',"
     " name) FROM tokens WHERE id IS NOT NULL AND (length(id) < 1 OR"
     " length(coalesce(salt, '')) <> 16 OR length(coalesce(digest, '')) <> "
     "32)"},
    {FINDING_TOKEN,
     "SELECT printf('the next token would get the row of token %s', name) FROM"
     " tokens WHERE row > coalesce((SELECT seq FROM sqlite_sequence WHERE"
     " name = 'tokens'), 0)"},
};

/* resources.db, content.db */

static const struct rule resource_rules[] = {
    {FINDING_STATE,
     "SELECT printf('key %s refers to row %d, which is missing', hex(key),"
     " k.id) FROM keys k LEFT JOIN resources r ON r.id = k.id"
     " WHERE r.id IS NULL LIMIT 20",
     true},
    {FINDING_STATE,
     "SELECT printf('%d resources have no key', count(*)) FROM resources"
     " WHERE id NOT IN (SELECT id FROM keys) HAVING count(*) > 0",
     true},
    {FINDING_STATE,
     "SELECT printf('it has %d resources in %d bytes, and counts %d in %d',"
     " rows, sum, n, bytes) FROM state, (SELECT count(*) rows,"
     " coalesce(sum(length(entry)), 0) sum FROM resources)"
     " WHERE rows <> n OR sum <> bytes",
     true},
    {FINDING_STATE,
     "SELECT printf('a resource is of entry %d, and it was computed up to entry"
     " %d', max(r.seq), s.seq) FROM resources r, state s"
     " GROUP BY s.id HAVING max(r.seq) > s.seq",
     true},
    {FINDING_STATE,
     "SELECT printf('table state has %d rows', count(*)) FROM state"
     " HAVING count(*) > 1"},
};

static const struct rule content_rules[] = {
    {FINDING_INDEX,
     "SELECT printf('entry %d has the digest %s, which has no file', seq,"
     " lower(hex(digest))) FROM entries WHERE digest IS NOT NULL AND digest"
     " NOT IN (SELECT digest FROM files) LIMIT 20"},
    {FINDING_INDEX,
     "SELECT printf('file %s has %d entries, and counts %d',"
     " lower(hex(f.digest)), coalesce(e.n, 0), f.n) FROM files f LEFT JOIN"
     " (SELECT digest, count(*) n FROM entries WHERE digest IS NOT NULL"
     " GROUP BY digest) e USING(digest) WHERE coalesce(e.n, 0) <> f.n"
     " LIMIT 20"},
    {FINDING_INDEX,
     "SELECT printf('entry %d has no bytes, and is not listed as missing', seq)"
     " FROM entries WHERE digest IS NULL AND seq NOT IN"
     " (SELECT seq FROM missing) LIMIT 20"},
    {FINDING_INDEX,
     "SELECT printf('entry %d is listed as missing, and it is not', seq)"
     " FROM missing WHERE seq NOT IN (SELECT seq FROM entries WHERE digest IS"
     " NULL) LIMIT 20"},
    {FINDING_INDEX,
     "SELECT printf('entry %d is current, and has no row or a later entry',"
     " c.seq) FROM current c LEFT JOIN entries e USING(seq)"
     " WHERE e.seq IS NULL OR e.until IS NOT NULL LIMIT 20"},
    {FINDING_INDEX,
     "SELECT printf('entry %d is behind entry %d, up to which it was"
     " computed', max(e.seq), s.seq) FROM entries e, state s GROUP BY s.id"
     " HAVING max(e.seq) > s.seq"},
    {FINDING_INDEX,
     "SELECT printf('it has %d entries, %d missing, %d current ones, and counts"
     " %d, %d and %d', r, m, c, rows, missing, current) FROM state,"
     " (SELECT count(*) r FROM entries), (SELECT count(*) m FROM missing),"
     " (SELECT count(*) c FROM current)"
     " WHERE r <> rows OR m <> missing OR c <> current"},
    {FINDING_INDEX,
     "SELECT printf('it has %d files in %d bytes, and counts %d in %d', n, sum,"
     " files, bytes) FROM state, (SELECT count(*) n, coalesce(sum(length), 0)"
     " sum FROM files WHERE n > 0) WHERE n <> files OR sum <> bytes"},
};

/* The rows have what is behind the last full tile of each level. */
static const struct rule tree_rules[] = {
    {FINDING_TREE,
     "WITH levels(level, wanted) AS (SELECT value, seq >> (8 * value)"
     " FROM state, json_each('[0,1,2,3,4,5,6,7]') WHERE is_whole),"
     " found AS (SELECT l.level, wanted, coalesce(256 * number"
     " + length(hashes) / 32, wanted - wanted % 256) n"
     " FROM levels l LEFT JOIN tiles USING(level))"
     " SELECT printf('level %d has %d hashes, and %d belong there', level, n,"
     " wanted) FROM found WHERE n <> wanted"},
};

/* The hash of a tile in the level above. False: it is not there. */
static bool
hash_above(struct db *db, const char *dir, unsigned level, uint64_t number,
           struct digest *hash)
{
    struct digest hashes[TILE_WIDTH];
    struct buf row = {.max = TILE_BYTES};
    size_t at = number % TILE_WIDTH;
    bool is_there =
        tile_file_read(dir, level + 1, number / TILE_WIDTH, TILE_WIDTH, hashes);

    if (!is_there &&
        !db_find(db, NULL, NULL, NULL,
                 "SELECT hashes FROM tiles WHERE level = ? AND number = ?",
                 DB_VALUES(level + 1, number / TILE_WIDTH), DB_INTO(&row)) &&
        row.size >= (at + 1) * DIGEST_SIZE) {
        memcpy(hashes, row.data, row.size);
        is_there = true;
    }
    buf_fini(&row);
    *hash = hashes[at];
    return is_there;
}

/* Each full tile is a file; a deep check compares its root with its hash in the
 * level above. */
static void
check_tiles(struct inspection *in, const char *path, struct db *db)
{
    struct file_path dir = file_path("%s/%s", in->data, path);
    struct digest hashes[TILE_WIDTH], root, above;
    uint64_t seq = 0;
    unsigned n = 0;

    *strrchr(dir.text, '/') = '\0';
    if (db_find(db, NULL, NULL, NULL, "SELECT seq FROM state WHERE is_whole",
                DB_VALUES(), DB_INTO(&seq)))
        return; /* a rule has found it */
    for (unsigned level = 0; level < TILE_LEVELS; level++)
        for (uint64_t i = 0; i < seq >> (8 * level) >> 8 && n < TILES_MAX;
             i++) {
            const char *fault = NULL;
            char tile[TILE_PATH_SIZE];

            in->counts.files++;
            in->counts.bytes += TILE_BYTES;
            if (!tile_file_read(dir.text, level, i, TILE_WIDTH,
                                in->is_deep ? hashes : NULL)) {
                fault = "is missing, or has another size";
            } else if (in->is_deep) {
                tree_tile_root(hashes, &root);
                if (!hash_above(db, dir.text, level, i, &above) ||
                    !digest_is_equal(&root, &above))
                    fault = "has another root than the level above";
            }
            if (!fault)
                continue;
            tree_tile_write(tile, level, i, TILE_WIDTH);
            inspection_find(in, FINDING_TREE, path, LOG_TILES "/%s %s", tile,
                            fault);
            n++;
        }
}

/* Uploads of all resources of a set, which wait to become changes. */
static const struct rule upload_rules[] = {
    {FINDING_DATABASE,
     "SELECT printf('it has %d resources, and announces %d', rows, n) FROM"
     " about, (SELECT count(*) rows FROM staged) WHERE rows <> n"},
    {FINDING_DATABASE,
     "SELECT printf('it has %d rows about itself', count(*)) FROM about"
     " HAVING count(*) <> 1"},
    {FINDING_DATABASE,
     "SELECT printf('it has %d resources and %d keys', rows, n) FROM"
     " (SELECT count(*) rows FROM staged), (SELECT count(*) n FROM keys)"
     " WHERE rows <> n"},
};

static const struct {
    const struct rule *rules;
    size_t n;
    bool has_logs; /* the rules need the table `logs` (inspection_lend_logs) */

    /* What the rules cannot say; NULL: nothing. */
    void (*further)(struct inspection *in, const char *path, struct db *db);

    enum finding_kind kind; /* a missing database is a finding; */
    const char *missing;    /* NULL: it is none */
} checks[DATABASES] = {
    [DATABASE_TIDINGS] = {RULES(store_rules), false, NULL, FINDING_DATABASE,
                          "it is missing or empty"},
    [DATABASE_HUB] = {RULES(hub_rules), true, check_documents, FINDING_HUB,
                      "it is missing, and with it all subscriptions and "
                      "relays"},
    [DATABASE_MQTT] = {RULES(bridge_rules), true, check_lanes},
    [DATABASE_TOKENS] = {RULES(token_rules)},
    [DATABASE_RESOURCES] = {RULES(resource_rules)},
    [DATABASE_CONTENT] = {RULES(content_rules)},
    [DATABASE_TREE] = {RULES(tree_rules), false, check_tiles},
    [DATABASE_UPLOAD] = {RULES(upload_rules)},
};

/* Finds damage that SQLite can see. False: there is some. */
static bool
is_sound(struct inspection *in, const char *path, struct db *db)
{
    size_t before = in->findings.n;
    struct db_rows rows =
        DB_SELECT(db, "read it", &in->why,
                  in->is_deep ? "PRAGMA integrity_check(" FAULTS_MAX ")"
                              : "PRAGMA quick_check(" FAULTS_MAX ")");
    struct slice fault;
    struct stat st;

    while (DB_NEXT(&rows, &fault))
        if (!slice_is(fault, "ok"))
            inspection_find(in, FINDING_DATABASE, path, "it is damaged: %.*s",
                            SLICE_ARG(fault));
    inspection_end_rows(in, path, &rows);
    if (!fstatat(in->dir, path, &st, 0))
        in->counts.bytes += (uint64_t)st.st_size;
    in->counts.files++;
    return in->findings.n == before && !in->findings.is_short;
}

enum status
check_rules(struct inspection *in, enum database_id id, const char *path,
            struct db *db)
{
    struct slice sentence;
    enum status rc = inspection_open(in, id, path, db);

    if (rc == STATUS_NOT_FOUND && checks[id].missing)
        inspection_find(in, checks[id].kind, path, "%s", checks[id].missing);
    if (rc)
        return rc;
    if (!is_sound(in, path, db) ||
        (checks[id].has_logs &&
         (inspection_load(in) || inspection_lend_logs(in, db)))) {
        db_close(db);
        return STATUS_MALFORMED;
    }
    for (size_t i = 0; i < checks[id].n; i++) {
        const struct rule *rule = &checks[id].rules[i];

        if (!rule->is_deep || in->is_deep) {
            struct db_rows rows = DB_SELECT(db, "read it", &in->why, rule->sql);

            while (DB_NEXT(&rows, &sentence))
                inspection_find(in, rule->kind, path, "%.*s",
                                SLICE_ARG(sentence));
            inspection_end_rows(in, path, &rows);
        }
    }
    if (checks[id].further)
        checks[id].further(in, path, db);
    return STATUS_OK;
}

void
check_uploads(struct inspection *in)
{
    DIR *dir = file_open_dir(in->dir, "uploads", 0);
    char path[INSPECTION_PATH];
    const struct dirent *entry;
    struct db db;

    while ((entry = file_next(dir))) {
        struct slice name = slice_of(entry->d_name);

        snprintf(path, sizeof(path), "uploads/%s", entry->d_name);
        if ((slice_ends(name, ".whole") || slice_ends(name, ".taken")) &&
            !check_rules(in, DATABASE_UPLOAD, path, &db))
            db_close(&db);
    }
    if (dir)
        closedir(dir);
}
