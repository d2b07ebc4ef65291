#include "broker/backup/manifest.h"

#include <fcntl.h>

#include "proto/number.h"

#define HEAD "# tidings backup 1\n"
#define END  "# end "

#define HEX_SIZE (2 * (size_t)DIGEST_SIZE)

/* A line of a file: HEX, two spaces, its name. */
#define PREFIX_SIZE (HEX_SIZE + 2)

/* The last line. */
#define END_SIZE (sizeof(END) + HEX_SIZE + 1)

static void
write_end(char to[END_SIZE], const struct digest_check *digests)
{
    struct digest digest;

    digest_check_sha256(digests, &digest);
    memcpy(to, END, sizeof(END));
    strcpy(hex_write(to + sizeof(END) - 1, digest.bytes, DIGEST_SIZE), "\n");
}

/* Writing */

/* The longest line: a path, and a reason. */
#define LINE_SIZE 8192

enum status
manifest_add_line(struct manifest_writer *w, struct problem *why,
                  const char *format, ...)
{
    char line[LINE_SIZE];
    va_list values;
    enum status rc;

    va_start(values, format);
    vsnprintf(line, sizeof(line), format, values);
    va_end(values);
    rc = digest_check_add(w->digests, slice_of(line), why);
    return rc ? rc : file_append(&w->file, slice_of(line), why);
}

enum status
manifest_begin(struct manifest_writer *w, int dir_fd, struct problem *why)
{
    enum status rc;

    *w = (struct manifest_writer){
        .file.fd = -1,
        .digests = digest_check_new(SLICE(""), LENGTH_NONE, true)};
    rc = file_begin(&w->file, dir_fd, MANIFEST_NAME, why);
    if (!rc)
        rc = manifest_add_line(w, why, HEAD);
    if (rc)
        manifest_abandon(w);
    return rc;
}

enum status
manifest_add(struct manifest_writer *w, const struct manifest_file *file,
             struct problem *why)
{
    char hex[HEX_SIZE + 1];

    *hex_write(hex, file->digest.bytes, DIGEST_SIZE) = '\0';
    return manifest_add_line(w, why, "%s  " MANIFEST_FILE "\n", hex,
                             file->folder, file->path);
}

enum status
manifest_finish(struct manifest_writer *w, struct problem *why)
{
    char line[END_SIZE];
    enum status rc = digest_check_end(w->digests, why);

    if (!rc) {
        write_end(line, w->digests);
        rc = file_append(&w->file, slice_of(line), why);
    }
    if (!rc)
        rc = file_finish(&w->file, why);
    if (!rc)
        rc = file_sync_dir(w->file.dir_fd, why);
    manifest_abandon(w);
    return rc;
}

void
manifest_abandon(struct manifest_writer *w)
{
    file_abandon(&w->file);
    digest_check_free(w->digests);
    w->digests = NULL;
}

/* Reading */

/* A line at a time, of any length. */
struct lines {
    const char *path; /* for problems */
    FILE *from;
    char *line;
    size_t room;
    size_t size; /* of the line, with its end */
    uint64_t number;
};

static enum status
fail_line(const struct lines *l, struct problem *why, const char *reason)
{
    return problem(why, STATUS_DIFFERENT, "%s is damaged: line %" PRIu64 " %s",
                   l->path, l->number, reason);
}

/* STATUS_NOT_FOUND: there are no more lines. */
static enum status
next_line(struct lines *l, struct problem *why)
{
    ssize_t n = getline(&l->line, &l->room, l->from);

    if (n < 0 && ferror(l->from))
        return problem_errno(why, "cannot read", l->path);
    if (n < 0)
        return STATUS_NOT_FOUND;
    l->size = (size_t)n;
    l->number++;
    return STATUS_OK;
}

static bool
has_prefix(const struct lines *l, const char *prefix)
{
    return slice_starts((struct slice){l->line, l->size}, prefix);
}

/* Checks all lines. */
static enum status
check_lines(struct lines *l, struct problem *why)
{
    struct digest_check *digests =
        digest_check_new(SLICE(""), LENGTH_NONE, true);
    char expected[END_SIZE] = "";
    enum status rc = STATUS_OK;

    while (!rc && !(rc = next_line(l, why))) {
        if (expected[0]) {
            rc = fail_line(l, why, "follows the end");
        } else if (l->number == 1 && strcmp(l->line, HEAD) != 0) {
            rc = problem(why, STATUS_DIFFERENT,
                         "%s is no manifest of a backup, or one of a newer "
                         "version",
                         l->path);
        } else if (!has_prefix(l, END)) {
            rc = digest_check_add(digests, (struct slice){l->line, l->size},
                                  why);
        } else if (!(rc = digest_check_end(digests, why))) {
            write_end(expected, digests);
            if (!slice_is((struct slice){l->line, l->size}, expected))
                rc = fail_line(l, why,
                               "has another digest than the lines before it");
        }
    }
    digest_check_free(digests);
    if (rc == STATUS_NOT_FOUND)
        rc = expected[0]
                 ? STATUS_OK
                 : problem(why, STATUS_DIFFERENT,
                           "%s is damaged: its end is missing", l->path);
    return rc;
}

/* True for a path that stays in its directory. */
static bool
is_path(const char *path)
{
    size_t size = strlen(path);

    if (size == 0 || size > MANIFEST_PATH_MAX || path[0] == '/' ||
        path[size - 1] == '/')
        return false;
    for (const char *name = path; *name;) {
        size_t n = strcspn(name, "/");

        if (n == 0 || (n == 1 && name[0] == '.') ||
            (n == 2 && name[0] == '.' && name[1] == '.'))
            return false;
        name += n + (name[n] == '/');
    }
    return true;
}

/* Reads the line of a file, and cuts off its line end. */
static enum status
read_file_line(struct lines *l, struct manifest_file *file, struct problem *why)
{
    unsigned long folder;
    char *end;

    if (l->size < PREFIX_SIZE + 2 || l->line[l->size - 1] != '\n' ||
        memchr(l->line, '\0', l->size))
        return fail_line(l, why, "names no file");
    l->line[l->size - 1] = '\0';
    if (!hex_read((struct slice){l->line, HEX_SIZE}, file->digest.bytes,
                  DIGEST_SIZE) ||
        memcmp(l->line + HEX_SIZE, "  ", 2) != 0)
        return fail_line(l, why, "has no digest");
    folder = strtoul(l->line + PREFIX_SIZE, &end, 10);
    if (*end != '/' || folder == 0 || folder > UINT32_MAX || !is_path(end + 1))
        return fail_line(l, why, "names no file of a backup");
    file->folder = (unsigned)folder;
    file->path = end + 1;
    return STATUS_OK;
}

enum status
manifest_read(const char *dir, const struct manifest_reader *reader,
              struct problem *why)
{
    struct file_path path = file_path("%s/" MANIFEST_NAME, dir);
    struct lines l = {.path = path.text};
    struct manifest_file file;
    enum status rc;

    l.from = fopen(path.text, "re");
    if (!l.from && errno == ENOENT)
        return problem(why, STATUS_NOT_FOUND, "%s does not exist", path.text);
    if (!l.from)
        return problem_errno(why, "cannot open", path.text);
    rc = check_lines(&l, why);
    rewind(l.from);
    l.number = 0;
    while (!rc && !(rc = next_line(&l, why))) {
        if (has_prefix(&l, MANIFEST_MISSING) && reader->on_missing) {
            l.line[strcspn(l.line, "\n")] = '\0';
            reader->on_missing(l.line + sizeof(MANIFEST_MISSING) - 1,
                               reader->user);
        }
        if (l.line[0] != '#')
            rc = read_file_line(&l, &file, why);
        if (l.line[0] != '#' && !rc && reader->on_file)
            rc = reader->on_file(&file, reader->user, why);
    }
    if (rc == STATUS_NOT_FOUND)
        rc = STATUS_OK;
    free(l.line);
    fclose(l.from);
    return rc;
}

struct manifest_entry *
manifest_find(struct map *map, const char *path)
{
    struct manifest_entry *entry;

    map_each_same (entry, map, map_hash(map, slice_of(path)), node) {
        if (!strcmp(entry->path, path))
            return entry;
    }
    return NULL;
}

enum status
manifest_note(const struct manifest_file *file, void *user, struct problem *why)
{
    struct map *map = user;
    size_t size = strlen(file->path) + 1;
    struct manifest_entry *entry = memory_new(1, sizeof(*entry) + size);

    (void)why;
    entry->digest = file->digest;
    entry->folder = file->folder;
    memcpy(entry->path, file->path, size);
    map_add(map, &entry->node, map_hash(map, slice_of(file->path)));
    return STATUS_OK;
}

void
manifest_forget(struct map *map)
{
    struct manifest_entry *entry;

    map_walk (entry, map, node) {
        map_remove(map, &entry->node);
        free(entry);
    }
    map_fini(map);
}

bool
manifest_is_begun(const char *dir)
{
    struct file_path path = file_path("%s/" MANIFEST_NAME ".new", dir);
    char head[sizeof(HEAD) - 1];
    ssize_t n = file_read(AT_FDCWD, path.text, head, sizeof(head));

    return n >= 0 && !memcmp(head, HEAD, (size_t)n); /* also its beginning */
}
