#include "broker/backup/published_text.h"

#include <string.h>

#include <zlib.h>

#define PIECE_BYTES ((size_t)256 << 10)

enum status
published_fail(const char *path, struct problem *why, const char *reason)
{
    return problem(why, STATUS_DIFFERENT, "%s is damaged: %s", path, reason);
}

enum status
published_read(const char *path, size_t max, struct buf *text,
               struct problem *why)
{
    gzFile from = gzopen(path, "rbe");
    enum status rc = STATUS_OK;
    int n = 1;

    if (!from)
        return problem_errno(why, "cannot open", path);
    while (!rc && n > 0 && text->size < max) {
        size_t room = max - text->size;
        char *to = buf_room(text, room < PIECE_BYTES ? room : PIECE_BYTES);

        if (!to) {
            rc = problem_memory(why);
            break;
        }
        n = gzread(from, to,
                   (unsigned)(room < PIECE_BYTES ? room : PIECE_BYTES));
        if (n < 0)
            rc = published_fail(path, why, gzerror(from, &(int){0}));
        else
            text->size += (size_t)n;
    }
    if (gzclose_r(from) == Z_BUF_ERROR && !rc && max == PUBLISHED_MAX)
        rc = published_fail(path, why, "it is cut off");
    return rc;
}

enum status
published_cut(const char *path, enum document_root root, struct buf *text,
              struct slice *header, struct slice *entries, struct problem *why)
{
    struct slice footer = document_footer_of(root), all;
    enum status rc = published_read(path, PUBLISHED_MAX, text, why);

    if (rc)
        return rc;
    all = buf_slice(text);
    *header = published_header(all);
    if (header->size == 0)
        return published_fail(path, why, "it has no header");
    if (all.size < header->size + footer.size ||
        memcmp(all.data + all.size - footer.size, footer.data, footer.size) !=
            0)
        return published_fail(path, why, "its end is missing");
    *entries = (struct slice){all.data + header->size,
                              all.size - header->size - footer.size};
    return STATUS_OK;
}

struct slice
published_element(struct slice header, const char *start)
{
    const char *at = memmem(header.data, header.size, start, strlen(start));
    const char *end =
        at ? memchr(at, '>', (size_t)(header.data + header.size - at)) : NULL;

    return end ? (struct slice){at, (size_t)(end - at)}
               : (struct slice){NULL, 0};
}

struct slice
published_between(struct slice text, const char *before, const char *after)
{
    const char *begin = NULL, *at = text.data, *last = text.data + text.size;
    const char *end;

    while (at && (at = memmem(at, (size_t)(last - at), before, strlen(before))))
        begin = at += strlen(before);
    end = begin ? memmem(begin, (size_t)(last - begin), after, strlen(after))
                : NULL;
    return end ? (struct slice){begin, (size_t)(end - begin)}
               : (struct slice){NULL, 0};
}

/* The first of the texts in `text`, or `than` if that is earlier. */
static const char *
earlier_of(struct slice text, const char *what, const char *than)
{
    const char *at =
        text.size > 0 ? memmem(text.data, text.size, what, strlen(what)) : NULL;

    return !at || (than && than < at) ? than : at;
}

struct slice
published_header(struct slice text)
{
    static const char *const ends[] = {"\n<url>", "\n<sitemap>", "\n</urlset>",
                                       "\n</sitemapindex>"};
    const char *end = NULL;

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        end = earlier_of(text, ends[i], end);
    return (struct slice){text.data, end ? (size_t)(end + 1 - text.data) : 0};
}
