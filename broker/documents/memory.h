/*
 * memory.h - change memory: exactly the entries after a position.
 */
#ifndef BROKER_DOCUMENTS_MEMORY_H
#define BROKER_DOCUMENTS_MEMORY_H

#include <stdint.h>

#include "broker/documents/documents.h"
#include "broker/sets/message.h"

/* Which page is wanted. */
struct memory_wish {
    struct set *set;
    enum message_form form;
    uint64_t after;
    bool has_since;                    /* instead of `after`: after the last */
    int64_t since_us;                  /* ... entry that is not later than it */
    const struct filter_class *filter; /* lent; NULL: all entries pass */
    uint64_t reached; /* beyond `after`: none up to this one passes */
    bool is_silent;   /* the reader can wait: no page where no entry passes, and
                         where there is no room, STATUS_BUSY that does not count
                         as a refusal */
    enum log_patience patience;
    struct client *client; /* whom the page counts for; lent; NULL: nobody */
};

/* A page: what came of a wish. */
struct memory_page {
    struct body *body;    /* the caller's; NULL: it was to be silent */
    uint64_t after, last; /* what it covers: (after, last] */
};

/* A page of change memory: the entries after `after`, as many as a message
 * holds, with `next`, which names the last event included; at the head it is
 * empty and its `next` equals its `self`. With a filter, what a message
 * covers at most (message.h): it may be empty before the head, too, and then
 * its `next` is further on, with the same filter. STATUS_AGAIN, STATUS_GONE. */
MUST_CHECK enum status memory_open(const struct memory_wish *wish,
                                   struct memory_page *page,
                                   struct problem *why);

#endif
