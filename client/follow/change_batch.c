/*
 * change_batch.c - entries of documents, as changes of messages.
 */
#include "client/follow/change_batch.h"

#include <string.h>

#include "proto/fragment.h"
#include "proto/json.h"
#include "proto/number.h"

/* ` change="created"` and `,"change":"created"`: all kinds have that length. */
#define XML_KIND_SIZE  (sizeof(" change=\"created\"") - 1)
#define JSON_KIND_SIZE (sizeof(",\"change\":\"created\"") - 1)

void
batch_init(struct batch *batch, enum td_form form)
{
    batch->form = form;
    changes_init(&batch->changes);
    buf_init(&batch->line, 8 * FRAGMENT_MAX);
}

void
batch_fini(struct batch *batch)
{
    changes_fini(&batch->changes);
    buf_fini(&batch->line);
}

void
batch_clear(struct batch *batch)
{
    changes_clear(&batch->changes);
}

static void
add_stamp(struct buf *to, const struct change *change)
{
    char time[DATETIME_SIZE];

    if (change->datetime_us != DATETIME_NONE) {
        datetime_write(time, change->datetime_us);
        BUF_ADD(to, " datetime=\"");
        buf_add(to, time, sizeof(time));
        BUF_ADD(to, "\"");
    }
    if (change->seq) {
        BUF_ADD(to, " td:seq=\"");
        buf_add_number(to, change->seq);
        BUF_ADD(to, "\"");
    }
    if (change->source_us != DATETIME_NONE) {
        BUF_ADD(to, " td:datetime=\"");
        buf_add(to, time, datetime_write_short(time, change->source_us));
        BUF_ADD(to, "\"");
    }
}

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
    if (is_change)
        add_stamp(line, change);
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
        json_string(line, change->loc);
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

/* An entry too long for a text is handed over without one, whatever the filter,
 * so that none is missed. */
enum status
batch_add(struct batch *batch, const struct filter *filter,
          const struct document_entry *entry, bool is_change, const char *file)
{
    struct link links[CHANGE_LINKS_MAX];
    struct change change = document_change(entry, links);
    struct slice text = SLICE("");
    struct td_change *told;
    struct fragment f;

    if (is_change)
        change.datetime_us = entry->when_us;
    buf_clear(&batch->line);
    if (!fragment_write(&batch->line, &change, &f, NULL)) {
        if (filter->text_size &&
            !filter_passes(filter, buf_slice(&batch->line), f.hole))
            return STATUS_OK;
        text = batch->form == TD_XML
                   ? write_xml(&batch->line, &f, &change, is_change)
                   : write_json(&batch->line, &change, is_change);
    }

    change.n_links = 0; /* below, with their paths */
    told = changes_add(&batch->changes, &change);
    if (!told)
        return STATUS_MEMORY;
    if (!is_change)
        told->change = NULL;
    told->text = changes_text(&batch->changes, text);
    told->text_size = text.size;
    if (file)
        told->file = changes_text(&batch->changes, slice_of(file));
    for (size_t i = 0; i < entry->n_links && i < CHANGE_LINKS_MAX; i++)
        changes_link(&batch->changes, &links[i], entry->links[i].path);
    return changes_failed(&batch->changes) ? STATUS_MEMORY : STATUS_OK;
}
