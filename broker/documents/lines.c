#include "broker/documents/lines.h"

#include <string.h>

#include "proto/resourcesync/document_write.h"
#include "proto/resourcesync/fragment.h"

void
lines_init(struct lines *l, struct body *body)
{
    l->body = body;
    l->piece = (struct slice){NULL, 0};
    buf_init(&l->line, FRAGMENT_MAX + DOCUMENT_FRAME_MAX);
}

void
lines_fini(struct lines *l)
{
    buf_fini(&l->line);
}

enum status
lines_next(struct lines *l, struct slice *line)
{
    enum body_result result;
    const char *end;

    buf_clear(&l->line);
    while (!(end = l->piece.size ? memchr(l->piece.data, '\n', l->piece.size)
                                 : NULL)) {
        buf_add_slice(&l->line, l->piece);
        l->piece.size = 0;
        result = l->body ? l->body->next(l->body, true, &l->piece) : BODY_END;
        if (result == BODY_END)
            return l->line.size ? STATUS_IO : STATUS_NOT_FOUND;
        if (result != BODY_DATA || l->line.failed)
            return STATUS_IO;
    }
    *line = (struct slice){l->piece.data, (size_t)(end + 1 - l->piece.data)};
    slice_skip(&l->piece, line->size);
    if (l->line.size > 0) {
        buf_add_slice(&l->line, *line);
        *line = buf_slice(&l->line);
    }
    return l->line.failed ? STATUS_IO : STATUS_OK;
}

struct slice
lines_between(struct slice line, const char *before, const char *after)
{
    const char *from = memmem(line.data, line.size, before, strlen(before));
    const char *end = line.data + line.size, *to;

    if (!from)
        return (struct slice){NULL, 0};
    from += strlen(before);
    to = memmem(from, (size_t)(end - from), after, strlen(after));
    return to ? (struct slice){from, (size_t)(to - from)}
              : (struct slice){NULL, 0};
}
