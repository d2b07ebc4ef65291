#include "broker/documents/web_files.h"

#include "broker/documents/documents.h"
#include "proto/datetime.h"

enum status
web_file_open(const struct document_wish *wish, struct document *document,
              struct problem *why)
{
    *document = (struct document){
        .body = body_of_constant(wish->file->plain),
        .gzip = body_of_constant(wish->file->gzip),
        .tag = wish->file->tag,
        .modified_us = DATETIME_NONE,
        .may_be_packed = true,
    };
    (void)why;
    return STATUS_OK;
}
