/*
 * message.h - a part of a set's log as a notification, in a form.
 *
 * A message is header + entries + footer. Its bytes are a function of the set,
 * the form, the filter and the two seqs it covers, whoever makes it and
 * whenever: so it can be thrown away and made again. The XML entries are the
 * fragments as they are; the JSON entries, and CloudEvents, are made from them
 * when somebody first asks, and kept with the batch (selection.h). CloudEvents
 * have nothing around them that says what a message covers: whoever sends them
 * says it elsewhere.
 *
 * With a filter a message still covers all of (after, last], but has only the
 * entries that pass, with growing seqs. The rule for receivers stays: a message
 * continues at position P if its `after` is P, and then its `last` is the new
 * P. So every message of a filtered stream begins where the one before ended, a
 * heartbeat, too. While no entry passes, nothing is sent:
 *
 *     heartbeat  after=7   last=7        where the stream starts
 *     (8 ... 90 do not pass: silence)
 *     heartbeat  after=7   last=90       no entries: there are none up to 90
 *     (91 ... 94 do not pass)
 *     message    after=90  last=97       entries 95 and 97
 *
 * A heartbeat of an unfiltered stream has after = last. Digests are those of
 * the whole log. So two parties with the same digest saw the same history, but
 * only a party that gets all entries can compute it.
 *
 * A framework notification is a message of another log, that of the
 * framework events of all sets (registry.framework): seqs, times, epoch and
 * digest are of that log. Its entries concern this set or the Source as a
 * whole; a filter of the broker's own selects them by their tags
 * (framework_events.h). So everything about filtered messages holds: it covers
 * more than it has, and callers use `reached` and `is_silent`. It has no filter
 * of the reader
 * (`filter` is NULL) and is XML. A removed set has one, too, which announces
 * the removal.
 *
 * Any thread.
 */
#pragma once

#include "broker/log/log.h"
#include "broker/sets/registry.h"
#include "proto/resourcesync/position.h"

/* Most bytes of a message. --message-bytes is less, but a message may exceed
 * it: with one large entry, or made again after the option became smaller. */
#define MESSAGE_MAX ((size_t)256 << 20)

/* hub.db has these numbers. */
enum message_form {
    MESSAGE_XML,
    MESSAGE_PLAIN, /* XML without links that lead away from it */
    MESSAGE_JSON,
    MESSAGE_CLOUDEVENTS, /* a batch: a JSON array of events, one an entry */
    MESSAGE_CLOUDEVENT,  /* one event alone, of one entry */
    MESSAGE_FORMS        /* how many there are */
};

/* The name of a form, and its media type. */
extern const struct message_form_row {
    const char *name, *type;
} message_forms[MESSAGE_FORMS];

/* Finds the form of a name. False: there is none. */
bool message_form_of(struct slice name, enum message_form *form);

/* True for forms with a comma between two entries. */
static inline bool
message_form_is_json(enum message_form form)
{
    return form >= MESSAGE_JSON;
}

/* Which message is wanted. */
struct message_wish {
    struct set *set;
    enum message_form form;
    uint64_t after; /* covers the entries after this one ... */
    uint64_t upto;  /* ... but none after this one; UINT64_MAX: no limit */
    const struct filter_class *filter; /* lent; NULL: all entries pass */
    uint64_t reached; /* beyond `after`: none up to this one passes */
    bool is_silent;   /* nothing is to be written where no entry passes */
    size_t max_bytes; /* a message with more than one entry keeps within it */
    enum log_patience patience;
    bool has_next; /* a page of change memory: JSON with a `next` member, XML
                      with links `self` and `next` */
    bool is_framework; /* of the set's framework channel instead: below */

    /* A heartbeat instead (R-309: quiet differs from dead): it covers `after`
     * up to `reached` (`after` itself, if that is larger), no entries, the
     * clock, the interval. It is never silent. */
    bool is_heartbeat;

    /* What the message before it covered, up to `after`: lent, saves adding up
     * digests from the beginning of a batch; NULL: not known. */
    const struct coverage *before;
    struct coverage *covered; /* message_write sets it if it appends; or NULL */
};

/* A message: `size` bytes in slices that follow each other, most of them lent
 * from batches. So its size is known before anybody copies a byte, and a
 * transport copies each byte once, to where it belongs. */
struct message {
    uint64_t last;        /* of the entries it covers, or has looked through */
    int64_t committed_us; /* of the first of these: see batch.h; or 0 */
    size_t n_entries;     /* that it has */
    size_t size;          /* 0: it is silent, and has nothing of what follows */
    struct coverage covered;
    struct slice *slices;
    size_t n_slices;

    /* What the slices lend from. */
    struct buf around; /* header and footer */
    struct message_part *parts;
    size_t n_parts;
};

/* Makes the message that covers as much as it may hold, up to message->last. At
 * the head of the log that is `after` itself, and the message has no entries.
 * With a filter it looks at a bounded part of the log, not to keep other
 * readers waiting: if nothing of that part passes, the message has no entries.
 * A silent one is then empty, and the next wish continues with `reached` =
 * last. The caller closes the message; after a failure there is nothing to
 * close. STATUS_AGAIN: not without waiting for a disk; STATUS_GONE as by
 * log_read. */
MUST_CHECK enum status message_open(struct message *message,
                                    const struct message_wish *wish,
                                    struct problem *why);
void message_close(struct message *message);

/* Appends its bytes; the caller checks for failure. */
void message_copy(const struct message *message, struct buf *to);

/* Does all three: appends the message, if it is not silent, and sets *last. */
MUST_CHECK enum status message_write(struct buf *to,
                                     const struct message_wish *wish,
                                     uint64_t *last, struct problem *why);

/* The trace that all its entries are of (traceparent.h), lent until
 * message_close. Empty: they have none, or several. */
struct slice message_traceparent(const struct message *message);
