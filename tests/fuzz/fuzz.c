#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>

#include "proto/http/idempotency_key.h"
#include "proto/utf8.h"
#include "tests/support/again.h"
#include "tests/support/describe.h"

/* More than any input here can hold. */
#define ENTRIES_MAX 50000

void
fuzz_fail(const char *what, const char *file, int line)
{
    fprintf(stderr, "%s:%d: not true: %s\n", file, line, what);
    abort();
}

struct slice
fuzz_take(struct slice *rest, size_t size)
{
    struct slice taken = {rest->data, size < rest->size ? size : rest->size};

    rest->data += taken.size;
    rest->size -= taken.size;
    return taken;
}

void
fuzz_inflate(struct slice input, size_t max, struct buf *to)
{
    static const char letters[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
                                  "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

    for (size_t i = 0; i < input.size && to->size < max; i++) {
        if (input.data[i] == '\xfe' && i + 1 < input.size) {
            for (int n = (unsigned char)input.data[++i]; n > 0; n--)
                BUF_ADD(to, letters);
        } else {
            buf_add(to, &input.data[i], 1);
        }
    }
}

bool
fuzz_is_utf8(struct slice text)
{
    uint32_t c;
    size_t size = 1;

    while (text.size > 0 && size > 0) {
        size = utf8_read(text.data, text.size, &c);
        fuzz_take(&text, size);
    }
    return text.size == 0;
}

void
fuzz_check_sentence(const char *sentence)
{
    struct slice text = slice_of(sentence);

    FUZZ_ASSERT(text.size > 0);
    while (text.size > 0) {
        uint32_t c = 0;
        size_t size = utf8_read(text.data, text.size, &c);

        FUZZ_ASSERT(size > 0);
        FUZZ_ASSERT(c >= 0x20 && (c < 0x7f || c >= 0xa0));
        fuzz_take(&text, size);
    }
}

void
fuzz_check_problem(const struct problem *why)
{
    fuzz_check_sentence(why->text);
}

static enum status
describe_each(const struct change *change, void *user, struct problem *why)
{
    (void)why;
    describe(user, change);
    return STATUS_OK;
}

/* Reads `step` bytes at a time. */
static enum status
read_in_steps(struct input_reader *reader, struct slice document, size_t step,
              struct problem *why)
{
    enum status rc = STATUS_OK;

    while (!rc && document.size > 0)
        rc = input_reader_feed(reader, fuzz_take(&document, step), why);
    return rc ? rc : input_reader_end(reader, why);
}

static enum status
add_both(const struct change *change, void *user, struct problem *why)
{
    void **both = user;

    describe(both[1], change);
    return again_add(change, both[0], why);
}

static void
check_again(struct again *a)
{
    const char *fault = again_check(a);

    if (!fault)
        return;
    fprintf(stderr, "%s: not\n%.*sor\n%.*sbut\n%.*s\n", fault,
            SLICE_ARG(buf_slice(&a->told)), SLICE_ARG(buf_slice(&a->posted)),
            SLICE_ARG(buf_slice(&a->got)));
    abort();
}

static void
read_twice(const char *type, enum input_use use, bool takes_message,
           struct slice document)
{
    struct problem why = {""}, why_in_steps = {""};
    struct buf whole, parts;
    struct again a;
    void *both[] = {&a, &whole};
    size_t step = 1 + document.size % 61;
    struct input_reader *reader = input_reader_new(
        format_of(slice_of(type)), use, ENTRIES_MAX, add_both, both);
    enum status rc, rc_in_steps;
    struct key id = {.size = 0};

    FUZZ_ASSERT(reader);
    buf_init(&whole, SIZE_MAX);
    buf_init(&parts, SIZE_MAX);
    again_open(&a);
    if (takes_message)
        reader->options.takes_message = true;
    rc = read_in_steps(reader, document, SIZE_MAX, &why);
    id.size = reader->id.size;
    if (id.size > 0)
        memcpy(id.text, key_slice(&reader->id).data, id.size);
    input_reader_reset(reader, describe_each, &parts);
    if (takes_message)
        reader->options.takes_message = true;
    rc_in_steps = read_in_steps(reader, document, step, &why_in_steps);
    FUZZ_ASSERT(rc || slice_equal(key_slice(&id), key_slice(&reader->id)));
    FUZZ_ASSERT(id.size == 0 ||
                (takes_message && key_is_valid(key_slice(&id))));
    input_reader_free(reader);
    if (rc)
        fuzz_check_problem(&why);
    if (rc_in_steps)
        fuzz_check_problem(&why_in_steps);
    FUZZ_ASSERT(!rc == !rc_in_steps);
    if (!rc) {
        FUZZ_ASSERT(slice_equal(buf_slice(&whole), buf_slice(&parts)));
        if (a.n > 0) /* nothing cannot be posted */
            check_again(&a);
    }
    again_close(&a);
    buf_fini(&parts);
    buf_fini(&whole);
}

struct faults {
    struct buf changes;
    size_t n;
};

static void
on_fault(const struct problem *why, void *user)
{
    struct faults *faults = user;

    fuzz_check_problem(why);
    FUZZ_ASSERT(why->entry > 0 && why->line > 0);
    faults->n++;
}

static enum status
read_with_faults(const char *type, struct slice document, size_t step,
                 struct faults *faults)
{
    struct problem why = {""};
    struct input_reader *reader =
        input_reader_new(format_of(slice_of(type)), INPUT_POST, ENTRIES_MAX,
                         describe_each, &faults->changes);
    enum status rc;

    FUZZ_ASSERT(reader);
    faults->n = 0;
    buf_init(&faults->changes, SIZE_MAX);
    reader->options =
        (struct input_options){.on_fault = on_fault, .fault_user = faults};
    rc = read_in_steps(reader, document, step, &why);
    input_reader_free(reader);
    return rc;
}

void
fuzz_faults(const char *type, struct slice document)
{
    struct faults whole, parts;
    size_t step = document.size > 0 ? (size_t)document.data[0] % 7 + 1 : 1;
    enum status rc = read_with_faults(type, document, SIZE_MAX, &whole);
    enum status rc_in_steps = read_with_faults(type, document, step, &parts);

    FUZZ_ASSERT(!rc == !rc_in_steps);
    if (!rc) {
        FUZZ_ASSERT(whole.n == parts.n);
        FUZZ_ASSERT(whole.n > 0 || slice_equal(buf_slice(&whole.changes),
                                               buf_slice(&parts.changes)));
    }
    buf_fini(&whole.changes);
    buf_fini(&parts.changes);
}

void
fuzz_reading(const char *type, enum input_use use, struct slice document)
{
    read_twice(type, use, false, document);
}

void
fuzz_taking_message(const char *type, struct slice document)
{
    read_twice(type, INPUT_POST, true, document);
}
