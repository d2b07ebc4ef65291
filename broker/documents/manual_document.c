#include "broker/documents/manual_document.h"

#include "base/gunzip.h"
#include "broker/documents/documents.h"

/* A page, inflated step by step while it is read: who asks for its head alone,
 * or for its beginning, costs no more. */
struct inflated {
    struct body body;
    const struct manual_file *file;
    struct gunzip *gunzip; /* NULL: nothing was read yet */
    struct buf step;
};

static enum status
add_bytes(struct slice bytes, void *user, struct problem *why)
{
    struct inflated *i = user;

    buf_add_slice(&i->step, bytes);
    return i->step.failed ? problem_memory(why) : STATUS_OK;
}

static enum status
inflate_some(struct inflated *i)
{
    if (i->gunzip)
        return gunzip_step(i->gunzip, NULL);
    i->gunzip = gunzip_new(i->file->size, GUNZIP_GZIP, add_bytes, i);
    return i->gunzip ? gunzip_feed(i->gunzip, i->file->gzip, NULL)
                     : STATUS_MEMORY;
}

static enum body_result
next_inflated(struct body *body, bool may_block, struct slice *piece)
{
    struct inflated *i = (struct inflated *)(void *)body;
    enum status rc = STATUS_OK;

    if (!may_block)
        return BODY_WAITS;
    buf_clear(&i->step);
    while (!rc && i->step.size == 0 &&
           (!i->gunzip || gunzip_is_behind(i->gunzip)))
        rc = inflate_some(i);
    *piece = buf_slice(&i->step);
    return rc ? BODY_FAILED : piece->size > 0 ? BODY_DATA : BODY_END;
}

static void
free_inflated(struct body *body)
{
    struct inflated *i = (struct inflated *)(void *)body;

    gunzip_free(i->gunzip);
    buf_fini(&i->step);
    free(i);
}

/* The program has the files in gzip alone: so they take a fourth. */
enum status
manual_open(const struct document_wish *wish, struct document *document,
            struct problem *why)
{
    struct slice rest = wish->rest, name = slice_take(&rest, '?');
    const struct manual_file *file = NULL;
    struct inflated *i;

    if (name.size == 0)
        name = SLICE("index.html");
    for (size_t k = 0; k < manual_n_files; k++)
        if (slice_is(name, manual_files[k].name))
            file = &manual_files[k];
    if (!file)
        return problem(why, STATUS_NOT_FOUND,
                       "the documentation has no such page: /doc/ has the "
                       "names of all");
    i = memory_new(1, sizeof(*i));
    i->body = (struct body){
        .size = file->size, .next = next_inflated, .free = free_inflated};
    i->file = file;
    i->step.max = file->size;
    *document = (struct document){
        .body = &i->body, .tag = file->tag, .modified_us = DATETIME_NONE};
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
