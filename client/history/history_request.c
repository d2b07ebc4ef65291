/*
 * history_request.c - asks for a document: a list, an index, or the manifest in
 * a package of a Change Dump, which has the same entries as a Change List
 * (R-199).
 *
 * Many dumps name the manifest's address; their packages are not
 * needed. Others are downloaded into the scratch directory, read, and removed.
 */
#include <string.h>

#include "client/dumps/download.h"
#include "client/dumps/package.h"
#include "client/history/history_state.h"

#define PACKAGE "history.zip"

/* STATUS_STOPPED: an entry needed no more. */
static enum status
read_manifest(struct history *h, const char *url, struct document *document,
              struct problem *why)
{
    struct package *package = NULL;
    struct slice piece = {"", 0};
    enum status failed = package_open(&package, h->scratch.fd, PACKAGE, why);
    enum status rc = STATUS_OK;

    while (!failed && !rc) {
        failed = package_manifest(package, &piece, why);
        if (!failed && piece.size == 0)
            break;
        if (!failed)
            rc = document_feed(document, piece, why);
    }
    if (!failed && !rc)
        rc = document_end(document, why);
    package_close(package);
    if (failed)
        return problem_prefix(why, failed, "%.300s: ", url);
    if (rc == STATUS_MEMORY)
        return problem_memory(why);
    if (!rc || rc == STATUS_STOPPED)
        return rc;
    if (!why->text[0])
        problem_set(why, "more than is kept");
    return problem_prefix(why, STATUS_MALFORMED,
                          "the manifest of %.300s: ", url);
}

static void
read_package(struct history *h, const char *url)
{
    struct document *document = document_new(url, &history_events, h);
    struct document_fetch_answer answer = {
        .url = url, .type = "", .etag = "", .link = "", .is_document = true};
    struct problem why = {.text = ""};

    if (!document)
        problem_memory(&why);
    else if (read_manifest(h, url, document, &why) == STATUS_STOPPED)
        problem_clear(&why);
    answer.head = document ? document_head(document) : NULL;
    download_forget(h->scratch.fd, PACKAGE);
    h->on_document(h, &answer, &why);
    document_free(document);
}

static void
on_downloaded(const struct problem *because,
              const struct download_answer *answer, void *user)
{
    struct history *h = user;
    struct problem why = *because;

    h->download = NULL;
    if (!why.rc) {
        read_package(h, answer->url);
        return;
    }
    if (why.rc == STATUS_GONE)
        why.rc = STATUS_REFUSED;
    h->on_document(h, NULL, &why);
}

static bool
load_package(struct history *h, const char *url)
{
    struct download_request request = {
        .url = url,
        .file = PACKAGE,
        .length = LENGTH_NONE,
        .max_bytes = h->client->room.limits.max_total_bytes,
        .begins = "PK",
    };
    struct problem why = {.text = ""};

    if (!h->scratch_path)
        return history_fail(h, STATUS_GONE,
                            "there is no directory for the package %.300s",
                            url);
    if (h->scratch.fd < 0 && scratch_open(&h->scratch, h->scratch_path, &why))
        return history_fail(h, STATUS_IO, "%s", why.text);
    request.dir_fd = h->scratch.fd;
    h->download = download_start(h->client, &request, on_downloaded, h);
    return h->download || history_fail(h, STATUS_MEMORY, NO_MEMORY);
}

static void
on_page(const struct document_fetch_answer *answer, const struct problem *why,
        void *user)
{
    struct history *h = user;

    h->page = NULL;
    h->on_document(h, answer, why);
}

static const char *
url_of(const struct history *h)
{
    switch (h->document) {
    case DOCUMENT_TOP:
        return h->offered->change_list;
    case DOCUMENT_OLDER:
        return h->older.all[h->i_older - 1].url;
    case DOCUMENT_PAGE:
        return h->pages.all[h->pages.n - 1].url;
    case DOCUMENT_PROBE:
    case DOCUMENT_PART:
        break;
    }
    return h->parts.all[h->i].url;
}

/* Forgets the previous list before another one is read. */
static void
clear_list(struct history *h)
{
    list_entries_fini(&h->kept);
    history_parts_fini(&h->pages);
    free(h->next);
    h->next = NULL;
    h->is_loaded = false;
    h->i_kept = 0;
}

/* The ETag of the last time, if this may be the same list; else NULL. */
static const char *
etag_of(const struct history *h, enum history_document document)
{
    char tag[256];
    size_t size;

    if (!h->etag || (document != DOCUMENT_TOP &&
                     (document != DOCUMENT_PART || h->state != HISTORY_SEARCH)))
        return NULL;
    history_tag(tag, h, "");
    size = strlen(tag);
    return strncmp(*h->etag, tag, size) ? NULL : *h->etag + size;
}

bool
history_load(struct history *h, enum history_document document)
{
    struct document_fetch_request request;

    h->document = document;
    history_clear_root(h);
    if (document == DOCUMENT_TOP || document == DOCUMENT_PART)
        clear_list(h);
    history_mark(h);
    request = (struct document_fetch_request){.url = url_of(h),
                                              .etag = etag_of(h, document),
                                              .silence_s = h->silence_s};
    if ((document == DOCUMENT_PART || document == DOCUMENT_PROBE) &&
        h->parts.all[h->i].is_package)
        return load_package(h, request.url);
    h->page =
        document_fetch_start(h->client, &request, &history_events, on_page, h);
    return h->page || history_fail(h, STATUS_MEMORY, NO_MEMORY);
}
