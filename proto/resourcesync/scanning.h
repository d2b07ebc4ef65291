/*
 * scanning.h - what the scanners of XML (xml_scan.h) and JSON (json_scan.h)
 * have in common.
 *
 * A scanner reads the usual form of a document and stops, unread, before the
 * first token that is anything else. The parser of a library reads on from
 * there, so that it alone judges what is unusual or wrong.
 */
#ifndef PROTO_RESOURCESYNC_SCANNING_H
#define PROTO_RESOURCESYNC_SCANNING_H

#include "proto/slice.h"
#include "proto/swar.h"

/* What a token came to. A token is taken whole or not at all. */
enum token {
    TOKEN_TAKEN,
    TOKEN_CUT,     /* its end has not come */
    TOKEN_UNKNOWN, /* the library has to judge it */
    TOKEN_REFUSED, /* by the receiver of an event */
};

/* A token whose end has not come is held up to this size; a longer one is left
 * to the library. */
#define SCAN_TOKEN_MAX 4096

/* Documents that begin from now on are read by the libraries alone, or, as at
 * first, as far as possible by the scanners. Any thread. */
void scanning_switch(bool is_on);
bool scanning_is_on(void);

/* Valid UTF-8 of characters that XML allows (XML 1.0, 2.2). The caller looked
 * for control characters before. */
bool scanning_is_text(struct slice text);

/* The beginning of a token whose end has not come. */
struct scan_held {
    size_t n;
    char bytes[SCAN_TOKEN_MAX];
};

/* Returns the input to scan: `bytes`, or the held bytes with the first of these
 * behind them. Lent until the next call. */
struct slice scanning_input(struct scan_held *held, struct slice bytes);

/* Takes the first `size` bytes of that input off what is held and `*bytes`. */
void scanning_take(struct scan_held *held, struct slice *bytes, size_t size);

/* Holds that input, all of it, because it ends within a token. False: it is
 * too long. */
bool scanning_hold(struct scan_held *held, struct slice *bytes);

#endif
