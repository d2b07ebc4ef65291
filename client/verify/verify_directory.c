/*
 * verify_directory.c - finds the lists in a directory, and puts them in order.
 *
 * The root of a file shows if it is a list, not its name: copies may have any
 * name. Only an unreadable file with a name of the broker's lists,
 * 000000000001.xml or .xml.gz, counts as damaged. Each file is opened twice:
 * for its root, which gives the order, and in full.
 *
 *     after   last
 *         0    100  000000000001.xml.gz
 *       100    200  000000000002.xml.gz
 *       200    230  latest.xml            an older copy of the open list
 *       200    300  000000000003.xml
 *
 * The older copy must agree with the newer one.
 */
#include <fts.h>

#include <zlib.h>

#include "base/array.h"
#include "client/verify/verify.h"
#include "proto/number.h"

#define PIECE 65536

struct file {
    char *path;
    struct coverage covers; /* epoch, after, last */
    uint64_t number;        /* in its name; 0: none */
    bool is_closed;
    char *damage; /* why its root cannot be read; NULL: it can */
};

struct files {
    struct file *each;
    size_t n;
    size_t capacity;
};

/* Reading a file, gzip or not */

/* Reports that this machine cannot read the file: STATUS_IO. */
static enum status
cannot_read(struct verify *v, const char *path)
{
    return problem_errno(&v->client->problem, "cannot read", path);
}

/* Reads the next piece; size 0: the end. STATUS_IO: errno says why;
 * STATUS_MALFORMED: not gzip, or it ends too soon. */
static enum status
next_piece(gzFile gz, char *piece, struct slice *bytes, struct problem *why)
{
    int n, code = Z_OK;
    const char *text;

    errno = 0;
    n = gzread(gz, piece, PIECE);
    text = gzerror(gz, &code);
    *bytes = (struct slice){piece, n > 0 ? (size_t)n : 0};
    if (n >= 0 && code == Z_OK)
        return STATUS_OK;
    if (code == Z_MEM_ERROR)
        return problem_memory(why);
    if (code == Z_ERRNO)
        return STATUS_IO;
    return problem(why, STATUS_MALFORMED, "its gzip is damaged: %s",
                   code == Z_BUF_ERROR ? "it ends too soon" : text);
}

/* Feeds the file to the list, to its end or until its root is known. `content`:
 * the digest of the bytes that were read; NULL: not wanted. */
static enum status
feed_file(const char *path, struct list_proof *proof, bool is_head_enough,
          struct digest *content, struct problem *why)
{
    gzFile gz = gzopen(path, "rbe");
    char *piece = malloc(PIECE);
    enum status rc = !gz ? STATUS_IO : piece ? STATUS_OK : STATUS_MEMORY;
    struct slice bytes = {"", 1};

    while (!rc && bytes.size > 0) {
        rc = next_piece(gz, piece, &bytes, why);
        if (rc || bytes.size == 0)
            break;
        if (content)
            digest_add(content, bytes);
        rc = list_proof_feed(proof, bytes, why);
        if (is_head_enough && list_proof_head(proof))
            break;
    }
    free(piece);
    if (gz) {
        int saved = errno;

        gzclose_r(gz);
        errno = saved;
    }
    return rc;
}

/* Looking for lists */

/* Reads the root of a file, and keeps it if it is a list. */
static enum status
look_at(struct verify *v, struct files *files, const char *path)
{
    static const struct list_chain nothing = {.epoch = ""};
    struct problem why = {.text = ""};
    struct slice name = list_name(path);
    struct file file = {.number = 0};
    struct list_proof *proof = list_proof_new(&nothing, path, NULL, NULL);
    const struct list_head *head;
    enum status rc = STATUS_MEMORY;

    /* "/.../000000000012.xml.gz": 12; 0: another name. */
    if (list_name_is_numbered(name))
        (void)number_read(slice_take(&name, '.'), &file.number);
    if (proof)
        rc = feed_file(path, proof, true, NULL, &why);
    if (rc == STATUS_IO || rc == STATUS_MEMORY) {
        list_proof_free(proof);
        return rc == STATUS_IO ? cannot_read(v, path)
                               : problem_memory(&v->client->problem);
    }
    head = list_proof_head(proof);
    if (head) {
        file.covers = head->covers;
        file.is_closed = head->covers.until_us != DATETIME_NONE;
    } else if (file.number > 0 && !list_proof_is_another(proof)) {
        file.damage = strdup(why.text[0] ? why.text : "it ends too soon");
    } else {
        list_proof_free(proof);
        return STATUS_OK;
    }
    list_proof_free(proof);
    file.path = strdup(path);
    if (file.path && (file.damage || file.covers.epoch[0]) &&
        ONE_MORE(files->each, &files->capacity, files->n)) {
        files->each[files->n++] = file;
        return STATUS_OK;
    }
    free(file.path);
    free(file.damage);
    return problem_memory(&v->client->problem);
}

static bool
may_be_list(const char *name)
{
    return slice_ends(slice_of(name), ".xml") ||
           slice_ends(slice_of(name), ".xml.gz");
}

/* Symbolic links below `dir` are not followed: they might lead anywhere. */
static enum status
look_for(struct verify *v, struct files *files, const char *dir)
{
    char *path = strdup(dir);
    char *const roots[] = {path, NULL};
    FTS *tree =
        path ? fts_open(roots, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, NULL)
             : NULL;
    enum status rc = STATUS_OK;
    FTSENT *at;

    if (!tree) {
        rc = cannot_read(v, dir);
        free(path);
        return rc;
    }
    while (!rc && (errno = 0, at = fts_read(tree))) {
        if (at->fts_info == FTS_F && may_be_list(at->fts_name)) {
            rc = look_at(v, files, at->fts_path);
        } else if (at->fts_info == FTS_DNR || at->fts_info == FTS_ERR ||
                   /* A running broker writes a file under another name first,
                    * and renames it: such a name may be gone, a list may
                    * not. */
                   (at->fts_info == FTS_NS &&
                    (at->fts_errno != ENOENT || may_be_list(at->fts_name)))) {
            errno = at->fts_errno;
            rc = cannot_read(v, at->fts_path);
        } else if (at->fts_info == FTS_D) {
            rc = client_end_turn(v->client,
                                 handle_loop_service(v->client->loop));
        }
    }
    if (!rc && errno)
        rc = cannot_read(v, dir);
    fts_close(tree);
    free(path);
    return rc;
}

/* Their order */

/* Puts a damaged file before the next one by number. */
static void
place_damaged(struct files *files)
{
    for (size_t i = 0; i < files->n; i++) {
        struct file *damaged = &files->each[i];
        uint64_t number = UINT64_MAX;

        if (!damaged->damage)
            continue;
        damaged->covers.after = UINT64_MAX;
        for (size_t j = 0; j < files->n; j++) {
            const struct file *other = &files->each[j];

            if (!other->damage && other->number > damaged->number &&
                other->number < number) {
                number = other->number;
                damaged->covers.after = other->covers.after;
            }
        }
    }
}

static int
compare_numbers(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int
compare_lists(const void *one, const void *other)
{
    const struct file *a = one, *b = other;
    int order = compare_numbers(a->covers.after, b->covers.after);

    if (!order)
        order = (a->damage == NULL) - (b->damage == NULL);
    if (!order)
        order = compare_numbers(a->covers.last, b->covers.last);
    if (!order)
        order = a->is_closed - b->is_closed;
    return order ? order : strcmp(a->path, b->path);
}

static size_t
folder_size(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? (size_t)(slash - path) : 0;
}

/* Proving */

/* Checks a file after `chain`, and moves that on. */
static enum status
check_file(struct verify *v, const char *path, struct list_chain *chain,
           const struct list_chain *expected, const char *expected_by,
           struct digest *content)
{
    struct list_proof *proof = list_proof_new(chain, path, v->events, v);
    struct problem why = {.text = ""};
    enum status rc = STATUS_MEMORY;
    uint64_t at;

    if (proof && expected && expected->last > chain->last)
        list_proof_expect(proof, expected->last, &expected->digest,
                          expected_by);
    if (proof)
        rc = feed_file(path, proof, false, content, &why);
    if (!rc)
        rc = list_proof_end(proof, chain, &why);
    at = proof ? list_proof_reached(proof) : 0;
    list_proof_free(proof);
    if (rc == STATUS_IO)
        return cannot_read(v, path);
    if (rc == STATUS_MEMORY)
        return problem_memory(&v->client->problem);
    return rc ? verify_breaks(v, path, at, &why) : STATUS_OK;
}

/* Checks that another copy of the list, perhaps an earlier one, agrees. */
static enum status
check_copy(struct verify *v, const struct file *copy, const struct file *list)
{
    struct list_chain expected = v->chain, chain = v->chain;
    struct digest first = {{0}}, second = {{0}};
    struct problem why = {.text = ""};
    enum status rc = check_file(v, copy->path, &expected, NULL, NULL, &first);

    if (!rc)
        rc = check_file(v, list->path, &chain, &expected, copy->path, &second);
    if (rc || !copy->is_closed)
        return rc;
    if (copy->covers.last == list->covers.last &&
        digest_is_equal(&first, &second))
        return STATUS_OK;
    problem_set(&why, "a closed list is there twice, with other bytes: %.400s",
                copy->path);
    return verify_breaks(v, list->path, v->chain.last, &why);
}

/* Checks all copies of each list; the longest one comes last. */
static enum status
check_all(struct verify *v, const struct files *files)
{
    enum status rc = STATUS_OK;

    for (size_t i = 0; i < files->n && !rc; i++) {
        const struct file *f = &files->each[i];
        struct problem why = {.text = ""};
        size_t last = i;

        /* td_stop may have been called. */
        rc = client_end_turn(v->client, handle_loop_service(v->client->loop));
        if (rc)
            break;
        if (f->damage) {
            problem_set(&why, "%s", f->damage);
            rc = verify_breaks(v, f->path, v->chain.last, &why);
            break;
        }
        while (last + 1 < files->n && !files->each[last + 1].damage &&
               files->each[last + 1].covers.after == f->covers.after)
            last++;
        for (f = &files->each[last]; i < last && !rc; i++)
            rc = check_copy(v, &files->each[i], f);
        if (!rc)
            rc = check_file(v, f->path, &v->chain, NULL, NULL, NULL);
        if (!rc)
            verify_holds(v, f->path);
    }
    return rc;
}

enum status
verify_files(struct verify *v, const char *dir)
{
    struct files files = {.n = 0};
    struct buf checkpoint = {.max = NOTE_BYTES_MAX};
    const struct file *first = NULL;
    enum status rc = look_for(v, &files, dir);

    if (!rc && files.n == 0)
        rc = client_fail(v->client, STATUS_IO,
                         "there are no Change Lists of Tidings in %.800s; only "
                         "the broker has the open list",
                         dir);
    place_damaged(&files);
    if (files.n > 0)
        qsort(files.each, files.n, sizeof(files.each[0]), compare_lists);
    /* A single folder with lists of several sets is damaged: the chain breaks
     * in it. */
    for (size_t i = 0; i < files.n && !rc; i++) {
        const struct file *f = &files.each[i];
        size_t size = folder_size(f->path);

        if (f->damage)
            continue;
        if (!first)
            first = f;
        if (strcmp(first->covers.epoch, f->covers.epoch) &&
            (size != folder_size(first->path) ||
             memcmp(f->path, first->path, size)))
            rc = client_fail(v->client, STATUS_INVALID,
                             "there are lists of several sets: %.400s and "
                             "%.400s; one at a time",
                             first->path, f->path);
    }
    if (!rc)
        rc = check_all(v, &files);
    if (!rc && v->events)
        rc = verify_read_checkpoint(v, dir, &checkpoint);
    if (!rc && v->events)
        rc = verify_signed(v, buf_slice(&checkpoint));
    buf_fini(&checkpoint);
    for (size_t i = 0; i < files.n; i++) {
        free(files.each[i].path);
        free(files.each[i].damage);
    }
    free(files.each);
    return rc;
}
