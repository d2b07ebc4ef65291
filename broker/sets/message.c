#include "broker/sets/message.h"

#include <stdlib.h>
#include <string.h>

#include "broker/base/clock.h"
#include "broker/sets/links.h"
#include "proto/document.h"
#include "proto/formats.h"
#include "proto/json_change.h"
#include "proto/vocab.h"

/* A larger form is not made on a thread that others wait for. */
#define FORM_AT_ONCE_BYTES 65536

/* Batches merged in one message at most: of the smallest kind, one entry each,
 * this many make a good message. */
#define MERGE_MAX 4096

/* Most bytes around the entries of a message. */
#define ENVELOPE_MAX DOCUMENT_FRAME_MAX

/* The JSON form of a batch */

struct form_maker {
    struct buf bytes;
    uint32_t *starts;
    size_t n, max;
};

static enum status
add_json(const struct change *change, void *user, struct problem *why)
{
    struct form_maker *m = user;

    if (m->n == m->max)
        return problem(why, STATUS_IO, "a batch has more entries than it says");
    m->starts[m->n++] = (uint32_t)m->bytes.size;
    json_change(&m->bytes, change);
    BUF_ADD(&m->bytes, ",");
    return STATUS_OK;
}

/* Reads the fragments back and writes them as JSON. */
static enum status
convert(const struct batch *b, struct form_maker *m, struct problem *why)
{
    const struct document_head head = {
        .root = DOCUMENT_URLSET,
        .capability = CAP_CHANGELIST,
        .from_us = b->before_us,
        .until_us = DATETIME_NONE,
    };
    struct reader *reader = reader_new(format_of(SLICE("application/xml")),
                                       READER_MESSAGE, SIZE_MAX, add_json, m);
    struct buf header;
    enum status rc;

    buf_init(&header, DOCUMENT_FRAME_MAX);
    document_header(&header, &head);
    rc = !reader || header.failed
             ? problem(why, STATUS_MEMORY, "no memory for a message")
             : reader_feed(reader, buf_slice(&header), why);
    if (!rc)
        rc = reader_feed(reader, (struct slice){b->bytes, b->size}, why);
    if (!rc)
        rc = reader_feed(reader, document_footer_of(DOCUMENT_URLSET), why);
    if (!rc)
        rc = reader_end(reader, why);
    if (!rc && m->bytes.failed)
        rc = problem(why, STATUS_MEMORY, "no memory for a message");
    reader_free(reader);
    buf_fini(&header);
    return rc;
}

/* The JSON form of a batch, made if nobody has yet; lent by the batch. */
static enum status
json_form(struct batch *b, enum log_patience patience, struct form **result,
          struct problem *why)
{
    size_t n = b->n_entries, starts_size = (n + 1) * sizeof(uint32_t);
    struct form_maker m = {.max = n};
    struct form *form;
    enum status rc;

    *result = batch_form(b);
    if (*result)
        return STATUS_OK;
    if (patience == LOG_MEMORY && b->size > FORM_AT_ONCE_BYTES)
        return STATUS_AGAIN;

    buf_init(&m.bytes, (size_t)1 << 30);
    m.starts = malloc(starts_size);
    if (!m.starts)
        return problem(why, STATUS_MEMORY, "no memory for a message");
    rc = convert(b, &m, why);
    if (!rc) {
        m.starts[n] = (uint32_t)m.bytes.size;
        form = malloc(sizeof(*form) + starts_size + m.bytes.size);
        if (form) {
            char *starts = (char *)(form + 1);

            memcpy(starts, m.starts, starts_size);
            memcpy(starts + starts_size, m.bytes.data, m.bytes.size);
            form->size = sizeof(*form) + starts_size + m.bytes.size;
            form->starts = (const uint32_t *)(void *)starts;
            form->bytes = starts + starts_size;
            *result = batch_keep_form(b, form);
        } else {
            rc = problem(why, STATUS_MEMORY, "no memory for a message");
        }
    }
    free(m.starts);
    buf_fini(&m.bytes);
    return rc;
}

/* The entries of a batch after `after` up to `last`, in a form, with separators
 * but none at the end. */
static struct slice
entries_of(const struct batch *b, const struct form *form, uint64_t after,
           uint64_t last)
{
    uint32_t from, to;

    if (!form)
        return batch_slice(b, after, last);
    from = form->starts[after + 1 - b->first];
    to = form->starts[last + 1 - b->first];
    return (struct slice){form->bytes + from, to > from ? to - from - 1 : 0};
}

/* A message being put together */

struct part {
    struct batch *batch;
    struct form *form; /* NULL in XML */
    uint64_t after, last;
};

struct assembly {
    const struct message_wish *wish;
    struct part *parts;
    size_t n_parts, capacity;
    size_t bytes;
};

static enum status
add_part(struct assembly *a, const struct part *part)
{
    if (a->n_parts == a->capacity) {
        size_t n = a->capacity ? a->capacity * 4 : 16;
        struct part *parts = realloc(a->parts, n * sizeof(*parts));

        if (!parts)
            return STATUS_MEMORY;
        a->parts = parts;
        a->capacity = n;
    }
    a->parts[a->n_parts++] = *part;
    return STATUS_OK;
}

/* Cuts what a batch gives so that the message stays within its limits; at least
 * one entry stays in the first part. */
static void
cut(const struct assembly *a, struct part *part, uint64_t count)
{
    uint64_t low = part->after + (a->n_parts == 0), high = part->last;
    size_t room = a->wish->max_bytes - a->bytes;

    if (high - part->after > DOCUMENT_ENTRIES_MAX - count)
        high = part->after + (DOCUMENT_ENTRIES_MAX - count);
    if (entries_of(part->batch, part->form, part->after, high).size <= room) {
        part->last = high;
        return;
    }
    while (low < high) {
        uint64_t middle = low + (high - low + 1) / 2;

        if (entries_of(part->batch, part->form, part->after, middle).size <=
            room)
            low = middle;
        else
            high = middle - 1;
    }
    part->last = low;
}

/* Collects the batches that the message is made of. */
static enum status
gather(struct assembly *a, struct problem *why)
{
    const struct message_wish *wish = a->wish;
    struct cursor cursor = {registry_log(wish->set->registry), wish->set->log,
                            wish->after};
    enum status rc = STATUS_OK;

    a->bytes = ENVELOPE_MAX;
    while (cursor.after < wish->upto && a->n_parts < MERGE_MAX &&
           a->bytes < wish->max_bytes) {
        struct part part = {.after = cursor.after};
        uint64_t whole;

        rc = cursor_next(&cursor, wish->patience, &part.batch, why);
        if (rc || !part.batch)
            break;
        if (wish->form == MESSAGE_JSON)
            rc = json_form(part.batch, wish->patience, &part.form, why);
        whole = part.batch->last < wish->upto ? part.batch->last : wish->upto;
        part.last = whole;
        if (!rc)
            cut(a, &part, cursor.after - wish->after);
        if (!rc && part.last > part.after && add_part(a, &part))
            rc = problem(why, STATUS_MEMORY, "no memory for a message");
        if (rc || part.last == part.after) {
            batch_unref(part.batch);
            break;
        }
        a->bytes +=
            entries_of(part.batch, part.form, part.after, part.last).size +
            (part.form != NULL); /* the comma between two parts */
        cursor.after = part.last;
        if (part.last < whole)
            break;
    }
    /* What comes next can come in the next message, unless this one was to end
     * at a certain entry. */
    if (a->n_parts == 0 ||
        (wish->upto != UINT64_MAX && cursor.after < wish->upto))
        return rc;
    return STATUS_OK;
}

/* The coverage of a message of the set; its ends are still to be filled in. */
static struct coverage
coverage_at(const struct set *set, const struct head *head)
{
    struct coverage c = {.has_digest = true, .now_us = DATETIME_NONE};

    memcpy(c.epoch, head->epoch, sizeof(c.epoch));
    memcpy(c.set, set->name, strlen(set->name) + 1);
    return c;
}

static void
open_message(struct buf *to, const struct message_wish *wish,
             const struct coverage *c)
{
    const char *public_url = registry_public_url(wish->set->registry);

    if (wish->form == MESSAGE_JSON) {
        struct link_text next = {.size = 0};

        if (wish->has_next)
            next = link_to(public_url, LINK_MEMORY, wish->set->name, c->epoch,
                           c->last);
        json_message_begin(to, c, link_slice(&next));
    } else {
        struct link_text up =
            link_to(public_url, LINK_CAPABILITYLIST, wish->set->name, NULL, 0);
        struct document_link links[] = {{"up", link_slice(&up), NULL}};
        struct document_head head = {
            .root = DOCUMENT_URLSET,
            .capability = CAP_CHANGE_NOTIFICATION,
            .links = links,
            .n_links = 1,
            .from_us = c->from_us,
            .until_us = c->until_us,
            .coverage = c,
        };

        document_header(to, &head);
    }
}

static void
close_message(struct buf *to, enum message_form form)
{
    if (form == MESSAGE_JSON)
        json_message_end(to);
    else
        document_footer(to, DOCUMENT_URLSET);
}

/* T(seq) and d(seq), whatever tier holds that entry. */
static enum status
look_up(struct set *set, const struct head *head, uint64_t seq,
        enum log_patience patience, int64_t *us, struct digest *digest,
        struct problem *why)
{
    struct batch *b;
    enum status rc;

    if (seq == head->last) {
        *us = head->last_us;
        *digest = head->digest;
        return STATUS_OK;
    }
    if (seq == 0) {
        *us = head->created_us;
        digest_start(digest, slice_of(head->epoch));
        return STATUS_OK;
    }
    /* Entry `seq` itself may be the last that is no longer retained; the batch
     * of the next one tells as well. */
    rc = log_read(registry_log(set->registry), set->log,
                  seq == head->earliest ? seq : seq - 1, patience, &b, why);
    if (!rc && !b)
        rc = problem(why, STATUS_GONE, "entry %llu is ahead of the log",
                     (unsigned long long)seq);
    if (rc)
        return rc;
    *us = batch_time(b, seq);
    *digest = batch_digest(b, seq);
    batch_unref(b);
    return STATUS_OK;
}

/* A reader that retention has left behind is told so, also while the entries
 * can still be had: where one ends there is the same for all. */
static enum status
check_retained(const struct head *head, uint64_t after, struct problem *why)
{
    if (after >= head->earliest)
        return STATUS_OK;
    return problem(why, STATUS_GONE, "entry %llu is no longer retained",
                   (unsigned long long)after + 1);
}

static enum status
write_empty(struct buf *to, const struct message_wish *wish,
            const struct head *head, bool is_heartbeat, struct problem *why)
{
    struct coverage c = coverage_at(wish->set, head);
    enum status rc = look_up(wish->set, head, wish->after, wish->patience,
                             &c.until_us, &c.digest, why);

    if (rc)
        return rc;
    c.from_us = c.until_us;
    c.after = c.last = wish->after;
    if (is_heartbeat) {
        c.now_us = clock_now_us();
        c.heartbeat_us = registry_config(wish->set->registry)->heartbeat_us;
    }
    open_message(to, wish, &c);
    close_message(to, wish->form);
    return to->failed ? problem(why, STATUS_MEMORY, "no memory for a message")
                      : STATUS_OK;
}

static enum status
write_parts(struct buf *to, const struct assembly *a, const struct head *head,
            struct problem *why)
{
    const struct part *first = &a->parts[0], *last = &a->parts[a->n_parts - 1];
    struct coverage c = coverage_at(a->wish->set, head);

    c.after = first->after;
    c.last = last->last;
    c.from_us = batch_time(first->batch, first->after);
    c.until_us = batch_time(last->batch, last->last);
    c.digest = batch_digest(last->batch, last->last);
    open_message(to, a->wish, &c);
    for (size_t i = 0; i < a->n_parts; i++) {
        const struct part *part = &a->parts[i];

        if (i > 0 && a->wish->form == MESSAGE_JSON)
            BUF_ADD(to, ",");
        buf_add_slice(
            to, entries_of(part->batch, part->form, part->after, part->last));
    }
    close_message(to, a->wish->form);
    return to->failed ? problem(why, STATUS_MEMORY, "no memory for a message")
                      : STATUS_OK;
}

enum status
message_write(struct buf *to, const struct message_wish *wish, uint64_t *last,
              struct problem *why)
{
    struct assembly a = {.wish = wish};
    struct head head;
    enum status rc;

    if (!log_head(wish->set->log, &head))
        return problem(why, STATUS_NOT_FOUND, "no such set");
    rc = check_retained(&head, wish->after, why);
    if (!rc)
        rc = gather(&a, why);
    if (!rc && a.n_parts == 0) {
        *last = wish->after;
        rc = write_empty(to, wish, &head, false, why);
    } else if (!rc) {
        *last = a.parts[a.n_parts - 1].last;
        rc = write_parts(to, &a, &head, why);
    }
    for (size_t i = 0; i < a.n_parts; i++)
        batch_unref(a.parts[i].batch);
    free(a.parts);
    return rc;
}

enum status
message_heartbeat(struct buf *to, struct set *set, enum message_form form,
                  uint64_t seq, enum log_patience patience, struct problem *why)
{
    struct message_wish wish = {
        .set = set, .form = form, .after = seq, .patience = patience};
    struct head head;

    enum status rc;

    if (!log_head(set->log, &head))
        return problem(why, STATUS_NOT_FOUND, "no such set");
    rc = check_retained(&head, seq, why);
    return rc ? rc : write_empty(to, &wish, &head, true, why);
}
