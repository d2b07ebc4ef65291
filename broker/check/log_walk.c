#include "broker/check/log_walk.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/gunzip.h"
#include "broker/log/list_file.h"
#include "broker/log/log.h"
#include "broker/store/store_queries.h"
#include "proto/resourcesync/document_write.h"

#define STORE "tidings.db"

/* Each block but the first follows a full flush of deflate, which ends so. */
#define FLUSH_BYTES "\0\0\xff\xff"
#define FLUSH_SIZE  4

/* Claims */

struct log_claim *
log_walk_claim(struct log_walk *w)
{
    struct log_claim *claims =
        ONE_MORE(w->claims, &w->claims_capacity, w->n_claims);

    if (!claims)
        return NULL;
    w->claims = claims;
    claims[w->n_claims] = (struct log_claim){.seq = 0};
    return &claims[w->n_claims++];
}

/* Compares the claims about the entry at which the walk is. */
static void
compare_claims(struct log_walk *w)
{
    for (size_t i = 0; i < w->n_claims; i++) {
        const struct log_claim *claim = &w->claims[i];

        if (claim->seq != w->seq)
            continue;
        if (claim->has_us && claim->us != w->us)
            inspection_find(w->in, claim->kind, claim->path,
                            "%s has another time than in the log", claim->what);
        if (claim->has_digest &&
            memcmp(&claim->digest, &w->digest, sizeof(w->digest)) != 0)
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
    w->seq = seq;
    w->us = us;
    w->digest = *digest;
    compare_claims(w);
}

/* Entries */

/* Takes the entry that `text` begins with. STATUS_MALFORMED: `why` says what is
 * wrong with it. */
static enum status
take_entry(struct log_walk *w, struct slice *text, struct problem *why)
{
    struct fragment_view view;
    struct slice fragment;

    if (fragment_view(*text, &view))
        return problem(why, STATUS_MALFORMED,
                       "what follows entry %" PRIu64 " is no entry", w->seq);
    if (view.seq != w->seq + 1)
        return problem(why, STATUS_MALFORMED,
                       "entry %" PRIu64 " follows entry %" PRIu64, view.seq,
                       w->seq);
    if (view.us <= w->us)
        return problem(why, STATUS_MALFORMED,
                       "entry %" PRIu64 " is not later than the one before it",
                       view.seq);
    fragment = (struct slice){text->data, view.size};
    digest_add(&w->digest, fragment);
    w->seq = view.seq;
    w->us = view.us;
    slice_skip(text, view.size);
    w->in->counts.entries++;
    compare_claims(w);
    if (w->on_entry)
        w->on_entry(fragment, &view, w->user);
    return STATUS_OK;
}

/* Files of closed lists */

struct list_reading {
    struct log_walk *walk;
    struct list_info info;
    struct slice header, marks; /* of the row */
    char path[INSPECTION_PATH];
    struct buf text; /* inflated, not taken yet */
    uint64_t plain;  /* taken bytes */
    size_t mark;     /* the next one to be compared */
    bool has_false_mark;
};

/* Compares the mark at this place, if one is due. */
static void
compare_mark(struct list_reading *r)
{
    const struct log_walk *w = r->walk;
    struct list_mark mark;

    if (r->mark >= list_file_n_marks(r->marks))
        return;
    mark = list_file_mark(r->marks, r->mark);
    if (mark.after > w->seq)
        return;
    r->mark++;
    r->has_false_mark |=
        mark.after != w->seq || mark.plain != r->plain ||
        mark.after_us != w->us ||
        memcmp(&mark.digest, &w->digest, sizeof(w->digest)) != 0;
}

static enum status
take_header(struct list_reading *r, struct slice *text, struct problem *why)
{
    if (text->size < r->header.size)
        return STATUS_AGAIN;
    if (memcmp(text->data, r->header.data, r->header.size) != 0)
        return problem(why, STATUS_MALFORMED,
                       "its header is not the one in tidings.db");
    slice_skip(text, r->header.size);
    r->plain = r->header.size;
    compare_mark(r);
    return STATUS_OK;
}

/* Takes the whole entries of `text`. */
static enum status
take_entries(struct list_reading *r, struct slice *text, struct problem *why)
{
    uint64_t end = r->header.size + r->info.bytes;
    enum status rc = STATUS_OK;

    while (!rc && r->plain < end) {
        const char *line = memchr(text->data, '\n', text->size);
        size_t before = text->size;

        if (!line && text->size > FRAGMENT_MAX)
            return problem(why, STATUS_MALFORMED,
                           "what follows entry %" PRIu64 " is no entry",
                           r->walk->seq);
        if (!line)
            return STATUS_AGAIN;
        rc = take_entry(r->walk, text, why);
        r->plain += before - text->size;
        if (!rc)
            compare_mark(r);
    }
    return rc;
}

/* Receives plain bytes of the file. */
static enum status
on_bytes(struct slice bytes, void *user, struct problem *why)
{
    struct list_reading *r = user;
    struct slice text;
    enum status rc = STATUS_OK;

    buf_add_slice(&r->text, bytes);
    if (r->text.failed)
        return problem(why, STATUS_MALFORMED, "it is longer than its list");
    text = buf_slice(&r->text);
    if (r->plain == 0)
        rc = take_header(r, &text, why);
    if (!rc)
        rc = take_entries(r, &text, why);
    memmove(r->text.data, text.data, text.size);
    r->text.size = text.size;
    return rc == STATUS_AGAIN ? STATUS_OK : rc;
}

/* Compares the end of the file with that of the list. */
static enum status
check_list_end(struct list_reading *r, struct problem *why)
{
    const struct log_walk *w = r->walk;
    const struct list_info *info = &r->info;

    if (w->seq != info->last)
        return problem(why, STATUS_MALFORMED,
                       "it ends with entry %" PRIu64
                       ", and its list with %" PRIu64,
                       w->seq, info->last);
    if (memcmp(&w->digest, &info->digest, sizeof(w->digest)) != 0)
        return problem(why, STATUS_MALFORMED,
                       "its digest is wrong: some of the entries %" PRIu64
                       " to %" PRIu64 " are not those that were stored",
                       info->after + 1, info->last);
    if (w->us != info->until_us)
        return problem(why, STATUS_MALFORMED,
                       "its last entry is not of the time when its list ends");
    if (!slice_equal(buf_slice(&r->text), document_footer_of(DOCUMENT_URLSET)))
        return problem(why, STATUS_MALFORMED, "its end is not that of a list");
    return STATUS_OK;
}

static enum status
inflate_step(struct slice bytes, void *user, struct problem *why)
{
    return gunzip_all(user, bytes, why);
}

static enum status
inflate_file(struct list_reading *r, int fd, struct problem *why)
{
    /* More would be no list: its footer has a few bytes. */
    struct gunzip *g =
        gunzip_new(r->header.size + r->info.bytes + 1024, false, on_bytes, r);
    enum status rc = g ? inspection_read(r->walk->in, fd, inflate_step, g, why)
                       : problem_memory(why);

    if (!rc)
        rc = gunzip_end(g, why);
    gunzip_free(g);
    return rc;
}

/* Checks that readers can enter the file at its marks. */
static void
check_marks(struct list_reading *r, int fd)
{
    size_t n = list_file_n_marks(r->marks);

    for (size_t i = 0; !r->has_false_mark && i < n; i++) {
        struct list_mark mark = list_file_mark(r->marks, i);
        char bytes[FLUSH_SIZE];

        r->has_false_mark =
            mark.at < FLUSH_SIZE ||
            pread(fd, bytes, FLUSH_SIZE, (off_t)(mark.at - FLUSH_SIZE)) !=
                FLUSH_SIZE ||
            memcmp(bytes, FLUSH_BYTES, FLUSH_SIZE) != 0;
    }
    if (r->has_false_mark || r->mark != n)
        inspection_find(r->walk->in, FINDING_MARKS, r->path,
                        "the marks in tidings.db do not fit to the file");
}

static enum status
read_list_file(struct list_reading *r, struct problem *why)
{
    char whole[4096 + INSPECTION_PATH];
    int fd;
    enum status rc;

    inspection_whole_path(r->walk->in, r->path, whole, sizeof(whole));
    fd = open(whole, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return problem(why, STATUS_NOT_FOUND, "it is missing");
    if (fd < 0)
        return problem(why, STATUS_IO, "it cannot be opened: %s",
                       strerror(errno));
    r->walk->in->counts.files++;
    rc = inflate_file(r, fd, why);
    if (!rc)
        rc = check_list_end(r, why);
    if (!rc)
        check_marks(r, fd);
    close(fd);
    return rc;
}

/* Reads the file of a list, from its first entry on. `is_needed`: it must be
 * there. */
static void
walk_file(struct log_walk *w, sqlite3_stmt *q, bool is_needed)
{
    struct list_reading r = {
        .walk = w,
        .info = store_column_list(q),
        .header = db_column(q, 9),
        .marks = db_column(q, 10),
    };
    char name[LIST_FILE_NAME_MAX], folder[64];
    struct problem why = {""};
    enum status rc;

    list_file_name(name, r.info.number);
    snprintf(folder, sizeof(folder), LOG_CHANGES "/%s", name);
    inspection_path(r.path, w->set->name, folder);
    buf_init(&r.text, r.header.size + 2 * FRAGMENT_MAX + 2 * INSPECTION_STEP);
    move_to(w, r.info.after, r.info.from_us, &r.info.before);
    rc = read_list_file(&r, &why);
    buf_fini(&r.text);
    if (rc == STATUS_NOT_FOUND && !is_needed)
        return;
    if (w->set->epoch[0] &&
        !memmem(r.header.data, r.header.size, w->set->epoch, EPOCH_SIZE))
        inspection_find(w->in, FINDING_LIST, r.path,
                        "it is not of the set's epoch %s", w->set->epoch);
    w->in->counts.lists++;
    if (rc) {
        inspection_find(w->in, FINDING_LIST, r.path, "%s", why.text);
        w->is_broken = true;
        move_to(w, r.info.last, r.info.until_us, &r.info.digest);
    }
}

/* Batches */

static const char find_batch[] =
    "SELECT first, last, before_us, last_us, before, digest, body, segment, at,"
    " size FROM batches WHERE set_id = ? AND last > ?2 AND first <= ?3 ORDER "
    "BY first";

static void
find_damage(struct log_walk *w, const char *what)
{
    inspection_find(w->in, FINDING_ENTRY, STORE, "set %s: %s", w->set->name,
                    what);
    w->is_broken = true;
}

/* The entries of the row at hand, lent by it or by `room`. */
static enum status
find_entries(const struct log_walk *w, sqlite3_stmt *q, struct buf *room,
             struct slice *text, struct problem *why)
{
    const struct segment_place place = {(uint32_t)store_column_u64(q, 7),
                                        store_column_u64(q, 8)};
    size_t size = (size_t)store_column_u64(q, 9);
    char *bytes;

    *text = db_column(q, 6);
    if (place.number == 0)
        return STATUS_OK;
    bytes = buf_room(room, size);
    *text = (struct slice){bytes, size};
    return bytes ? segment_read_at(w->in->segments, &place, size, bytes, why)
                 : problem_memory(why);
}

static void
walk_batch(struct log_walk *w, sqlite3_stmt *q)
{
    uint64_t first = store_column_u64(q, 0), last = store_column_u64(q, 1);
    struct digest before = store_column_digest(q, 4),
                  digest = store_column_digest(q, 5);
    struct problem why = {""};
    struct slice text;
    struct buf room;
    enum status rc;

    buf_init(&room, (size_t)2 * BATCH_BYTES_MAX);
    rc = find_entries(w, q, &room, &text, &why);

    if (first != w->seq + 1) {
        problem_set(&why, "entries %" PRIu64 " to %" PRIu64 " are missing",
                    w->seq + 1, first - 1);
        find_damage(w, why.text);
        move_to(w, first - 1, sqlite3_column_int64(q, 2), &before);
    }
    while (!rc && text.size > 0)
        rc = take_entry(w, &text, &why);
    if (!rc && (w->seq != last || w->us != sqlite3_column_int64(q, 3) ||
                memcmp(&w->digest, &digest, sizeof(digest)) != 0))
        rc = problem(&why, STATUS_MALFORMED,
                     "entries %" PRIu64 " to %" PRIu64
                     " are not those that were stored: their digest is wrong",
                     first, last);
    buf_fini(&room);
    if (!rc)
        return;
    find_damage(w, why.text);
    move_to(w, last, sqlite3_column_int64(q, 3), &digest);
}

/* Walks the rows of entries up to `last`; an open list may have fewer. */
static void
walk_rows(struct log_walk *w, uint64_t last, bool is_open)
{
    sqlite3_stmt *q = NULL;
    struct problem why = {""};
    bool row = false;
    enum status rc = db_prepare(w->db, &q, find_batch, &why);

    if (!rc) {
        sqlite3_bind_int64(q, 1, w->set->id);
        sqlite3_bind_int64(q, 2, (sqlite3_int64)w->seq);
        sqlite3_bind_int64(q, 3, (sqlite3_int64)last);
    }
    while (!rc && !(rc = db_step(w->db, q, &row, "read the log", &why)) && row)
        walk_batch(w, q);
    sqlite3_finalize(q);
    if (!rc && w->seq < last && !is_open)
        rc = problem(&why, STATUS_MALFORMED,
                     "entries %" PRIu64 " to %" PRIu64 " are missing",
                     w->seq + 1, last);
    if (rc)
        find_damage(w, why.text);
}

/* A closed list without a file, which the archive thread will write. */
static void
walk_unfiled(struct log_walk *w, const struct list_info *info)
{
    move_to(w, info->after, info->from_us, &info->before);
    walk_rows(w, info->last, false);
    if (w->seq != info->last || w->us != info->until_us ||
        memcmp(&w->digest, &info->digest, sizeof(w->digest)) != 0)
        inspection_find(w->in, FINDING_LOG, STORE,
                        "list %" PRIu64 " of set %s does not end with its last "
                        "entry %" PRIu64,
                        info->number, w->set->name, info->last);
    move_to(w, info->last, info->until_us, &info->digest);
}

/* Lists */

static const char find_lists[] =
    "SELECT " LIST_COLUMNS ", header, marks FROM lists WHERE set_id = ?1"
    " ORDER BY number";

/* The sum of the files that the set retains. */
struct retained {
    uint64_t bytes;
    bool is_known; /* all of them were there */
};

static void
add_size(const struct log_walk *w, uint64_t number, struct retained *retained)
{
    char path[INSPECTION_PATH], whole[4096 + INSPECTION_PATH];
    char name[LIST_FILE_NAME_MAX], folder[64];
    struct stat st;

    list_file_name(name, number);
    snprintf(folder, sizeof(folder), LOG_CHANGES "/%s", name);
    inspection_path(path, w->set->name, folder);
    inspection_whole_path(w->in, path, whole, sizeof(whole));
    if (stat(whole, &st))
        retained->is_known = false;
    else
        retained->bytes += (uint64_t)st.st_size;
}

static void
walk_list(struct log_walk *w, sqlite3_stmt *q, struct retained *retained)
{
    struct list_info info = store_column_list(q);
    bool is_retained = !w->set->is_removed && info.number >= w->set->first_list;

    if (is_retained && info.number == w->set->first_list &&
        info.after != w->set->earliest)
        inspection_find(w->in, FINDING_LOG, STORE,
                        "set %s begins behind entry %" PRIu64
                        ", and its first list behind entry %" PRIu64,
                        w->set->name, w->set->earliest, info.after);
    if (info.is_filed && is_retained)
        add_size(w, info.number, retained);
    if (info.is_filed)
        walk_file(w, q, is_retained);
    else if (!w->set->is_removed)
        walk_unfiled(w, &info);
}

static enum status
walk_lists(struct log_walk *w, struct problem *why)
{
    struct retained retained = {.is_known = true};
    sqlite3_stmt *q = NULL;
    bool row = false;
    enum status rc = db_prepare(w->db, &q, find_lists, why);

    if (!rc)
        sqlite3_bind_int64(q, 1, w->set->id);
    while (!rc && !(rc = db_step(w->db, q, &row, "read the lists", why)) && row)
        walk_list(w, q, &retained);
    sqlite3_finalize(q);
    if (!rc && !w->set->is_removed && retained.is_known &&
        retained.bytes != w->set->file_bytes)
        inspection_find(w->in, FINDING_LOG, STORE,
                        "the files of set %s have %" PRIu64
                        " bytes, and %" PRIu64 " are stored",
                        w->set->name, retained.bytes, w->set->file_bytes);
    return rc;
}

void
log_walk_run(struct log_walk *w)
{
    struct problem why = {""};
    struct digest start;

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
