/*
 * input_reader.h - what all formats' readers have in common; only readers see
 * this.
 *
 *     bytes -> input_reader_feed -> parser.feed -> [entry_... ,
 *                                                   input_reader_entry_end]
 *                                                      |
 *                               on_change <- change_check, interval, limits
 */
#pragma once

#include "proto/input/input_formats.h"

/* What a format does. `parser` has `size` bytes, all zero before `open`;
 * `close` comes also after an `open` without memory, STATUS_MEMORY. */
struct parser {
    size_t size;
    enum status (*open)(void *parser, struct input_reader *reader);
    void (*close)(void *parser);

    /* Ready for another document; STATUS_MEMORY is all that can go wrong. */
    enum status (*reset)(void *parser);
    enum status (*feed)(void *parser, struct slice bytes, struct problem *why);
    enum status (*end)(void *parser, struct problem *why);

    /* The current line; 0 if it is unknown. */
    uint64_t (*line)(const void *parser);
};

extern const struct parser urlset_parser, json_parser, event_parser;

/* A row of input_formats.c. */
struct format {
    const char *media_type;
    const struct parser *parser;
    bool is_lines; /* a value on each line */
};

/* Is what a message says of the log that it is of read here? */
static inline bool
input_reader_is_for_messages(const struct input_reader *reader)
{
    return reader->use == INPUT_MESSAGE || reader->options.takes_message;
}

/* Begins an entry; STATUS_TOO_LARGE if there must not be another one. */
MUST_CHECK enum status input_reader_entry_begin(struct input_reader *reader,
                                                struct problem *why);

/* Checks the entry and hands it over. */
MUST_CHECK enum status input_reader_entry_end(struct input_reader *reader,
                                              struct problem *why);

/* True if reader->entry, which a scanner has read outside of
 * input_reader_entry_begin, may be handed over. False: the parser has to judge
 * it; the entry is undefined then. */
MUST_CHECK bool input_reader_is_good(struct input_reader *reader);

/* Hands that entry over. */
MUST_CHECK enum status input_reader_hand_over(struct input_reader *reader,
                                              struct problem *why);

/* Reports a fault of the current entry to `on_fault`. True: the format skips
 * the rest of the entry. False: nobody wants faults, or this one is not of an
 * entry; the reading ends with it. */
MUST_CHECK bool input_reader_skip_entry(struct input_reader *reader,
                                        enum status rc,
                                        const struct problem *why);

/* The document's interval is known now: R-015. */
MUST_CHECK enum status input_reader_interval(const struct input_reader *reader,
                                             struct problem *why);
