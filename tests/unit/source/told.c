#include "tests/unit/source/told.h"

void
told_time(struct buf *to, const char *name, int64_t us)
{
    char time[DATETIME_SIZE];

    if (us == DATETIME_NONE)
        return;
    buf_add_format(to, " %s=", name);
    buf_add(to, time, datetime_write_short(time, us));
}

static void
add(struct buf *to, const char *name, struct slice value)
{
    if (value.size > 0)
        buf_add_format(to, " %s=%.*s", name, SLICE_ARG(value));
}

static void
add_link(struct buf *to, const char *what, const struct link *link)
{
    buf_add_format(to, "%s %.*s %.*s", what, SLICE_ARG(link->rel),
                   SLICE_ARG(link->href));
    add(to, "type", link->type);
    add(to, "hash", link->hash);
    add(to, "path", link->path);
    if (link->length != LENGTH_NONE)
        buf_add_format(to, " length=%llu", (unsigned long long)link->length);
    if (link->pri)
        buf_add_format(to, " pri=%u", link->pri);
    told_time(to, "modified", link->modified_us);
    if (link->has_digest)
        BUF_ADD(to, " digest");
    BUF_ADD(to, "\n");
}

void
told_entry(struct buf *to, const struct document_entry *entry)
{
    const struct change *change = &entry->change;

    buf_add_format(to, "%s %.*s",
                   entry->has_kind ? change_kind_names[change->kind] : "entry",
                   SLICE_ARG(change->loc));
    told_time(to, "datetime", change->datetime_us);
    if (change->lastmod_us != DATETIME_NONE)
        buf_add_format(to, " lastmod=%s", change_lastmod(change).text);
    if (change->seq)
        buf_add_format(to, " seq=%llu", (unsigned long long)change->seq);
    if (change->length != LENGTH_NONE)
        buf_add_format(to, " length=%llu", (unsigned long long)change->length);
    add(to, "hash", change->hash);
    add(to, "type", change->type);
    add(to, "encoding", change->encoding);
    add(to, "changefreq", change->changefreq);
    add(to, "priority", change->priority);
    add(to, "tags", change->tags);
    add(to, "title", change->title);
    add(to, "summary", change->summary);
    add(to, "author", change->author);
    add(to, "data", change->data);
    add(to, "capability", entry->capability);
    add(to, "path", entry->path);
    told_time(to, "at", entry->at_us);
    told_time(to, "completed", entry->completed_us);
    told_time(to, "from", entry->from_us);
    told_time(to, "until", entry->until_us);
    if (change->n_attributes)
        buf_add_format(to, " foreign=%zu", change->n_attributes);
    BUF_ADD(to, "\n");
    for (size_t i = 0; i < change->n_links; i++)
        add_link(to, "  ", &change->links[i]);
}

static enum status
on_link(const struct link *link, void *user)
{
    add_link(user, "link", link);
    return STATUS_OK;
}

static enum status
on_entry(const struct document_entry *entry, const struct document_head *head,
         void *user)
{
    (void)head;
    told_entry(user, entry);
    return STATUS_OK;
}

static void
add_head(struct buf *to, const struct document_head *head)
{
    buf_add_format(to, "%s %s", head->is_index ? "index" : "list",
                   head->has_capability ? capability_names[head->capability]
                                        : "-");
    told_time(to, "at", head->at_us);
    told_time(to, "completed", head->completed_us);
    told_time(to, "from", head->from_us);
    told_time(to, "until", head->until_us);
    if (head->td.epoch[0])
        buf_add_format(to, " epoch=%s", head->td.epoch);
    if (head->has_td_range)
        buf_add_format(to, " after=%llu last=%llu",
                       (unsigned long long)head->td.after,
                       (unsigned long long)head->td.last);
    buf_add_format(to, " n=%llu", (unsigned long long)head->n_entries);
    BUF_ADD(to, "\n");
    if (list_report_n(&head->report, LIST_MENDED)) {
        BUF_ADD(to, "mended: ");
        list_report_write(to, &head->report, LIST_MENDED);
        BUF_ADD(to, "\n");
    }
    if (list_report_n(&head->report, LIST_LEFT_OUT)) {
        BUF_ADD(to, "left out: ");
        list_report_write(to, &head->report, LIST_LEFT_OUT);
        BUF_ADD(to, "\n");
    }
}

enum status
told_read(struct told *told, const char *base, struct slice document,
          size_t step)
{
    static const struct document_events events = {on_link, on_entry};
    struct document *d;
    enum status rc = STATUS_OK;

    *told = (struct told){.why = {.text = ""}};
    buf_init(&told->text, SIZE_MAX);
    d = document_new(base, &events, &told->text);
    if (!d)
        return STATUS_MEMORY;
    while (!rc && document.size > 0) {
        size_t size = step < document.size ? step : document.size;

        rc = document_feed(d, (struct slice){document.data, size}, &told->why);
        document.data += size;
        document.size -= size;
    }
    if (!rc)
        rc = document_end(d, &told->why);
    told->head = *document_head(d);
    document_free(d);
    add_head(&told->text, &told->head);
    buf_add(&told->text, "", 1);
    return rc;
}

void
told_fini(struct told *told)
{
    buf_fini(&told->text);
}
