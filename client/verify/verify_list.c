#include "client/verify/verify_list.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/buf.h"
#include "proto/resourcesync/document_write.h"
#include "proto/resourcesync/fragment.h"

/* The broker's are shorter than DOCUMENT_FRAME_MAX. */
#define HEADER_MAX 65536

struct verify_list {
    struct verify_chain chain; /* this list's copy of the chain */
    char where[VERIFY_HREF_MAX + 1];

    enum { AT_HEADER, AT_ENTRIES, AT_END } at;
    enum status rc; /* the fault that ended it */
    uint64_t line;  /* under way, from 1 */
    uint64_t n_entries;
    struct buf header;
    struct buf part; /* of a line without its end */
    bool has_head;
    struct verify_head head;
    bool is_altered;   /* its digest is not that of its entries */
    uint64_t told_seq; /* verify_list_expect; 0: nothing */
    struct digest told;
    const char *told_where;
};

bool
verify_is_url(const char *where)
{
    return !strncmp(where, "http://", 7) || !strncmp(where, "https://", 8);
}

struct slice
verify_name(const char *where)
{
    size_t end = verify_is_url(where) ? strcspn(where, "?#") : strlen(where);
    size_t begin = end;

    while (begin > 0 && where[begin - 1] != '/')
        begin--;
    if (end - begin > 3 && !memcmp(where + end - 3, ".gz", 3))
        end -= 3;
    return (struct slice){where + begin, end - begin};
}

struct verify_list *
verify_list_new(const struct verify_chain *chain, const char *where)
{
    struct verify_list *l = calloc(1, sizeof(*l));

    if (!l)
        return NULL;
    l->chain = *chain;
    snprintf(l->where, sizeof(l->where), "%s", where);
    l->line = 1;
    buf_init(&l->header, HEADER_MAX);
    buf_init(&l->part, FRAGMENT_MAX);
    return l;
}

void
verify_list_free(struct verify_list *list)
{
    if (!list)
        return;
    buf_fini(&list->header);
    buf_fini(&list->part);
    free(list);
}

void
verify_list_expect(struct verify_list *list, uint64_t seq,
                   const struct digest *digest, const char *where)
{
    list->told_seq = seq;
    list->told = *digest;
    list->told_where = where;
}

uint64_t
verify_list_reached(const struct verify_list *list)
{
    return list->is_altered ? list->head.after : list->chain.last;
}

const struct verify_head *
verify_list_head(const struct verify_list *list)
{
    return list->has_head ? &list->head : NULL;
}

/* The head */

/* Reads the header as a document without entries. */
static enum status
read_head(struct verify_list *l, struct problem *why)
{
    struct verify_reader *reader = verify_reader_new(NULL, NULL);
    enum status rc = STATUS_MEMORY;

    if (reader)
        rc = verify_reader_feed(reader, buf_slice(&l->header), why);
    if (!rc)
        rc = verify_reader_feed(reader, document_footer_of(DOCUMENT_URLSET),
                                why);
    if (!rc)
        rc = verify_reader_end(reader, why);
    if (!rc)
        l->head = *verify_reader_head(reader);
    l->has_head = !rc;
    verify_reader_free(reader);
    if (!rc && (l->head.is_index || !l->head.has_capability ||
                l->head.capability != CAP_CHANGELIST))
        return problem(why, STATUS_INVALID, "it is no Change List");
    if (!rc && (!l->head.epoch[0] || !l->head.has_range || !l->head.has_digest))
        return problem(why, STATUS_INVALID,
                       "td:epoch, td:after, td:last or td:digest is missing: "
                       "it is no Change List of Tidings");
    return rc;
}

struct digits {
    char text[DIGEST_TEXT_SIZE + 1];
};

static struct digits
hex_digits(const struct digest *digest)
{
    struct digits d = {""};

    digest_write(d.text, digest);
    return d;
}

static struct digits
time_of(int64_t us)
{
    struct digits d = {"none"};

    if (us != DATETIME_NONE) {
        datetime_write(d.text, us);
        d.text[DATETIME_SIZE] = '\0';
    }
    return d;
}

/* Checks that the list begins where the chain ends. */
static enum status
check_place(const struct verify_list *l, struct problem *why)
{
    const struct verify_chain *chain = &l->chain;
    const struct verify_head *head = &l->head;

    if (head->last < head->after ||
        head->last - head->after > DOCUMENT_ENTRIES_MAX)
        return problem(why, STATUS_INVALID,
                       "it says that it has the entries after %" PRIu64
                       " up to %" PRIu64,
                       head->after, head->last);
    if (!chain->epoch[0])
        return STATUS_OK;
    if (strcmp(chain->epoch, head->epoch))
        return problem(why, STATUS_INVALID,
                       "it is of another history: expected epoch %s, found %s",
                       chain->epoch, head->epoch);
    if (head->after > chain->last)
        return problem(why, STATUS_INVALID,
                       "entries %" PRIu64 " to %" PRIu64
                       " are missing: what comes next begins after entry "
                       "%" PRIu64,
                       chain->last + 1, head->after, head->after);
    if (head->after < chain->last)
        return problem(why, STATUS_INVALID,
                       "expected what comes after entry %" PRIu64
                       ", found a list that begins after entry %" PRIu64,
                       chain->last, head->after);
    if (chain->is_open)
        return problem(why, STATUS_INVALID,
                       "the list before it, %s, is not closed: it has no until",
                       chain->name);
    if (head->from_us != chain->last_us)
        return problem(why, STATUS_INVALID,
                       "expected from=\"%s\", the list before ends there; "
                       "found %s",
                       time_of(chain->last_us).text,
                       time_of(head->from_us).text);
    return STATUS_OK;
}

/* True for a name like "000000000001.xml", which the broker gives. A copy may
 * have another one. */
static bool
is_numbered(struct slice name)
{
    size_t n = 0;

    while (n < name.size && name.data[n] >= '0' && name.data[n] <= '9')
        n++;
    return n >= 12 &&
           slice_is((struct slice){name.data + n, name.size - n}, ".xml");
}

/* Checks that the links of two neighbours name each other. Compares names
 * alone: documents keep the public URL of the day when they were closed. */
static enum status
check_links(const struct verify_list *l, struct problem *why)
{
    const struct verify_chain *chain = &l->chain;
    struct slice prev = verify_name(l->head.prev);
    struct slice next = verify_name(chain->next);
    struct slice own = verify_name(l->where);

    if (!chain->epoch[0])
        return STATUS_OK;
    if (is_numbered(slice_of(chain->name)) && !slice_is(prev, chain->name))
        return problem(why, STATUS_INVALID,
                       "its link prev is %s, the list before it is %s",
                       problem_quote(prev).text, chain->name);
    if (next.size > 0 && is_numbered(own) && !slice_equal(next, own))
        return problem(why, STATUS_INVALID,
                       "the link next of the list before it, %s, is %s",
                       chain->name, problem_quote(next).text);
    return STATUS_OK;
}

/* Sets the digest that the entries continue. */
static enum status
check_digest(struct verify_list *l, struct problem *why)
{
    struct verify_chain *chain = &l->chain;
    const struct verify_head *head = &l->head;
    struct digest start;

    if (head->after > 0 && (!head->prev[0] || !head->has_before))
        return problem(why, STATUS_INVALID,
                       "it has no link prev with a td:digest, but begins after "
                       "entry %" PRIu64,
                       head->after);
    if (head->after == 0 && head->prev[0])
        return problem(why, STATUS_INVALID,
                       "it has a link prev, but begins with the first entry");
    if (head->from_us == DATETIME_NONE)
        return problem(why, STATUS_INVALID, "it has no from");

    digest_start(&start, slice_of(head->epoch));
    if (chain->epoch[0])
        start = chain->digest;
    else if (head->after > 0)
        start = head->before; /* the first list's own word */
    if (head->after > 0 && !digest_is_equal(&start, &head->before))
        return problem(why, STATUS_INVALID,
                       "the td:digest of its link prev: expected %s, found %s",
                       hex_digits(&start).text, hex_digits(&head->before).text);
    if (!chain->epoch[0]) {
        memcpy(chain->epoch, head->epoch, sizeof(chain->epoch));
        chain->after = chain->last = head->after;
        chain->from_us = chain->last_us = head->from_us;
    }
    chain->digest = start;
    return STATUS_OK;
}

static enum status
end_head(struct verify_list *l, struct problem *why)
{
    enum status rc = read_head(l, why);

    if (rc)
        return rc;
    l->at = AT_ENTRIES;
    rc = check_place(l, why);
    if (!rc)
        rc = check_links(l, why);
    if (!rc)
        rc = check_digest(l, why);
    buf_fini(&l->header);
    return rc;
}

/* Entries */

static enum status
check_told(struct verify_list *l, struct problem *why)
{
    if (l->chain.last != l->told_seq ||
        digest_is_equal(&l->chain.digest, &l->told))
        return STATUS_OK;
    return problem(why, STATUS_INVALID,
                   "%s has other entries up to %" PRIu64
                   ": its digest of that is %s, here it is %s",
                   l->told_where, l->told_seq, hex_digits(&l->told).text,
                   hex_digits(&l->chain.digest).text);
}

static enum status
add_entry(struct verify_list *l, struct slice line, struct problem *why)
{
    struct verify_chain *chain = &l->chain;
    struct fragment_view view;

    if (fragment_view(line, &view) || view.size != line.size)
        return problem(why, STATUS_MALFORMED,
                       "line %" PRIu64 ": it is no entry as Tidings write them",
                       l->line);
    if (view.seq != chain->last + 1)
        return problem(why, STATUS_INVALID,
                       "line %" PRIu64 ": expected entry %" PRIu64
                       ", found entry %" PRIu64,
                       l->line, chain->last + 1, view.seq);
    if (view.us <= chain->last_us)
        return problem(why, STATUS_INVALID,
                       "line %" PRIu64 ": the time of entry %" PRIu64
                       ": expected one after %s, found %s",
                       l->line, view.seq, time_of(chain->last_us).text,
                       time_of(view.us).text);
    if (view.seq > l->head.last)
        return problem(why, STATUS_INVALID,
                       "line %" PRIu64 ": entry %" PRIu64
                       ", but it says that its last one is %" PRIu64,
                       l->line, view.seq, l->head.last);
    digest_add(&chain->digest, line);
    chain->last = view.seq;
    chain->last_us = view.us;
    return l->told_seq ? check_told(l, why) : STATUS_OK;
}

/* Adds one line with its end. */
static enum status
add_line(struct verify_list *l, struct slice line, struct problem *why)
{
    struct slice footer = document_footer_of(DOCUMENT_URLSET);
    bool is_entry = slice_starts(line, "<url>");
    bool is_footer = slice_equal(line, footer);
    enum status rc = STATUS_OK;

    if (l->at == AT_HEADER && !is_entry && !is_footer) {
        buf_add_slice(&l->header, line);
        return l->header.is_starved ? problem_memory(why)
               : l->header.failed
                   ? problem(why, STATUS_INVALID,
                             "no entry within the first %d bytes", HEADER_MAX)
                   : STATUS_OK;
    }
    if (l->at == AT_HEADER)
        rc = end_head(l, why);
    if (rc)
        return rc;
    if (is_entry && l->at == AT_ENTRIES)
        return add_entry(l, line, why);
    if (!is_footer || l->at != AT_ENTRIES)
        return problem(
            why, STATUS_MALFORMED,
            "line %" PRIu64 ": neither an entry nor the end: \"%s\"", l->line,
            problem_quote((struct slice){line.data, line.size - 1}).text);
    l->at = AT_END;
    return STATUS_OK;
}

/* Adds to the line without its end. */
static enum status
keep_part(struct verify_list *l, struct slice part, struct problem *why)
{
    buf_add_slice(&l->part, part);
    if (!l->part.failed)
        return STATUS_OK;
    if (l->part.is_starved)
        return problem_memory(why);
    return problem(why, STATUS_MALFORMED,
                   "line %" PRIu64 ": it is longer than %d bytes", l->line,
                   FRAGMENT_MAX);
}

enum status
verify_list_feed(struct verify_list *list, struct slice bytes,
                 struct problem *why)
{
    while (bytes.size > 0 && !list->rc) {
        const char *end = memchr(bytes.data, '\n', bytes.size);
        size_t size = end ? (size_t)(end - bytes.data) + 1 : bytes.size;
        struct slice line = {bytes.data, size};

        slice_skip(&bytes, size);
        if (!end || list->part.size > 0) {
            list->rc = keep_part(list, line, why);
            line = buf_slice(&list->part);
        }
        if (!end || list->rc)
            break;
        list->rc = add_line(list, line, why);
        buf_clear(&list->part);
        list->line++;
    }
    return list->rc;
}

/* Checks the list as a whole. */
static enum status
check_end(struct verify_list *l, struct problem *why)
{
    const struct verify_head *head = &l->head;
    const struct verify_chain *chain = &l->chain;

    if (l->at != AT_END || l->part.size > 0)
        return problem(why, STATUS_MALFORMED,
                       "line %" PRIu64 ": it ends here, but not with </urlset>",
                       l->line);
    if (chain->last != head->last)
        return problem(why, STATUS_INVALID,
                       "it says that its last entry is %" PRIu64
                       ", but ends with entry %" PRIu64,
                       head->last, chain->last);
    l->is_altered = !digest_is_equal(&chain->digest, &head->digest);
    if (l->is_altered)
        return problem(why, STATUS_INVALID,
                       "an entry from %" PRIu64 " to %" PRIu64
                       " was altered: expected td:digest %s, the entries make "
                       "%s",
                       head->after + 1, head->last,
                       hex_digits(&head->digest).text,
                       hex_digits(&chain->digest).text);
    if (head->until_us != DATETIME_NONE && head->last == head->after)
        return problem(why, STATUS_INVALID, "it is closed, but has no entries");
    if (head->until_us != DATETIME_NONE && head->until_us != chain->last_us)
        return problem(why, STATUS_INVALID,
                       "expected until=\"%s\", the time of its last entry; "
                       "found %s",
                       time_of(chain->last_us).text,
                       time_of(head->until_us).text);
    return STATUS_OK;
}

enum status
verify_list_end(struct verify_list *list, struct verify_chain *chain,
                struct problem *why)
{
    if (!list->rc)
        list->rc = check_end(list, why);
    if (list->rc)
        return list->rc;
    *chain = list->chain;
    chain->is_open = list->head.until_us == DATETIME_NONE;
    snprintf(chain->next, sizeof(chain->next), "%s", list->head.next);
    snprintf(chain->name, sizeof(chain->name), "%.*s",
             SLICE_ARG(verify_name(list->where)));
    return STATUS_OK;
}
