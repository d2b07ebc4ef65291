#include "broker/log/list_file.h"

#include <fcntl.h>
#include <libdeflate.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file.h"
#include "broker/bucket/vault.h"
#include "broker/log/deflate_blocks.h"
#include "proto/resourcesync/document_write.h"

/* A block ends with the entry that brings it to so many plain bytes: its end is
 * a function of the entries alone, not of the batches that they came in. */
#define BLOCK_BYTES 131072

/* The plain bytes of a block, at most: the last entry may be the largest. In
 * files of earlier versions blocks end with a batch, of at most as much. */
#define BLOCK_BYTES_MAX (BLOCK_BYTES + BATCH_BYTES_MAX)

/* The file is written in steps of this size. */
#define STEP_BYTES 1048576

/* libdeflate's fastest. Of a list of 18 MB with random digests and lengths
 * (measured, microseconds an entry, and the size in proportion): 0.74, 20.1 %;
 * zlib 1: 1.28, 22.4 %; zlib 6: 3.19, 19.5 %; libdeflate 5: 1.18, 18.2 %, but
 * of several blocks (deflate_blocks.h). */
#define LEVEL 1

const char list_file_gzip[10] = {0x1f, (char)0x8b, 8, [9] = (char)255};

/* A final block that has nothing but its end (RFC 1951 section 3.2.6). */
static const char last_block[2] = {3, 0};

/*
 * A mark, integers little-endian:
 *
 *   0  u64  seq before the block's first entry
 *   8  i64  T of that seq, microseconds
 *  16  u64  offset of the block in the file
 *  24  u64  offset of the block in the plain list
 *  32       d of that seq
 */
struct list_mark
list_file_mark(struct slice marks, size_t n)
{
    const char *bytes = marks.data + n * LIST_MARK_SIZE;
    uint64_t numbers[4];
    struct list_mark m;

    memcpy(numbers, bytes, sizeof(numbers));
    m = (struct list_mark){
        .after = le64toh(numbers[0]),
        .after_us = (int64_t)le64toh(numbers[1]),
        .at = le64toh(numbers[2]),
        .plain = le64toh(numbers[3]),
    };
    memcpy(m.digest.bytes, bytes + sizeof(numbers), DIGEST_SIZE);
    return m;
}

void
list_file_name(char to[LIST_FILE_NAME_MAX], uint64_t number)
{
    snprintf(to, LIST_FILE_NAME_MAX, "%012" PRIu64 ".xml.gz", number);
}

uint64_t
list_file_size(int dir_fd, uint64_t number)
{
    char name[LIST_FILE_NAME_MAX];
    struct stat st;

    list_file_name(name, number);
    return fstatat(dir_fd, name, &st, 0) ? vault_size(dir_fd, name)
                                         : (uint64_t)st.st_size;
}

/* A list being written. */
struct writer {
    struct file_new file;
    struct libdeflate_compressor *compressor;
    struct buf block; /* plain, not yet compressed */
    struct buf out;   /* compressed, not yet in the file */
    uint64_t written;
    uint64_t plain; /* compressed so far */
    uint32_t crc;   /* of these */
    struct problem *why;
};

static enum status
flush_out(struct writer *w)
{
    enum status rc = file_append(&w->file, buf_slice(&w->out), w->why);

    w->written += w->out.size;
    buf_clear(&w->out);
    return rc;
}

/* Compresses some bytes into blocks of their own. */
static enum status
compress_slice(struct writer *w, struct slice plain)
{
    enum status rc = deflate_blocks(w->compressor, plain, &w->out, w->why);

    w->plain += plain.size;
    w->crc = libdeflate_crc32(w->crc, plain.data, plain.size);
    return rc || w->out.size < STEP_BYTES ? rc : flush_out(w);
}

/* The next block begins with the entry after `seq`. */
static void
add_mark(struct writer *w, struct buf *marks, uint64_t seq, int64_t us,
         const struct digest *digest)
{
    const uint64_t numbers[] = {
        htole64(seq),
        htole64((uint64_t)us),
        htole64(w->written + w->out.size),
        htole64(w->plain),
    };

    buf_add(marks, numbers, sizeof(numbers));
    buf_add(marks, digest->bytes, DIGEST_SIZE);
}

static enum status
end_block(struct writer *w)
{
    enum status rc = w->block.failed ? problem_memory(w->why)
                                     : compress_slice(w, buf_slice(&w->block));

    buf_clear(&w->block);
    return rc;
}

/* Adds the entries of a batch, and ends the blocks that become full. */
static enum status
write_batch(struct writer *w, struct list_file *file, const struct batch *b,
            uint64_t *after)
{
    uint64_t last = b->last < file->info.last ? b->last : file->info.last;
    enum status rc = STATUS_OK;

    while (!rc && *after < last) {
        size_t room = BLOCK_BYTES - w->block.size;
        uint64_t seq = *after + 1;
        struct digest digest;

        while (seq < last && batch_slice(b, *after, seq).size < room)
            seq++;
        buf_add_slice(&w->block, batch_slice(b, *after, seq));
        *after = seq;
        if (w->block.size < BLOCK_BYTES || seq == file->info.last)
            continue;
        rc = end_block(w);
        digest = batch_digest(b, seq);
        add_mark(w, &file->marks, seq, batch_time(b, seq), &digest);
    }
    return rc;
}

static enum status
write_entries(struct writer *w, struct list_file *file,
              list_file_source_fn *source, void *user)
{
    const struct list_info *info = &file->info;
    uint64_t after = info->after;
    enum status rc = STATUS_OK;

    add_mark(w, &file->marks, after, info->from_us, &info->before);
    while (!rc && after < info->last) {
        struct batch *b = NULL;

        rc = source(user, after, &b, w->why);
        if (!rc && !b)
            rc = problem(w->why, STATUS_IO, "entry %" PRIu64 " is missing",
                         after + 1);
        if (!rc)
            rc = write_batch(w, file, b, &after);
        batch_unref(b);
    }
    if (!rc)
        rc = end_block(w);
    add_mark(w, &file->marks, info->last, info->until_us, &info->digest);
    return rc;
}

enum status
list_file_write(struct list_file *file, struct slice header,
                list_file_source_fn *source, void *user, struct problem *why)
{
    struct writer w = {.compressor = libdeflate_alloc_compressor(LEVEL),
                       .why = why};
    char name[LIST_FILE_NAME_MAX];
    enum status rc;

    list_file_name(name, file->info.number);
    buf_init(&w.block, BLOCK_BYTES_MAX);
    buf_init(&w.out, SIZE_MAX); /* a step and a block, or the header */
    if (!w.compressor) {
        rc = problem_memory(why);
        goto out;
    }
    rc = file_begin(&w.file, file->dir_fd, name, why);
    if (rc)
        goto out;
    buf_add(&w.out, list_file_gzip, sizeof(list_file_gzip));
    rc = compress_slice(&w, header);
    if (!rc)
        rc = write_entries(&w, file, source, user);
    if (!rc)
        rc = compress_slice(&w, document_footer_of(DOCUMENT_URLSET));
    /* The end of the stream, and the trailer of gzip (RFC 1952 section 2.3.1).
     */
    buf_add(&w.out, last_block, sizeof(last_block));
    buf_add(&w.out, (uint32_t[]){htole32(w.crc), htole32((uint32_t)w.plain)},
            8);
    if (!rc && (w.out.failed || file->marks.failed))
        rc = problem_memory(why);
    if (!rc)
        rc = flush_out(&w);
    if (rc)
        file_abandon(&w.file);
    else
        rc = file_finish(&w.file, why);
    if (!rc)
        rc = file_sync_dir(file->dir_fd, why);

out:
    libdeflate_free_compressor(w.compressor);
    buf_fini(&w.block);
    buf_fini(&w.out);
    return rc;
}

/* Finds the last of the first `n` marks that is not behind an entry, or a byte
 * of the plain list: marks are ordered. n > 0. */
static size_t
find_mark(struct slice marks, size_t n, bool is_byte, uint64_t at)
{
    return FIRST_FALSE(i, 1, n,
                       (is_byte ? list_file_mark(marks, i).plain
                                : list_file_mark(marks, i).after) <= at) -
           1;
}

void
list_file_seek(const struct list_file *file, uint64_t offset,
               struct list_place *place)
{
    struct slice marks = buf_slice(&file->marks);
    size_t n_marks = marks.size / LIST_MARK_SIZE;
    uint64_t header;
    struct list_mark m;

    if (n_marks == 0)
        return;
    header = list_file_mark(marks, 0).plain;
    if (offset > UINT64_MAX - header)
        offset = UINT64_MAX - header;
    m = list_file_mark(marks, find_mark(marks, n_marks, true, header + offset));
    place->after = m.after;
    place->at = m.plain - header;
}

/* Reads the deflate stream of a block and inflates it behind the entries of the
 * batch, which are then to be appended in place. */
static enum status
inflate_block(int fd, const char *name, const struct list_mark *from,
              const struct list_mark *to, struct batch *b, struct problem *why)
{
    size_t packed_size = (size_t)(to->at - from->at);
    size_t plain_size = (size_t)(to->plain - from->plain);
    char *packed = memory_room(packed_size + sizeof(last_block));
    struct libdeflate_decompressor *z = libdeflate_alloc_decompressor();
    enum status rc = STATUS_OK;

    if (!packed || !z || plain_size > BLOCK_BYTES_MAX ||
        batch_reserve(b, plain_size, 0)) {
        rc = problem_memory(why);
        goto out;
    }
    /* libdeflate wants a whole stream. */
    memcpy(packed + packed_size, last_block, sizeof(last_block));
    if (!file_read_at(fd, packed, packed_size, from->at) ||
        libdeflate_deflate_decompress(
            z, packed, packed_size + sizeof(last_block), b->bytes + b->size,
            plain_size, NULL) != LIBDEFLATE_SUCCESS)
        rc = problem(why, STATUS_IO, "%s is damaged", name);

out:
    libdeflate_free_decompressor(z);
    free(packed);
    return rc;
}

enum status
list_file_open(int dir_fd, uint64_t number, int *fd, struct problem *why)
{
    char name[LIST_FILE_NAME_MAX];

    enum status rc;

    list_file_name(name, number);
    rc = vault_file(dir_fd, name, fd, why);
    return rc == STATUS_NOT_FOUND ? STATUS_IO : rc;
}

enum status
list_file_read(const struct list_file *file, uint64_t after,
               atomic_size_t *forms, struct batch **batch, struct problem *why)
{
    struct slice marks = buf_slice(&file->marks);
    size_t n_marks = marks.size / LIST_MARK_SIZE, n;
    char name[LIST_FILE_NAME_MAX];
    struct list_mark from, to;
    struct batch *b = NULL;
    enum status rc;
    int fd = -1;

    list_file_name(name, file->info.number);
    if (n_marks < 2) {
        rc = problem(why, STATUS_IO, "list %s has no marks", name);
        goto out;
    }
    n = find_mark(marks, n_marks - 1, false, after);
    from = list_file_mark(marks, n);
    to = list_file_mark(marks, n + 1);

    rc = list_file_open(file->dir_fd, file->info.number, &fd, why);
    if (rc)
        goto out;
    b = batch_new(from.after, from.after_us, &from.digest, forms);
    rc = inflate_block(fd, name, &from, &to, b, why);
    if (!rc)
        rc = batch_append_in_place(b, (size_t)(to.plain - from.plain),
                                   &to.digest, why);
    /* Inflate alone would let some damage pass. */
    if (!rc && (b->last != to.after || !batch_is_genuine(b)))
        rc = problem(why, STATUS_IO, "%s is damaged", name);

out:
    if (rc) {
        batch_unref(b);
        b = NULL;
    }
    *batch = b;
    file_close(&fd);
    return rc;
}
