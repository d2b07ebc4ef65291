/*
 * baseline.h - all resources of a source, and the place in its history at which
 * the list of them was true.
 *
 *     Resource Dump: packages, where files are wanted
 *     else Resource List: list, index, pages by `next`; gzip
 *     else Resource Dump: manifests, by their addresses (`contents`) or out of
 *                         packages
 *
 * Pages are cut anew at each request, and parts are written one after the
 * other: a list of several documents may change while it is read, and then a
 * resource moves to a page that was read already.
 *
 *     reading --> each document again --+--> the same rows: complete
 *        ^                              |
 *        +-- at most three times -------+--> others
 *
 * No second look is needed at one document, at documents of one state of a log
 * (td:last), and where no document differs from the last complete reading.
 *
 * The place: td:epoch and td:last of the list; else its `at`, with a count of
 * 0, so that changes of that very moment are repeated rather than missed; else
 * the newest lastmod, unless the list's Last-Modified, or the source's clock
 * (Date) at the request, is older; else that one. For an index: the oldest of
 * its own and its parts'.
 *
 * Of a past time it begins with the newest list or dump that was
 * complete then (`completed`), and states its time: of the archives, or a
 * present one.
 *
 *     archives, their indexes --> entries with `at` ----------+--> the newest
 *                             --> lists without: their roots -+    not after
 *     the present list and dump -----------> their roots -----+    that time
 *
 * The newest lastmod is proven, but may be much older than the list if nothing
 * changes for long: too old for a source that keeps few changes. Then the
 * servers' time of the list is the best guess.
 */
#pragma once

#include "client/baseline/part_queue.h"
#include "client/lib/client.h"
#include "client/source/discovery.h"
#include "client/source/source_position.h"
#include "client/survey/survey.h"

struct baseline;

/* One resource. `file`: the path of its representation in the scratch
 * directory, not synced; the caller may rename it until it returns; NULL: the
 * caller fetches it. Its digests are right; a resource with wrong ones comes
 * without a file. A resource may come twice: the later one counts. False:
 * baseline_free is called next, or was. */
typedef bool baseline_entry_fn(const struct document_entry *entry,
                               const char *file, void *user);

/* STATUS_OK: all resources were handed over; `guess`: a later place than
 * `place`, or NULL. STATUS_GONE: the source offers neither list nor dump
 * (of that time); STATUS_INVALID: that time is in the future;
 * STATUS_REFUSED, STATUS_UNREACHABLE, STATUS_MALFORMED, STATUS_IO (scratch),
 * STATUS_MEMORY: the resources handed over are void. */
typedef void baseline_end_fn(const struct problem *why,
                             const struct source_position *place,
                             const struct source_position *guess, void *user);

struct baseline_plan {
    const struct offered *offered; /* must stay until the end */
    const int64_t *as_of_us;       /* of that past time; NULL: of the present */
    const char *scratch;           /* directory for packages; NULL: a temporary
                                      one */
    bool wants_files;              /* resources come with files, from dumps */
    unsigned patience_s;           /* a server that asks for a longer pause is
                                      STATUS_UNREACHABLE at once; 0: the baseline
                                      waits, for an hour at most */
    /* If set, the Resource Dump that is offered may be a Change Dump, and an
     * index or archive of either. The baseline reads it for its bytes: entries
     * that this returns true for, packages among them. A manifest with an
     * address
     * (`contents`) comes before its package, and hands its entries over without
     * files. Called again before a further attempt. A part that cannot be had
     * is reported (on_note), and the others are read; there is no place.
     * `offered` need not stay. */
    bool (*takes)(const struct part *part, void *user);
    int64_t near_us; /* of Resource Dumps, the nearest to this time come first;
                        the archive that is offered, last */
    /* Receives the resources as a new reading, which the owner of the listing
     * completes at the end (survey_take, survey_compare). NULL: none. Must
     * stay until the end. */
    struct survey *listing;
    /* Receives what was mended and left out, added to what it has. NULL: none.
     * Must stay until the end. */
    struct list_report *report;
    bool is_partial; /* with a listing: does not read unchanged documents, nor
                        hand over their resources */
    /* Called, if set, when a document cannot be had and is asked for again in
     * `ms`; may free the baseline. */
    void (*on_wait)(const struct problem *why, unsigned ms, void *user);
    /* Called, if set, with the reason why the list replaces the dump, or why
     * a part is not used. */
    void (*on_note)(const char *text, void *user);
    /* Called, if set, when the list is read again, because it has changed
     * meanwhile: all resources handed over are void. */
    void (*on_anew)(const char *why, void *user);
    /* Called, if set, right before a good end, if the list never stood still:
     * resources may be missing. */
    void (*on_doubt)(const char *why, void *user);
};

/* NULL: no memory. It frees itself after on_end. */
struct baseline *baseline_start(struct td_client *client,
                                const struct baseline_plan *plan,
                                baseline_entry_fn *on_entry, /* or NULL */
                                baseline_end_fn *on_end, void *user);

/* `baseline`: a struct baseline. */
void baseline_hold(void *baseline, bool is_held);
void baseline_free(void *baseline); /* NULL is allowed */
