/*
 * change_memory.h - change memory: exactly the entries after a position
 * (R-342).
 */
#pragma once

#include "broker/documents/documents.h"
#include "broker/readers/message.h"

/* A request for a page. */
struct memory_wish {
    /* Its `upto`, `max_bytes` and `has_next` do not matter. `is_silent`: the
     * reader can wait: it wants no empty page, and if there is no room,
     * STATUS_BUSY that does not count as a refusal. */
    struct message_wish message;
    bool is_page;          /* made a page for people, of MESSAGE_XML */
    bool has_since;        /* true: the page begins behind the last */
    int64_t since_us;      /* ... entry that is not later than it */
    struct client *client; /* the page counts for this client; lent; NULL:
                              none */
};

/* The page for a wish. */
struct memory_page {
    struct body *body;    /* the caller's; NULL: the page would be empty */
    uint64_t after, last; /* the page covers (after, last] */
    struct digest before; /* d(after), with a body */
};

/* Opens a page of change memory: the entries after `after`, as many as a
 * message holds, with `next`, which names the last event included. At the head
 * it is empty and its `next` equals its `self`. With a filter a page
 * covers at most as much as a message (message.h): it may be empty before the
 * head, too, and then its `next` is further on, with the same filter.
 * STATUS_AGAIN, STATUS_GONE. */
MUST_CHECK enum status memory_open(const struct memory_wish *wish,
                                   struct memory_page *page,
                                   struct problem *why);
