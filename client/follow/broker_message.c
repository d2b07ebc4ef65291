/*
 * broker_message.c - reads a message of the broker.
 *
 * proto/ reads and checks it. Then the lines that begin with <url> are cut out
 * of the message unchanged.
 */
#include "client/follow/broker_message.h"

#include "proto/resourcesync/fragment.h"

static enum status
on_change(const struct change *change, void *user, struct problem *why)
{
    struct broker_message *in = user;

    (void)change;
    (void)why;
    in->n_changes++;
    return STATUS_OK;
}

enum status
broker_message_init(struct broker_message *in)
{
    memset(in, 0, sizeof(*in));
    in->lines.max = DOCUMENT_ENTRIES_MAX * sizeof(struct broker_line);
    in->reader =
        input_reader_new(format_of(SLICE("application/xml")), INPUT_MESSAGE,
                         DOCUMENT_ENTRIES_MAX, on_change, in);
    return in->reader ? STATUS_OK : STATUS_MEMORY;
}

void
broker_message_fini(struct broker_message *in)
{
    input_reader_free(in->reader);
    buf_fini(&in->lines);
}

/* Cuts the lines of the log out. False: it has something else than one for each
 * entry. A last line without newline is no entry: the footer comes last. */
static bool
cut_lines(struct broker_message *in, struct slice text)
{
    struct fragment_view view;
    struct broker_line line;

    buf_clear(&in->lines);
    while (text.size) {
        size_t left = text.size;

        line.text = slice_take(&text, '\n');
        if (line.text.size == left || !slice_starts(line.text, "<url>"))
            continue;
        line.text.size++;
        if (fragment_view(line.text, &view) || view.size != line.text.size)
            return false;
        line.seq = view.seq;
        line.us = view.us;
        buf_add(&in->lines, &line, sizeof(line));
    }
    return in->lines.size == in->n_changes * sizeof(line);
}

enum status
broker_message_read(struct broker_message *in, struct slice text,
                    struct problem *why)
{
    enum status rc;

    in->n_changes = 0;
    input_reader_reset(in->reader, on_change, in);
    rc = input_reader_feed(in->reader, text, why);
    if (!rc)
        rc = input_reader_end(in->reader, why);
    if (rc)
        return rc == STATUS_MEMORY ? STATUS_MEMORY : STATUS_MALFORMED;
    in->coverage = in->reader->coverage;

    if (in->reader->capability != CAP_CHANGE_NOTIFICATION)
        problem_set(why, "it is no change notification");
    else if (!in->coverage.epoch[0])
        problem_set(why, "it does not name its epoch");
    else if (!cut_lines(in, text) && !in->lines.failed)
        problem_set(why, "its entries cannot be told apart");
    else
        return in->lines.failed ? STATUS_MEMORY : STATUS_OK;
    return STATUS_MALFORMED;
}
