#include "proto/input/input_reader.h"

static void
begin_input(struct input_reader *reader)
{
    reader->options = (struct input_options){.on_fault = NULL};
    reader->rc = STATUS_OK;
    reader->n_entries = 0;
    reader->is_in_entry = false;
    reader->capability = -1;
    reader->coverage = (struct coverage){
        .from_us = DATETIME_NONE,
        .until_us = DATETIME_NONE,
        .now_us = DATETIME_NONE,
    };
    reader->id.size = 0;
    entry_clear(&reader->entry);
}

struct input_reader *
input_reader_new(const struct format *format, enum input_use use,
                 size_t max_entries, change_fn *on_change, void *user)
{
    struct input_reader *reader = memory_room(sizeof(*reader));

    if (!reader)
        return NULL;
    reader->format = format;
    reader->use = use;
    reader->max_entries = max_entries;
    reader->on_change = on_change;
    reader->user = user;
    entry_init(&reader->entry);
    reader->entry.is_of_message = use == INPUT_MESSAGE;
    begin_input(reader);
    reader->state = memory_new(1, format->parser->size);
    if (!reader->state || format->parser->open(reader->state, reader)) {
        input_reader_free(reader);
        return NULL;
    }
    return reader;
}

void
input_reader_free(struct input_reader *reader)
{
    if (!reader)
        return;
    if (reader->state)
        reader->format->parser->close(reader->state);
    free(reader->state);
    entry_fini(&reader->entry);
    free(reader);
}

void
input_reader_reset(struct input_reader *reader, change_fn *on_change,
                   void *user)
{
    reader->on_change = on_change;
    reader->user = user;
    begin_input(reader);
    reader->rc = reader->format->parser->reset(reader->state);
}

bool
input_reader_skip_entry(struct input_reader *reader, enum status rc,
                        const struct problem *why)
{
    struct problem fault;

    if (rc != STATUS_INVALID || !reader->options.on_fault ||
        !reader->is_in_entry || !why)
        return false;
    fault = *why;
    fault.entry = ++reader->n_entries;
    fault.line = reader->format->parser->line(reader->state);
    reader->is_in_entry = false;
    reader->options.on_fault(&fault, reader->options.fault_user);
    return true;
}

/* Stores the failure, and says where in the input it is. */
static enum status
place_problem(struct input_reader *reader, enum status rc, struct problem *why)
{
    reader->rc = rc;
    if (rc && why) {
        why->entry = reader->is_in_entry ? reader->n_entries + 1 : 0;
        why->line = reader->format->parser->line(reader->state);
    }
    return rc;
}

enum status
input_reader_feed(struct input_reader *reader, struct slice bytes,
                  struct problem *why)
{
    if (reader->rc == STATUS_MEMORY)
        return problem_memory(why);
    if (reader->rc || bytes.size == 0)
        return reader->rc;
    return place_problem(
        reader, reader->format->parser->feed(reader->state, bytes, why), why);
}

enum status
input_reader_end(struct input_reader *reader, struct problem *why)
{
    enum status rc = reader->rc;

    if (rc)
        return rc;
    rc = place_problem(reader, reader->format->parser->end(reader->state, why),
                       why);
    if (rc)
        return rc;
    if (!input_reader_is_for_messages(reader) &&
        reader->use != INPUT_RESOURCES && reader->n_entries == 0) {
        rc = problem(why, STATUS_INVALID, "no entries");
        if (why)
            why->entry = why->line = 0;
        reader->rc = rc;
    }
    return rc;
}

enum status
input_reader_entry_begin(struct input_reader *reader, struct problem *why)
{
    if (reader->n_entries >= reader->max_entries)
        return problem(why, STATUS_TOO_LARGE, "more than %zu entries",
                       reader->max_entries);
    reader->is_in_entry = true;
    entry_clear(&reader->entry);
    return STATUS_OK;
}

/* A resource is no event: it has no change, and no words of one. */
static enum status
check_resource(const struct entry *entry, struct problem *why)
{
    const struct change *change = &entry->change;
    const char *words = change_words(change);

    if (entry->has_kind)
        return problem(
            why, STATUS_INVALID,
            "change: a list of resources names their state, not changes");
    if (words)
        return problem(why, STATUS_INVALID,
                       "%s: of a change, not of a resource", words);
    for (size_t i = 0; i < change->n_links; i++)
        if (slice_is(change->links[i].rel, REL_PATCH))
            return problem(why, STATUS_INVALID,
                           "link: a patch is of a change, not of a resource");
    return STATUS_OK;
}

static enum status
check_entry(struct input_reader *reader, struct problem *why)
{
    const struct coverage *coverage = &reader->coverage;
    struct change *change = &reader->entry.change;
    enum status rc = STATUS_OK;

    if (reader->use == INPUT_RESOURCES) {
        rc = check_resource(&reader->entry, why);
        /* Some sources write the time of its last modification as that of an
         * event. */
        if (change->lastmod_us == DATETIME_NONE)
            change->lastmod_us = change->datetime_us;
        change->datetime_us = DATETIME_NONE;
        change->kind = CHANGE_CREATED;
    } else if (!reader->entry.has_kind)
        rc = problem(why, STATUS_INVALID,
                     "no change: created, updated or deleted?");
    if (!rc && change->datetime_us != DATETIME_NONE) {
        if (coverage->from_us != DATETIME_NONE &&
            change->datetime_us < coverage->from_us)
            rc = problem(why, STATUS_INVALID,
                         "datetime: before the document's from");
        else if (coverage->until_us != DATETIME_NONE &&
                 change->datetime_us > coverage->until_us)
            rc = problem(why, STATUS_INVALID,
                         "datetime: after the document's until");
    }
    return rc ? rc : change_check(change, why);
}

enum status
input_reader_hand_over(struct input_reader *reader, struct problem *why)
{
    enum status rc;

    reader->is_in_entry = true;
    rc = reader->on_change(&reader->entry.change, reader->user, why);
    if (rc)
        return rc;
    reader->n_entries++;
    reader->is_in_entry = false;
    return STATUS_OK;
}

enum status
input_reader_entry_end(struct input_reader *reader, struct problem *why)
{
    enum status rc = check_entry(reader, why);

    return rc ? rc : input_reader_hand_over(reader, why);
}

bool
input_reader_is_good(struct input_reader *reader)
{
    return reader->n_entries < reader->max_entries &&
           !check_entry(reader, NULL);
}

enum status
input_reader_interval(const struct input_reader *reader, struct problem *why)
{
    const struct coverage *coverage = &reader->coverage;

    if (coverage->from_us != DATETIME_NONE &&
        coverage->until_us != DATETIME_NONE &&
        coverage->until_us < coverage->from_us)
        return problem(why, STATUS_INVALID, "until: before from");
    return STATUS_OK;
}
