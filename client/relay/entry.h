/*
 * entry.h - an entry of a source becomes an entry for a broker.
 *
 *     {"loc":"http://a.example/1","change":"updated","datetime":"...",
 *      "links":[{"rel":"collection","href":"..."}],"seq":7}
 *
 *     {"loc":"http://a.example/1","change":"updated",
 *      "links":[{"rel":"via","href":"http://a.example/1"}],
 *      "attributes":[{"ns":"urn:tidings:relay:1","name":"path",
 *                     "value":"0123456789abcdef"}]}
 *
 * What is left out: seq, and the times of the log that it comes from (the
 * target has its own: R-251); links that say what it belongs to there;
 * of a deletion, what describes a representation, which brokers refuse.
 * What is added: `via`, unless there is one; and to the path, the epoch
 * of the log that it comes from, if it has one. By the path rings are seen: an
 * entry is not brought back to a log that it has been in.
 *
 * Text to text: whatever else an entry has stays as it stands.
 */
#ifndef CLIENT_RELAY_ENTRY_H
#define CLIENT_RELAY_ENTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct relay_rules {
    const char *source; /* epoch; "": a source that has none */
    const char *target; /* epoch; "": it is not known yet */
    bool keeps_links;   /* also collection and canonical */
};

enum relay_verdict {
    RELAY_WRITTEN,
    RELAY_RING, /* it was in the target's log; nothing was written */
    RELAY_ODD   /* it is no entry as brokers write them */
};

/* Writes `before` and the entry `text`, a JSON object, which need not be
 * terminated; or nothing. */
enum relay_verdict relay_entry(FILE *to, const char *before, const char *text,
                               size_t size, const struct relay_rules *rules);

/* Do two entries tell the same change, of the same path? `of` came out of
 * relay_entry, `text` is the target's. */
bool relay_is_same(const char *of, size_t of_size, const char *text,
                   size_t size);

/* The loc of an entry, in quotes as it stands; false: it has none. */
bool relay_loc(const char *entry, size_t entry_size, const char **loc,
               size_t *size);

/* Takes the next entry out of a post, "[{...},\n{...}]\n"; *rest begins as all
 * of it. False: there is none. */
bool relay_next(const char **rest, size_t *rest_size, const char **entry,
                size_t *size);

#endif
