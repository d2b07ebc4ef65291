/*
 * history_events.c - takes the entries of documents: changes, or the names of
 * other documents.
 */
#include "client/history/history_state.h"

static enum status
keep_text(char **to, struct slice text)
{
    if (!*to)
        *to = slice_dup(text);
    return *to ? STATUS_OK : STATUS_MEMORY;
}

static enum status
on_link(const struct document_link *link, void *user)
{
    struct history *h = user;

    if (slice_is(link->rel, "next"))
        return keep_text(&h->root.next, link->href);
    if (slice_is(link->rel, "prev"))
        return keep_text(&h->root.prev, link->href);
    if (slice_is(link->rel, "index"))
        return keep_text(&h->root.index, link->href);
    if (slice_is(link->rel, "archives"))
        return keep_text(&h->root.archives, link->href);
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

/* Adds a package, or its manifest if that has an address of its own. */
static enum status
take_package(struct history *h, const struct document_entry *e)
{
    size_t n = h->found.n;
    struct slice url = e->change.loc;
    bool is_package = true;
    enum status rc;

    for (size_t i = 0; i < e->n_links && is_package; i++)
        if (slice_is(e->links[i].rel, "contents")) {
            url = e->links[i].href;
            is_package = false;
        }
    rc = history_parts_add(&h->found, url, e->from_us, e->until_us);
    if (!rc && h->found.n > n)
        h->found.all[n].is_package = is_package;
    return rc;
}

/* Adds an entry of an archive, index or dump: a list, a package, or another
 * document of the same kind. */
static enum status
take_part(struct history *h, const struct document_entry *e,
          const struct document_head *head)
{
    enum capability c =
        head->has_capability ? head->capability : CAP_CHANGELIST;
    bool leads_on = slice_is(e->capability, "changelist-archive") ||
                    slice_is(e->capability, "changedump") ||
                    c == CAP_CHANGEDUMP_ARCHIVE;

    if (h->document == DOCUMENT_OLDER && head->is_index)
        leads_on |= c == CAP_CHANGELIST_ARCHIVE || c == CAP_CHANGEDUMP;
    if (leads_on)
        return history_parts_add(&h->older, e->change.loc, DATETIME_NONE,
                                 DATETIME_NONE);
    if (c == CAP_CHANGEDUMP)
        return take_package(h, e);
    return history_parts_add(&h->found, e->change.loc, e->from_us, e->until_us);
}

static enum status
on_entry(const struct document_entry *e, const struct document_head *head,
         void *user)
{
    struct history *h = user;

    /* The archive turns out to be a list. */
    if (h->document == DOCUMENT_OLDER && e->has_kind && !head->is_index) {
        const char *url = h->older.all[h->i_older - 1].url;
        enum status rc = history_parts_add(&h->found, slice_of(url),
                                           head->from_us, head->until_us);

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
        if (e->when_us != DATETIME_NONE && (h->root.first_us == DATETIME_NONE ||
                                            e->when_us < h->root.first_us))
            h->root.first_us = e->when_us;
        return STATUS_OK;
    }
    return list_entries_add(&h->kept, e, &h->now);
}

const struct document_events history_events = {on_link, on_entry};
