/*
 * download.h - one URL into one file, resumed where it broke.
 *
 *     download_start --> on_end         nothing after it
 *          +-----------> download_free  at any moment: the file stays as far as
 *                                       it came
 *
 * What breaks is kept: the file, and with its first MiB a second one, NAME.of,
 * that tells the URL, its validator and the digests it was wanted for. Whoever
 * asks for the same again goes on from there (Range, If-Range), in this process
 * or the next one; only where a digest proves the whole, for a file after a
 * power cut may have a hole. A server that ignores the range, answers with
 * another one, or has something new by now, sends all of it again.
 *
 * The bytes are those that the server sends as the representation, content
 * coding included (R-023: `encoding` is that of the resource, and hash and
 * length are of the octets that a GET returns). So none is asked for unless the
 * entry tells one, and nothing is unpacked.
 *
 * A download fails before it exceeds the bounds of the handle (room.h).
 *
 * This tries once. When to try again, and where else, is the caller's.
 */
#ifndef CLIENT_DUMPS_DOWNLOAD_H
#define CLIENT_DUMPS_DOWNLOAD_H

#include "client/lib/client.h"
#include "client/lib/failure.h"
#include "proto/change.h"
#include "proto/slice.h"

#define DOWNLOAD_NAME_MAX 64 /* of a file, with its NUL */

struct download_request {
    const char *url;
    int dir_fd;            /* must stay open until the end */
    const char *file;      /* name there, shorter than DOWNLOAD_NAME_MAX */
    uint64_t length;       /* that the source told; LENGTH_NONE: none */
    uint64_t max_bytes;    /* of the file; 0: no limit but the disk */
    bool is_of_mirror;     /* its bytes count for room.max_total */
    struct slice hash;     /* normalised; empty: none */
    struct slice encoding; /* of the entry; empty: none */
    const char *begins;    /* its first bytes must be these; NULL: any */
    const char *kind;   /* what it is then, for the failure: "a ZIP package" */
    unsigned silence_s; /* that ends it; 0: 120 */
    bool is_anew;       /* from the first byte, past all caches */
    bool keeps_note;    /* NAME.of stays until download_forget: whoever breaks
                           off before the file is where it belongs goes on
                           from it */
};

/* What there is at the end. */
struct download_answer {
    const char *url; /* after redirects; lent */
    uint64_t bytes;  /* of the file */
    uint64_t n_came; /* over the network, this time */
    bool is_resumed;
    bool is_other; /* TD_BROKEN: what came is not what was told of: length,
                      digest, first bytes */
};

/* TD_OK: the file is whole and has the length and the digests; it is not
 * synced. TD_REFUSED, TD_GONE, TD_UNREACHABLE: as fetch_meaning tells,
 * why->status and retry_after_s with it; TD_BROKEN; TD_IO: the file cannot be
 * written, the disk is full; TD_MEMORY. It frees itself after it. */
typedef void download_end_fn(const struct failure *why,
                             const struct download_answer *answer, void *user);

struct download;

/* All but dir_fd is copied. NULL: no memory. Nothing is called before it
 * returns. */
struct download *download_start(struct td_client *client,
                                const struct download_request *request,
                                download_end_fn *on_end, void *user);
void download_free(struct download *download); /* NULL is allowed; not after
                                                  on_end */

/* Bytes that came over the network until now. */
uint64_t download_came(const struct download *download);

/* Removes the file and what is told of it. Not there: no matter. */
void download_forget(int dir_fd, const char *file);

#endif
