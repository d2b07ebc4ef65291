#include "tests/support/kept.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "broker/state/content_files.h"
#include "tests/test.h"

void
kept_text(char to[KEPT_SIZE], unsigned n)
{
    snprintf(to, KEPT_SIZE, "bytes of %u\n", n);
}

uint64_t
kept_length(unsigned n)
{
    char text[KEPT_SIZE];

    kept_text(text, n);
    return strlen(text);
}

void
kept_digest(struct digest *digest, unsigned n)
{
    char text[KEPT_SIZE];

    kept_text(text, n);
    digest_sha256(digest, slice_of(text));
}

void
kept_hash(char to[DIGEST_TEXT_SIZE + 1], unsigned n)
{
    struct digest digest;

    kept_digest(&digest, n);
    digest_write(to, &digest);
    to[DIGEST_TEXT_SIZE] = '\0';
}

void
kept_path(char to[KEPT_PATH_SIZE], unsigned n)
{
    char hash[DIGEST_TEXT_SIZE + 1];
    const char *hex = hash + strlen("sha-256:");

    kept_hash(hash, n);
    snprintf(to, KEPT_PATH_SIZE, "content/%.2s/%s", hex, hex);
}

void
kept_place(const char *set_dir, const char *arriving, unsigned n)
{
    struct content_touched touched = {{0}};
    struct problem why = {""};
    char text[KEPT_SIZE];
    struct arriving a;
    enum status rc;

    kept_text(text, n);
    rc = arriving_begin(&a, arriving, (struct slice){NULL, 0}, LENGTH_NONE,
                        &why);
    if (!rc)
        rc = arriving_add(&a, slice_of(text), &why);
    if (!rc)
        rc = arriving_end(&a, &why);
    if (!rc)
        rc = content_file_place(set_dir, &a, &why);
    if (rc)
        fail_msg("%s", why.text);
    content_touch(&touched, &a.digest);
    assert_int_equal(content_files_sync(set_dir, &touched, &why), STATUS_OK);
    arriving_abandon(&a);
}

bool
kept_is_there(const char *set_dir, unsigned n)
{
    char text[KEPT_SIZE], is[KEPT_SIZE];
    struct digest digest;
    uint64_t length;
    int fd;

    kept_text(text, n);
    kept_digest(&digest, n);
    if (content_file_open(set_dir, &digest, &fd, &length, NULL))
        return false;
    assert_int_equal(length, strlen(text));
    assert_int_equal(read(fd, is, sizeof(is)), (ssize_t)length);
    assert_memory_equal(is, text, length);
    close(fd);
    return true;
}
