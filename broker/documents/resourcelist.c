/*
 * resourcelist.c - Resource Lists and their indexes: of the current generation,
 * and of each kept one.
 *
 * All of them are files (generation_document.h). The pages for people, and the
 * Sitemaps without ResourceSync's elements, are made from these.
 */
#include "broker/documents/generation_document.h"
#include "broker/documents/resourcelist_views.h"

static enum status
open_part(const struct document_wish *wish, uint64_t generation, uint64_t part,
          struct document *document, struct problem *why)
{
    return generation_document_open(wish, generation, GENERATION_DOCUMENT, part,
                                    document, why);
}

/* Reads the list once to measure it, then again. */
static enum status
open_plain(const struct document_wish *wish, uint64_t generation, uint64_t part,
           struct document *document, struct problem *why)
{
    uint64_t size;
    enum status rc = open_part(wish, generation, part, document, why);

    if (rc)
        return rc;
    rc = resourcelist_views_plain_size(document, &size, why);
    document_close(document);
    if (!rc)
        rc = open_part(wish, generation, part, document, why);
    if (rc)
        return rc;
    rc = resourcelist_views_plain(document, size, why);
    if (rc)
        document_close(document);
    return rc;
}

static enum status
open_page(const struct document_wish *wish, uint64_t generation, uint64_t part,
          struct document *document, struct problem *why)
{
    const struct resourcelist_views_page page = {
        .wish = wish,
        .generation = generation,
        .part = part,
        .has_next = part != GENERATION_INDEX &&
                    generation_document_has(wish, generation, part + 1),
        .has_several =
            generation_document_has(wish, generation, GENERATION_INDEX),
    };
    enum status rc = open_part(wish, generation, part, document, why);

    if (rc)
        return rc;
    rc = resourcelist_views_html(document, &page, why);
    if (rc)
        document_close(document);
    return rc;
}

static enum status
open_form(const struct document_wish *wish, uint64_t generation, uint64_t part,
          struct document *document, struct problem *why)
{
    switch (wish->form) {
    case DOCUMENT_PLAIN:
        return open_plain(wish, generation, part, document, why);
    case DOCUMENT_HTML:
        return open_page(wish, generation, part, document, why);
    case DOCUMENT_XML:
        break;
    }
    return open_part(wish, generation, part, document, why);
}

/* Opens the address of the capability: the list itself, or the index of its
 * parts. */
enum status
resourcelist_current_open(const struct document_wish *wish,
                          struct document *document, struct problem *why)
{
    const struct generation *current =
        &wish->head.generations[wish->kind].current;
    enum status rc;

    if (current->number == 0)
        return generation_document_none(wish, why);
    if (wish->patience == LOG_MEMORY)
        return STATUS_AGAIN;
    rc = open_form(wish, current->number,
                   current->parts > 1 ? GENERATION_INDEX : 1, document, why);
    if (rc == STATUS_NOT_FOUND &&
        !generation_document_has(wish, current->number, 1))
        rc = problem(why, STATUS_IO, "the Resource List is not on the disk");
    if (!rc)
        document->modified_us = generation_document_since(wish);
    return rc;
}

/* Opens an immutable generation. */
static enum status
open_kept(const struct document_wish *wish, uint64_t part,
          struct document *document, struct problem *why)
{
    enum status rc = open_form(wish, wish->number, part, document, why);

    if (!rc)
        document->is_final = wish->form != DOCUMENT_HTML;
    return rc;
}

enum status
resourcelist_part_open(const struct document_wish *wish,
                       struct document *document, struct problem *why)
{
    enum status rc;

    if (wish->patience == LOG_MEMORY)
        return STATUS_AGAIN;
    rc = generation_document_check(wish, why);
    return rc ? rc : open_kept(wish, wish->last, document, why);
}

/* Opens a generation: its index, or its only list. */
enum status
resourcelist_generation_open(const struct document_wish *wish,
                             struct document *document, struct problem *why)
{
    bool has_index;
    enum status rc;

    if (wish->patience == LOG_MEMORY)
        return STATUS_AGAIN;
    rc = generation_document_check(wish, why);
    if (rc)
        return rc;
    has_index = generation_document_has(wish, wish->number, GENERATION_INDEX);
    return open_kept(wish, has_index ? GENERATION_INDEX : 1, document, why);
}
