/*
 * entry_copy.c - copies an entry with everything that it points at into one
 * block of memory, the aligned structs first.
 */
#include "client/source/entry_copy.h"

#include <stdlib.h>

struct piece {
    struct document_entry *entry;
    struct link *links;
    struct document_link *document_links;
    struct attribute *attributes;
    char *text;
};

static void
copy_text(struct piece *p, struct slice *text)
{
    if (text->size > 0)
        memcpy(p->text, text->data, text->size);
    text->data = p->text;
    p->text += text->size;
}

static size_t
attributes_size(const struct attribute *a, size_t n)
{
    size_t size = n * sizeof(*a);

    for (size_t i = 0; i < n; i++)
        size +=
            a[i].ns.size + a[i].prefix.size + a[i].name.size + a[i].value.size;
    return size;
}

static const struct attribute *
copy_attributes(struct piece *p, const struct attribute *from, size_t n)
{
    struct attribute *to = p->attributes;

    for (size_t i = 0; i < n; i++) {
        to[i] = from[i];
        copy_text(p, &to[i].ns);
        copy_text(p, &to[i].prefix);
        copy_text(p, &to[i].name);
        copy_text(p, &to[i].value);
    }
    p->attributes += n;
    return to;
}

size_t
entry_copy_size(const struct document_entry *e)
{
    const struct change *c = &e->change;
    size_t size =
        sizeof(*e) + e->n_links * (sizeof(*e->links) + sizeof(*c->links)) +
        c->loc.size + c->changefreq.size + c->priority.size + c->hash.size +
        c->type.size + c->encoding.size + c->tags.size + c->capability.size +
        e->capability.size + e->path.size;

    size += attributes_size(c->attributes, c->n_attributes);
    for (size_t i = 0; i < e->n_links; i++) {
        const struct document_link *link = &e->links[i];
        const struct link *same = &c->links[i];

        size += link->rel.size + link->href.size + link->type.size +
                link->hash.size + link->path.size + same->encoding.size +
                attributes_size(same->attributes, same->n_attributes);
    }
    return size;
}

static size_t
count_attributes(const struct change *c)
{
    size_t n = c->n_attributes;

    for (size_t i = 0; i < c->n_links; i++)
        n += c->links[i].n_attributes;
    return n;
}

static void
copy_links(struct piece *p, const struct document_entry *from)
{
    for (size_t i = 0; i < from->n_links; i++) {
        struct document_link *link = &p->document_links[i];
        struct link *same = &p->links[i];

        *link = from->links[i];
        *same = from->change.links[i];
        copy_text(p, &link->rel);
        copy_text(p, &link->href);
        copy_text(p, &link->type);
        copy_text(p, &link->hash);
        copy_text(p, &link->path);
        same->rel = link->rel;
        same->href = link->href;
        same->type = link->type;
        same->hash = link->hash;
        copy_text(p, &same->encoding);
        same->attributes =
            copy_attributes(p, same->attributes, same->n_attributes);
    }
}

struct document_entry *
entry_copy_new(const struct document_entry *from, size_t size)
{
    struct document_entry *to = malloc(size);
    struct change *c = &to->change;
    struct piece p = {.entry = to};

    if (!to)
        return NULL;
    *to = *from;
    p.links = (struct link *)(void *)(to + 1);
    p.document_links =
        (struct document_link *)(void *)(p.links + from->n_links);
    p.attributes =
        (struct attribute *)(void *)(p.document_links + from->n_links);
    p.text = (char *)(p.attributes + count_attributes(&from->change));
    copy_text(&p, &c->loc);
    copy_text(&p, &c->changefreq);
    copy_text(&p, &c->priority);
    copy_text(&p, &c->hash);
    copy_text(&p, &c->type);
    copy_text(&p, &c->encoding);
    copy_text(&p, &c->tags);
    copy_text(&p, &c->capability);
    copy_text(&p, &to->capability);
    copy_text(&p, &to->path);
    c->attributes = copy_attributes(&p, c->attributes, c->n_attributes);
    c->links = p.links;
    to->links = p.document_links;
    copy_links(&p, from);
    return to;
}
