/*
 * closed_list.c - proves a closed Change List.
 */
#include "client/history/closed_list.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/gunzip.h"
#include "client/source/document.h"
#include "proto/resourcesync/fragment.h"
#include "proto/swar.h"
#include "proto/utf8.h"

/* Most bytes before the first entry: the root, its links and its rs:md. */
#define HEAD_MAX 65536

#define FOOTER "</urlset>\n"

/* A list while it is read. */
struct reading {
    struct closed_list *list;
    const struct closed_list_known *known;
    const atomic_bool *is_dropped;
    struct problem *why;
    struct slice rest;
    struct digest digest; /* d(seq) */
    bool has_digest;
    uint64_t seq;
};

void
closed_list_init(struct closed_list *list)
{
    *list = (struct closed_list){.n_pieces = 0};
    buf_init(&list->text, CLOSED_LIST_MAX);
}

void
closed_list_fini(struct closed_list *list)
{
    buf_fini(&list->text);
    free(list->pieces);
    closed_list_init(list);
}

static void
closed_list_clear(struct closed_list *list)
{
    buf_clear(&list->text);
    list->n_pieces = 0;
}

static enum status
not_by_broker(struct reading *r, const char *what)
{
    return problem(r->why, STATUS_UNSUPPORTED, "%s", what);
}

static enum status
on_bytes(struct slice bytes, void *user, struct problem *why)
{
    struct reading *r = user;

    if (atomic_load_explicit(r->is_dropped, memory_order_relaxed))
        return STATUS_STOPPED;
    buf_add_slice(&r->list->text, bytes);
    return r->list->text.failed ? problem_memory(why) : STATUS_OK;
}

static enum status
unpack(struct reading *r, struct slice body)
{
    struct gunzip *gunzip = gunzip_new(CLOSED_LIST_MAX, true, on_bytes, r);
    enum status rc;

    if (!gunzip)
        return problem_memory(r->why);
    rc = gunzip_all(gunzip, body, r->why);
    if (!rc)
        rc = gunzip_end(gunzip, r->why);
    gunzip_free(gunzip);
    if (rc == STATUS_TOO_LARGE)
        return problem(r->why, STATUS_UNSUPPORTED,
                       "it unpacks to more than %u bytes", CLOSED_LIST_MAX);
    return rc;
}

/* The head */

/* d(after) stands beside the address of the list before. */
static enum status
on_link(const struct document_link *link, void *user)
{
    struct reading *r = user;

    if (slice_is(link->rel, "prev") && link->has_digest) {
        r->digest = link->digest;
        r->has_digest = true;
    }
    return STATUS_OK;
}

/* Takes the head, the bytes before the first entry. */
static enum status
read_head(struct reading *r, const char *url, struct slice head)
{
    const struct document_events events = {.on_link = on_link};
    struct document *document = document_new(url, &events, r);
    const struct document_head *found;
    enum status rc;

    if (!document)
        return problem_memory(r->why);
    rc = document_feed(document, head, r->why);
    if (!rc)
        rc = document_feed(document, SLICE(FOOTER), r->why);
    if (!rc)
        rc = document_end(document, r->why);
    found = document_head(document);
    r->list->covers = found->td;
    if (rc && rc != STATUS_MEMORY)
        rc = not_by_broker(r, "its head cannot be read");
    else if (!rc && (found->is_index || !found->has_capability ||
                     found->capability != CAP_CHANGELIST ||
                     !found->has_td_range || !found->td.epoch[0] ||
                     !found->td.has_digest || found->until_us == DATETIME_NONE))
        rc = not_by_broker(r, "it is no closed Change List of a broker");
    document_free(document);
    return rc;
}

static enum status
take_head(struct reading *r, const char *url)
{
    size_t most = r->rest.size < HEAD_MAX ? r->rest.size : HEAD_MAX;
    const char *first = memmem(r->rest.data, most, "\n<url>", 6);
    size_t size = first ? (size_t)(first - r->rest.data) + 1 : 0;
    enum status rc;

    if (!first)
        return not_by_broker(r, "no entry follows its head");
    rc = read_head(r, url, (struct slice){r->rest.data, size});
    if (rc)
        return rc;
    slice_skip(&r->rest, size);
    r->seq = r->list->covers.after;
    if (r->seq == 0) {
        digest_start(&r->digest, slice_of(r->list->covers.epoch));
        r->has_digest = true;
    }
    return r->has_digest
               ? STATUS_OK
               : not_by_broker(r, "it does not name the digest before it");
}

/* The entries */

static inline uint64_t
is_odd(uint64_t v)
{
    return (v & SWAR_HIGHS) | swar_below(v, 0x20);
}

/* Valid UTF-8 of characters that XML allows, without control characters: those
 * of a broker are escaped. */
static bool
is_text(struct slice text)
{
    if (swar_none(text, is_odd, ' '))
        return true;
    while (text.size > 0) {
        uint32_t c;
        size_t n = utf8_read(text.data, text.size, &c);

        if (n == 0 || c < 0x20 || c == 0xfffe || c == 0xffff)
            return false;
        slice_skip(&text, n);
    }
    return true;
}

static enum status
check_known(struct reading *r)
{
    const struct closed_list_known *known = r->known;

    if (!known->has_digest || known->seq != r->seq ||
        !memcmp(&known->digest, &r->digest, sizeof(r->digest)))
        return STATUS_OK;
    return problem(r->why, STATUS_DIFFERENT,
                   "the digest at %llu does not match: it is another history",
                   (unsigned long long)r->seq);
}

/* The piece that the next entry goes to. */
static struct closed_piece *
piece_of(struct reading *r)
{
    struct closed_list *list = r->list;
    struct closed_piece *last =
        list->n_pieces ? &list->pieces[list->n_pieces - 1] : NULL;

    if (last && last->size < CLOSED_LIST_PIECE_BYTES &&
        last->last - last->after < CLOSED_LIST_PIECE_ENTRIES)
        return last;
    last = ONE_MORE(list->pieces, &list->capacity, list->n_pieces);
    if (!last)
        return NULL;
    list->pieces = last;
    last += list->n_pieces++;
    *last = (struct closed_piece){
        .at = (size_t)(r->rest.data - list->text.data),
        .after = r->seq,
        .last = r->seq,
    };
    return last;
}

static enum status
take_entry(struct reading *r)
{
    struct closed_piece *piece = piece_of(r);
    struct fragment_view view;
    struct slice fragment;

    if (!piece)
        return problem_memory(r->why);
    if (fragment_view(r->rest, &view))
        return not_by_broker(r, "an entry is in another form");
    fragment = (struct slice){r->rest.data, view.size};
    if (!is_text((struct slice){fragment.data, fragment.size - 1}))
        return not_by_broker(r, "an entry is no plain text");
    if (view.seq != r->seq + 1)
        return problem(r->why, STATUS_MALFORMED, "after entry %llu comes %llu",
                       (unsigned long long)r->seq,
                       (unsigned long long)view.seq);
    r->seq = view.seq;
    digest_add(&r->digest, fragment);
    slice_skip(&r->rest, view.size);
    piece->size += view.size;
    piece->last = r->seq;
    piece->digest = r->digest;
    return check_known(r);
}

/* Checks what a list that was read to its end promised in its head. */
static enum status
check_end(struct reading *r)
{
    const struct coverage *covers = &r->list->covers;

    if (!slice_is(r->rest, FOOTER))
        return problem(r->why, STATUS_MALFORMED,
                       "it breaks off behind entry %llu",
                       (unsigned long long)r->seq);
    if (r->seq != covers->last)
        return problem(
            r->why, STATUS_MALFORMED, "it ends with entry %llu, not with %llu",
            (unsigned long long)r->seq, (unsigned long long)covers->last);
    if (memcmp(&r->digest, &covers->digest, sizeof(r->digest)) != 0)
        return problem(r->why, STATUS_MALFORMED,
                       "its entries do not have the digest that it states");
    return STATUS_OK;
}

enum status
closed_list_read(struct closed_list *list, const char *url, struct slice body,
                 const struct closed_list_known *known,
                 const atomic_bool *is_dropped, struct problem *why)
{
    struct reading r = {
        .list = list, .known = known, .is_dropped = is_dropped, .why = why};
    enum status rc;

    closed_list_clear(list);
    rc = unpack(&r, body);
    if (rc)
        return rc;
    r.rest = buf_slice(&list->text);
    rc = take_head(&r, url);
    if (!rc)
        rc = check_known(&r);
    while (!rc && slice_starts(r.rest, "<url>")) {
        rc = take_entry(&r);
        if (!rc && atomic_load_explicit(is_dropped, memory_order_relaxed))
            rc = STATUS_STOPPED;
    }
    return rc ? rc : check_end(&r);
}

struct slice
closed_list_fragment(struct slice *rest)
{
    const char *end = memchr(rest->data, '\n', rest->size);
    size_t size = end ? (size_t)(end - rest->data) + 1 : rest->size;
    struct slice fragment = {rest->data, size};

    slice_skip(rest, size);
    return fragment;
}
