#include "broker/documents/generation_document.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "broker/builds/zfile.h"
#include "broker/sets/links.h"

/* Opens the document in a file; its bodies own the file from then on. */
static enum status
open_zfile(int fd, struct document *document, struct problem *why)
{
    struct zfile zfile;
    enum status rc = zfile_look(fd, &zfile, why);
    int gzip_fd = rc ? -1 : dup(fd);

    if (rc) {
        close(fd);
        return rc;
    }
    *document = (struct document){
        .tag = zfile.digest,
        .modified_us = DATETIME_NONE,
        .may_be_packed = true,
    };
    rc = zfile_body(fd, &document->body, why);
    if (rc)
        close(fd);
    if (gzip_fd >= 0)
        document->gzip = body_of_file(gzip_fd, zfile.packed);
    if (rc)
        document_close(document);
    return rc;
}

enum status
generation_document_open(const struct document_wish *wish, uint64_t number,
                         enum generation_file file, uint64_t part,
                         struct document *document, struct problem *why)
{
    int fd = -1;
    enum status rc = generation_open(
        wish->set, &(struct generation_place){wish->kind, number, file, part},
        &fd, why);

    return rc ? rc : open_zfile(fd, document, why);
}

/* Makes a package's tag from its place, size and time: it is too large to read.
 * The time of writing is included because a data directory restored from an
 * earlier day may have another package under this number. */
static void
tag_package(struct digest *tag, const struct document_wish *wish,
            uint64_t number, uint64_t part, const struct stat *st)
{
    char text[256];
    int n =
        snprintf(text, sizeof(text), "%s %s %" PRIu64 " %" PRIu64 " %jd %jd",
                 wish->head.epoch, links_kinds[wish->kind].folder, number, part,
                 (intmax_t)st->st_size, (intmax_t)st->st_mtim.tv_sec);

    digest_start(tag, (struct slice){text, (size_t)n});
}

enum status
generation_document_open_package(const struct document_wish *wish,
                                 uint64_t number, uint64_t part,
                                 struct document *document, struct problem *why)
{
    struct stat st;
    int fd = -1;
    enum status rc =
        generation_open(wish->set,
                        &(struct generation_place){wish->kind, number,
                                                   GENERATION_PACKAGE, part},
                        &fd, why);

    if (rc)
        return rc;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
        close(fd);
        return problem(why, STATUS_IO, "the package cannot be read");
    }
    *document = (struct document){
        .body = body_of_file(fd, (uint64_t)st.st_size),
        .modified_us = DATETIME_NONE,
    };
    tag_package(&document->tag, wish, number, part, &st);
    return STATUS_OK;
}

bool
generation_document_has(const struct document_wish *wish, uint64_t number,
                        uint64_t part)
{
    int fd;

    if (generation_open(wish->set,
                        &(struct generation_place){wish->kind, number,
                                                   GENERATION_DOCUMENT, part},
                        &fd, NULL))
        return false;
    close(fd);
    return true;
}

int64_t
generation_document_since(const struct document_wish *wish)
{
    int64_t us = wish->head.generations[wish->kind].current.completed_us;

    us = (us / 1000000 + 1) * 1000000;
    return us <= clock_now_us() ? us : DATETIME_NONE;
}

enum status
generation_document_none(const struct document_wish *wish, struct problem *why)
{
    return problem(why, STATUS_NOT_FOUND, "no %s of this set was built yet",
                   links_kinds[wish->kind].title);
}

enum status
generation_document_check(const struct document_wish *wish, struct problem *why)
{
    const struct generations *all = &wish->head.generations[wish->kind];
    const char *title = links_kinds[wish->kind].title;
    struct generation kept;
    enum status rc;

    if (wish->patience == LOG_MEMORY)
        return STATUS_AGAIN;
    if (wish->number > all->last || wish->number < wish->head.start_list ||
        wish->number == all->ordered.number)
        return problem(why, STATUS_NOT_FOUND, "there is no such %s", title);
    if (generation_document_has(wish, wish->number, 1))
        return STATUS_OK;
    rc = generation_find(wish->set, &wish->head, wish->kind, wish->number,
                         &kept, why);
    if (rc == STATUS_NOT_FOUND)
        return problem(why, STATUS_GONE, "this %s is no longer kept", title);
    if (rc)
        return rc;
    return log_is_shared(registry_log(wish->registry))
               ? problem(why, STATUS_BUSY,
                         "this broker has not built this %s yet", title)
               : problem(why, STATUS_IO, "this %s is not on the disk", title);
}
