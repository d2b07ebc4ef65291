/*
 * tempdir.h - a directory of a test's own, made before it and removed with all
 * that is in it.
 *
 * As fixture of a test that needs nothing else:
 *
 *     FIXTURE(tempdir_setup, tempdir_teardown);
 */
#ifndef TESTS_SUPPORT_TEMPDIR_H
#define TESTS_SUPPORT_TEMPDIR_H

struct tempdir {
    char path[256];
    int fd; /* of the directory */
};

/* Fails the test if the system has none. Made in $TMPDIR, else /tmp. */
void tempdir_open(struct tempdir *dir);
void tempdir_close(struct tempdir *dir);

/* The same for cmocka: *state is a struct tempdir of the heap. */
int tempdir_setup(void **state);
int tempdir_teardown(void **state);
const char *tempdir_path(void **state);
int tempdir_fd(void **state);

/* Writes a file of the test's own. */
void tempdir_write(int dir_fd, const char *name, const char *text);

#define assert_no_file(dir_fd, name) \
    tempdir_assert_no_file(dir_fd, name, __FILE__, __LINE__)

/* The file `name` holds exactly `text` (at most 4,095 bytes). */
#define assert_file(dir_fd, name, text) \
    tempdir_assert_file(dir_fd, name, text, __FILE__, __LINE__)

void tempdir_assert_no_file(int dir_fd, const char *name, const char *file,
                            int line);
void tempdir_assert_file(int dir_fd, const char *name, const char *text,
                         const char *file, int line);

#endif
