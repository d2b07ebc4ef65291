/*
 * book_there.c - reads resources from the book, and notes their files.
 */
#include <stdio.h>

#include "client/mirror/book_inside.h"
#include "proto/change.h"
#include "proto/datetime.h"

/* Reads the wanted state, from the set with the latest description. */
static bool
read_best(struct book *book, struct book_resource *r,
          struct book_lending *lending)
{
    sqlite3_stmt *s = book->statements[SQL_BEST];
    bool has_row;
    int64_t length;

    r->version = 0;
    r->when_us = r->lastmod_us = DATETIME_NONE;
    r->length = LENGTH_NONE;
    r->hash = r->type = r->encoding = r->links = (struct slice){"", 0};
    book_bind(book, SQL_BEST, 1, r->id);
    if (!book_step(book, SQL_BEST, &has_row))
        return false;
    r->is_wanted = has_row;
    if (has_row) {
        r->version = sqlite3_column_int64(s, 0);
        r->when_us = sqlite3_column_int64(s, 1);
        r->lastmod_us = sqlite3_column_int64(s, 2);
        book_lend(book, lending, &r->hash, s, 3);
        length = sqlite3_column_int64(s, 4);
        r->length = length < 0 ? LENGTH_NONE : (uint64_t)length;
        book_lend(book, lending, &r->type, s, 5);
        book_lend(book, lending, &r->encoding, s, 6);
        book_lend(book, lending, &r->links, s, 7);
    }
    book_done(book, SQL_BEST);
    return true;
}

/* Runs a statement that selects a row of resources; adds the wanted state. */
static bool
read_resource(struct book *book, enum book_sql which, struct book_resource *r,
              bool *is_found)
{
    sqlite3_stmt *s = book->statements[which];
    struct book_lending lending = {.n = 0};

    if (!book_step(book, which, is_found))
        return false;
    if (!*is_found) {
        book_done(book, which);
        return true;
    }
    buf_clear(&book->lent);
    r->id = sqlite3_column_int64(s, 0);
    book_lend(book, &lending, &r->loc, s, 1);
    snprintf(r->path, sizeof(r->path), "%s",
             (const char *)sqlite3_column_text(s, 2));
    r->todo = (enum book_todo)sqlite3_column_int(s, 3);
    r->is_left = sqlite3_column_int64(s, 4) == book->run;
    r->is_expected = sqlite3_column_int(s, 5);
    r->is_there = sqlite3_column_int(s, 6);
    r->have_version = sqlite3_column_int64(s, 7);
    book_lend(book, &lending, &r->have_hash, s, 8);
    r->have_lastmod_us = sqlite3_column_int64(s, 9);
    r->have_mark.size = (uint64_t)sqlite3_column_int64(s, 10);
    r->have_mark.mtime_ns = sqlite3_column_int64(s, 11);
    r->bytes = (uint64_t)sqlite3_column_int64(s, 12);
    r->left_version = sqlite3_column_int64(s, 13);
    book_done(book, which);
    return read_best(book, r, &lending) && book_lend_end(book, &lending);
}

bool
book_look(struct book *book, int64_t id, struct book_resource *resource,
          bool *is_found)
{
    book_bind(book, SQL_LOOK, 1, id);
    return read_resource(book, SQL_LOOK, resource, is_found);
}

bool
book_find(struct book *book, struct slice loc, struct book_resource *resource,
          bool *is_found)
{
    book_bind_bytes(book, SQL_FIND, 1, loc);
    return read_resource(book, SQL_FIND, resource, is_found);
}

bool
book_find_path(struct book *book, const char *path,
               struct book_resource *resource, bool *is_found)
{
    sqlite3_bind_text(book->statements[SQL_FIND_PATH], 1, path, -1,
                      SQLITE_STATIC);
    return read_resource(book, SQL_FIND_PATH, resource, is_found);
}

bool
book_next(struct book *book, enum book_todo todo, int64_t after_id,
          struct book_resource *resource, bool *is_found)
{
    book_bind(book, SQL_NEXT, 1, todo);
    book_bind(book, SQL_NEXT, 2, after_id);
    book_bind(book, SQL_NEXT, 3, book->run);
    return read_resource(book, SQL_NEXT, resource, is_found);
}

bool
book_walk(struct book *book, struct slice after_loc,
          struct book_resource *resource, bool *is_found)
{
    book_bind_bytes(book, SQL_WALK, 1, after_loc);
    return read_resource(book, SQL_WALK, resource, is_found);
}

/* Noting */

bool
book_expect(struct book *book, int64_t id)
{
    book_bind(book, SQL_RESOURCE_EXPECT, 1, id);
    return book_run(book, SQL_RESOURCE_EXPECT);
}

bool
book_doubt(struct book *book, int64_t id)
{
    book_bind(book, SQL_RESOURCE_DOUBT, 1, id);
    book_bind(book, SQL_RESOURCE_DOUBT, 2, DATETIME_NONE);
    return book_run(book, SQL_RESOURCE_DOUBT);
}

bool
book_have(struct book *book, int64_t id, int64_t version, struct slice hash,
          int64_t lastmod_us, const struct shelf_mark *mark)
{
    enum book_sql which = SQL_RESOURCE_HAVE;
    struct book_resource was;
    bool is_found;
    bool was_there;

    if (!book_look(book, id, &was, &is_found))
        return false;
    was_there = is_found && was.is_there;
    book_bind(book, which, 1, id);
    book_bind(book, which, 2, version);
    book_bind_bytes(book, which, 3, hash);
    book_bind(book, which, 4, lastmod_us);
    book_bind(book, which, 5, (int64_t)mark->size);
    book_bind(book, which, 6, mark->mtime_ns);
    if (!book_run(book, which))
        return false;
    book->counts.n_have += !was_there;
    book->counts.bytes_have += mark->size;
    book->counts.bytes_have -= was_there ? was.have_mark.size : 0;
    return book_settle(book, id, false, BOOK_NO_HOUR);
}

bool
book_lost(struct book *book, int64_t id)
{
    struct book_resource r;
    bool is_found;

    if (!book_look(book, id, &r, &is_found) || !is_found)
        return is_found;
    /* If it is wanted, a file at its path was ours. */
    book_bind(book, SQL_RESOURCE_LOST, 1, id);
    book_bind(book, SQL_RESOURCE_LOST, 2, r.is_wanted);
    if (!book_run(book, SQL_RESOURCE_LOST))
        return false;
    book->counts.n_have -= r.is_there;
    book->counts.bytes_have -= r.is_there ? r.have_mark.size : 0;
    book->counts.n_left -= r.is_left;
    return book_settle(book, id, false, BOOK_NO_HOUR);
}

bool
book_leave(struct book *book, int64_t id)
{
    struct book_resource r;
    bool is_found;

    if (!book_look(book, id, &r, &is_found) || !is_found)
        return is_found;
    if (r.todo != BOOK_FETCH || r.is_left)
        return true;
    book_bind(book, SQL_RESOURCE_LEAVE, 1, id);
    book_bind(book, SQL_RESOURCE_LEAVE, 2, book->run);
    book_bind(book, SQL_RESOURCE_LEAVE, 3, r.version);
    book->counts.n_left++;
    return book_run(book, SQL_RESOURCE_LEAVE);
}
