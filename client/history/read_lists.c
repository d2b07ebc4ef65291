#include "client/history/read_lists.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/db.h"

enum { SQL_LISTS, SQL_MARKS, SQL_BIND, SQL_LIST, SQL_FORGET, SQL_KEEP, N_SQL };

static const char *const texts[N_SQL] = {
    [SQL_LISTS] = "SELECT url, row, n, sum, is_skipped FROM list",
    [SQL_MARKS] = "SELECT url, marks FROM marks",
    [SQL_BIND] = "INSERT INTO source SELECT ?1"
                 " WHERE NOT EXISTS (SELECT 1 FROM source)",
    [SQL_LIST] = "INSERT INTO list VALUES (?1, ?2, ?3, ?4, ?5)"
                 " ON CONFLICT (url) DO UPDATE SET row = ?2, n = ?3, sum = ?4,"
                 " is_skipped = ?5 WHERE NOT ?5",
    [SQL_FORGET] = "DELETE FROM marks",
    [SQL_KEEP] = "INSERT INTO marks VALUES (?1, ?2)",
};

/* The numbers are hashes, the marks those of one list, as they are in
 * memory. */
static const char *const steps[] = {
    "CREATE TABLE source (url TEXT NOT NULL);"
    "CREATE TABLE list (url INTEGER PRIMARY KEY, row INTEGER NOT NULL,"
    " n INTEGER NOT NULL, sum INTEGER NOT NULL, is_skipped INTEGER NOT NULL);"
    "CREATE TABLE marks (url INTEGER NOT NULL, marks BLOB NOT NULL);",
};

static const struct db_kind kind = {
    .name = "the lists read, in",
    .mode = DB_SHARED,
    .application_id = 0x54645264,
    .steps = steps,
    .n_steps = 1,
    .sql = texts,
    .n_sql = N_SQL,
};

struct marks {
    uint64_t url;
    uint64_t *all; /* NULL: none */
    size_t n;
};

struct read_lists {
    struct db db; /* not open: in memory */
    void *tree;   /* of struct read_list, by URL */
    struct marks marks;

    struct read_list *noted;
    size_t n_noted, capacity;
    struct marks noted_marks;
};

static int
compare_lists(const void *a, const void *b)
{
    const struct read_list *x = a;
    const struct read_list *y = b;

    return x->url < y->url ? -1 : x->url > y->url;
}

static enum status
put_list(struct read_lists *lists, const struct read_list *list)
{
    struct read_list **found;
    struct read_list *copy = malloc(sizeof(*copy));

    if (!copy)
        return STATUS_MEMORY;
    *copy = *list;
    found = tsearch(copy, &lists->tree, compare_lists);
    if (found && *found == copy)
        return STATUS_OK;
    if (found && !list->is_skipped) /* a list that was read stays one */
        **found = *list;
    free(copy);
    return found ? STATUS_OK : STATUS_MEMORY;
}

static bool
copy_marks(struct marks *to, uint64_t url, const void *marks, size_t n)
{
    uint64_t *copy = malloc(n ? n * sizeof(*copy) : 1);

    if (!copy)
        return false;
    if (n)
        memcpy(copy, marks, n * sizeof(*copy));
    free(to->all);
    *to = (struct marks){.url = url, .all = copy, .n = n};
    return true;
}

/* The file */

static enum status
load_marks(struct read_lists *lists, struct problem *why)
{
    sqlite3_stmt *s = lists->db.statements[SQL_MARKS];
    bool row = false;
    enum status rc = db_step(&lists->db, s, &row, NULL, why);

    if (!rc && row) {
        struct slice bytes = db_column(s, 1);

        if (!copy_marks(&lists->marks, (uint64_t)sqlite3_column_int64(s, 0),
                        bytes.data, bytes.size / sizeof(uint64_t)))
            rc = problem_memory(why);
    }
    db_reset(s);
    return rc;
}

static enum status
load_lists(struct read_lists *lists, struct problem *why)
{
    sqlite3_stmt *s = lists->db.statements[SQL_LISTS];
    bool row = true;
    enum status rc = STATUS_OK;

    while (!rc && !(rc = db_step(&lists->db, s, &row, NULL, why)) && row) {
        struct read_list list = {
            .url = (uint64_t)sqlite3_column_int64(s, 0),
            .row = (uint64_t)sqlite3_column_int64(s, 1),
            .n = (uint64_t)sqlite3_column_int64(s, 2),
            .sum = (uint64_t)sqlite3_column_int64(s, 3),
            .is_skipped = sqlite3_column_int(s, 4) != 0,
        };

        if (put_list(lists, &list))
            rc = problem_memory(why);
    }
    db_reset(s);
    return rc ? rc : load_marks(lists, why);
}

/* Binds the file to the source; it loses what is of another one. */
static enum status
bind_source(struct read_lists *lists, const char *source, struct problem *why)
{
    sqlite3_stmt *s = NULL;
    bool is_other = false;
    enum status rc =
        db_prepare(&lists->db, &s, "SELECT 1 FROM source WHERE url <> ?1", why);

    if (!rc) {
        db_bind_text(s, 1, slice_of(source));
        rc = db_step(&lists->db, s, &is_other, NULL, why);
    }
    sqlite3_finalize(s);
    if (!rc && is_other)
        rc = db_exec(&lists->db,
                     "DELETE FROM source; DELETE FROM list; DELETE FROM marks",
                     why);
    if (rc)
        return rc;
    db_bind_text(lists->db.statements[SQL_BIND], 1, slice_of(source));
    return db_run(&lists->db, lists->db.statements[SQL_BIND], NULL, why);
}

struct read_lists *
read_lists_open(const char *path, const char *source, struct problem *why)
{
    struct read_lists *lists = calloc(1, sizeof(*lists));

    if (!lists) {
        (void)problem_memory(why);
        return NULL;
    }
    if (!path || (!db_open_kind(&lists->db, &kind, path, why) &&
                  !bind_source(lists, source, why) && !load_lists(lists, why)))
        return lists;
    read_lists_close(lists);
    return NULL;
}

void
read_lists_close(struct read_lists *lists)
{
    if (!lists)
        return;
    db_close(&lists->db);
    tdestroy(lists->tree, free);
    free(lists->marks.all);
    read_lists_drop(lists);
    free(lists->noted);
    free(lists);
}

/* Reading */

const struct read_list *
read_lists_find(const struct read_lists *lists, uint64_t url)
{
    const struct read_list key = {.url = url};
    void *const *found =
        lists ? tfind(&key, &lists->tree, compare_lists) : NULL;

    return found ? *found : NULL;
}

size_t
read_lists_marks(const struct read_lists *lists, uint64_t url,
                 const uint64_t **marks)
{
    if (!lists || !lists->marks.all || lists->marks.url != url)
        return 0;
    *marks = lists->marks.all;
    return lists->marks.n;
}

/* Writing */

bool
read_lists_note(struct read_lists *lists, const struct read_list *list,
                const uint64_t *marks)
{
    const struct read_list *was = read_lists_find(lists, list->url);
    struct read_list *to;

    /* The file grows with the lists, not with the looks at them. */
    if (was && was->row == list->row && was->n == list->n &&
        was->sum == list->sum && was->is_skipped == list->is_skipped &&
        (!marks || (lists->marks.all && lists->marks.url == list->url)))
        return true;
    to = ONE_MORE(lists->noted, &lists->capacity, lists->n_noted);
    if (!to)
        return false;
    lists->noted = to;
    to[lists->n_noted++] = *list;
    return !marks || copy_marks(&lists->noted_marks, list->url, marks, list->n);
}

void
read_lists_drop(struct read_lists *lists)
{
    lists->n_noted = 0;
    free(lists->noted_marks.all);
    lists->noted_marks = (struct marks){.all = NULL};
}

static enum status
write_list(struct read_lists *lists, const struct read_list *list,
           struct problem *why)
{
    sqlite3_stmt *s = lists->db.statements[SQL_LIST];

    sqlite3_bind_int64(s, 1, (int64_t)list->url);
    sqlite3_bind_int64(s, 2, (int64_t)list->row);
    sqlite3_bind_int64(s, 3, (int64_t)list->n);
    sqlite3_bind_int64(s, 4, (int64_t)list->sum);
    sqlite3_bind_int(s, 5, list->is_skipped);
    return db_run(&lists->db, s, NULL, why);
}

static enum status
write_marks(struct read_lists *lists, struct problem *why)
{
    const struct marks *marks = &lists->noted_marks;
    sqlite3_stmt *s = lists->db.statements[SQL_KEEP];
    enum status rc =
        db_run(&lists->db, lists->db.statements[SQL_FORGET], NULL, why);

    if (rc)
        return rc;
    sqlite3_bind_int64(s, 1, (int64_t)marks->url);
    db_bind_bytes(s, 2,
                  (struct slice){(const char *)marks->all,
                                 marks->n * sizeof(*marks->all)});
    return db_run(&lists->db, s, NULL, why);
}

static enum status
write_notes(struct read_lists *lists, struct problem *why)
{
    enum status rc = db_begin(&lists->db, why);

    if (rc)
        return rc;
    for (size_t i = 0; i < lists->n_noted && !rc; i++)
        rc = write_list(lists, &lists->noted[i], why);
    if (!rc && lists->noted_marks.all)
        rc = write_marks(lists, why);
    return db_end(&lists->db, rc, why);
}

enum status
read_lists_commit(struct read_lists *lists, struct problem *why)
{
    enum status rc = STATUS_OK;

    if (lists->n_noted && lists->db.handle)
        rc = write_notes(lists, why);
    for (size_t i = 0; i < lists->n_noted && !rc; i++)
        if (put_list(lists, &lists->noted[i]))
            rc = problem_memory(why);
    if (!rc && lists->noted_marks.all) {
        free(lists->marks.all);
        lists->marks = lists->noted_marks;
        lists->noted_marks = (struct marks){.all = NULL};
    }
    read_lists_drop(lists);
    return rc;
}
