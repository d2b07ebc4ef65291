#include "proto/http/request_head.h"

#include <stdlib.h>

#include "proto/buf.h"
#include "tests/fuzz/fuzz.h"

/* Longer inputs are cut: twice the longest head, and more. */
#define INFLATED_MAX 40000

/* Reads as a connection does, `step` bytes at a time. *n: how many were there
 * at the end. */
static enum status
read_cut(struct request_head *h, struct slice bytes, size_t step, size_t *n,
         struct problem *why)
{
    struct head_seen seen = {0};
    enum status rc = STATUS_AGAIN;

    for (*n = 0; rc == STATUS_AGAIN && *n < bytes.size;) {
        *n = bytes.size - *n < step ? bytes.size : *n + step;
        rc = request_head_read(h, (struct slice){bytes.data, *n}, &seen, why);
    }
    if (rc == STATUS_OK)
        FUZZ_ASSERT(!seen.line && !seen.scanned && !seen.n_fields);
    return rc;
}

static void
check_within(struct slice part, struct slice whole)
{
    FUZZ_ASSERT(part.size == 0 ||
                (part.data >= whole.data &&
                 part.data + part.size <= whole.data + whole.size));
}

static void
check_equal(const struct request_head *a, const struct request_head *b)
{
    FUZZ_ASSERT(slice_equal(a->method, b->method));
    FUZZ_ASSERT(slice_equal(a->path, b->path));
    FUZZ_ASSERT(slice_equal(a->query, b->query));
    FUZZ_ASSERT(a->has_query == b->has_query);
    FUZZ_ASSERT(a->minor == b->minor);
    FUZZ_ASSERT(slice_equal(a->host, b->host));
    FUZZ_ASSERT(a->body.is_chunked == b->body.is_chunked);
    FUZZ_ASSERT(a->body.has_length == b->body.has_length);
    FUZZ_ASSERT(a->body.length == b->body.length);
    FUZZ_ASSERT(a->is_kept == b->is_kept);
    FUZZ_ASSERT(a->is_continue == b->is_continue);
    FUZZ_ASSERT(a->upgrade == b->upgrade);
    FUZZ_ASSERT(a->n_fields == b->n_fields);
    for (size_t i = 0; i < a->n_fields; i++) {
        FUZZ_ASSERT(slice_equal(a->fields[i].name, b->fields[i].name));
        FUZZ_ASSERT(slice_equal(a->fields[i].value, b->fields[i].value));
    }
}

/* Counts the lines that begin with `name` and a colon: as every other reader
 * has to see them. Checks the line ends on the way. */
static size_t
count_lines(struct slice head, const char *name, size_t *n_lines)
{
    size_t n = 0;

    *n_lines = 0;
    while (head.size > 0) {
        struct slice line = slice_take(&head, '\n');

        FUZZ_ASSERT(line.size > 0 && line.data[line.size - 1] == '\r');
        line.size--;
        for (size_t i = 0; i < line.size; i++)
            FUZZ_ASSERT(!slice_is_control(line.data[i]));
        n += slice_is_word(slice_take(&line, ':'), name);
        ++*n_lines;
    }
    return n;
}

static void
check_head(const struct request_head *h, struct slice bytes)
{
    struct slice head = {bytes.data, h->size};
    size_t n_before = 0, n_lines, n_lengths;

    FUZZ_ASSERT(h->refusal == 0);
    FUZZ_ASSERT(h->size <= bytes.size && h->size <= REQUEST_HEAD_MAX);
    FUZZ_ASSERT(h->n_fields <= REQUEST_FIELDS_MAX);
    check_within(h->method, head);
    check_within(h->query, head);
    check_within(h->host, head);
    for (size_t i = 0; i < h->n_fields; i++) {
        check_within(h->fields[i].name, head);
        check_within(h->fields[i].value, head);
    }
    FUZZ_ASSERT(h->path.data[0] == '/' || slice_is(h->path, "*"));

    while (bytes.data[n_before * HEAD_CRLF_SIZE] == '\r')
        n_before++;
    FUZZ_ASSERT(n_before <= REQUEST_EMPTY_LINES);
    n_lengths = count_lines(head, "Content-Length", &n_lines);
    FUZZ_ASSERT(n_lines == h->n_fields + 2 + n_before);
    FUZZ_ASSERT(n_lengths == h->body.has_length);
    FUZZ_ASSERT(count_lines(head, "Transfer-Encoding", &n_lines) ==
                h->body.is_chunked);
    FUZZ_ASSERT(!h->body.is_chunked || !h->body.has_length);
    n_lengths = count_lines(head, "Host", &n_lines);
    FUZZ_ASSERT(n_lengths == 1 || (n_lengths == 0 && h->minor == 0));
}

/* Written as a proxy would, a head means the same. */
static void
check_written(const struct request_head *h)
{
    struct head_seen seen = {0};
    struct request_head again;
    struct buf text;

    buf_init(&text, SIZE_MAX);
    buf_add_slice(&text, h->method);
    BUF_ADD(&text, " ");
    buf_add_slice(&text, h->path);
    if (h->has_query)
        BUF_ADD(&text, "?");
    buf_add_slice(&text, h->query);
    buf_add_format(&text, " HTTP/1.%u\r\n", h->minor);
    for (size_t i = 0; i < h->n_fields; i++) {
        buf_add_slice(&text, h->fields[i].name);
        BUF_ADD(&text, ":");
        buf_add_slice(&text, h->fields[i].value);
        BUF_ADD(&text, "\r\n");
    }
    BUF_ADD(&text, "\r\n");
    FUZZ_ASSERT(!request_head_read(&again, buf_slice(&text), &seen, NULL));
    check_equal(h, &again);
    buf_fini(&text);
}

FUZZ_TARGET(request_head, input)
{
    struct problem why = {""}, why_cut = {""};
    struct request_head h, cut;
    struct buf inflated;
    struct slice bytes;
    enum status rc;
    size_t step, n;
    char *copy;

    buf_init(&inflated, SIZE_MAX);
    fuzz_inflate(input, INFLATED_MAX, &inflated);
    copy = malloc(inflated.size + 1);
    memcpy(copy, buf_slice(&inflated).size ? inflated.data : "", inflated.size);
    copy = realloc(copy, inflated.size); /* to the byte, for a sanitizer */
    bytes = (struct slice){copy, inflated.size};
    step = 1 + bytes.size % (bytes.size < 700 ? 7 : 997);

    rc = read_cut(&h, bytes, SIZE_MAX, &n, &why);
    FUZZ_ASSERT(read_cut(&cut, bytes, step, &n, &why_cut) == rc);
    if (rc == STATUS_INVALID) {
        FUZZ_ASSERT(h.refusal >= 400 && h.refusal == cut.refusal);
        FUZZ_ASSERT(!strcmp(why.text, why_cut.text));
        fuzz_check_problem(&why);
    } else if (rc == STATUS_OK) {
        FUZZ_ASSERT(h.size == cut.size && n < h.size + step);
        check_equal(&h, &cut);
        check_head(&h, bytes);
        check_written(&h);
        bytes.size = h.size - 1;
        FUZZ_ASSERT(read_cut(&h, bytes, SIZE_MAX, &n, NULL) == STATUS_AGAIN);
    } else {
        FUZZ_ASSERT(bytes.size < REQUEST_HEAD_MAX);
    }
    free(copy);
    buf_fini(&inflated);
}
