/*
 * book_wanted.c - computes the work from the sets' descriptions.
 *
 *     book_told --> members --+--> book_settle --> resources.todo
 *     book_have, book_lost ---+        the best member's description, against
 *                                      the noted file
 */
#include "client/mirror/book_inside.h"
#include "proto/change.h"
#include "proto/datetime.h"
#include "proto/digest.h"

#define HOUR_US    INT64_C(3600000000)
#define HOURS_KEPT 48

static int64_t
sql_of_length(uint64_t length)
{
    return length > INT64_MAX ? -1 : (int64_t)length;
}

static uint64_t
length_of_sql(int64_t length)
{
    return length < 0 ? LENGTH_NONE : (uint64_t)length;
}

bool
book_is_same(const struct book_resource *resource, struct slice hash,
             uint64_t length)
{
    bool has_common;

    return resource->is_there &&
           hashes_agree(hash, resource->have_hash, &has_common) && has_common &&
           (length == LENGTH_NONE || length == resource->have_mark.size);
}

/* True if the noted file is the wanted one. `trusts_times`: without digests,
 * the same lastmod will do. */
static bool
is_right(const struct book_resource *resource, bool trusts_times)
{
    bool has_common;

    if (!resource->is_there)
        return false;
    if (resource->version == resource->have_version ||
        book_is_same(resource, resource->hash, resource->length))
        return true;
    hashes_agree(resource->hash, resource->have_hash, &has_common);
    return !has_common && trusts_times &&
           resource->lastmod_us != DATETIME_NONE &&
           resource->lastmod_us == resource->have_lastmod_us &&
           (resource->length == LENGTH_NONE ||
            resource->length == resource->have_mark.size);
}

/* The work of a resource */

/* Adds `n` removals (-1: takes one back) to this hour of event time. */
static bool
count_removal(struct book *book, int64_t hour, int n)
{
    if (!book->has_hours || hour < book->hour_first)
        book->hour_first = hour;
    if (!book->has_hours || hour > book->hour_last)
        book->hour_last = hour;
    book->has_hours = true;
    book_bind(book, SQL_HOUR_OLD, 1, hour - HOURS_KEPT);
    book_bind(book, SQL_HOUR_ADD, 1, hour);
    book_bind(book, SQL_HOUR_ADD, 2, n);
    book_bind(book, SQL_HOUR_ADD, 3, (int64_t)book->counts.n_have);
    return book_run(book, SQL_HOUR_OLD) && book_run(book, SQL_HOUR_ADD);
}

bool
book_removals(struct book *book, uint64_t *n, uint64_t *n_of)
{
    sqlite3_stmt *s = book->statements[SQL_HOUR_MOST];
    bool has_row;

    *n = *n_of = 0;
    if (!book->has_hours)
        return true;
    book_bind(book, SQL_HOUR_MOST, 1, book->hour_first);
    book_bind(book, SQL_HOUR_MOST, 2, book->hour_last);
    if (!book_step(book, SQL_HOUR_MOST, &has_row))
        return false;
    if (has_row) {
        *n = (uint64_t)sqlite3_column_int64(s, 0);
        *n_of = (uint64_t)sqlite3_column_int64(s, 1);
        book->hour_first = book->hour_last = sqlite3_column_int64(s, 2);
    }
    book_done(book, SQL_HOUR_MOST);
    return true;
}

static uint64_t *
count_of(struct book *book, enum book_todo todo)
{
    return todo == BOOK_FETCH    ? &book->counts.n_fetch
           : todo == BOOK_REMOVE ? &book->counts.n_remove
                                 : NULL;
}

/* Replaces a resource's old state by its new one in the counts. */
static void
recount(struct book *book, enum book_todo was, uint64_t bytes_were,
        enum book_todo is, uint64_t bytes_are)
{
    if (count_of(book, was))
        --*count_of(book, was);
    if (count_of(book, is))
        ++*count_of(book, is);
    book->counts.bytes_wanted += bytes_are;
    book->counts.bytes_wanted -= bytes_were;
}

static uint64_t
bytes_of(const struct book_resource *resource, enum book_todo todo)
{
    return todo == BOOK_FETCH && resource->length != LENGTH_NONE
               ? resource->length
               : 0;
}

bool
book_settle(struct book *book, int64_t id, bool trusts_times, int64_t hour)
{
    struct book_resource r;
    enum book_todo todo = BOOK_NOTHING;
    int64_t have_version;
    uint64_t bytes_were;
    bool is_left;
    bool is_found;

    if (!book_look(book, id, &r, &is_found) || !is_found)
        return is_found;
    have_version = r.have_version;
    bytes_were = r.bytes;
    if (!r.is_wanted)
        todo = r.is_there || r.is_expected ? BOOK_REMOVE : BOOK_NOTHING;
    else if (is_right(&r, trusts_times && r.todo != BOOK_FETCH))
        have_version = r.version;
    else
        todo = BOOK_FETCH;

    /* A resource stays given up until it has a new version. */
    is_left = r.is_left && todo == BOOK_FETCH && r.left_version == r.version;
    if (r.is_left && !is_left)
        book->counts.n_left--;
    recount(book, r.todo, bytes_were, todo, bytes_of(&r, todo));
    if (hour != BOOK_NO_HOUR && r.is_there &&
        (todo == BOOK_REMOVE) != (r.todo == BOOK_REMOVE) &&
        !count_removal(book, hour, todo == BOOK_REMOVE ? 1 : -1))
        return false;
    if (!r.is_wanted && todo == BOOK_NOTHING) {
        book->counts.n_resources--;
        book_bind(book, SQL_RESOURCE_GONE, 1, id);
        return book_run(book, SQL_RESOURCE_GONE);
    }
    book_bind(book, SQL_RESOURCE_TODO, 1, id);
    book_bind(book, SQL_RESOURCE_TODO, 2, todo);
    book_bind(book, SQL_RESOURCE_TODO, 3, (int64_t)bytes_of(&r, todo));
    book_bind(book, SQL_RESOURCE_TODO, 4, is_left ? book->run : 0);
    book_bind(book, SQL_RESOURCE_TODO, 5, have_version);
    return book_run(book, SQL_RESOURCE_TODO);
}

/* Descriptions */

static bool
generation_of(struct book *book, int64_t set)
{
    bool has_row;

    if (book->set == set)
        return true;
    book_bind(book, SQL_SET_GENERATION, 1, set);
    if (!book_step(book, SQL_SET_GENERATION, &has_row))
        return false;
    book->generation =
        sqlite3_column_int64(book->statements[SQL_SET_GENERATION], 0);
    book->set = set;
    book_done(book, SQL_SET_GENERATION);
    return true;
}

static bool
add_resource(struct book *book, struct slice loc, int64_t *id)
{
    char path[RESOURCE_PATH_MAX + 1];

    if (!resource_path_write(path, loc)) {
        problem_memory(&book->trouble);
        return false;
    }
    book_bind_bytes(book, SQL_RESOURCE_ADD, 1, loc);
    sqlite3_bind_text(book->statements[SQL_RESOURCE_ADD], 2, path, -1,
                      SQLITE_STATIC);
    book_bind(book, SQL_RESOURCE_ADD, 3, DATETIME_NONE);
    if (!book_run(book, SQL_RESOURCE_ADD))
        return false;
    book->counts.n_resources++;
    *id = sqlite3_last_insert_rowid(book->db);
    return true;
}

/* True if the set repeats its last description: a download under way then need
 * not begin anew. */
static bool
is_repeat(const struct book_telling *was, const struct book_telling *is)
{
    if (!slice_equal(was->hash, is->hash) || was->length != is->length)
        return false;
    return was->hash.size > 0 ||
           (is->is_baseline && was->lastmod_us == is->lastmod_us &&
            (is->lastmod_us != DATETIME_NONE ||
             (is->when_us != DATETIME_NONE && was->when_us == is->when_us)));
}

static void
read_telling(struct book *book, struct book_lending *lending,
             struct book_telling *t, sqlite3_stmt *s, int first)
{
    t->when_us = sqlite3_column_int64(s, first);
    t->lastmod_us = sqlite3_column_int64(s, first + 1);
    book_lend(book, lending, &t->hash, s, first + 2);
    t->length = length_of_sql(sqlite3_column_int64(s, first + 3));
    book_lend(book, lending, &t->type, s, first + 4);
    book_lend(book, lending, &t->encoding, s, first + 5);
    book_lend(book, lending, &t->links, s, first + 6);
}

/* Reads the set's last description; `*version` 0: there is none. */
static bool
was_told(struct book *book, int64_t id, int64_t set, struct book_telling *was,
         int64_t *version)
{
    sqlite3_stmt *s = book->statements[SQL_MEMBER];
    struct book_lending lending = {.n = 0};
    bool has_row;

    *version = 0;
    book_bind(book, SQL_MEMBER, 1, id);
    book_bind(book, SQL_MEMBER, 2, set);
    if (!book_step(book, SQL_MEMBER, &has_row))
        return false;
    if (has_row) {
        *version = sqlite3_column_int64(s, 0);
        buf_clear(&book->lent);
        read_telling(book, &lending, was, s, 1);
    }
    book_done(book, SQL_MEMBER);
    return !has_row || book_lend_end(book, &lending);
}

static bool
put_member(struct book *book, int64_t id, int64_t set, int64_t version,
           const struct book_telling *t)
{
    enum book_sql which = SQL_MEMBER_PUT;

    book_bind(book, which, 1, id);
    book_bind(book, which, 2, set);
    book_bind(book, which, 3, book->generation);
    book_bind(book, which, 4, version);
    book_bind(book, which, 5, t->when_us);
    book_bind(book, which, 6, t->lastmod_us);
    book_bind_bytes(book, which, 7, t->hash);
    book_bind(book, which, 8, sql_of_length(t->length));
    book_bind_bytes(book, which, 9, t->type);
    book_bind_bytes(book, which, 10, t->encoding);
    book_bind_bytes(book, which, 11, t->links);
    return book_run(book, which);
}

static bool
remove_member(struct book *book, int64_t id, int64_t set)
{
    book_bind(book, SQL_MEMBER_GONE, 1, id);
    book_bind(book, SQL_MEMBER_GONE, 2, set);
    return book_run(book, SQL_MEMBER_GONE);
}

bool
book_told(struct book *book, int64_t set, const struct book_telling *telling,
          int64_t *id)
{
    struct book_resource r;
    struct book_telling was;
    int64_t version;
    bool is_found;
    bool is_left;
    int64_t hour = telling->is_baseline || telling->when_us == DATETIME_NONE
                       ? BOOK_NO_HOUR
                       : telling->when_us / HOUR_US;

    *id = 0;
    if (!generation_of(book, set) ||
        !book_find(book, telling->loc, &r, &is_found))
        return false;
    if (telling->is_deleted) {
        if (!is_found)
            return true;
        *id = r.id;
        return remove_member(book, r.id, set) &&
               book_settle(book, r.id, true, hour);
    }
    is_left = is_found && r.is_left;
    if (is_found)
        *id = r.id;
    else if (!add_resource(book, telling->loc, id))
        return false;
    if (!was_told(book, *id, set, &was, &version))
        return false;
    if (!version || !is_repeat(&was, telling) ||
        (is_left && !telling->is_baseline))
        version = ++book->version;
    return put_member(book, *id, set, version, telling) &&
           book_settle(book, *id, telling->is_baseline, hour);
}

bool
book_next_told(struct book *book, int64_t set, int64_t after_id, int64_t *id,
               struct book_telling *telling, bool *is_found)
{
    sqlite3_stmt *s = book->statements[SQL_MEMBER_NEXT];
    struct book_lending lending = {.n = 0};

    book_bind(book, SQL_MEMBER_NEXT, 1, set);
    book_bind(book, SQL_MEMBER_NEXT, 2, after_id);
    if (!book_step(book, SQL_MEMBER_NEXT, is_found))
        return false;
    if (*is_found) {
        *telling = (struct book_telling){.is_baseline = true};
        *id = sqlite3_column_int64(s, 0);
        buf_clear(&book->lent);
        book_lend(book, &lending, &telling->loc, s, 1);
        read_telling(book, &lending, telling, s, 2);
    }
    book_done(book, SQL_MEMBER_NEXT);
    return !*is_found || book_lend_end(book, &lending);
}

/* Baselines */

bool
book_baseline_begin(struct book *book, int64_t set)
{
    book->set = 0;
    book_bind(book, SQL_SET_NEW_GENERATION, 1, set);
    return book_run(book, SQL_SET_NEW_GENERATION);
}

bool
book_baseline_end(struct book *book, int64_t set, uint64_t *n_remove)
{
    uint64_t before = book->counts.n_remove;
    int64_t id = 0;
    bool has_row;

    if (!generation_of(book, set))
        return false;
    for (;;) {
        book_bind(book, SQL_MEMBER_OLD, 1, set);
        book_bind(book, SQL_MEMBER_OLD, 2, book->generation);
        book_bind(book, SQL_MEMBER_OLD, 3, id);
        if (!book_step(book, SQL_MEMBER_OLD, &has_row))
            return false;
        if (has_row)
            id = sqlite3_column_int64(book->statements[SQL_MEMBER_OLD], 0);
        book_done(book, SQL_MEMBER_OLD);
        if (!has_row)
            break;
        if (!remove_member(book, id, set) ||
            !book_settle(book, id, true, BOOK_NO_HOUR))
            return false;
    }
    *n_remove = book->counts.n_remove - before;
    return true;
}
