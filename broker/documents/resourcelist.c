/*
 * resourcelist.c - Resource Lists and their indexes: of the current generation,
 * and of each kept one.
 *
 * All of them are files (generation_document.h), except the list of a small
 * set, which is made of its few entries for each reader. A plain Sitemap is
 * made from these for crawlers that reject ResourceSync's elements:
 * line by line, because an entry is a line (lines.h).
 */

#include "broker/builds/generation.h"
#include "broker/documents/document.h"
#include "broker/documents/generation_document.h"
#include "broker/sets/set_links.h"
#include "proto/resourcesync/document_write.h"
#include "proto/resourcesync/fragment.h"

/* Plain */

#define PLAIN_PIECE ((size_t)64 * 1024)

#define PLAIN_ROOT(name) "<" name " xmlns=\"" NS_SITEMAP "\">\n"

/* Adds only a Sitemap's elements. An index leads to plain parts, too. */
static void
add_plain(struct buf *to, struct slice line)
{
    struct slice loc = lines_between(line, "<loc>", "</loc>");

    if (slice_starts(line, "<url>")) {
        static const char *const elements[][2] = {
            {"<lastmod>", "</lastmod>"},
            {"<changefreq>", "</changefreq>"},
            {"<priority>", "</priority>"},
        };

        BUF_ADD(to, "<url><loc>");
        buf_add_slice(to, loc);
        BUF_ADD(to, "</loc>");
        for (size_t i = 0; i < N_ELEMENTS(elements); i++) {
            struct slice text =
                lines_between(line, elements[i][0], elements[i][1]);

            if (text.size == 0)
                continue;
            buf_add_text(to, elements[i][0]);
            buf_add_slice(to, text);
            buf_add_text(to, elements[i][1]);
        }
        BUF_ADD(to, "</url>\n");
    } else if (slice_starts(line, "<sitemap>")) {
        BUF_ADD(to, "<sitemap><loc>");
        buf_add_slice(to, loc);
        BUF_ADD(to, "?plain</loc></sitemap>\n");
    } else if (slice_starts(line, "<urlset")) {
        BUF_ADD(to, PLAIN_ROOT("urlset"));
    } else if (slice_starts(line, "<sitemapindex")) {
        BUF_ADD(to, PLAIN_ROOT("sitemapindex"));
    } else if (!slice_starts(line, "<rs:")) {
        buf_add_slice(to, line);
    }
}

struct plain {
    struct body body;
    struct body *xml;
    struct lines lines;
    struct buf text;
};

static enum body_result
plain_next(struct body *body, bool may_block, struct slice *piece)
{
    struct plain *p = (struct plain *)(void *)body;
    enum status rc = STATUS_OK;
    struct slice line;

    if (!may_block)
        return BODY_WAITS;
    buf_clear(&p->text);
    while (!rc && p->text.size < PLAIN_PIECE) {
        rc = lines_next(&p->lines, &line);
        if (!rc)
            add_plain(&p->text, line);
    }
    if (p->text.failed || (rc && rc != STATUS_NOT_FOUND))
        return BODY_FAILED;
    *piece = buf_slice(&p->text);
    return p->text.size > 0 ? BODY_DATA : BODY_END;
}

static void
plain_free(struct body *body)
{
    struct plain *p = (struct plain *)(void *)body;

    p->xml->free(p->xml);
    buf_fini(&p->lines.line);
    buf_fini(&p->text);
    free(p);
}

/* Makes the plain Sitemap of a body, which it takes over. */
static struct body *
plain_new(struct body *xml, uint64_t size)
{
    struct plain *p = memory_new(1, sizeof(*p));

    p->body = (struct body){size, plain_next, plain_free, NULL};
    p->xml = xml;
    lines_init(&p->lines, xml);
    buf_init(&p->text, PLAIN_PIECE + FRAGMENT_MAX + DOCUMENT_FRAME_MAX);
    return &p->body;
}

/* Small sets */

/* The number of the list of a small set, which no build has. */
#define SMALL 0

struct few {
    struct buf bytes;
    size_t n;

    struct few_row {
        size_t at, size; /* of an entry, in `bytes` */
    } rows[SET_FEW_ENTRIES];
};

static struct slice
entry_of(const struct few *few, size_t i)
{
    return (struct slice){few->bytes.data + few->rows[i].at, few->rows[i].size};
}

/* Applies a change, so that the rows are those of a state, in the same order
 * (broker/state/resources.h). */
static void
fold_change(struct few *few, struct slice fragment, uint32_t stamp)
{
    struct slice loc = fragment_loc(fragment);
    struct few_row row = {.at = few->bytes.size};
    size_t i = 0;

    while (i < few->n && !slice_equal(fragment_loc(entry_of(few, i)), loc))
        i++;
    if (fragment_kind(fragment.data, stamp) == CHANGE_DELETED) {
        if (i < few->n)
            memmove(&few->rows[i], &few->rows[i + 1],
                    (--few->n - i) * sizeof(row));
        return;
    }
    fragment_resource(&few->bytes, fragment, stamp);
    row.size = few->bytes.size - row.at;
    few->rows[i] = row;
    few->n += i == few->n;
}

/* Folds the first entries of the log, up to `last`. *at_us: when that was. */
static enum status
fold_log(const struct document_wish *wish, uint64_t last, struct few *few,
         int64_t *at_us, struct problem *why)
{
    enum status rc = STATUS_OK;
    uint64_t seq = 0;

    while (!rc && seq < last) {
        struct batch *batch = NULL;

        rc = log_read(registry_log(wish->registry), wish->set->log, seq,
                      wish->patience, &batch, why);
        if (!rc && !batch)
            rc = problem(why, STATUS_IO, "the log of the set ends too soon");
        for (; !rc && seq < batch->last && seq < last; seq++)
            fold_change(few, batch_slice(batch, seq, seq + 1),
                        batch->entries[seq + 1 - batch->first].stamp);
        if (!rc)
            *at_us = batch_time(batch, seq);
        batch_unref(batch);
    }
    return rc == STATUS_GONE ? problem(why, STATUS_BUSY,
                                       "the set is about to get its first "
                                       "Resource List")
                             : rc;
}

/* Forms */

/* Opens a part of a generation; or the list of a set without a build
 * (set_offers): of its first few entries. STATUS_BUSY: they are too long for
 * that, and the archive thread builds a list instead. */
static enum status
open_part(const struct document_wish *wish, uint64_t generation, uint64_t part,
          struct document *document, struct problem *why)
{
    struct link_text up = set_link(wish->set, LINK_CAPABILITYLIST);
    const struct document_link links[] = {{"up", link_slice(&up), NULL}};
    struct coverage coverage = {
        .last = wish->head.last < SET_FEW_ENTRIES ? wish->head.last
                                                  : SET_FEW_ENTRIES - 1,
        .from_us = DATETIME_NONE,
        .until_us = DATETIME_NONE,
        .now_us = DATETIME_NONE,
    };
    struct document_head head = {
        .root = DOCUMENT_URLSET,
        .capability = CAP_RESOURCELIST,
        .links = links,
        .n_links = 1,
        .at_us = wish->head.created_us,
        .from_us = DATETIME_NONE,
        .until_us = DATETIME_NONE,
        .coverage = &coverage,
    };
    struct few few = {.n = 0};
    struct buf text;
    enum status rc;

    if (generation != SMALL)
        return generation_document_open(wish, generation, GENERATION_DOCUMENT,
                                        part, document, why);
    buf_init(&few.bytes, SET_FEW_BYTES);
    buf_init(&text, SET_FEW_BYTES + DOCUMENT_FRAME_MAX);
    rc = fold_log(wish, coverage.last, &few, &head.at_us, why);
    if (few.bytes.failed) {
        atomic_store_explicit(&wish->set->is_long, true, memory_order_relaxed);
        rc = problem(why, STATUS_BUSY, "the Resource List is being built");
    }
    if (!rc) {
        memcpy(coverage.epoch, wish->head.epoch, sizeof(coverage.epoch));
        document_header(&text, &head);
        for (size_t i = 0; i < few.n; i++)
            buf_add_slice(&text, entry_of(&few, i));
        document_footer(&text, DOCUMENT_URLSET);
    }
    buf_fini(&few.bytes);
    return document_of_text(document, &text, rc, why);
}

/* Makes a plain Sitemap of a document: reads it once to measure it, then
 * again. Every version that writes the same bytes makes the same tag, so its
 * last step stays: it once added a URL. */
static enum status
open_form(const struct document_wish *wish, uint64_t generation, uint64_t part,
          struct document *document, struct problem *why)
{
    enum body_result result = BODY_DATA;
    struct slice piece = {NULL, 0};
    struct digest tag;
    uint64_t size = 0;
    enum status rc = open_part(wish, generation, part, document, why);

    if (rc || wish->form != DOCUMENT_PLAIN)
        return rc;
    document->body = plain_new(document->body, 0);
    while (result == BODY_DATA) {
        size += piece.size;
        result = document->body->next(document->body, true, &piece);
    }
    document_close(document);
    if (result != BODY_END)
        return problem(why, STATUS_IO, "the Resource List cannot be read");
    rc = open_part(wish, generation, part, document, why);
    if (rc)
        return rc;
    document->body = plain_new(document->body, size);
    if (document->gzip)
        document->gzip->free(document->gzip);
    document->gzip = NULL;
    document->may_be_packed = false;
    digest_start(
        &tag, (struct slice){(const char *)document->tag.bytes, DIGEST_SIZE});
    digest_add(&tag, SLICE(TIDINGS_VERSION " plain 0"));
    digest_add(&tag, SLICE(""));
    document->tag = tag;
    return STATUS_OK;
}

/* Addresses */

/* Opens generation `number`: its list, or the index of its parts. */
static enum status
open_generation(const struct document_wish *wish, uint64_t number,
                struct document *document, struct problem *why)
{
    bool has_index = generation_document_has(wish, number, GENERATION_INDEX);

    return open_form(wish, number, has_index ? GENERATION_INDEX : 1, document,
                     why);
}

/* Opens the address of the capability: the list itself, or the index of its
 * parts. A broker of a cluster that has not built the current one has
 * the former one. */
enum status
resourcelist_current_open(const struct document_wish *wish,
                          struct document *document, struct problem *why)
{
    const struct generation *current =
        &wish->head.generations[wish->kind].current;
    struct link_text lasting;
    uint64_t number;
    enum status rc;

    if (!set_offers(wish->set, &wish->head, wish->kind))
        return generation_document_none(wish, why);
    if (current->number == 0)
        return open_form(wish, SMALL, 1, document, why);
    if (wish->patience == LOG_MEMORY)
        return STATUS_AGAIN;
    number = generation_last_here(wish->set, wish->kind, &wish->head);
    if (number == 0)
        return problem(why, STATUS_BUSY,
                       "this broker has not built the Resource List yet");
    rc = open_generation(wish, number, document, why);
    if (rc == STATUS_NOT_FOUND && !generation_document_has(wish, number, 1))
        rc = problem(why, STATUS_IO, "the Resource List is not on the disk");
    if (rc)
        return rc;
    document->modified_us = number == current->number
                                ? generation_document_since(wish)
                                : DATETIME_NONE;
    lasting = set_link_generation(wish->set, wish->kind, number);
    memcpy(document->lasting, lasting.text, sizeof(document->lasting));
    return STATUS_OK;
}

/* Opens an immutable generation, or its part `wish->last`. */
enum status
resourcelist_generation_open(const struct document_wish *wish,
                             struct document *document, struct problem *why)
{
    enum status rc = generation_document_check(wish, why);

    if (!rc)
        rc = wish->last
                 ? open_form(wish, wish->number, wish->last, document, why)
                 : open_generation(wish, wish->number, document, why);
    if (!rc)
        document->is_final = true;
    return rc;
}
