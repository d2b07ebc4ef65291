#include "broker/check/log_walk.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "broker/check/packed_file.h"
#include "broker/log/list_file.h"
#include "broker/log/log.h"
#include "broker/store/store_queries.h"

#define STORE "tidings.db"

/* Claims */

struct log_claim *
log_walk_claim(struct log_walk *w)
{
    if (!ONE_MORE(w->claims, &w->claims_capacity, w->n_claims))
        return NULL;
    w->claims[w->n_claims] = (struct log_claim){.seq = 0};
    return &w->claims[w->n_claims++];
}

/* Compares the claims about the entry at which the walk is. */
static void
compare_claims(struct log_walk *w)
{
    for (size_t i = 0; i < w->n_claims; i++) {
        const struct log_claim *claim = &w->claims[i];

        if (claim->seq != w->at.last)
            continue;
        if (claim->has_us && claim->us != w->at.last_us)
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

/* The walk has come to the entry. */
static void
pass_entry(struct log_walk *w, struct slice fragment,
           const struct fragment_view *view)
{
    w->in->counts.entries++;
    compare_claims(w);
    if (w->on_entry)
        w->on_entry(fragment, view, w->user);
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

    if (r->mark >= list_file_n_marks(r->marks))
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

    if (n >= list_file_n_marks(r->marks))
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
    int fd;
    enum status rc;

    fd = openat(r->walk->in->dir, r->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return problem(why, STATUS_NOT_FOUND, "it is missing");
    if (fd < 0)
        return problem(why, STATUS_IO, "it cannot be opened: %s",
                       strerror(errno));
    r->walk->in->counts.files++;
    rc = packed_file_read(r->walk->in, fd, &file, &are_places_right, why);
    if (!rc)
        rc = list_proof_end(r->proof, &r->walk->at, why);
    close(fd);
    if (!rc && (!are_places_right || r->has_false_mark ||
                r->mark != list_file_n_marks(r->marks)))
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
    if (rc) {
        inspection_find(w->in, FINDING_LIST, r.path, "%s", why.text);
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
    struct buf room;
    enum status rc = STATUS_OK;

    buf_init(&room, (size_t)2 * BATCH_BYTES_MAX);
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
    struct problem why = {""};
    struct db_rows rows =
        DB_SELECT(w->db, "read the log", &why,
                  "SELECT " BATCH_COLUMNS " FROM batches WHERE set_id = ?"
                  " AND last > ? AND first <= ? ORDER BY first",
                  w->set->id, w->at.last, last);
    struct stored_batch row;
    enum status rc;

    while (DB_NEXT(&rows, BATCH_PLACES(&row)))
        walk_batch(w, &row);
    rc = db_rows_end(&rows);
    if (!rc && w->at.last < last && !is_open)
        rc = problem(&why, STATUS_MALFORMED,
                     "entries %" PRIu64 " to %" PRIu64 " are missing",
                     w->at.last + 1, last);
    if (rc)
        find_damage(w, why.text);
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

void
log_walk_run(struct log_walk *w)
{
    struct problem why = {""};
    struct digest start;

    memcpy(w->at.epoch, w->set->epoch, sizeof(w->at.epoch));
    digest_start(&start, slice_of(w->set->epoch));
    move_to(w, 0, w->set->created_us, &start);
    if (walk_lists(w, &why))
        find_damage(w, why.text);
    if (!w->set->is_removed)
        walk_rows(w, INT64_MAX, true);
}

void
log_walk_fini(struct log_walk *w)
{
    free(w->claims);
}
