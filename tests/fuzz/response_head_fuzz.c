#include "proto/http/response_head.h"

#include <stdlib.h>

#include "proto/buf.h"
#include "tests/fuzz/fuzz.h"

/* Longer inputs are cut: more than the longest head. */
#define INFLATED_MAX 40000

/* Reads as a caller does, `step` bytes at a time. */
static enum status
read_cut(struct response_head *h, struct slice bytes, size_t step,
         struct problem *why)
{
    struct head_seen seen = {0};
    enum status rc = STATUS_AGAIN;

    for (size_t n = 0; rc == STATUS_AGAIN && n < bytes.size;) {
        n = bytes.size - n < step ? bytes.size : n + step;
        rc = response_head_read(h, (struct slice){bytes.data, n}, &seen, why);
    }
    if (rc == STATUS_OK)
        FUZZ_ASSERT(!seen.line && !seen.scanned);
    return rc;
}

static void
check_equal(const struct response_head *a, const struct response_head *b)
{
    FUZZ_ASSERT(a->status == b->status);
    FUZZ_ASSERT(a->minor == b->minor);
    FUZZ_ASSERT(a->is_kept == b->is_kept);
    FUZZ_ASSERT(a->body.is_chunked == b->body.is_chunked);
    FUZZ_ASSERT(a->body.has_length == b->body.has_length);
    FUZZ_ASSERT(a->body.length == b->body.length);
}

/* Counts the line ends: each is CR LF, and there is no other control character
 * but the tab. */
static size_t
count_lines(struct slice head)
{
    size_t n = 0;

    while (head.size > 0) {
        struct slice line = slice_take(&head, '\n');

        FUZZ_ASSERT(line.size > 0 && line.data[line.size - 1] == '\r');
        line.size--;
        for (size_t i = 0; i < line.size; i++)
            FUZZ_ASSERT(!slice_is_control(line.data[i]));
        n++;
    }
    return n;
}

/* Checks the fields, and writes the head as a proxy would: it means the same.
 */
static void
check_head(const struct response_head *h, struct slice bytes)
{
    struct slice head = {bytes.data, h->size}, rest = h->fields;
    size_t n_fields = 0, n_lengths = 0, n_codings = 0;
    struct head_seen seen = {0};
    struct response_head again;
    struct head_field f;
    struct buf text;

    FUZZ_ASSERT(h->size <= bytes.size && h->size <= RESPONSE_HEAD_MAX);
    FUZZ_ASSERT(h->status >= 100 && h->status <= 999);
    FUZZ_ASSERT(!h->body.is_chunked || !h->body.has_length);
    buf_init(&text, SIZE_MAX);
    buf_add_format(&text, "HTTP/1.%u %u\r\n", h->minor, h->status);
    while (response_head_next(&rest, &f)) {
        FUZZ_ASSERT(f.name.size > 0 && f.name.data > head.data);
        FUZZ_ASSERT(f.value.size == 0 ||
                    f.value.data + f.value.size < head.data + head.size);
        n_fields++;
        n_lengths += slice_is_word(f.name, "Content-Length");
        n_codings += slice_is_word(f.name, "Transfer-Encoding");
        buf_add_slice(&text, f.name);
        BUF_ADD(&text, ":");
        buf_add_slice(&text, f.value);
        BUF_ADD(&text, "\r\n");
    }
    BUF_ADD(&text, "\r\n");
    FUZZ_ASSERT(rest.size == 0);
    FUZZ_ASSERT(count_lines(head) == n_fields + 2);
    FUZZ_ASSERT(n_lengths == h->body.has_length);
    FUZZ_ASSERT(n_codings == h->body.is_chunked);
    FUZZ_ASSERT(!response_head_read(&again, buf_slice(&text), &seen, NULL));
    check_equal(h, &again);
    buf_fini(&text);
}

FUZZ_TARGET(response_head, input)
{
    struct problem why = {""}, why_cut = {""};
    struct response_head h, cut;
    struct buf inflated;
    struct slice bytes;
    enum status rc;
    size_t step;
    char *copy;

    buf_init(&inflated, SIZE_MAX);
    fuzz_inflate(input, INFLATED_MAX, &inflated);
    copy = malloc(inflated.size + 1);
    memcpy(copy, buf_slice(&inflated).size ? inflated.data : "", inflated.size);
    copy = realloc(copy, inflated.size + !inflated.size); /* to the byte */
    bytes = (struct slice){copy, inflated.size};
    step = 1 + bytes.size % (bytes.size < 700 ? 7 : 997);

    rc = read_cut(&h, bytes, SIZE_MAX, &why);
    FUZZ_ASSERT(read_cut(&cut, bytes, step, &why_cut) == rc);
    if (rc == STATUS_OK) {
        FUZZ_ASSERT(h.size == cut.size);
        check_equal(&h, &cut);
        check_head(&h, bytes);
        bytes.size = h.size - 1;
        FUZZ_ASSERT(read_cut(&h, bytes, SIZE_MAX, NULL) == STATUS_AGAIN);
    } else if (rc == STATUS_AGAIN) {
        FUZZ_ASSERT(bytes.size < RESPONSE_HEAD_MAX);
    } else {
        FUZZ_ASSERT(!strcmp(why.text, why_cut.text));
        fuzz_check_problem(&why);
    }
    free(copy);
    buf_fini(&inflated);
}
