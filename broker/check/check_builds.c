/*
 * The files of Resource Lists and dumps: sizes against the row of their build,
 * documents against the SHA-256 in their own header (builds/zfile.h), and
 * packages against what the document of the dump says about them.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <archive.h>
#include <archive_entry.h>

#include "broker/builds/generation.h"
#include "broker/builds/zfile.h"
#include "broker/builds/zip_writer.h"
#include "broker/check/inspection.h"
#include "broker/check/packed_file.h"
#include "broker/sets/links.h"
#include "broker/store/store_files.h"
#include "broker/store/store_queries.h"
#include "proto/number.h"
#include "proto/resourcesync/document_write.h"

struct build_check {
    struct inspection *in;
    struct generation build;
    char folder[INSPECTION_PATH];
    char path[INSPECTION_PATH]; /* of the file at hand */
    uint64_t bytes;             /* of all files */
    uint64_t entries;           /* of the documents that have resources */
    uint64_t reached;           /* the last entry of the last document */
    bool is_whole;              /* no file is missing */
    bool has_damage;            /* a document cannot be read */
    bool may_be_missing;        /* only another broker has built it */
};

/* Opens a file of the build, and counts its size. -1: a finding says why. */
static int
open_part(struct build_check *b, enum generation_file file, uint64_t part)
{
    char name[GENERATION_NAME_SIZE];
    struct problem why = {"it is missing"};
    struct stat st;
    enum status rc;
    int fd;

    generation_name(name, file, part);
    snprintf(b->path, sizeof(b->path), "%.500s/%s", b->folder, name);
    fd = openat(b->in->dir, b->path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && !fstat(fd, &st)) {
        b->bytes += (uint64_t)st.st_size;
        b->in->counts.files++;
        return fd;
    }
    b->is_whole = false;
    rc = errno == ENOENT ? inspection_find_in_bucket(b->in, b->path, &why)
                         : problem(&why, STATUS_IO, "%s", strerror(errno));
    if (rc)
        inspection_find(b->in, FINDING_BUILD, b->path, "%s", why.text);
    return -1;
}

struct document {
    struct zfile_header header;
    struct buf *text;
};

static bool
find_place(size_t n, uint64_t *at, uint64_t *plain, void *user)
{
    return zfile_block(&((struct document *)user)->header, n, at, plain);
}

static enum status
on_plain(struct slice bytes, void *user, struct problem *why)
{
    struct buf *text = ((struct document *)user)->text;

    buf_add_slice(text, bytes);
    return text->failed ? problem_memory(why) : STATUS_OK;
}

/* Reads all of a document. */
static enum status
read_document(struct build_check *b, int fd, struct buf *text,
              struct problem *why)
{
    struct document d = {.text = text};
    struct zfile zfile;
    const struct packed_file file = {
        .head = {(const char *)d.header.bytes, sizeof(d.header.bytes)},
        .max_plain = ZFILE_PLAIN_MAX,
        .place = find_place,
        .on_plain = on_plain,
        .user = &d,
    };
    struct digest digest;
    bool are_places_right;
    enum status rc = zfile_look(fd, &zfile, &d.header, why);

    if (!rc && lseek(fd, 0, SEEK_SET))
        rc = problem(why, STATUS_IO, "%s", strerror(errno));
    if (!rc)
        rc = packed_file_read(b->in, fd, &file, &are_places_right, why);
    if (rc)
        return rc;
    digest_sha256(&digest, buf_slice(text));
    if (text->size != zfile.plain || !digest_is_equal(&digest, &zfile.digest))
        return problem(why, STATUS_MALFORMED,
                       "its digest is wrong: the bytes are not those that were "
                       "written");
    return are_places_right
               ? STATUS_OK
               : problem(why, STATUS_MALFORMED,
                         "its header names other places than those at which "
                         "its blocks begin");
}

/* Compares the positions of a document with the row of its build: the manifests
 * of a Change Dump follow one another. Counts its entries. */
static enum status
compare_row(struct build_check *b, enum generation_file file, uint64_t part,
            struct slice text, struct problem *why)
{
    bool is_list = b->build.kind == GENERATION_RESOURCELIST;
    bool is_piece =
        file == GENERATION_MANIFEST && b->build.kind == GENERATION_CHANGEDUMP;
    uint64_t behind = is_piece ? b->reached : b->build.after;
    uint64_t after = 0, last = 0;

    if (!number_read(document_value(text, " td:after=\""), &after) ||
        !number_read(document_value(text, " td:last=\""), &last) ||
        after != behind || last > b->build.seq ||
        (!is_piece && last != b->build.seq))
        return problem(why, STATUS_MALFORMED,
                       "it is not of the entries %" PRIu64 " to %" PRIu64
                       " that the row in tidings.db names",
                       behind + 1, b->build.seq);
    b->reached = last;
    if (is_list ? part == GENERATION_INDEX : file != GENERATION_MANIFEST)
        return STATUS_OK;
    while (text.size > 0)
        b->entries += slice_starts(slice_take(&text, '\n'), "<url>");
    return STATUS_OK;
}

/* Checks a document; with --deep, or if `text` is not NULL, all of it, which
 * `text` gets. */
static void
check_document(struct build_check *b, enum generation_file file, uint64_t part,
               struct buf *text)
{
    struct problem why = {""};
    struct zfile zfile;
    struct buf plain = {.max = ZFILE_PLAIN_MAX};
    int fd = open_part(b, file, part);
    enum status rc;

    if (fd < 0)
        return;
    if (text || b->in->is_deep)
        rc = read_document(b, fd, &plain, &why);
    else
        rc = zfile_look(fd, &zfile, NULL, &why);
    if (!rc && b->in->is_deep)
        rc = compare_row(b, file, part, buf_slice(&plain), &why);
    if (rc)
        inspection_find(b->in, FINDING_BUILD, b->path, "%s", why.text);
    else if (text)
        buf_add_slice(text, buf_slice(&plain));
    b->has_damage |= rc != STATUS_OK;
    buf_fini(&plain);
    close(fd);
}

/* Compares the next member of a package. */
static enum status
compare_member(struct archive *zip, struct slice name, struct slice hash,
               uint64_t length, struct problem *why)
{
    struct digest_check *digests = digest_check_new(hash, length, false);
    enum status rc = digests ? STATUS_OK : problem_memory(why);
    struct archive_entry *member;
    struct slice bytes;
    la_int64_t at;
    int code = ARCHIVE_OK;

    if (!rc && (archive_read_next_header(zip, &member) != ARCHIVE_OK ||
                !slice_is(name, archive_entry_pathname(member))))
        rc = problem(why, STATUS_MALFORMED,
                     "it lacks the member %.*s, which its manifest names",
                     SLICE_ARG(name));
    while (!rc && code == ARCHIVE_OK) {
        code = archive_read_data_block(zip, (const void **)&bytes.data,
                                       &bytes.size, &at);
        if (code == ARCHIVE_OK)
            rc = digest_check_add(digests, bytes, why);
        else if (code != ARCHIVE_EOF)
            rc = problem(why, STATUS_MALFORMED, "it is no ZIP file: %s",
                         archive_error_string(zip));
    }
    if (!rc)
        rc = digest_check_end(digests, why);
    digest_check_free(digests);
    return rc;
}

/* Compares the members of a package with its manifest, which is the first. */
static enum status
compare_members(int fd, struct slice manifest, struct problem *why)
{
    struct archive *zip = archive_read_new();
    struct digest digest;
    enum status rc = STATUS_OK;

    digest_sha256(&digest, manifest);
    if (!zip || archive_read_support_format_zip(zip) ||
        lseek(fd, 0, SEEK_SET) ||
        archive_read_open_fd(zip, fd, INSPECTION_STEP))
        rc = problem(why, STATUS_IO, "it cannot be read");
    if (!rc)
        rc = compare_member(zip, SLICE(ZIP_WRITER_MANIFEST),
                            slice_of(digest_text(&digest).text), manifest.size,
                            why);
    while (!rc && manifest.size > 0) {
        struct slice line = slice_take(&manifest, '\n');
        struct slice path = document_value(line, " path=\"/");

        if (path.size > 0)
            rc = compare_member(zip, path, document_value(line, " hash=\""),
                                LENGTH_NONE, why);
    }
    archive_read_free(zip);
    return rc;
}

/* Compares a package with its line in the document of the dump, and its members
 * with its manifest. */
static void
check_package(struct build_check *b, uint64_t part, struct slice line,
              struct slice manifest)
{
    uint64_t size = 0;
    struct problem why = {""};
    struct stat st;
    int fd = open_part(b, GENERATION_PACKAGE, part);
    enum status rc = STATUS_OK;

    if (fd < 0)
        return;
    (void)!number_read(document_value(line, " length=\""), &size);
    if (line.size > 0 && !fstat(fd, &st) && (uint64_t)st.st_size != size)
        rc =
            problem(&why, STATUS_INVALID,
                    "it has %" PRIu64 " bytes, and the dump announces %" PRIu64,
                    (uint64_t)st.st_size, size);
    if (!rc && line.size > 0 && b->in->is_deep)
        rc = inspection_compare(b->in, fd, document_value(line, " hash=\""),
                                size, &why);
    if (!rc && manifest.size > 0)
        rc = compare_members(fd, manifest, &why);
    if (rc)
        inspection_find(b->in, FINDING_BUILD, b->path, "%s", why.text);
    close(fd);
}

static void
check_dump(struct build_check *b)
{
    struct buf text = {.max = ZFILE_PLAIN_MAX},
               manifest = {.max = ZFILE_PLAIN_MAX};
    struct slice rest;
    uint64_t part = 0, last;

    check_document(b, GENERATION_DOCUMENT, 1, &text);
    last = b->reached;
    b->reached = b->build.after;
    rest = buf_slice(&text);
    while (rest.size > 0) {
        struct slice line = slice_take(&rest, '\n');

        if (slice_starts(line, "<url>")) {
            part++;
            buf_clear(&manifest);
            check_document(b, GENERATION_MANIFEST, part,
                           b->in->is_deep ? &manifest : NULL);
            check_package(b, part, line, buf_slice(&manifest));
        }
    }
    /* The document is in a bucket alone, or cannot be read. */
    while (text.size == 0 && part < b->build.parts &&
           part < DOCUMENT_ENTRIES_MAX) {
        check_document(b, GENERATION_MANIFEST, ++part, NULL);
        check_package(b, part, rest, rest);
    }
    if (part == 0) /* no resource is left */
        b->reached = last;
    if (text.size > 0 && part != b->build.parts)
        inspection_find(b->in, FINDING_BUILD, b->folder,
                        "its document names %" PRIu64
                        " packages, and it has %" PRIu64,
                        part, b->build.parts);
    b->is_whole &= text.size > 0;
    buf_fini(&manifest);
    buf_fini(&text);
}

static void
check_build(struct build_check *b, const char *set)
{
    char name[64];
    struct stat st;

    snprintf(name, sizeof(name), "%s/%012" PRIu64,
             links_kinds[b->build.kind].folder, b->build.number);
    inspection_path(b->folder, set, name);
    b->in->counts.builds++;
    if (fstatat(b->in->dir, b->folder, &st, 0)) {
        if (!b->may_be_missing)
            inspection_find(b->in, FINDING_BUILD, b->folder, "it is missing");
        return;
    }
    b->is_whole = true;
    if (b->build.kind != GENERATION_RESOURCELIST) {
        check_dump(b);
    } else {
        for (uint64_t part = 1; part <= b->build.parts; part++)
            check_document(b, GENERATION_DOCUMENT, part, NULL);
        if (b->build.parts > 1)
            check_document(b, GENERATION_DOCUMENT, GENERATION_INDEX, NULL);
    }
    if (b->is_whole && b->in->is_deep && !b->has_damage &&
        (b->entries != b->build.n || b->reached != b->build.seq))
        inspection_find(b->in, FINDING_BUILD, b->folder,
                        "its documents have %" PRIu64
                        " entries and end with entry %" PRIu64
                        ", and its row has %" PRIu64 " and %" PRIu64,
                        b->entries, b->reached, b->build.n, b->build.seq);
    if (b->is_whole && b->bytes != b->build.bytes)
        inspection_find(b->in, FINDING_BUILD, b->folder,
                        "its files have %" PRIu64 " bytes, and %" PRIu64
                        " are stored",
                        b->bytes, b->build.bytes);
}

/* A build that is due is being deleted. */
void
check_builds(struct inspection *in, const struct inspected_set *set)
{
    struct generation build;
    bool may_lack_lists;
    struct db_rows rows;
    struct db db;

    if (inspection_open(in, DATABASE_TIDINGS, NULL, &db))
        return;
    if (store_files_are_shared(&db, &may_lack_lists, &in->why))
        inspection_find(in, FINDING_DATABASE, "tidings.db", "%s", in->why.text);
    rows = DB_SELECT(&db, "read it", &in->why,
                     "SELECT " GENERATION_COLUMNS " FROM generations WHERE"
                     " set_id = ? AND due_us IS NULL AND kind BETWEEN 0 AND 2"
                     " ORDER BY kind, number",
                     set->id);
    while (DB_NEXT(&rows, GENERATION_PLACES(&build))) {
        struct build_check b = {
            .in = in,
            .build = build,
            .may_be_missing =
                may_lack_lists && build.kind == GENERATION_RESOURCELIST,
        };

        if (!generation_is_order(&build))
            check_build(&b, set->name);
    }
    inspection_end_rows(in, "tidings.db", &rows);
    db_close(&db);
}
