/*
 * zip_reader.c - a ZIP package: its members, its manifest, and the files that
 * members are unpacked into by one walk through the archive.
 */
#include "client/dumps/zip_reader.h"

#include <fcntl.h>
#include <locale.h>
#include <unistd.h>

#include <archive.h>
#include <archive_entry.h>

#include "base/array.h"
#include "base/file.h"
#include "base/map.h"
#include "proto/arena.h"
#include "proto/ascii.h"

/*
 * Reads a ZIP archive from its first member to its last: the
 * calls to libarchive, and nothing else.
 *
 * It uses only the reader that goes by the central directory: a file without
 * one is no ZIP, or was cut off. libarchive converts names with the locale of
 * the thread, which must be UTF-8 during each call.
 */

struct zip_cursor {
    struct archive *archive; /* NULL: closed */
    int fd;
    uint32_t n_headers; /* read by zip_next */
};

/* A closed one; a zip_close of it does nothing. */
#define ZIP_NONE ((struct zip_cursor){.fd = -1})

#define BLOCK_SIZE 65536

/* Fails with libarchive's reason. */
static enum status
fail_zip(struct zip_cursor *zip, struct problem *why)
{
    const char *text = archive_error_string(zip->archive);

    if (archive_errno(zip->archive) == ENOMEM)
        return problem_memory(why);
    return problem(why, STATUS_MALFORMED, "%s", text ? text : "unreadable");
}

static void
zip_close(struct zip_cursor *zip)
{
    if (zip->archive)
        archive_read_free(zip->archive);
    file_close(&zip->fd);
    *zip = ZIP_NONE;
}

/* STATUS_MALFORMED: no ZIP; STATUS_IO; STATUS_MEMORY. After an error it is
 * closed. */
static enum status
zip_open(struct zip_cursor *zip, int dir_fd, const char *name,
         struct problem *why)
{
    enum status rc;

    *zip = ZIP_NONE;
    zip->fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (zip->fd < 0)
        return problem(why, STATUS_IO, "%s", strerror(errno));
    zip->archive = archive_read_new();
    if (!zip->archive) {
        rc = problem_memory(why);
    } else {
        if (!archive_read_support_format_zip_seekable(zip->archive) &&
            !archive_read_open_fd(zip->archive, zip->fd, BLOCK_SIZE))
            return STATUS_OK;
        rc = fail_zip(zip, why);
    }
    zip_close(zip);
    return rc;
}

/* Reads the next header; *entry NULL: the end. STATUS_MALFORMED: it cannot be
 * read. */
static enum status
zip_next(struct zip_cursor *zip, struct archive_entry **entry,
         struct problem *why)
{
    int rc = archive_read_next_header(zip->archive, entry);

    if (rc == ARCHIVE_EOF) {
        *entry = NULL;
        return STATUS_OK;
    }
    /* A warning is about an odd name or field, not about the data. */
    if (rc != ARCHIVE_OK && rc != ARCHIVE_WARN)
        return fail_zip(zip, why);
    zip->n_headers++;
    return STATUS_OK;
}

/* Reads some data of the current member. Sets *n to the number of bytes, 0 at
 * the end. STATUS_MALFORMED: the member cannot be read; later ones still can.
 */
static enum status
zip_read(struct zip_cursor *zip, char *to, size_t size, size_t *n,
         struct problem *why)
{
    la_ssize_t got = archive_read_data(zip->archive, to, size);

    *n = got > 0 ? (size_t)got : 0;
    return got < 0 ? fail_zip(zip, why) : STATUS_OK;
}

#define MANIFEST   "manifest.xml"
#define PIECE_SIZE 16384
#define CHUNK_SIZE 65536

/* Names, digests and reasons of all members together, in bytes. */
#define TEXTS_MAX (256u * 1024 * 1024)

enum member_state {
    MEMBER_UNKNOWN,  /* the manifest has not named it (yet) */
    MEMBER_EXPECTED, /* named, still in the archive */
    MEMBER_ASIDE,    /* unpacked into its file, and correct */
    MEMBER_BAD,      /* not as the manifest says: `why` */
    MEMBER_TAKEN
};

struct member {
    struct map_node node; /* by its path */
    struct slice path;    /* without the leading slash */
    struct slice hash;    /* from the manifest */
    const char *why;
    uint64_t length;  /* from the manifest, or LENGTH_NONE */
    uint32_t ordinal; /* its place among the headers, from 0 */
    enum member_state state;
};

struct zip_reader {
    int dir_fd;      /* the caller's */
    char *name;      /* of its file */
    locale_t locale; /* for uselocale around each zip_...: names in UTF-8; 0:
                        the thread's */
    struct arena texts;

    struct member *members; /* in the order of the archive */
    size_t n_members, capacity;
    struct map by_path;
    uint32_t manifest; /* its ordinal */
    bool has_manifest;

    struct zip_cursor reading; /* of the manifest */
    char *piece;

    struct zip_cursor taking; /* of the members */
    size_t next;              /* the first member not passed yet */
    struct member *wanted;    /* selected by zip_reader_find */
    struct member *partial;   /* being unpacked; NULL: none */
    int out_fd;               /* its file */
    uint64_t room;            /* bytes that it may still have */
    struct digest_check *digests;
};

/* "m17": the file that a member is unpacked into. */
static void
file_name(char name[ZIP_READER_NAME_SIZE], const struct zip_reader *package,
          const struct member *member)
{
    snprintf(name, ZIP_READER_NAME_SIZE, "m%zu",
             (size_t)(member - package->members));
}

/* Names the package in a problem of the reader. */
static enum status
fail_reading(const struct zip_reader *package, enum status rc,
             struct problem *why)
{
    if (rc == STATUS_IO)
        return problem_prefix(why, rc, "cannot read %s: ", package->name);
    return rc == STATUS_MALFORMED
               ? problem_prefix(why, rc, "it is not a ZIP package: ")
               : rc;
}

/* Copies a name or digest. STATUS_MALFORMED: all of them together are too
 * long. */
static enum status
keep_text(struct zip_reader *package, struct slice *text, struct problem *why)
{
    if (arena_copy(&package->texts, *text, text))
        return STATUS_OK;
    return text->size > TEXTS_MAX - package->texts.used
               ? problem(why, STATUS_MALFORMED,
                         "the names in the package are too long")
               : problem_memory(why);
}

/* the name without a leading "./"; "" if it leads out of the package. */
static struct slice
safe_name(const char *name)
{
    struct slice text = slice_of(name);
    struct slice rest, none = {NULL, 0};

    while (slice_starts(text, "./"))
        slice_skip(&text, 2);
    if (text.size == 0 || text.data[0] == '/' ||
        memchr(text.data, '\\', text.size) ||
        (text.size > 1 && ascii_is_letter(text.data[0]) && text.data[1] == ':'))
        return none;
    for (rest = text; rest.size > 0;)
        if (slice_is(slice_take(&rest, '/'), ".."))
            return none;
    return text;
}

static enum status
add_entry(struct zip_reader *package, struct archive_entry *entry,
          uint32_t ordinal, struct problem *why)
{
    const char *text = archive_entry_pathname(entry); /* or NULL */
    struct slice name;
    enum status rc;

    if (!text || archive_entry_filetype(entry) != AE_IFREG ||
        archive_entry_symlink(entry) || archive_entry_hardlink(entry))
        return STATUS_OK;
    name = safe_name(text);
    if (name.size == 0)
        return STATUS_OK;
    if (archive_entry_is_encrypted(entry))
        return problem(why, STATUS_MALFORMED,
                       "the package is encrypted: \"%s\"",
                       problem_quote(name).text);
    if (slice_is(name, MANIFEST)) {
        if (package->has_manifest)
            return problem(why, STATUS_MALFORMED,
                           "the package has two members " MANIFEST);
        package->has_manifest = true;
        package->manifest = ordinal;
        return STATUS_OK;
    }
    if (package->n_members == ZIP_READER_MEMBERS_MAX)
        return problem(why, STATUS_MALFORMED,
                       "the package has more than %d members",
                       ZIP_READER_MEMBERS_MAX);
    if (!ONE_MORE(package->members, &package->capacity, package->n_members))
        return problem_memory(why);
    rc = keep_text(package, &name, why);
    if (rc)
        return rc;
    package->members[package->n_members++] = (struct member){
        .path = name,
        .length = LENGTH_NONE,
        .ordinal = ordinal,
    };
    return STATUS_OK;
}

/* The member at `path`; NULL: none. */
static struct member *
find_member(struct zip_reader *package, struct slice path)
{
    struct member *m;

    slice_take_char(&path, '/'); /* some manifests have none */
    map_each_same (m, &package->by_path, map_hash(&package->by_path, path),
                   node) {
        if (slice_equal(path, m->path))
            return m;
    }
    return NULL;
}

/* Collects the members from all headers. */
static enum status
list_members(struct zip_reader *package, struct problem *why)
{
    struct zip_cursor zip;
    struct archive_entry *entry;
    enum status rc = zip_open(&zip, package->dir_fd, package->name, why);

    if (rc)
        return fail_reading(package, rc, why);
    while (!rc) {
        rc = zip_next(&zip, &entry, why);
        if (rc)
            rc = fail_reading(package, rc, why);
        else if (!entry)
            break;
        else
            rc = add_entry(package, entry, zip.n_headers - 1, why);
    }
    zip_close(&zip);
    if (!rc && !package->has_manifest)
        rc = problem(why, STATUS_MALFORMED,
                     "the package has no member " MANIFEST);
    /* No member comes after these: they stay where they are. */
    for (size_t i = 0; !rc && i < package->n_members; i++) {
        struct member *m = &package->members[i];

        if (find_member(package, m->path))
            rc = problem(why, STATUS_MALFORMED,
                         "the package has two members \"/%s\"",
                         problem_quote(m->path).text);
        else
            map_add(&package->by_path, &m->node,
                    map_hash(&package->by_path, m->path));
    }
    return rc;
}

enum status
zip_reader_open(struct zip_reader **package, int dir_fd, const char *name,
                struct problem *why)
{
    struct zip_reader *p = calloc(1, sizeof(*p));
    enum status rc = STATUS_MEMORY;
    locale_t before;

    *package = NULL;
    if (!p)
        return problem_memory(why);
    p->dir_fd = dir_fd;
    p->out_fd = -1;
    p->reading = p->taking = ZIP_NONE;
    arena_init(&p->texts, TEXTS_MAX);
    p->name = strdup(name);
    p->piece = malloc(PIECE_SIZE);
    if (!p->name || !p->piece) {
        problem_memory(why);
        goto out;
    }
    p->locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    before = uselocale(p->locale);
    rc = list_members(p, why);
    uselocale(before);

out:
    if (rc)
        zip_reader_close(p);
    else
        *package = p;
    return rc;
}

void
zip_reader_close(struct zip_reader *package)
{
    if (!package)
        return;
    zip_close(&package->reading);
    zip_close(&package->taking);
    file_close(&package->out_fd);
    for (size_t i = 0; i < package->n_members; i++) {
        const struct member *m = &package->members[i];
        char name[ZIP_READER_NAME_SIZE];

        if (m->state != MEMBER_ASIDE && m != package->partial)
            continue;
        file_name(name, package, m);
        unlinkat(package->dir_fd, name, 0);
    }
    digest_check_free(package->digests);
    arena_fini(&package->texts);
    free(package->members);
    map_fini(&package->by_path);
    free(package->piece);
    free(package->name);
    if (package->locale)
        freelocale(package->locale);
    free(package);
}

/* Opens the archive unless it is open, and moves to the data of the member with
 * that ordinal. */
static enum status
go_to_member(struct zip_reader *package, struct zip_cursor *zip,
             uint32_t ordinal, struct archive_entry **entry,
             struct problem *why)
{
    enum status rc = STATUS_OK;

    if (!zip->archive)
        rc = zip_open(zip, package->dir_fd, package->name, why);
    while (!rc && zip->n_headers <= ordinal) {
        rc = zip_next(zip, entry, why);
        if (!rc && !*entry)
            rc = problem(why, STATUS_MALFORMED, "it was changed meanwhile");
    }
    return rc ? fail_reading(package, rc, why) : STATUS_OK;
}

enum status
zip_reader_manifest(struct zip_reader *package, struct slice *piece,
                    struct problem *why)
{
    locale_t before = uselocale(package->locale);
    struct archive_entry *entry;
    enum status rc = go_to_member(package, &package->reading, package->manifest,
                                  &entry, why);

    *piece = (struct slice){package->piece, 0};
    if (!rc) {
        rc = zip_read(&package->reading, package->piece, PIECE_SIZE,
                      &piece->size, why);
        if (rc == STATUS_MALFORMED)
            problem_prefix(why, rc, MANIFEST " cannot be unpacked: ");
    }
    if (rc || piece->size == 0)
        zip_close(&package->reading);
    uselocale(before);
    return rc;
}

enum status
zip_reader_expect(struct zip_reader *package, struct slice path,
                  uint64_t length, struct slice hash, struct problem *why)
{
    struct member *m = find_member(package, path);
    enum status rc = STATUS_OK;

    if (!m || m->state != MEMBER_UNKNOWN)
        return STATUS_OK;
    if (hash.size > 0)
        rc = keep_text(package, &hash, why);
    if (rc)
        return rc;
    m->hash = hash;
    m->length = length;
    m->state = MEMBER_EXPECTED;
    return STATUS_OK;
}

/* Unpacking */

static enum status
fail_write(struct zip_reader *package, const struct member *m,
           struct problem *why)
{
    char name[ZIP_READER_NAME_SIZE];

    file_name(name, package, m);
    return problem_errno(why, "cannot write", name);
}

/* Finishes the member being unpacked: it is bad because of `text`, or right. */
static enum status
close_partial(struct zip_reader *package, const char *text, struct problem *why)
{
    struct member *m = package->partial;
    enum status rc = STATUS_OK;
    char name[ZIP_READER_NAME_SIZE];

    /* A network file system may report only now that it is full. */
    if (close(package->out_fd) && !text)
        rc = fail_write(package, m, why);
    package->out_fd = -1;
    digest_check_free(package->digests);
    package->digests = NULL;
    package->partial = NULL;
    package->next++;
    if (!rc && !text) {
        m->state = MEMBER_ASIDE;
        return STATUS_OK;
    }
    file_name(name, package, m);
    unlinkat(package->dir_fd, name, 0);
    m->state = MEMBER_BAD;
    if (text) {
        struct slice kept = {text, strlen(text) + 1};

        m->why = keep_text(package, &kept, NULL) ? "differs from the manifest"
                                                 : kept.data;
    }
    return rc;
}

/* Moves to the data of the member `next`, past headers of no member, and opens
 * a file for it. */
static enum status
go_to_next(struct zip_reader *package, struct problem *why)
{
    struct member *m = &package->members[package->next];
    struct archive_entry *entry = NULL;
    char name[ZIP_READER_NAME_SIZE];
    enum status rc =
        go_to_member(package, &package->taking, m->ordinal, &entry, why);

    if (rc)
        return rc;
    if (m->state != MEMBER_EXPECTED) {
        package->next++;
        return STATUS_OK;
    }
    package->digests = digest_check_new(m->hash, m->length, false);
    if (!package->digests)
        return problem_memory(why);
    file_name(name, package, m);
    /* Not over an existing file: it may be a link. */
    unlinkat(package->dir_fd, name, 0);
    package->out_fd =
        openat(package->dir_fd, name,
               O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (package->out_fd < 0)
        return fail_write(package, m, why);
    package->partial = m;
    package->room = m->length; /* the digests check it */
    if (m->length == LENGTH_NONE) {
        /* The size that the archive declares */
        uint64_t size =
            archive_entry_size_is_set(entry) && archive_entry_size(entry) >= 0
                ? (uint64_t)archive_entry_size(entry)
                : UINT64_MAX;

        package->room =
            size < ZIP_READER_MEMBER_MAX ? size : ZIP_READER_MEMBER_MAX;
    }
    return STATUS_OK;
}

/* Unpacks a chunk of the member. */
static enum status
unpack_some(struct zip_reader *package, char *chunk, size_t *n_bytes,
            struct problem *why)
{
    struct problem bad = {.text = ""};
    struct slice bytes = {chunk, 0};
    enum status rc =
        zip_read(&package->taking, chunk, CHUNK_SIZE, &bytes.size, &bad);

    *n_bytes = bytes.size;
    if (rc == STATUS_MALFORMED)
        problem_prefix(&bad, rc, "cannot be unpacked: ");
    else if (!rc && bytes.size)
        rc = digest_check_add(package->digests, bytes, &bad);
    else if (!rc)
        rc = digest_check_end(package->digests, &bad);
    if (!rc && bytes.size > package->room)
        rc = problem(&bad, STATUS_TOO_LARGE,
                     "is longer than the package says, or than %llu bytes",
                     (unsigned long long)ZIP_READER_MEMBER_MAX);
    if (rc == STATUS_MEMORY)
        return problem_memory(why);
    if (rc)
        return close_partial(package, bad.text, why);
    if (bytes.size == 0)
        return close_partial(package, NULL, why);
    package->room -= bytes.size;
    return file_write(package->out_fd, bytes)
               ? fail_write(package, package->partial, why)
               : STATUS_OK;
}

static enum status
fail_member(const struct member *m, const char *why_bad, struct problem *why)
{
    return problem(why, STATUS_MALFORMED, "\"/%s\" in the package %s",
                   problem_quote(m->path).text, why_bad);
}

enum status
zip_reader_find(struct zip_reader *package, struct slice path,
                struct problem *why)
{
    struct member *m = find_member(package, path);

    package->wanted = NULL;
    if (!m || m->state == MEMBER_UNKNOWN)
        return problem(why, STATUS_MALFORMED,
                       "the package has no member \"%s\"",
                       problem_quote(path).text);
    if (m->state == MEMBER_TAKEN)
        return fail_member(m, "is named twice by the manifest", why);
    if (m->state == MEMBER_BAD)
        return fail_member(m, m->why, why);
    package->wanted = m;
    return STATUS_OK;
}

enum status
zip_reader_take(struct zip_reader *package, bool *is_over,
                char name[ZIP_READER_NAME_SIZE], struct problem *why)
{
    locale_t before = uselocale(package->locale);
    struct member *m = package->wanted;
    enum status rc = STATUS_OK;
    char chunk[CHUNK_SIZE];
    size_t sum = 0, n = 0;

    *is_over = false;
    while (!rc && m->state == MEMBER_EXPECTED && sum < ZIP_READER_STEP_BYTES) {
        if (package->partial)
            rc = unpack_some(package, chunk, &n, why);
        else
            rc = go_to_next(package, why);
        sum += n + 64; /* headers take time as well */
    }
    uselocale(before);
    if (rc || m->state == MEMBER_EXPECTED)
        return rc;
    *is_over = true;
    package->wanted = NULL;
    if (m->state == MEMBER_BAD)
        return fail_member(m, m->why, why);
    m->state = MEMBER_TAKEN;
    file_name(name, package, m);
    return STATUS_OK;
}
