/*
 * Documents that a broker has published: their text, then Change Lists, then
 * Resource Lists.
 */
#include "broker/backup/published_documents.h"

#include <zlib.h>

#include "proto/number.h"
#include "proto/resourcesync/document_write.h"

/* The most that is read to find a header. */
#define HEADER_MAX (DOCUMENT_FRAME_MAX + 64)

#define PIECE_BYTES ((size_t)256 << 10)

/* Writes "PATH is damaged: REASON". Returns STATUS_DIFFERENT. */
static enum status
fail_document(const char *path, struct problem *why, const char *reason)
{
    return problem(why, STATUS_DIFFERENT, "%s is damaged: %s", path, reason);
}

enum status
published_read(const char *path, size_t max, struct buf *text,
               struct problem *why)
{
    gzFile from = gzopen(path, "rbe");
    enum status rc = STATUS_OK;
    int n = 1;

    if (!from)
        return problem_errno(why, "cannot open", path);
    while (!rc && n > 0 && text->size < max) {
        size_t room = max - text->size;
        char *to = buf_room(text, room < PIECE_BYTES ? room : PIECE_BYTES);

        if (!to) {
            rc = problem_memory(why);
            break;
        }
        n = gzread(from, to,
                   (unsigned)(room < PIECE_BYTES ? room : PIECE_BYTES));
        if (n < 0)
            rc = fail_document(path, why, gzerror(from, &(int){0}));
        else
            text->size += (size_t)n;
    }
    if (gzclose_r(from) == Z_BUF_ERROR && !rc && max == PUBLISHED_MAX)
        rc = fail_document(path, why, "it is cut off");
    return rc;
}

/* The header: up to the first entry, or the end of the root; empty: none. */
static struct slice
header_of(struct slice text)
{
    static const char *const ends[] = {"\n<url>", "\n<sitemap>", "\n</urlset>",
                                       "\n</sitemapindex>"};
    const char *end = NULL;

    for (size_t i = 0; i < N_ELEMENTS(ends); i++) {
        const char *at = slice_find(text, ends[i]);

        if (at && (!end || at < end))
            end = at;
    }
    return (struct slice){text.data, end ? (size_t)(end + 1 - text.data) : 0};
}

/* Reads all of a document into `text`, in which `entries` points. */
static enum status
cut_document(const char *path, enum document_root root, struct buf *text,
             struct slice *entries, struct problem *why)
{
    struct slice footer = document_footer_of(root), header, all;
    enum status rc = published_read(path, PUBLISHED_MAX, text, why);

    if (rc)
        return rc;
    all = buf_slice(text);
    header = header_of(all);
    if (header.size == 0)
        return fail_document(path, why, "it has no header");
    if (all.size < header.size + footer.size ||
        memcmp(all.data + all.size - footer.size, footer.data, footer.size) !=
            0)
        return fail_document(path, why, "its end is missing");
    *entries = (struct slice){all.data + header.size,
                              all.size - header.size - footer.size};
    return STATUS_OK;
}

/* The first element that begins with `start`, up to its end; empty: none. */
static struct slice
find_element(struct slice header, const char *start)
{
    const char *at = slice_find(header, start);
    const char *end =
        at ? memchr(at, '>', (size_t)(header.data + header.size - at)) : NULL;

    return end ? slice_between(at, end) : (struct slice){NULL, 0};
}

/* The text between the last `before` and the next `after`; empty: none. */
static struct slice
between(struct slice text, const char *before, const char *after)
{
    bool is_there = false;
    const char *end;

    while (slice_skip_past(&text, before))
        is_there = true;
    end = is_there ? slice_find(text, after) : NULL;
    return end ? slice_between(text.data, end) : (struct slice){NULL, 0};
}

/* Change Lists */

/* The number in the address of a list; 0: none. */
static uint64_t
number_of(const char *href)
{
    uint64_t number = 0;

    return number_read(between(slice_of(href), "/changes/", ".xml"), &number) &&
                   number < INT64_MAX
               ? number
               : 0;
}

/* The number of the list is between those of its neighbours. The first list,
 * while it is open, has none: then the number is `fallback`. False: the links
 * are not those of a broker, or SQLite cannot keep the numbers. */
static bool
take_head(const struct list_head *head, uint64_t fallback,
          struct published_list *list)
{
    const struct coverage *covers = &head->covers;
    struct slice set =
        between(slice_of(head->up), "/sets/", "/capabilitylist.xml");
    uint64_t prev = number_of(head->prev), next = number_of(head->next);
    uint64_t number = next > 1 ? next - 1 : prev ? prev + 1 : fallback;

    *list = (struct published_list){.info = {.after = covers->after,
                                             .last = covers->last,
                                             .from_us = covers->from_us,
                                             .until_us = covers->until_us,
                                             .number = number,
                                             .before = head->before,
                                             .digest = covers->digest,
                                             .is_filed = true}};
    memcpy(list->epoch, covers->epoch, sizeof(list->epoch));
    if (covers->after == 0)
        digest_sha256(&list->info.before, slice_of(list->epoch));
    return set_name_is_valid(set) &&
           slice_copy(list->set, sizeof(list->set), set) &&
           covers->last < INT64_MAX && number > 0 &&
           (!prev || prev + 1 == number);
}

static uint64_t
number_of_name(const char *path)
{
    uint64_t number = strtoull(list_name(path).data, NULL, 10);

    return number > 0 && number < INT64_MAX ? number : 1;
}

enum status
published_list_look(const char *path, struct published_list *list,
                    bool *is_list, struct problem *why)
{
    const struct list_chain nothing = {.epoch = ""};
    struct list_proof *proof = list_proof_new(&nothing, path, NULL, NULL);
    struct problem reason = {.text = "it ends too soon"};
    const struct list_head *head = NULL;
    struct slice name = list_name(path);
    struct buf text = {.max = HEADER_MAX + FRAGMENT_MAX};
    enum status rc = published_read(path, text.max, &text, why);

    if (!rc &&
        list_proof_feed(proof, buf_slice(&text), &reason) == STATUS_MEMORY)
        rc = problem_memory(why);
    if (!rc)
        head = list_proof_head(proof);
    *is_list = head && take_head(head, number_of_name(path), list);
    if (!rc && !head && !list_proof_is_another(proof) &&
        (slice_is(name, "latest.xml") || list_name_is_numbered(name)))
        rc = fail_document(path, why, reason.text);
    list_proof_free(proof);
    buf_fini(&text);
    return rc;
}

enum status
published_list_read(const char *path, struct published_list *list,
                    struct list_chain *chain, struct published_text *to,
                    struct problem *why)
{
    struct list_proof *proof = list_proof_new(chain, path, NULL, NULL);
    size_t footer = document_footer_of(DOCUMENT_URLSET).size;
    struct problem reason = {.text = ""};
    struct slice all;
    enum status rc;

    buf_init(&to->text, PUBLISHED_MAX);
    rc = published_read(path, PUBLISHED_MAX, &to->text, why);
    if (rc)
        goto out;
    all = buf_slice(&to->text);
    rc = list_proof_feed(proof, all, &reason);
    if (!rc)
        rc = list_proof_end(proof, chain, &reason);
    if (rc == STATUS_MEMORY) {
        rc = problem_memory(why);
    } else if (rc) {
        rc = fail_document(path, why, reason.text);
    } else if (!take_head(list_proof_head(proof), number_of_name(path), list)) {
        rc = fail_document(path, why, "its head is none of a broker");
    } else {
        to->header =
            (struct slice){all.data, list_proof_head(proof)->text.size};
        to->fragments = (struct slice){all.data + to->header.size,
                                       all.size - to->header.size - footer};
        list->info.bytes = to->fragments.size;
    }

out:
    list_proof_free(proof);
    return rc;
}

/* Resource Lists */

static bool
read_header(struct slice header, struct published_resources *list)
{
    struct slice md =
        find_element(header, "<rs:md capability=\"resourcelist\"");
    struct slice up =
        document_value(find_element(header, "<rs:ln rel=\"up\""), " href=\"");
    struct slice set = between(up, "/sets/", "/capabilitylist.xml");
    struct slice epoch = document_value(md, " td:epoch=\"");

    *list = (struct published_resources){.role = PUBLISHED_WHOLE};
    if (find_element(header, "<sitemapindex").size > 0)
        list->role = PUBLISHED_INDEX;
    else if (find_element(header, "<rs:ln rel=\"index\"").size > 0)
        list->role = PUBLISHED_PART;
    return set_name_is_valid(set) &&
           slice_copy(list->set, sizeof(list->set), set) &&
           epoch.size == EPOCH_SIZE &&
           slice_copy(list->epoch, sizeof(list->epoch), epoch) &&
           number_read(document_value(md, " td:last=\""), &list->seq) &&
           list->seq < INT64_MAX &&
           !datetime_read(document_value(md, " at=\""), &list->us);
}

enum status
published_resources_look(const char *path, struct published_resources *list,
                         bool *is_list, struct problem *why)
{
    struct buf text = {.max = HEADER_MAX};
    enum status rc = published_read(path, HEADER_MAX, &text, why);
    struct slice header = header_of(buf_slice(&text));

    *is_list = !rc && header.size > 0 && read_header(header, list);
    buf_fini(&text);
    return rc;
}

/* Takes the next line. */
static struct slice
next_line(struct slice *rest)
{
    struct slice line = *rest;

    (void)slice_take(rest, '\n');
    line.size -= rest->size;
    return line;
}

enum status
published_resources_count(const char *path, uint64_t *n, struct problem *why)
{
    struct slice rest = {NULL, 0};
    struct buf text = {.max = PUBLISHED_MAX};
    enum status rc;

    *n = 0;
    rc = cut_document(path, DOCUMENT_SITEMAPINDEX, &text, &rest, why);
    while (!rc && rest.size > 0)
        *n += slice_starts(next_line(&rest), "<sitemap>");
    buf_fini(&text);
    return rc;
}

enum status
published_resources_fill(const char *path,
                         const struct published_resources *list,
                         struct resources *resources, struct problem *why)
{
    struct problem reason = {""};
    struct slice rest = {NULL, 0};
    struct buf text = {.max = PUBLISHED_MAX};
    enum status rc = cut_document(path, DOCUMENT_URLSET, &text, &rest, why);

    while (!rc && rest.size > 0) {
        struct slice entry = next_line(&rest);
        struct slice md = find_element(entry, "<rs:md");
        uint64_t seq;

        if (!slice_starts(entry, "<url><loc>") ||
            !between(entry, "<loc>", "</loc>").size ||
            !slice_ends(entry, "</url>\n") ||
            !number_read(document_value(md, " td:seq=\""), &seq) ||
            seq > list->seq) {
            rc = fail_document(path, why, "an entry is none of a broker");
            break;
        }
        rc = resources_fill(resources, seq, entry, &reason);
        if (rc == STATUS_DIFFERENT)
            rc = fail_document(path, why, reason.text);
        else if (rc)
            *why = reason;
    }
    buf_fini(&text);
    return rc;
}
