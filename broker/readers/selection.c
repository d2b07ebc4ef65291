#include "broker/readers/selection.h"

#include "base/array.h"
#include "proto/resourcesync/cloud_event.h"
#include "proto/resourcesync/entry_builder.h"
#include "proto/resourcesync/json.h"

/* Keys of forms: one of each kind per class, and class 0 has all entries. XML
 * is a form of entries without data only. */
enum form_kind { FORM_ENTRIES, FORM_JSON, FORM_EVENTS, FORM_XML, FORM_KINDS };

static uint64_t
key_of(const struct filter_class *filter, enum form_kind kind)
{
    return (filter ? filter->id : 0) * FORM_KINDS + kind;
}

/* Cuts `block`, which begins with room for a form and has the form's arrays
 * behind that, to the size that `value` gives, and makes it that form. */
static struct form *
new_form(void *block, struct form value)
{
    struct form *form = memory_grow(block, 1, value.size);

    if (!form)
        form = block; /* it stays longer than it need be */
    *form = value;
    return form;
}

/* Keeps a form with the batch if it may be, else with the selection. */
static const struct form *
keep_form(struct selection *s, struct form *form, bool may_keep, bool must_keep)
{
    const struct form *kept =
        may_keep ? batch_keep_form(s->batch, form, must_keep) : NULL;

    if (kept)
        return kept;
    s->own[s->own[0] != NULL] = form;
    return form;
}

/* Which entries a filter lets through */

static void
pick_entries(struct selection *s, const struct filter_class *filter)
{
    const struct batch *b = s->batch;
    uint64_t key = key_of(filter, FORM_ENTRIES);
    const struct form *picked = batch_form(b, key);
    struct form *form;
    uint32_t *found;
    size_t n = 0;

    if (picked)
        goto out;
    form = memory_room(sizeof(*form) + b->n_entries * sizeof(*found));
    found = (uint32_t *)(form + 1);
    for (size_t i = 0; i < b->n_entries; i++)
        if (filter_passes(&filter->filter,
                          batch_slice(b, b->first + i - 1, b->first + i),
                          b->entries[i].stamp))
            found[n++] = (uint32_t)i;
    form = new_form(form, (struct form){
                              .key = key,
                              .size = sizeof(*form) + n * sizeof(*found),
                              .n = n,
                          });
    form->entries = (const uint32_t *)(form + 1);
    picked = keep_form(s, form, filter_class_is_shared(filter), false);

out:
    s->entries = picked->entries;
    s->n = picked->n;
}

/* Texts */

static bool
has_data(const struct selection *s)
{
    for (size_t i = 0; i < s->n; i++) {
        uint64_t seq = selection_seq(s, i);

        if (fragment_has_data(batch_slice(s->batch, seq - 1, seq)))
            return true;
    }
    return false;
}

/* Notes in the block of a form that the text of entry `i` begins at its end. */
static void
set_start(struct buf *block, size_t i, size_t head_size)
{
    uint32_t start = (uint32_t)(block->size - head_size);

    memcpy(block->data + sizeof(struct form) + i * sizeof(start), &start,
           sizeof(start));
}

/* Appends an entry: as a CloudEvent of `source`, or without one as JSON. */
static enum status
write_entry(struct buf *to, struct entry *entry, struct slice fragment,
            const struct cloud_event_source *source)
{
    enum status rc;

    if (!source && json_fragment(to, fragment))
        return STATUS_OK;
    rc = fragment_read(entry, fragment); /* an unusual one, or an event */
    if (!rc && source)
        cloud_event_write(to, &entry->change, source);
    else if (!rc)
        json_change(to, &entry->change);
    return rc;
}

/* `may_keep`, `must_keep`: as for keep_form. */
static enum status
make_texts(struct selection *s, uint64_t key, bool is_bare, bool may_keep,
           bool must_keep, const struct cloud_event_source *source,
           struct problem *why)
{
    const struct batch *b = s->batch;
    size_t head_size = sizeof(struct form) + (s->n + 1) * sizeof(uint32_t);
    struct form *form;
    struct buf block = {.max = (size_t)1 << 30}, bare = {.max = FRAGMENT_MAX};
    struct entry entry;
    enum status rc = STATUS_OK;

    /* The JSON of an entry is about as long as its fragment. */
    if (!buf_room(&block, head_size + b->size / b->n_entries * s->n))
        return problem_memory(why);
    block.size = head_size;
    entry_init(&entry);
    for (size_t i = 0; !rc && i < s->n; i++) {
        uint64_t seq = selection_seq(s, i);
        struct slice fragment = batch_slice(b, seq - 1, seq);

        set_start(&block, i, head_size);
        if (is_bare) {
            buf_clear(&bare);
            fragment_without_data(&bare, fragment);
            fragment = buf_slice(&bare);
        }
        if (s->gap)
            rc = write_entry(&block, &entry, fragment, source);
        else
            buf_add_slice(&block, fragment);
        if (rc == STATUS_MALFORMED)
            rc = problem(why, STATUS_IO,
                         "entry %" PRIu64 " of the log is damaged", seq);
        buf_add(&block, ",", s->gap);
    }
    set_start(&block, s->n, head_size);
    entry_fini(&entry);
    buf_fini(&bare);
    if (rc == STATUS_MEMORY || block.failed || bare.failed)
        rc = problem_memory(why);
    if (rc) {
        buf_fini(&block);
        return rc;
    }
    form = new_form(block.data, (struct form){
                                    .key = key,
                                    .size = block.size,
                                    .n = s->n,
                                });
    form->starts = (const uint32_t *)(form + 1);
    form->bytes = (const char *)(form->starts + s->n + 1);
    s->texts = keep_form(s, form, may_keep, must_keep);
    return STATUS_OK;
}

/* Finds the JSON or the CloudEvents of the entries, or makes them; or, if
 * `is_bare`, these or their XML without data. */
static enum status
take_texts(struct selection *s, const struct filter_class *filter, bool is_bare,
           enum form_kind kind, const struct set *set, struct problem *why)
{
    bool is_all = !is_bare && s->n == s->batch->n_entries;
    uint64_t key = key_of(is_all ? NULL : filter, kind);
    struct cloud_event_source source;
    struct link_text url;
    struct head head;

    /* That of all entries serves everybody. */
    if (!is_bare)
        s->texts = batch_form(s->batch, key_of(NULL, kind));
    if (!s->texts) {
        s->is_dense = true;
        if (is_all)
            s->entries = NULL;
        s->texts = batch_form(s->batch, key);
    }
    if (s->texts)
        return STATUS_OK;
    if (kind == FORM_EVENTS) {
        url = set_link(set, LINK_SET);
        log_head(set->log, &head);
        source = (struct cloud_event_source){link_slice(&url), head.epoch};
    }
    return make_texts(s, key, is_bare, is_all || filter_class_is_shared(filter),
                      is_all && kind == FORM_JSON,
                      kind == FORM_EVENTS ? &source : NULL, why);
}

enum status
selection_make(struct selection *s, struct batch *b,
               const struct filter_class *filter, enum message_form form,
               const struct set *set, struct problem *why)
{
    enum status rc = STATUS_OK;
    bool is_bare;

    *s = (struct selection){
        .batch = b,
        .n = b->n_entries,
        .gap = message_form_is_json(form),
        .is_dense = !filter,
    };
    if (filter)
        pick_entries(s, filter);
    is_bare = filter && filter_drops_data(&filter->filter) && has_data(s);
    if (s->n > 0 && (s->gap || is_bare))
        rc = take_texts(s, filter, is_bare,
                        form == MESSAGE_JSON ? FORM_JSON
                        : s->gap             ? FORM_EVENTS
                                             : FORM_XML,
                        set, why);
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
    return FIRST_FALSE(i, 0, s->n, selection_seq(s, i) <= seq);
}

/* The bytes of `n` entries from `i` on, at least one; where they are not dense,
 * of one. Without the separator behind them. */
static struct slice
bytes_of(const struct selection *s, size_t i, size_t n)
{
    size_t from = index_of(s, i);

    if (!s->texts) {
        uint64_t after = s->batch->first + from - 1;

        return batch_slice(s->batch, after, after + n);
    }
    if (s->is_dense) /* a form of these very entries */
        from = i;
    return (struct slice){s->texts->bytes + s->texts->starts[from],
                          s->texts->starts[from + n] - s->texts->starts[from] -
                              s->gap};
}

size_t
selection_fit(const struct selection *s, size_t i, size_t max, size_t room,
              size_t *size)
{
    size_t fit = 0;

    *size = 0;
    if (!s->is_dense) {
        while (fit < max) {
            size_t more = bytes_of(s, i + fit, 1).size + (fit > 0 ? s->gap : 0);

            if (more > room - *size)
                break;
            *size += more;
            fit++;
        }
        return fit;
    }
    if (max > 0 && bytes_of(s, i, max).size <= room)
        fit = max;
    else
        fit = FIRST_FALSE(n, 1, max + 1, bytes_of(s, i, n).size <= room) - 1;
    if (fit > 0)
        *size = bytes_of(s, i, fit).size;
    return fit;
}

size_t
selection_slices(const struct selection *s, size_t i, size_t n,
                 bool is_followed, struct slice *to)
{
    size_t step = s->is_dense ? n : 1, n_slices = 0;

    for (size_t k = 0; k < n; k += step) {
        struct slice bytes = bytes_of(s, i + k, step);
        struct slice *before = n_slices > 0 ? &to[n_slices - 1] : NULL;

        if (k + step < n || is_followed)
            bytes.size += s->gap;
        if (before && before->data + before->size == bytes.data)
            before->size += bytes.size;
        else
            to[n_slices++] = bytes;
    }
    return n_slices;
}
