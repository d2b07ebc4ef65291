#include "broker/sets/data_directory.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/tempdir.h"
#include "tests/test.h"

#define OLD "https://old.example/base"
#define NEW "https://new.example"

/* Remembers `url`, or (NULL) sets readers, and returns what is printed on
 * standard error. */
static void
listen(const char *dir, const char *url, char said[2000])
{
    int saved = dup(STDERR_FILENO);
    FILE *file = tmpfile();
    size_t n;

    assert_non_null(file);
    fflush(stderr);
    dup2(fileno(file), STDERR_FILENO);
    if (url)
        data_directory_remember_url(dir, url);
    else
        data_directory_set_readers(dir, READERS_ALL);
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    rewind(file);
    n = fread(said, 1, 1999, file);
    said[n] = '\0';
    fclose(file);
}

static void
remember(void **state, const char *url, char said[2000])
{
    listen(tempdir_path(state), url, said);
}

FIXTURE(tempdir_setup, tempdir_teardown);

/* */
TEST(warns_of_another_url_once_and_names_both)
{
    char said[2000];

    remember(state, OLD, said);
    assert_string_equal(said, "");
    assert_file(tempdir_fd(state), "public-url", OLD "\n");
    remember(state, OLD, said);
    assert_string_equal(said, "");
    remember(state, NEW, said);
    assert_non_null(strstr(said, OLD));
    assert_non_null(strstr(said, NEW));
    assert_file(tempdir_fd(state), "public-url", NEW "\n");
    remember(state, NEW, said);
    assert_string_equal(said, "");
}

/* Nothing depends on it but the warning. */
TEST(says_so_when_it_cannot_remember)
{
    char said[2000];

    assert_int_equal(mkdirat(tempdir_fd(state), "public-url", 0755), 0);
    remember(state, OLD, said);
    assert_non_null(strstr(said, "the public URL is not remembered"));
    listen("/proc/nowhere/at/all", OLD, said);
    assert_non_null(strstr(said, "cannot open /proc/nowhere/at/all"));
}

TEST(says_so_when_it_cannot_set_readers)
{
    char said[2000];

    listen("/proc/nowhere/at/all", NULL, said);
    assert_non_null(strstr(said, "are not as wanted"));
    assert_non_null(strstr(said, "cannot open /proc/nowhere/at/all"));
}
