#include "broker/backup/tar_body.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <archive.h>
#include <archive_entry.h>

#include "base/array.h"
#include "base/file.h"

/* What a file and its headers are rounded up to. */
#define BLOCK 512

/* Two empty blocks. */
#define END_SIZE ((size_t)2 * BLOCK)

/* The header of a file, and one of pax before it for a long name, a fraction of
 * a second, or a size of 8 GB. */
#define HEADER_MAX ((size_t)16 * BLOCK)

struct tar_file {
    char *path;
    uint64_t size;
    struct timespec time;
    size_t header_size;
};

static const char zeros[END_SIZE];

/* Headers */

/* Writes the header of a file; returns its size. 0: no memory. The bytes of the
 * file are ours to send: libarchive, which misses them at the end, writes zeros
 * behind the header instead, until `to` is full. */
static size_t
write_header(const struct tar_file *file, char to[HEADER_MAX])
{
    struct archive *archive = archive_write_new();
    struct archive_entry *entry = archive_entry_new();
    size_t used = 0, size = 0;

    if (archive && entry) {
        archive_entry_set_pathname(entry, file->path);
        archive_entry_set_filetype(entry, AE_IFREG);
        archive_entry_set_perm(entry, 0600);
        archive_entry_set_size(entry, (la_int64_t)file->size);
        archive_entry_set_mtime(entry, file->time.tv_sec, file->time.tv_nsec);
        if (!archive_write_set_format_pax_restricted(archive) &&
            !archive_write_set_bytes_per_block(archive, 0) &&
            !archive_write_open_memory(archive, to, HEADER_MAX, &used) &&
            !archive_write_header(archive, entry))
            size = used;
    }
    archive_write_free(archive);
    archive_entry_free(entry);
    return size;
}

static uint64_t
padding_of(uint64_t size)
{
    return (BLOCK - size % BLOCK) % BLOCK;
}

/* The list */

void
tar_list_init(struct tar_list *list, const char *dir)
{
    *list = (struct tar_list){.dir = dir, .bytes = END_SIZE};
}

void
tar_list_fini(struct tar_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        free(list->all[i].path);
    free(list->all);
    tar_list_init(list, list->dir);
}

enum status
tar_list_add(struct tar_list *list, const char *path, struct problem *why)
{
    struct file_path name = file_path("%s/%s", list->dir, path);
    char header[HEADER_MAX];
    struct tar_file file;
    struct stat st;

    if (!ONE_MORE(list->all, &list->capacity, list->n))
        return problem_memory(why);
    if (stat(name.text, &st))
        return problem_errno(why, "cannot read", name.text);
    file = (struct tar_file){.path = slice_dup(slice_of(path)),
                             .size = (uint64_t)st.st_size,
                             .time = st.st_mtim};
    file.header_size = write_header(&file, header);
    if (file.header_size == 0) {
        free(file.path);
        return problem_memory(why);
    }
    list->all[list->n++] = file;
    list->bytes += file.header_size + file.size + padding_of(file.size);
    return STATUS_OK;
}

/* The body */

struct tar_body {
    struct body body; /* first: a pointer to it is a pointer to this */
    const struct tar_list *list;
    size_t i;          /* the file at hand; list->n: the end of the archive */
    struct body *file; /* its bytes; NULL: its header is next */
    bool is_whole;
    tar_end_fn *on_end;
    void *user;
    char header[HEADER_MAX];
};

static enum body_result
begin_file(struct tar_body *t, struct slice *piece)
{
    const struct tar_file *file = &t->list->all[t->i];
    struct stat st;
    int fd = open(file_path("%s/%s", t->list->dir, file->path).text,
                  O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return BODY_FAILED;
    if (fstat(fd, &st) || (uint64_t)st.st_size != file->size ||
        write_header(file, t->header) != file->header_size) {
        close(fd);
        return BODY_FAILED;
    }
    t->file = body_of_file(fd, file->size);
    *piece = (struct slice){t->header, file->header_size};
    return BODY_DATA;
}

static enum body_result
tar_next(struct body *body, bool may_block, struct slice *piece)
{
    struct tar_body *t = (struct tar_body *)body;
    enum body_result result;

    piece->size = 0;
    while (t->file || t->i < t->list->n) {
        if (!t->file)
            return may_block ? begin_file(t, piece) : BODY_WAITS;
        result = t->file->next(t->file, may_block, piece);
        if (result == BODY_END) {
            *piece = (struct slice){zeros, padding_of(t->file->size)};
            body_free(&t->file);
            t->i++;
            result = BODY_DATA;
        }
        if (result != BODY_DATA || piece->size > 0)
            return result;
    }
    if (t->is_whole)
        return BODY_END;
    t->is_whole = true;
    *piece = (struct slice){zeros, END_SIZE};
    return BODY_DATA;
}

static void
tar_free(struct body *body)
{
    struct tar_body *t = (struct tar_body *)body;

    body_free(&t->file);
    t->on_end(t->is_whole, t->user);
    free(t);
}

struct body *
tar_body_new(const struct tar_list *list, tar_end_fn *on_end, void *user)
{
    struct tar_body *t = memory_new(1, sizeof(*t));

    t->body =
        (struct body){.size = list->bytes, .next = tar_next, .free = tar_free};
    t->list = list;
    t->on_end = on_end;
    t->user = user;
    return &t->body;
}
