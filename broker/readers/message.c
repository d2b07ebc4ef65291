#include "broker/readers/message.h"

#include "base/array.h"
#include "broker/readers/selection.h"
#include "broker/sets/framework_events.h"
#include "proto/resourcesync/cloud_event.h"
#include "proto/resourcesync/document_write.h"
#include "proto/resourcesync/json.h"

/* Batches merged in one message at most: of the smallest kind, one entry each,
 * this many make a good message. */
#define MERGE_MAX 4096

/* Most bytes around the entries of a message. */
#define ENVELOPE_MAX DOCUMENT_FRAME_MAX

/* What a filtered message looks at of the log at most, in bytes of fragments:
 * what takes a millisecond or less in memory (measured: 5 to 65 ns for an
 * entry of 300 bytes), and from a disk as long as a large message. */
#define SCAN_MEMORY_BYTES ((size_t)1 << 20)
#define SCAN_DISK_BYTES   ((size_t)8 << 20)

/* Forms */

const struct message_form_row message_forms[MESSAGE_FORMS] = {
    [MESSAGE_XML] = {"xml", "application/xml"},
    [MESSAGE_PLAIN] = {"plain", "application/xml"},
    [MESSAGE_JSON] = {"json", "application/json"},
    [MESSAGE_CLOUDEVENTS] = {"cloudevents",
                             "application/cloudevents-batch+json"},
    [MESSAGE_CLOUDEVENT] = {"cloudevent", "application/cloudevents+json"},
};

bool
message_form_of(struct slice name, enum message_form *form)
{
    for (size_t i = 0; i < MESSAGE_FORMS; i++)
        if (slice_is(name, message_forms[i].name)) {
            *form = (enum message_form)i;
            return true;
        }
    return false;
}

/* A message being put together */

/* The entries of one batch in it. */
struct message_part {
    struct selection selection;
    size_t from, n; /* entries of the selection */
};

struct assembly {
    const struct message_wish *wish;
    struct message *message;
    const struct filter_class *filter; /* the reader's, or the channel's */
    size_t capacity;                   /* of the message's parts */
    size_t bytes;
    size_t n_entries;
    size_t scanned;    /* bytes of fragments that were looked at */
    uint64_t start;    /* looks at the entries after this one ... */
    uint64_t last;     /* ... and has come up to this one ... */
    struct batch *end; /* ... which this batch has; NULL: nowhere yet */
    int64_t start_us;  /* T(start), if end is there */
    struct log_view *view;
    size_t n_viewed; /* batches of the view that it has looked at */
};

/* Takes as many entries of a batch as the message's limits allow, at least one
 * in all. Returns the seq before the next entry that passes. */
static uint64_t
fill_part(struct assembly *a, struct message_part *part, uint64_t whole)
{
    const struct selection *s = &part->selection;
    size_t most =
        a->wish->form == MESSAGE_CLOUDEVENT ? 1 : DOCUMENT_ENTRIES_MAX;
    size_t max = most - a->n_entries, n, size,
           room = a->wish->max_bytes > a->bytes ? a->wish->max_bytes - a->bytes
                                                : 0;

    part->from = selection_after(s, a->last);
    n = selection_after(s, whole) - part->from;
    part->n = selection_fit(s, part->from, n < max ? n : max, room, &size);
    if (part->n == 0 && n > 0 && a->n_entries == 0) {
        part->n = 1;
        selection_fit(s, part->from, 1, SIZE_MAX, &size);
    }
    a->n_entries += part->n;
    if (part->n > 0)
        /* and the comma between two parts */
        a->bytes += size + message_form_is_json(a->wish->form);
    return part->n == n ? whole : selection_seq(s, part->from + part->n) - 1;
}

/* Looks at one more batch. *is_full: no more fits. */
static enum status
add_batch(struct assembly *a, struct batch *b, bool *is_full,
          struct problem *why)
{
    const struct message_wish *wish = a->wish;
    struct message *m = a->message;
    struct message_part part = {.from = 0};
    uint64_t whole = b->last < wish->upto ? b->last : wish->upto, last;
    enum status rc = selection_make(&part.selection, b, a->filter, wish->form,
                                    wish->set, why);

    if (rc)
        return rc;
    last = fill_part(a, &part, whole);
    *is_full = last < whole;
    if (part.n > 0 && !ONE_MORE(m->parts, &a->capacity, m->n_parts))
        rc = problem_memory(why);
    if (rc || part.n == 0) {
        selection_fini(&part.selection);
    } else {
        batch_ref(b); /* the part's */
        m->parts[m->n_parts++] = part;
    }
    if (rc || last == a->last)
        return rc;

    if (!a->end) {
        a->start_us = batch_time(b, a->start);
        m->committed_us = b->committed_us;
    }
    batch_unref(a->end);
    a->end = batch_ref(b);
    a->last = last;
    a->scanned += b->size;
    return STATUS_OK;
}

/* Takes another view of the log: one is enough for most messages. */
static void
look_at_log(struct assembly *a, uint64_t upto)
{
    log_view_close(a->view);
    log_view_open(channel_log(a->wish->set, a->wish->is_framework), a->last,
                  upto, a->filter ? SCAN_MEMORY_BYTES : a->wish->max_bytes,
                  a->view);
    a->n_viewed = 0;
}

/* Sets *b to the next batch, with a reference, or to NULL at the head. */
static enum status
next_batch(struct assembly *a, struct batch **b, struct problem *why)
{
    const struct message_wish *wish = a->wish;

    *b = NULL;
    if (a->last == a->view->head.last)
        return STATUS_OK;
    if (a->n_viewed > 0 && a->n_viewed == a->view->n)
        look_at_log(a, wish->upto);
    if (a->n_viewed == a->view->n)
        return log_read(wish->set->registry->log,
                        channel_log(wish->set, wish->is_framework), a->last,
                        wish->patience, b, why);
    *b = batch_ref(a->view->batches[a->n_viewed++]);
    return STATUS_OK;
}

/* Collects the batches that the message is made of. */
static enum status
gather_batches(struct assembly *a, struct problem *why)
{
    const struct message_wish *wish = a->wish;
    /* What a filtered message looks at; one that is to end at a certain entry
     * was within the limits when it was first made. */
    size_t most = !a->filter || wish->upto != UINT64_MAX ? SIZE_MAX
                  : wish->patience == LOG_MEMORY         ? SCAN_MEMORY_BYTES
                                                         : SCAN_DISK_BYTES;
    bool is_full = false;
    enum status rc = STATUS_OK;

    a->bytes = ENVELOPE_MAX;
    while (a->last < wish->upto && a->message->n_parts < MERGE_MAX &&
           !is_full && (a->n_entries == 0 || a->bytes < wish->max_bytes) &&
           a->scanned < most) {
        struct batch *b;

        rc = next_batch(a, &b, why);
        if (rc || !b)
            break;
        rc = add_batch(a, b, &is_full, why);
        batch_unref(b);
        if (rc)
            break;
    }
    /* A message may end early, unless the caller fixed its last entry. */
    if (a->last == a->start ||
        (wish->upto != UINT64_MAX && a->last < wish->upto))
        return rc;
    return STATUS_OK;
}

static void
add_header(struct buf *to, const struct message_wish *wish,
           const struct coverage *c)
{
    const char *public_url = wish->set->registry->options.public_url;
    const struct slice filter = wish->filter
                                    ? filter_text(&wish->filter->filter)
                                    : (struct slice){NULL, 0};
    struct buf self = {.max = LINK_URL_MAX + 1 + FILTER_TEXT_MAX},
               next = {.max = LINK_URL_MAX + 1 + FILTER_TEXT_MAX};

    /* The two links of a page of change memory; none has a
     * `prev`: pages begin where their readers say. */
    if (wish->has_next) {
        link_memory(&self, public_url, wish->set->name, c->epoch, c->after,
                    filter);
        link_memory(&next, public_url, wish->set->name, c->epoch, c->last,
                    filter);
    }
    if (wish->form == MESSAGE_CLOUDEVENTS) {
        BUF_ADD(to, "[");
    } else if (wish->form == MESSAGE_JSON) {
        json_message_begin(to, c, buf_slice(&next));
    } else if (wish->form == MESSAGE_CLOUDEVENT && wish->is_heartbeat) {
        struct link_text url = set_link(wish->set, LINK_SET);
        const struct cloud_event_source source = {link_slice(&url), c->epoch};

        cloud_event_write_heartbeat(to, &source, c->after, c->now_us);
    } else if (wish->form != MESSAGE_CLOUDEVENT) {
        struct link_text up = set_link(wish->set, LINK_CAPABILITYLIST);
        const struct document_link links[] = {{"up", link_slice(&up)},
                                              {"self", buf_slice(&self)},
                                              {"next", buf_slice(&next)}};
        const struct document_head head = {
            .root = DOCUMENT_URLSET,
            .capability = wish->is_framework ? CAP_FRAMEWORK_NOTIFICATION
                                             : CAP_CHANGE_NOTIFICATION,
            .links = links,
            .n_links = wish->form == MESSAGE_PLAIN ? 0 : N_ELEMENTS(links),
            .from_us = c->from_us,
            .until_us = c->until_us,
            .coverage = c,
        };

        document_header(to, &head);
    }
    buf_fini(&self);
    buf_fini(&next);
}

/* Finds the batch of entry `seq` in memory, the store or a list file. */
static enum status
batch_of(const struct message_wish *wish, uint64_t seq, struct batch **b,
         struct problem *why)
{
    enum status rc = log_read(wish->set->registry->log,
                              channel_log(wish->set, wish->is_framework),
                              seq - 1, wish->patience, b, why);

    if (!rc && !*b)
        rc = problem(why, STATUS_GONE, "entry %" PRIu64 " is ahead of the log",
                     seq);
    return rc;
}

/* T(seq) and d(seq). */
static enum status
look_up(const struct assembly *a, uint64_t seq, int64_t *us,
        struct digest *digest, struct problem *why)
{
    const struct head *head = &a->view->head;
    struct batch *b;
    enum status rc;

    if (seq == head->last) {
        *us = head->last_us;
        *digest = head->digest;
        return STATUS_OK;
    }
    if (seq == 0) {
        *us = head->created_us;
        digest_sha256(digest, slice_of(head->origin));
        return STATUS_OK;
    }
    /* Entry `seq` itself may be the last that is no longer retained; the batch
     * of the next one has both as well. */
    rc = batch_of(a->wish, seq == head->earliest ? seq + 1 : seq, &b, why);
    if (rc)
        return rc;
    *us = batch_time(b, seq);
    *digest = batch_digest(b, seq);
    batch_unref(b);
    return STATUS_OK;
}

/* What a message covers that ends where `a` does. */
static enum status
describe_coverage(const struct assembly *a, struct coverage *c,
                  struct problem *why)
{
    const struct message_wish *wish = a->wish;
    struct batch *b;
    enum status rc = STATUS_OK;

    *c = (struct coverage){.after = wish->after,
                           .last = a->last,
                           .has_digest = true,
                           .now_us = DATETIME_NONE};
    memcpy(c->epoch, a->view->head.epoch, sizeof(c->epoch));
    memcpy(c->set, wish->set->name, strlen(wish->set->name) + 1);
    if (a->end) {
        const struct coverage *before = wish->before;

        c->until_us = batch_time(a->end, c->last);
        /* From the digest before the message if all of it is of that batch,
         * else from the batch's beginning. Otherwise each message of a batch
         * would add up all its digests. */
        if (!before || before->last != a->start || !before->has_digest ||
            a->start + 1 < a->end->first || a->last == a->end->last) {
            c->digest = batch_digest(a->end, a->last);
        } else {
            c->digest = before->digest;
            for (uint64_t seq = a->start + 1; seq <= a->last; seq++)
                digest_add(&c->digest, batch_slice(a->end, seq - 1, seq));
        }
    } else {
        rc = look_up(a, c->last, &c->until_us, &c->digest, why);
    }
    if (rc)
        return rc;
    if (c->after == c->last) {
        c->from_us = c->until_us;
        c->before = c->digest;
        return STATUS_OK;
    }
    if (a->end && c->after == a->start && !wish->has_next) {
        c->from_us = a->start_us;
        return STATUS_OK;
    }
    /* T(after) is in the batch of the next entry, also if entry `after` is not
     * there any more. */
    rc = batch_of(wish, c->after + 1, &b, why);
    if (rc)
        return rc;
    c->from_us = batch_time(b, c->after);
    if (wish->has_next)
        c->before = batch_digest(b, c->after);
    batch_unref(b);
    return STATUS_OK;
}

/* Puts header, entries and footer into one row. */
static enum status
add_slices(struct message *m, const struct message_wish *wish,
           struct problem *why)
{
    size_t max = 2, header;
    struct slice *slices;

    buf_init(&m->around, MESSAGE_MAX);
    add_header(&m->around, wish, &m->covered);
    header = m->around.size;
    if (wish->form == MESSAGE_CLOUDEVENTS)
        BUF_ADD(&m->around, "]\n");
    else if (wish->form == MESSAGE_JSON)
        BUF_ADD(&m->around, "]}\n");
    else if (wish->form != MESSAGE_CLOUDEVENT)
        document_footer(&m->around, DOCUMENT_URLSET);
    for (size_t i = 0; i < m->n_parts; i++)
        max += m->parts[i].selection.is_dense ? 1 : m->parts[i].n;
    slices = memory_room(max * sizeof(*slices));
    if (!slices)
        return problem_memory(why);
    m->slices = slices;
    slices[m->n_slices++] = (struct slice){m->around.data, header};
    for (size_t i = 0; i < m->n_parts; i++) {
        const struct message_part *part = &m->parts[i];

        m->n_slices +=
            selection_slices(&part->selection, part->from, part->n,
                             i + 1 < m->n_parts, slices + m->n_slices);
    }
    slices[m->n_slices++] =
        (struct slice){m->around.data + header, m->around.size - header};
    for (size_t i = 0; i < m->n_slices; i++)
        m->size += slices[i].size;
    return m->size > MESSAGE_MAX ? problem_memory(why) : STATUS_OK;
}

/* Finds the entries, and says what the message covers. */
static enum status
assemble_message(struct assembly *a, struct problem *why)
{
    const struct message_wish *wish = a->wish;
    const struct head *head = &a->view->head;
    struct message *m = a->message;
    enum status rc = STATUS_OK;

    look_at_log(a, wish->is_heartbeat ? a->last : wish->upto);
    if (head->is_removed)
        return problem(why, STATUS_GONE, "the set %s was removed",
                       wish->set->name);
    if (!head->exists)
        return problem(why, STATUS_NOT_FOUND, "no such set");
    /* A reader that retention has left behind gets STATUS_GONE, also while the
     * entries can still be had: where one ends there is the same for all
     * . One that has looked further than its last message, and found
     * nothing that passes, misses nothing; only T(after) must still be known
     * (describe_coverage). */
    if (a->start < head->earliest)
        return problem(why, STATUS_GONE,
                       "entry %" PRIu64 " is no longer retained", a->start + 1);
    if (!wish->is_heartbeat)
        rc = gather_batches(a, why);
    m->last = a->last;
    m->n_entries = a->n_entries;
    if (rc || (m->n_parts == 0 && wish->is_silent && !wish->is_heartbeat))
        return rc;
    rc = describe_coverage(a, &m->covered, why);
    if (!rc && wish->is_heartbeat) {
        m->covered.now_us = clock_now_us();
        m->covered.heartbeat_us = wish->set->registry->config->heartbeat_us;
    }
    return rc ? rc : add_slices(m, wish, why);
}

enum status
message_open(struct message *m, const struct message_wish *wish,
             struct problem *why)
{
    uint64_t start = wish->reached > wish->after ? wish->reached : wish->after;
    struct filter_class channel;
    struct log_view view;
    struct assembly a = {.wish = wish,
                         .message = m,
                         .filter = wish->filter,
                         .start = start,
                         .last = start,
                         .view = &view};
    enum status rc = STATUS_OK;

    *m = (struct message){.last = start};
    view.n = 0;
    if (wish->is_framework) {
        rc = channel_filter(&channel, wish->set->name, why);
        a.filter = &channel;
    }
    if (!rc)
        rc = assemble_message(&a, why);
    log_view_close(&view);
    batch_unref(a.end);
    if (rc)
        message_close(m);
    return rc;
}

/* Looks at the first entry alone where there are no traces. */
struct slice
message_traceparent(const struct message *m)
{
    struct slice all = {NULL, 0};

    for (size_t n = 0; n < m->n_parts; n++)
        for (size_t i = 0; i < m->parts[n].n; i++) {
            const struct selection *s = &m->parts[n].selection;
            uint64_t seq = selection_seq(s, m->parts[n].from + i);
            struct slice one = fragment_traceparent(
                batch_slice(s->batch, seq - 1, seq),
                s->batch->entries[seq - s->batch->first].stamp);

            if (n == 0 && i == 0)
                all = one;
            if (one.size == 0 || !slice_equal(one, all))
                return (struct slice){NULL, 0};
        }
    return all;
}

void
message_close(struct message *m)
{
    for (size_t i = 0; i < m->n_parts; i++) {
        batch_unref(m->parts[i].selection.batch);
        selection_fini(&m->parts[i].selection);
    }
    free(m->parts);
    free(m->slices);
    buf_fini(&m->around);
}

void
message_copy(const struct message *m, struct buf *to)
{
    buf_room(to, m->size);
    for (size_t i = 0; i < m->n_slices; i++)
        buf_add_slice(to, m->slices[i]);
}

enum status
message_write(struct buf *to, const struct message_wish *wish, uint64_t *last,
              struct problem *why)
{
    struct message m;
    enum status rc = message_open(&m, wish, why);

    *last = m.last;
    if (rc)
        return rc;
    if (m.size > 0) {
        message_copy(&m, to);
        if (wish->covered)
            *wish->covered = m.covered;
    }
    message_close(&m);
    return to->failed ? problem_memory(why) : STATUS_OK;
}
