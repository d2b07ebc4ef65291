#include "broker/documents/manual_document.h"

#include "base/gunzip.h"
#include "broker/documents/documents.h"

static enum status
add_bytes(struct slice bytes, void *user, struct problem *why)
{
    struct buf *to = user;

    buf_add_slice(to, bytes);
    return to->failed ? problem_memory(why) : STATUS_OK;
}

static const struct manual_file *
find_file(struct slice name)
{
    for (size_t i = 0; i < manual_n_files; i++)
        if (slice_is(name, manual_files[i].name))
            return &manual_files[i];
    return NULL;
}

/* The program has the files in gzip alone: so they take a fourth. */
enum status
manual_open(const struct document_wish *wish, struct document *document,
            struct problem *why)
{
    struct slice rest = wish->rest, name = slice_take(&rest, '?');
    const struct manual_file *file =
        find_file(name.size > 0 ? name : SLICE("index.html"));
    struct buf text;
    struct gunzip *gunzip;
    enum status rc;

    if (!file)
        return problem(why, STATUS_NOT_FOUND,
                       "the documentation has no such page: /doc/ has the "
                       "names of all");
    buf_init(&text, file->size);
    gunzip = gunzip_new(file->size, GUNZIP_GZIP, add_bytes, &text);
    rc = gunzip ? gunzip_all(gunzip, file->gzip, why) : problem_memory(why);
    if (!rc)
        rc = gunzip_end(gunzip, why);
    gunzip_free(gunzip);
    rc = document_of_text(document, &text, rc, why);
    if (rc)
        return rc;
    document->gzip = body_of_constant(file->gzip);
    document->may_be_packed = true;
    document->type.max = 100;
    buf_add(&document->type, file->type, strlen(file->type) + 1);
    return STATUS_OK;
}

/* Links of the pages are relative to /doc/. */
enum status
manual_address_open(const struct document_wish *wish, struct document *document,
                    struct problem *why)
{
    *document = (struct document){.modified_us = DATETIME_NONE};
    snprintf(document->lasting, sizeof(document->lasting), "%s/doc/",
             wish->registry->options.public_url);
    (void)why;
    return STATUS_OK;
}
