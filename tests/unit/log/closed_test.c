#include "broker/log/closed.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zlib.h>

#include "proto/document.h"
#include "tests/support/posts.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

#define NAME   "000000000007.xml.gz"
#define HEADER SLICE("<urlset>the header\n")

/* A log in memory: `n` batches of `each` entries. */
struct chain {
    struct batch *batches[64];
    size_t n;
    uint64_t missing; /* the source does not have this entry; 0: has all */
};

static void
chain_open(struct chain *c, size_t n, unsigned each)
{
    *c = (struct chain){.n = n};
    posts_chain(c->batches, n, each);
}

static void
chain_close(struct chain *c)
{
    for (size_t i = 0; i < c->n; i++)
        batch_unref(c->batches[i]);
}

static struct batch *
chain_find(const struct chain *c, uint64_t after)
{
    for (size_t i = 0; i < c->n; i++)
        if (after < c->batches[i]->last)
            return c->batches[i];
    return NULL;
}

static enum status
source(void *user, uint64_t after, struct batch **batch, struct problem *why)
{
    struct chain *c = user;

    (void)why;
    *batch = NULL;
    if (c->missing != after + 1 && chain_find(c, after))
        *batch = batch_ref(chain_find(c, after));
    return STATUS_OK;
}

static struct digest
digest_at(const struct chain *c, uint64_t seq)
{
    struct digest d;

    digest_start(&d, SLICE(POSTS_EPOCH));
    return seq == 0 ? d : batch_digest(chain_find(c, seq - 1), seq);
}

/* List 7: the entries after `after` up to `last`. */
static struct list_info
list_of(const struct chain *c, uint64_t after, uint64_t last)
{
    return (struct list_info){
        .number = 7,
        .after = after,
        .last = last,
        .from_us = POSTS_TIME(after),
        .until_us = POSTS_TIME(last),
        .before = digest_at(c, after),
        .digest = digest_at(c, last),
    };
}

/* The fragments of a list. */
static void
add_fragments(struct buf *to, const struct chain *c, uint64_t after,
              uint64_t last)
{
    while (after < last) {
        struct batch *b = chain_find(c, after);
        uint64_t upto = b->last < last ? b->last : last;

        buf_add_slice(to, batch_slice(b, after, upto));
        after = upto;
    }
}

static struct slice
read_file(int dir_fd, const char *name, char **bytes)
{
    struct stat st;
    int fd = openat(dir_fd, name, O_RDONLY);

    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    *bytes = malloc((size_t)st.st_size);
    assert_non_null(*bytes);
    assert_int_equal(read(fd, *bytes, (size_t)st.st_size), st.st_size);
    close(fd);
    return (struct slice){*bytes, (size_t)st.st_size};
}

static void
write_file(int dir_fd, const char *name, struct slice bytes)
{
    int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC, 0644);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes.data, bytes.size), bytes.size);
    close(fd);
}

static void
write_list(int dir_fd, struct chain *c, const struct list_info *info,
           struct buf *marks)
{
    struct problem why = {""};

    buf_init(marks, 65536);
    if (closed_write(dir_fd, info, HEADER, source, c, marks, &why))
        fail_msg("%s", why.text);
}

/* zero-padded, and never cut. */
TEST(names_lists_by_twelve_digits_or_more)
{
    char name[CLOSED_NAME_MAX];

    closed_name(name, 7);
    assert_string_equal(name, "000000000007.xml");
    closed_name(name, 999999999999);
    assert_string_equal(name, "999999999999.xml");
    closed_name(name, UINT64_MAX);
    assert_string_equal(name, "18446744073709551615.xml");
}

/* log.md, lists: one gzip member, no name, no time: nothing but the list. */
TEST(writes_one_gzip_member_that_holds_the_document, tempdir_setup,
     tempdir_teardown)
{
    struct buf marks, document;
    struct list_info info;
    struct slice packed;
    struct chain c;
    z_stream z = {0};
    char *bytes, *plain;

    chain_open(&c, 8, 300);
    info = list_of(&c, 0, 2400);
    write_list(tempdir_fd(state), &c, &info, &marks);
    buf_init(&document, SIZE_MAX);
    buf_add_slice(&document, HEADER);
    add_fragments(&document, &c, 0, 2400);
    buf_add_slice(&document, document_footer_of(DOCUMENT_URLSET));

    packed = read_file(tempdir_fd(state), NAME, &bytes);
    assert_memory_equal(bytes, "\x1f\x8b\x08\0\0\0\0\0", 8);
    plain = malloc(document.size + 1);
    assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
    z.next_in = (Bytef *)bytes;
    z.avail_in = (uInt)packed.size;
    z.next_out = (Bytef *)plain;
    z.avail_out = (uInt)document.size + 1;
    assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
    assert_int_equal(z.avail_in, 0);
    assert_int_equal(z.total_out, document.size);
    assert_memory_equal(plain, document.data, document.size);
    inflateEnd(&z);
    assert_no_file(tempdir_fd(state), NAME ".new");
    free(plain);
    free(bytes);
    buf_fini(&document);
    buf_fini(&marks);
    chain_close(&c);
}

/* Reads everything from every place where a reader may stand; entry by entry
 * it is what the source gave. */
static void
assert_reads_back(int dir_fd, const struct chain *c,
                  const struct list_info *info, const struct buf *marks)
{
    for (uint64_t after = info->after; after < info->last; after++) {
        struct batch *b, *was;
        struct digest a, d;

        assert_int_equal(
            closed_read(dir_fd, info, buf_slice(marks), after, NULL, &b, NULL),
            STATUS_OK);
        assert_in_range(after + 1, b->first, b->last);
        assert_true(b->first > info->after && b->last <= info->last);
        was = chain_find(c, after);
        assert_int_equal(batch_time(b, after + 1), POSTS_TIME(after + 1));
        assert_int_equal(batch_time(b, b->first - 1), POSTS_TIME(b->first - 1));
        assert_true(slice_equal(batch_slice(b, after, after + 1),
                                batch_slice(was, after, after + 1)));
        if (after % 97 == 0 || after + 1 == b->last) {
            a = batch_digest(b, after + 1);
            d = digest_at(c, after + 1);
            assert_memory_equal(a.bytes, d.bytes, DIGEST_SIZE);
        }
        batch_unref(b);
    }
}

/* design.md section 1: three tiers behind one read: the same entries, times and
 * digests come back from the file, from any position. */
TEST(reads_back_every_entry_from_any_position, tempdir_setup, tempdir_teardown)
{
    struct list_info info;
    struct buf marks;
    struct chain c;

    chain_open(&c, 12, 300);
    info = list_of(&c, 0, 3600);
    write_list(tempdir_fd(state), &c, &info, &marks);
    assert_reads_back(tempdir_fd(state), &c, &info, &marks);
    buf_fini(&marks);
    chain_close(&c);
}

/* A list may begin and end anywhere in what the source gives. */
TEST(takes_only_the_entries_of_its_list, tempdir_setup, tempdir_teardown)
{
    struct list_info info;
    struct buf marks;
    struct chain c;

    chain_open(&c, 6, 200);
    info = list_of(&c, 150, 1030);
    write_list(tempdir_fd(state), &c, &info, &marks);
    assert_reads_back(tempdir_fd(state), &c, &info, &marks);
    buf_fini(&marks);

    info = list_of(&c, 301, 302); /* a list of one entry */
    write_list(tempdir_fd(state), &c, &info, &marks);
    assert_reads_back(tempdir_fd(state), &c, &info, &marks);
    buf_fini(&marks);
    chain_close(&c);
}

/* closed.h: blocks of about 128 KiB and a batch, so that a reader in the middle
 * need not read from the beginning. */
TEST(is_entered_at_blocks_not_only_at_the_beginning, tempdir_setup,
     tempdir_teardown)
{
    struct list_info info;
    struct buf marks;
    struct chain c;
    uint64_t after = 0;
    unsigned n = 0;

    chain_open(&c, 30, 200);
    info = list_of(&c, 0, 6000);
    write_list(tempdir_fd(state), &c, &info, &marks);
    while (after < 6000) {
        struct batch *b;

        assert_int_equal(closed_read(tempdir_fd(state), &info,
                                     buf_slice(&marks), after, NULL, &b, NULL),
                         STATUS_OK);
        assert_int_equal(b->first, after + 1);
        assert_true(b->size <= 131072 + BATCH_BYTES_MAX);
        after = b->last;
        n++;
        batch_unref(b);
    }
    assert_int_equal(after, 6000);
    assert_in_range(n, 4, 20);
    buf_fini(&marks);
    chain_close(&c);
}

/* The largest batches there may be, of entries as large as they may be. */
TEST(holds_entries_of_the_largest_size, tempdir_setup, tempdir_teardown)
{
    struct list_info info;
    struct digest before;
    struct buf marks;
    struct chain c = {.n = 5};

    digest_start(&before, SLICE(POSTS_EPOCH));
    for (unsigned i = 0; i < 5; i++) {
        struct posted p;

        posts_begin(&p, POST_CHANGES, NULL);
        posts_add(&p, i + 1, 240000);
        c.batches[i] = posts_batch(&p, i, &before, NULL);
        assert_true(c.batches[i]->size > 240000);
        before = c.batches[i]->digest;
        posts_end(&p);
    }
    info = list_of(&c, 0, 5);
    write_list(tempdir_fd(state), &c, &info, &marks);
    assert_reads_back(tempdir_fd(state), &c, &info, &marks);
    buf_fini(&marks);
    chain_close(&c);
}

/* written again (after a crash before it was noted), a list has the same
 * bytes. */
TEST(writes_the_same_bytes_again, tempdir_setup, tempdir_teardown)
{
    char *first, *second;
    struct slice a, b;
    struct list_info info;
    struct buf marks, again;
    struct chain c;

    chain_open(&c, 8, 300);
    info = list_of(&c, 0, 2400);
    write_list(tempdir_fd(state), &c, &info, &marks);
    a = read_file(tempdir_fd(state), NAME, &first);
    write_list(tempdir_fd(state), &c, &info, &again);
    b = read_file(tempdir_fd(state), NAME, &second);
    assert_true(slice_equal(a, b));
    assert_true(slice_equal(buf_slice(&marks), buf_slice(&again)));
    free(first);
    free(second);
    buf_fini(&marks);
    buf_fini(&again);
    chain_close(&c);
}

/* a list that could not be written whole leaves nothing, and what stood
 * there stays. */
TEST(leaves_nothing_behind_when_an_entry_is_missing, tempdir_setup,
     tempdir_teardown)
{
    struct list_info info;
    struct problem why = {""};
    struct buf marks;
    struct chain c;

    chain_open(&c, 4, 100);
    c.missing = 201;
    info = list_of(&c, 0, 400);
    buf_init(&marks, 65536);
    assert_int_equal(closed_write(tempdir_fd(state), &info, HEADER, source, &c,
                                  &marks, &why),
                     STATUS_IO);
    assert_string_equal(why.text, "entry 201 is missing");
    assert_no_file(tempdir_fd(state), NAME);
    assert_no_file(tempdir_fd(state), NAME ".new");

    tempdir_write(tempdir_fd(state), NAME, "old");
    buf_clear(&marks);
    assert_int_equal(closed_write(tempdir_fd(state), &info, HEADER, source, &c,
                                  &marks, NULL),
                     STATUS_IO);
    assert_file(tempdir_fd(state), NAME, "old");
    buf_fini(&marks);
    chain_close(&c);
}

static void
assert_unreadable(void **state, const struct list_info *info,
                  const struct buf *marks, const char *sentence)
{
    struct problem why = {""};
    struct batch *b = NULL;

    assert_int_equal(closed_read(tempdir_fd(state), info, buf_slice(marks), 0,
                                 NULL, &b, &why),
                     STATUS_IO);
    assert_null(b);
    assert_string_equal(why.text, sentence);
}

/* what cannot be read is said, with its name. */
TEST(says_which_file_cannot_be_read, tempdir_setup, tempdir_teardown)
{
    struct list_info info;
    struct slice packed;
    struct buf marks, none;
    struct chain c;
    char *bytes;

    chain_open(&c, 4, 100);
    info = list_of(&c, 0, 400);
    write_list(tempdir_fd(state), &c, &info, &marks);
    packed = read_file(tempdir_fd(state), NAME, &bytes);
    buf_init(&none, 64);

    assert_unreadable(state, &info, &none, "list " NAME " has no marks");
    write_file(tempdir_fd(state), NAME, (struct slice){bytes, packed.size / 2});
    assert_unreadable(state, &info, &marks, NAME " is damaged");
    write_file(tempdir_fd(state), NAME, SLICE(""));
    assert_unreadable(state, &info, &marks, NAME " is damaged");
    assert_int_equal(unlinkat(tempdir_fd(state), NAME, 0), 0);
    assert_unreadable(state, &info, &marks,
                      "cannot read " NAME ": No such file or directory");
    free(bytes);
    buf_fini(&marks);
    chain_close(&c);
}

/* design.md section 1: history proves itself. Whichever byte of the entries is
 * not what was written, it is said; other entries than those that were accepted
 * are never served. */
TEST(never_serves_other_bytes_than_were_written, tempdir_setup,
     tempdir_teardown)
{
    struct list_info info;
    struct slice packed;
    struct buf marks, was;
    struct chain c;
    char *bytes;

    chain_open(&c, 1, 100);
    info = list_of(&c, 0, 100);
    write_list(tempdir_fd(state), &c, &info, &marks);
    packed = read_file(tempdir_fd(state), NAME, &bytes);
    buf_init(&was, SIZE_MAX);
    add_fragments(&was, &c, 0, 100);
    for (size_t at = 0; at < packed.size; at++) {
        struct problem why = {""};
        struct batch *b;

        bytes[at] ^= 0x10;
        write_file(tempdir_fd(state), NAME, packed);
        bytes[at] ^= 0x10;
        if (closed_read(tempdir_fd(state), &info, buf_slice(&marks), 0, NULL,
                        &b, &why)) {
            assert_null(b);
            assert_true(why.text[0] != '\0');
            continue;
        }
        assert_true(slice_equal(batch_slice(b, 0, 100), buf_slice(&was)));
        batch_unref(b);
    }
    free(bytes);
    buf_fini(&was);
    buf_fini(&marks);
    chain_close(&c);
}
