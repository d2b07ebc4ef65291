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

#include "base/file.h"
#include "broker/check/checks.h"
#include "broker/check/log_walk.h"
#include "broker/state/content.h"
#include "broker/state/resources.h"
#include "broker/store/segments.h"

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
    struct db db;         /* resources.db */
    bool is_compared;     /* with every entry */
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

/* Notes that an entry has no row. */
static void
note_unrowed(struct state_check *s, const struct resource_key *key,
             const struct fragment_view *view)
{
    uint64_t hash;
    struct unrowed *u = NULL, *one;

    memcpy(&hash, key->bytes, sizeof(hash));
    map_each_same (one, &s->unrowed, hash, node) {
        if (!memcmp(&one->key, key, sizeof(*key)))
            u = one;
    }
    if (view->kind == CHANGE_DELETED && u) {
        map_remove(&s->unrowed, &u->node);
        free(u);
    } else if (view->kind != CHANGE_DELETED && !u) {
        u = memory_new(1, sizeof(*u));
        u->key = *key;
        map_add(&s->unrowed, &u->node, hash);
    }
    if (view->kind != CHANGE_DELETED && u)
        u->seq = view->seq;
}

/* Compares an entry with the row of its resource. */
static void
on_entry(struct slice fragment, const struct fragment_view *view, void *user)
{
    struct state_check *s = user;
    struct problem why = {""};
    struct resource_key key;
    struct db_rows rows;
    struct slice entry;
    uint64_t seq;

    if (view->seq <= s->after || view->seq > s->last || s->has_failed)
        return;
    resource_key(&key, view->loc);
    rows = DB_SELECT(&s->db, "read it", &why,
                     "SELECT r.seq, r.entry FROM keys k JOIN resources r"
                     " ON r.id = k.id WHERE k.key = ?",
                     db_bytes(key.bytes, sizeof(key.bytes)));
    if (!DB_NEXT(&rows, &seq, &entry)) {
        if (!rows.rc)
            note_unrowed(s, &key, view);
    } else if (seq < view->seq) {
        find_resource(s, view->seq, "has a row of an earlier entry");
    } else if (seq == view->seq) {
        s->n_matched++;
        buf_clear(&s->entry);
        if (view->kind == CHANGE_DELETED)
            find_resource(s, seq, "has a row, and the entry deletes it");
        else
            fragment_resource(&s->entry, fragment, view->stamp);
        if (view->kind != CHANGE_DELETED &&
            !slice_equal(buf_slice(&s->entry), entry))
            find_resource(s, seq, "has a row that differs from the entry");
    }
    inspection_end_rows(s->in, s->path, &rows);
    s->has_failed |= rows.rc != STATUS_OK;
}

/* Adds a claim about the fold up to an entry. Returns its seq; 0: it is no
 * claim about this log. */
static uint64_t
claim_seq(struct log_walk *w, const char *path, enum finding_kind kind,
          struct slice epoch, uint64_t seq, struct slice digest)
{
    struct log_claim *claim;

    /* A set that was made again has the file of the removed one until its first
     * entries are folded. */
    if (!slice_is(epoch, w->set->epoch)) {
        if (w->set->start_list > 1)
            return 0;
        inspection_find(w->in, kind, path,
                        "it is of the epoch %.*s, and the set of %s",
                        SLICE_ARG(epoch), w->set->epoch);
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

/* The same of the row that `sql` reads: epoch, seq, digest, and `*after`. */
static uint64_t
claim_fold(struct log_walk *w, const char *path, struct db *db,
           enum finding_kind kind, const char *sql, uint64_t *after)
{
    struct problem why = {""};
    struct db_rows rows = DB_SELECT(db, "read it", &why, sql);
    struct slice epoch, digest;
    uint64_t seq = 0;

    if (DB_NEXT(&rows, &epoch, &seq, &digest, after))
        seq = claim_seq(w, path, kind, epoch, seq, digest);
    inspection_end_rows(w->in, path, &rows);
    return seq;
}

static void
open_state(struct state_check *s, struct log_walk *w)
{
    enum status rc;

    inspection_path(s->path, w->set->name, RESOURCES_FILE);
    rc = check_rules(s->in, DATABASE_RESOURCES, s->path, &s->db);
    if (rc == STATUS_NOT_FOUND && w->set->earliest > 0 &&
        w->set->name[0] != '_')
        inspection_find(s->in, FINDING_STATE, s->path,
                        "it is missing, and the log no longer has the first "
                        "%" PRIu64 " entries",
                        w->set->earliest);
    if (rc)
        return;
    s->last = claim_fold(
        w, s->path, &s->db, FINDING_STATE,
        "SELECT epoch, seq, digest, iif(is_whole, 0, began) FROM state",
        &s->after);
    if (s->after < w->set->earliest)
        s->after = w->set->earliest;
    if (!s->in->is_deep || s->last == 0)
        return;
    /* Prepares the comparison with every resource. */
    s->is_compared = true;
    w->on_entry = on_entry;
    w->user = s;
}

/* Every entry was compared. Reports resources without a row, and rows without
 * an entry. */
static void
end_state(struct state_check *s, const struct log_walk *w)
{
    struct map_node *after;
    struct unrowed *u;
    uint64_t n = s->n_matched;
    bool is_compared = s->is_compared && !w->is_broken && !s->has_failed;

    map_each (u, after, &s->unrowed, node) {
        if (is_compared)
            find_resource(s, u->seq, "has no row");
        free(u);
    }
    map_fini(&s->unrowed);
    if (is_compared &&
        !db_find(&s->db, NULL, NULL, NULL,
                 "SELECT count(*) FROM resources WHERE seq > ?",
                 DB_VALUES(s->after), DB_INTO(&n)) &&
        n != s->n_matched)
        inspection_find(s->in, FINDING_STATE, s->path,
                        "%" PRIu64 " resources are of entries that the log "
                        "does not have",
                        n - s->n_matched);
    if (s->n_findings > RESOURCES_MAX)
        inspection_find(s->in, FINDING_STATE, s->path,
                        "%" PRIu64 " resources differ from the log in all",
                        s->n_findings);
    db_close(&s->db);
    buf_fini(&s->entry);
}

static void
claim_builds(struct log_walk *w)
{
    const char *path = databases[DATABASE_TIDINGS].name;
    struct problem why = {""};
    struct db_rows rows =
        DB_SELECT(w->db, "read it", &why,
                  "SELECT kind, number, seq, at_us FROM generations"
                  " WHERE set_id = ? AND due_us IS NULL",
                  w->set->id);
    uint64_t number, seq;
    int64_t us;
    int kind;

    while (DB_NEXT(&rows, &kind, &number, &seq, &us)) {
        struct log_claim *claim = log_walk_claim(w);

        if (!claim)
            break;
        claim->seq = seq;
        claim->us = us;
        claim->has_us = true;
        claim->kind = FINDING_LOG;
        snprintf(claim->path, sizeof(claim->path), "%s", path);
        snprintf(claim->what, sizeof(claim->what),
                 "set %u: build %" PRIu64 " of kind %d", w->set->id, number,
                 kind);
    }
    inspection_end_rows(w->in, path, &rows);
}

void
check_log(struct inspection *in, const struct inspected_set *set)
{
    struct state_check state = {.in = in};
    struct log_walk walk = {.in = in, .set = set};
    char path[INSPECTION_PATH];
    struct problem why;
    struct db db, content;
    uint64_t after;

    /* Before the transaction, and for one set at a time: meanwhile the broker
     * uses no segment again, and makes a new file for each. */
    if (segments_share(in->data, &in->segments, &why)) {
        inspection_find(in, FINDING_UNREAD, SEGMENTS_FOLDER, "%s", why.text);
        return;
    }
    if (inspection_open(in, DATABASE_TIDINGS, NULL, &db)) {
        file_close(&in->segments);
        return; /* the store's finding */
    }
    walk.db = &db;
    buf_init(&state.entry, FRAGMENT_MAX);
    if (!set->is_removed) {
        open_state(&state, &walk);
        /* content.db is checked by its own part; here only its place. */
        inspection_path(path, set->name, CONTENT_FILE);
        if (!inspection_open(in, DATABASE_CONTENT, path, &content)) {
            (void)claim_fold(&walk, path, &content, FINDING_INDEX,
                             "SELECT epoch, seq, digest, 0 FROM state", &after);
            db_close(&content);
        }
        claim_builds(&walk);
    }
    log_walk_run(&walk);
    end_state(&state, &walk);
    log_walk_fini(&walk);
    db_close(&db);
    file_close(&in->segments);
}
