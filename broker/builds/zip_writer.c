#include "broker/builds/zip_writer.h"

#include <ctype.h>
#include <unistd.h>

#include <archive.h>
#include <archive_entry.h>

#include "base/file.h"
#include "proto/resourcesync/document_write.h"
#include "proto/resourcesync/vocab.h"

/* Handed to the file at once. */
#define BLOCK_BYTES (256 * 1024)

/* Copied in one go, and read at once. */
#define COPY_BYTES  ((uint64_t)4 << 20)
#define PIECE_BYTES ((size_t)64 * 1024)

/* Bytes between two syncs, so that the last one does not take long. */
#define SYNC_BYTES ((uint64_t)32 << 20)

struct zip_writer {
    struct file_new file;
    struct archive *archive;
    struct archive_entry *entry;
    struct digest_check *sha256; /* of the package */
    uint64_t length, synced;
    int64_t time_us;
    struct problem failure; /* of on_write; "": none */

    char member[48]; /* the current member */
    uint64_t left;   /* its bytes still to come */

    /* The file that has them; -1: zip_writer_add. */
    int source_fd;
    struct digest_check *source_sha256;
    struct digest digest;
};

/* Planning */

/* What ZIP stores for a member beside its bytes: a local header (30 bytes, the
 * name, extra fields), a data descriptor (24), a place in the directory (46,
 * the name and extra fields again); with ZIP64 no more than this. */
#define MEMBER_BYTES 256

/* The end of a package: 22 bytes, and 76 of ZIP64. */
#define END_BYTES 128

/* The most that a member of `length` bytes takes: if deflate cannot make it
 * smaller, it costs 5 bytes for each 16 KiB. */
static uint64_t
member_bytes(uint64_t length)
{
    return MEMBER_BYTES + length + length / 2048;
}

bool
zip_writer_plan_add(struct zip_writer_plan *plan, uint64_t limit,
                    uint64_t entry_size, uint64_t length)
{
    struct zip_writer_plan next = *plan;

    if (next.entries++ == 0) {
        next.manifest = DOCUMENT_FRAME_MAX;
        next.bytes = END_BYTES + member_bytes(DOCUMENT_FRAME_MAX);
    }
    next.manifest += entry_size;
    next.bytes += entry_size + entry_size / 2048 + 1;
    if (length != ZIP_WRITER_NO_MEMBER)
        next.bytes += member_bytes(length);
    if (plan->entries > 0 &&
        (next.entries > DOCUMENT_ENTRIES_MAX ||
         next.manifest > DOCUMENT_BYTES_MAX || next.bytes > limit))
        return false;
    *plan = next;
    return true;
}

/* Names */

#define EXTENSION_MAX 8

/* Copies an extension in small letters, terminated. Returns false if `text` is
 * none. */
static bool
take_extension(char to[EXTENSION_MAX + 1], struct slice text)
{
    if (text.size == 0 || text.size > EXTENSION_MAX)
        return false;
    for (size_t i = 0; i < text.size; i++) {
        char c = (char)tolower((unsigned char)text.data[i]);

        if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9'))
            return false;
        to[i] = c;
    }
    to[text.size] = '\0';
    return true;
}

/* Returns the text behind the last dot of the last path segment; a host has
 * dots, too. */
static struct slice
extension_of_loc(struct slice loc)
{
    const char *slash = NULL, *dot = NULL;

    if (slice_skip_past(&loc, "://")) {
        loc = slice_take(&loc, '#');
        loc = slice_take(&loc, '?');
        slash = memrchr(loc.data, '/', loc.size);
    }
    if (slash)
        dot = memrchr(slash, '.', loc.size - (size_t)(slash - loc.data));
    return dot ? slice_between(dot + 1, loc.data + loc.size)
               : (struct slice){NULL, 0};
}

static struct slice
without_parameters(struct slice type)
{
    return slice_trimmed(slice_take(&type, ';'));
}

void
zip_writer_name(struct zip_writer_name *name, uint64_t number, struct slice loc,
                struct slice type)
{
    char extension[EXTENSION_MAX + 1] = "";
    struct slice last = without_parameters(type);
    bool has_one;

    slice_take(&last, '/'); /* "text/csv": csv, "application/pdf": pdf */
    has_one =
        take_extension(extension, extension_of_loc(loc)) ||
        take_extension(extension,
                       slice_is_word(last, "plain") ? SLICE("txt") : last);
    snprintf(name->text, sizeof(name->text), "resources/%012" PRIu64 "%s%s",
             number, has_one ? "." : "", has_one ? extension : "");
}

static bool
ends_with(struct slice text, const char *end)
{
    size_t size = strlen(end);

    return text.size > size &&
           !strncasecmp(text.data + text.size - size, end, size);
}

bool
zip_writer_deflates(struct slice type)
{
    static const char *const texts[] = {
        "application/xml",        "application/json",
        "application/javascript", "application/x-ndjson",
        "application/rtf",        "application/sql",
        "application/yaml",       "application/x-yaml",
        "application/toml",       "application/n-quads",
        "application/n-triples"};
    struct slice plain = without_parameters(type);

    if ((plain.size > 5 && slice_starts_word(plain, "text/")) ||
        ends_with(plain, "+xml") || ends_with(plain, "+json"))
        return true;
    for (size_t i = 0; i < N_ELEMENTS(texts); i++)
        if (slice_is_word(plain, texts[i]))
            return true;
    return false;
}

/* Writing */

/* Called by libarchive. Never reports a failure to it, for libarchive would not
 * free its memory then (3.6 leaks the deflate stream and its block). After a
 * failure it drops the bytes, and every caller checks p->failure. */
static la_ssize_t
on_write(struct archive *archive, void *user, const void *bytes, size_t size)
{
    struct slice piece = {bytes, size};
    struct zip_writer *p = user;

    (void)archive;
    if (p->failure.text[0] == '\0' &&
        !file_append(&p->file, piece, &p->failure) &&
        !digest_check_add(p->sha256, piece, &p->failure))
        p->length += size;
    return (la_ssize_t)size;
}

/* Returns the result of a call of libarchive. */
static enum status
check_member(const struct zip_writer *p, bool is_done, struct problem *why)
{
    const char *text = archive_error_string(p->archive);

    if (p->failure.text[0])
        return problem(why, STATUS_IO, "%s", p->failure.text);
    if (is_done)
        return STATUS_OK;
    return problem(why, STATUS_IO, "cannot write %s: %s", p->file.name,
                   text ? text : "libarchive does not say why");
}

static void
package_free(struct zip_writer *p)
{
    file_close(&p->source_fd);
    problem_set(&p->failure, "it is over"); /* drops the end */
    if (p->archive)
        archive_write_free(p->archive);
    archive_entry_free(p->entry);
    digest_check_free(p->sha256);
    digest_check_free(p->source_sha256);
    free(p);
}

void
zip_writer_abandon(struct zip_writer *p)
{
    if (!p)
        return;
    file_abandon(&p->file);
    package_free(p);
}

enum status
zip_writer_begin(struct zip_writer **package, int dir_fd, const char *name,
                 int64_t time_us, struct problem *why)
{
    struct zip_writer *p = memory_new(1, sizeof(*p));
    enum status rc;

    p->source_fd = -1;
    p->time_us = time_us;
    rc = file_begin(&p->file, dir_fd, name, why);
    if (rc) {
        package_free(p);
        return rc;
    }
    p->archive = memory_got(archive_write_new(), 1);
    p->entry = memory_got(archive_entry_new(), 1);
    p->sha256 = digest_check_new(SLICE(""), LENGTH_NONE, true);
    p->source_sha256 = digest_check_new(SLICE(""), LENGTH_NONE, true);
    rc = check_member(
        p,
        !archive_write_set_format_zip(p->archive) &&
            !archive_write_set_bytes_per_block(p->archive, BLOCK_BYTES) &&
            !archive_write_set_bytes_in_last_block(p->archive, 1) &&
            !archive_write_open(p->archive, p, NULL, on_write, NULL),
        why);
    if (rc)
        zip_writer_abandon(p);
    else
        *package = p;
    return rc;
}

/* Checks that the current member has all its bytes. */
static enum status
check_whole(const struct zip_writer *p, struct problem *why)
{
    if (p->left == 0 && p->source_fd < 0)
        return STATUS_OK;
    return problem(why, STATUS_INVALID, "%s of %s lacks %" PRIu64 " bytes",
                   p->member, p->file.name, p->left);
}

static enum status
begin_member(struct zip_writer *p, const char *name, bool is_deflated,
             uint64_t length, struct problem *why)
{
    enum status rc = check_whole(p, why);

    if (rc)
        return rc;
    snprintf(p->member, sizeof(p->member), "%s", name);
    archive_entry_clear(p->entry);
    archive_entry_set_pathname(p->entry, name);
    archive_entry_set_filetype(p->entry, AE_IFREG);
    archive_entry_set_perm(p->entry, 0644);
    archive_entry_set_mtime(p->entry, (time_t)(p->time_us / 1000000), 0);
    archive_entry_set_size(p->entry, (la_int64_t)length);
    rc = check_member(
        p,
        !(is_deflated ? archive_write_zip_set_compression_deflate(p->archive)
                      : archive_write_zip_set_compression_store(p->archive)) &&
            !archive_write_header(p->archive, p->entry),
        why);
    p->left = length;
    return rc;
}

enum status
zip_writer_begin_manifest(struct zip_writer *p, uint64_t length,
                          struct problem *why)
{
    return begin_member(p, ZIP_WRITER_MANIFEST, true, length, why);
}

enum status
zip_writer_add(struct zip_writer *p, struct slice bytes, struct problem *why)
{
    if (bytes.size > p->left)
        return problem(why, STATUS_INVALID, "%s of %s is longer than announced",
                       p->member, p->file.name);
    p->left -= bytes.size;
    return check_member(
        p,
        bytes.size == 0 ||
            archive_write_data(p->archive, bytes.data, bytes.size) ==
                (la_ssize_t)bytes.size,
        why);
}

enum status
zip_writer_take(struct zip_writer *p, const struct zip_writer_member *member,
                int fd, struct problem *why)
{
    enum status rc = begin_member(p, member->name.text, member->is_deflated,
                                  member->length, why);

    if (!rc)
        rc = digest_check_reset(p->source_sha256);
    if (rc) {
        close(fd);
        return rc;
    }
    p->source_fd = fd;
    p->digest = member->digest;
    return STATUS_OK;
}

/* Checks length and SHA-256 of the copied member. */
static enum status
check_source(struct zip_writer *p, struct problem *why)
{
    struct digest found;
    enum status rc = digest_check_end(p->source_sha256, why);
    char more;

    if (rc)
        return rc;
    digest_check_sha256(p->source_sha256, &found);
    if (read(p->source_fd, &more, 1) > 0)
        return problem(why, STATUS_INVALID,
                       "the content for %s is longer than announced",
                       p->member);
    if (digest_is_equal(&found, &p->digest))
        return STATUS_OK;
    return problem(why, STATUS_INVALID,
                   "the content for %s is damaged: it is %s, and should be %s",
                   p->member, digest_text(&found).text,
                   digest_text(&p->digest).text);
}

enum status
zip_writer_copy(struct zip_writer *p, bool *is_over, struct problem *why)
{
    uint64_t most = p->left > COPY_BYTES ? p->left - COPY_BYTES : 0;
    char piece[PIECE_BYTES];
    enum status rc = STATUS_OK;

    while (!rc && p->left > most) {
        size_t wanted = p->left < PIECE_BYTES ? (size_t)p->left : PIECE_BYTES;
        ssize_t n = read(p->source_fd, piece, wanted);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            rc = problem_errno(why, "cannot read the content for", p->member);
        else if (n == 0)
            rc = problem(why, STATUS_INVALID,
                         "the content for %s ends %" PRIu64 " bytes too early",
                         p->member, p->left);
        else
            rc = zip_writer_add(p, (struct slice){piece, (size_t)n}, why);
        if (!rc)
            rc = digest_check_add(p->source_sha256,
                                  (struct slice){piece, (size_t)n}, why);
    }
    if (!rc && p->left == 0) {
        rc = check_source(p, why);
        file_close(&p->source_fd);
    }
    if (!rc && p->length - p->synced >= SYNC_BYTES) {
        fdatasync(p->file.fd); /* fsync reports a failure */
        p->synced = p->length;
    }
    *is_over = !rc && p->left == 0;
    return rc;
}

enum status
zip_writer_finish(struct zip_writer *p, struct zip_writer_file *file,
                  struct problem *why)
{
    enum status rc = check_whole(p, why);

    if (!rc)
        rc =
            check_member(p, archive_write_close(p->archive) == ARCHIVE_OK, why);
    *file = (struct zip_writer_file){.length = p->length};
    if (!rc)
        rc = digest_check_end(p->sha256, why);
    digest_check_sha256(p->sha256, &file->digest);
    if (rc)
        file_abandon(&p->file);
    else
        rc = file_finish(&p->file, why);
    package_free(p);
    return rc;
}
