#include "tests/support/describe.h"

static void
describe_text(struct buf *to, const char *name, struct slice text)
{
    if (text.size > 0)
        buf_add_format(to, " %s=[%.*s]", name, SLICE_ARG(text));
}

static void
describe_time(struct buf *to, const char *name, int64_t us)
{
    char text[DATETIME_SIZE];

    if (us == DATETIME_NONE)
        return;
    describe_text(to, name,
                  (struct slice){text, datetime_write_short(text, us)});
}

static void
describe_attributes(struct buf *to, const struct attribute *a, size_t n)
{
    for (size_t i = 0; i < n; i++)
        buf_add_format(to, " {%.*s}%.*s=[%.*s]", SLICE_ARG(a[i].ns),
                       SLICE_ARG(a[i].name), SLICE_ARG(a[i].value));
}

static void
describe_link(struct buf *to, const struct link *link)
{
    buf_add_format(to, "\n  %.*s [%.*s]", SLICE_ARG(link->rel),
                   SLICE_ARG(link->href));
    if (link->pri > 0)
        buf_add_format(to, " pri=%u", (unsigned)link->pri);
    describe_time(to, "modified", link->modified_us);
    describe_text(to, "hash", link->hash);
    if (link->length != LENGTH_NONE)
        buf_add_format(to, " length=%llu", (unsigned long long)link->length);
    describe_text(to, "type", link->type);
    describe_text(to, "encoding", link->encoding);
    describe_attributes(to, link->attributes, link->n_attributes);
}

void
describe(struct buf *to, const struct change *change)
{
    buf_add_format(to, "%s [%.*s]", change_kind_names[change->kind],
                   SLICE_ARG(change->loc));
    describe_time(to, "datetime", change->datetime_us);
    describe_time(to, "source", change->source_us);
    if (change->lastmod_us != DATETIME_NONE)
        describe_text(to, "lastmod", slice_of(change_lastmod(change).text));
    if (change->seq > 0)
        buf_add_format(to, " seq=%llu", (unsigned long long)change->seq);
    describe_text(to, "changefreq", change->changefreq);
    describe_text(to, "priority", change->priority);
    describe_text(to, "hash", change->hash);
    if (change->length != LENGTH_NONE)
        buf_add_format(to, " length=%llu", (unsigned long long)change->length);
    describe_text(to, "type", change->type);
    describe_text(to, "encoding", change->encoding);
    describe_text(to, "tags", change->tags);
    describe_attributes(to, change->attributes, change->n_attributes);
    for (size_t i = 0; i < change->n_links; i++)
        describe_link(to, &change->links[i]);
    describe_text(to, "title", change->title);
    describe_text(to, "summary", change->summary);
    describe_text(to, "author", change->author);
    describe_text(to, "data", change->data);
    if (traceparent_is_valid(change->traceparent))
        describe_text(to, "traceparent", change->traceparent);
    BUF_ADD(to, "\n");
}
