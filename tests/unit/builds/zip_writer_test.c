#include "broker/builds/zip_writer.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "proto/resourcesync/vocab.h"
#include "tests/support/shell.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

/* 2026-04-01T18:10:00Z */
#define TIME_US INT64_C(1775067000000000)

static struct zip_writer *
begin(void **state)
{
    struct problem why = {""};
    struct zip_writer *p;

    if (zip_writer_begin(&p, tempdir_fd(state), "p.zip", TIME_US, &why))
        fail_msg("%s", why.text);
    return p;
}

static void
add_manifest(struct zip_writer *p, const char *text)
{
    struct slice bytes = slice_of(text);
    struct problem why = {""};

    if (zip_writer_begin_manifest(p, bytes.size, &why) ||
        zip_writer_add(p, bytes, &why))
        fail_msg("%s", why.text);
}

/* A file of the directory as a member. */
static enum status
take(void **state, struct zip_writer *p, const char *file, uint64_t number,
     bool is_deflated, uint64_t length, const struct digest *digest,
     struct problem *why)
{
    int fd = openat(tempdir_fd(state), file, O_RDONLY | O_CLOEXEC);
    struct zip_writer_member member = {
        .is_deflated = is_deflated, .digest = *digest, .length = length};
    enum status rc;
    bool is_over = false;

    assert_true(fd >= 0);
    zip_writer_name(&member.name, number, SLICE(""), SLICE("text/csv"));
    rc = zip_writer_take(p, &member, fd, why);
    while (!rc && !is_over)
        rc = zip_writer_copy(p, &is_over, why);
    return rc;
}

static void
take_text(void **state, struct zip_writer *p, const char *text, uint64_t number,
          bool is_deflated)
{
    struct problem why = {""};
    struct digest digest;

    tempdir_write(tempdir_fd(state), "source", text);
    digest_sha256(&digest, slice_of(text));
    if (take(state, p, "source", number, is_deflated, strlen(text), &digest,
             &why))
        fail_msg("%s", why.text);
}

/* A file of zeros that takes no room. */
static void
make_large(void **state, const char *name, uint64_t length)
{
    int fd =
        openat(tempdir_fd(state), name, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)length), 0);
    close(fd);
}

static struct zip_writer_file
finish(struct zip_writer *p)
{
    struct zip_writer_file file;
    struct problem why = {""};

    if (zip_writer_finish(p, &file, &why))
        fail_msg("%s", why.text);
    return file;
}

/* Asserts the output of a command about the package, in its directory. */
static void
assert_says(void **state, const char *line, const char *says)
{
    char *said = shell("cd '%s' && %s", tempdir_path(state), line);

    assert_string_equal(said, says);
    free(said);
}

FIXTURE(tempdir_setup, tempdir_teardown);

/* the manifest comes first, and each member's bytes are
 * what they were. */
TEST(common_tools_open_it)
{
    struct zip_writer *p = begin(state);
    struct zip_writer_file file;
    struct stat st;

    add_manifest(p, "<urlset/>\n");
    take_text(state, p, "a,b\n1,2\n", 1, true);
    take_text(state, p, "", 2, true);
    take_text(state, p, "a,b\n3,4\n", 3, false);
    file = finish(p);

    shell_do("cd '%s' && unzip -t p.zip", tempdir_path(state));
    assert_says(state, "unzip -p p.zip resources/000000000003.csv",
                "a,b\n3,4\n");
    assert_says(state,
                "python3 -c 'import zipfile\n"
                "z = zipfile.ZipFile(\"p.zip\")\n"
                "print(z.testzip())\n"
                "for i in z.infolist():\n"
                "    print(i.filename, i.file_size, i.compress_type,\n"
                "          z.read(i))'",
                "None\n"
                "manifest.xml 10 8 b'<urlset/>\\n'\n"
                "resources/000000000001.csv 8 8 b'a,b\\n1,2\\n'\n"
                "resources/000000000002.csv 0 8 b''\n"
                "resources/000000000003.csv 8 0 b'a,b\\n3,4\\n'\n");
    assert_int_equal(fstatat(tempdir_fd(state), "p.zip", &st, 0), 0);
    assert_int_equal(file.length, st.st_size);
}

/* computed while it was written, true of the file. */
TEST(its_length_and_digest_are_known)
{
    struct zip_writer *p = begin(state);
    char text[DIGEST_TEXT_SIZE], expected[128];
    struct zip_writer_file file;

    add_manifest(p, "<urlset/>\n");
    take_text(state, p, "a,b\n1,2\n", 1, false);
    file = finish(p);

    digest_write(text, &file.digest);
    snprintf(expected, sizeof(expected), "%.*s  p.zip\n",
             (int)(DIGEST_TEXT_SIZE - strlen("sha-256:")),
             text + strlen("sha-256:"));
    assert_says(state, "sha256sum p.zip", expected);
}

/* the same content makes the same bytes, whenever it is written. */
TEST(nothing_in_it_tells_when_it_was_written)
{
    struct zip_writer_file files[2];

    for (int i = 0; i < 2; i++) {
        struct zip_writer *p = begin(state);

        add_manifest(p, "<urlset/>\n");
        take_text(state, p, "a,b\n1,2\n", 1, true);
        files[i] = finish(p);
    }
    assert_memory_equal(&files[0].digest, &files[1].digest, DIGEST_SIZE);
    assert_says(state,
                "TZ=UTC unzip -Z -T p.zip resources/000000000001.csv |"
                " grep -o '20260401.181000'",
                "20260401.181000\n");
}

/* a large member, of more than 4 GiB in tests/soak, and one behind it.
 * (More than 65,535 members there never are: a manifest has at most 50,000
 * entries, R-026.) */
TEST(a_member_may_be_larger_than_4_gib)
{
    static const struct {
        uint64_t length;
        const char *digest;
    } sizes[] = {
        {(1 << 24) + 1, "sha-256:1003b1b5dc078189799a1216ce0f9fbcebb94e8"
                        "b6b83c58c4b03345f07f94ced"},
        {(UINT64_C(1) << 32) + 1,
         "sha-256:fbb82f7b353676bb562eb82157fcf0ea42c3649"
         "2ca13ee56dbf82c08b6802c5c"},
    };

    const size_t i = test_size(0, 1);
    const uint64_t length = sizes[i].length;
    struct zip_writer *p;
    struct problem why = {""};
    struct digest digest;
    char expected[100];

    assert_int_equal(digest_read(slice_of(sizes[i].digest), &digest),
                     STATUS_OK);
    make_large(state, "large", length);

    p = begin(state);
    add_manifest(p, "<urlset/>\n");
    if (take(state, p, "large", 1, false, length, &digest, &why))
        fail_msg("%s", why.text);
    take_text(state, p, "a,b\n1,2\n", 2, true);
    assert_true(finish(p).length > length);

    /* unzip reads it all; Python what stands in the directory, and behind. */
    shell_do("cd '%s' && unzip -t p.zip", tempdir_path(state));
    snprintf(expected, sizeof(expected), "[10, %llu, 8] b'a,b\\n1,2\\n'\n",
             (unsigned long long)length);
    assert_says(state,
                "python3 -c 'import zipfile\n"
                "z = zipfile.ZipFile(\"p.zip\")\n"
                "print([i.file_size for i in z.infolist()],\n"
                "      z.read(\"resources/000000000002.csv\"))'",
                expected);
}

/* bytes without the stated SHA-256 or length. */
TEST(content_that_is_damaged_is_refused)
{
    static const struct {
        const char *text;
        const char *says;
    } damaged[] = {
        {"a,b\n1,2!", "the content for resources/000000000001.csv is damaged: "
                      "it is sha-256:"},
        {"a,b\n1,2",
         "the content for resources/000000000001.csv ends 1 bytes too early"},
        {"a,b\n1,2\n\n",
         "the content for resources/000000000001.csv is longer than announced"},
    };
    struct digest digest;

    digest_sha256(&digest, SLICE("a,b\n1,2\n"));
    for (size_t i = 0; i < sizeof(damaged) / sizeof(*damaged); i++) {
        struct zip_writer *p = begin(state);
        struct problem why = {""};

        add_manifest(p, "<urlset/>\n");
        tempdir_write(tempdir_fd(state), "source", damaged[i].text);
        assert_int_equal(take(state, p, "source", 1, false, 8, &digest, &why),
                         STATUS_INVALID);
        assert_memory_equal(why.text, damaged[i].says, strlen(damaged[i].says));
        zip_writer_abandon(p);
        assert_no_file(tempdir_fd(state), "p.zip");
        assert_no_file(tempdir_fd(state), "p.zip.new");
    }
}

TEST(a_manifest_has_the_bytes_that_were_told)
{
    struct problem why = {""};
    struct zip_writer_file file;
    struct zip_writer *p = begin(state);

    assert_int_equal(zip_writer_begin_manifest(p, 3, &why), STATUS_OK);
    assert_int_equal(zip_writer_add(p, SLICE("four"), &why), STATUS_INVALID);
    assert_string_equal(why.text,
                        "manifest.xml of p.zip is longer than announced");
    assert_int_equal(zip_writer_add(p, SLICE("t"), &why), STATUS_OK);
    assert_int_equal(zip_writer_finish(p, &file, &why), STATUS_INVALID);
    assert_string_equal(why.text, "manifest.xml of p.zip lacks 2 bytes");
    assert_no_file(tempdir_fd(state), "p.zip");
    assert_no_file(tempdir_fd(state), "p.zip.new");
}

/* A limit of the process stands for the disk's. */
TEST(nothing_stays_where_there_is_no_room)
{
    const uint64_t length = UINT64_C(2) << 20;
    struct zip_writer *p = begin(state);
    struct rlimit before, limit;
    struct problem why = {""};
    struct digest digest = {{0}};
    enum status rc;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    make_large(state, "large", length);
    signal(SIGXFSZ, SIG_IGN);
    limit = before;
    limit.rlim_cur = 1 << 20;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    add_manifest(p, "<urlset/>\n");
    rc = take(state, p, "large", 1, false, length, &digest, &why);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);

    assert_int_equal(rc, STATUS_IO);
    assert_string_equal(why.text, "cannot write p.zip: File too large");
    zip_writer_abandon(p);
    assert_no_file(tempdir_fd(state), "p.zip");
    assert_no_file(tempdir_fd(state), "p.zip.new");
}

/* A copy takes bounded steps. */
TEST(a_large_member_is_copied_in_steps)
{
    const uint64_t length = UINT64_C(10) << 20;
    struct zip_writer *p = begin(state);
    struct problem why = {""};
    struct zip_writer_member member = {.length = length};
    char *zeros = calloc(1, length);
    bool is_over = false;
    unsigned steps = 0;
    int fd;

    assert_non_null(zeros);
    digest_sha256(&member.digest, (struct slice){zeros, length});
    free(zeros);
    make_large(state, "large", length);
    fd = openat(tempdir_fd(state), "large", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    add_manifest(p, "<urlset/>\n");
    zip_writer_name(&member.name, 1, SLICE(""), SLICE(""));
    assert_int_equal(zip_writer_take(p, &member, fd, &why), STATUS_OK);
    for (; !is_over; steps++)
        assert_int_equal(zip_writer_copy(p, &is_over, &why), STATUS_OK);
    assert_int_equal(steps, 3);
    finish(p);
    shell_do("cd '%s' && unzip -t p.zip", tempdir_path(state));
}

/* for any names of a source's resources. */
TEST(names_are_made_of_numbers)
{
    static const struct {
        const char *loc, *type, *name;
    } names[] = {
        {"http://example.com/a.csv", "", "resources/000000000007.csv"},
        {"http://example.com/a.CSV?b=c.d#e.f", "text/html",
         "resources/000000000007.csv"},
        {"http://example.com/../../etc/passwd", "text/plain",
         "resources/000000000007.txt"},
        {"http://example.com/a.tar.gz", "", "resources/000000000007.gz"},
        {"http://example.com/a.b%00c", "Text/CSV; charset=utf-8",
         "resources/000000000007.csv"},
        {"http://example.com/a.b\\..\\c", "image/svg+xml",
         "resources/000000000007"},
        {"http://example.com/.csv/", "application/pdf",
         "resources/000000000007.pdf"},
        {"http://example.com", "application/octet-stream",
         "resources/000000000007"},
        {"http://example.com/a.", "", "resources/000000000007"},
        {"http://example.com/a.123456789", "", "resources/000000000007"},
        {"urn:a.b", "", "resources/000000000007"},
        {"", "x/../..", "resources/000000000007"},
    };
    struct zip_writer_name name;

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        zip_writer_name(&name, 7, slice_of(names[i].loc),
                        slice_of(names[i].type));
        assert_string_equal(name.text, names[i].name);
    }
    zip_writer_name(&name, UINT64_MAX, SLICE("http://h/a.12345678"), SLICE(""));
    assert_string_equal(name.text, "resources/18446744073709551615.12345678");
}

TEST(text_is_deflated_and_nothing_else)
{
    assert_true(zip_writer_deflates(SLICE("text/csv")));
    assert_true(zip_writer_deflates(SLICE("TEXT/HTML; charset=utf-8")));
    assert_true(zip_writer_deflates(SLICE("application/json")));
    assert_true(zip_writer_deflates(SLICE("image/svg+xml")));
    assert_true(zip_writer_deflates(SLICE("application/ld+json;profile=x")));
    assert_false(zip_writer_deflates(SLICE("image/png")));
    assert_false(zip_writer_deflates(SLICE("application/zip")));
    assert_false(zip_writer_deflates(SLICE("application/octet-stream")));
    assert_false(zip_writer_deflates(SLICE("")));
}

/* the contents of a package are planned before it is begun. */
TEST(a_plan_keeps_to_the_limits)
{
    struct zip_writer_plan plan = {0}, before;

    /* The first member always has room. */
    assert_true(zip_writer_plan_add(&plan, 1000, 300, UINT64_C(1) << 40));
    before = plan;
    assert_false(zip_writer_plan_add(&plan, 1000, 300, 1));
    assert_memory_equal(&plan, &before, sizeof(plan));

    plan = (struct zip_writer_plan){0};
    for (unsigned i = 0; i < DOCUMENT_ENTRIES_MAX; i++)
        assert_true(zip_writer_plan_add(&plan, UINT64_MAX, 300, 1));
    assert_false(
        zip_writer_plan_add(&plan, UINT64_MAX, 300, ZIP_WRITER_NO_MEMBER));

    plan = (struct zip_writer_plan){0};
    while (zip_writer_plan_add(&plan, UINT64_MAX, 200000, ZIP_WRITER_NO_MEMBER))
        ;
    assert_in_range(plan.manifest, DOCUMENT_BYTES_MAX - 200000,
                    DOCUMENT_BYTES_MAX);
}

/* No package is larger than it was planned to be. */
TEST(a_package_is_not_larger_than_its_plan)
{
    const char *text = "a,b\n1,2\n";
    struct zip_writer *p = begin(state);
    struct zip_writer_plan plan = {0};
    struct problem why = {""};
    struct digest digest;

    for (unsigned i = 0; i < 2000; i++)
        assert_true(zip_writer_plan_add(&plan, UINT64_MAX, 1, strlen(text)));
    tempdir_write(tempdir_fd(state), "source", text);
    digest_sha256(&digest, slice_of(text));
    add_manifest(p, "<urlset/>\n");
    for (unsigned i = 1; i <= 2000; i++)
        assert_int_equal(
            take(state, p, "source", i, i % 2, strlen(text), &digest, &why),
            STATUS_OK);
    assert_in_range(finish(p).length, 2000 * strlen(text), plan.bytes);
}
