/*
 * The files of Resource Lists and dumps: sizes against the row of their build,
 * documents against the SHA-256 in their own header (builds/zfile.h), and
 * packages against what the document of the dump says about them.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zlib.h>

#include "base/file.h"
#include "base/gunzip.h"
#include "broker/builds/generation.h"
#include "broker/builds/zfile.h"
#include "broker/check/parts.h"
#include "broker/sets/links.h"
#include "broker/store/store_queries.h"

struct build_check {
    struct inspection *in;
    struct generation build;
    char folder[INSPECTION_PATH];
    char path[INSPECTION_PATH]; /* of the file at hand */
    uint64_t bytes;             /* of all files */
    bool is_whole;              /* no file is missing */
    bool may_be_missing;        /* only another broker has built it */
};

/* Opens a file of the build, and counts its size. -1: a finding says why. */
static int
open_part(struct build_check *b, enum generation_file file, uint64_t part)
{
    char name[GENERATION_NAME_SIZE], whole[4096 + INSPECTION_PATH];
    struct stat st;
    int fd;

    generation_name(name, file, part);
    snprintf(b->path, sizeof(b->path), "%.500s/%s", b->folder, name);
    inspection_whole_path(b->in, b->path, whole, sizeof(whole));
    fd = open(whole, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && !fstat(fd, &st)) {
        b->bytes += (uint64_t)st.st_size;
        b->in->counts.files++;
        return fd;
    }
    inspection_find(b->in, FINDING_BUILD, b->path, "%s",
                    errno == ENOENT ? "it is missing" : strerror(errno));
    b->is_whole = false;
    return -1;
}

struct plain {
    struct buf bytes;
    struct digest_check *digests;
};

static enum status
on_plain(struct slice bytes, void *user, struct problem *why)
{
    struct plain *p = user;

    buf_add_slice(&p->bytes, bytes);
    if (p->bytes.failed)
        return problem(why, STATUS_MALFORMED,
                       "it is longer than its header "
                       "says");
    return digest_check_add(p->digests, bytes, why);
}

static enum status
inflate_step(struct slice bytes, void *user, struct problem *why)
{
    return gunzip_all(user, bytes, why);
}

/* Inflates a document, and compares its digest. */
static enum status
inflate_document(struct build_check *b, int fd, const struct zfile *zfile,
                 struct plain *plain, struct problem *why)
{
    struct gunzip *g = gunzip_new(zfile->plain + 1, false, on_plain, plain);
    struct digest digest;
    enum status rc = g ? STATUS_OK : problem_memory(why);

    if (!rc && lseek(fd, 0, SEEK_SET))
        rc = problem(why, STATUS_IO, "%s", strerror(errno));
    if (!rc)
        rc = inspection_read(b->in, fd, inflate_step, g, why);
    if (!rc)
        rc = gunzip_end(g, why);
    if (!rc)
        rc = digest_check_end(plain->digests, why);
    gunzip_free(g);
    if (rc)
        return rc;
    digest_check_sha256(plain->digests, &digest);
    if (memcmp(&digest, &zfile->digest, sizeof(digest)) != 0)
        rc = problem(why, STATUS_MALFORMED,
                     "its digest is wrong: the bytes are not those that were "
                     "written");
    return rc;
}

/* Checks a document; with --deep, or if `text` is not NULL, all of it, which
 * `text` gets. */
static void
check_document(struct build_check *b, enum generation_file file, uint64_t part,
               struct buf *text)
{
    struct plain plain = {.digests = NULL};
    struct problem why = {""};
    struct zfile zfile;
    int fd = open_part(b, file, part);
    enum status rc;

    if (fd < 0)
        return;
    buf_init(&plain.bytes, ZFILE_PLAIN_MAX);
    rc = zfile_look(fd, &zfile, &why);
    if (!rc && (text || b->in->is_deep)) {
        plain.digests = digest_check_new((struct slice){"", 0}, zfile.plain);
        rc = plain.digests && !digest_check_want_sha256(plain.digests)
                 ? inflate_document(b, fd, &zfile, &plain, &why)
                 : problem_memory(&why);
    }
    if (rc)
        inspection_find(b->in, FINDING_BUILD, b->path, "%s", why.text);
    else if (text)
        buf_add_slice(text, buf_slice(&plain.bytes));
    digest_check_free(plain.digests);
    buf_fini(&plain.bytes);
    close(fd);
}

/* The value of an attribute of a line; empty: it has none. */
static struct slice
value_of(struct slice line, const char *name)
{
    const char *at = memmem(line.data, line.size, name, strlen(name));
    struct slice rest;

    if (!at)
        return (struct slice){NULL, 0};
    rest = (struct slice){at + strlen(name),
                          line.size - (size_t)(at - line.data) - strlen(name)};
    return slice_take_until(&rest, "\"");
}

static enum status
digest_step(struct slice bytes, void *user, struct problem *why)
{
    return digest_check_add(user, bytes, why);
}

/* Compares a package with its line in the document of the dump. */
static void
check_package(struct build_check *b, uint64_t part, struct slice line)
{
    struct slice length = value_of(line, " length=\"");
    uint64_t size = strtoull(length.data ? length.data : "0", NULL, 10);
    struct digest_check *digests = NULL;
    struct problem why = {""};
    struct stat st;
    int fd = open_part(b, GENERATION_PACKAGE, part);
    enum status rc = STATUS_OK;

    if (fd < 0)
        return;
    if (!fstat(fd, &st) && (uint64_t)st.st_size != size)
        rc =
            problem(&why, STATUS_INVALID,
                    "it has %" PRIu64 " bytes, and the dump announces %" PRIu64,
                    (uint64_t)st.st_size, size);
    if (!rc && b->in->is_deep) {
        digests = digest_check_new(value_of(line, " hash=\""), size);
        rc = digests ? inspection_read(b->in, fd, digest_step, digests, &why)
                     : problem_memory(&why);
        if (!rc)
            rc = digest_check_end(digests, &why);
    }
    if (rc)
        inspection_find(b->in, FINDING_BUILD, b->path, "%s", why.text);
    digest_check_free(digests);
    close(fd);
}

static void
check_dump(struct build_check *b)
{
    struct buf text;
    struct slice rest;
    uint64_t part = 0;

    buf_init(&text, ZFILE_PLAIN_MAX);
    check_document(b, GENERATION_DOCUMENT, 1, &text);
    rest = buf_slice(&text);
    while (rest.size > 0) {
        struct slice line = slice_take(&rest, '\n');

        if (slice_starts(line, "<url>")) {
            part++;
            check_document(b, GENERATION_MANIFEST, part, NULL);
            check_package(b, part, line);
        }
    }
    if (text.size > 0 && part != b->build.parts)
        inspection_find(b->in, FINDING_BUILD, b->folder,
                        "its document names %" PRIu64
                        " packages, and it has %" PRIu64,
                        part, b->build.parts);
    b->is_whole &= text.size > 0;
    buf_fini(&text);
}

static void
check_list(struct build_check *b)
{
    for (uint64_t part = 1; part <= b->build.parts; part++)
        check_document(b, GENERATION_DOCUMENT, part, NULL);
    if (b->build.parts > 1)
        check_document(b, GENERATION_DOCUMENT, GENERATION_INDEX, NULL);
}

static void
check_build(struct build_check *b, const char *set)
{
    char name[64], whole[4096 + INSPECTION_PATH];
    struct stat st;

    snprintf(name, sizeof(name), "%s/%012" PRIu64,
             links_kinds[b->build.kind].folder, b->build.number);
    inspection_path(b->folder, set, name);
    inspection_whole_path(b->in, b->folder, whole, sizeof(whole));
    b->in->counts.builds++;
    if (stat(whole, &st)) {
        if (b->may_be_missing)
            return;
        inspection_find(b->in, FINDING_BUILD, b->folder, "it is missing");
        return;
    }
    b->is_whole = true;
    if (b->build.kind == GENERATION_RESOURCELIST)
        check_list(b);
    else
        check_dump(b);
    if (b->is_whole && b->bytes != b->build.bytes)
        inspection_find(b->in, FINDING_BUILD, b->folder,
                        "its files have %" PRIu64 " bytes, and %" PRIu64
                        " are stored",
                        b->bytes, b->build.bytes);
}

/* The set whose builds are looked at. */
struct builds_check {
    struct inspection *in;
    const char *set;
    bool is_shared; /* of a broker of a cluster */
};

static void
on_row(sqlite3_stmt *row, void *user)
{
    bool *has_row = user;

    (void)row;
    *has_row = true;
}

static void
on_build(sqlite3_stmt *row, void *user)
{
    const struct builds_check *c = user;
    struct build_check b = {.in = c->in, .build = store_column_generation(row)};

    b.may_be_missing = c->is_shared && b.build.kind == GENERATION_RESOURCELIST;
    if (!generation_is_order(&b.build))
        check_build(&b, c->set);
}

/* A build that is due is being deleted. */
void
check_builds(struct inspection *in, const struct inspected_set *set)
{
    struct builds_check c = {in, set->name, false};
    bool has_places = false;
    struct db db;

    if (inspection_open(in, &databases[DATABASE_TIDINGS], "tidings.db", &db))
        return;
    /* Older versions have no table of places. */
    inspection_rows(in, "tidings.db", &db,
                    "SELECT 1 FROM sqlite_master WHERE name = 'place' AND ?1",
                    set->id, on_row, &has_places);
    if (has_places)
        inspection_rows(in, "tidings.db", &db, "SELECT 1 FROM place WHERE ?1",
                        set->id, on_row, &c.is_shared);
    inspection_rows(in, "tidings.db", &db,
                    "SELECT " GENERATION_COLUMNS " FROM generations WHERE"
                    " set_id = ? AND due_us IS NULL AND kind BETWEEN 0 AND 2"
                    " ORDER BY kind, number",
                    set->id, on_build, &c);
    db_close(&db);
}
