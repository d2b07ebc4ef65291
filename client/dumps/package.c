/*
 * package.c - a ZIP package: its members and its manifest.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/dumps/package_inside.h"
#include "proto/digest.h"

#define MANIFEST   "manifest.xml"
#define PIECE_SIZE 16384

locale_t
package_locale_enter(const struct package *package)
{
    return package->locale ? uselocale(package->locale) : (locale_t)0;
}

void
package_locale_leave(locale_t before)
{
    if (before)
        uselocale(before);
}

static enum status
unreadable(const struct package *package, const struct zip *zip, enum status rc,
           struct problem *why)
{
    if (rc == STATUS_MEMORY)
        return problem_memory(why);
    if (rc == STATUS_IO)
        return problem(why, rc, "cannot read %s: %s", package->name,
                       zip->problem);
    return problem(why, rc, "it is not a ZIP package: %s", zip->problem);
}

static bool
is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* the name without a leading "./"; "" if it leads out of the package. */
static struct slice
safe_name(const char *name)
{
    struct slice text = slice_of(name);
    struct slice rest, none = {NULL, 0};

    while (slice_starts(text, "./")) {
        text.data += 2;
        text.size -= 2;
    }
    if (text.size == 0 || text.data[0] == '/' ||
        memchr(text.data, '\\', text.size) ||
        (text.size > 1 && is_letter(text.data[0]) && text.data[1] == ':'))
        return none;
    for (rest = text; rest.size > 0;)
        if (slice_is(slice_take(&rest, '/'), ".."))
            return none;
    return text;
}

/* Copies the name into the arena, after a slash. NULL: no room. */
static const char *
keep_path(struct arena *arena, struct slice name)
{
    char *path = arena_take(arena, name.size + 1);

    if (path) {
        path[0] = '/';
        memcpy(path + 1, name.data, name.size);
    }
    return path;
}

static enum status
add_member(struct package *package, struct slice name, uint32_t ordinal,
           struct problem *why)
{
    const char *path;

    if (package->n_members == PACKAGE_MEMBERS_MAX)
        return problem(why, STATUS_MALFORMED,
                       "the package has more than %d members",
                       PACKAGE_MEMBERS_MAX);
    if (package->n_members == package->capacity) {
        size_t capacity = package->capacity ? 2 * package->capacity : 64;
        struct member *more =
            realloc(package->members, capacity * sizeof(*more));

        if (!more)
            return problem_memory(why);
        package->members = more;
        package->capacity = capacity;
    }
    path = keep_path(&package->texts, name);
    if (!path)
        return problem(why, STATUS_MALFORMED,
                       "the names in the package are too long");
    package->members[package->n_members++] = (struct member){
        .path = {path, name.size + 1},
        .length = LENGTH_NONE,
        .ordinal = ordinal,
    };
    return STATUS_OK;
}

static enum status
look_at(struct package *package, struct archive_entry *entry, uint32_t ordinal,
        struct problem *why)
{
    const char *text = zip_name(entry);
    struct slice name;

    if (!text || !zip_is_file(entry))
        return STATUS_OK;
    name = safe_name(text);
    if (name.size == 0)
        return STATUS_OK;
    if (zip_is_encrypted(entry))
        return problem(why, STATUS_MALFORMED,
                       "the package is encrypted: \"%s\"",
                       problem_quote(name).text);
    if (!slice_is(name, MANIFEST))
        return add_member(package, name, ordinal, why);
    if (package->has_manifest)
        return problem(why, STATUS_MALFORMED,
                       "the package has two members " MANIFEST);
    package->has_manifest = true;
    package->manifest = ordinal;
    return STATUS_OK;
}

static int
compare_paths(struct slice a, struct slice b)
{
    size_t size = a.size < b.size ? a.size : b.size;
    int order = memcmp(a.data, b.data, size);

    return order ? order : (a.size > b.size) - (a.size < b.size);
}

static int
compare_indexes(const void *a, const void *b, void *user)
{
    const struct member *members = user;

    return compare_paths(members[*(const uint32_t *)a].path,
                         members[*(const uint32_t *)b].path);
}

/* Sorts rather than hashes: a stranger chooses the names, and could make
 * hashing slow. */
static enum status
sort_members(struct package *package, struct problem *why)
{
    size_t n = package->n_members;
    uint32_t *index = calloc(n + 1, sizeof(*index));

    if (!index)
        return problem_memory(why);
    package->by_path = index;
    for (size_t i = 0; i < n; i++)
        index[i] = (uint32_t)i;
    qsort_r(index, n, sizeof(*index), compare_indexes, package->members);
    for (size_t i = 1; i < n; i++) {
        struct slice path = package->members[index[i]].path;

        if (slice_equal(package->members[index[i - 1]].path, path))
            return problem(why, STATUS_MALFORMED,
                           "the package has two members \"%s\"",
                           problem_quote(path).text);
    }
    return STATUS_OK;
}

/* Collects the members from all headers. */
static enum status
look_through(struct package *package, struct problem *why)
{
    struct zip zip = {.fd = -1};
    struct archive_entry *entry;
    enum status rc = zip_open(&zip, package->dir_fd, package->name);
    int more = 1;

    if (rc)
        return unreadable(package, &zip, rc, why);
    while (!rc && (more = zip_next(&zip, &entry)) > 0)
        rc = look_at(package, entry, zip.n_headers - 1, why);
    if (!rc && more < 0)
        rc = unreadable(package, &zip, STATUS_MALFORMED, why);
    zip_close(&zip);
    if (!rc && !package->has_manifest)
        rc = problem(why, STATUS_MALFORMED,
                     "the package has no member " MANIFEST);
    return rc ? rc : sort_members(package, why);
}

enum status
package_open(struct package **package, int dir_fd, const char *name,
             struct problem *why)
{
    struct package *p = calloc(1, sizeof(*p));
    enum status rc = STATUS_MEMORY;
    locale_t before;

    *package = NULL;
    if (!p)
        return problem_memory(why);
    p->dir_fd = dir_fd;
    p->out_fd = p->reading.fd = p->taking.fd = -1;
    arena_init(&p->texts, PACKAGE_TEXTS_MAX);
    p->name = strdup(name);
    p->piece = malloc(PIECE_SIZE);
    if (!p->name || !p->piece) {
        problem_memory(why);
        goto out;
    }
    p->locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    before = package_locale_enter(p);
    rc = look_through(p, why);
    package_locale_leave(before);

out:
    if (rc)
        package_close(p);
    else
        *package = p;
    return rc;
}

void
package_close(struct package *package)
{
    if (!package)
        return;
    zip_close(&package->reading);
    zip_close(&package->taking);
    if (package->out_fd >= 0)
        close(package->out_fd);
    for (size_t i = 0; i < package->n_members; i++) {
        const struct member *m = &package->members[i];
        char name[PACKAGE_NAME_SIZE];

        if (m->state != MEMBER_ASIDE && m != package->partial)
            continue;
        package_file(name, package, m);
        unlinkat(package->dir_fd, name, 0);
    }
    digest_check_free(package->digests);
    arena_fini(&package->texts);
    free(package->members);
    free(package->by_path);
    free(package->piece);
    free(package->name);
    if (package->locale)
        freelocale(package->locale);
    free(package);
}

/* Moves to the manifest's data. */
static enum status
find_manifest(struct package *package, struct problem *why)
{
    struct zip *zip = &package->reading;
    struct archive_entry *entry;
    enum status rc = zip_open(zip, package->dir_fd, package->name);

    while (!rc && zip->n_headers <= package->manifest)
        if (zip_next(zip, &entry) <= 0)
            rc = STATUS_MALFORMED;
    if (rc)
        return unreadable(package, zip, rc, why);
    package->is_reading = true;
    return STATUS_OK;
}

enum status
package_manifest(struct package *package, struct slice *piece,
                 struct problem *why)
{
    locale_t before = package_locale_enter(package);
    enum status rc = STATUS_OK;
    long n;

    *piece = (struct slice){package->piece, 0};
    if (!package->is_reading)
        rc = find_manifest(package, why);
    if (rc)
        goto out;
    n = zip_read(&package->reading, package->piece, PIECE_SIZE);
    if (n < 0) {
        rc = problem(why, STATUS_MALFORMED, MANIFEST " cannot be unpacked: %s",
                     package->reading.problem);
        goto out;
    }
    piece->size = (size_t)n;

out:
    if (rc || piece->size == 0)
        package_manifest_again(package);
    package_locale_leave(before);
    return rc;
}

void
package_manifest_again(struct package *package)
{
    zip_close(&package->reading);
    package->is_reading = false;
}

struct member *
package_member(struct package *package, struct slice path)
{
    size_t low = 0, high = package->n_members;
    bool has_slash = path.size > 0 && path.data[0] == '/';

    if (has_slash) { /* compares without it: some manifests have none */
        path.data++;
        path.size--;
    }
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        struct member *m = &package->members[package->by_path[middle]];
        struct slice name = {m->path.data + 1, m->path.size - 1};
        int order = path.size ? compare_paths(path, name) : -1;

        if (order == 0)
            return m;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

enum status
package_expect(struct package *package, struct slice path, uint64_t length,
               struct slice hash, struct problem *why)
{
    struct member *m = package_member(package, path);
    char *text = NULL;

    if (!m || m->state != MEMBER_UNKNOWN)
        return STATUS_OK;
    if (hash.size > 0) {
        text = arena_take(&package->texts, hash.size);
        if (!text)
            return problem_memory(why);
        memcpy(text, hash.data, hash.size);
    }
    m->hash = (struct slice){text, hash.size};
    m->length = length;
    m->state = MEMBER_EXPECTED;
    return STATUS_OK;
}
