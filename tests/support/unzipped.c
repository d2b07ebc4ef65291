#include "tests/support/unzipped.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <archive.h>
#include <archive_entry.h>

#include "proto/resourcesync/digest.h"
#include "tests/support/xpath.h"
#include "tests/test.h"

static struct slice
read_member(struct archive *a)
{
    size_t size = 0, capacity = 65536;
    char *bytes = malloc(capacity);
    la_ssize_t n;

    assert_non_null(bytes);
    while ((n = archive_read_data(a, bytes + size, capacity - size)) > 0) {
        size += (size_t)n;
        if (size == capacity) {
            capacity *= 2;
            bytes = realloc(bytes, capacity);
            assert_non_null(bytes);
        }
    }
    if (n < 0)
        fail_msg("%s", archive_error_string(a));
    return (struct slice){bytes, size};
}

void
unzipped_open(struct unzipped *u, struct slice bytes)
{
    struct archive *a = archive_read_new();
    struct archive_entry *entry;
    int rc;

    memset(u, 0, sizeof(*u));
    assert_int_equal(archive_read_support_format_zip(a), ARCHIVE_OK);
    if (archive_read_open_memory(a, bytes.data, bytes.size))
        fail_msg("%s", archive_error_string(a));
    while ((rc = archive_read_next_header(a, &entry)) == ARCHIVE_OK) {
        struct unzipped_member *m;

        u->members = realloc(u->members, (u->n + 1) * sizeof(*u->members));
        assert_non_null(u->members);
        m = &u->members[u->n++];
        m->name = strdup(archive_entry_pathname(entry));
        m->bytes = read_member(a);
    }
    if (rc != ARCHIVE_EOF)
        fail_msg("%s", archive_error_string(a));
    archive_read_free(a);
}

void
unzipped_close(struct unzipped *u)
{
    for (size_t i = 0; i < u->n; i++) {
        free(u->members[i].name);
        free((char *)u->members[i].bytes.data);
    }
    free(u->members);
    memset(u, 0, sizeof(*u));
}

const struct unzipped_member *
unzipped_find(const struct unzipped *u, const char *path)
{
    for (size_t i = 0; i < u->n; i++)
        if (path[0] == '/' && !strcmp(u->members[i].name, path + 1))
            return &u->members[i];
    return NULL;
}

static void
check_name(const struct unzipped *u, size_t index)
{
    const char *name = u->members[index].name;

    if (strstr(name, "..") || strchr(name, '\\') || strchr(name, ':') ||
        name[0] == '/' || name[0] == '\0')
        fail_msg("%s is no safe name", name);
    for (size_t i = 0; i < index; i++)
        if (!strcasecmp(name, u->members[i].name))
            fail_msg("%s is there twice", name);
}

static void
check_entry(const struct unzipped *u, struct xpath *x, size_t number)
{
    char question[80], sha256[DIGEST_TEXT_SIZE + 1] = "";
    const char *path = xpath_of(x, number, "rs:md/@path"), *length, *hash;
    const struct unzipped_member *m;
    struct digest digest;

    if (path[0] == '\0')
        return;
    m = unzipped_find(u, path);
    if (!m)
        fail_msg("%s is not there", path);
    length = xpath_of(x, number, "rs:md/@length");
    assert_int_equal(strtoull(length, NULL, 10), m->bytes.size);
    digest_sha256(&digest, m->bytes);
    digest_write(sha256, &digest);
    hash = xpath_of(x, number, "rs:md/@hash");
    if (!strstr(hash, sha256))
        fail_msg("%s has %s, and is told to have %s", path, sha256, hash);
    snprintf(question, sizeof(question), "count(/*/s:url/rs:md[@path='%s'])",
             path);
    assert_string_equal(xpath_get(x, question), "1");
}

void
unzipped_check(const struct unzipped *u)
{
    struct xpath x;
    size_t n;

    assert_true(u->n > 0);
    assert_string_equal(u->members[0].name, "manifest.xml");
    for (size_t i = 0; i < u->n; i++)
        check_name(u, i);
    xpath_open(&x, u->members[0].bytes);
    n = xpath_count(&x, "/s:urlset/s:url");
    for (size_t i = 1; i <= n; i++)
        check_entry(u, &x, i);
    assert_xpath_count(&x, "/s:urlset/s:url/rs:md/@path", u->n - 1);
    xpath_close(&x);
}
