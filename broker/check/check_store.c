#include "broker/check/parts.h"
#include "broker/store/store_queries.h"

/* Ids of existing sets, and of removed sets that still have rows. */
#define KNOWN "(SELECT id FROM sets UNION SELECT set_id FROM trash)"

#define NEXT(columns) \
    "lag(" columns ") OVER (PARTITION BY set_id ORDER BY first) AS"

static const struct inspection_query queries[] = {
    {FINDING_LOG, false,
     "SELECT printf('set %s has the epoch \"%s\"', name, epoch) FROM sets"
     " WHERE length(epoch) <> 16 OR epoch GLOB '*[^0-9a-f]*'"},
    {FINDING_LOG, false,
     "SELECT printf('the settings of set %s are no JSON', name) FROM sets"
     " WHERE settings <> '' AND NOT json_valid(settings)"},
    {FINDING_LOG, false,
     "SELECT printf('set %s begins with list %d, and retains lists from %d on',"
     " name, start_list, first_list) FROM sets"
     " WHERE first_list <> 0 AND first_list < start_list"},
    {FINDING_LOG, false,
     "SELECT printf('set %s begins with list %d, and an earlier set of that"
     " name had lists up to %d', name, start_list, list - 1)"
     " FROM sets JOIN tombstones USING(name) WHERE start_list < list"},
    {FINDING_LOG, false,
     "SELECT printf('entries %d to %d belong to set %d, which does not exist',"
     " min(first), max(last), set_id) FROM batches"
     " WHERE set_id NOT IN " KNOWN " GROUP BY set_id"},
    {FINDING_LOG, false,
     "SELECT printf('lists %d to %d belong to set %d, which does not exist',"
     " min(number), max(number), set_id) FROM lists"
     " WHERE set_id NOT IN " KNOWN " GROUP BY set_id"},
    {FINDING_LOG, false,
     "SELECT printf('%s %d belongs to set %d, which does not exist',"
     " CASE kind WHEN 0 THEN 'Resource List' WHEN 1 THEN 'Resource Dump' ELSE"
     " 'Change Dump' END, number, set_id) FROM generations"
     " WHERE due_us IS NULL AND set_id NOT IN (SELECT id FROM sets)"},
    {FINDING_LOG, false,
     "SELECT printf('build %d of set %s is of the unknown kind %d', number,"
     " name, kind) FROM generations WHERE kind NOT BETWEEN 0 AND 2"},
    {FINDING_LOG, false,
     "SELECT printf('build %d of kind %d of set %s stands for entry %d, and the"
     " log ends with entry %d', number, kind, name, seq, last) FROM"
     " (SELECT *, max(coalesce((SELECT max(last) FROM batches b WHERE"
     " b.set_id = g.set_id), 0), coalesce((SELECT max(last) FROM lists l WHERE"
     " l.set_id = g.set_id), 0)) AS last FROM generations g"
     " WHERE due_us IS NULL) WHERE seq > last"},
    {FINDING_LOG, false,
     "SELECT printf('build %d of kind %d of set %s is neither current nor"
     " archived', number, kind, name) FROM generations g WHERE due_us IS NULL"
     " AND NOT is_archived AND number < (SELECT max(number) FROM generations"
     " WHERE set_id = g.set_id AND kind = g.kind AND due_us IS NULL"
     " AND NOT " GENERATION_IS_ORDER ")"},

    /* Lists follow each other. */
    {FINDING_LOG, false,
     "SELECT printf('list %d of set %d is missing', number + 1, set_id)"
     " FROM lists l WHERE NOT EXISTS (SELECT 1 FROM lists WHERE"
     " set_id = l.set_id AND number = l.number + 1) AND number <"
     " (SELECT max(number) FROM lists WHERE set_id = l.set_id)"},
    {FINDING_LOG, false,
     "SELECT printf('list %d of set %d does not go on where list %d ends',"
     " b.number, b.set_id, a.number) FROM lists a JOIN lists b"
     " ON b.set_id = a.set_id AND b.number = a.number + 1 WHERE"
     " b.after <> a.last OR b.from_us <> a.until_us OR b.before <> a.digest"},
    {FINDING_LOG, false,
     "SELECT printf('list %d of set %d has the entries %d to %d, from %d us to"
     " %d us', number, set_id, after + 1, last, from_us, until_us)"
     " FROM lists WHERE last <= after OR until_us <= from_us"},
    {FINDING_LOG, false,
     "SELECT printf('list %d of set %d has a file, and no marks', number,"
     " set_id) FROM lists WHERE filed AND length(coalesce(marks, '')) < 128"},

    /* Batches follow each other, in the list that they name. */
    {FINDING_LOG, false,
     "SELECT printf('entries %d to %d of set %d do not go on where entry %d"
     " ends', first, last, set_id, last_before) FROM"
     " (SELECT set_id, first, last, before_us, before,"
     " " NEXT("last") " last_before, " NEXT(
         "last_us") " us_before,"
                    " " NEXT("digest") " digest_before FROM batches)"
                                       " WHERE last_before IS NOT NULL AND "
                                       "(first <> last_before + 1 OR"
                                       " before_us <> us_before OR before <> "
                                       "digest_before)"},
    {FINDING_LOG, false,
     "SELECT printf('entries %d to %d of set %d name list %d, and the list"
     " ends with entry %d', b.first, b.last, b.set_id, b.list, l.last)"
     " FROM batches b JOIN lists l ON l.set_id = b.set_id AND"
     " l.number = b.list WHERE b.first <= l.after OR b.last > l.last"},
    {FINDING_LOG, false,
     "SELECT printf('entries %d to %d of set %d name list %d, and the open"
     " list is %d', first, last, set_id, list, open) FROM (SELECT b.*,"
     " (SELECT max(number) + 1 FROM lists WHERE set_id = b.set_id) AS open,"
     " (SELECT max(last) FROM lists WHERE set_id = b.set_id) AS closed"
     " FROM batches b) WHERE last > closed AND list <> open"},
    {FINDING_LOG, false,
     "SELECT printf('list %d of set %d has %d bytes up to entry %d, and %d are"
     " stored', list, set_id, bytes, last, list_bytes) FROM"
     " (SELECT set_id, list, last, list_bytes, length(body) + size +"
     " lag(list_bytes) OVER (PARTITION BY set_id, list ORDER BY first)"
     " AS bytes FROM batches) WHERE bytes <> list_bytes"},

    {FINDING_LOG, false,
     "SELECT printf('batches have %d bytes of entries in segment %d, and its"
     " row says %d', n, segment, coalesce(live, 0)) FROM"
     " (SELECT segment, sum(size) AS n FROM batches WHERE segment <> 0"
     " GROUP BY segment) LEFT JOIN segments ON number = segment"
     " WHERE live IS NOT n"},

    /* Idempotency keys */
    {FINDING_KEYS, false,
     "SELECT printf('keys_state has %d rows', count(*)) FROM keys_state"
     " HAVING count(*) <> 1"},
    {FINDING_KEYS, false,
     "SELECT printf('table %d of the keys is current, and there are 0 and 1',"
     " current) FROM keys_state WHERE current NOT IN (0, 1)"},
    {FINDING_KEYS, false,
     "SELECT printf('key %d is no digest, or names the entries %d to %d', id,"
     " first, last) FROM (SELECT * FROM keys_0 UNION ALL SELECT * FROM keys_1)"
     " WHERE length(key) <> 32 OR length(entries) <> 32 OR first > last"},
    {FINDING_KEYS, false,
     "SELECT printf('%d of %d keys of a table are missing', id - n, id) FROM"
     " (SELECT count(*) n, max(id) id FROM keys_0 UNION ALL"
     " SELECT count(*), max(id) FROM keys_1) WHERE n <> id"},
    {.sql = NULL},
};

void
check_store(struct inspection *in)
{
    const struct database *database = &databases[DATABASE_TIDINGS];
    struct db db;
    enum status rc = inspection_open(in, database, database->name, &db);

    if (rc == STATUS_NOT_FOUND)
        inspection_find(in, FINDING_DATABASE, database->name,
                        "it is missing or empty");
    if (rc)
        return;
    if (inspection_is_sound(in, database->name, &db))
        inspection_ask(in, database->name, &db, queries);
    db_close(&db);
}
