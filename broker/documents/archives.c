/*
 * archives.c - the Change List Archive: every closed list, from the moment it
 * closes.
 */
#include "broker/documents/listing.h"

enum status
archives_changelist_open(const struct document_wish *wish, struct body **body,
                         struct problem *why)
{
    uint64_t last = wish->head.list - 1;
    struct listing_wish listing = {
        .document = wish,
        .root = DOCUMENT_URLSET,
        .capability = CAP_CHANGELIST_ARCHIVE,
        .first = wish->head.first_list,
        .last = last,
    };

    if (last < wish->head.first_list)
        return problem(why, STATUS_NOT_FOUND,
                       "no Change List of this set is closed yet");
    /* Lists are never dropped, so after this many the oldest must leave the
     * document, which has a limit; they keep their addresses. */
    if (last - listing.first >= DOCUMENT_ENTRIES_MAX)
        listing.first = last - DOCUMENT_ENTRIES_MAX + 1;
    return listing_open(&listing, body, why);
}
