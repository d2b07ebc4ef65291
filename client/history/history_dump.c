/*
 * history_dump.c - the manifest in a package of a Change Dump, which has the
 * same entries as a Change List.
 *
 * Many dumps name the manifest's address; their packages are not
 * needed. Others are downloaded into the scratch directory, read, and removed.
 */
#include "client/dumps/download.h"
#include "client/dumps/package.h"
#include "client/history/history_inside.h"

#define PACKAGE "history.zip"

static enum status
feed(struct history *h, struct document *document, struct problem *problem,
     struct failure *why)
{
    struct package *package = NULL;
    struct slice piece = {"", 0};
    enum status rc = STATUS_OK;

    if (package_open(&package, h->scratch.fd, PACKAGE, why))
        return STATUS_IO;
    do {
        if (package_manifest(package, &piece, why))
            rc = STATUS_IO;
        else if (piece.size > 0)
            rc = document_feed(document, piece, problem);
    } while (!rc && piece.size > 0);
    if (!rc)
        rc = document_end(document, problem);
    package_close(package);
    return rc;
}

static void
read_package(struct history *h, const char *url)
{
    struct document *document = document_new(url, &history_events, h);
    struct page_answer answer = {
        .url = url, .type = "", .etag = "", .link = "", .is_document = true};
    struct problem problem = {.text = ""};
    struct failure failed;
    struct failure why;
    enum status rc = STATUS_MEMORY;

    failure_clear(&failed);
    failure_clear(&why);
    if (document)
        rc = feed(h, document, &problem, &failed);
    if (rc == STATUS_MEMORY)
        failure_memory(&why);
    else if (rc == STATUS_IO)
        failure_set(&why, failed.rc, "%.300s: %.600s", url, failed.text);
    else if (rc && rc != STATUS_STOPPED)
        failure_set(&why, TD_BROKEN, "the manifest of %.300s: %s", url,
                    problem.text[0] ? problem.text : "more than is kept");
    answer.head = document ? document_head(document) : NULL;
    download_forget(h->scratch.fd, PACKAGE);
    history_end_document(h, &answer, &why);
    document_free(document);
}

static void
on_downloaded(const struct failure *because,
              const struct download_answer *answer, void *user)
{
    struct history *h = user;
    struct failure why = *because;

    h->download = NULL;
    if (!why.rc) {
        read_package(h, answer->url);
        return;
    }
    if (why.rc == TD_GONE)
        why.rc = TD_REFUSED;
    history_end_document(h, NULL, &why);
}

bool
history_load_package(struct history *h, const char *url)
{
    struct download_request request = {
        .url = url,
        .file = PACKAGE,
        .length = LENGTH_NONE,
        .max_bytes = h->client->room.limits.max_total_bytes,
        .begins = "PK",
    };
    struct failure why;

    if (!h->scratch_path)
        return history_fail(
            h, TD_GONE, "there is no directory for the package %.300s", url);
    if (h->scratch.fd < 0 && scratch_open(&h->scratch, h->scratch_path, &why))
        return history_fail(h, TD_IO, "%s", why.text);
    request.dir_fd = h->scratch.fd;
    h->download = download_start(h->client, &request, on_downloaded, h);
    return h->download || history_fail(h, TD_MEMORY, "no memory");
}
