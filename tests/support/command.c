/*
 * command.c - a program run by a test.
 */
#include "tests/support/command.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/patience.h"
#include "tests/test.h"

void
command_start(struct command *c, const char *const *argv)
{
    int in[2];
    int out[2];
    int err[2];
    pid_t parent = getpid();

    memset(c, 0, sizeof(*c));
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    assert_int_equal(pipe2(err, O_CLOEXEC), 0);
    c->pid = fork();
    assert_true(c->pid >= 0);
    if (c->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* it dies with the test */
        if (getppid() != parent)
            _exit(125);
        dup2(in[0], 0);
        dup2(out[1], 1);
        dup2(err[1], 2);
        execv(argv[0], (char *const *)argv);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    close(err[1]);
    c->in = in[1];
    c->out = out[0];
    c->err = err[0];
}

static void
shut(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void
command_give(struct command *c, const char *text)
{
    size_t size = strlen(text);

    assert_int_equal(write(c->in, text, size), size);
    shut(&c->in);
}

/* Waits until there is something to read, or the end of it. */
static void
await_output(struct command *c, int fd)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    int n;

    do
        n = poll(&poll_fd, 1, PATIENCE_MS);
    while (n < 0 && errno == EINTR);
    if (n > 0)
        return;
    kill(c->pid, SIGKILL);
    fail_msg("the program said nothing for %d ms, and did not end",
             PATIENCE_MS);
}

/* Reads the available bytes, at least one; false at the end. */
static int
read_more(struct command *c, int fd, char *text, size_t room)
{
    size_t used = strlen(text);
    ssize_t n;

    assert_true(used + 1 < room);
    await_output(c, fd);
    do
        n = read(fd, text + used, room - used - 1);
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        return 0;
    text[used + (size_t)n] = '\0';
    return 1;
}

const char *
command_line(struct command *c)
{
    size_t used = 0;

    for (;;) {
        assert_true(used + 1 < sizeof(c->out_text));
        await_output(c, c->out);
        if (read(c->out, c->out_text + used, 1) != 1)
            fail_msg("no line came, only \"%.*s\"", (int)used, c->out_text);
        if (c->out_text[used] == '\n')
            break;
        used++;
    }
    c->out_text[used] = '\0';
    return c->out_text;
}

void
command_deafen(struct command *c)
{
    shut(&c->out);
}

int
command_end(struct command *c)
{
    int status = 0;

    shut(&c->in);
    c->out_text[0] = '\0';
    if (c->out >= 0)
        while (read_more(c, c->out, c->out_text, sizeof(c->out_text)))
            ;
    while (read_more(c, c->err, c->err_text, sizeof(c->err_text)))
        ;
    shut(&c->out);
    shut(&c->err);
    assert_int_equal(waitpid(c->pid, &status, 0), c->pid);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
