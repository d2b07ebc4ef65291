/*
 * fold.c - a set folded, compared with a directory.
 */
#include "tests/support/fold.h"

#include <ftw.h>
#include <inttypes.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#include "tests/support/jsonpath.h"
#include "tests/support/patience.h"
#include "tests/test.h"

#define LOC_MAX  2048
#define TEXT_MAX 300

void
fold_open(struct fold *f, const char *url, const char *set, const char *base)
{
    memset(f, 0, sizeof(*f));
    http_open(&f->http, url);
    f->base = base;
    snprintf(f->path, sizeof(f->path), "/sets/%s/changes", set);
}

static void
release(void *node)
{
    struct folded *r = node;

    free(r->loc);
    free(r);
}

void
fold_forget(struct fold *f)
{
    tdestroy(f->by_loc, release);
    f->by_loc = NULL;
    f->last = 0;
}

void
fold_close(struct fold *f)
{
    fold_forget(f);
    http_close(&f->http);
}

static int
by_loc(const void *a, const void *b)
{
    return strcmp(((const struct folded *)a)->loc,
                  ((const struct folded *)b)->loc);
}

static struct folded *
find(struct fold *f, const char *loc)
{
    struct folded wanted = {.loc = (char *)(uintptr_t)loc};
    struct folded **found = tfind(&wanted, &f->by_loc, by_loc);

    return found ? *found : NULL;
}

static struct folded *
find_or_make(struct fold *f, const char *loc)
{
    struct folded *r = find(f, loc);

    if (r)
        return r;
    r = calloc(1, sizeof(*r));
    assert_non_null(r);
    r->loc = strdup(loc);
    assert_non_null(r->loc);
    assert_non_null(tsearch(r, &f->by_loc, by_loc));
    return r;
}

static bool
is_there(const struct folded *r)
{
    return r->n && strcmp(r->change, "deleted") != 0;
}

static void
copy(char *to, size_t size, const char *text)
{
    snprintf(to, size, "%s", text ? text : "");
}

/* Entry `i` of a page. */
static void
take(struct fold *f, const struct jsonpath *j, size_t i)
{
    char path[100];
    const char *change;
    const char *sha256;
    struct folded *r;
    bool is_right;

#define MEMBER(name) \
    (snprintf(path, sizeof(path), "changes.%zu." name, i), path)
    r = find_or_make(f, jsonpath_text(j, MEMBER("loc")));
    change = jsonpath_text(j, MEMBER("change"));
    sha256 = jsonpath_text(j, MEMBER("hash.sha-256"));

    if (!strcmp(change, "created"))
        is_right = !is_there(r);
    else if (!strcmp(change, "updated"))
        is_right = is_there(r) && strcmp(r->sha256, sha256) != 0;
    else
        is_right = is_there(r);
    if (!is_right)
        fail_msg("seq %" PRIu64 ": %s is %s, but was %s (%s)", f->last + 1,
                 r->loc, change, r->n ? r->change : "not there", r->sha256);

    copy(r->change, sizeof(r->change), change);
    copy(r->sha256, sizeof(r->sha256), sha256);
    copy(r->type, sizeof(r->type), jsonpath_text(j, MEMBER("type")));
    copy(r->lastmod, sizeof(r->lastmod), jsonpath_text(j, MEMBER("lastmod")));
    r->length = jsonpath_has(j, MEMBER("length"))
                    ? jsonpath_number(j, MEMBER("length"))
                    : 0;
    r->n++;
    f->last++;
    assert_int_equal(jsonpath_number(j, MEMBER("seq")), f->last);
#undef MEMBER
}

void
fold_read(struct fold *f)
{
    char path[300];
    struct jsonpath j;
    size_t n;

    do {
        long status;

        snprintf(path, sizeof(path), "%s?after=%" PRIu64, f->path, f->last);
        status = http_get(&f->http, path);
        if (status == 404 && !f->last)
            return;
        assert_int_equal(status, 200);
        jsonpath_open(&j, buf_slice(&f->http.body));
        n = jsonpath_count(&j, "changes");
        for (size_t i = 0; i < n; i++)
            take(f, &j, i);
        jsonpath_close(&j);
    } while (n);
}

/* The loc of a path, written without a look at how the client does it. */
static void
write_loc(char *to, const char *base, const char *path)
{
    to += sprintf(to, "%s", base);
    for (; *path; path++)
        to += sprintf(to,
                      strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVW"
                             "XYZ0123456789-._~/",
                             *path)
                          ? "%c"
                          : "%%%02X",
                      (unsigned char)*path);
}

const struct folded *
fold_of(struct fold *f, const char *path)
{
    char loc[LOC_MAX + 1];

    write_loc(loc, f->base, path);
    return find(f, loc);
}

unsigned
fold_count(struct fold *f, const char *path)
{
    const struct folded *r = fold_of(f, path);

    return r ? r->n : 0;
}

const struct folded *
fold_await_change(struct fold *f, const char *path, const char *change)
{
    char with[TEXT_MAX];
    struct patience p = {.with = with};

    snprintf(with, sizeof(with), "%s to be %s", path, change);
    for (;;) {
        const struct folded *r;

        fold_read(f);
        r = fold_of(f, path);
        if (r && !strcmp(r->change, change))
            return r;
        patience_step(&p);
    }
}

/* Comparing. nftw's callback cannot be given anything. */
static struct {
    struct fold *fold;
    size_t root; /* bytes of the directory's own path */
    size_t n;    /* files that agree */
    char difference[TEXT_MAX];
} walk;

/* By a library that is not ours. */
static void
hash_file(const char *path, char sha256[65])
{
    char bytes[65536];
    unsigned char digest[32];
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    FILE *f = fopen(path, "re");
    size_t n;

    assert_non_null(f);
    assert_int_equal(EVP_DigestInit_ex(context, EVP_sha256(), NULL), 1);
    while ((n = fread(bytes, 1, sizeof(bytes), f)) > 0)
        assert_int_equal(EVP_DigestUpdate(context, bytes, n), 1);
    assert_int_equal(EVP_DigestFinal_ex(context, digest, NULL), 1);
    EVP_MD_CTX_free(context);
    fclose(f);
    for (size_t i = 0; i < sizeof(digest); i++)
        sprintf(sha256 + 2 * i, "%02x", digest[i]);
}

static int
compare(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    const struct folded *r;
    char sha256[65];

    (void)ftw;
    if (type == FTW_D && !strcmp(path + ftw->base, ".tidings"))
        return FTW_SKIP_SUBTREE;
    if (type != FTW_F || !S_ISREG(st->st_mode))
        return FTW_CONTINUE;
    r = fold_of(walk.fold, path + walk.root + 1);
    if (!r || !is_there(r) || r->length != (uint64_t)st->st_size) {
        snprintf(walk.difference, sizeof(walk.difference), "%s: %s", path,
                 r ? r->change : "never posted");
        return FTW_STOP;
    }
    hash_file(path, sha256);
    if (strcmp(sha256, r->sha256)) {
        snprintf(walk.difference, sizeof(walk.difference),
                 "%s: %s with another digest", path, r->change);
        return FTW_STOP;
    }
    walk.n++;
    return FTW_CONTINUE;
}

static void
count(const void *node, VISIT which, void *user)
{
    size_t *n = user;

    if (which == postorder || which == leaf)
        *n += is_there(*(struct folded *const *)node);
}

static bool
is_equal(struct fold *f, const char *dir)
{
    size_t n = 0;

    fold_read(f);
    walk.fold = f;
    walk.root = strlen(dir);
    walk.n = 0;
    walk.difference[0] = '\0';
    if (nftw(dir, compare, 16, FTW_PHYS | FTW_ACTIONRETVAL) == FTW_STOP)
        return false;
    twalk_r(f->by_loc, count, &n);
    if (n != walk.n)
        snprintf(walk.difference, sizeof(walk.difference),
                 "the set has %zu resources, the directory %zu files", n,
                 walk.n);
    return n == walk.n;
}

void
fold_await(struct fold *f, const char *dir)
{
    struct patience p = {.with = walk.difference};

    while (!is_equal(f, dir))
        patience_step(&p);
}
