/*
 * package_inside.h - shared by package.c, package_zip.c and package_take.c.
 */
#ifndef CLIENT_DUMPS_PACKAGE_INSIDE_H
#define CLIENT_DUMPS_PACKAGE_INSIDE_H

#include <locale.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/dumps/package.h"
#include "proto/arena.h"
#include "proto/digest_check.h"

/* Names, digests and reasons of all members together, in bytes. */
#define PACKAGE_TEXTS_MAX (256u * 1024 * 1024)

struct archive;
struct archive_entry;

/* One reading of the archive from its start: zip_open, zip_next ... */
struct zip {
    struct archive *archive; /* NULL: closed */
    int fd;
    uint32_t n_headers; /* that zip_next has read */
    char problem[256];  /* of the last call that failed */
};

enum member_state {
    MEMBER_UNKNOWN,  /* the manifest has not named it (yet) */
    MEMBER_EXPECTED, /* named, still in the archive */
    MEMBER_ASIDE,    /* unpacked into its file, and correct */
    MEMBER_BAD,      /* not as the manifest says: `why` */
    MEMBER_TAKEN
};

struct member {
    struct slice path; /* with a leading slash */
    struct slice hash; /* from the manifest */
    const char *why;
    uint64_t length;  /* from the manifest, or LENGTH_NONE */
    uint32_t ordinal; /* its place among the headers, from 0 */
    enum member_state state;
};

struct package {
    int dir_fd; /* the caller's */
    char *name; /* of its file */
    locale_t locale;
    struct arena texts;

    struct member *members; /* in the order of the archive */
    size_t n_members, capacity;
    uint32_t *by_path; /* their indexes, sorted */
    uint32_t manifest; /* its ordinal */
    bool has_manifest;

    struct zip reading; /* of the manifest */
    bool is_reading;
    char *piece;

    struct zip taking;      /* of the members */
    size_t next;            /* the first member not passed yet */
    struct member *wanted;  /* selected by package_find */
    struct member *partial; /* being unpacked; NULL: none */
    int out_fd;             /* its file */
    uint64_t room;          /* bytes that it may still have */
    struct digest_check *digests;
};

/* libarchive converts names with the thread's locale. Every function that calls
 * zip_... does so between these two, so that names are in UTF-8. */
locale_t package_locale_enter(const struct package *package);
void package_locale_leave(locale_t before);

/* STATUS_MALFORMED: no ZIP; STATUS_IO; STATUS_MEMORY; zip->problem says more.
 */
enum status zip_open(struct zip *zip, int dir_fd, const char *name);
void zip_close(struct zip *zip); /* an unopened one, too */

/* The next header: 1; 0: the end; -1: unreadable, see zip->problem. */
int zip_next(struct zip *zip, struct archive_entry **entry);

/* Reads some data of the current member. Returns the number of bytes, 0 at the
 * end, -1 if it cannot be read, see zip->problem; later members still can. */
long zip_read(struct zip *zip, char *to, size_t size);

bool zip_is_file(struct archive_entry *entry);
bool zip_is_encrypted(struct archive_entry *entry);
const char *zip_name(struct archive_entry *entry); /* NULL: unreadable */

/* The size that the archive declares; UINT64_MAX: none. */
uint64_t zip_size(struct archive_entry *entry);

/* The member at `path`; NULL: none. */
struct member *package_member(struct package *package, struct slice path);

/* "m17": the file that a member is unpacked into. */
void package_file(char name[PACKAGE_NAME_SIZE], const struct package *package,
                  const struct member *member);

#endif
