#include "broker/base/access_log.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "broker/base/diag.h"
#include "broker/base/log_line.h"
#include "broker/base/metrics.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

#define A_MOMENT_US 1792482180123999 /* 2026-10-20T07:43:00.123999Z */

#define AT "time=2026-10-20T07:43:00.123Z "

struct logged {
    struct tempdir dir;
    char path[300];
    struct access_log *log;
};

static int
logged_open(void **state)
{
    struct logged *l = calloc(1, sizeof(*l));

    tempdir_open(&l->dir);
    snprintf(l->path, sizeof(l->path), "%s/access", l->dir.path);
    l->log = access_log_new(2);
    assert_non_null(l->log);
    *state = l;
    return 0;
}

static int
logged_close(void **state)
{
    struct logged *l = *state;

    access_log_free(l->log);
    tempdir_close(&l->dir);
    free(l);
    return 0;
}

FIXTURE(logged_open, logged_close);

static void
use(struct logged *l, const char *path)
{
    int fd;

    assert_int_equal(access_log_open(l->log, path, &fd, NULL), 0);
    access_log_use(l->log, fd);
}

static struct access_entry
entry_of(const char *id)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    struct access_entry e = {.time_us = A_MOMENT_US,
                             .duration_us = 1250,
                             .sent_bytes = 7,
                             .method = "GET",
                             .status = 200,
                             .is_whole = true,
                             .id = slice_of(id),
                             .path = SLICE("/x")};

    assert_int_equal(inet_pton(AF_INET, "192.0.2.1", &address.sin_addr), 1);
    client_address_set(&e.client, (struct sockaddr *)&address, 0);
    return e;
}

static void
add(struct logged *l, unsigned thread, const char *id)
{
    struct access_entry e = entry_of(id);

    access_log_add(l->log, thread, &e);
}

/* Ends the log, which writes all lines first. */
static void
end(struct logged *l)
{
    access_log_free(l->log);
    l->log = NULL;
}

#define LINE(id)                                                      \
    AT "id=" id " client=192.0.2.1 method=GET status=200 in=0 out=7 " \
       "duration=0.001250 complete=true path=/x\n"

static uint64_t
dropped(void)
{
    static const char name[] = "\ntidings_access_log_dropped_lines_total ";
    const char *found;
    struct buf text;
    uint64_t n;

    buf_init(&text, 1 << 20);
    metrics_write(&text);
    buf_add(&text, "", 1);
    found = strstr(text.data, name);
    assert_non_null(found);
    n = strtoull(found + sizeof(name) - 1, NULL, 10);
    buf_fini(&text);
    return n;
}

static unsigned
count_lines(const struct logged *l)
{
    FILE *file = fopen(l->path, "r");
    char line[300];
    unsigned n = 0;

    assert_non_null(file);
    while (fgets(line, sizeof(line), file))
        n++;
    fclose(file);
    return n;
}

static bool
has_lines(const struct logged *l)
{
    struct stat info;

    return !stat(l->path, &info) && info.st_size > 0;
}

TEST(without_a_file_it_is_off)
{
    struct logged *l = *state;

    assert_false(access_log_is_on(NULL));
    assert_false(access_log_is_on(l->log));
    use(l, "");
    assert_false(access_log_is_on(l->log));
    use(l, l->path);
    assert_true(access_log_is_on(l->log));
    use(l, "");
    assert_false(access_log_is_on(l->log));
}

TEST(a_line_has_all_that_is_known)
{
    struct logged *l = *state;
    struct access_entry e = entry_of("1"), none = {.time_us = A_MOMENT_US};

    use(l, l->path);
    e.method = "POST";
    e.pattern = "/sets/{set}/changes";
    e.name = SLICE("press");
    e.received_bytes = 12;
    e.path = SLICE("/sets/news/changes");
    e.query = SLICE("after=1");
    e.agent = SLICE("an \"agent\"\n\xff");
    access_log_add(l->log, 0, &e);
    e.is_stream = true;
    e.status = 101;
    e.n_messages = 3;
    access_log_add(l->log, 0, &e);
    access_log_add(l->log, 0, &none);
    end(l);

#define HEAD(status)                                    \
    AT "id=1 client=192.0.2.1 token=press method=POST " \
       "route=/sets/{set}/changes status=" status       \
       " in=12 out=7 duration=0.001250 "
#define REST                                      \
    " path=/sets/news/changes query=\"after=1\" " \
    "agent=\"an \\\"agent\\\"\\n\xef\xbf\xbd\"\n"
    assert_file(l->dir.fd, "access",
                HEAD("200") "complete=true" REST HEAD(
                    "101") "messages=3" REST AT
                           "status=0 in=0 out=0 duration=0.000000 "
                           "complete=false\n");
}

TEST(a_line_may_be_json)
{
    struct logged *l = *state;

    use(l, l->path);
    log_line_set_format(LOG_JSON);
    add(l, 0, "1");
    end(l);
    log_line_set_format(LOG_LOGFMT);

    assert_file(l->dir.fd, "access",
                "{\"time\":\"2026-10-20T07:43:00.123Z\",\"id\":\"1\","
                "\"client\":\"192.0.2.1\",\"method\":\"GET\",\"status\":200,"
                "\"in\":0,\"out\":7,\"duration\":0.001250,\"complete\":true,"
                "\"path\":\"/x\"}\n");
}

TEST(long_texts_are_cut)
{
    struct logged *l = *state;
    struct access_entry e = entry_of("1");
    char text[9001], want[2000];

    memset(text, 'p', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    use(l, l->path);
    e.path = slice_of(text);
    access_log_add(l->log, 0, &e);
    end(l);

    snprintf(want, sizeof(want),
             AT "id=1 client=192.0.2.1 method=GET status=200 in=0 out=7 "
                "duration=0.001250 complete=true path=%.597s...\n",
             text);
    assert_file(l->dir.fd, "access", want);
}

/* As logrotate has it: the file is renamed, and opened again. */
TEST(another_file_gets_the_lines_from_then_on)
{
    struct logged *l = *state;
    char renamed[320];

    use(l, l->path);
    add(l, 0, "1");
    add(l, 1, "2");
    AWAIT(has_lines(l));
    snprintf(renamed, sizeof(renamed), "%s.1", l->path);
    assert_int_equal(rename(l->path, renamed), 0);
    use(l, l->path);
    end(l);
    assert_file(l->dir.fd, "access.1", LINE("1") LINE("2"));
    assert_file(l->dir.fd, "access", "");
}

/* The clock stands, so the thread gathers lines for ever, and the ring gets
 * full. */
TEST(a_full_ring_drops_and_counts)
{
    enum { LINES = 20000 };
    struct logged *l = *state;
    uint64_t before = dropped();
    unsigned n_written;

    use(l, l->path);
    for (unsigned i = 0; i < LINES; i++)
        add(l, 0, "a-plain-id");
    add(l, 1, "of another thread");
    end(l);

    n_written = count_lines(l);
    assert_in_range(n_written, 1000, LINES);
    assert_int_equal(dropped() - before, LINES + 1 - n_written);
}

TEST(a_full_disk_drops_and_counts)
{
    struct logged *l = *state;
    uint64_t before = dropped();
    unsigned n = 1;

    use(l, "/dev/full");
    add(l, 0, "1");
    AWAIT(dropped() == before + 1);
    use(l, l->path);
    AWAIT((add(l, 0, "2"), n++, has_lines(l)));
    end(l);
    assert_int_equal(dropped() - before + count_lines(l), n);
}

TEST(a_file_that_cannot_be_opened_is_named)
{
    static const struct {
        const char *path, *end;
    } rows[] = {
        {"%s", ": Is a directory"},
        {"%s/no/such", ": No such file or directory"},
    };
    struct logged *l = *state;
    struct problem why = {""};
    char path[400];
    int fd;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        snprintf(path, sizeof(path), rows[i].path, l->dir.path);
        assert_int_equal(access_log_open(l->log, path, &fd, &why),
                         STATUS_INVALID);
        assert_int_equal(fd, -1);
        assert_non_null(strstr(why.text, "--access-log"));
        assert_non_null(strstr(why.text, rows[i].end));
        assert_int_equal(access_log_check(path, &why), STATUS_INVALID);
        assert_non_null(strstr(why.text, rows[i].end));
    }
    assert_int_equal(access_log_check(l->path, &why), 0);
    assert_int_equal(access(l->path, F_OK), -1);
}
