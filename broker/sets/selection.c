#include "broker/sets/selection.h"

#include <stdlib.h>
#include <string.h>

#include "proto/document.h"
#include "proto/formats.h"
#include "proto/json_change.h"
#include "proto/vocab.h"

/* A larger form is not made on a thread that others wait for. */
#define FORM_AT_ONCE_BYTES 65536

/* Keys of forms: two per class, and class 0 has all entries. */
static uint64_t
key_of(const struct filter_class *filter, bool is_json)
{
    return (filter ? filter->id : 0) * 2 + is_json;
}

/* A block for a form of `n` entries; `indexes`: with room to say which. NULL:
 * no memory. */
static struct form *
new_form(uint64_t key, size_t n, bool indexes, size_t text_size,
         uint32_t **entries, uint32_t **starts, char **bytes)
{
    size_t entries_size = indexes ? n * sizeof(uint32_t) : 0;
    size_t starts_size = text_size > 0 ? (n + 1) * sizeof(uint32_t) : 0;
    size_t size = sizeof(struct form) + entries_size + starts_size + text_size;
    struct form *form = malloc(size);
    char *rest = (char *)(form + 1);

    if (!form)
        return NULL;
    *form = (struct form){.key = key, .size = size, .n = n};
    *entries = (uint32_t *)(void *)rest;
    *starts = (uint32_t *)(void *)(rest + entries_size);
    *bytes = rest + entries_size + starts_size;
    if (indexes)
        form->entries = *entries;
    if (text_size > 0) {
        form->starts = *starts;
        form->bytes = *bytes;
    }
    return form;
}

/* Keeps a form with the batch if it may be, else with the selection. */
static const struct form *
keep(struct selection *s, struct form *form, bool may_keep, bool must_keep)
{
    const struct form *kept =
        may_keep ? batch_keep_form(s->batch, form, must_keep) : NULL;

    if (kept)
        return kept;
    s->own[s->own[0] != NULL] = form;
    return form;
}

/* Which entries a filter lets through */

static enum status
pick(struct selection *s, const struct filter_class *filter,
     struct problem *why)
{
    const struct batch *b = s->batch;
    uint64_t key = key_of(filter, false);
    const struct form *picked = batch_form(b, key);
    uint32_t *found, *entries, *starts;
    struct form *form;
    size_t n = 0;
    char *bytes;

    if (picked)
        goto out;
    found = malloc(b->n_entries * sizeof(*found) + 1);
    if (!found)
        return problem_memory(why);
    for (size_t i = 0; i < b->n_entries; i++)
        if (filter_passes(&filter->filter,
                          batch_slice(b, b->first + i - 1, b->first + i),
                          b->entries[i].stamp))
            found[n++] = (uint32_t)i;
    form = new_form(key, n, true, 0, &entries, &starts, &bytes);
    if (form && n > 0)
        memcpy(entries, found, n * sizeof(*found));
    free(found);
    if (!form)
        return problem_memory(why);
    picked = keep(s, form, filter_class_is_shared(filter), false);

out:
    s->entries = picked->entries;
    s->n = picked->n;
    return STATUS_OK;
}

/* JSON */

struct converter {
    struct buf text;
    uint32_t *starts;
    size_t n, max;
};

static enum status
add_json(const struct change *change, void *user, struct problem *why)
{
    struct converter *c = user;

    if (c->n == c->max)
        return problem(why, STATUS_IO, "a batch has more entries than it says");
    c->starts[c->n++] = (uint32_t)c->text.size;
    json_change(&c->text, change);
    BUF_ADD(&c->text, ",");
    return STATUS_OK;
}

/* The fragments of entries that lie together, from entry `i` on. */
static struct slice
run_of(const struct selection *s, size_t *i)
{
    const struct batch *b = s->batch;
    size_t from, to;

    if (!s->entries) {
        *i = s->n;
        return batch_slice(b, b->first - 1, b->last);
    }
    from = to = s->entries[*i];
    while (*i < s->n && s->entries[*i] == to) {
        ++*i;
        to++;
    }
    return batch_slice(b, b->first + from - 1, b->first + to - 1);
}

/* Reads the fragments back and writes them as JSON. */
static enum status
convert(const struct selection *s, struct converter *c, struct problem *why)
{
    const struct document_head head = {
        .root = DOCUMENT_URLSET,
        .capability = CAP_CHANGELIST,
        .from_us = s->batch->before_us,
        .until_us = DATETIME_NONE,
    };
    struct reader *reader = reader_new(format_of(SLICE("application/xml")),
                                       READER_MESSAGE, SIZE_MAX, add_json, c);
    struct buf header;
    enum status rc;

    buf_init(&header, DOCUMENT_FRAME_MAX);
    document_header(&header, &head);
    rc = !reader || header.failed
             ? problem_memory(why)
             : reader_feed(reader, buf_slice(&header), why);
    for (size_t i = 0; !rc && i < s->n;)
        rc = reader_feed(reader, run_of(s, &i), why);
    if (!rc)
        rc = reader_feed(reader, document_footer_of(DOCUMENT_URLSET), why);
    if (!rc)
        rc = reader_end(reader, why);
    if (!rc && c->text.failed)
        rc = problem_memory(why);
    if (!rc && c->n != s->n)
        rc = problem(why, STATUS_IO, "a batch has fewer entries than it says");
    reader_free(reader);
    buf_fini(&header);
    return rc;
}

static enum status
make_json(struct selection *s, uint64_t key, bool may_keep, bool must_keep,
          struct problem *why)
{
    struct converter c = {.max = s->n};
    uint32_t *entries, *starts;
    struct form *form = NULL;
    enum status rc;
    char *bytes;

    buf_init(&c.text, (size_t)1 << 30);
    c.starts = malloc((s->n + 1) * sizeof(*c.starts));
    rc = c.starts ? convert(s, &c, why) : problem_memory(why);
    if (!rc) {
        form =
            new_form(key, s->n, false, c.text.size, &entries, &starts, &bytes);
        if (!form)
            rc = problem_memory(why);
    }
    if (!rc) {
        c.starts[s->n] = (uint32_t)c.text.size;
        memcpy(starts, c.starts, (s->n + 1) * sizeof(*starts));
        memcpy(bytes, c.text.data, c.text.size);
        s->json = keep(s, form, may_keep, must_keep);
    }
    free(c.starts);
    buf_fini(&c.text);
    return rc;
}

/* Bytes of the fragments. */
static size_t
fragments_size(const struct selection *s)
{
    size_t size = 0;

    for (size_t i = 0; i < s->n;)
        size += run_of(s, &i).size;
    return size;
}

static enum status
take_json(struct selection *s, const struct filter_class *filter,
          enum log_patience patience, struct problem *why)
{
    bool is_all = s->n == s->batch->n_entries;
    uint64_t key = key_of(is_all ? NULL : filter, true);

    /* That of all entries serves everybody. */
    s->json = batch_form(s->batch, key_of(NULL, true));
    if (s->json)
        return STATUS_OK;
    s->is_dense = true;
    if (is_all)
        s->entries = NULL;
    s->json = batch_form(s->batch, key);
    if (s->json)
        return STATUS_OK;
    if (patience == LOG_MEMORY && fragments_size(s) > FORM_AT_ONCE_BYTES)
        return STATUS_AGAIN;
    return make_json(s, key, is_all || filter_class_is_shared(filter), is_all,
                     why);
}

enum status
selection_make(struct selection *s, struct batch *b,
               const struct filter_class *filter, enum message_form form,
               enum log_patience patience, struct problem *why)
{
    enum status rc = STATUS_OK;

    *s = (struct selection){.batch = b, .n = b->n_entries, .is_dense = !filter};
    if (filter)
        rc = pick(s, filter, why);
    if (!rc && s->n > 0 && form == MESSAGE_JSON)
        rc = take_json(s, filter, patience, why);
    if (rc)
        selection_fini(s);
    return rc;
}

void
selection_fini(struct selection *s)
{
    free(s->own[0]);
    free(s->own[1]);
    s->own[0] = s->own[1] = NULL;
}

/* Entries */

static size_t
index_of(const struct selection *s, size_t i)
{
    return s->entries ? s->entries[i] : i;
}

uint64_t
selection_seq(const struct selection *s, size_t i)
{
    return s->batch->first + index_of(s, i);
}

size_t
selection_after(const struct selection *s, uint64_t seq)
{
    size_t low = 0, high = s->n;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (selection_seq(s, middle) <= seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The bytes of `n` entries from `i` on, at least one; where they are not dense,
 * of one. Without the separator behind them. */
static struct slice
bytes_of(const struct selection *s, size_t i, size_t n)
{
    size_t from = index_of(s, i);

    if (!s->json) {
        uint64_t after = s->batch->first + from - 1;

        return batch_slice(s->batch, after, after + n);
    }
    if (s->is_dense) /* a form of these very entries */
        from = i;
    return (struct slice){s->json->bytes + s->json->starts[from],
                          s->json->starts[from + n] - s->json->starts[from] -
                              1};
}

static size_t
separator_size(const struct selection *s)
{
    return s->json != NULL;
}

size_t
selection_fit(const struct selection *s, size_t i, size_t max, size_t room,
              size_t *size)
{
    size_t low = 0, high = max;

    *size = 0;
    if (!s->is_dense) {
        while (low < max) {
            size_t more = bytes_of(s, i + low, 1).size +
                          (low > 0 ? separator_size(s) : 0);

            if (more > room - *size)
                break;
            *size += more;
            low++;
        }
        return low;
    }
    if (max > 0 && bytes_of(s, i, max).size <= room)
        low = max;
    while (low < high) {
        size_t middle = low + (high - low + 1) / 2;

        if (bytes_of(s, i, middle).size <= room)
            low = middle;
        else
            high = middle - 1;
    }
    if (low > 0)
        *size = bytes_of(s, i, low).size;
    return low;
}

void
selection_write(struct buf *to, const struct selection *s, size_t i, size_t n)
{
    size_t step = s->is_dense ? n : 1;

    for (size_t k = 0; k < n; k += step) {
        if (k > 0 && s->json)
            BUF_ADD(to, ",");
        buf_add_slice(to, bytes_of(s, i + k, step));
    }
}
