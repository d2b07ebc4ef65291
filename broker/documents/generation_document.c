/*
 * generation_document.c - documents that the archive thread builds in
 * generations (generation.h): the dumps;
 * Resource Lists and their indexes; and the archives of all
 * three kinds, each from the commit that makes a generation current (R-210 to
 * `wish->kind` is the kind of the generation.
 *
 * No client ever sees parts of two generations under one index, and a
 * kept generation keeps its bytes. For workers: all of it may
 * block.
 *
 * A dump, its packages and its manifests are files, which never change. Written
 * here are the archives, and the Change Dump Index: it names the latest dumps
 * that follow one another without a gap. A gap is a range of
 * changes whose content the broker could not get; the archive has the
 * dumps before it.
 *
 *   changedump.xml                        one dump; from the second on an index
 *     changedump/000000000007.xml
 *       changedump/000000000007/000000000001.zip
 *       changedump/000000000007/000000000001-manifest.xml
 *   changedump-archive.xml
 *
 * A small archive is one document. Beyond --index-lists its address is that of
 * an index. Each of its parts covers so many numbers, but not every generation
 * is kept.
 *
 *   resourcelist-archive.xml
 *     resourcelist-archive/000000000001-000000001000.xml
 *     resourcelist-archive/000000001001-000000002000.xml    still growing
 *
 * As in the Change List Archive (set_index.c), a part's address determines its
 * generations, even if the settings have changed since.
 *
 * Resource Lists are files, too, except the list of a small set, which is made
 * of its few entries for each reader. A plain Sitemap is made from these for
 * crawlers that reject ResourceSync's elements: line by line, because
 * an entry is a line (lines.h).
 */

#include <sys/stat.h>
#include <unistd.h>

#include "broker/builds/generation.h"
#include "broker/documents/documents.h"
#include "broker/sets/index_parts.h"
#include "broker/sets/set_links.h"
#include "proto/resourcesync/entry_builder.h"
#include "proto/resourcesync/json.h"

/* Rows per read. */
#define STEP 256

/* Files */

/* Opens a document, a manifest or a package; its bodies own the file from then
 * on. STATUS_NOT_FOUND: there is no such file. */
static enum status
open_file(const struct document_wish *wish, uint64_t number,
          enum generation_file file, uint64_t part, struct document *document,
          struct problem *why)
{
    struct zfile zfile;
    int fd = -1, gzip_fd;
    enum status rc = generation_open(
        wish->set, &(struct generation_place){wish->kind, number, file, part},
        &fd, why);

    if (rc)
        return rc;
    if (file == GENERATION_PACKAGE) {
        struct stat st;
        char text[256];
        int n;

        if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
            close(fd);
            return problem(why, STATUS_IO, "the package cannot be read");
        }
        *document = (struct document){
            .body = body_of_file(fd, (uint64_t)st.st_size),
            .modified_us = DATETIME_NONE,
        };
        /* The tag comes from place, size and time: a package is too large to
         * read, and nothing else is ever put there. The time, because (not in
         * a cluster, where all brokers have the same tag) a data directory
         * restored from an earlier day may have another package
         * under this number. */
        if (log_is_shared(wish->registry->log))
            st.st_mtim.tv_sec = 0;
        n = snprintf(text, sizeof(text),
                     "%s %s %" PRIu64 " %" PRIu64 " %jd %jd", wish->head.epoch,
                     links_kinds[wish->kind].folder, number, part,
                     (intmax_t)st.st_size, (intmax_t)st.st_mtim.tv_sec);
        digest_sha256(&document->tag, (struct slice){text, (size_t)n});
        return STATUS_OK;
    }
    rc = zfile_look(fd, &zfile, NULL, why);
    if (rc) {
        close(fd);
        return rc;
    }
    gzip_fd = dup(fd);
    *document = (struct document){
        .tag = zfile.digest,
        .modified_us = DATETIME_NONE,
        .may_be_packed = true,
    };
    rc = zfile_body(fd, &document->body, why);
    if (rc)
        close(fd);
    if (gzip_fd >= 0)
        document->gzip = body_of_file(gzip_fd, zfile.packed);
    if (rc)
        document_close(document);
    return rc;
}

/* True if the document exists. */
static bool
has_file(const struct document_wish *wish, uint64_t number, uint64_t part)
{
    int fd;

    if (generation_open(wish->set,
                        &(struct generation_place){wish->kind, number,
                                                   GENERATION_DOCUMENT, part},
                        &fd, NULL))
        return false;
    close(fd);
    return true;
}

/* STATUS_NOT_FOUND: no generation is current. */
static enum status
refuse_none(const struct document_wish *wish, struct problem *why)
{
    return problem(why, STATUS_NOT_FOUND, "no %s of this set was built yet",
                   links_kinds[wish->kind].title);
}

/* Checks that generation `wish->number` exists. STATUS_NOT_FOUND: it never did;
 * STATUS_GONE: it is no longer kept. Its files determine its parts. */
static enum status
check_generation(const struct document_wish *wish, struct problem *why)
{
    const struct generations *all = &wish->head.generations[wish->kind];
    const char *title = links_kinds[wish->kind].title;
    struct generation kept;
    enum status rc;

    if (wish->number > all->last || wish->number < wish->head.start_list ||
        wish->number == all->ordered.number)
        return problem(why, STATUS_NOT_FOUND, "there is no such %s", title);
    if (has_file(wish, wish->number, 1))
        return STATUS_OK;
    rc = generation_find(wish->set, &wish->head, wish->kind, wish->number,
                         &kept, why);
    if (rc == STATUS_NOT_FOUND)
        return problem(why, STATUS_GONE, "this %s is no longer kept", title);
    return rc ? rc
           : log_is_shared(wish->registry->log)
               ? problem(why, STATUS_BUSY,
                         "this broker has not built this %s yet", title)
               : problem(why, STATUS_IO, "this %s is not on the disk", title);
}

/* Calls `add` for each kept generation from `first` to `last`. */
static enum status
each_generation(const struct document_wish *wish, uint64_t first, uint64_t last,
                void (*add)(void *user, const struct document_wish *wish,
                            const struct generation *g),
                void *user, struct problem *why)
{
    struct generation some[STEP];
    struct generation_page page = {wish->kind, first, some, STEP};
    enum status rc = STATUS_OK;

    while (!rc && page.n == STEP && page.from <= last) {
        rc = log_generations(wish->registry->log, wish->set->log, &page, why);
        for (size_t i = 0; !rc && i < page.n && some[i].number <= last; i++)
            add(user, wish, &some[i]);
        if (!rc && page.n > 0)
            page.from = some[page.n - 1].number + 1;
    }
    return rc;
}

/* Archives */

static struct parts
parts_now(const struct document_wish *wish)
{
    const struct generations *all = &wish->head.generations[wish->kind];

    return parts_of_generations(all->n_archived, all->last,
                                wish->registry->config->index_lists);
}

static void
write_archive_head(struct buf *text, const struct document_wish *wish,
                   enum document_root root, bool has_index)
{
    document_begin(text, wish, root, links_kinds[wish->kind].archive,
                   DATETIME_NONE, has_index ? "index" : NULL,
                   set_link_kind(wish->set, wish->kind, LINK_ARCHIVE), NULL);
}

static void
write_entry(struct buf *text, enum document_root root, struct link_text loc,
            const struct generation *g)
{
    bool is_of_changes = g->kind == GENERATION_CHANGEDUMP;
    const struct document_entry entry = {
        .loc = link_slice(&loc),
        .from_us = is_of_changes ? g->from_us : DATETIME_NONE,
        .until_us =
            is_of_changes && root == DOCUMENT_URLSET ? g->at_us : DATETIME_NONE,
        .at_us = is_of_changes ? DATETIME_NONE : g->at_us,
    };

    document_entry(text, root, &entry);
}

static void
add_archived(void *user, const struct document_wish *wish,
             const struct generation *g)
{
    write_entry(user, DOCUMENT_URLSET,
                set_link_generation(wish->set, wish->kind, g->number), g);
}

/* Opens the kept generations from `first` to `last`. */
static enum status
open_generations(const struct document_wish *wish, uint64_t first,
                 uint64_t last, struct document *document, struct problem *why)
{
    struct buf text = {.max = DOCUMENT_BYTES_MAX};
    size_t header;
    enum status rc;

    write_archive_head(&text, wish, DOCUMENT_URLSET, parts_now(wish).has_index);
    header = text.size;
    rc = each_generation(wish, first, last, add_archived, &text, why);
    if (!rc && text.size == header)
        rc = problem(why, STATUS_NOT_FOUND, "the broker keeps none of these");
    document_footer(&text, DOCUMENT_URLSET);
    return document_of_text(document, &text, rc, why);
}

enum status
generation_archive_part_open(const struct document_wish *wish,
                             struct document *document, struct problem *why)
{
    if (!parts_are_at(wish->number, wish->last, DOCUMENT_ENTRIES_MAX))
        return problem(why, STATUS_NOT_FOUND,
                       "the archive has no part with these numbers");
    if (wish->head.generations[wish->kind].n_archived == 0 ||
        wish->last < wish->head.generations[wish->kind].first_archived)
        return problem(why, STATUS_GONE, "these are no longer kept");
    return open_generations(wish, wish->number, wish->last, document, why);
}

/* Opens the archive, or its index: an entry for each part that is not empty;
 * `at` is that of its first generation. */
enum status
generation_archive_open(const struct document_wish *wish,
                        struct document *document, struct problem *why)
{
    const struct generations *all = &wish->head.generations[wish->kind];
    struct parts parts = parts_now(wish);
    struct generation first;
    struct generation_page page = {wish->kind, 1, &first, 1};
    enum status rc = STATUS_OK;
    struct buf text = {.max = DOCUMENT_BYTES_MAX};

    if (all->n_archived == 0)
        return problem(why, STATUS_NOT_FOUND,
                       "the broker keeps nothing of this kind of this set");
    if (!parts.has_index)
        return open_generations(wish, all->first_archived, all->last, document,
                                why);
    write_archive_head(&text, wish, DOCUMENT_SITEMAPINDEX, false);
    while (page.from <= all->last) {
        uint64_t begin;

        rc = log_generations(wish->registry->log, wish->set->log, &page, why);
        if (rc || page.n == 0)
            break;
        begin = parts_begin(&parts, first.number);
        page.from = begin + parts.size;
        write_entry(&text, DOCUMENT_SITEMAPINDEX,
                    set_link_range(wish->set, links_kinds[wish->kind].folder,
                                   begin, page.from - 1),
                    &first);
    }
    document_footer(&text, DOCUMENT_SITEMAPINDEX);
    return document_of_text(document, &text, rc, why);
}

/* Resource Lists, and plain Sitemaps made of them */

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
    } else if (slice_starts(line, "<?")) {
        buf_add_slice(to, line);
    }
}

struct plain {
    struct pieces pieces;
    struct body *xml;
    struct lines lines;
};

static enum status
fill_plain(struct pieces *pieces)
{
    struct plain *p = list_entry(pieces, struct plain, pieces);
    enum status rc = STATUS_OK;
    struct slice line;

    while (pieces->text.size < PLAIN_PIECE &&
           !(rc = lines_next(&p->lines, &line)))
        add_plain(&pieces->text, line);
    return rc == STATUS_NOT_FOUND ? STATUS_OK : rc;
}

static void
free_plain(struct pieces *pieces)
{
    struct plain *p = list_entry(pieces, struct plain, pieces);

    body_free(&p->xml);
    buf_fini(&p->lines.line);
}

/* Makes the plain Sitemap of a body, which it takes over. Without a piece at
 * the start it begins with its first line. */
static struct body *
plain_new(struct body *xml, uint64_t part, uint64_t size)
{
    struct plain *p = memory_new(1, sizeof(*p));

    pieces_init(&p->pieces,
                part == GENERATION_INDEX ? DOCUMENT_SITEMAPINDEX
                                         : DOCUMENT_URLSET,
                fill_plain, free_plain, true);
    p->pieces.is_begun = true;
    p->pieces.body.size = size;
    p->xml = xml;
    lines_init(&p->lines, xml);
    return &p->pieces.body;
}

/* Small sets */

/* The number of the list of a small set, which no build has. */
#define SMALL 0

/* States, small and past
 *
 *     list 7   a b c d | b updated, e created, c deleted, b updated | later
 *                      ^                                            ^
 *                      list.seq                                     seq
 *
 *     pages: the parts of the list    a, d: no change concerns them
 *            and on the last one      b, e
 *
 * A page costs a part of a list, and the changes, each time again: the cost
 * does not grow with the set. They take turns (effort.h).
 *
 * All pages are of one state. `next` names the list, and a time that is not
 * later than the last entry: times grow strictly, so all new entries are
 * later. */

/* The largest page: a list, its changes, and what JSON adds. */
#define PAGE_MAX ((size_t)256 << 20)

/* A resource that changes concern. */
struct row {
    struct map_node node;
    struct list order;
    bool is_deleted;
    size_t at, size; /* in `changes`: as in a Resource List */
};

/* A page of a state, made of a list and the changes behind it. */
struct page {
    struct document_wish wish;
    struct generation list; /* number 0: there is none */
    uint64_t seq;
    int64_t seq_us;   /* not before T(seq), and before the next entry */
    int64_t known_us; /* since when states are known */
    struct map by_loc;
    struct list rows; /* in the order of a state (broker/state/resources.h) */
    struct buf changes, text, fragment;
    struct entry entry;
};

static void
begin_page(struct page *p, const struct document_wish *wish, size_t room)
{
    *p = (struct page){.wish = *wish, .known_us = wish->head.created_us};
    p->changes.max = room;
    p->text.max = p->fragment.max = PAGE_MAX;
    list_init(&p->rows);
    entry_init(&p->entry);
}

static struct slice
text_of(const struct page *p, const struct row *row)
{
    return (struct slice){p->changes.data + row->at, row->size};
}

static struct row *
find_row(struct page *p, struct slice loc)
{
    struct row *row;

    map_each_same (row, &p->by_loc, map_hash(&p->by_loc, loc), node)
        if (slice_equal(fragment_loc(text_of(p, row)), loc))
            return row;
    return NULL;
}

static void
fold_change(struct page *p, struct slice fragment, uint32_t stamp)
{
    struct slice loc = fragment_loc(fragment);
    struct row *row = find_row(p, loc);

    if (!row) {
        row = memory_new(1, sizeof(*row));
        list_init(&row->order);
        map_add(&p->by_loc, &row->node, map_hash(&p->by_loc, loc));
    }
    if (row->is_deleted || row->size == 0)
        list_put(&p->rows, &row->order);
    row->is_deleted = fragment_kind(fragment.data, stamp) == CHANGE_DELETED;
    row->at = p->changes.size;
    fragment_resource(&p->changes, fragment, stamp);
    row->size = p->changes.size - row->at;
}

/* Folds the entries behind the list. STATUS_TOO_LARGE: there is no room. */
static enum status
fold_log(struct page *p, struct problem *why)
{
    const struct document_wish *w = &p->wish;
    uint64_t seq = p->list.seq;
    enum status rc = STATUS_OK;

    while (!rc && seq < p->seq) {
        struct batch *batch = NULL;

        rc = log_read(w->registry->log, w->set->log, seq, w->patience, &batch,
                      why);
        if (!rc && !batch)
            rc = problem(why, STATUS_IO, "the log of the set ends too soon");
        for (; !rc && seq < batch->last && seq < p->seq; seq++) {
            fold_change(p, batch_slice(batch, seq, seq + 1),
                        batch->entries[seq + 1 - batch->first].stamp);
            if (p->changes.failed)
                rc = problem(why, STATUS_TOO_LARGE,
                             "the changes from its list on exceed --max-body");
            else if (!effort_spend(w->effort, EFFORT_OF_ENTRY))
                rc = effort_why(w->effort, STATUS_STOPPED, why);
        }
        if (!rc)
            p->seq_us = batch_time(batch, seq);
        batch_unref(batch);
    }
    return rc;
}

/* Takes a list: that of the wish, or else the last one before the state. */
static void
consider_list(void *user, const struct document_wish *wish,
              const struct generation *g)
{
    struct page *p = user;

    if (g->number == 0 || !generation_is_here(wish->set, g->kind, g->number))
        return;
    if (wish->number > 0 ? g->number == wish->number : g->seq <= p->seq)
        p->list = *g;
    if (g->seq >= wish->head.earliest && g->at_us < p->known_us)
        p->known_us = g->at_us;
}

/* Finds the state, and what has changed since its list. */
static enum status
find_state(struct page *p, struct problem *why)
{
    const struct document_wish *w = &p->wish;
    char since[] = "its next Resource List     ";
    enum status rc;

    /* Without a time it is that of the last change: equal answers are equal in
     * all bytes. */
    if (w->at_us == DATETIME_NONE)
        p->wish.at_us = w->head.last_us > w->head.created_us
                            ? w->head.last_us
                            : w->head.created_us;
    /* Later entries may come that are not later than `at_us`. */
    p->seq_us = w->at_us < w->head.last_us ? w->at_us : w->head.last_us;
    rc = log_since(w->registry->log, w->set->log, p->seq_us, LOG_DISK, &p->seq,
                   why);
    if (w->head.earliest > 0)
        p->known_us = INT64_MAX;
    if (each_generation(w, 1, UINT64_MAX - 1, consider_list, p, why))
        return STATUS_IO;
    consider_list(p, w, &w->head.generations[w->kind].current);
    if (!rc)
        rc = p->list.seq < p->seq && p->list.seq < w->head.earliest
                 ? STATUS_GONE
                 : fold_log(p, why);
    if (rc != STATUS_GONE && w->at_us >= w->head.created_us &&
        (w->page == 1 || (w->number > 0 && w->number == p->list.number)))
        return rc;
    if (p->known_us < INT64_MAX)
        datetime_write(since, p->known_us);
    return problem(why, STATUS_GONE,
                   "the state of that time is not known; states from %s on are",
                   since);
}

/* Adds a resource, as it stands in a Resource List. A reader of fragments wants
 * them to have a change. */
static enum status
add_resource(struct page *p, struct slice line)
{
    struct slice rest = line;
    enum status rc;

    if (p->wish.form != DOCUMENT_JSON) {
        buf_add_slice(&p->text, line);
        return STATUS_OK;
    }
    (void)slice_skip_past(&rest, "<rs:md");
    buf_clear(&p->fragment);
    buf_add_slice(&p->fragment, slice_between(line.data, rest.data));
    BUF_ADD(&p->fragment, " change=\"updated\"");
    buf_add_slice(&p->fragment, rest);
    rc = fragment_read(&p->entry, buf_slice(&p->fragment));
    json_separate(&p->text, ",\n");
    json_resource(&p->text, &p->entry.change);
    return rc;
}

/* Adds the resources of the part of the list that no change concerns. */
static enum status
add_part(struct page *p, struct problem *why)
{
    struct document document;
    struct lines lines;
    struct slice line;
    enum status rc = open_file(&p->wish, p->list.number, GENERATION_DOCUMENT,
                               p->wish.page, &document, why);

    if (rc)
        return rc;
    lines_init(&lines, document.body);
    while (!rc && !(rc = lines_next(&lines, &line)))
        if (!effort_spend(p->wish.effort, EFFORT_OF_ENTRY))
            rc = effort_why(p->wish.effort, STATUS_STOPPED, why);
        else if (slice_starts(line, "<url>") &&
                 !find_row(p, fragment_loc(line)))
            rc = add_resource(p, line);
    buf_fini(&lines.line);
    document_close(&document);
    return rc == STATUS_NOT_FOUND ? STATUS_OK : rc;
}

/* Begins the document, with a link to the next page, if there is one. */
static void
write_head(struct page *p)
{
    const struct document_wish *w = &p->wish;
    bool has_next = w->page < p->list.parts;
    struct coverage coverage = {
        .last = p->seq, .until_us = w->at_us, .now_us = DATETIME_NONE};
    char at[DATETIME_SIZE + 1] = "";
    struct link_text next;

    datetime_write(at, p->seq_us);
    next = link_format("%s/sets/%s/resources?as-of=%s&after=%s-%" PRIu64
                       "&list=%" PRIu64 "&page=%" PRIu64,
                       w->registry->options.public_url, w->set->name, at,
                       w->head.epoch, p->seq, p->list.number, w->page + 1);
    memcpy(coverage.epoch, w->head.epoch, sizeof(coverage.epoch));
    if (w->form == DOCUMENT_JSON) {
        buf_add_format(&p->text, "{\"set\":\"%s\"", w->set->name);
        json_datetime_member(&p->text, "as_of", w->at_us);
        json_position_member(&p->text, "position", w->head.epoch, p->seq);
        if (has_next)
            json_text_member(&p->text, "next", link_slice(&next));
        BUF_ADD(&p->text, ",\"resources\":[");
    } else {
        document_begin(&p->text, w, DOCUMENT_URLSET, CAP_RESOURCELIST,
                       DATETIME_NONE, has_next ? "next" : NULL, next,
                       &coverage);
    }
}

/* Writes the page, unless `rc` is a failure, and frees what it was made of. */
static enum status
write_page(struct page *p, enum status rc, struct document *document,
           struct problem *why)
{
    struct row *row;

    write_head(p);
    if (!rc && p->list.parts > 0)
        rc = add_part(p, why);
    list_drain (row, &p->rows, order) {
        if (!rc && !row->is_deleted && p->wish.page >= p->list.parts)
            rc = add_resource(p, text_of(p, row));
        free(row);
    }
    buf_add_slice(&p->text, p->wish.form == DOCUMENT_JSON
                                ? SLICE("]}\n")
                                : document_footer_of(DOCUMENT_URLSET));
    map_fini(&p->by_loc);
    buf_fini(&p->changes);
    buf_fini(&p->fragment);
    entry_fini(&p->entry);
    return document_of_text(document, &p->text, rc, why);
}

enum status
past_resources_open(const struct document_wish *wish, struct document *document,
                    struct problem *why)
{
    struct page p;

    begin_page(&p, wish, wish->registry->config->max_body);
    return write_page(&p, find_state(&p, why), document, why);
}

/* Forms */

/* Opens a part of a generation; or the list of a set without a build
 * (set_offers): of its first few entries. STATUS_BUSY: they are too long for
 * that, and the archive thread builds a list instead. */
static enum status
open_part(const struct document_wish *wish, uint64_t generation, uint64_t part,
          struct document *document, struct problem *why)
{
    struct page p;
    enum status rc;

    if (generation != SMALL)
        return open_file(wish, generation, GENERATION_DOCUMENT, part, document,
                         why);
    begin_page(&p, wish, SET_FEW_BYTES);
    p.seq_us = wish->head.created_us;
    p.seq = wish->head.last < SET_FEW_ENTRIES ? wish->head.last
                                              : SET_FEW_ENTRIES - 1;
    rc = fold_log(&p, why);
    p.wish.at_us = p.seq_us;
    if (rc == STATUS_TOO_LARGE)
        store_relaxed(&wish->set->is_long, true);
    if (rc == STATUS_TOO_LARGE || rc == STATUS_GONE)
        rc = problem(why, STATUS_BUSY, "the Resource List is being built");
    return write_page(&p, rc, document, why);
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
    document->body = plain_new(document->body, part, 0);
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
    document->body = plain_new(document->body, part, size);
    body_free(&document->gzip);
    document->may_be_packed = false;
    digest_sha256(
        &tag, (struct slice){(const char *)document->tag.bytes, DIGEST_SIZE});
    digest_add(&tag, SLICE(DOCUMENT_SINCE " plain 0"));
    digest_add(&tag, SLICE(""));
    document->tag = tag;
    return STATUS_OK;
}

/* Addresses */

/* Opens generation `number`: its document, or the index of its parts. */
static enum status
open_generation(const struct document_wish *wish, uint64_t number,
                struct document *document, struct problem *why)
{
    bool has_index = has_file(wish, number, GENERATION_INDEX);

    return open_form(wish, number, has_index ? GENERATION_INDEX : 1, document,
                     why);
}

/* Opens the current generation, or the former one while this broker of a
 * cluster has not built the current one. */
static enum status
open_current(const struct document_wish *wish, struct document *document,
             struct problem *why)
{
    const struct generation *current =
        &wish->head.generations[wish->kind].current;
    int64_t since_us = (current->completed_us / 1000000 + 1) * 1000000;
    const char *title = links_kinds[wish->kind].title;
    uint64_t number = generation_last_here(wish->set, wish->kind, &wish->head);
    struct link_text lasting;
    enum status rc;

    if (number == 0 || (wish->kind < GENERATION_STATES &&
                        number <= wish->head.former_builds[wish->kind]))
        return problem(why, STATUS_BUSY, "this broker has not built the %s yet",
                       title);
    rc = open_generation(wish, number, document, why);
    if (rc == STATUS_NOT_FOUND && !has_file(wish, number, 1))
        rc = problem(why, STATUS_IO, "the %s is not on the disk", title);
    if (rc)
        return rc;
    /* Last-Modified is the first whole second after it was complete, from then
     * on. */
    if (number == current->number && since_us <= clock_now_us())
        document->modified_us = since_us;
    lasting = set_link_generation(wish->set, wish->kind, number);
    memcpy(document->lasting, lasting.text, sizeof(document->lasting));
    return STATUS_OK;
}

/* Opens the address of the capability: the list itself, or the index of its
 * parts. */
enum status
resourcelist_current_open(const struct document_wish *wish,
                          struct document *document, struct problem *why)
{
    if (!set_offers(wish->set, &wish->head, wish->kind))
        return refuse_none(wish, why);
    if (wish->head.generations[wish->kind].current.number == 0 &&
        !head_lacks_build(&wish->head, wish->kind))
        return open_form(wish, SMALL, 1, document, why);
    return wish->patience == LOG_MEMORY ? STATUS_AGAIN
                                        : open_current(wish, document, why);
}

/* The Change Dumps that the index names. */
struct run {
    struct buf entries;
    uint64_t n;
    uint64_t seq;    /* the next dump must begin here */
    int64_t from_us; /* where the first dump begins */
};

/* Adds a dump; after a gap the run begins with it. */
static void
add_dump(void *user, const struct document_wish *wish,
         const struct generation *g)
{
    struct run *run = user;
    struct link_text loc =
        set_link_generation(wish->set, wish->kind, g->number);
    const struct document_entry entry = {
        .loc = link_slice(&loc),
        .from_us = g->from_us,
        .until_us = g->at_us,
    };

    if (run->n > 0 && g->after != run->seq) {
        buf_clear(&run->entries);
        run->n = 0;
    }
    if (run->n == 0)
        run->from_us = g->from_us;
    document_entry(&run->entries, DOCUMENT_SITEMAPINDEX, &entry);
    run->seq = g->seq;
    run->n++;
}

/* Opens the current Resource Dump; of Change Dumps the index of the last run,
 * from among the last --index-lists dumps; or the only one itself. */
enum status
dumps_current_open(const struct document_wish *wish, struct document *document,
                   struct problem *why)
{
    uint64_t most = wish->registry->config->index_lists;
    uint64_t last = wish->head.generations[wish->kind].current.number;
    struct run run = {.entries.max = DOCUMENT_BYTES_MAX};
    struct buf text = {.max = DOCUMENT_BYTES_MAX};
    enum status rc;

    if (last == 0)
        return refuse_none(wish, why);
    if (wish->kind != GENERATION_CHANGEDUMP)
        return open_current(wish, document, why);
    rc = each_generation(wish, last > most ? last - most + 1 : 1, last,
                         add_dump, &run, why);
    if (!rc && run.n <= 1) {
        rc = open_current(wish, document, why);
    } else if (!rc) {
        document_begin(
            &text, wish, DOCUMENT_SITEMAPINDEX,
            links_kinds[wish->kind].capability, run.from_us, "archives",
            set_link_kind(wish->set, wish->kind, LINK_ARCHIVE), NULL);
        buf_add_slice(&text, buf_slice(&run.entries));
        text.failed |= run.entries.failed;
        document_footer(&text, DOCUMENT_SITEMAPINDEX);
        rc = document_of_text(document, &text, STATUS_OK, why);
    }
    buf_fini(&run.entries);
    return rc;
}

/* Opens a document that never changes: a generation or its index, or with
 * `wish->last` that part, manifest or package of it. */
static enum status
open_kept(const struct document_wish *wish, enum generation_file file,
          struct document *document, struct problem *why)
{
    enum status rc = check_generation(wish, why);

    if (rc)
        return rc;
    rc = wish->last == 0 ? open_generation(wish, wish->number, document, why)
         : file == GENERATION_DOCUMENT
             ? open_form(wish, wish->number, wish->last, document, why)
             : open_file(wish, wish->number, file, wish->last, document, why);
    if (rc == STATUS_NOT_FOUND && file != GENERATION_DOCUMENT)
        problem_set(why, "this %s has no such package",
                    links_kinds[wish->kind].title);
    if (!rc)
        document->is_final = true;
    return rc;
}

enum status
resourcelist_generation_open(const struct document_wish *wish,
                             struct document *document, struct problem *why)
{
    return open_kept(wish, GENERATION_DOCUMENT, document, why);
}

/* A dump, or the manifest of its package `wish->last`. */
enum status
dumps_generation_open(const struct document_wish *wish,
                      struct document *document, struct problem *why)
{
    return open_kept(wish, GENERATION_MANIFEST, document, why);
}

enum status
dumps_package_open(const struct document_wish *wish, struct document *document,
                   struct problem *why)
{
    return open_kept(wish, GENERATION_PACKAGE, document, why);
}
