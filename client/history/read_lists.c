#include "client/history/read_lists.h"

/* The numbers are hashes, the marks those of one list, as they are in
 * memory. */
static const char *const steps[] = {
    "CREATE TABLE source (url TEXT NOT NULL);"
    "CREATE TABLE list (url INTEGER PRIMARY KEY, row INTEGER NOT NULL,"
    " n INTEGER NOT NULL, sum INTEGER NOT NULL, is_skipped INTEGER NOT NULL);"
    "CREATE TABLE marks (url INTEGER NOT NULL, marks BLOB NOT NULL);",
    "CREATE TRIGGER other BEFORE INSERT ON source BEGIN"
    " DELETE FROM source; DELETE FROM list; DELETE FROM marks; END",
};

/* The notes of the reading that is under way. */
static const char scratch[] =
    "PRAGMA temp_store = MEMORY;"
    "CREATE TEMP TABLE note (url INTEGER, row INTEGER, n INTEGER, sum INTEGER,"
    " is_skipped INTEGER, marks BLOB);"
    "CREATE TEMP TRIGGER last AFTER INSERT ON note"
    " WHEN new.marks IS NOT NULL BEGIN UPDATE note SET marks = NULL"
    " WHERE rowid < new.rowid AND marks IS NOT NULL; END;";

/* A list that was read stays one. */
static const char keep_notes[] =
    "INSERT INTO list SELECT url, row, n, sum, is_skipped FROM note WHERE true"
    " ORDER BY rowid ON CONFLICT (url) DO UPDATE SET row = excluded.row,"
    " n = excluded.n, sum = excluded.sum, is_skipped = excluded.is_skipped"
    " WHERE NOT excluded.is_skipped;"
    "DELETE FROM marks WHERE EXISTS"
    " (SELECT 1 FROM note WHERE marks IS NOT NULL);"
    "INSERT INTO marks SELECT url, marks FROM note WHERE marks IS NOT NULL;"
    "DELETE FROM note;";

static const struct db_kind kind = {
    .name = "the lists read, in",
    .mode = DB_SHARED,
    .application_id = 0x54645264,
    .steps = steps,
    .n_steps = 2,
    .opening = scratch,
};

enum status
read_lists_open(struct read_lists *lists, const char *path, const char *source,
                struct problem *why)
{
    enum status rc =
        db_open_kind(&lists->db, &kind, path ? path : ":memory:", why);

    return rc ? rc
              : DB_DO(&lists->db, NULL, why,
                      "INSERT INTO source SELECT ?1"
                      " WHERE NOT EXISTS (SELECT 1 FROM source WHERE url = ?1)",
                      source);
}

bool
read_lists_find(struct read_lists *lists, uint64_t url, struct read_list *list)
{
    bool is_there = false;

    if (!lists)
        return false;
    list->url = url;
    return !db_find(
               &lists->db, NULL, NULL, &is_there,
               "SELECT row, n, sum, is_skipped FROM list WHERE url = ?",
               DB_VALUES(url),
               DB_INTO(&list->row, &list->n, &list->sum, &list->is_skipped)) &&
           is_there;
}

bool
read_lists_known(struct read_lists *lists, uint64_t url, uint64_t n,
                 uint64_t sum, struct mark_set *known)
{
    struct db_rows rows;
    struct slice bytes;
    bool is_good = true;

    if (!lists || !n)
        return true;
    /* The result of a function is in memory of its own, and so aligned. */
    rows = DB_SELECT(&lists->db, NULL, NULL,
                     "SELECT substr(marks, 1, 8 * ?2) FROM marks"
                     " WHERE url = ?1 AND length(marks) >= 8 * ?2",
                     url, n);
    if (DB_NEXT(&rows, &bytes)) {
        const uint64_t *marks = (const void *)bytes.data;

        is_good = marks_sum(marks, n) != sum || mark_set_init(known, marks, n);
    }
    (void)!db_rows_end(&rows);
    return is_good;
}

enum status
read_lists_note(struct read_lists *lists, const struct read_list *list,
                const uint64_t *marks, struct problem *why)
{
    /* The file grows with the lists, not with the looks at them. */
    return DB_DO(&lists->db, NULL, why,
                 "INSERT INTO note SELECT ?1, ?2, ?3, ?4, ?5, ?6"
                 " WHERE NOT EXISTS (SELECT 1 FROM list WHERE url = ?1"
                 " AND row = ?2 AND n = ?3 AND sum = ?4 AND is_skipped = ?5"
                 " AND (?6 IS NULL OR url IN (SELECT url FROM marks)))",
                 list->url, list->row, list->n, list->sum, list->is_skipped,
                 marks ? db_bytes(marks, list->n * sizeof(*marks))
                       : (struct db_value){DB_NULL});
}

enum status
read_lists_commit(struct read_lists *lists, struct problem *why)
{
    enum status rc = db_begin(&lists->db, why);

    if (!rc)
        rc = db_end(&lists->db, db_exec(&lists->db, keep_notes, why), why);
    return rc;
}

struct mark_slot {
    struct map_node node;
    uint64_t mark;
    uint32_t n, n_taken;
};

/* An odd number without a pattern: 2^64 divided by the golden ratio. */
#define FACTOR 0x9e3779b97f4a7c15

static uint64_t
add_number(uint64_t hash, uint64_t number)
{
    hash = (hash ^ number) * FACTOR;
    return hash ^ hash >> 29;
}

/* Eight bytes at a time: a long list is hashed at each look. */
static uint64_t
add_text(uint64_t hash, struct slice text)
{
    size_t size = text.size;
    const char *at = text.data;
    uint64_t word = 0;

    for (; size >= sizeof(word); size -= sizeof(word), at += sizeof(word)) {
        memcpy(&word, at, sizeof(word));
        hash = add_number(hash, le64toh(word));
    }
    word = 0;
    if (size)
        memcpy(&word, at, size);
    hash = add_number(hash, le64toh(word));
    return add_number(hash, text.size);
}

uint64_t
mark_of(const struct document_entry *e)
{
    const struct change *c = &e->change;
    uint64_t hash = (uint64_t)c->kind + 1;

    hash = add_text(hash, c->loc);
    hash = add_text(hash, c->hash);
    hash = add_number(hash, c->length);
    hash = add_number(hash, (uint64_t)c->datetime_us);
    hash = add_number(hash, (uint64_t)c->lastmod_us);
    return hash ? hash : 1;
}

uint64_t
marks_sum(const uint64_t *marks, size_t n)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += marks[i];
    return sum;
}

/* Returns the slot of a mark, or NULL. By a secret hash: a mark can be chosen by
 * whoever wrote the list. */
static struct mark_slot *
find_slot(struct mark_set *set, uint64_t mark, uint64_t *hash)
{
    struct mark_slot *slot;

    *hash =
        map_hash(&set->map, (struct slice){(const char *)&mark, sizeof(mark)});
    map_each_same (slot, &set->map, *hash, node) {
        if (slot->mark == mark)
            return slot;
    }
    return NULL;
}

bool
mark_set_init(struct mark_set *set, const uint64_t *marks, size_t n)
{
    struct mark_slot *slot, *next;
    uint64_t hash;

    *set = (struct mark_set){.slots = next = calloc(n + 1, sizeof(*next))};
    for (size_t i = 0; next && i < n; i++) {
        slot = find_slot(set, marks[i], &hash);
        if (!slot) {
            slot = next++;
            slot->mark = marks[i];
            map_add(&set->map, &slot->node, hash);
        }
        slot->n++;
    }
    return set->slots != NULL;
}

void
mark_set_fini(struct mark_set *set)
{
    map_fini(&set->map);
    free(set->slots);
    *set = (struct mark_set){.slots = NULL};
}

bool
mark_set_take(struct mark_set *set, uint64_t mark)
{
    uint64_t hash;
    struct mark_slot *slot = find_slot(set, mark, &hash);

    return slot && slot->n_taken++ < slot->n;
}

void
mark_set_put_back(struct mark_set *set, uint64_t mark)
{
    uint64_t hash;
    struct mark_slot *slot = find_slot(set, mark, &hash);

    if (slot && slot->n_taken)
        slot->n_taken--;
}

bool
mark_set_has(struct mark_set *set, uint64_t mark)
{
    uint64_t hash;

    return find_slot(set, mark, &hash) != NULL;
}
