#include "base/file.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/tempdir.h"
#include "tests/test.h"

FIXTURE(tempdir_setup, tempdir_teardown);

/* Directories */

TEST(directories_are_made_with_all_that_is_above_them)
{
    char path[300];
    struct stat st;

    snprintf(path, sizeof(path), "%s/a//b/c/", tempdir_path(state));

    assert_int_equal(file_make_dirs(path, NULL), STATUS_OK);
    assert_int_equal(file_make_dirs(path, NULL), STATUS_OK);

    assert_int_equal(stat(path, &st), 0);
    assert_true(S_ISDIR(st.st_mode));
}

TEST(a_relative_directory_is_made_where_the_process_is)
{
    int before = open(".", O_RDONLY | O_DIRECTORY);
    struct stat st;

    assert_int_equal(fchdir(tempdir_fd(state)), 0);

    assert_int_equal(file_make_dirs("data", NULL), STATUS_OK);
    assert_int_equal(file_make_dirs("./data/sets", NULL), STATUS_OK);

    assert_int_equal(fchdir(before), 0);
    close(before);
    assert_int_equal(fstatat(tempdir_fd(state), "data/sets", &st, 0), 0);
}

TEST(a_file_in_the_way_is_named)
{
    struct problem why = {.text = ""};
    char path[300], want[400];

    tempdir_write(tempdir_fd(state), "a", "");
    snprintf(path, sizeof(path), "%s/a", tempdir_path(state));
    snprintf(want, sizeof(want),
             "cannot create the directory %s: Not a directory", path);

    assert_int_equal(file_make_dirs(path, &why), STATUS_IO);

    assert_string_equal(why.text, want);
}

TEST(an_empty_name_is_no_directory)
{
    assert_int_equal(file_make_dirs("", NULL), STATUS_IO);
}

/* The lock */

/* A process that takes the lock of `dir`, reports that on `said`, and holds the
 * lock until it is killed. */
static pid_t
other_owner(const char *dir, int said[2])
{
    pid_t pid;

    assert_int_equal(pipe(said), 0);
    pid = fork();
    if (pid == 0) {
        int lock;
        bool has = !file_lock(dir, &lock, NULL);

        if (write(said[1], has ? "y" : "n", 1) == 1)
            pause();
        _exit(0);
    }
    close(said[1]);
    return pid;
}

TEST(a_directory_has_one_owner_and_a_dead_one_does_not_count)
{
    const char *dir = tempdir_path(state);
    struct problem why = {.text = ""};
    char want[400];
    char said = '?';
    int pipe_fds[2];
    int lock = -1;
    pid_t pid = other_owner(dir, pipe_fds);

    assert_int_equal(read(pipe_fds[0], &said, 1), 1);
    assert_int_equal(said, 'y');
    snprintf(want, sizeof(want), "%s is in use by process %d", dir, (int)pid);

    assert_int_equal(file_lock(dir, &lock, &why), STATUS_BUSY);
    assert_string_equal(why.text, want);
    why.text[0] = '\0';
    assert_int_equal(file_check_lock(dir, &why), STATUS_BUSY);
    assert_string_equal(why.text, want);

    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(pipe_fds[0]);
    assert_int_equal(file_check_lock(dir, NULL), STATUS_OK);
    assert_int_equal(file_lock(dir, &lock, NULL), STATUS_OK);
    snprintf(want, sizeof(want), "%d\n", (int)getpid());
    assert_file(tempdir_fd(state), "lock", want);
    file_close(&lock);
}

TEST(a_lock_given_back_can_be_taken_again)
{
    const char *dir = tempdir_path(state);
    int lock = -1;

    assert_int_equal(file_lock(dir, &lock, NULL), STATUS_OK);
    file_close(&lock);
    assert_int_equal(file_lock(dir, &lock, NULL), STATUS_OK);
    file_close(&lock);
}

TEST(a_lock_needs_its_directory)
{
    struct problem why = {.text = ""};
    char path[300], want[400];
    int lock = -1;

    snprintf(path, sizeof(path), "%s/none", tempdir_path(state));
    snprintf(want, sizeof(want),
             "cannot lock %s/lock: No such file or directory", path);

    assert_int_equal(file_lock(path, &lock, &why), STATUS_IO);

    assert_string_equal(why.text, want);
    assert_int_equal(file_check_lock(path, NULL), STATUS_OK);
    assert_int_equal(file_check_lock(tempdir_path(state), NULL), STATUS_OK);
    assert_no_file(tempdir_fd(state), "lock");
}

/* Permissions */

static unsigned
mode_of(int dir, const char *name)
{
    struct stat st;

    assert_int_equal(fstatat(dir, name, &st, 0), 0);
    return st.st_mode & 0777;
}

TEST(other_users_may_read_what_the_directory_lets_them)
{
    static const struct {
        unsigned above, file, directory, list_directory;
    } rows[] = {
        {0700, 0600, 0700, 0700},
        {0710, 0600, 0710, 0750},
        {0750, 0640, 0750, 0750},
        {0711, 0600, 0711, 0755},
        {0755, 0644, 0755, 0755},
        {0777, 0644, 0755, 0777}, /* but write nothing */
    };

    int dir = tempdir_fd(state);

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct file_new f;

        assert_int_equal(fchmod(dir, rows[i].above), 0);
        assert_int_equal(file_begin(&f, dir, "list", NULL), STATUS_OK);
        assert_int_equal(file_finish(&f, NULL), STATUS_OK);
        assert_int_equal(file_make_dir(dir, "below", NULL), STATUS_OK);
        assert_int_equal(mode_of(dir, "list"), rows[i].file);
        assert_int_equal(mode_of(dir, "below"), rows[i].directory);
        assert_int_equal(unlinkat(dir, "below", AT_REMOVEDIR), 0);

        assert_int_equal(file_let_passers_read(dir, NULL), STATUS_OK);
        assert_int_equal(mode_of(dir, "."), rows[i].list_directory);
    }
}

TEST(a_small_file_is_stored_and_read_whole_and_a_secret_is_for_its_owner)
{
    int dir = tempdir_fd(state);
    const char *path = tempdir_path(state);
    struct problem why = {""};
    char bytes[8];

    assert_int_equal(fchmod(dir, 0755), 0);
    assert_int_equal(file_store(dir, "line", "text", NULL), STATUS_OK);
    assert_int_equal(file_store_bytes(dir, "open", SLICE("a\0b"), false, NULL),
                     STATUS_OK);
    assert_int_equal(file_store_in(path, "secret", SLICE(""), true, NULL),
                     STATUS_OK);
    assert_int_equal(mode_of(dir, "open"), 0644);
    assert_int_equal(mode_of(dir, "secret"), 0600);
    assert_file(dir, "line", "text\n");

    assert_int_equal(file_read(dir, "open", bytes, sizeof(bytes)), 3);
    assert_memory_equal(bytes, "a\0b", 3);
    assert_int_equal(file_read(dir, "line", bytes, 2), 2);
    assert_int_equal(file_read(dir, "secret", bytes, sizeof(bytes)), 0);
    assert_int_equal(file_read(dir, "missing", bytes, sizeof(bytes)), -1);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(file_store_in("/nowhere", "x", SLICE(""), true, &why),
                     STATUS_IO);
    assert_string_equal(why.text,
                        "cannot open /nowhere: No such file or directory");
}

/* A file being made */

/* readers see the old file or the new one, whole. */
TEST(a_file_is_there_when_it_is_finished_and_not_before)
{
    int dir = tempdir_fd(state);
    struct file_new f;

    tempdir_write(dir, "list", "old");

    assert_int_equal(file_begin(&f, dir, "list", NULL), STATUS_OK);
    assert_int_equal(file_append(&f, SLICE("new "), NULL), STATUS_OK);
    assert_int_equal(file_append(&f, SLICE("list"), NULL), STATUS_OK);
    assert_file(dir, "list", "old");
    assert_int_equal(file_finish(&f, NULL), STATUS_OK);
    assert_int_equal(file_sync_dir(dir, NULL), STATUS_OK);

    assert_file(dir, "list", "new list");
    assert_no_file(dir, "list.new");
}

TEST(an_abandoned_file_leaves_nothing)
{
    int dir = tempdir_fd(state);
    struct file_new f;

    assert_int_equal(file_begin(&f, dir, "list", NULL), STATUS_OK);
    assert_int_equal(file_append(&f, SLICE("half"), NULL), STATUS_OK);
    file_abandon(&f);
    file_abandon(&f);

    assert_no_file(dir, "list");
    assert_no_file(dir, "list.new");
}

/* The remains of a killed process are neither kept nor an obstacle. */
TEST(leftovers_are_overwritten)
{
    int dir = tempdir_fd(state);
    struct file_new f;

    tempdir_write(dir, "list.new", "much longer than what comes now");

    assert_int_equal(file_begin(&f, dir, "list", NULL), STATUS_OK);
    assert_int_equal(file_append(&f, SLICE("short"), NULL), STATUS_OK);
    assert_int_equal(file_finish(&f, NULL), STATUS_OK);

    assert_file(dir, "list", "short");
}

TEST(a_link_in_the_place_of_the_new_file_is_not_followed)
{
    int dir = tempdir_fd(state);
    struct file_new f;

    tempdir_write(dir, "precious", "kept");
    assert_int_equal(symlinkat("precious", dir, "list.new"), 0);

    assert_int_equal(file_begin(&f, dir, "list", NULL), STATUS_IO);

    file_abandon(&f);
    assert_file(dir, "precious", "kept");
}

/* a failed write leaves nothing half done, and says what failed. */
TEST(a_failed_finish_leaves_nothing_behind)
{
    int dir = tempdir_fd(state);
    struct problem why = {.text = ""};
    struct file_new f;

    assert_int_equal(mkdirat(dir, "list", 0755), 0);

    assert_int_equal(file_begin(&f, dir, "list", NULL), STATUS_OK);
    assert_int_equal(file_append(&f, SLICE("new"), NULL), STATUS_OK);
    assert_int_equal(file_finish(&f, &why), STATUS_IO);

    assert_string_equal(why.text, "cannot write list: Is a directory");
    assert_no_file(dir, "list.new");
}

TEST(a_name_that_is_too_long_is_refused)
{
    char name[400];
    struct file_new f;

    memset(name, 'x', sizeof(name));
    for (size_t size = 252; size < sizeof(name); size++) {
        name[size] = '\0';
        assert_int_equal(file_begin(&f, tempdir_fd(state), name, NULL),
                         STATUS_IO);
        file_abandon(&f);
        name[size] = 'x';
    }
}

TEST(free_bytes_are_known_of_a_directory_and_0_of_nothing)
{
    assert_true(file_free_bytes(tempdir_fd(state)) > 0);
    assert_int_equal(file_free_bytes(-1), 0);
}

/* The check of --check; R-149 is file_make_dirs' own. */
TEST(says_whether_a_directory_could_be_used_and_makes_nothing)
{
    char path[400], want[500];
    struct problem why = {.text = ""};

    assert_int_equal(file_check_dir(tempdir_path(state), NULL), STATUS_OK);
    snprintf(path, sizeof(path), "%s/a//b/", tempdir_path(state));
    assert_int_equal(file_check_dir(path, NULL), STATUS_OK);
    assert_no_file(tempdir_fd(state), "a");
    assert_int_equal(file_check_dir("not-here/b", NULL), STATUS_OK);
    assert_int_equal(file_check_dir("/not-here", NULL),
                     geteuid() ? STATUS_IO : STATUS_OK);

    tempdir_write(tempdir_fd(state), "file", "");
    snprintf(path, sizeof(path), "%s/file", tempdir_path(state));
    snprintf(want, sizeof(want), "cannot use the directory %s: Not a directory",
             path);
    assert_int_equal(file_check_dir(path, &why), STATUS_IO);
    assert_string_equal(why.text, want);

    /* The directory could not be made: its name is taken. */
    snprintf(path, sizeof(path), "%s/link", tempdir_path(state));
    assert_int_equal(symlink("not-here", path), 0);
    snprintf(want, sizeof(want),
             "cannot use the directory %s: No such file or directory", path);
    assert_int_equal(file_check_dir(path, &why), STATUS_IO);
    assert_string_equal(why.text, want);
    snprintf(path, sizeof(path), "%s/link/below", tempdir_path(state));
    assert_int_equal(file_check_dir(path, &why), STATUS_IO);
    assert_string_equal(why.text, want);
}

/* All files of a folder go, in steps of so many; a missing folder is done. */
TEST(a_folder_is_cleared_in_steps)
{
    int dir = tempdir_fd(state);
    size_t n_files;

    assert_int_equal(mkdirat(dir, "a", 0755), 0);
    assert_int_equal(mkdirat(dir, "a/b", 0755), 0);
    tempdir_write(dir, "a/1", "x");
    tempdir_write(dir, "a/b/2", "x");
    tempdir_write(dir, "a/b/3", "x");
    tempdir_write(dir, "4", "x");
    assert_int_equal(symlinkat("../../4", dir, "a/b/5"), 0);

    n_files = 3;
    assert_int_equal(file_clear(dir, "a", &n_files, NULL), STATUS_AGAIN);
    assert_int_equal(n_files, 0);
    n_files = 3;
    assert_int_equal(file_clear(dir, "a", &n_files, NULL), STATUS_OK);
    assert_int_equal(n_files, 2);
    assert_no_file(dir, "a");
    assert_file(dir, "4", "x");
    assert_int_equal(file_clear(dir, "a", &n_files, NULL), STATUS_OK);
    assert_int_equal(file_clear(dir, "4", &n_files, NULL), STATUS_IO);
}
