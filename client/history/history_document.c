/*
 * history_document.c - asks for documents, and takes one that has come, or its
 * failure.
 *
 *     an index at the top, its pages --> parts --> HISTORY_SEARCH
 *     a list, its pages -----------> kept -------> HISTORY_DELIVER
 *     the root of a part ----------> known ------> HISTORY_SEARCH goes on
 *     older ones ------------------> found ------> HISTORY_SEARCH goes on
 */

#include "base/clock.h"
#include "client/dumps/download.h"
#include "client/dumps/zip_reader.h"
#include "client/history/history_state.h"
#include "client/lib/pause.h"
#include "proto/http/link_header.h"

/* Entries and links */

static enum status
keep_text(char **to, struct slice text)
{
    if (!*to)
        *to = slice_dup(text);
    return *to ? STATUS_OK : STATUS_MEMORY;
}

static enum status
on_link(const struct link *link, void *user)
{
    struct history *h = user;

    if (slice_is(link->rel, "next"))
        return keep_text(&h->root.next, link->href);
    if (slice_is(link->rel, "prev"))
        return keep_text(&h->root.prev, link->href);
    if (h->document != DOCUMENT_TOP)
        return STATUS_OK;
    if (slice_is(link->rel, "index"))
        return keep_text(&h->older.index, link->href);
    if (slice_is(link->rel, "archives"))
        return keep_text(&h->older.archives, link->href);
    return STATUS_OK;
}

/* True if the entry names a list, in any document. */
static bool
names_a_list(const struct document_entry *e, const struct document_head *head)
{
    if (e->has_kind)
        return false;
    return head->is_index || e->from_us != DATETIME_NONE ||
           e->until_us != DATETIME_NONE ||
           slice_is(e->capability, "changelist") ||
           slice_is(e->capability, "changelist-archive");
}

/* Adds an entry of an archive, index or dump: a list, a package, or its
 * manifest if that has an address of its own, or another document of the same
 * kind. */
static enum status
take_part(struct history *h, const struct document_entry *e,
          const struct document_head *head)
{
    enum capability c =
        head->has_capability ? head->capability : CAP_CHANGELIST;
    bool leads_on = slice_is(e->capability, "changelist-archive") ||
                    slice_is(e->capability, "changedump") ||
                    c == CAP_CHANGEDUMP_ARCHIVE;
    const int64_t times[] = {e->from_us, e->until_us, e->change.lastmod_us,
                             e->change.datetime_us};
    const uint64_t length = e->change.length;
    struct history_part part = {.from_us = e->from_us,
                                .until_us = e->until_us,
                                .is_package = c == CAP_CHANGEDUMP};
    struct slice url = e->change.loc;

    /* A list that grows has another hash then, if its source says when it has
     * changed. */
    part.row = fnv1a(FNV1A_BEGIN, e->change.hash);
    part.row =
        fnv1a(part.row, (struct slice){(const char *)times, sizeof(times)});
    part.row =
        fnv1a(part.row, (struct slice){(const char *)&length, sizeof(length)});

    if (h->document == DOCUMENT_OLDER && head->is_index)
        leads_on |= c == CAP_CHANGELIST_ARCHIVE || c == CAP_CHANGEDUMP;
    if (leads_on)
        return history_parts_add(&h->older.documents, url, NULL);
    for (size_t i = 0; i < e->change.n_links && part.is_package; i++)
        if (slice_is(e->change.links[i].rel, "contents")) {
            url = e->change.links[i].href;
            part.is_package = false;
        }
    return history_parts_add(&h->found, url, &part);
}

static enum status
on_entry(const struct document_entry *e, const struct document_head *head,
         void *user)
{
    struct history *h = user;
    const struct source_position *place = &h->origin.place;

    /* The archive turns out to be a list. */
    if (h->document == DOCUMENT_OLDER && e->has_kind && !head->is_index) {
        const char *url = h->older.documents.all[h->older.i - 1].url;
        const struct history_part part = {.from_us = head->from_us,
                                          .until_us = head->until_us};
        enum status rc = history_parts_add(&h->found, slice_of(url), &part);

        return rc ? rc : STATUS_STOPPED;
    }
    if (!h->root.is_known)
        h->root.is_index =
            h->document == DOCUMENT_OLDER || names_a_list(e, head);

    h->root.is_known = true;
    if (h->root.is_index)
        return h->document == DOCUMENT_PART ||
                       (h->document == DOCUMENT_PAGE && h->parts.n > 0)
                   ? STATUS_STOPPED
                   : take_part(h, e, head);
    if (h->document == DOCUMENT_PROBE) {
        if (head->from_us != DATETIME_NONE || head->has_td_range)
            return STATUS_STOPPED; /* the root says where it begins */
        h->root.first_us = datetime_earlier(h->root.first_us, e->when_us);
        return STATUS_OK;
    }
    if (h->list.wants_known &&
        !read_lists_known(h->plan.lists, place->list, place->n_read, place->sum,
                          &h->list.past.known))
        return STATUS_MEMORY;
    h->list.wants_known = false;
    return list_entries_add(&h->list.kept, e, &h->list.past);
}

static const struct document_events history_events = {on_link, on_entry};

/*
 * Asks for a document: a list, an index, or the manifest in a package of a
 * Change Dump, which has the same entries as a Change List.
 *
 * Many dumps name the manifest's address; their packages are not
 * needed. Others are downloaded into the scratch directory, and removed when
 * their entries are handed over.
 */

static void end_document(struct history *h,
                         const struct document_fetch_answer *answer,
                         const struct problem *why);

/* STATUS_STOPPED: an entry needed no more. */
static enum status
read_manifest(struct history *h, const char *url, struct document *document,
              struct problem *why)
{
    struct slice piece = {"", 0};
    enum status failed =
        zip_reader_open(&h->package, h->scratch.fd, HISTORY_PACKAGE, why);
    enum status rc = STATUS_OK;

    do {
        if (!failed)
            failed = zip_reader_manifest(h->package, &piece, why);
        if (!failed)
            rc = piece.size > 0 ? document_feed(document, piece, why)
                                : document_end(document, why);
    } while (!failed && !rc && piece.size > 0);
    if (failed)
        return problem_prefix(why, failed, "%.300s: ", url);
    if (rc == STATUS_MEMORY)
        return problem_memory(why);
    if (!rc || rc == STATUS_STOPPED)
        return rc;
    if (!why->text[0])
        problem_set(why, "more than is kept");
    return problem_prefix(why, STATUS_MALFORMED,
                          "the manifest of %.300s: ", url);
}

static void
on_downloaded(const struct problem *because,
              const struct download_answer *answer, void *user)
{
    struct history *h = user;
    struct document *document;
    struct document_fetch_answer manifest = {.url = answer->url,
                                             .type = "",
                                             .etag = "",
                                             .link = "",
                                             .is_document = true};
    struct problem why = *because;

    h->download = NULL;
    if (why.rc) {
        if (why.rc == STATUS_GONE)
            why.rc = STATUS_REFUSED;
        end_document(h, NULL, &why);
        return;
    }
    document = document_new(answer->url, &history_events, h);
    why = (struct problem){.text = ""};
    if (!document)
        problem_memory(&why);
    else if (read_manifest(h, answer->url, document, &why) == STATUS_STOPPED)
        problem_clear(&why);
    manifest.head = document ? document_head(document) : NULL;
    /* the members are the bytes of the entries. */
    if (why.rc || !h->plan.scratch)
        history_close_package(h);
    if (!h->package)
        download_forget(h->scratch.fd, HISTORY_PACKAGE);
    end_document(h, &manifest, &why);
    document_free(document);
}

static bool
load_package(struct history *h, const char *url)
{
    struct download_request request = {
        .url = url,
        .file = HISTORY_PACKAGE,
        .length = LENGTH_NONE,
        .max_bytes = h->client->room.limits.max_total_bytes,
        .is_package = true,
    };
    struct problem why = {.text = ""};

    if (h->scratch.fd < 0 && scratch_open(&h->scratch, h->plan.scratch, &why))
        return history_end(h, &why);
    request.dir_fd = h->scratch.fd;
    h->download = download_start(h->client, &request, on_downloaded, h);
    return h->download || history_overflows(h, STATUS_MEMORY);
}

static void
on_page(const struct document_fetch_answer *answer, const struct problem *why,
        void *user)
{
    struct history *h = user;

    h->page = NULL;
    end_document(h, answer, why);
}

static const char *
url_of(const struct history *h)
{
    switch (h->document) {
    case DOCUMENT_TOP:
        return h->plan.offered->change_list;
    case DOCUMENT_OLDER:
        return h->older.documents.all[h->older.i - 1].url;
    case DOCUMENT_PAGE:
        return h->list.pages.all[h->list.pages.n - 1].url;
    case DOCUMENT_PROBE:
    case DOCUMENT_PART:
        break;
    }
    return h->parts.all[h->i].url;
}

/* Expects the entries up to the place, which may have another address by
 * now. */
static void
expect_place(struct list_past *past, const struct source_position *place)
{
    past->is_by_order = true;
    past->n = place->n_read;
    past->sum = place->sum;
}

/* Decides what was read of the list that is asked for. */
static void
expect_list(struct history *h, const char *url)
{
    const struct history_origin *o = &h->origin;
    struct list_past *past = &h->list.past;
    uint64_t list = fnv1a(FNV1A_BEGIN, slice_of(url));
    struct read_list read;

    mark_set_fini(&past->known);
    *past = (struct list_past){.after = h->now, .has_all = h->now.is_end};
    h->list.is_whole = h->list.is_behind = h->list.wants_known = false;
    if (source_position_is_moment(&o->place))
        past->after = o->place;
    if (list != h->now.list) { /* the same entries may stand in two lists */
        past->known = h->list.last;
        h->list.last = (struct mark_set){.slots = NULL};
    }
    if (!h->now.is_time || h->now.is_end || !o->place.has_list)
        return;
    h->list.is_behind = o->has_part && h->i < o->part;
    if (list == h->now.list) {
        expect_place(past, &h->now);
        past->mark = h->now.mark;
    } else if (o->is_passed || (o->has_part && h->i > o->part)) {
        past->is_by_order = h->list.is_whole = true;
    } else if (!o->has_lists || !read_lists_find(h->plan.lists, list, &read)) {
        expect_place(past, &h->now);
        past->is_other = true;
        h->list.is_whole = o->has_lists;
    } else if (!read.is_skipped) {
        past->is_by_order = true;
        past->n = read.n;
        past->sum = read.sum;
        mark_set_fini(&past->known);
        return;
    } else {
        return;
    }
    h->list.wants_known = !past->known.slots;
}

bool
history_load(struct history *h, enum history_document document)
{
    bool may_be_same = document == DOCUMENT_TOP ||
                       (document == DOCUMENT_PART &&
                        h->state == HISTORY_SEARCH && h->search.may_be_same);
    struct document_fetch_request request = {.silence_s = h->plan.silence_s};

    h->document = document;
    history_clear_root(h);
    if (document == DOCUMENT_TOP || document == DOCUMENT_PART) {
        /* Forgets the previous list. */
        history_close_package(h);
        list_entries_fini(&h->list.kept);
        history_parts_fini(&h->list.pages);
        free(h->list.next);
        h->list.next = NULL;
        h->list.is_loaded = false;
        h->list.i_kept = h->list.n_summed = 0;
        h->list.sum = 0;
        expect_list(h, url_of(h));
    }
    h->retry.before = h->list.kept;
    h->retry.n_found = h->found.n;
    h->retry.n_older = h->older.documents.n;
    request.url = url_of(h);
    if (may_be_same)
        request.etag = history_last_etag(h);
    if ((document == DOCUMENT_PART || document == DOCUMENT_PROBE) &&
        h->parts.all[h->i].is_package)
        return load_package(h, request.url);
    h->page =
        document_fetch_start(h->client, &request, &history_events, on_page, h);
    return h->page || history_overflows(h, STATUS_MEMORY);
}

/* The documents that have come */

/* Pages of one list, or of an index. */
#define PAGES_MAX 10000

/* A link in the HTTP header counts like one in the root. False: the
 * history has failed. */
static bool
note_next(struct history *h, const struct document_fetch_answer *answer)
{
    struct slice target;
    struct buf url = {.max = 4 * URI_CHARACTERS_MAX};
    bool is_good;

    if (h->root.next ||
        !weblink_find(slice_of(answer->link), "next", &target, NULL))
        return true;
    uri_resolve(&url, slice_of(answer->url), target);
    is_good = !url.is_starved;
    if (!url.failed) {
        h->root.next = slice_dup(buf_slice(&url));
        is_good = h->root.next != NULL;
    }
    buf_fini(&url);
    return is_good || history_overflows(h, STATUS_MEMORY);
}

/* The first page of the list, or of the index at the top. */
static const char *
first_page(const struct history *h)
{
    return h->parts.n ? h->parts.all[h->i].url : h->plan.offered->change_list;
}

/* Loads the next page, if the document has one. True: it has begun, or the
 * history has ended. */
static bool
reads_next_page(struct history *h)
{
    size_t n = h->list.pages.n;
    enum status rc;

    if (!h->root.next || !strcmp(h->root.next, first_page(h)))
        return false;
    rc = history_parts_add(&h->list.pages, slice_of(h->root.next), NULL);
    if (rc || h->list.pages.n > PAGES_MAX)
        return !(rc == STATUS_MEMORY ? history_overflows(h, rc)
                                     : history_fail(h, STATUS_MALFORMED,
                                                    "%s: more than %d pages",
                                                    first_page(h), PAGES_MAX));
    if (h->list.pages.n == n)
        return false; /* a circle of pages */
    h->list.kept.page++;
    history_load(h, DOCUMENT_PAGE);
    return true;
}

/* Records the root of the part `i`. False: the history has ended. */
static bool
note_part(struct history *h, const struct document_head *head, int64_t begin_us)
{
    struct history_part *part = &h->parts.all[h->i];

    part->is_probed = true;
    part->begin_us = begin_us;
    part->has_seqs = head->has_td_range && head->td.epoch[0];
    part->after = head->td.after;
    if (part->from_us == DATETIME_NONE)
        part->from_us = begin_us;
    if (part->until_us == DATETIME_NONE)
        part->until_us = head->until_us;
    if (!part->prev) {
        part->prev = h->root.prev;
        h->root.prev = NULL;
    }
    if (!h->now.is_time && part->has_seqs && h->now.at.epoch[0] &&
        strcmp(h->now.at.epoch, head->td.epoch) != 0)
        return history_fail(h, STATUS_GONE, "the log is another one by now: %s",
                            head->td.epoch);
    return true;
}

/* True if the list has changed since the search chose it. If the source began a
 * new list at its address, or moved a window on, entries are missing between
 * those handed over and this list; another look may find them. */
static bool
has_moved_on(const struct history *h)
{
    const struct history_part *part = &h->parts.all[h->i];
    const struct document_head *head = &h->list.head;
    bool is_open = part->until_us == DATETIME_NONE;
    int64_t was = part->is_probed ? part->begin_us : part->from_us;
    int64_t is = part->is_probed || is_open ? h->list.begin_us : head->from_us;

    /* The search chose it only if the index alone put its begin at the place.
     */
    if (h->now.is_time && history_is_recognised(h))
        return false;
    if (h->state == HISTORY_TOP || (h->state == HISTORY_SEARCH &&
                                    (!h->now.is_time || was > h->now.time_us)))
        return false;
    if (!h->now.is_time)
        return head->has_td_range && head->td.after > h->now.at.seq &&
               (!h->now.at.epoch[0] ||
                !strcmp(head->td.epoch, h->now.at.epoch));
    return was != DATETIME_NONE && is != DATETIME_NONE && is > was &&
           is > h->now.time_us;
}

bool
history_take_older(struct history *h)
{
    size_t n = 0;
    enum status rc;

    history_parts_sort(&h->found);
    rc = history_parts_prepend(&h->parts, &h->found, &n);
    if (rc)
        return history_overflows(h, rc);
    h->i = n;
    h->search.candidate += n;
    h->origin.n_parts = 0;
    h->older.has_parts |= h->document == DOCUMENT_OLDER && n > 0;
    return true;
}

static void
end_list(struct history *h, const struct document_fetch_answer *answer)
{
    if (h->document != DOCUMENT_PAGE) {
        h->list.head = *answer->head;
        h->list.begin_us = h->list.head.from_us;
        history_tag(h->list.etag, h, answer->etag);
        if (!answer->etag[0] || h->i + 1 < h->parts.n || h->is_top_closed)
            h->list.etag[0] = '\0';
    } else {
        h->list.etag[0] = '\0'; /* an ETag covers one page */
        if (answer->head->from_us != DATETIME_NONE &&
            answer->head->from_us < h->list.begin_us)
            h->list.begin_us = answer->head->from_us;
    }
    if (!note_next(h, answer))
        return;
    /* Lists with seqs are parts of their own. */
    if (!h->list.head.has_td_range && reads_next_page(h))
        return;
    list_entries_finish(&h->list.kept, h->list.begin_us, &h->list.past);
    if (h->list.begin_us == DATETIME_NONE)
        h->list.begin_us = h->list.kept.first_us;
    if (has_moved_on(h) && history_again(h))
        return;
    h->list.is_loaded = h->i + 1 == h->parts.n;
    h->list.next = h->root.next;
    h->root.next = NULL;
    if (!note_part(h, &h->list.head, h->list.begin_us))
        return;
    if (h->state == HISTORY_TOP) {
        h->state = HISTORY_SEARCH;
        h->search.has_looked = true;
    }
    if (h->state == HISTORY_SEARCH)
        h->i = h->parts.n;
    else
        h->state = HISTORY_DELIVER;
    timer_start(&h->timer, 0);
}

/* Takes all pages of the index: the last one may name the newest list. */
static void
end_index(struct history *h, const struct document_fetch_answer *answer)
{
    if (!note_next(h, answer) || reads_next_page(h))
        return;
    h->state = HISTORY_SEARCH;
    if (history_take_older(h))
        timer_start(&h->timer, 0);
}

static void
end_top(struct history *h, const struct document_fetch_answer *answer)
{
    enum status rc = STATUS_OK;
    bool is_index =
        h->root.is_known ? h->root.is_index : answer->head->is_index;

    if (is_index) {
        end_index(h, answer);
        return;
    }
    h->is_top_closed = answer->head->until_us != DATETIME_NONE;
    rc = history_parts_add(&h->parts, slice_of(h->plan.offered->change_list),
                           NULL);
    if (rc)
        history_overflows(h, STATUS_MEMORY);
    else
        end_list(h, answer);
}

/* Takes a page of the index or of a list, or the first one of a list. */
static void
end_page(struct history *h, const struct document_fetch_answer *answer)
{
    bool is_of_index = h->parts.n == 0;

    if (h->root.is_known && h->root.is_index != is_of_index)
        history_fail(h, STATUS_MALFORMED,
                     is_of_index ? "%s is an index, but one of its pages is a "
                                   "list"
                                 : "%s is an index within an index",
                     first_page(h));
    else if (is_of_index)
        end_index(h, answer);
    else
        end_list(h, answer);
}

static void
end_probe(struct history *h, const struct document_fetch_answer *answer)
{
    if (h->root.is_known && h->root.is_index) {
        history_fail(h, STATUS_MALFORMED, "%s is an index within an index",
                     h->parts.all[h->i].url);
        return;
    }
    if (!note_part(h, answer->head,
                   answer->head->from_us != DATETIME_NONE
                       ? answer->head->from_us
                       : h->root.first_us))
        return;
    h->i++; /* the search looks at this part again */
    timer_start(&h->timer, 0);
}

static void
end_older(struct history *h)
{
    if (h->older.i < h->older.documents.n || history_take_older(h))
        timer_start(&h->timer, 0);
}

/* Which changes the history loses with the part `i`, which is gone. */
enum loss {
    LOSS_NONE,  /* it was read, or ends before a baseline */
    LOSS_KNOWN, /* the place says already that its changes are not known */
    LOSS_NEW
};

static enum loss
loss_of(const struct history *h)
{
    const struct history_part *part = &h->parts.all[h->i];
    const struct source_position *place = &h->origin.place;
    bool is_closed = part->until_us != DATETIME_NONE;
    int64_t unknown_us = h->notes->unknown_us;

    if (part->is_again || (is_closed && source_position_is_moment(place) &&
                           part->until_us <= place->time_us))
        return LOSS_NONE;
    return unknown_us &&
                   (is_closed ? part->until_us : part->from_us) <= unknown_us
               ? LOSS_KNOWN
               : LOSS_NEW;
}

/* Leaves out the part `i`, which is gone. False: that would lose the place. */
static bool
leaves_out(struct history *h, const struct problem *why)
{
    int64_t *unknown_us = &h->notes->unknown_us;
    struct history_part *part;
    enum loss loss;

    if (!h->parts.n || !h->now.is_time)
        return history_again(h);
    part = &h->parts.all[h->i];
    loss = loss_of(h);
    if (loss == LOSS_NEW) {
        if (history_again(h)) /* it may have another address by now */
            return true;
        if (!h->plan.may_lose)
            return false;
        history_doubt(h, "%s: its changes are not known", why->text);
        if (*unknown_us < part->until_us)
            *unknown_us = part->until_us;
        else if (part->until_us == DATETIME_NONE)
            *unknown_us = clock_now_us();
    }
    if (loss)
        list_report_count(&h->notes->report, LIST_PART_GONE,
                          slice_of(why->text), 0);
    part->is_read |= loss != LOSS_NONE; /* is not noted: it may come back */
    part->is_gone = part->is_probed = true;
    h->list.is_loaded = false;
    h->list.etag[0] = '\0';
    h->list.head.until_us = DATETIME_NONE;
    if (h->document == DOCUMENT_PROBE) {
        h->i++; /* the search looks at it again */
    } else if (h->state != HISTORY_READ) {
        h->state = HISTORY_SEARCH;
        h->search.has_looked = true;
        h->i = h->parts.n;
    }
    timer_start(&h->timer, 0);
    return true;
}

static void
end_document(struct history *h, const struct document_fetch_answer *answer,
             const struct problem *why)
{
    if (why->rc) {
        bool is_lost = why->http_status == 404 || why->http_status == 410;

        if (history_waits(h, why))
            return;
        if (h->document == DOCUMENT_OLDER && why->rc == STATUS_REFUSED)
            end_older(h); /* there are no older ones, then */
        else if (h->document == DOCUMENT_TOP || why->rc != STATUS_REFUSED ||
                 !is_lost)
            history_end(h, why);
        else if (!leaves_out(h, why))
            history_fail(h, STATUS_GONE, "%s", why->text);
        return;
    }
    h->retry.pause_ms = PAUSE_FIRST;
    if (answer->is_unchanged) {
        h->search.is_quiet = h->state == HISTORY_SEARCH && h->origin.has_part;
        if (h->search.is_quiet)
            timer_start(&h->timer, 0); /* history_search goes on */
        else
            history_end_well(h);
        return;
    }
    if (h->document != DOCUMENT_PROBE)
        list_report_add(&h->notes->report, &answer->head->report);
    switch (h->document) {
    case DOCUMENT_TOP:
        end_top(h, answer);
        break;
    case DOCUMENT_OLDER:
        end_older(h);
        break;
    case DOCUMENT_PROBE:
        end_probe(h, answer);
        break;
    case DOCUMENT_PART:
    case DOCUMENT_PAGE:
        end_page(h, answer);
        break;
    }
}
