/*
 * audit.c - td_audit: reads the present state of the source into a book of its
 * own, which exists during the audit alone, and compares the mirror with it.
 *
 *     source --> sync_run_source --> .tidings/audit.db --+--> compare -->
 * findings .tidings/mirror.db, files --------------------+
 *
 * A source whose history was cut and that has no list cannot send its whole
 * state: then the audit takes the mirror's own book, and the changes since.
 *
 * Repair: copies the source's book into the mirror's, set by set, as a
 * baseline; then makes the files agree, as in any sync.
 */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/mirror/audit_compare.h"
#include "client/mirror/sync_run.h"

#define AUDIT_NAME "audit.db"

struct audit {
    struct td_client *client;
    const struct td_audit_options *options;
    struct td_audit_result result;
    struct td_sync_options following; /* of the source */
    struct td_sync_options repairing;
    struct mirror theirs;
    struct mirror mine;
    struct problem why;
};

static bool
fail_book(struct audit *a, const struct book *book)
{
    problem(&a->why, STATUS_IO, "%s", book_trouble(book));
    return false;
}

/* While it asks the source, the audit only reports trouble: the other events
 * are not about the mirror. */
static void
on_asking(const struct td_sync_event *event, void *user)
{
    const struct audit *a = user;

    if (event->what == TD_SYNC_TROUBLE && a->options->on_event)
        a->options->on_event(event, a->options->user);
}

/* Removes the book of an audit that did not end. */
static void
remove_old(const struct shelf *shelf)
{
    static const char *const ends[] = {"", "-wal", "-shm", "-journal"};
    char path[PATH_MAX];

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        if (snprintf(path, sizeof(path), "%s/" AUDIT_NAME "%s",
                     shelf_state(shelf), ends[i]) < (int)sizeof(path))
            unlink(path);
}

/* Copies the resources of a set from `from` to `to`, as one baseline: `to`
 * loses those that `from` lacks. */
static bool
retell(struct audit *a, struct book *from, struct book *to, const char *url,
       int64_t to_set)
{
    char position[TD_POSITION_SIZE];
    struct book_telling telling;
    int64_t from_set = 0;
    int64_t id = 0;
    int64_t ignored;
    uint64_t n;
    bool is_found;

    if (!book_set(from, url, &from_set, position))
        return fail_book(a, from);
    if (!book_baseline_begin(to, to_set))
        return fail_book(a, to);
    for (;;) {
        if (!book_next_told(from, from_set, id, &id, &telling, &is_found))
            return fail_book(a, from);
        if (!is_found)
            break;
        if (!book_told(to, to_set, &telling, &ignored))
            return fail_book(a, to);
    }
    return (book_baseline_end(to, to_set, &n) &&
            book_reach(to, to_set, position)) ||
           fail_book(a, to);
}

/* Calls `fn` for each set of a book. */
static bool
each_set(struct audit *a, struct book *book,
         bool (*fn)(struct audit *a, const char *url, int64_t set))
{
    int64_t set = 0;
    const char *url;
    bool is_found;

    for (;;) {
        char *copy;
        bool is_good;

        if (!book_next_set(book, set, &set, &url, &is_found))
            return fail_book(a, book);
        if (!is_found)
            return true;
        copy = strdup(url);
        if (!copy) {
            problem_memory(&a->why);
            return false;
        }
        is_good = fn(a, copy, set);
        free(copy);
        if (!is_good)
            return false;
    }
}

/* Sets `*is` if `url` is a set of the mirror. */
static bool
is_mine(struct audit *a, const char *url, bool *is)
{
    int64_t set = 0;
    const char *mine;
    bool is_found = true;

    for (*is = false; is_found && !*is;) {
        if (!book_next_set(a->mine.book, set, &set, &mine, &is_found))
            return fail_book(a, a->mine.book);
        *is = is_found && !strcmp(mine, url);
    }
    return true;
}

/* For a set that the source still offers, but without its whole state: copies
 * what the mirror followed so far. */
static bool
tell_own(struct audit *a, const char *url, int64_t theirs)
{
    char position[TD_POSITION_SIZE];
    char text[4300];
    int64_t ignored;
    bool is;

    if (!book_set(a->theirs.book, url, &ignored, position))
        return fail_book(a, a->theirs.book);
    if (!is_mine(a, url, &is))
        return false;
    if (position[0] || !is)
        return true;
    snprintf(text, sizeof(text),
             "%.4000s does not tell any more all that it has: the mirror is "
             "compared with what it was told, and the changes since",
             url);
    mirror_tell(&a->mine, TD_SYNC_TROUBLE,
                &(struct td_sync_event){.set = url, .why = text});
    return retell(a, a->mine.book, a->theirs.book, url, theirs);
}

/* Asks a source. */
static bool
ask(struct audit *a, const char *url)
{
    struct problem gone = {.text = ""};

    if (sync_run_source(&a->theirs, url, true, &a->why) != STATUS_GONE)
        return !a->why.rc;
    gone = a->why;
    problem_clear(&a->why);
    if (!book_begin(a->theirs.book))
        return fail_book(a, a->theirs.book);
    if (!each_set(a, a->theirs.book, tell_own)) {
        book_rollback(a->theirs.book);
        return false;
    }
    if (!book_commit(a->theirs.book))
        return fail_book(a, a->theirs.book);
    if (sync_run_source(&a->theirs, url, true, &a->why) == STATUS_GONE)
        a->why = gone;
    return !a->why.rc;
}

/* Fails if the mirror is not one of `url`. A repair removes resources that the
 * source lacks: so no other source may be asked, nor one of its sets. */
static bool
check_source(struct audit *a, const char *url)
{
    const char *source;

    if (!book_source(a->mine.book, 1, &source))
        return fail_book(a, a->mine.book);
    if (source[0]) {
        problem(&a->why, STATUS_INVALID,
                "the mirror is one of several sources, which are audited "
                "together: give no URL");
        return false;
    }
    if (!book_source(a->mine.book, 0, &source))
        return fail_book(a, a->mine.book);
    if (strcmp(source, url) != 0)
        problem(&a->why, STATUS_INVALID,
                "the mirror is of %.800s, not of %.800s", source, url);
    return !a->why.rc;
}

/* Asks each source of the mirror. */
static bool
ask_sources(struct audit *a, const char *url)
{
    const char *source;
    char *copy;
    bool is_good;

    if (!book_source(a->mine.book, 0, &source))
        return fail_book(a, a->mine.book);
    if (!source[0]) {
        problem(&a->why, STATUS_IO,
                "the mirror was never filled; tidings sync "
                "does that");
        return false;
    }
    if (url)
        return check_source(a, url) && ask(a, url);
    for (unsigned n = 0;; n++) {
        if (!book_source(a->mine.book, n, &source))
            return fail_book(a, a->mine.book);
        if (!source[0])
            return true;
        copy = strdup(source);
        if (!copy) {
            problem_memory(&a->why);
            return false;
        }
        is_good = ask(a, copy);
        free(copy);
        if (!is_good)
            return false;
    }
}

/* Notes the position of the source: of several sets, the first one. */
static bool
note_position(struct audit *a)
{
    struct book *book = a->theirs.book;
    const char *url;
    char copy[4096];
    int64_t set = 0;
    bool is_found;

    if (!book_next_set(book, 0, &set, &url, &is_found))
        return fail_book(a, book);
    if (!is_found)
        return true;
    snprintf(copy, sizeof(copy), "%s", url);
    return book_set(book, copy, &set, a->result.position) || fail_book(a, book);
}

static bool
add_set(struct audit *a, const char *url, int64_t theirs)
{
    char position[TD_POSITION_SIZE];
    int64_t mine;

    (void)theirs;
    return book_set(a->mine.book, url, &mine, position) ||
           fail_book(a, a->mine.book);
}

/* Copies a set of the mirror; one that the source lacks becomes empty. */
static bool
retell_mine(struct audit *a, const char *url, int64_t mine)
{
    return retell(a, a->theirs.book, a->mine.book, url, mine);
}

/* Writes lost files and the source's state in one transaction. */
static bool
rewrite(struct audit *a, const struct comparison *c)
{
    const char *at = c->lost.data;

    if (!book_begin(a->mine.book))
        return fail_book(a, a->mine.book);
    for (size_t i = 0; i < c->lost.size; i += sizeof(int64_t)) {
        int64_t id;

        memcpy(&id, at + i, sizeof(id));
        if (!book_lost(a->mine.book, id))
            return fail_book(a, a->mine.book);
    }
    return each_set(a, a->theirs.book, add_set) &&
           each_set(a, a->mine.book, retell_mine) &&
           (book_commit(a->mine.book) || fail_book(a, a->mine.book));
}

static uint64_t
n_findings(const struct td_audit_result *r)
{
    return r->n_missing + r->n_stale + r->n_extra + r->n_corrupt;
}

static bool
repair(struct audit *a, const struct comparison *c)
{
    const struct book_counts *counts = book_counts(a->mine.book);
    const char *path = c->strays.data;
    uint64_t n = n_findings(&a->result);
    uint64_t n_open;

    if (mirror_is_too_much(&a->mine, c->n_removed, counts->n_have)) {
        problem(&a->why, STATUS_REFUSED,
                "the repair would delete %" PRIu64 " of %" PRIu64
                " files, more than the %d %% that are allowed; nothing of "
                "it was done. If that is right, allow more (--max-delete "
                "PERCENT)",
                c->n_removed, counts->n_have, a->repairing.max_delete_percent);
        return false;
    }
    if (!rewrite(a, c)) {
        book_rollback(a->mine.book);
        return false;
    }
    for (size_t i = 0; i < c->strays.size; i += strlen(path + i) + 1)
        if (shelf_set_aside(a->mine.shelf, path + i, NULL, &a->why))
            return false;
    sync_run_work(&a->mine, &a->why);
    n_open = counts->n_fetch + counts->n_remove;
    a->result.n_repaired = n > n_open ? n - n_open : 0;
    return !a->why.rc;
}

static bool
compare_and_repair(struct audit *a)
{
    struct comparison c = {.client = a->client,
                           .shelf = a->mine.shelf,
                           .mine = a->mine.book,
                           .theirs = a->theirs.book,
                           .options = a->options,
                           .result = &a->result};
    bool is_good = compare(&c);
    uint64_t n = n_findings(&a->result);

    if (!is_good)
        a->why = c.why;
    else if (a->options->repair && n > 0)
        is_good = repair(a, &c);
    buf_fini(&c.lost);
    buf_fini(&c.strays);
    if (is_good && n > a->result.n_repaired)
        problem(&a->why, STATUS_DIFFERENT,
                "the mirror is not as its source: %" PRIu64
                " findings, %" PRIu64 " of them repaired",
                n, a->result.n_repaired);
    return is_good;
}

static bool
open_all(struct audit *a, const char *dir)
{
    if (!mirror_init(&a->theirs, a->client, &a->following) ||
        !mirror_init(&a->mine, a->client, &a->repairing)) {
        problem_memory(&a->why);
        return false;
    }
    a->mine.shelf = shelf_open(dir, false, &a->why);
    if (!a->mine.shelf)
        return false;
    a->mine.book = book_open(shelf_state(a->mine.shelf), "mirror.db", &a->why);
    if (!a->mine.book)
        return false;
    remove_old(a->mine.shelf);
    a->theirs.book = book_open(shelf_state(a->mine.shelf), AUDIT_NAME, &a->why);
    return a->theirs.book != NULL;
}

enum td_status
td_audit(struct td_client *client, const char *url, const char *dir,
         const struct td_audit_options *options, struct td_audit_result *result)
{
    static const struct td_audit_options none;
    struct audit a = {.client = client, .options = options ? options : &none};
    struct td_sync_options wishes = {
        .per_host = a.options->per_host,
        .max_delete_percent = a.options->max_delete_percent,
        .until_caught_up = 1,
        .on_event = a.options->on_event,
        .user = a.options->user,
    };
    struct td_sync_options asking = {.on_event = on_asking, .user = &a};

    client_begin(client);
    mirror_defaults(&a.following, &asking);
    mirror_defaults(&a.repairing, &wishes);
    if (!dir || !dir[0])
        problem(&a.why, STATUS_INVALID, "no directory was given");
    else if (open_all(&a, dir) && ask_sources(&a, url) && note_position(&a))
        compare_and_repair(&a);
    book_close(a.theirs.book);
    if (a.mine.shelf)
        remove_old(a.mine.shelf);
    book_close(a.mine.book);
    shelf_close(a.mine.shelf);
    mirror_fini(&a.theirs);
    mirror_fini(&a.mine);
    if (result)
        *result = a.result;
    if (a.why.rc)
        client_told(client, &a.why);
    return client_end(client, a.why.rc);
}
