#include "tests/support/browser.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/json.h"
#include "tests/support/patience.h"
#include "tests/test.h"

#define PROGRAM    "/usr/bin/chromium"
#define ANSWER_MAX ((size_t)16 << 20)

/* Where it reads commands and writes answers. */
#define COMMANDS 3
#define ANSWERS  4

static void
run(const char *folder, int commands, int answers)
{
    char profile[300];
    int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);

    snprintf(profile, sizeof(profile), "--user-data-dir=%s", folder);
    /* Away from where they are to go first: either may stand in the other's
     * place. */
    commands = fcntl(commands, F_DUPFD_CLOEXEC, 10);
    answers = fcntl(answers, F_DUPFD_CLOEXEC, 10);
    nowhere = fcntl(nowhere, F_DUPFD_CLOEXEC, 10);
    dup2(commands, COMMANDS);
    dup2(answers, ANSWERS);
    for (int i = 0; i < 3; i++)
        dup2(nowhere, i);
    /* Its sandbox does not work for root, whom a test may be. */
    execl(PROGRAM, PROGRAM, "--headless", "--no-sandbox", "--disable-gpu",
          "--disable-dev-shm-usage", "--no-first-run",
          "--disable-background-networking", "--no-proxy-server",
          "--remote-debugging-pipe", profile, "about:blank", NULL);
    _exit(127);
}

/* Reads one object into b->answer. */
static void
read_answer(struct browser *b)
{
    char byte = 1;

    buf_clear(&b->answer);
    while (byte) {
        struct pollfd p = {.fd = b->from, .events = POLLIN};
        int n = poll(&p, 1, PATIENCE_MS);

        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0 || read(b->from, &byte, 1) != 1)
            fail_msg("the browser does not answer (is %s there?): %.*s",
                     PROGRAM, SLICE_ARG(buf_slice(&b->answer)));
        buf_add(&b->answer, &byte, 1);
    }
    assert_false(b->answer.failed);
}

/* Calls a method with its parameters, an object; what else it says meanwhile is
 * dropped. */
static void
call(struct browser *b, const char *method, struct slice parameters)
{
    struct buf text;
    char id[32];

    buf_init(&text, ANSWER_MAX);
    buf_add_format(&text, "{\"id\":%u,\"method\":\"%s\",\"params\":%.*s",
                   ++b->n, method, SLICE_ARG(parameters));
    if (b->session[0])
        buf_add_format(&text, ",\"sessionId\":\"%s\"", b->session);
    buf_add(&text, "}", 2);
    assert_int_equal(write(b->to, text.data, text.size), text.size);
    buf_fini(&text);
    snprintf(id, sizeof(id), "{\"id\":%u,", b->n);
    do
        read_answer(b);
    while (strncmp(b->answer.data, id, strlen(id)) != 0);
    if (strstr(b->answer.data, "\"error\":{"))
        fail_msg("%s: %s", method, b->answer.data);
}

/* The text member `name` of the last answer. */
static const char *
text_of(struct browser *b, const char *name)
{
    char mark[64];
    char *at, *end;

    snprintf(mark, sizeof(mark), "\"%s\":\"", name);
    at = strstr(b->answer.data, mark);
    if (!at)
        fail_msg("no %s: %s", name, b->answer.data);
    at += strlen(mark);
    end = strchr(at, '"');
    assert_non_null(end);
    *end = '\0';
    return at;
}

void
browser_open(struct browser *b, const char *url)
{
    int commands[2], answers[2];
    pid_t parent = getpid();
    char parameters[512], expression[512];

    memset(b, 0, sizeof(*b));
    tempdir_open(&b->dir);
    buf_init(&b->answer, ANSWER_MAX);
    assert_int_equal(pipe2(commands, O_CLOEXEC), 0);
    assert_int_equal(pipe2(answers, O_CLOEXEC), 0);
    b->pid = fork();
    assert_true(b->pid >= 0);
    if (b->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* it dies with the test */
        if (getppid() != parent)
            _exit(125);
        setpgid(0, 0);
        run(b->dir.path, commands[0], answers[1]);
    }
    close(commands[0]);
    close(answers[1]);
    b->to = commands[1];
    b->from = answers[0];

    snprintf(parameters, sizeof(parameters), "{\"url\":\"%s\"}", url);
    call(b, "Target.createTarget", slice_of(parameters));
    snprintf(parameters, sizeof(parameters),
             "{\"targetId\":\"%s\",\"flatten\":true}", text_of(b, "targetId"));
    call(b, "Target.attachToTarget", slice_of(parameters));
    snprintf(b->session, sizeof(b->session), "%s", text_of(b, "sessionId"));
    snprintf(expression, sizeof(expression),
             "location.href + ' ' + document.readyState");
    snprintf(parameters, sizeof(parameters), "%s complete", url);
    while (strcmp(browser_value(b, expression), parameters) != 0)
        ;
}

/* Asked to end it ends its processes, too, who may still write to the profile;
 * the pipe ends with the last of them. */
void
browser_close(struct browser *b)
{
    static const char close_it[] = "{\"id\":0,\"method\":\"Browser.close\"}";
    struct pollfd p = {.fd = b->from, .events = POLLIN};
    char some[4096];

    if (write(b->to, close_it, sizeof(close_it)) > 0)
        while (poll(&p, 1, PATIENCE_MS) > 0 &&
               read(b->from, some, sizeof(some)) > 0)
            ;
    kill(-b->pid, SIGKILL);
    waitpid(b->pid, NULL, 0);
    close(b->to);
    close(b->from);
    buf_fini(&b->answer);
    tempdir_close(&b->dir);
}

const char *
browser_value(struct browser *b, const char *expression)
{
    struct buf parameters;

    buf_init(&parameters, ANSWER_MAX);
    buf_add_text(&parameters, "{\"awaitPromise\":true,\"returnByValue\":true,"
                              "\"expression\":");
    json_string(&parameters, slice_of(expression));
    BUF_ADD(&parameters, "}");
    call(b, "Runtime.evaluate", buf_slice(&parameters));
    buf_fini(&parameters);
    if (strstr(b->answer.data, "\"exceptionDetails\":"))
        fail_msg("%s: %s", expression, b->answer.data);
    return text_of(b, "value");
}

void
browser_expect(struct browser *b, const char *expression, const char *value)
{
    assert_string_equal(browser_value(b, expression), value);
}
