/*
 * sync_terminal_test.c - the bar of `tidings sync`, on a terminal alone.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/mirrored.h"
#include "tests/support/patience.h"
#include "tests/test.h"

/* Starts a sync whose standard error is a terminal of that many columns: the
 * descriptor of its other side. `until`: an option more, or NULL. */
static int
start_on_terminal(struct mirrored *m, unsigned short columns, const char *until,
                  pid_t *pid)
{
    struct winsize window = {.ws_row = 24, .ws_col = columns};
    int terminal = posix_openpt(O_RDWR | O_NOCTTY);

    assert_true(terminal >= 0 && !grantpt(terminal) && !unlockpt(terminal));
    assert_int_equal(ioctl(terminal, TIOCSWINSZ, &window), 0);
    *pid = fork();
    assert_true(*pid >= 0);
    if (!*pid) {
        int fd = open(ptsname(terminal), O_RDWR | O_NOCTTY);
        int null = open("/dev/null", O_RDWR);

        dup2(null, 1);
        dup2(fd, 2);
        execl(BIN_DIR "/tidings", "tidings", "sync", m->set_url, m->dir, until,
              (char *)NULL);
        _exit(127);
    }
    fcntl(terminal, F_SETFL, O_NONBLOCK);
    return terminal;
}

/* Adds what was written on the terminal to `to`. It ends with EIO when nobody
 * has the other side any more. */
static void
read_terminal(int terminal, char *to, size_t size)
{
    size_t n = strlen(to);
    ssize_t got;

    while (n < size - 1 && (got = read(terminal, to + n, size - 1 - n)) > 0)
        n += (size_t)got;
    to[n] = '\0';
}

static void
end_well(pid_t pid)
{
    int status;

    waitpid(pid, &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* The same, until its end: whatever it writes, it is not kept from it. */
static void
read_to_the_end(int terminal, char *to, size_t size)
{
    struct pollfd p = {.fd = terminal, .events = POLLIN};

    to[0] = '\0';
    do {
        assert_true(strlen(to) < size - 1);
        assert_int_equal(poll(&p, 1, -1), 1);
        read_terminal(terminal, to, size);
    } while (!(p.revents & POLLHUP));
}

/* Runs a sync until it has caught up; what it wrote on its terminal. */
static void
sync_on_terminal(struct mirrored *m, unsigned short columns, char *to,
                 size_t size)
{
    pid_t pid;
    int terminal = start_on_terminal(m, columns, "--until-caught-up", &pid);

    read_to_the_end(terminal, to, size);
    end_well(pid);
    close(terminal);
}

FIXTURE(mirrored_setup, mirrored_teardown);

TEST(draws_a_bar_on_a_terminal)
{
    struct mirrored *m = *state;
    char said[200000];
    size_t first;

    mirrored_change(m, "/a.txt", "a");
    mirrored_change(m, "/b.txt", "b");
    mirrored_post(m);
    sync_on_terminal(m, 100, said, sizeof(said));
    assert_non_null(strstr(said, "\r["));
    assert_non_null(strstr(said, "of 2 files  "));
    /* It begins without a rate: none is known. */
    first = strcspn(said, "\033");
    assert_null(memmem(said, first, "/s", 2));
    /* Only at the end it is gone: nothing was said in its place. */
    assert_non_null(strstr(said, "\r\033[K"));
    assert_string_equal(strstr(said, "\r\033[K"), "\r\033[K");
    mirrored_assert_same(m);

    /* No longer than a line, or it would not be redrawn in place. */
    mirrored_change(m, "/c.txt", "c");
    mirrored_post(m);
    sync_on_terminal(m, 20, said, sizeof(said));
    for (const char *at = said; (at = strchr(at, '\r')); at++)
        assert_true(strcspn(at + 1, "\r\033") < 20);
}

/* One file is waited for while others come: at what rate, and how long that
 * will take. */
TEST(tells_the_rate_and_what_is_left)
{
    struct mirrored *m = *state;
    struct patience p = {.with = "a rate, and what is left of the time"};
    char said[200000] = "";
    char text[32];
    pid_t pid;
    int terminal;

    mirrored_change(m, "/last.txt", "last");
    mirrored_post(m);
    site_hold(m->site, "/last.txt");
    terminal = start_on_terminal(m, 100, NULL, &pid);
    for (unsigned i = 0; !strstr(said, " left\033"); i++) {
        snprintf(text, sizeof(text), "%u", i);
        mirrored_change(m, "/a.txt", text);
        mirrored_post(m);
        read_terminal(terminal, said, sizeof(said));
        patience_step(&p);
    }
    assert_non_null(strstr(said, "B/s  "));
    site_release(m->site, "/last.txt");
    assert_int_equal(kill(pid, SIGTERM), 0);
    end_well(pid);
    close(terminal);
}

TEST(draws_nothing_elsewhere)
{
    struct mirrored *m = *state;

    mirrored_change(m, "/a.txt", "a");
    mirrored_post(m);
    assert_int_equal(mirrored_sync(m, NULL), 0);
    assert_string_equal(m->command.err_text, "");
}
