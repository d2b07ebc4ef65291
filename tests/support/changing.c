#include "tests/support/changing.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/evp.h>

#include "tests/test.h"

#define FOLDERS  37U
#define TEXT_MAX 200000U

/* splitmix64 */
static uint64_t
mix(uint64_t z)
{
    z += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t
die_roll(struct die *die, uint64_t n)
{
    return mix(die->state++) % n;
}

void
changing_open(struct changing *c, uint32_t n, uint64_t seed, size_t max)
{
    *c = (struct changing){.die = {seed}, .n = n, .max = max};
    tempdir_open(&c->dir);
    snprintf(c->files, sizeof(c->files), "%s/files", c->dir.path);
    assert_int_equal(mkdir(c->files, 0755), 0);
    for (unsigned i = 0; i < FOLDERS; i++) {
        char name[20];

        snprintf(name, sizeof(name), "files/%u", i);
        assert_int_equal(mkdirat(c->dir.fd, name, 0755), 0);
    }
    c->now = calloc(n, sizeof(*c->now));
    c->all = calloc(max, sizeof(*c->all));
    assert_non_null(c->now);
    assert_non_null(c->all);
    buf_init(&c->text, TEXT_MAX);
}

void
changing_close(struct changing *c)
{
    if (!c->now)
        return;
    free(c->now);
    free(c->all);
    buf_fini(&c->text);
    tempdir_close(&c->dir);
}

const char *
changing_path(uint32_t id)
{
    static _Thread_local char path[60];

    snprintf(path, sizeof(path), CHANGING_PREFIX "%u/%u.txt", id % FOLDERS, id);
    return path;
}

/* Most are small, one of 32 is large, one of 64 is empty. */
struct slice
changing_text(struct changing *c, size_t n)
{
    uint64_t die = mix(n);
    size_t size = die % 64 == 0   ? 0
                  : die % 32 == 1 ? 40000 + die / 64 % (TEXT_MAX - 40000)
                                  : 20 + die / 64 % 3000;
    char *to;

    buf_clear(&c->text);
    to = size ? buf_room(&c->text, size) : NULL;
    if (!to)
        return (struct slice){"", 0};
    for (size_t i = 0; i < size; i++)
        to[i] = (char)('a' + ((size_t)die + i * n) % 23);
    memcpy(to, &die, sizeof(die)); /* all 64 bits tell it from others */
    c->text.size = size;
    return buf_slice(&c->text);
}

void
changing_hash(struct changing *c, size_t n, char to[CHANGING_HASH_SIZE])
{
    struct slice text = changing_text(c, n);
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;

    EVP_Digest(text.data, text.size, digest, &size, EVP_sha256(), NULL);
    snprintf(to, CHANGING_HASH_SIZE, "sha-256:");
    for (unsigned i = 0; i < size; i++)
        snprintf(to + 8 + 2 * i, 3, "%02x", digest[i]);
}

/* May be called by a thread that is not the test's: no asserts of cmocka. */
static void
must(bool is_so, const char *what)
{
    if (!is_so) {
        perror(what);
        abort();
    }
}

static void
put(struct changing *c, const char *name, struct slice text)
{
    int fd = openat(c->dir.fd, "new", O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC,
                    0644);

    must(fd >= 0 && write(fd, text.data, text.size) == (ssize_t)text.size,
         name);
    close(fd);
    must(!renameat(c->dir.fd, "new", c->dir.fd, name), name);
}

const struct changed *
changing_change(struct changing *c)
{
    struct changed *changed = &c->all[c->n_all];
    uint32_t id = (uint32_t)die_roll(&c->die, c->n);
    const char *name = changing_path(id) + 1;

    must(c->n_all < c->max, "too many changes");
    changed->id = id;
    c->n_all++;
    if (c->now[id] && die_roll(&c->die, 10) == 0) {
        changed->kind = "deleted";
        c->now[id] = 0;
        must(!unlinkat(c->dir.fd, name, 0), name);
        return changed;
    }
    changed->kind = c->now[id] ? "updated" : "created";
    c->now[id] = (uint32_t)c->n_all;
    put(c, name, changing_text(c, c->n_all));
    return changed;
}

/* The mirror */

static bool
has_text(const char *path, struct slice text)
{
    char *found = malloc(text.size + 1);
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    bool has = false;

    assert_non_null(found);
    if (fd >= 0) {
        has = read(fd, found, text.size + 1) == (ssize_t)text.size &&
              (!text.size || !memcmp(found, text.data, text.size));
        close(fd);
    }
    free(found);
    return has;
}

/* nftw has no argument of the caller's. */
static size_t n_files;

static int
count_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)ftw;
    if (type == FTW_D || strstr(path, "/.tidings/mirror.db") ||
        strstr(path, "/.tidings/lock"))
        return 0;
    n_files++;
    if (strstr(path, "/.tidings/"))
        print_error("%s is left\n", path);
    return 0;
}

void
changing_assert_mirrored_at(struct changing *c, const char *dir,
                            const char *host, const char *file, int line)
{
    char path[PATH_MAX];
    size_t n = 0, n_wrong = 0;

    for (uint32_t id = 0; id < c->n; id++) {
        uint32_t now = c->now[id];

        n += now != 0;
        snprintf(path, sizeof(path), "%s/%s%s", dir, host, changing_path(id));
        if (now ? has_text(path, changing_text(c, now))
                : access(path, F_OK) && errno == ENOENT)
            continue;
        n_wrong++;
        print_error("%s is not as change %" PRIu32 " made it\n", path, now);
    }
    n_files = 0;
    assert_int_equal(nftw(dir, count_file, 20, FTW_PHYS), 0);
    if (n_files != n)
        print_error("the mirror has %zu files, the source %zu\n", n_files, n);
    if (n_wrong || n_files != n)
        _fail(file, line);
}
