/*
 * entry_copy.c - copies an entry with everything that it points at into one
 * block of memory, the aligned structs first.
 */
#include "client/source/entry_copy.h"

/* Where the next parts go; all NULL: they are only measured. */
struct copier {
    struct link *links;
    struct attribute *attributes;
    char *text;
    size_t size; /* of the parts so far */
};

/* The last one is NULL. */
static void
copy_texts(struct copier *to, struct slice *const *texts)
{
    for (; *texts; texts++) {
        struct slice *text = *texts;

        to->size += text->size;
        if (!to->text)
            continue;
        if (text->size > 0)
            memcpy(to->text, text->data, text->size);
        text->data = to->text;
        to->text += text->size;
    }
}

#define COPY_TEXTS(to, ...) \
    copy_texts((to), (struct slice *const[]){__VA_ARGS__, NULL})

static void
copy_attributes(struct copier *to, const struct attribute **attributes,
                size_t n)
{
    const struct attribute *from = *attributes;

    *attributes = to->attributes;
    to->size += n * sizeof(*from);
    for (size_t i = 0; i < n; i++) {
        struct attribute copy = from[i];

        COPY_TEXTS(to, &copy.ns, &copy.prefix, &copy.name, &copy.value);
        if (to->attributes)
            *to->attributes++ = copy;
    }
}

static struct document_entry
copy_entry(struct copier *to, const struct document_entry *from)
{
    struct document_entry entry = *from;
    struct change *c = &entry.change;

    c->links = to->links;
    COPY_TEXTS(to, &c->loc, &c->changefreq, &c->priority, &c->hash, &c->type,
               &c->encoding, &c->tags, &c->capability, &c->title, &c->summary,
               &c->author, &c->data, &c->traceparent, &entry.capability,
               &entry.path);
    copy_attributes(to, &c->attributes, c->n_attributes);
    for (size_t i = 0; i < c->n_links; i++) {
        struct link link = from->change.links[i];

        COPY_TEXTS(to, &link.rel, &link.href, &link.type, &link.hash,
                   &link.path, &link.encoding);
        copy_attributes(to, &link.attributes, link.n_attributes);
        to->size += sizeof(link);
        if (to->links)
            *to->links++ = link;
    }
    to->size += sizeof(entry);
    return entry;
}

size_t
entry_copy_size(const struct document_entry *entry)
{
    struct copier measure = {.size = 0};

    copy_entry(&measure, entry);
    return measure.size;
}

struct document_entry *
entry_copy_new(const struct document_entry *from, size_t size)
{
    const struct change *c = &from->change;
    struct document_entry *copy = malloc(size);
    struct copier to = {.size = 0};
    size_t n_attributes = c->n_attributes;

    if (!copy)
        return NULL;
    for (size_t i = 0; i < c->n_links; i++)
        n_attributes += c->links[i].n_attributes;
    to.links = (struct link *)(void *)(copy + 1);
    to.attributes = (struct attribute *)(void *)(to.links + c->n_links);
    to.text = (char *)(to.attributes + n_attributes);
    *copy = copy_entry(&to, from);
    return copy;
}

/*
 * A queue of entries of a document.
 */

void
entry_queue_init(struct entry_queue *entries)
{
    entries->first = 0;
    buf_init(&entries->all, SIZE_MAX / 2);
}

void
entry_queue_fini(struct entry_queue *entries)
{
    struct document_entry *copy;

    while ((copy = entry_queue_take(entries)))
        free(copy);
    buf_fini(&entries->all);
}

enum status
entry_queue_add(struct entry_queue *entries, const struct document_entry *entry)
{
    struct document_entry *copy = entry_copy_new(entry, entry_copy_size(entry));

    if (copy)
        buf_add(&entries->all, &copy, sizeof(copy));
    if (copy && !entries->all.failed)
        return STATUS_OK;
    free(copy);
    return STATUS_MEMORY;
}

/* The caller takes all entries before more come: so the front is free again. */
struct document_entry *
entry_queue_take(struct entry_queue *entries)
{
    struct document_entry **all = (void *)entries->all.data;

    if (entries->first * sizeof(*all) < entries->all.size)
        return all[entries->first++];
    entries->first = 0;
    buf_clear(&entries->all);
    return NULL;
}
