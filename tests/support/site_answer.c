/*
 * site_answer.c - the answer of a site to a request: its page, or the trouble
 * that the test has ordered.
 */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

#include "tests/support/gzip.h"
#include "tests/support/site_inside.h"

bool
site_value(const char *head, const char *name, struct slice *value)
{
    struct slice rest = slice_of(head);

    slice_take(&rest, '\n'); /* the request line */
    while (rest.size > 0) {
        struct slice line = slice_take(&rest, '\n');
        struct slice named = slice_take(&line, ':');

        if (slice_is_word(named, name)) {
            if (line.size > 0 && line.data[line.size - 1] == '\r')
                line.size--;
            *value = slice_trimmed(line);
            return true;
        }
    }
    return false;
}

/* The content of an answer: the page as it is now. */
struct found {
    char *bytes; /* to be freed */
    struct slice body;
    const char *type; /* NULL: none */
    bool is_there, is_gzip;
    char etag[40]; /* "": none */
    size_t from;   /* of a range: body stands for the whole, see `to` */
    size_t to;     /* one behind the last byte */
};

static int
hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void
decode(struct slice s, char *to, size_t size)
{
    size_t n = 0;

    for (size_t i = 0; i < s.size && n + 1 < size; i++)
        if (s.data[i] == '%' && i + 2 < s.size && hex(s.data[i + 1]) >= 0 &&
            hex(s.data[i + 2]) >= 0) {
            to[n++] = (char)(hex(s.data[i + 1]) * 16 + hex(s.data[i + 2]));
            i += 2;
        } else {
            to[n++] = s.data[i];
        }
    to[n] = '\0';
}

static const char *
type_of(const char *name)
{
    static const char *const types[][2] = {
        {".xml", "application/xml"},   {".json", "application/json"},
        {".zip", "application/zip"},   {".gz", "application/gzip"},
        {".tar", "application/x-tar"}, {".html", "text/html"},
        {".txt", "text/plain"},
    };
    const char *dot = strrchr(name, '.');

    for (size_t i = 0; dot && i < sizeof(types) / sizeof(*types); i++)
        if (!strcmp(dot, types[i][0]))
            return types[i][1];
    return "application/octet-stream";
}

static void
read_file(const struct site_folder *f, const char *path, struct found *to)
{
    char name[PATH_MAX], rest[PATH_MAX / 2];
    FILE *file;
    long size;

    decode(slice_of(path + strlen(f->prefix)), rest, sizeof(rest));
    if (strstr(rest, ".."))
        return;
    snprintf(name, sizeof(name), "%s/%s", f->dir, rest);
    file = fopen(name, "re");
    if (!file)
        return;
    if (!fseek(file, 0, SEEK_END) && (size = ftell(file)) >= 0 &&
        size < LONG_MAX) { /* a directory has LONG_MAX */
        rewind(file);
        to->bytes = malloc((size_t)size + 1);
        site_must(to->bytes != NULL, "memory");
        to->body.data = to->bytes;
        to->body.size = fread(to->bytes, 1, (size_t)size, file);
        to->is_there = true;
        to->type = type_of(name);
    }
    fclose(file);
}

static void
find(struct site *s, const struct site_page *p, struct found *to)
{
    const struct site_folder *best = NULL;

    *to = (struct found){.body = {"", 0}};
    if (p->is_deleted)
        return;
    if (p->is_put) {
        to->is_there = true;
        to->body = (struct slice){p->body, p->size};
        to->type = p->type;
        return;
    }
    for (const struct site_folder *f = s->folders; f; f = f->next)
        if (slice_starts(slice_of(p->path), f->prefix) &&
            (!best || strlen(f->prefix) > strlen(best->prefix)))
            best = f;
    if (best)
        read_file(best, p->path, to);
}

/* Encodes the body and adds its type and encoding, as far as the page states
 * them. */
static void
present(struct site *s, const struct site_request *r, struct found *f)
{
    const struct site_manners *m = &r->page->manners, *all = &s->all.manners;
    uint64_t sum = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    struct slice accepted;
    struct buf packed;

    for (size_t i = 0; i < f->body.size; i++)
        sum = (sum ^ (uint8_t)f->body.data[i]) * UINT64_C(0x100000001b3);
    f->is_gzip = (m->gzips || all->gzips) &&
                 site_value(r->head, "Accept-Encoding", &accepted) &&
                 accepted.size >= 4 &&
                 memmem(accepted.data, accepted.size, "gzip", 4);
    if (f->is_gzip) {
        buf_init(&packed, SIZE_MAX / 2);
        gzip_add(&packed, f->body);
        free(f->bytes);
        f->bytes = packed.data;
        f->body = buf_slice(&packed);
    }
    snprintf(f->etag, sizeof(f->etag), "\"%016" PRIx64 "%s\"", sum,
             f->is_gzip ? "-gzip" : "");
    f->to = f->body.size;
}

/* The status that a range makes of 200, and what to send. */
static unsigned
take_range(struct site *s, const struct site_request *r, struct found *f)
{
    struct slice value, condition, first;
    const struct site_manners *m = &r->page->manners;
    char text[60], *end;
    uint64_t from, to = f->body.size;

    if (m->has_no_ranges || s->all.manners.has_no_ranges || f->is_gzip ||
        !site_value(r->head, "Range", &value) ||
        !slice_starts(value, "bytes=") || value.size >= sizeof(text))
        return 200;
    if (site_value(r->head, "If-Range", &condition) &&
        (!f->etag[0] || !slice_is(condition, f->etag)))
        return 200;
    slice_take(&value, '=');
    memcpy(text, value.data, value.size);
    text[value.size] = '\0';
    first = slice_take(&value, '-');
    from = strtoull(text, &end, 10);
    if (first.size == 0) { /* the last bytes */
        uint64_t n = strtoull(text + 1, NULL, 10);

        from = n < to ? to - n : 0;
    } else if (value.size > 0) {
        uint64_t last = strtoull(end + 1, NULL, 10);

        to = last < to ? last + 1 : to;
    }
    if (from >= to)
        return 416;
    f->from = (size_t)from;
    f->to = (size_t)to;
    return 206;
}

static unsigned
status_of(struct site *s, const struct site_request *r, struct found *f)
{
    struct slice value;

    if (!f->is_there)
        return 404;
    present(s, r, f);
    if (f->etag[0] && site_value(r->head, "If-None-Match", &value) &&
        memmem(value.data, value.size, f->etag, strlen(f->etag)))
        return 304;
    return take_range(s, r, f);
}

/* Does it count down to nothing? A rule of 0 times is for ever. */
static bool
uses_up(unsigned *times)
{
    return *times > 0 && --*times == 0;
}

/* The status that the test has ordered for the page, or for all pages; 0:
 * none. */
static unsigned
told_status(struct site_manners *m, struct buf *lines)
{
    unsigned status = m->status;

    if (status && m->status_lines)
        buf_add_format(lines, "%s\r\n", m->status_lines);
    if (status && uses_up(&m->status_times))
        m->status = 0;
    return status;
}

static bool
told_cut(struct site_manners *m, size_t *at)
{
    bool cuts = m->cuts;

    if (cuts)
        *at = m->cut_at;
    if (cuts && uses_up(&m->cut_times))
        m->cuts = false;
    return cuts;
}

static void
add_lines(const struct found *f, unsigned status, bool has_ranges,
          struct buf *to)
{
    if (f->etag[0])
        buf_add_format(to, "ETag: %s\r\n", f->etag);
    if (has_ranges && status != 304)
        buf_add_text(to, "Accept-Ranges: bytes\r\n");
    if (status == 206)
        buf_add_format(to, "Content-Range: bytes %zu-%zu/%zu\r\n", f->from,
                       f->to - 1, f->body.size);
    if (status == 416)
        buf_add_format(to, "Content-Range: bytes */%zu\r\n", f->body.size);
    if (f->type && (status == 200 || status == 206))
        buf_add_format(to, "Content-Type: %s\r\n", f->type);
    if (f->is_gzip && status == 200)
        buf_add_text(to, "Content-Encoding: gzip\r\nVary: Accept-Encoding\r\n");
}

/* The body, in two chunks so that there is a seam, or with its length. */
static size_t
add_body(struct slice body, bool is_chunked, bool is_head, struct buf *to)
{
    size_t half = body.size / 2, head_end;

    if (is_chunked)
        buf_add_text(to, "Transfer-Encoding: chunked\r\n\r\n");
    else
        buf_add_format(to, "Content-Length: %zu\r\n\r\n", body.size);
    head_end = to->size;
    if (is_head)
        return head_end;
    if (!is_chunked) {
        buf_add_slice(to, body);
        return head_end;
    }
    if (half > 0)
        buf_add_format(to, "%zx\r\n", half);
    buf_add(to, body.data, half);
    if (half > 0)
        buf_add_text(to, "\r\n");
    if (body.size > half) {
        buf_add_format(to, "%zx\r\n", body.size - half);
        buf_add(to, body.data + half, body.size - half);
        buf_add_text(to, "\r\n");
    }
    buf_add_text(to, "0\r\n\r\n");
    return head_end;
}

void
site_answer(struct site *s, struct site_request *r, struct buf *to, size_t *cut)
{
    struct site_manners *m = &r->page->manners, *all = &s->all.manners;
    bool is_head = !strncmp(r->head, "HEAD ", 5);
    struct found f;
    struct slice body = {"", 0};
    struct buf lines;
    unsigned status;
    size_t head_end, at;

    buf_init(&lines, 100000);
    find(s, r->page, &f);
    status = told_status(m, &lines);
    if (!status)
        status = told_status(all, &lines);
    if (!status) {
        status = status_of(s, r, &f);
        add_lines(&f, status, !m->has_no_ranges && !all->has_no_ranges, &lines);
        if (status == 200 || status == 206)
            body = (struct slice){f.body.data + f.from, f.to - f.from};
    }
    buf_add_format(to, "HTTP/1.1 %u So\r\n", status);
    buf_add_slice(to, buf_slice(&lines));
    if (r->page->lines)
        buf_add_format(to, "%s\r\n", r->page->lines);
    if (s->all.lines)
        buf_add_format(to, "%s\r\n", s->all.lines);
    if (status == 304 || status == 204) { /* neither states a length */
        BUF_ADD(to, "\r\n");
        head_end = to->size;
    } else {
        head_end = add_body(body,
                            (m->is_chunked || all->is_chunked) &&
                                !strstr(r->head, " HTTP/1.0\r\n"),
                            is_head, to);
    }
    *cut = SIZE_MAX;
    if (told_cut(m, &at) || told_cut(all, &at))
        *cut = head_end + at;
    r->status = status;
    buf_fini(&lines);
    free(f.bytes);
}
