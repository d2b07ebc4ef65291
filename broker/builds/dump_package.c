#include "broker/builds/dump_package.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/array.h"

/* Limits of a step. */
#define STEP_BYTES   ((uint64_t)4 << 20)
#define STEP_MEMBERS 256

/* The log uses the same disk: so much of it stays free, about twice the limit
 * at which the broker refuses posts (log.h: has_room). */
#define RESERVE_BYTES ((uint64_t)256 << 20)

struct dump_package {
    struct generation_writer *writer; /* NULL: a plan */
    uint64_t part;
    int64_t time_us; /* of the members */

    /* While entries come. */
    uint64_t limit; /* most bytes of the package */
    struct zip_writer_plan plan;
    struct buf entry;

    /* The members so far. */
    struct zip_writer_member *members;
    size_t n, capacity;

    /* While the package is written. */
    struct zip_writer *package;
    struct body *manifest; /* NULL: already in the package */
    size_t next;           /* the next member to begin */
    bool is_copying;       /* the member before it is not whole */
};

void
dump_package_free(struct dump_package *p)
{
    if (!p)
        return;
    zip_writer_abandon(p->package);
    body_free(&p->manifest);
    buf_fini(&p->entry);
    free(p->members);
    free(p);
}

/* The manifest */

struct dump_package *
dump_package_plan(uint64_t limit)
{
    struct dump_package *p = memory_new(1, sizeof(*p));

    p->limit = limit;
    p->entry.max = FRAGMENT_MAX + FRAGMENT_MEMBER_MAX;
    return p;
}

enum status
dump_package_begin(struct dump_package **packing,
                   struct generation_writer *writer, uint64_t part,
                   uint64_t limit, const struct document_head *head,
                   struct problem *why)
{
    struct dump_package *p = dump_package_plan(limit);
    enum status rc;

    p->writer = writer;
    p->part = part;
    p->time_us = head->at_us ? head->at_us : head->from_us;
    rc = generation_part(writer, GENERATION_MANIFEST, part, why);
    if (rc) {
        dump_package_free(p);
        return rc;
    }
    document_header(&writer->text, head);
    *packing = p;
    return STATUS_OK;
}

enum status
dump_package_add(struct dump_package *p, struct slice entry,
                 const struct content_bytes *bytes, bool *fits,
                 struct problem *why)
{
    struct zip_writer_member *member;
    struct fragment_member shown;
    char path[sizeof(member->name.text) + 1];
    struct slice loc, type;

    if (!ONE_MORE(p->members, &p->capacity, p->n))
        return problem_memory(why);
    buf_clear(&p->entry);
    if (bytes) { /* the entry with its member, the next one */
        member = &p->members[p->n];
        fragment_names(entry, &loc, &type);
        zip_writer_name(&member->name, p->n + 1, loc, type);
        member->is_deflated = zip_writer_deflates(type);
        member->digest = bytes->digest;
        member->length = bytes->length;
        snprintf(path, sizeof(path), "/%s", member->name.text);
        shown = (struct fragment_member){slice_of(path), &bytes->digest,
                                         bytes->length};
    }
    fragment_in_manifest(&p->entry, entry, bytes ? &shown : NULL);
    *fits = zip_writer_plan_add(&p->plan, p->limit, p->entry.size,
                                bytes ? bytes->length : ZIP_WRITER_NO_MEMBER);
    if (!*fits)
        return STATUS_OK;
    p->n += bytes ? 1 : 0;
    if (!p->writer) /* a plan */
        return STATUS_OK;
    p->writer->text.failed |= p->entry.failed;
    buf_add_slice(&p->writer->text, buf_slice(&p->entry));
    return generation_flush(p->writer, why);
}

/* The package */

enum status
dump_package_close(struct dump_package *p, struct problem *why)
{
    int dir_fd = p->writer->dir_fd, fd;
    char name[GENERATION_NAME_SIZE];
    uint64_t free_bytes;
    enum status rc;

    document_footer(&p->writer->text, DOCUMENT_URLSET);
    rc = generation_end_part(p->writer, why);
    if (rc)
        return rc;
    free_bytes = file_free_bytes(dir_fd);
    if (free_bytes < p->plan.bytes ||
        free_bytes - p->plan.bytes < RESERVE_BYTES)
        return problem(why, STATUS_BUSY,
                       "a package of up to %" PRIu64
                       " bytes has no room on the disk, where %" PRIu64
                       " are free and %" PRIu64 " are to stay so",
                       p->plan.bytes, free_bytes, RESERVE_BYTES);
    /* The manifest that was just written goes into the package. */
    generation_name(name, GENERATION_MANIFEST, p->part);
    fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return problem_errno(why, "cannot read", name);
    rc = zfile_body(fd, &p->manifest, why);
    if (rc) {
        close(fd);
        return rc;
    }
    generation_name(name, GENERATION_PACKAGE, p->part);
    rc = zip_writer_begin(&p->package, dir_fd, name, p->time_us, why);
    return rc ? rc
              : zip_writer_begin_manifest(p->package, p->manifest->size, why);
}

static enum status
copy_members(struct dump_package *p, struct problem *why)
{
    struct file_path dir = set_path(p->writer->set, "");
    uint64_t size = 0, length;
    int fd;
    enum status rc = STATUS_OK;

    for (unsigned i = 0; !rc && i < STEP_MEMBERS && size < STEP_BYTES; i++) {
        const struct zip_writer_member *member;
        bool is_over = false;

        if (!p->is_copying && p->next == p->n)
            break;
        /* A thread of low priority may take long for little. */
        rc = generation_check_ending(p->writer, why);
        if (!rc && !p->is_copying) { /* the next member begins */
            member = &p->members[p->next++];
            rc =
                content_file_open(dir.text, &member->digest, &fd, &length, why);
            if (rc == STATUS_NOT_FOUND)
                rc = problem(why, STATUS_INVALID, "the content %s is not there",
                             digest_text(&member->digest).text);
            if (!rc)
                rc = zip_writer_take(p->package, member, fd, why);
        }
        if (!rc)
            rc = zip_writer_copy(p->package, &is_over, why);
        if (rc)
            break;
        p->is_copying = !is_over;
        size += is_over ? p->members[p->next - 1].length : STEP_BYTES;
    }
    return rc;
}

enum status
dump_package_step(struct dump_package *p, bool *is_done,
                  struct zip_writer_file *file, struct problem *why)
{
    enum body_result result = BODY_DATA;
    struct slice piece;
    enum status rc = STATUS_OK;

    *is_done = false;
    if (!p->manifest)
        rc = copy_members(p, why);
    for (uint64_t size = 0; p->manifest && !rc && size < STEP_BYTES;
         size += piece.size) {
        result = p->manifest->next(p->manifest, true, &piece);
        if (result != BODY_DATA)
            break;
        rc = zip_writer_add(p->package, piece, why);
    }
    if (!rc && result == BODY_FAILED)
        rc = problem(why, STATUS_IO, "the manifest cannot be read again");
    if (!rc && result == BODY_END)
        body_free(&p->manifest);
    if (rc || p->manifest || p->is_copying || p->next < p->n)
        return rc;
    *is_done = true;
    rc = zip_writer_finish(p->package, file, why);
    p->package = NULL;
    if (!rc)
        p->writer->generation.bytes += file->length;
    return rc;
}
