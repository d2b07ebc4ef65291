#include "tests/support/packages.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/hash.h"
#include "tests/test.h"

#define BASE "http://deb.example.org/debian/"

/* A stanza, as far as it matters here. */
struct stanza {
    char name[128];
    char version[128];
    char architecture[32];
    char filename[230];
    char sha256[65];
    uint64_t size;           /* of the file */
    uint64_t installed_size; /* in KiB */
};

/* "Name: value\n" -> the value, cut to `size`. */
static void
take(const char *line, const char *name, char *to, size_t size)
{
    size_t n = strlen(name);

    if (!strncmp(line, name, n) && line[n] == ':' && line[n + 1] == ' ')
        snprintf(to, size, "%.*s", (int)strcspn(line + n + 2, "\n"),
                 line + n + 2);
}

/* The next stanza; false: there is none. */
static bool
next_stanza(FILE *f, struct stanza *s)
{
    char *line = NULL, number[24] = "0", kib[24] = "0";
    size_t capacity = 0;

    memset(s, 0, sizeof(*s));
    while (getline(&line, &capacity, f) > 0) {
        if (line[0] == '\n' && s->name[0])
            break;
        take(line, "Package", s->name, sizeof(s->name));
        take(line, "Version", s->version, sizeof(s->version));
        take(line, "Architecture", s->architecture, sizeof(s->architecture));
        take(line, "Filename", s->filename, sizeof(s->filename));
        take(line, "SHA256", s->sha256, sizeof(s->sha256));
        take(line, "Size", number, sizeof(number));
        take(line, "Installed-Size", kib, sizeof(kib));
    }
    free(line);
    s->size = strtoull(number, NULL, 10);
    s->installed_size = strtoull(kib, NULL, 10);
    return s->name[0] != '\0';
}

static void
add(struct packages *p, const char *filename, const char *sha256, uint64_t size)
{
    struct posted *to;

    if (p->n == p->capacity) {
        p->capacity = p->capacity ? p->capacity * 2 : 65536;
        p->all = realloc(p->all, p->capacity * sizeof(*p->all));
        p->digests = realloc(p->digests, p->capacity * sizeof(*p->digests));
        assert_non_null(p->all);
        assert_non_null(p->digests);
    }
    to = &p->all[p->n];
    assert_in_range(snprintf(to->loc, sizeof(to->loc), BASE "%s", filename), 1,
                    sizeof(to->loc) - 1);
    assert_int_equal(strlen(sha256), 64);
    strcpy(p->digests[p->n++], sha256);
    to->size = size;
}

/* What apt's lists know: packages with a file to fetch. */
static void
read_available(struct packages *p)
{
    FILE *f = popen("apt-cache dumpavail 2>/dev/null", "r");
    struct stanza s;

    if (!f)
        return;
    while (next_stanza(f, &s))
        if (s.filename[0] && s.sha256[0])
            add(p, s.filename, s.sha256, s.size);
    pclose(f);
}

/* What is installed, as files of that name would be; copy `round` of it. */
static void
read_installed(struct packages *p, unsigned round)
{
    FILE *f = fopen("/var/lib/dpkg/status", "re");
    struct stanza s;

    while (f && p->n < PACKAGES_MIN && next_stanza(f, &s)) {
        char text[DIGEST_TEXT_SIZE + 1] = "";
        struct digest digest;

        snprintf(s.filename, sizeof(s.filename),
                 "pool/%u/%.1s/%.60s_%.60s_%.30s.deb", round, s.name, s.name,
                 s.version, s.architecture);
        digest_start(&digest, slice_of(s.filename));
        digest_write(text, &digest);
        add(p, s.filename, strchr(text, ':') + 1, s.installed_size * 1024);
    }
    if (f)
        fclose(f);
}

static int
by_loc(const void *a, const void *b)
{
    return strcmp(((const struct posted *)a)->loc,
                  ((const struct posted *)b)->loc);
}

/* A file that several of apt's lists name is one package. */
static void
drop_repeats(struct packages *p)
{
    size_t n = 0;

    qsort(p->all, p->n, sizeof(*p->all), by_loc);
    for (size_t i = 0; i < p->n; i++)
        if (n == 0 || by_loc(&p->all[n - 1], &p->all[i]) != 0)
            p->all[n++] = p->all[i];
    p->n = n;
}

static void
lend_digests(struct packages *p)
{
    for (size_t i = 0; i < p->n; i++)
        p->all[i].sha256 = p->digests[i];
}

void
packages_open(struct packages *p)
{
    memset(p, 0, sizeof(*p));
    p->from = "apt-cache dumpavail";
    read_available(p);
    lend_digests(p);
    drop_repeats(p);
    if (p->n >= PACKAGES_MIN)
        return;

    p->from = "/var/lib/dpkg/status and numbered copies (apt's lists are "
              "empty: no apt-get update was run here)";
    p->n = 0;
    for (unsigned round = 0; p->n < PACKAGES_MIN; round++) {
        size_t n = p->n;

        read_installed(p, round);
        if (p->n == n)
            fail_msg("neither apt nor dpkg knows a package");
    }
    lend_digests(p);
    drop_repeats(p);
}

void
packages_close(struct packages *p)
{
    free(p->all);
    free(p->digests);
}
