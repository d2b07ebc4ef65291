/*
 * dump_reader.c - one package of a dump.
 *
 *     FETCHING --> EXPECTING --> HANDING --> ENDING
 *        ^  |      (manifest)    (manifest, members)
 *        +--+ another package than announced: again, once
 */
#include "client/baseline/dump_reader.h"

#include <unistd.h>

#include "client/dumps/download.h"
#include "client/dumps/scratch_dir.h"
#include "client/dumps/zip_reader.h"
#include "client/source/entry_copy.h"
#include "proto/fnv1a.h"

/* Most entries in one turn of the loop, for the sake of its other users. */
#define TURN_ENTRIES 100

enum dump_reader_state { FETCHING, EXPECTING, HANDING, ENDING };

struct dump_reader {
    struct retired retired; /* the first */
    struct td_client *client;
    const struct dump_reader_calls *calls;
    void *user;

    struct dump_reader_request request;
    char file[DOWNLOAD_NAME_MAX]; /* the package */

    enum dump_reader_state state;
    struct timer turn;
    struct download *download;
    bool was_other; /* than announced */
    struct zip_reader *package;
    struct document *document; /* of the manifest */
    struct entry_queue entries;
    struct document_entry *current; /* the entry whose member is being taken */
    bool is_read; /* the manifest is complete, the second time */
    bool is_paused;
    struct problem why;
};

void
dump_reader_free(struct dump_reader *d)
{
    if (!d)
        return;
    download_free(d->download);
    timer_stop(&d->turn);
    document_free(d->document);
    zip_reader_close(d->package);
    entry_queue_fini(&d->entries);
    free(d->current);
    handle_loop_retire(d->client->loop, &d->retired, NULL);
}

/* Ends the dump with d->why, and puts the package's address into its text.
 * Always false. */
static bool
fail_package(struct dump_reader *d)
{
    enum status rc = d->why.rc;

    if (rc != STATUS_MEMORY && rc != STATUS_IO)
        problem_prefix(&d->why, rc, "the package %.300s: ", d->request.url);
    d->state = ENDING;
    timer_start(&d->turn, 0);
    return false;
}

static bool
fail_memory(struct dump_reader *d)
{
    problem_memory(&d->why);
    return fail_package(d);
}

/* Fetching */

static void
on_downloaded(const struct problem *why, const struct download_answer *answer,
              void *user)
{
    struct dump_reader *d = user;

    d->download = NULL;
    d->why = *why;
    if (answer->is_other && !d->was_other) {
        d->was_other = true;
        timer_start(&d->turn, 0);
    } else if (why->rc || zip_reader_open(&d->package, d->request.dir_fd,
                                          d->file, &d->why)) {
        fail_package(d);
    } else {
        d->state = EXPECTING;
        timer_start(&d->turn, 0);
    }
}

/* The manifest */

static enum status
expect_member(const struct document_entry *entry,
              const struct document_head *head, void *user)
{
    struct dump_reader *d = user;
    const struct change *c = &entry->change;

    (void)head;
    if (entry->path.size == 0)
        return STATUS_OK;
    return zip_reader_expect(d->package, entry->path, c->length, c->hash,
                             &d->why)
               ? STATUS_MEMORY
               : STATUS_OK;
}

static enum status
keep_entry(const struct document_entry *entry, const struct document_head *head,
           void *user)
{
    struct dump_reader *d = user;

    (void)head;
    return entry_queue_add(&d->entries, entry);
}

/* Reads a piece of the manifest; *is_over: no more follow. False: failed. */
static bool
read_piece(struct dump_reader *d, bool *is_over)
{
    static const struct document_events events[] = {
        [EXPECTING] = {.on_entry = expect_member},
        [HANDING] = {.on_entry = keep_entry},
    };
    struct slice piece;
    enum status rc;

    if (!d->document)
        d->document = document_new(d->request.url, &events[d->state], d);
    if (!d->document)
        return fail_memory(d);
    if (zip_reader_manifest(d->package, &piece, &d->why))
        return fail_package(d);
    *is_over = piece.size == 0;
    rc = *is_over ? document_end(d->document, &d->why)
                  : document_feed(d->document, piece, &d->why);
    if (!rc)
        return true;
    if (rc == STATUS_MEMORY)
        problem_memory(&d->why);
    else
        problem_prefix(&d->why, STATUS_MALFORMED,
                       "manifest.xml cannot be read: ");
    return fail_package(d);
}

/* The whole manifest is read before its head is handed over: the order of
 * entries and head is free. */
static void
expect_some(struct dump_reader *d)
{
    const struct document_head *head;
    bool is_over = false;

    if (!read_piece(d, &is_over) || !is_over)
        return;
    head = document_head(d->document);
    if (head->is_index || (head->has_capability &&
                           head->capability != CAP_RESOURCEDUMP_MANIFEST &&
                           head->capability != CAP_CHANGEDUMP_MANIFEST &&
                           head->capability != CAP_RESOURCELIST)) {
        problem(&d->why, STATUS_MALFORMED, "manifest.xml is none of a dump");
        fail_package(d);
        return;
    }
    d->calls->on_head(head, d->user);
    document_free(d->document);
    d->document = NULL;
    d->state = HANDING;
}

/* Handing over */

/* False: the dump was freed. */
static bool
hand_over(struct dump_reader *d, const char *file)
{
    struct document_entry *copy = d->current;
    bool is_here;

    d->current = NULL;
    d->calls->on_entry(copy, file, d->user);
    is_here = !d->retired.is_over;
    free(copy);
    /* A callee that frees the dump may remove the directory, too. */
    if (is_here && file)
        unlinkat(d->request.dir_fd, file, 0); /* missing: the caller took it */
    return is_here;
}

/* One step of HANDING. False: the dump was freed. */
static bool
hand_some(struct dump_reader *d)
{
    char name[ZIP_READER_NAME_SIZE];
    struct document_entry *copy;
    bool is_over = false;
    enum status rc;

    if (d->current) { /* takes more of its member */
        rc = source_limits_look(&d->client->room, d->request.dir_fd,
                                ZIP_READER_STEP_BYTES, &d->why);
        if (!rc)
            rc = zip_reader_take(d->package, &is_over, name, &d->why);
        if (is_over)
            return hand_over(d, rc ? NULL : name);
        if (rc)
            fail_package(d);
        return true;
    }
    copy = entry_queue_take(&d->entries);
    if (copy && copy->has_kind && copy->change.kind == CHANGE_DELETED) {
        free(copy);
        return true;
    }
    if (copy) {
        d->current = copy;
        return (copy->path.size > 0 && !d->request.has_no_files &&
                !zip_reader_find(d->package, copy->path, NULL)) ||
               hand_over(d, NULL);
    }
    if (d->is_read) {
        problem_clear(&d->why);
        d->state = ENDING;
    } else if (read_piece(d, &is_over)) {
        d->is_read = is_over;
    }
    return true;
}

static void
on_turn(void *user)
{
    struct dump_reader *d = user;
    struct download_request request = {
        .url = d->request.url,
        .dir_fd = d->request.dir_fd,
        .file = d->file,
        .length = d->request.length,
        .hash = d->request.hash,
        .max_bytes = d->client->room.limits.max_total_bytes,
        .is_package = true,
        .is_anew = d->was_other,
    };

    if (d->is_paused && d->state != FETCHING)
        return;
    switch (d->state) {
    case FETCHING:
        d->download = download_start(d->client, &request, on_downloaded, d);
        if (!d->download)
            fail_memory(d);
        return;
    case EXPECTING:
        expect_some(d);
        break;
    case HANDING:
        for (unsigned i = 0; i < TURN_ENTRIES; i++) {
            bool was_under_way = d->current != NULL;

            if (!hand_some(d))
                return;
            if (d->is_paused || d->state != HANDING ||
                (was_under_way && d->current))
                break;
        }
        break;
    case ENDING:
        zip_reader_close(d->package);
        d->package = NULL;
        /* After a passing failure the next attempt continues the download. */
        if (d->why.rc != STATUS_UNREACHABLE && d->why.rc != STATUS_IO)
            download_forget(d->request.dir_fd, d->file);
        d->calls->on_end(&d->why, d->user);
        dump_reader_free(d);
        return;
    }
    timer_start(&d->turn, 0);
}

struct dump_reader *
dump_reader_start(struct td_client *client,
                  const struct dump_reader_request *request,
                  const struct dump_reader_calls *calls, void *user)
{
    struct dump_reader *d = calloc(1, sizeof(*d));

    if (!d)
        return NULL;
    d->client = client;
    d->calls = calls;
    d->user = user;
    d->request = *request;
    entry_queue_init(&d->entries);
    timer_init(&d->turn, client->loop, on_turn, d);
    /* A name that a later run finds again. */
    snprintf(d->file, sizeof(d->file), SCRATCH_PACKAGE "%016" PRIx64,
             fnv1a(FNV1A_BEGIN, slice_of(d->request.url)));
    timer_start(&d->turn, 0);
    return d;
}

void
dump_reader_hold(struct dump_reader *dump, bool is_held)
{
    dump->is_paused = is_held;
    if (!is_held && !dump->download)
        timer_start(&dump->turn, 0);
}
