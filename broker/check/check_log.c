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
 *
 * The walk goes through the entries as the log keeps them: in files of closed
 * lists, then in rows of tidings.db, and proves them
 * (proto/input/list_proof.h). Behind damage it goes on at the next place whose
 * digest is stored.
 */

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "broker/check/inspection.h"
#include "broker/check/packed_file.h"
#include "broker/log/list_file.h"
#include "broker/log/log.h"
#include "broker/state/content.h"
#include "broker/state/resources.h"
#include "broker/state/tree_db.h"
#include "broker/store/segments.h"
#include "broker/store/store_queries.h"
#include "proto/input/list_proof.h"

/* Another part of the data says what the log has at `seq`. */
struct log_claim {
    uint64_t seq;
    bool has_digest;
    struct digest digest;
    int64_t us; /* DATETIME_NONE: it does not say */
    enum finding_kind kind;
    char path[INSPECTION_PATH];
    char what[80]; /* "its entry 7" */
};

struct log_walk {
    struct inspection *in;
    const struct inspected_set *set;
    struct db *db;        /* tidings.db */
    struct list_chain at; /* up to the entry before the next one */
    bool is_broken;       /* some entries could not be read */
    struct log_claim *claims;
    size_t n_claims, claims_capacity;
    struct state_check *state; /* compared with each entry; or NULL */
};

/* The state */

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

/* The walk */

#define STORE "tidings.db"

/* Claims */

/* Adds a claim, whose rest the caller fills in; NULL: no memory. */
static struct log_claim *
add_claim(struct log_walk *w, enum finding_kind kind, const char *path,
          uint64_t seq)
{
    struct log_claim *claim;

    if (!ONE_MORE(w->claims, &w->claims_capacity, w->n_claims))
        return NULL;
    claim = &w->claims[w->n_claims++];
    *claim = (struct log_claim){seq, .us = DATETIME_NONE, .kind = kind};
    snprintf(claim->path, sizeof(claim->path), "%s", path);
    return claim;
}

/* Compares the claims about the entry at which the walk is. */
static void
compare_claims(struct log_walk *w)
{
    for (size_t i = 0; i < w->n_claims; i++) {
        const struct log_claim *claim = &w->claims[i];

        if (claim->seq != w->at.last)
            continue;
        if (claim->us != DATETIME_NONE && claim->us != w->at.last_us)
            inspection_find(w->in, claim->kind, claim->path,
                            "%s has another time than in the log", claim->what);
        if (claim->has_digest &&
            !digest_is_equal(&claim->digest, &w->at.digest))
            inspection_find(w->in, claim->kind, claim->path,
                            "%s has another digest than in the log",
                            claim->what);
    }
}

/* Moves the walk to a place whose time and digest are stored. */
static void
move_to(struct log_walk *w, uint64_t seq, int64_t us,
        const struct digest *digest)
{
    if (seq != w->at.last)
        w->at.name[0] = w->at.next[0] = '\0'; /* it is behind no list */
    w->at.last = seq;
    w->at.last_us = us;
    w->at.digest = *digest;
    compare_claims(w);
}

/* The walk has come to the entry. Compares it with the row of its resource. */
static void
pass_entry(struct log_walk *w, struct slice fragment,
           const struct fragment_view *view)
{
    struct state_check *s = w->state;
    struct resource_key key;
    struct db_rows rows;
    struct slice entry;
    uint64_t seq;

    w->in->counts.entries++;
    compare_claims(w);
    if (!s || view->seq <= s->after || view->seq > s->last || s->has_failed)
        return;
    resource_key(&key, view->loc);
    rows = DB_SELECT(&s->db, "read it", &s->in->why,
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

/* Files of closed lists */

struct list_reading {
    struct log_walk *walk;
    struct list_info info;
    struct slice header, marks; /* of the row */
    char path[INSPECTION_PATH];
    struct list_proof *proof;
    size_t mark; /* the next one to be compared */
    bool has_false_mark;
};

/* Compares the mark at this place, byte `plain` of the list, if one is due. */
static void
compare_mark(struct list_reading *r, uint64_t plain)
{
    const struct list_chain *at = &r->walk->at;
    struct list_mark mark;

    if (r->mark >= r->marks.size / LIST_MARK_SIZE)
        return;
    mark = list_file_mark(r->marks, r->mark);
    if (mark.after > at->last)
        return;
    r->mark++;
    r->has_false_mark |= mark.after != at->last || mark.plain != plain ||
                         mark.after_us != at->last_us ||
                         !digest_is_equal(&mark.digest, &at->digest);
}

/* Compares the head with the row. The proof compares it with the entries. */
static enum status
on_head(const struct list_head *head, void *user, struct problem *why)
{
    struct list_reading *r = user;
    const struct coverage *covers = &head->covers;
    const struct list_info *info = &r->info;

    if (!slice_equal(head->text, r->header))
        return problem(why, STATUS_MALFORMED,
                       "its header is not the one in tidings.db");
    if (covers->after != info->after || covers->last != info->last ||
        covers->from_us != info->from_us ||
        covers->until_us != info->until_us ||
        !digest_is_equal(&covers->digest, &info->digest))
        return problem(why, STATUS_MALFORMED,
                       "its row in tidings.db does not say what its header "
                       "says");
    compare_mark(r, head->text.size);
    return STATUS_OK;
}

static enum status
on_entry(const struct list_entry *entry, void *user, struct problem *why)
{
    struct list_reading *r = user;
    struct log_walk *w = r->walk;

    (void)why;
    w->at.last = entry->view->seq;
    w->at.last_us = entry->view->us;
    w->at.digest = *entry->digest;
    pass_entry(w, entry->text, entry->view);
    compare_mark(r, entry->at + entry->text.size);
    return STATUS_OK;
}

/* Receives plain bytes of the file. */
static enum status
on_bytes(struct slice bytes, void *user, struct problem *why)
{
    return list_proof_feed(((struct list_reading *)user)->proof, bytes, why);
}

static bool
find_place(size_t n, uint64_t *at, uint64_t *plain, void *user)
{
    const struct list_reading *r = user;
    struct list_mark mark;

    if (n >= r->marks.size / LIST_MARK_SIZE)
        return false;
    mark = list_file_mark(r->marks, n);
    *at = mark.at;
    *plain = mark.plain;
    return true;
}

static enum status
read_list_file(struct list_reading *r, struct problem *why)
{
    const struct packed_file file = {
        .head = {list_file_gzip, sizeof(list_file_gzip)},
        /* More would be no list: its footer has a few bytes. */
        .max_plain = r->header.size + r->info.bytes + 1024,
        .place = find_place,
        .on_plain = on_bytes,
        .user = r,
    };
    bool are_places_right;
    enum status rc;
    int fd = openat(r->walk->in->dir, r->path, O_RDONLY | O_CLOEXEC);

    if (fd < 0 && errno == ENOENT) {
        rc = inspection_find_in_bucket(r->walk->in, r->path, why);
        return rc == STATUS_NOT_FOUND ? problem(why, rc, "it is missing")
               : rc                   ? rc
                                      : STATUS_AGAIN; /* nobody reads it */
    }
    if (fd < 0)
        return problem(why, STATUS_IO, "it cannot be opened: %s",
                       strerror(errno));
    r->walk->in->counts.files++;
    rc = packed_file_read(r->walk->in, fd, &file, &are_places_right, why);
    if (!rc)
        rc = list_proof_end(r->proof, &r->walk->at, why);
    close(fd);
    if (!rc && (!are_places_right || r->has_false_mark ||
                r->mark != r->marks.size / LIST_MARK_SIZE))
        inspection_find(r->walk->in, FINDING_MARKS, r->path,
                        "the marks in tidings.db do not fit to the file");
    return rc;
}

static void
list_path(const struct log_walk *w, uint64_t number, char to[INSPECTION_PATH])
{
    char name[LIST_FILE_NAME_MAX], file[64];

    list_file_name(name, number);
    snprintf(file, sizeof(file), LOG_CHANGES "/%s", name);
    inspection_path(to, w->set->name, file);
}

/* Reads the file of a list, from its first entry on. `is_needed`: it must be
 * there. */
static void
walk_file(struct log_walk *w, const struct list_info *info, struct slice header,
          struct slice marks, bool is_needed)
{
    static const struct list_proof_events events = {on_head, on_entry};
    struct list_reading r = {
        .walk = w, .info = *info, .header = header, .marks = marks};
    struct problem why = {""};
    enum status rc;

    list_path(w, info->number, r.path);
    move_to(w, r.info.after, r.info.from_us, &r.info.before);
    r.proof = list_proof_new(&w->at, r.path, &events, &r);
    rc = read_list_file(&r, &why);
    list_proof_free(r.proof);
    if (rc == STATUS_NOT_FOUND && !is_needed)
        return;
    w->in->counts.lists++;
    if (rc && rc != STATUS_AGAIN)
        inspection_find(w->in, FINDING_LIST, r.path, "%s", why.text);
    if (rc) {
        w->is_broken = true;
        w->at.name[0] = w->at.next[0] = '\0';
        move_to(w, r.info.last, r.info.until_us, &r.info.digest);
    }
}

/* Batches */

static void
find_damage(struct log_walk *w, const char *what)
{
    inspection_find(w->in, FINDING_ENTRY, STORE, "set %s: %s", w->set->name,
                    what);
    w->is_broken = true;
}

static void
walk_batch(struct log_walk *w, const struct stored_batch *row)
{
    struct problem why = {""};
    struct slice text = row->body;
    struct buf room = {.max = (size_t)2 * BATCH_BYTES_MAX};
    enum status rc = STATUS_OK;

    if (row->place.number > 0) {
        char *bytes = buf_room(&room, row->size);

        text = (struct slice){bytes, row->size};
        rc = bytes ? segment_read_at(w->in->segments, &row->place, row->size,
                                     bytes, &why)
                   : problem_memory(&why);
    }
    if (row->first != w->at.last + 1) {
        problem_set(&why, "entries %" PRIu64 " to %" PRIu64 " are missing",
                    w->at.last + 1, row->first - 1);
        find_damage(w, why.text);
        move_to(w, row->first - 1, row->before_us, &row->before);
    }
    while (!rc && text.size > 0) {
        struct fragment_view view;

        rc = list_chain_add(&w->at, text, &view, &why);
        if (rc)
            break;
        pass_entry(w, (struct slice){text.data, view.size}, &view);
        slice_skip(&text, view.size);
    }
    if (!rc && (w->at.last != row->last || w->at.last_us != row->last_us ||
                !digest_is_equal(&w->at.digest, &row->digest)))
        rc = problem(&why, STATUS_MALFORMED,
                     "entries %" PRIu64 " to %" PRIu64
                     " are not those that were stored: their digest is wrong",
                     row->first, row->last);
    buf_fini(&room);
    if (!rc)
        return;
    find_damage(w, why.text);
    move_to(w, row->last, row->last_us, &row->digest);
}

/* Walks the rows of entries up to `last`; an open list may have fewer. */
static void
walk_rows(struct log_walk *w, uint64_t last, bool is_open)
{
    struct db_rows rows =
        DB_SELECT(w->db, "read the log", &w->in->why,
                  "SELECT " BATCH_COLUMNS " FROM batches WHERE set_id = ?"
                  " AND last > ? AND first <= ? ORDER BY first",
                  w->set->id, w->at.last, last);
    struct stored_batch row;
    enum status rc;

    while (DB_NEXT(&rows, BATCH_PLACES(&row)))
        walk_batch(w, &row);
    rc = db_rows_end(&rows);
    if (!rc && w->at.last < last && !is_open)
        rc = problem(&w->in->why, STATUS_MALFORMED,
                     "entries %" PRIu64 " to %" PRIu64 " are missing",
                     w->at.last + 1, last);
    if (rc)
        find_damage(w, w->in->why.text);
}

/* A closed list without a file, which the archive thread will write. */
static void
walk_unfiled(struct log_walk *w, const struct list_info *info)
{
    move_to(w, info->after, info->from_us, &info->before);
    walk_rows(w, info->last, false);
    if (w->at.last != info->last || w->at.last_us != info->until_us ||
        !digest_is_equal(&w->at.digest, &info->digest))
        inspection_find(w->in, FINDING_LOG, STORE,
                        "list %" PRIu64 " of set %s does not end with its last "
                        "entry %" PRIu64,
                        info->number, w->set->name, info->last);
    move_to(w, info->last, info->until_us, &info->digest);
}

/* Lists */

static enum status
walk_lists(struct log_walk *w, struct problem *why)
{
    uint64_t bytes = 0;   /* of the files that the set retains */
    bool is_known = true; /* all of them were there */
    struct db_rows rows =
        DB_SELECT(w->db, "read the lists", why,
                  "SELECT " LIST_COLUMNS ", header, marks FROM lists"
                  " WHERE set_id = ? ORDER BY number",
                  w->set->id);
    struct slice header, marks;
    struct list_info info;
    char path[INSPECTION_PATH];
    struct stat st;
    enum status rc;

    while (DB_NEXT(&rows, LIST_PLACES(&info), &header, &marks)) {
        bool is_retained =
            !w->set->is_removed && info.number >= w->set->first_list;

        if (is_retained && info.number == w->set->first_list &&
            info.after != w->set->earliest)
            inspection_find(w->in, FINDING_LOG, STORE,
                            "set %s begins behind entry %" PRIu64
                            ", and its first list behind entry %" PRIu64,
                            w->set->name, w->set->earliest, info.after);
        if (info.is_filed && is_retained) {
            list_path(w, info.number, path);
            if (fstatat(w->in->dir, path, &st, 0))
                is_known = false;
            else
                bytes += (uint64_t)st.st_size;
        }
        if (info.is_filed)
            walk_file(w, &info, header, marks, is_retained);
        else if (!w->set->is_removed)
            walk_unfiled(w, &info);
    }
    rc = db_rows_end(&rows);
    if (!rc && !w->set->is_removed && is_known && bytes != w->set->file_bytes)
        inspection_find(w->in, FINDING_LOG, STORE,
                        "the files of set %s have %" PRIu64
                        " bytes, and %" PRIu64 " are stored",
                        w->set->name, bytes, w->set->file_bytes);
    return rc;
}

/* What the log is compared with */

/* Adds a claim about the fold up to an entry, of the row that `sql` reads:
 * epoch, seq, digest, and `*after`. Returns its seq; 0: it is no claim about
 * this log. */
static uint64_t
claim_fold(struct log_walk *w, const char *path, struct db *db,
           enum finding_kind kind, const char *sql, uint64_t *after)
{
    struct db_rows rows = DB_SELECT(db, "read it", &w->in->why, sql);
    struct log_claim *claim;
    struct slice epoch, digest;
    uint64_t seq = 0;

    if (!DB_NEXT(&rows, &epoch, &seq, &digest, after)) {
        seq = 0;
    } else if (!slice_is(epoch, w->set->epoch)) {
        /* A set that was made again has the file of the removed one until its
         * first entries are folded. */
        if (w->set->start_list <= 1)
            inspection_find(w->in, kind, path,
                            "it is of the epoch %.*s, and the set of %s",
                            SLICE_ARG(epoch), w->set->epoch);
        seq = 0;
    } else if (seq > w->set->last) {
        inspection_find(w->in, kind, path,
                        "it was computed up to entry %" PRIu64
                        ", and the log ends with entry %" PRIu64,
                        seq, w->set->last);
        seq = 0;
    } else if (digest.size == DIGEST_SIZE &&
               (claim = add_claim(w, kind, path, seq))) {
        claim->has_digest = true;
        memcpy(claim->digest.bytes, digest.data, DIGEST_SIZE);
        snprintf(claim->what, sizeof(claim->what), "its entry %" PRIu64, seq);
    }
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
    /* Each entry is to be compared. */
    w->state = s;
}

/* Every entry was compared. Reports resources without a row, and rows without
 * an entry. */
static void
end_state(struct state_check *s, const struct log_walk *w)
{
    struct unrowed *u;
    uint64_t n = s->n_matched;
    bool is_compared = w->state && !w->is_broken && !s->has_failed;

    map_walk (u, &s->unrowed, node) {
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
    struct db_rows rows =
        DB_SELECT(w->db, "read it", &w->in->why,
                  "SELECT kind, number, seq, at_us FROM generations"
                  " WHERE set_id = ? AND due_us IS NULL",
                  w->set->id);
    uint64_t number, seq;
    int64_t us;
    int kind;

    while (DB_NEXT(&rows, &kind, &number, &seq, &us)) {
        struct log_claim *claim = add_claim(w, FINDING_LOG, path, seq);

        if (!claim)
            break;
        claim->us = us;
        snprintf(claim->what, sizeof(claim->what),
                 "set %u: build %" PRIu64 " of kind %d", w->set->id, number,
                 kind);
    }
    inspection_end_rows(w->in, path, &rows);
}

void
check_log(struct inspection *in, const struct inspected_set *set)
{
    struct state_check state = {.in = in, .entry.max = FRAGMENT_MAX};
    struct log_walk walk = {.in = in, .set = set};
    char path[INSPECTION_PATH];
    struct problem why = {""};
    struct digest start;
    struct db db, content, tree;
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
    if (!set->is_removed) {
        open_state(&state, &walk);
        /* content.db is checked by its own part; here only its place. */
        inspection_path(path, set->name, CONTENT_FILE);
        if (!inspection_open(in, DATABASE_CONTENT, path, &content)) {
            (void)claim_fold(&walk, path, &content, FINDING_INDEX,
                             "SELECT epoch, seq, digest, 0 FROM state", &after);
            db_close(&content);
        }
        inspection_path(path, set->name, TREE_FILE);
        if (!check_rules(in, DATABASE_TREE, path, &tree)) {
            (void)claim_fold(&walk, path, &tree, FINDING_TREE,
                             "SELECT epoch, seq, digest, 0 FROM state", &after);
            db_close(&tree);
        }
        claim_builds(&walk);
    }
    memcpy(walk.at.epoch, set->epoch, sizeof(walk.at.epoch));
    digest_sha256(&start, slice_of(set->epoch));
    move_to(&walk, 0, set->created_us, &start);
    if (walk_lists(&walk, &why))
        find_damage(&walk, why.text);
    if (!set->is_removed)
        walk_rows(&walk, INT64_MAX, true);
    end_state(&state, &walk);
    free(walk.claims);
    db_close(&db);
    file_close(&in->segments);
}
