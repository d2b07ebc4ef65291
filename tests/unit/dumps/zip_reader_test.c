#include "client/dumps/zip_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/tempdir.h"
#include "tests/support/zips.h"
#include "tests/test.h"

#define NONE ((struct slice){NULL, 0})

/* Of "one". */
#define MD5_ONE "md5:f97c5d29941bfb1b2fdab0874906ab82"

static struct zip_reader *
opened(void **state, const char *name)
{
    struct zip_reader *package;
    struct problem why;
    enum status rc = zip_reader_open(&package, tempdir_fd(state), name, &why);

    if (rc)
        fail_msg("%s", why.text);
    return package;
}

static void
is_refused(void **state, const char *name, const char *because)
{
    struct zip_reader *package;
    struct problem why;

    assert_int_equal(zip_reader_open(&package, tempdir_fd(state), name, &why),
                     STATUS_MALFORMED);
    assert_null(package);
    if (!strstr(why.text, because))
        fail_msg("\"%s\" does not say \"%s\"", why.text, because);
}

static void
expect(struct zip_reader *package, const char *path, uint64_t length,
       const char *hash)
{
    struct problem why;

    assert_int_equal(zip_reader_expect(package, slice_of(path), length,
                                       slice_of(hash), &why),
                     STATUS_OK);
}

/* Takes a member to its end. */
static enum status
take(struct zip_reader *package, const char *path,
     char name[ZIP_READER_NAME_SIZE], struct problem *why)
{
    enum status rc = zip_reader_find(package, slice_of(path), why);
    bool is_over = false;

    while (!rc && !is_over)
        rc = zip_reader_take(package, &is_over, name, why);
    return rc;
}

static void
takes(void **state, struct zip_reader *package, const char *path,
      const char *text)
{
    char name[ZIP_READER_NAME_SIZE];
    struct problem why;

    if (take(package, path, name, &why))
        fail_msg("%s", why.text);
    assert_file(tempdir_fd(state), name, text);
    assert_int_equal(unlinkat(tempdir_fd(state), name, 0), 0);
}

static void
takes_not(struct zip_reader *package, const char *path, const char *because)
{
    char name[ZIP_READER_NAME_SIZE];
    struct problem why;

    assert_int_equal(take(package, path, name, &why), STATUS_MALFORMED);
    if (!strstr(why.text, because))
        fail_msg("\"%s\" does not say \"%s\"", why.text, because);
}

static size_t
manifest_size(struct zip_reader *package, char *text, size_t size)
{
    struct slice piece;
    struct problem why;
    size_t sum = 0;

    do {
        assert_int_equal(zip_reader_manifest(package, &piece, &why), STATUS_OK);
        assert_true(sum + piece.size < size);
        if (piece.size)
            memcpy(text + sum, piece.data, piece.size);
        sum += piece.size;
    } while (piece.size);
    text[sum] = '\0';
    return sum;
}

static void
write_two(void **state, const char *name, bool is_last)
{
    struct zips z;

    zips_begin(&z, tempdir_fd(state), name);
    if (!is_last)
        zips_add(&z, "manifest.xml", SLICE("<urlset/>"));
    zips_add(&z, "resources/1.txt", SLICE("one"));
    zips_add(&z, "2", SLICE("two"));
    if (is_last)
        zips_add(&z, "manifest.xml", SLICE("<urlset/>"));
    zips_end(&z);
}

FIXTURE(tempdir_setup, tempdir_teardown);

/* wherever the manifest stands in the archive, it is found, and
 * as often as asked for. */
TEST(the_manifest_is_read_from_the_front_and_from_the_end)
{
    char text[100];

    for (int is_last = 0; is_last < 2; is_last++) {
        struct zip_reader *package;

        write_two(state, "p.zip", is_last);
        package = opened(state, "p.zip");
        assert_int_equal(manifest_size(package, text, sizeof(text)), 9);
        assert_string_equal(text, "<urlset/>");
        assert_int_equal(manifest_size(package, text, sizeof(text)), 9);
        zip_reader_close(package);
    }
}

/* members are named by `path`, with a leading slash; some write none. */
TEST(members_are_taken_in_whatever_order)
{
    struct zip_reader *package;

    write_two(state, "p.zip", true);
    package = opened(state, "p.zip");
    expect(package, "/resources/1.txt", 3, MD5_ONE);
    expect(package, "2", LENGTH_NONE, "");
    takes(state, package, "/2", "two");
    takes(state, package, "/resources/1.txt", "one");
    takes_not(package, "/2", "is named twice");
    takes_not(package, "/3", "has no member \"/3\"");
    takes_not(package, "/manifest.xml", "has no member");
    zip_reader_close(package);
}

/* a wrong member leaves the others as they are. */
TEST(a_member_that_is_not_what_was_told_has_no_file)
{
    struct zip_reader *package;
    struct stat st;

    write_two(state, "p.zip", false);
    package = opened(state, "p.zip");
    expect(package, "/resources/1.txt", LENGTH_NONE,
           "md5:00000000000000000000000000000000");
    expect(package, "/2", 3, "");
    takes_not(package, "/resources/1.txt",
              "\"/resources/1.txt\" in the package md5 is "
              "f97c5d29941bfb1b2fdab0874906ab82, the source announced 0000");
    takes(state, package, "/2", "two");
    takes_not(package, "/resources/1.txt", "md5 is");
    zip_reader_close(package);
    assert_int_equal(fstatat(tempdir_fd(state), "m0", &st, 0), -1);

    package = opened(state, "p.zip");
    expect(package, "/resources/1.txt", 2, "");
    expect(package, "/2", 4, "");
    takes_not(package, "/2", "has 3 bytes, the source announced 4");
    takes_not(package, "/resources/1.txt", "is longer than the 2 bytes");
    zip_reader_close(package);
}

/* Members that were set aside for later go with the package. */
TEST(closing_leaves_nothing_behind)
{
    struct zip_reader *package;

    write_two(state, "p.zip", false);
    package = opened(state, "p.zip");
    expect(package, "/resources/1.txt", 3, "");
    expect(package, "/2", 3, "");
    takes(state, package, "/2", "two");
    assert_file(tempdir_fd(state), "m0", "one");
    zip_reader_close(package);
    assert_no_file(tempdir_fd(state), "m0");
    assert_no_file(tempdir_fd(state), "m1");
}

/* names that lead out are nobody's, and so are links. */
TEST(hostile_members_are_not_there)
{
    static const char *const names[] = {
        "../out", "a/../../out", "/etc/out", "C:/out",  "a\\out", "..",
        "a/..",   "//etc/out",   "link",     "folder/", "",
    };
    struct zip_reader *package;
    struct zips z;

    zips_begin(&z, tempdir_fd(state), "p.zip");
    zips_add(&z, "manifest.xml", SLICE("<urlset/>"));
    for (size_t i = 0; i < 7; i++)
        zips_add(&z, names[i], SLICE("x"));
    zips_add_link(&z, "link", "/etc/passwd");
    zips_add_folder(&z, "folder/");
    zips_add(&z, "./a/..b/c", SLICE("good"));
    zips_end(&z);

    package = opened(state, "p.zip");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        expect(package, names[i], LENGTH_NONE, "");
        takes_not(package, names[i], "has no member");
    }
    expect(package, "/a/..b/c", LENGTH_NONE, "");
    takes(state, package, "/a/..b/c", "good");
    zip_reader_close(package);
}

/* A file of the scratch directory that a stranger made a link does not lead the
 * bytes elsewhere. */
TEST(nothing_is_written_through_a_link)
{
    struct zip_reader *package;

    write_two(state, "p.zip", false);
    tempdir_write(tempdir_fd(state), "victim", "as it was");
    assert_int_equal(symlinkat("victim", tempdir_fd(state), "m0"), 0);
    package = opened(state, "p.zip");
    expect(package, "/resources/1.txt", 3, "");
    takes(state, package, "/resources/1.txt", "one");
    zip_reader_close(package);
    assert_file(tempdir_fd(state), "victim", "as it was");
}

TEST(members_that_are_twice_there_are_refused)
{
    struct zips z;

    zips_begin(&z, tempdir_fd(state), "p.zip");
    zips_add(&z, "manifest.xml", SLICE("<urlset/>"));
    zips_add(&z, "a", SLICE("1"));
    zips_add(&z, "b", SLICE("1"));
    zips_add(&z, "./a", SLICE("2"));
    zips_end(&z);
    is_refused(state, "p.zip", "two members \"/a\"");

    zips_begin(&z, tempdir_fd(state), "p.zip");
    zips_add(&z, "manifest.xml", SLICE("<urlset/>"));
    zips_add(&z, "manifest.xml", SLICE("<urlset/>"));
    zips_end(&z);
    is_refused(state, "p.zip", "two members manifest.xml");
}

TEST(encrypted_packages_are_refused)
{
    struct zips z;

    zips_begin(&z, tempdir_fd(state), "p.zip");
    zips_encrypt(&z);
    zips_add(&z, "manifest.xml", SLICE("<urlset/>"));
    zips_end(&z);
    is_refused(state, "p.zip", "is encrypted");
}

TEST(what_is_no_package_is_refused)
{
    struct zip_reader *package;
    struct problem why;
    struct zips z;
    char bytes[4096];
    int fd;

    tempdir_write(tempdir_fd(state), "p.zip", "<html>not found</html>");
    is_refused(state, "p.zip", "is not a ZIP package");
    tempdir_write(tempdir_fd(state), "p.zip", "");
    is_refused(state, "p.zip", "is not a ZIP package");

    zips_begin(&z, tempdir_fd(state), "p.zip");
    zips_add(&z, "folder/manifest.xml", SLICE("<urlset/>"));
    zips_end(&z);
    is_refused(state, "p.zip", "has no member manifest.xml");

    write_two(state, "p.zip", false);
    fd = openat(tempdir_fd(state), "p.zip", O_RDWR);
    assert_true(read(fd, bytes, sizeof(bytes)) > 60);
    assert_int_equal(ftruncate(fd, 60), 0);
    close(fd);
    is_refused(state, "p.zip", "is not a ZIP package");

    assert_int_equal(
        zip_reader_open(&package, tempdir_fd(state), "none.zip", &why),
        STATUS_IO);
    assert_string_equal(why.text,
                        "cannot read none.zip: No such file or directory");
}

/* A bomb is unpacked up to its stated length, and not a byte further. */
TEST(a_bomb_ends_at_the_length_that_was_told)
{
    struct zip_reader *package;
    struct zips z;

    zips_begin(&z, tempdir_fd(state), "p.zip");
    zips_add(&z, "manifest.xml", SLICE("<urlset/>"));
    zips_add_zeros(&z, "bomb", 64 * 1024 * 1024);
    zips_add(&z, "after", SLICE("well"));
    zips_end(&z);

    package = opened(state, "p.zip");
    expect(package, "/bomb", 1000, "");
    expect(package, "/after", 4, "");
    takes_not(package, "/bomb", "is longer than the 1000 bytes");
    takes(state, package, "/after", "well");
    zip_reader_close(package);
}

/* A large member is unpacked a part at a time, as others wait on the loop. */
TEST(large_members_take_several_steps)
{
    struct zip_reader *package;
    struct problem why;
    char name[ZIP_READER_NAME_SIZE];
    bool is_over = false;
    unsigned n_steps = 0;
    struct stat st;
    struct zips z;

    zips_begin(&z, tempdir_fd(state), "p.zip");
    zips_add_zeros(&z, "large", 64 * 1024 * 1024);
    zips_add(&z, "manifest.xml", SLICE("<urlset/>"));
    zips_end(&z);

    package = opened(state, "p.zip");
    expect(package, "/large", 64 * 1024 * 1024, "");
    assert_int_equal(zip_reader_find(package, SLICE("/large"), &why),
                     STATUS_OK);
    for (; !is_over; n_steps++)
        assert_int_equal(zip_reader_take(package, &is_over, name, &why),
                         STATUS_OK);
    assert_true(n_steps >= 10);
    assert_int_equal(fstatat(tempdir_fd(state), name, &st, 0), 0);
    assert_int_equal(st.st_size, 64 * 1024 * 1024);
    zip_reader_close(package);
}

/* Writes over the first bytes that the n-th member has in the archive. */
static void
damage(void **state, unsigned n, const char *bytes, size_t skip)
{
    static char archive[100000];
    int fd = openat(tempdir_fd(state), "p.zip", O_RDWR);
    ssize_t size = read(fd, archive, sizeof(archive));
    const char *at = archive - 1;
    const unsigned char *u;
    off_t data;

    assert_true(size > 0 && size < (ssize_t)sizeof(archive));
    for (unsigned i = 0; i <= n; i++) {
        at++;
        at = memmem(at, (size_t)(archive + size - at), "PK\3\4", 4);
        assert_non_null(at);
    }
    u = (const unsigned char *)at;
    data = at - archive + 30 + u[26] + 256 * u[27] + u[28] + 256 * u[29];
    assert_int_equal(pwrite(fd, bytes, strlen(bytes), data + (off_t)skip),
                     strlen(bytes));
    close(fd);
}

/* Damaged bytes break their member; the members behind it are whole. */
TEST(damaged_bytes_break_one_member)
{
    static const struct {
        const char *bytes;
        size_t skip;
    } damages[] = {
        {"\xff\xff\xff", 0},    /* no block of deflate begins so */
        {"damage damage", 200}, /* a CRC that does not match, or the like */
    };

    char noise[20000];
    struct zip_reader *package;
    struct zips z;

    for (size_t i = 0; i < sizeof(noise); i++)
        noise[i] = (char)(i * i >> 3);
    for (unsigned i = 0; i < 2; i++) {
        zips_begin(&z, tempdir_fd(state), "p.zip");
        zips_add(&z, "a", SLICE("before"));
        zips_add(&z, "b", (struct slice){noise, sizeof(noise)});
        zips_add(&z, "c", SLICE("after"));
        zips_add(&z, "manifest.xml", SLICE("<urlset/>"));
        zips_end(&z);
        damage(state, 1, damages[i].bytes, damages[i].skip);

        package = opened(state, "p.zip");
        expect(package, "/a", LENGTH_NONE, "");
        expect(package, "/b", LENGTH_NONE, "");
        expect(package, "/c", LENGTH_NONE, "");
        takes(state, package, "/c", "after");
        takes_not(package, "/b", "cannot be unpacked");
        takes(state, package, "/a", "before");
        zip_reader_close(package);
    }
}

/* In a process without a locale, too. */
TEST(names_in_utf8_are_found)
{
    static const char name[] = "\xc3\xa9t\xc3\xa9/\xe6\x97\xa5\xe6\x9c\xac.txt";
    struct zip_reader *package;
    struct zips z;

    zips_begin(&z, tempdir_fd(state), "p.zip");
    zips_add(&z, name, SLICE("summer"));
    zips_add(&z, "manifest.xml", SLICE("<urlset/>"));
    zips_end(&z);

    package = opened(state, "p.zip");
    expect(package, name, LENGTH_NONE, "");
    takes(state, package, name, "summer");
    zip_reader_close(package);
}
