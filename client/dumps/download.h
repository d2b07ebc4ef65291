/*
 * download.h - one URL into one file, resumed where it broke.
 *
 *     download_start --> on_end         nothing after it
 *          +-----------> download_free  at any moment; as after a break
 *
 * A download that breaks after the first MiB keeps the file and a second one,
 * NAME.of, with the URL, its validator, and the digest and length that were
 * wanted. A later request for the same continues the file (Range, If-Range), in
 * this process or the next one. Without a digest nothing is kept: only a digest
 * shows that the file has no hole after a power cut. A server that ignores the
 * range, answers with another one, or has a new version, sends all again.
 *
 *     NAME       the first bytes of the representation
 *     NAME.of    https://example.org/a.bin
 *                "5f3e-17"                     its ETag, else its Last-Modified
 *                sha-256:9f86d081...           its digest in the entry
 *                1048576                       its length; empty: unknown
 *
 * A note that is torn, or of another request, is ignored: the file begins anew.
 *
 * The bytes are those of the representation as the server sends it, including
 * the content coding (R-023: `encoding` is that of the resource; hash and
 * length are of the octets that a GET returns). So a download asks for a coding
 * only if the entry names one, and decodes nothing.
 *
 * A download fails before it exceeds the bounds of the handle
 * (source_limits.h).
 *
 * A download tries once. The caller decides when and where to try again.
 */
#pragma once

#include "base/file.h"
#include "client/lib/client.h"
#include "proto/resourcesync/change.h"

#define DOWNLOAD_NAME_MAX 64 /* of a file, with its NUL */

struct download_request {
    const char *url;
    int dir_fd;            /* must stay open until the end */
    const char *file;      /* name there, shorter than DOWNLOAD_NAME_MAX */
    uint64_t length;       /* from the entry; LENGTH_NONE: unknown */
    uint64_t max_bytes;    /* of the file; 0: no limit but the disk */
    bool is_of_mirror;     /* its bytes count for room.max_total */
    struct slice hash;     /* normalised; empty: none */
    struct slice encoding; /* of the entry; empty: none */
    bool is_package;       /* it must begin as a ZIP package does */
    unsigned silence_s;    /* of silence that end it; 0: 120 */
    bool is_anew;          /* from the first byte, past all caches */
    bool keeps_note; /* NAME.of stays until download_forget: after a break a
                        later download continues a file that the caller has
                        not moved to its place */
};

/* The result. */
struct download_answer {
    const char *url; /* after redirects; lent */
    uint64_t bytes;  /* of the file */
    uint64_t n_came; /* over the network, this time */
    int64_t date_s; /* of the server's clock at the answer; negative: unknown */
    bool is_other;  /* STATUS_MALFORMED: the length, the digest or the first
                       bytes are not those that the source announced */
};

/* STATUS_OK: the file is complete and has the length and the digests; it is not
 * synced. STATUS_REFUSED, STATUS_GONE, STATUS_UNREACHABLE: as fetch_meaning
 * maps the status, with why->http_status and retry_after_s; STATUS_MALFORMED;
 * STATUS_IO: the file cannot be written, the disk is full; STATUS_MEMORY. The
 * download frees itself afterwards. */
typedef void download_end_fn(const struct problem *why,
                             const struct download_answer *answer, void *user);

struct download;

/* Copies all but dir_fd. NULL: no memory. Calls nothing before it returns. */
struct download *download_start(struct td_client *client,
                                const struct download_request *request,
                                download_end_fn *on_end, void *user);
void download_free(struct download *download); /* NULL is allowed; not after
                                                  on_end */

/* Bytes that the network has delivered until now. */
uint64_t download_came(const struct download *download);

/* True if the file has any note. */
bool download_has_note(int dir_fd, const char *file);

/* Removes the file and its NAME.of, where they exist. */
void download_forget(int dir_fd, const char *file);

/* Feeds a file to digests, to check its content */

/* Feeds the file `name` in `dir_fd`, and calls digest_check_end; does not
 * follow symbolic links. `go_on`: called at each piece, unless it is NULL.
 * STATUS_STOPPED: it returned false; STATUS_IO: the file cannot be read, errno
 * says why. */
MUST_CHECK enum status digests_file(struct digest_check *digests, int dir_fd,
                                    const char *name, file_go_on_fn *go_on,
                                    void *user, struct problem *why);
