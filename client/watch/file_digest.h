/*
 * file_digest.h - the digest of a file at one moment.
 *
 * Does not read a file that somebody has open for writing: the watch gets an
 * event when the writer closes it. A read lease shows that: the kernel grants
 * one only if there is no writer. file_digest_read takes one and returns it at
 * once, before the reading and after it. Without leases (some network file
 * systems; files of another user, without CAP_LEASE) it may read a half-written
 * file, and reads it again after the close.
 *
 * Size and times, before and after, show a change during the reading; the mark
 * shows one that a clock's tick may hide (file_stamp_take).
 */
#pragma once

#include <sys/stat.h>

#include "base/file.h"

/*
 * The media type of a file: by its extension, as the system's
 * /etc/mime.types has it (package media-types), else by its first bytes, as
 * libmagic sees them.
 *
 * Why two: libmagic alone calls style sheets, short CSV files and Markdown
 * text/plain, and takes 0.2 to 1.4 ms for a file of text; the table is right
 * about what people name by an extension and takes 0.2 us. The shared MIME
 * database of freedesktop.org knows fewer of the types that data sets have (no
 * N-Triples, N-Quads, Wasm) and calls JavaScript by an obsolete name; a library
 * that reads it is GLib's, 14 packages where these are 4. Loading libmagic's
 * database costs 6 ms and 0.5 MiB.
 */

/* How many first bytes of a file libmagic gets. */
#define MEDIATYPES_HEAD 4096

#define MEDIATYPES_TABLE "/etc/mime.types"

/* What a bundle has in their place, by file_of_bundle: libmagic's database,
 * which comes before the system's unless MAGIC of the environment names one;
 * the table, which comes behind it. */
#define MEDIATYPES_DATABASE      "magic.mgc"
#define MEDIATYPES_BUNDLED_TABLE "mime.types"

/* For file_digest.c alone. */
struct mediatypes {
    struct magic_set *magic;

    struct mediatype {
        char *extension; /* lower case */
        const char *type;
    } * rows; /* by extension */

    size_t n_rows;
    size_t capacity;
    char *text; /* the table, cut into words */
};

/* Reads the table `path`; without it libmagic looks at every file. False: no
 * memory, or libmagic has no database. Close it in any case. */
bool mediatypes_open(struct mediatypes *types, const char *path);
void mediatypes_close(struct mediatypes *types); /* all zero is allowed */

/* The type of the file `name` that begins with the `size` bytes at `head`; lent
 * until the next call. NULL: unknown (an empty file without an extension). */
const char *mediatypes_of(struct mediatypes *types, const char *name,
                          const void *head, size_t size);

/* The record of a file, to see without reading that it did not change. */
struct file_stamp {
    int64_t size;
    int64_t mtime_ns;
    int64_t ctime_ns; /* FILE_STAMP_UNSETTLED: read the file again */
    uint64_t ino;
    struct digest sha256;
};

#define FILE_STAMP_UNSETTLED INT64_MIN

enum file_digest_result {
    FILE_DIGEST_READ,
    FILE_DIGEST_GONE,    /* or no file any more */
    FILE_DIGEST_WRITTEN, /* open for writing, or it does not come to rest */
    FILE_DIGEST_FAILED,  /* errno says why */
    FILE_DIGEST_STOPPED  /* go_on returned false */
};

struct file_digest {
    struct file_stamp mark;
    char head[MEDIATYPES_HEAD]; /* its first bytes */
    size_t head_size;
};

/* Serves one thread, one file after the other. */
struct file_digester {
    struct digest_check *check; /* of an SHA-256; the owner's */
    file_go_on_fn *go_on;       /* of file_digest; or NULL */
    void *user;
};

/* Reads the file `name` in `dir_fd`, but no symbolic link. */
enum file_digest_result file_digest_read(const struct file_digester *digester,
                                         int dir_fd, const char *name,
                                         struct file_digest *hash);

/* True if size, times and inode of `st` are those of the mark. */
bool file_stamp_is_of(const struct file_stamp *mark, const struct stat *st);

/* Takes the size and times of `st`. A file that changed less than two seconds
 * ago may change again without a trace in its times (some file systems have
 * only even seconds): then the mark is unsettled. */
void file_stamp_take(struct file_stamp *mark, const struct stat *st);
