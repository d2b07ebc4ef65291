/*
 * The log of a set, and what is computed from it. resources.db, content.db and
 * builds each say what the log has at some entry: the walk compares that on its
 * way. With --deep it also compares every resource with the last entry that
 * the log has of it:
 *
 *   entry   row of the resource   is right if
 *   n       n                     both say the same, and it is no deletion
 *   n       later                 (the later entry is compared)
 *   n       earlier               never
 *   n       none                  a later entry, or n, deletes the resource
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/map.h"
#include "broker/check/log_walk.h"
#include "broker/check/parts.h"
#include "broker/state/content.h"
#include "broker/state/resources.h"
#include "broker/store/segments.h"
#include "broker/store/store_queries.h"

/* Findings about resources of one set. */
#define RESOURCES_MAX 20

/* A resource that has no row, so a later entry must delete it. */
struct unrowed {
    struct map_node node;
    struct resource_key key;
    uint64_t seq;
};

struct state_check {
    struct inspection *in;
    char path[INSPECTION_PATH];
    struct db db; /* resources.db */
    sqlite3_stmt *find;
    uint64_t after, last; /* the entries to be compared */
    uint64_t n_matched, n_findings;
    struct map unrowed;
    struct buf entry;
    bool has_failed;
};

static void
find_resource(struct state_check *s, uint64_t seq, const char *what)
{
    if (++s->n_findings <= RESOURCES_MAX)
        inspection_find(s->in, FINDING_STATE, s->path,
                        "the resource of entry %" PRIu64 " %s", seq, what);
}

static struct unrowed *
find_unrowed(struct state_check *s, const struct resource_key *key,
             uint64_t *hash)
{
    struct map_node *node;

    memcpy(hash, key->bytes, sizeof(*hash));
    for (node = map_find(&s->unrowed, *hash); node; node = map_same(node)) {
        struct unrowed *u = map_entry(node, struct unrowed, node);

        if (!memcmp(&u->key, key, sizeof(*key)))
            return u;
    }
    return NULL;
}

/* Notes that an entry has no row. */
static void
note_unrowed(struct state_check *s, const struct resource_key *key,
             const struct fragment_view *view)
{
    uint64_t hash;
    struct unrowed *u = find_unrowed(s, key, &hash);

    if (view->kind == CHANGE_DELETED && u) {
        map_remove(&s->unrowed, &u->node);
        free(u);
    } else if (view->kind != CHANGE_DELETED && !u) {
        u = calloc(1, sizeof(*u));
        s->has_failed |= !u;
        if (u) {
            u->key = *key;
            map_add(&s->unrowed, &u->node, hash);
        }
    }
    if (view->kind != CHANGE_DELETED && u)
        u->seq = view->seq;
}

/* Compares an entry with the row of its resource. */
static void
compare_row(struct state_check *s, struct slice fragment,
            const struct fragment_view *view)
{
    uint64_t seq = store_column_u64(s->find, 0);

    if (seq > view->seq)
        return;
    if (seq < view->seq) {
        find_resource(s, view->seq, "has a row of an earlier entry");
        return;
    }
    s->n_matched++;
    buf_clear(&s->entry);
    if (view->kind != CHANGE_DELETED)
        fragment_resource(&s->entry, fragment, view->stamp);
    if (view->kind == CHANGE_DELETED)
        find_resource(s, view->seq, "has a row, and the entry deletes it");
    else if (!slice_equal(buf_slice(&s->entry), db_column(s->find, 1)))
        find_resource(s, view->seq, "has a row that differs from the entry");
}

static void
on_entry(struct slice fragment, const struct fragment_view *view, void *user)
{
    struct state_check *s = user;
    struct problem why = {""};
    struct resource_key key;
    bool row = false;

    if (view->seq <= s->after || view->seq > s->last || s->has_failed)
        return;
    resource_key(&key, view->loc);
    sqlite3_bind_blob(s->find, 1, key.bytes, sizeof(key.bytes), SQLITE_STATIC);
    if (db_step(&s->db, s->find, &row, "read it", &why)) {
        inspection_find(s->in, FINDING_DATABASE, s->path, "%s", why.text);
        s->has_failed = true;
    } else if (row) {
        compare_row(s, fragment, view);
    } else {
        note_unrowed(s, &key, view);
    }
    sqlite3_reset(s->find);
}

static const struct inspection_query state_queries[] = {
    {FINDING_STATE, true,
     "SELECT printf('key %s refers to row %d, which is missing', hex(key),"
     " k.id) FROM keys k LEFT JOIN resources r ON r.id = k.id"
     " WHERE r.id IS NULL LIMIT 20"},
    {FINDING_STATE, true,
     "SELECT printf('%d resources have no key', count(*)) FROM resources"
     " WHERE id NOT IN (SELECT id FROM keys) HAVING count(*) > 0"},
    {FINDING_STATE, true,
     "SELECT printf('it has %d resources in %d bytes, and counts %d in %d',"
     " rows, sum, n, bytes) FROM state, (SELECT count(*) rows,"
     " coalesce(sum(length(entry)), 0) sum FROM resources)"
     " WHERE rows <> n OR sum <> bytes"},
    {FINDING_STATE, true,
     "SELECT printf('a resource is of entry %d, and it was computed up to entry"
     " %d', max(r.seq), s.seq) FROM resources r, state s"
     " GROUP BY s.id HAVING max(r.seq) > s.seq"},
    {FINDING_STATE, false,
     "SELECT printf('table state has %d rows', count(*)) FROM state"
     " HAVING count(*) > 1"},
};

static bool
run_row(struct inspection *in, const char *path, struct db *db, const char *sql,
        sqlite3_stmt **q)
{
    struct problem why = {""};
    bool row = false;
    enum status rc = db_prepare(db, q, sql, &why);

    if (!rc)
        rc = db_step(db, *q, &row, "read it", &why);
    if (rc)
        inspection_find(in, FINDING_DATABASE, path, "%s", why.text);
    return !rc && row;
}

/* Adds a claim of the row at hand: epoch, seq, digest. Returns its seq; 0: it
 * is no claim about this log. */
static uint64_t
claim_fold(struct log_walk *w, const char *path, enum finding_kind kind,
           sqlite3_stmt *q)
{
    uint64_t seq = store_column_u64(q, 1);
    struct slice digest = db_column(q, 2);
    struct log_claim *claim;

    /* A set that was made again has the file of the removed one until its first
     * entries are folded. */
    if (!slice_is(db_column(q, 0), w->set->epoch)) {
        if (w->set->start_list > 1)
            return 0;
        inspection_find(w->in, kind, path,
                        "it is of the epoch %.*s, and the set of %s",
                        SLICE_ARG(db_column(q, 0)), w->set->epoch);
        return 0;
    }
    if (seq > w->set->last) {
        inspection_find(w->in, kind, path,
                        "it was computed up to entry %" PRIu64
                        ", and the log ends with entry %" PRIu64,
                        seq, w->set->last);
        return 0;
    }
    claim = digest.size == DIGEST_SIZE ? log_walk_claim(w) : NULL;
    if (claim) {
        *claim = (struct log_claim){.seq = seq, .kind = kind};
        claim->has_digest = true;
        memcpy(claim->digest.bytes, digest.data, DIGEST_SIZE);
        snprintf(claim->path, sizeof(claim->path), "%s", path);
        snprintf(claim->what, sizeof(claim->what), "its entry %" PRIu64, seq);
    }
    return seq;
}

/* Prepares the comparison with every resource. */
static void
begin_state(struct state_check *s, struct log_walk *w)
{
    sqlite3_stmt *q = NULL;
    struct problem why = {""};

    if (run_row(s->in, s->path, &s->db,
                "SELECT epoch, seq, digest, iif(is_whole, 0, began) FROM state",
                &q)) {
        s->last = claim_fold(w, s->path, FINDING_STATE, q);
        s->after = store_column_u64(q, 3);
        if (s->after < w->set->earliest)
            s->after = w->set->earliest;
    }
    sqlite3_finalize(q);
    if (!s->in->is_deep || s->last == 0)
        return;
    if (db_prepare(&s->db, &s->find,
                   "SELECT r.seq, r.entry FROM keys k JOIN resources r"
                   " ON r.id = k.id WHERE k.key = ?",
                   &why)) {
        inspection_find(s->in, FINDING_DATABASE, s->path, "%s", why.text);
        return;
    }
    w->on_entry = on_entry;
    w->user = s;
}

static void
open_state(struct state_check *s, struct log_walk *w)
{
    enum status rc;

    inspection_path(s->path, w->set->name, RESOURCES_FILE);
    rc =
        inspection_open(s->in, &databases[DATABASE_RESOURCES], s->path, &s->db);
    if (rc == STATUS_NOT_FOUND && w->set->earliest > 0 &&
        w->set->name[0] != '_')
        inspection_find(s->in, FINDING_STATE, s->path,
                        "it is missing, and the log no longer has the first "
                        "%" PRIu64 " entries",
                        w->set->earliest);
    if (rc)
        return;
    if (inspection_is_sound(s->in, s->path, &s->db)) {
        inspection_ask(s->in, s->path, &s->db, state_queries,
                       sizeof(state_queries) / sizeof(state_queries[0]), 0);
        begin_state(s, w);
    }
}

/* Every entry was compared. Reports resources without a row, and rows without
 * an entry. */
static void
end_state(struct state_check *s, const struct log_walk *w)
{
    struct map_node *node, *after;
    char sql[100];
    int64_t n = 0;
    struct problem why = {""};
    bool is_compared = s->find && !w->is_broken && !s->has_failed;

    map_foreach (node, after, &s->unrowed) {
        struct unrowed *u = map_entry(node, struct unrowed, node);

        if (is_compared)
            find_resource(s, u->seq, "has no row");
        free(u);
    }
    map_fini(&s->unrowed);
    snprintf(sql, sizeof(sql),
             "SELECT count(*) FROM resources WHERE seq > %" PRIu64, s->after);
    if (is_compared && !db_number(&s->db, sql, &n, &why) &&
        (uint64_t)n != s->n_matched)
        inspection_find(s->in, FINDING_STATE, s->path,
                        "%" PRIu64 " resources are of entries that the log "
                        "does not have",
                        (uint64_t)n - s->n_matched);
    if (s->n_findings > RESOURCES_MAX)
        inspection_find(s->in, FINDING_STATE, s->path,
                        "%" PRIu64 " resources differ from the log in all",
                        s->n_findings);
    sqlite3_finalize(s->find);
    db_close(&s->db);
    buf_fini(&s->entry);
}

/* content.db is checked by its own part; here only its place in the log. */
static void
claim_content(struct log_walk *w)
{
    char path[INSPECTION_PATH];
    sqlite3_stmt *q = NULL;
    struct db db;

    inspection_path(path, w->set->name, CONTENT_FILE);
    if (inspection_open(w->in, &databases[DATABASE_CONTENT], path, &db))
        return;
    if (run_row(w->in, path, &db, "SELECT epoch, seq, digest FROM state", &q))
        (void)claim_fold(w, path, FINDING_INDEX, q);
    sqlite3_finalize(q);
    db_close(&db);
}

static void
claim_build(sqlite3_stmt *row, void *user)
{
    struct log_walk *w = user;
    struct log_claim *claim = log_walk_claim(w);

    if (!claim)
        return;
    claim->seq = store_column_u64(row, 2);
    claim->us = sqlite3_column_int64(row, 3);
    claim->has_us = true;
    claim->kind = FINDING_LOG;
    snprintf(claim->path, sizeof(claim->path), "%s",
             databases[DATABASE_TIDINGS].name);
    snprintf(claim->what, sizeof(claim->what),
             "set %u: build %" PRIu64 " of kind %d", w->set->id,
             store_column_u64(row, 1), sqlite3_column_int(row, 0));
}

void
check_log(struct inspection *in, const struct inspected_set *set)
{
    struct state_check state = {.in = in};
    struct log_walk walk = {.in = in, .set = set};
    struct problem why;
    struct db db;

    /* Before the transaction, and for one set at a time: meanwhile the broker
     * uses no segment again, and makes a new file for each. */
    if (segments_share(in->data, &in->segments, &why)) {
        inspection_find(in, FINDING_UNREAD, SEGMENTS_FOLDER, "%s", why.text);
        return;
    }
    if (inspection_open(in, &databases[DATABASE_TIDINGS], "tidings.db", &db)) {
        file_close(&in->segments);
        return; /* the store's finding */
    }
    walk.db = &db;
    buf_init(&state.entry, FRAGMENT_MAX);
    if (!set->is_removed) {
        open_state(&state, &walk);
        claim_content(&walk);
        inspection_rows(in, "tidings.db", &db,
                        "SELECT kind, number, seq, at_us FROM generations"
                        " WHERE set_id = ? AND due_us IS NULL",
                        set->id, claim_build, &walk);
    }
    log_walk_run(&walk);
    end_state(&state, &walk);
    log_walk_fini(&walk);
    db_close(&db);
    file_close(&in->segments);
}
