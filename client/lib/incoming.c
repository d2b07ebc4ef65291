/*
 * incoming.c - a message of the broker, read.
 *
 * proto/ reads and checks it; the texts of its entries are then cut out of the
 * message as they stand: in XML they are its lines that begin with <url>, in
 * JSON the elements of "changes".
 */
#include "client/lib/incoming.h"

#include <stdlib.h>

#include "client/lib/scan.h"

/* A change as the reader told it; strings by their place in in->strings. */
struct entry {
    uint64_t seq;
    enum change_kind kind;
    size_t loc;
    size_t datetime; /* SIZE_MAX: none */
};

static size_t
keep(struct incoming *in, struct slice text)
{
    size_t at = in->strings.size;

    buf_add_slice(&in->strings, text);
    BUF_ADD(&in->strings, "\0");
    return at;
}

static enum status
on_change(const struct change *change, void *user, struct problem *why)
{
    struct incoming *in = user;
    struct entry entry = {change->seq, change->kind, 0, SIZE_MAX};
    char datetime[DATETIME_SIZE];

    (void)why;
    entry.loc = keep(in, change->loc);
    if (change->datetime_us != DATETIME_NONE) {
        datetime_write(datetime, change->datetime_us);
        entry.datetime = keep(in, (struct slice){datetime, sizeof(datetime)});
    }
    buf_add(&in->entries, &entry, sizeof(entry));
    return in->strings.failed || in->entries.failed ? STATUS_MEMORY : STATUS_OK;
}

enum td_status
incoming_init(struct incoming *in, enum td_form form)
{
    struct slice type =
        form == TD_XML ? SLICE("application/xml") : SLICE("application/json");

    memset(in, 0, sizeof(*in));
    in->form = form;
    buf_init(&in->strings, SIZE_MAX / 2);
    buf_init(&in->entries, SIZE_MAX / 2);
    in->reader = reader_new(format_of(type), READER_MESSAGE,
                            DOCUMENT_ENTRIES_MAX, on_change, in);
    return in->reader ? TD_OK : TD_MEMORY;
}

void
incoming_fini(struct incoming *in)
{
    reader_free(in->reader);
    free(in->changes);
    buf_fini(&in->strings);
    buf_fini(&in->entries);
}

static enum td_status
list_changes(struct incoming *in)
{
    size_t n = in->entries.size / sizeof(struct entry);
    const char *entries = in->entries.data;

    free(in->changes);
    in->n_changes = 0;
    in->changes = calloc(n ? n : 1, sizeof(*in->changes));
    if (!in->changes)
        return TD_MEMORY;
    in->n_changes = n;
    for (size_t i = 0; i < n; i++) {
        struct td_change *change = &in->changes[i];
        struct entry entry;

        memcpy(&entry, entries + i * sizeof(entry), sizeof(entry));
        change->seq = entry.seq;
        change->change = change_kind_name(entry.kind);
        change->loc = in->strings.data + entry.loc;
        if (entry.datetime != SIZE_MAX)
            change->datetime = in->strings.data + entry.datetime;
    }
    return TD_OK;
}

/* Hands the next text to the next change without one. */
static bool
give_text(struct incoming *in, size_t *given, struct slice text)
{
    if (*given == in->n_changes)
        return false;
    in->changes[*given].text = text.data;
    in->changes[*given].text_size = text.size;
    ++*given;
    return true;
}

static bool
cut_xml(struct incoming *in, struct slice text)
{
    size_t given = 0;

    while (text.size) {
        const char *end = memchr(text.data, '\n', text.size);
        size_t size = end ? (size_t)(end - text.data) : text.size;

        /* A line that is not ended cannot be an entry: the footer follows. */
        if (end && slice_starts((struct slice){text.data, size}, "<url>") &&
            !give_text(in, &given, (struct slice){text.data, size}))
            return false;
        size += end != NULL;
        text = (struct slice){text.data + size, text.size - size};
    }
    return given == in->n_changes;
}

static bool
cut_json(struct incoming *in, struct slice text)
{
    struct slice changes;
    struct slice element;
    size_t given = 0;

    if (!scan_member(text, "changes", &changes))
        return in->n_changes == 0;
    while (scan_element(&changes, &element))
        if (!give_text(in, &given, element))
            return false;
    return given == in->n_changes;
}

enum td_status
incoming_read(struct incoming *in, struct slice text, struct problem *why)
{
    enum status rc;

    buf_clear(&in->strings);
    buf_clear(&in->entries);
    reader_reset(in->reader, on_change, in);
    rc = reader_feed(in->reader, text, why);
    if (!rc)
        rc = reader_end(in->reader, why);
    if (rc == STATUS_MEMORY || (!rc && list_changes(in)))
        return TD_MEMORY;
    if (rc)
        return TD_BROKEN;
    in->coverage = *reader_coverage(in->reader);

    if (in->form == TD_XML &&
        reader_capability(in->reader) != CAP_CHANGE_NOTIFICATION)
        problem_set(why, "it is no change notification");
    else if (!in->coverage.epoch[0])
        problem_set(why, "it does not tell its epoch");
    else if (in->form == TD_XML ? !cut_xml(in, text) : !cut_json(in, text))
        problem_set(why, "its entries cannot be told apart");
    else
        return TD_OK;
    return TD_BROKEN;
}

struct slice
incoming_fragment(const struct incoming *in, size_t i)
{
    return (struct slice){in->changes[i].text, in->changes[i].text_size + 1};
}

void
incoming_terminate(struct incoming *in, size_t first)
{
    for (size_t i = first; i < in->n_changes; i++) {
        char *text = (char *)in->changes[i].text;

        text[in->changes[i].text_size] = '\0';
    }
}
