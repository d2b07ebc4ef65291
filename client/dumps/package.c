/*
 * package.c - a ZIP package: its members and its manifest.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/dumps/package_inside.h"
#include "proto/hash.h"

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

static enum td_status
unreadable(const struct package *package, const struct zip *zip,
           enum td_status rc, struct failure *why)
{
    if (rc == TD_MEMORY)
        return failure_memory(why);
    if (rc == TD_IO)
        return failure_set(why, rc, "cannot read %s: %s", package->name,
                           zip->problem);
    return failure_set(why, rc, "it is not a ZIP package: %s", zip->problem);
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

static enum td_status
add_member(struct package *package, struct slice name, uint32_t ordinal,
           struct failure *why)
{
    const char *path;

    if (package->n_members == PACKAGE_MEMBERS_MAX)
        return failure_set(why, TD_BROKEN,
                           "the package has more than %d members",
                           PACKAGE_MEMBERS_MAX);
    if (package->n_members == package->capacity) {
        size_t capacity = package->capacity ? 2 * package->capacity : 64;
        struct member *more =
            realloc(package->members, capacity * sizeof(*more));

        if (!more)
            return failure_memory(why);
        package->members = more;
        package->capacity = capacity;
    }
    path = keep_path(&package->texts, name);
    if (!path)
        return failure_set(why, TD_BROKEN,
                           "the names in the package are too long");
    package->members[package->n_members++] = (struct member){
        .path = {path, name.size + 1},
        .length = LENGTH_NONE,
        .ordinal = ordinal,
    };
    return TD_OK;
}

static enum td_status
look_at(struct package *package, struct archive_entry *entry, uint32_t ordinal,
        struct failure *why)
{
    const char *text = zip_name(entry);
    struct slice name;

    if (!text || !zip_is_file(entry))
        return TD_OK;
    name = safe_name(text);
    if (name.size == 0)
        return TD_OK;
    if (zip_is_encrypted(entry))
        return failure_set(why, TD_BROKEN, "the package is encrypted: \"%s\"",
                           problem_quote(name).text);
    if (!slice_is(name, MANIFEST))
        return add_member(package, name, ordinal, why);
    if (package->has_manifest)
        return failure_set(why, TD_BROKEN,
                           "the package has two members " MANIFEST);
    package->has_manifest = true;
    package->manifest = ordinal;
    return TD_OK;
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
static enum td_status
sort_members(struct package *package, struct failure *why)
{
    size_t n = package->n_members;
    uint32_t *index = calloc(n + 1, sizeof(*index));

    if (!index)
        return failure_memory(why);
    package->by_path = index;
    for (size_t i = 0; i < n; i++)
        index[i] = (uint32_t)i;
    qsort_r(index, n, sizeof(*index), compare_indexes, package->members);
    for (size_t i = 1; i < n; i++) {
        struct slice path = package->members[index[i]].path;

        if (slice_equal(package->members[index[i - 1]].path, path))
            return failure_set(why, TD_BROKEN,
                               "the package has two members \"%s\"",
                               problem_quote(path).text);
    }
    return TD_OK;
}

/* Collects the members from all headers. */
static enum td_status
look_through(struct package *package, struct failure *why)
{
    struct zip zip = {.fd = -1};
    struct archive_entry *entry;
    enum td_status rc = zip_open(&zip, package->dir_fd, package->name);
    int more = 1;

    if (rc)
        return unreadable(package, &zip, rc, why);
    while (!rc && (more = zip_next(&zip, &entry)) > 0)
        rc = look_at(package, entry, zip.n_headers - 1, why);
    if (!rc && more < 0)
        rc = unreadable(package, &zip, TD_BROKEN, why);
    zip_close(&zip);
    if (!rc && !package->has_manifest)
        rc = failure_set(why, TD_BROKEN, "the package has no member " MANIFEST);
    return rc ? rc : sort_members(package, why);
}

enum td_status
package_open(struct package **package, int dir_fd, const char *name,
             struct failure *why)
{
    struct package *p = calloc(1, sizeof(*p));
    enum td_status rc = TD_MEMORY;
    locale_t before;

    *package = NULL;
    if (!p)
        return failure_memory(why);
    p->dir_fd = dir_fd;
    p->out_fd = p->reading.fd = p->taking.fd = -1;
    arena_init(&p->texts, PACKAGE_TEXTS_MAX);
    p->name = strdup(name);
    p->piece = malloc(PIECE_SIZE);
    if (!p->name || !p->piece) {
        failure_memory(why);
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
    digests_free(package->digests);
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
static enum td_status
find_manifest(struct package *package, struct failure *why)
{
    struct zip *zip = &package->reading;
    struct archive_entry *entry;
    enum td_status rc = zip_open(zip, package->dir_fd, package->name);

    while (!rc && zip->n_headers <= package->manifest)
        if (zip_next(zip, &entry) <= 0)
            rc = TD_BROKEN;
    if (rc)
        return unreadable(package, zip, rc, why);
    package->is_reading = true;
    return TD_OK;
}

enum td_status
package_manifest(struct package *package, struct slice *piece,
                 struct failure *why)
{
    locale_t before = package_locale_enter(package);
    enum td_status rc = TD_OK;
    long n;

    *piece = (struct slice){package->piece, 0};
    if (!package->is_reading)
        rc = find_manifest(package, why);
    if (rc)
        goto out;
    n = zip_read(&package->reading, package->piece, PIECE_SIZE);
    if (n < 0) {
        rc = failure_set(why, TD_BROKEN, MANIFEST " cannot be unpacked: %s",
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

enum td_status
package_expect(struct package *package, struct slice path, uint64_t length,
               struct slice hash, struct failure *why)
{
    struct member *m = package_member(package, path);
    char *text = NULL;

    if (!m || m->state != MEMBER_UNKNOWN)
        return TD_OK;
    if (hash.size > 0) {
        text = arena_take(&package->texts, hash.size);
        if (!text)
            return failure_memory(why);
        memcpy(text, hash.data, hash.size);
    }
    m->hash = (struct slice){text, hash.size};
    m->length = length;
    m->state = MEMBER_EXPECTED;
    return TD_OK;
}
