#include "broker/log/list_file.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zlib.h>

#include "proto/resourcesync/document_write.h"
#include "tests/support/posts.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

#define NAME   "000000000007.xml.gz"
#define HEADER SLICE("<urlset>the header\n")

/* A log in memory, and list 7 of it, which the test's directory has. */
struct chain {
    struct tempdir dir;
    struct batch *batches[64];
    size_t n;
    uint64_t missing; /* the source does not have this entry; 0: has all */
    const struct rlimit *gives_room; /* the source lets files be as large */
    struct list_file file;
};

static int
chain_setup(void **state)
{
    struct chain *c = calloc(1, sizeof(*c));

    assert_non_null(c);
    tempdir_open(&c->dir);
    c->file.dir_fd = c->dir.fd;
    buf_init(&c->file.marks, LIST_FILE_MARKS_MAX);
    *state = c;
    return 0;
}

static void
chain_empty(struct chain *c)
{
    while (c->n > 0)
        batch_unref(c->batches[--c->n]);
}

static int
chain_teardown(void **state)
{
    struct chain *c = *state;

    chain_empty(c);
    buf_fini(&c->file.marks);
    tempdir_close(&c->dir);
    free(c);
    return 0;
}

/* `n` batches of `each` entries of `weight` bytes at least. */
static void
chain_fill(struct chain *c, size_t n, unsigned each, size_t weight)
{
    struct digest before;

    digest_sha256(&before, SLICE(POSTS_EPOCH));
    for (c->n = 0; c->n < n; c->n++) {
        unsigned after = (unsigned)c->n * each;
        struct posted p;

        posts_begin(&p, POST_CHANGES, NULL);
        for (unsigned i = 1; i <= each; i++)
            posts_add(&p, after + i, weight);
        c->batches[c->n] = posts_batch(&p, after, &before, NULL);
        before = c->batches[c->n]->digest;
        posts_end(&p);
    }
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
    if (c->gives_room)
        assert_int_equal(setrlimit(RLIMIT_FSIZE, c->gives_room), 0);
    if (c->missing != after + 1 && chain_find(c, after))
        *batch = batch_ref(chain_find(c, after));
    return STATUS_OK;
}

static struct digest
digest_at(const struct chain *c, uint64_t seq)
{
    struct digest d;

    digest_sha256(&d, SLICE(POSTS_EPOCH));
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

/* The fragments of the list. */
static void
add_fragments(struct buf *to, const struct chain *c)
{
    uint64_t after = c->file.info.after;

    while (after < c->file.info.last) {
        struct batch *b = chain_find(c, after);
        uint64_t upto =
            b->last < c->file.info.last ? b->last : c->file.info.last;

        buf_add_slice(to, batch_slice(b, after, upto));
        after = upto;
    }
}

static struct slice
read_file(struct chain *c, char **bytes)
{
    struct stat st;
    int fd = openat(c->dir.fd, NAME, O_RDONLY);

    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    *bytes = malloc((size_t)st.st_size);
    assert_non_null(*bytes);
    assert_int_equal(read(fd, *bytes, (size_t)st.st_size), st.st_size);
    close(fd);
    return (struct slice){*bytes, (size_t)st.st_size};
}

static void
write_file(struct chain *c, struct slice bytes)
{
    int fd = openat(c->dir.fd, NAME, O_WRONLY | O_CREAT | O_TRUNC, 0644);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes.data, bytes.size), bytes.size);
    close(fd);
}

/* Writes the entries after `after` up to `last`. */
static void
write_list(struct chain *c, uint64_t after, uint64_t last)
{
    struct problem why = {""};

    c->file.info = list_of(c, after, last);
    buf_clear(&c->file.marks);
    if (list_file_write(&c->file, HEADER, source, c, &why))
        fail_msg("%s", why.text);
}

static enum status
read_list(struct chain *c, uint64_t after, struct batch **b,
          struct problem *why)
{
    return list_file_read(&c->file, after, NULL, b, why);
}

/* zero-padded, and never cut. */
TEST(names_lists_by_twelve_digits_or_more)
{
    char name[LIST_FILE_NAME_MAX];

    list_file_name(name, 7);
    assert_string_equal(name, "000000000007.xml.gz");
    list_file_name(name, 999999999999);
    assert_string_equal(name, "999999999999.xml.gz");
    list_file_name(name, UINT64_MAX);
    assert_string_equal(name, "18446744073709551615.xml.gz");
}

FIXTURE(chain_setup, chain_teardown);

/* log.md, lists: one gzip member, no name, no time: nothing but the list. */
TEST(writes_one_gzip_member_that_holds_the_document)
{
    struct chain *c = *state;
    struct buf document;
    struct slice packed;
    z_stream z = {0};
    char *bytes, *plain;

    chain_fill(c, 8, 300, 0);
    write_list(c, 0, 2400);
    buf_init(&document, SIZE_MAX);
    buf_add_slice(&document, HEADER);
    add_fragments(&document, c);
    buf_add_slice(&document, document_footer_of(DOCUMENT_URLSET));

    packed = read_file(c, &bytes);
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
    assert_no_file(c->dir.fd, NAME ".new");
    free(plain);
    free(bytes);
    buf_fini(&document);
}

/* Reads everything from every place where a reader may stand; entry by entry
 * it is what the source gave. */
static void
assert_reads_back(struct chain *c)
{
    for (uint64_t after = c->file.info.after; after < c->file.info.last;
         after++) {
        struct digest a, d = digest_at(c, after + 1);
        struct batch *b, *was = chain_find(c, after);

        assert_int_equal(read_list(c, after, &b, NULL), STATUS_OK);
        assert_in_range(after + 1, b->first, b->last);
        assert_true(b->first > c->file.info.after &&
                    b->last <= c->file.info.last);
        assert_int_equal(batch_time(b, after + 1), POSTS_TIME(after + 1));
        assert_int_equal(batch_time(b, b->first - 1), POSTS_TIME(b->first - 1));
        assert_true(slice_equal(batch_slice(b, after, after + 1),
                                batch_slice(was, after, after + 1)));
        a = batch_digest(b, after + 1);
        assert_memory_equal(a.bytes, d.bytes, DIGEST_SIZE);
        batch_unref(b);
    }
}

/* design.md section 1: three tiers behind one read: the same entries, times and
 * digests come back from the file, from any position. A list may begin and end
 * anywhere in what the source gives; the largest entries are read, too. */
TEST(reads_back_every_entry_from_any_position)
{
    static const struct {
        const char *name;
        size_t n;
        unsigned each;
        size_t weight;
        uint64_t after, last;
    } rows[] = {
        {"a list of several blocks", 12, 10, 6000, 0, 120},
        {"a part of what the source gives", 6, 10, 6000, 7, 52},
        {"a list of one entry", 6, 10, 6000, 15, 16},
        {"many small entries", 2, 100, 0, 0, 200},
        {"the largest entries", 5, 1, 240000, 0, 5},
    };
    struct chain *c = *state;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        print_message("%s\n", rows[i].name);
        chain_empty(c);
        chain_fill(c, rows[i].n, rows[i].each, rows[i].weight);
        assert_true(c->batches[0]->size > rows[i].each * rows[i].weight);
        write_list(c, rows[i].after, rows[i].last);
        assert_reads_back(c);
    }
}

/* list_file.h: blocks of about 128 KiB, so that a reader in the middle need not
 * read from the beginning. */
TEST(is_entered_at_blocks_not_only_at_the_beginning)
{
    struct chain *c = *state;
    uint64_t after = 0;
    unsigned n = 0;

    chain_fill(c, 30, 200, 0);
    write_list(c, 0, 6000);
    for (; after < 6000; n++) {
        struct batch *b;

        assert_int_equal(read_list(c, after, &b, NULL), STATUS_OK);
        assert_int_equal(b->first, after + 1);
        assert_true(b->size < 131072 + 1000);
        assert_true(b->size >= 131072 || b->last == 6000);
        after = b->last;
        batch_unref(b);
    }
    assert_int_equal(after, 6000);
    assert_in_range(n, 4, 20);
}

/* written again (after a crash before it was noted), a list has the same
 * bytes. */
TEST(writes_the_same_bytes_again)
{
    struct chain *c = *state;
    char *first, *second;
    struct slice a, b;
    struct buf marks;

    chain_fill(c, 8, 300, 0);
    write_list(c, 0, 2400);
    a = read_file(c, &first);
    buf_init(&marks, 65536);
    buf_add_slice(&marks, buf_slice(&c->file.marks));
    write_list(c, 0, 2400);
    b = read_file(c, &second);
    assert_true(slice_equal(a, b));
    assert_true(slice_equal(buf_slice(&marks), buf_slice(&c->file.marks)));
    free(first);
    free(second);
    buf_fini(&marks);
}

/* a list that could not be written completely leaves nothing, and an
 * earlier file stays. */
TEST(leaves_nothing_behind_when_an_entry_is_missing)
{
    struct problem why = {""};
    struct chain *c = *state;

    chain_fill(c, 4, 100, 0);
    c->missing = 201;
    c->file.info = list_of(c, 0, 400);
    assert_int_equal(list_file_write(&c->file, HEADER, source, c, &why),
                     STATUS_IO);
    assert_string_equal(why.text, "entry 201 is missing");
    assert_no_file(c->dir.fd, NAME);
    assert_no_file(c->dir.fd, NAME ".new");

    tempdir_write(c->dir.fd, NAME, "old");
    buf_clear(&c->file.marks);
    assert_int_equal(list_file_write(&c->file, HEADER, source, c, NULL),
                     STATUS_IO);
    assert_file(c->dir.fd, NAME, "old");
}

/* Bytes that zlib cannot make fewer. */
static void
fill_with_noise(char *to, size_t size)
{
    uint32_t noise = 1;

    for (size_t i = 0; i < size; i++) {
        noise = noise * 1664525 + 1013904223;
        to[i] = (char)(noise >> 24);
    }
}

/* A list of some megabytes is written in several steps; one that fails in the
 * middle leaves nothing, though there is room again for the rest. */
TEST(writes_a_large_list_in_steps)
{
    static char noise[3000000];
    struct slice header = {noise, sizeof(noise)};
    struct problem why = {""};
    struct chain *c = *state;
    struct rlimit limit, was;

    fill_with_noise(noise, sizeof(noise));
    chain_fill(c, 4, 100, 0);
    c->file.info = list_of(c, 0, 400);
    if (list_file_write(&c->file, header, source, c, &why))
        fail_msg("%s", why.text);
    assert_true(list_file_size(c->dir.fd, 7) > sizeof(noise));
    assert_reads_back(c);
    assert_int_equal(unlinkat(c->dir.fd, NAME, 0), 0);

    buf_clear(&c->file.marks);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    limit = (struct rlimit){sizeof(noise) / 2, was.rlim_max};
    c->gives_room = &was;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(list_file_write(&c->file, header, source, c, &why),
                     STATUS_IO);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    assert_string_equal(why.text, "cannot write " NAME ": File too large");
    assert_no_file(c->dir.fd, NAME);
    assert_no_file(c->dir.fd, NAME ".new");
}

static void
assert_unreadable(struct chain *c, const char *sentence)
{
    struct problem why = {""};
    struct batch *b = NULL;

    assert_int_equal(read_list(c, 0, &b, &why), STATUS_IO);
    assert_null(b);
    assert_string_equal(why.text, sentence);
}

/* the error names the file that cannot be read. */
TEST(says_which_file_cannot_be_read)
{
    struct chain *c = *state;
    struct slice packed;
    char *bytes;
    size_t size;

    chain_fill(c, 4, 100, 0);
    write_list(c, 0, 400);
    packed = read_file(c, &bytes);

    size = c->file.marks.size;
    c->file.marks.size = 0;
    assert_unreadable(c, "list " NAME " has no marks");
    c->file.marks.size = size;
    write_file(c, (struct slice){bytes, packed.size / 2});
    assert_unreadable(c, NAME " is damaged");
    write_file(c, SLICE(""));
    assert_unreadable(c, NAME " is damaged");
    assert_int_equal(unlinkat(c->dir.fd, NAME, 0), 0);
    assert_unreadable(c, "cannot read " NAME ": No such file or directory");
    free(bytes);
}

/* design.md section 1: history proves itself. If any byte of the entries
 * differs from the written one, the reader reports it; it never serves other
 * entries than the accepted ones. */
TEST(never_serves_other_bytes_than_were_written)
{
    struct chain *c = *state;
    struct slice packed;
    struct buf was;
    char *bytes;

    chain_fill(c, 1, 100, 0);
    write_list(c, 0, 100);
    packed = read_file(c, &bytes);
    buf_init(&was, SIZE_MAX);
    add_fragments(&was, c);
    for (size_t at = 0; at < packed.size; at++) {
        struct problem why = {""};
        struct batch *b;

        bytes[at] ^= 0x10;
        write_file(c, packed);
        bytes[at] ^= 0x10;
        if (read_list(c, 0, &b, &why)) {
            assert_null(b);
            assert_true(why.text[0] != '\0');
            continue;
        }
        assert_true(slice_equal(batch_slice(b, 0, 100), buf_slice(&was)));
        batch_unref(b);
    }
    free(bytes);
    buf_fini(&was);
}
