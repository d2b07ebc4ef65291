/*
 * broker_message.c - reads a message of the broker.
 *
 * proto/ reads and checks it. Then the texts of its entries are cut out of the
 * message unchanged: in XML the lines that begin with <url>, in JSON the
 * elements of "changes".
 */
#include "client/follow/broker_message.h"

#include "client/lib/json_slices.h"
#include "proto/resourcesync/fragment.h"

static enum status
on_change(const struct change *change, void *user, struct problem *why)
{
    struct broker_message *in = user;

    (void)why;
    in->n_changes++;
    if (in->form == TD_XML)
        return STATUS_OK;
    return changes_add(&in->memory, change) ? STATUS_OK : STATUS_MEMORY;
}

enum status
broker_message_init(struct broker_message *in, enum td_form form)
{
    struct slice type =
        form == TD_XML ? SLICE("application/xml") : SLICE("application/json");

    memset(in, 0, sizeof(*in));
    in->form = form;
    changes_init(&in->memory);
    in->lines.max = DOCUMENT_ENTRIES_MAX * sizeof(struct broker_line);
    in->reader = input_reader_new(format_of(type), INPUT_MESSAGE,
                                  DOCUMENT_ENTRIES_MAX, on_change, in);
    return in->reader ? STATUS_OK : STATUS_MEMORY;
}

void
broker_message_fini(struct broker_message *in)
{
    input_reader_free(in->reader);
    changes_fini(&in->memory);
    buf_fini(&in->lines);
}

enum status
broker_message_use(struct broker_message *in, enum td_form form)
{
    if (in->form == form)
        return STATUS_OK;
    broker_message_fini(in);
    return broker_message_init(in, form);
}

/* Sets the text of the next change. False: all have one. */
static bool
give_text(struct broker_message *in, size_t *given, struct slice text)
{
    if (*given == in->n_changes)
        return false;
    in->changes[*given].text = text.data;
    in->changes[*given].text_size = text.size;
    ++*given;
    return true;
}

/* Cuts the lines of the log out of XML. False: it has something else than one
 * for each entry. A last line without newline is no entry: the footer comes
 * last. */
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

/* Gives each change its text. False: there are more or fewer texts. */
static bool
cut_texts(struct broker_message *in, struct slice text)
{
    struct slice changes, element;
    size_t given = 0;
    bool fits = true;

    if (in->form == TD_XML)
        return cut_lines(in, text);
    if (json_slices_member(text, "changes", &changes))
        while (fits && json_slices_element(&changes, &element))
            fits = give_text(in, &given, element);
    return fits && given == in->n_changes;
}

enum status
broker_message_read(struct broker_message *in, struct slice text,
                    struct problem *why)
{
    enum status rc;

    in->n_changes = 0;
    changes_clear(&in->memory);
    input_reader_reset(in->reader, on_change, in);
    rc = input_reader_feed(in->reader, text, why);
    if (!rc)
        rc = input_reader_end(in->reader, why);
    if (rc)
        return rc == STATUS_MEMORY ? STATUS_MEMORY : STATUS_MALFORMED;
    in->changes = in->form == TD_JSON ? changes_seal(&in->memory) : NULL;
    in->coverage = in->reader->coverage;

    if (in->form == TD_XML && in->reader->capability != CAP_CHANGE_NOTIFICATION)
        problem_set(why, "it is no change notification");
    else if (!in->coverage.epoch[0])
        problem_set(why, "it does not name its epoch");
    else if (!cut_texts(in, text) && !in->lines.failed)
        problem_set(why, "its entries cannot be told apart");
    else
        return in->lines.failed ? STATUS_MEMORY : STATUS_OK;
    return STATUS_MALFORMED;
}
