/*
 * package_take.c - unpacks members of a package into files, in the order in
 * which the caller asks for them, by one walk through the archive.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "client/dumps/package_inside.h"

#define CHUNK_SIZE 65536

void
package_file(char name[PACKAGE_NAME_SIZE], const struct package *package,
             const struct member *member)
{
    snprintf(name, PACKAGE_NAME_SIZE, "m%zu",
             (size_t)(member - package->members));
}

static enum status
cannot_write(struct package *package, const struct member *m,
             struct problem *why)
{
    char name[PACKAGE_NAME_SIZE];

    package_file(name, package, m);
    return problem(why, STATUS_IO, "cannot write %s: %s", name,
                   strerror(errno));
}

/* Finishes the member being unpacked: it is bad because of `text`, or right. */
static enum status
close_partial(struct package *package, const char *text, struct problem *why)
{
    struct member *m = package->partial;
    enum status rc = STATUS_OK;
    char name[PACKAGE_NAME_SIZE];

    /* A network file system may report only now that it is full. */
    if (close(package->out_fd) && !text)
        rc = cannot_write(package, m, why);
    package->out_fd = -1;
    digest_check_free(package->digests);
    package->digests = NULL;
    package->partial = NULL;
    package->next++;
    if (!rc && !text) {
        m->state = MEMBER_ASIDE;
        return STATUS_OK;
    }
    package_file(name, package, m);
    unlinkat(package->dir_fd, name, 0);
    m->state = MEMBER_BAD;
    if (text) {
        struct slice copy = {text, strlen(text) + 1};
        char *kept = arena_take(&package->texts, copy.size);

        if (kept)
            memcpy(kept, copy.data, copy.size);
        m->why = kept ? kept : "is not what the manifest told";
    }
    return rc;
}

/* The archive is at the data of the member `next`: opens a file for it. */
static enum status
open_partial(struct package *package, struct archive_entry *entry,
             struct problem *why)
{
    struct member *m = &package->members[package->next];
    char name[PACKAGE_NAME_SIZE];

    package->digests = digest_check_new(m->hash, m->length);
    if (!package->digests)
        return problem_memory(why);
    package_file(name, package, m);
    /* Not over an existing file: it may be a link. */
    unlinkat(package->dir_fd, name, 0);
    package->out_fd =
        openat(package->dir_fd, name,
               O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (package->out_fd < 0)
        return cannot_write(package, m, why);
    package->partial = m;
    package->room = m->length; /* the digests check it */
    if (m->length == LENGTH_NONE) {
        uint64_t size = zip_size(entry);

        package->room = size < PACKAGE_MEMBER_MAX ? size : PACKAGE_MEMBER_MAX;
    }
    return STATUS_OK;
}

/* Moves to the data of the member `next`, past headers of no member. */
static enum status
go_to_next(struct package *package, struct problem *why)
{
    struct member *m = &package->members[package->next];
    struct archive_entry *entry = NULL;
    enum status rc = STATUS_OK;

    if (!package->taking.archive)
        rc = zip_open(&package->taking, package->dir_fd, package->name);
    if (rc)
        return problem(why, rc, "the package cannot be read: %s",
                       package->taking.problem);
    while (!rc && package->taking.n_headers <= m->ordinal)
        if (zip_next(&package->taking, &entry) <= 0)
            rc =
                problem(why, STATUS_MALFORMED, "the package cannot be read: %s",
                        package->taking.problem);
    if (rc)
        return rc;
    if (m->state != MEMBER_EXPECTED) {
        package->next++;
        return STATUS_OK;
    }
    return open_partial(package, entry, why);
}

static enum status
write_all(struct package *package, struct slice bytes, struct problem *why)
{
    while (bytes.size > 0) {
        ssize_t n = write(package->out_fd, bytes.data, bytes.size);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return cannot_write(package, package->partial, why);
        bytes.data += n;
        bytes.size -= (size_t)n;
    }
    return STATUS_OK;
}

/* Unpacks a chunk of the member. */
static enum status
unpack_some(struct package *package, char *chunk, size_t *n_bytes,
            struct problem *why)
{
    struct problem told = {.text = ""};
    enum status checked = STATUS_OK;
    long n = zip_read(&package->taking, chunk, CHUNK_SIZE);
    struct slice bytes = {chunk, n > 0 ? (size_t)n : 0};

    *n_bytes = bytes.size;
    if (n < 0) {
        snprintf(told.text, sizeof(told.text), "cannot be unpacked: %s",
                 package->taking.problem);
        return close_partial(package, told.text, why);
    }
    checked = n > 0 ? digest_check_add(package->digests, bytes, &told)
                    : digest_check_end(package->digests, &told);
    if (!checked && bytes.size > package->room)
        checked = problem(&told, STATUS_TOO_LARGE,
                          "is longer than the package tells, or than %llu "
                          "bytes",
                          (unsigned long long)PACKAGE_MEMBER_MAX);
    if (checked == STATUS_MEMORY)
        return problem_memory(why);
    if (checked)
        return close_partial(package, told.text, why);
    if (n == 0)
        return close_partial(package, NULL, why);
    package->room -= bytes.size;
    return write_all(package, bytes, why);
}

static enum status
bad(const struct member *m, const char *why_bad, struct problem *why)
{
    return problem(why, STATUS_MALFORMED, "\"%s\" in the package %s",
                   problem_quote(m->path).text, why_bad);
}

enum status
package_find(struct package *package, struct slice path, struct problem *why)
{
    struct member *m = package_member(package, path);

    package->wanted = NULL;
    if (!m || m->state == MEMBER_UNKNOWN)
        return problem(why, STATUS_MALFORMED,
                       "the package has no member \"%s\"",
                       problem_quote(path).text);
    if (m->state == MEMBER_TAKEN)
        return bad(m, "is named twice by the manifest", why);
    if (m->state == MEMBER_BAD)
        return bad(m, m->why, why);
    package->wanted = m;
    return STATUS_OK;
}

enum status
package_take(struct package *package, bool *is_over,
             char name[PACKAGE_NAME_SIZE], struct problem *why)
{
    locale_t before = package_locale_enter(package);
    struct member *m = package->wanted;
    enum status rc = STATUS_OK;
    char chunk[CHUNK_SIZE];
    size_t sum = 0, n = 0;

    *is_over = false;
    while (!rc && m->state == MEMBER_EXPECTED && sum < PACKAGE_STEP_BYTES) {
        if (package->partial)
            rc = unpack_some(package, chunk, &n, why);
        else
            rc = go_to_next(package, why);
        sum += n + 64; /* headers take time as well */
    }
    package_locale_leave(before);
    if (rc || m->state == MEMBER_EXPECTED)
        return rc;
    *is_over = true;
    package->wanted = NULL;
    if (m->state == MEMBER_BAD)
        return bad(m, m->why, why);
    m->state = MEMBER_TAKEN;
    package_file(name, package, m);
    return STATUS_OK;
}
