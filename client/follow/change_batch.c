/*
 * change_batch.c - builds the changes of messages.
 */
#include "client/follow/change_batch.h"

#include "proto/input/data_read.h"
#include "proto/number.h"
#include "proto/resourcesync/fragment.h"
#include "proto/resourcesync/json.h"

void
change_batch_init(struct change_batch *batch, enum td_form form)
{
    *batch = (struct change_batch){.form = form};
    arena_init(&batch->arena, SIZE_MAX / 2);
    buf_init(&batch->list, SIZE_MAX / 2);
    buf_init(&batch->links, SIZE_MAX / 2);
    buf_init(&batch->line, 8 * FRAGMENT_MAX);
}

void
change_batch_fini(struct change_batch *batch)
{
    arena_fini(&batch->arena);
    buf_fini(&batch->list);
    buf_fini(&batch->links);
    buf_fini(&batch->line);
}

void
change_batch_clear(struct change_batch *batch)
{
    arena_clear(&batch->arena);
    buf_clear(&batch->list);
    buf_clear(&batch->links);
}

/* Returns a terminated copy; NULL where `text` is empty. */
static char *
add_text(struct change_batch *batch, struct slice text)
{
    char *copy;

    if (!text.size)
        return NULL;
    copy = arena_take(&batch->arena, text.size + 1);
    if (!copy) {
        batch->list.failed = true;
        return NULL;
    }
    memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    return copy;
}

/* True if memory ran out: then the changes are incomplete. */
static bool
is_failed(const struct change_batch *batch)
{
    return batch->list.failed || batch->links.failed;
}

/* The time of an event has six decimals, so that times compare as text; that of
 * a resource as few as it needs. */
struct td_change *
change_batch_keep(struct change_batch *batch, const struct change *change)
{
    struct td_change copy = {
        .seq = change->seq,
        .datetime =
            add_text(batch, slice_of(datetime_text(change->datetime_us).text)),
        .change = change_kind_names[change->kind],
        .loc = add_text(batch, change->loc),
        .lastmod = add_text(batch, slice_of(change_lastmod(change).text)),
        .hash = add_text(batch, change->hash),
        .length = change->length,
        .type = add_text(batch, change->type),
        .encoding = add_text(batch, change->encoding),
        .tags = add_text(batch, change->tags),
        .n_links = change->n_links,
        .title = add_text(batch, change->title),
        .summary = add_text(batch, change->summary),
        .author = add_text(batch, change->author),
        .data = add_text(batch, change->data),
    };

    buf_add(&batch->list, &copy, sizeof(copy));
    for (size_t i = 0; i < change->n_links; i++) {
        const struct link *link = &change->links[i];
        const struct td_link link_copy = {
            .rel = add_text(batch, link->rel),
            .href = add_text(batch, link->href),
            .type = add_text(batch, link->type),
            .hash = add_text(batch, link->hash),
            .length = link->length,
            .pri = link->pri,
            .modified = add_text(
                batch, slice_of(datetime_text_short(link->modified_us).text)),
            .path = add_text(batch, link->path),
        };

        buf_add(&batch->links, &link_copy, sizeof(link_copy));
    }
    return is_failed(batch) ? NULL
                            : (struct td_change *)(void *)(batch->list.data +
                                                           batch->list.size) -
                                  1;
}

struct td_change *
change_batch_seal(struct change_batch *batch)
{
    struct td_change *list = (void *)batch->list.data;
    const struct td_link *next = (const void *)batch->links.data;

    for (size_t i = 0; i < change_batch_count(batch); i++) {
        list[i].links = NULL;
        if (list[i].n_links == 0)
            continue;
        list[i].links = next;
        next += list[i].n_links;
    }
    return list;
}

/* Entries of documents */

/* ` change="created"` and `,"change":"created"`: all kinds have that length. */
#define XML_KIND_SIZE  (sizeof(" change=\"created\"") - 1)
#define JSON_KIND_SIZE (sizeof(",\"change\":\"created\"") - 1)

/* Writes the entry's XML after the fragment in `line`: with the stamps that it
 * has. */
static struct slice
write_xml(struct buf *line, const struct fragment *f,
          const struct change *change, bool is_change)
{
    size_t begin = line->size;
    size_t kind = is_change ? f->hole : f->hole - XML_KIND_SIZE;

    if (!buf_room(line, f->size + FRAGMENT_STAMP_MAX)) /* no later move */
        return SLICE("");
    buf_add(line, line->data, kind);
    if (is_change && change->datetime_us != DATETIME_NONE)
        buf_add_format(line, " datetime=\"%s\"",
                       datetime_text(change->datetime_us).text);
    if (is_change && change->seq)
        buf_add_format(line, " td:seq=\"%" PRIu64 "\"", change->seq);
    if (is_change && change->source_us != DATETIME_NONE)
        buf_add_format(line, " td:datetime=\"%s\"",
                       datetime_text_short(change->source_us).text);
    buf_add(line, line->data + f->hole, f->size - f->hole - 1);
    return (struct slice){line->data + begin, line->size - begin};
}

static struct slice
write_json(struct buf *line, const struct change *change, bool is_change)
{
    size_t kind;

    buf_clear(line);
    if (!is_change) {
        BUF_ADD(line, "{\"loc\":");
        json_text(line, change->loc);
    }
    kind = line->size;
    buf_clear(line);
    json_change(line, change);
    if (line->failed)
        return SLICE("");
    if (!is_change) {
        memmove(line->data + kind, line->data + kind + JSON_KIND_SIZE,
                line->size - kind - JSON_KIND_SIZE);
        line->size -= JSON_KIND_SIZE;
    }
    return buf_slice(line);
}

/* Adds a change with its text. NULL: no memory. */
static struct td_change *
add_with_text(struct change_batch *batch, const struct change *change,
              struct slice text)
{
    struct td_change *added = change_batch_keep(batch, change);

    if (!added)
        return NULL;
    added->text = add_text(batch, text);
    added->text_size = text.size;
    return added;
}

/* An entry too long for a text is handed over without one, whatever the filter,
 * so that none is missed. */
enum status
change_batch_add(struct change_batch *batch, const struct filter *filter,
                 const struct document_entry *entry, bool is_change,
                 const char *file)
{
    struct change change = entry->change;
    struct slice text = SLICE("");
    struct td_change *added;
    struct fragment f;

    if (is_change)
        change.datetime_us = entry->when_us;
    if (filter_drops_data(filter))
        change.data.size = 0;
    buf_clear(&batch->line);
    if (!fragment_write(&batch->line, &change, &f, NULL)) {
        if (filter->text_size &&
            !filter_passes(filter, buf_slice(&batch->line), f.hole))
            return STATUS_OK;
        text = batch->form == TD_XML
                   ? write_xml(&batch->line, &f, &change, is_change)
                   : write_json(&batch->line, &change, is_change);
    }

    added = add_with_text(batch, &change, text);
    if (!added)
        return STATUS_MEMORY;
    if (!is_change)
        added->change = NULL;
    if (file)
        added->file = add_text(batch, slice_of(file));
    return is_failed(batch) ? STATUS_MEMORY : STATUS_OK;
}

/* Fragments of the log */

static bool
is_hash(struct buf *to, struct slice hash)
{
    buf_clear(to);
    return !hash.size || (!hash_normalise(to, hash, NULL) &&
                          slice_equal(buf_slice(to), hash));
}

/* True if a broker accepts the change, and writes it as this fragment. */
static bool
is_written(struct buf *line, const struct change *change, struct slice fragment)
{
    struct fragment f;
    size_t size;
    char *stamped;
    enum status rc =
        change->data.size > 0 ? data_check(change->data) : STATUS_OK;

    line->failed |= rc == STATUS_MEMORY;
    if (rc || change_check(change, NULL) || !is_hash(line, change->hash))
        return false;
    for (size_t i = 0; i < change->n_links; i++)
        if (!is_hash(line, change->links[i].hash))
            return false;
    buf_clear(line);
    if (fragment_write(line, change, &f, NULL))
        return false;
    f.datetime_us = change->source_us;
    stamped = buf_room(line, f.size + FRAGMENT_STAMP_MAX);
    if (!stamped)
        return false;
    size = fragment_stamp(stamped, line->data, &f, change->datetime_us,
                          change->seq);
    return slice_equal((struct slice){stamped, size}, fragment);
}

/* Adds the entry that was read from the fragment. */
static enum status
add_fragment(struct change_batch *batch, const struct filter *filter,
             struct entry *entry, struct slice fragment)
{
    struct slice text = {fragment.data, fragment.size - 1};
    struct fragment_view view;
    enum status rc;

    if (filter->text_size) {
        rc = fragment_view(fragment, &view);
        if (rc || !filter_passes(filter, fragment, view.stamp))
            return rc;
    }
    if (filter_drops_data(filter)) {
        entry->change.data.size = 0;
        buf_clear(&batch->line);
        fragment_without_data(&batch->line, fragment);
        if (batch->line.failed)
            return STATUS_MEMORY;
        text = (struct slice){batch->line.data, batch->line.size - 1};
    }
    if (batch->form == TD_JSON) {
        text = write_json(&batch->line, &entry->change, true);
        if (batch->line.failed)
            return STATUS_MEMORY;
    }
    return !add_with_text(batch, &entry->change, text) || is_failed(batch)
               ? STATUS_MEMORY
               : STATUS_OK;
}

enum status
change_batch_add_fragment(struct change_batch *batch,
                          const struct filter *filter, struct entry *entry,
                          struct slice fragment)
{
    enum status rc = fragment_read(entry, fragment);

    if (rc)
        return rc;
    if (!is_written(&batch->line, &entry->change, fragment))
        return batch->line.failed ? STATUS_MEMORY : STATUS_MALFORMED;
    return add_fragment(batch, filter, entry, fragment);
}

enum status
change_batch_add_line(struct change_batch *batch, const struct filter *filter,
                      struct entry *entry, struct slice line)
{
    enum status rc = fragment_read(entry, line);

    return rc ? rc : add_fragment(batch, filter, entry, line);
}
