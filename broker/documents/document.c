#include "broker/documents/document.h"

#include "proto/datetime.h"

void
document_close(struct document *document)
{
    if (document->body)
        document->body->free(document->body);
    if (document->gzip)
        document->gzip->free(document->gzip);
    document->body = document->gzip = NULL;
}

enum status
document_of_text(struct document *document, struct buf *text,
                 struct problem *why)
{
    struct digest tag;

    digest_start(&tag, buf_slice(text));
    *document = (struct document){
        .body = body_of_buf(text),
        .tag = tag,
        .modified_us = DATETIME_NONE,
    };
    return document->body ? STATUS_OK : problem_memory(why);
}
