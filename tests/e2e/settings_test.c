/*
 * settings_test.c - what the broker is told in a file, and how it looks at it.
 *
 * An INI file, every option documented, --check, unknown keys
 * are errors with a suggestion.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/broker.h"
#include "tests/support/folder.h"
#include "tests/support/http.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

struct ini {
    struct tempdir dir;
    char path[300];
    char data[300]; /* in it; not made */
};

static int
ini_setup(void **state)
{
    struct ini *ini = calloc(1, sizeof(*ini));

    tempdir_open(&ini->dir);
    snprintf(ini->path, sizeof(ini->path), "%s/tidingsd.ini", ini->dir.path);
    snprintf(ini->data, sizeof(ini->data), "%s/data", ini->dir.path);
    *state = ini;
    return 0;
}

static int
ini_teardown(void **state)
{
    struct ini *ini = *state;

    tempdir_close(&ini->dir);
    free(ini);
    return 0;
}

/* `text` has one %s: the data directory. */
static void
ini_write(struct ini *ini, const char *text)
{
    FILE *file = fopen(ini->path, "we");

    assert_non_null(file);
    fprintf(file, text, ini->data);
    fclose(file);
}

#define GOOD "tidingsd: settings are good\n"

FIXTURE(ini_setup, ini_teardown);

/* A file governs the broker; what the command line says wins. */
TEST(a_file_is_read_and_the_command_line_wins)
{
    static const char two[] = "[{\"loc\":\"http://example.com/a\","
                              "\"change\":\"created\"},"
                              "{\"loc\":\"http://example.com/b\","
                              "\"change\":\"created\"}]";
    struct ini *ini = *state;
    struct broker b;
    struct http h;

    ini_write(ini, "# of this test\n"
                   "listen = 192.0.2.1:1\n"
                   "rotate-entries = 1 ; each entry a list\n"
                   "data = %s\n");
    broker_open(&b, "--config", ini->path, NULL);
    http_open(&h, b.url);

    assert_int_equal(
        http_post(&h, "/sets/demo/changes", "application/json", SLICE(two)),
        200);
    assert_int_equal(http_get(&h, "/sets/demo/changes/000000000002.xml"), 200);
    assert_int_equal(access(ini->data, F_OK), -1);

    http_close(&h);
    broker_stop(&b);
    broker_close(&b);
}

TEST(an_error_names_file_line_key_and_what_is_allowed)
{
    static const struct {
        const char *text, *said;
    } files[] = {
        {"\nheartbeat = 0\ndata = %s\n",
         "2: heartbeat: 0 is not between 0.1 and 3600"},
        {"data = %s\nrotat-age = 5\n",
         "2: rotat-age: there is no such option; did you mean rotate-age?"},
        {"data = %s\n[tidingsd]\n",
         "2: [tidingsd]: there is no such section; a bridge to an MQTT broker "
         "is [mqtt NAME]"},
        {"data = %s\n[mqtt a]\nurl = mqtt://a.org\nout = *\nrotate-age = 5\n",
         "5: rotate-age: is the broker's, not the bridge's: it has to stand "
         "before the first section"},
        {"data = %s\ndata = x\n", "2: data: is there twice, first in line 1"},
        {"data = %s\nlog-level = loud\n",
         "2: log-level: \"loud\" is not error, warning, info or debug"},
    };
    struct ini *ini = *state;
    char said[4096], want[1000];

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        ini_write(ini, files[i].text);
        snprintf(want, sizeof(want), "tidingsd: %s:%s\n", ini->path,
                 files[i].said);
        assert_int_equal(
            broker_run(said, sizeof(said), "--config", ini->path, NULL), 2);
        assert_string_equal(said, want);
        assert_int_equal(broker_run(said, sizeof(said), "--check", "--config",
                                    ini->path, NULL),
                         2);
        assert_string_equal(said, want);
    }
    assert_int_equal(broker_run(said, sizeof(said), "--lsten", "a:1", NULL), 2);
    assert_string_equal(said, "tidingsd: --lsten: there is no such option; did "
                              "you mean --listen?\n");
}

/* The password and the certificates of a bridge are looked at before the bridge
 * needs them. */
TEST(check_looks_at_the_files_of_bridges)
{
    static const struct {
        const char *keys, *said;
    } files[] = {
        {"user = me\npassword-file = /nowhere/password\n",
         "cannot read the password file /nowhere/password: No such file or "
         "directory"},
        {"ca = /nowhere/ca.pem\n",
         "cannot use the CA certificates /nowhere/ca.pem: No such file or "
         "directory"},
        {"cert = /dev/null\nkey = /dev/null\n",
         "cannot use the certificate /dev/null: no start line"},
    };
    struct ini *ini = *state;
    char said[4096], text[500], want[1000];

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        snprintf(text, sizeof(text),
                 "data = %%s\n[mqtt plant]\nurl = mqtts://a.org\nout = *\n%s",
                 files[i].keys);
        ini_write(ini, text);
        snprintf(want, sizeof(want), "tidingsd: [mqtt plant]: %s\n",
                 files[i].said);
        assert_int_equal(broker_run(said, sizeof(said), "--check", "--config",
                                    ini->path, NULL),
                         2);
        assert_string_equal(said, want);
    }
}

/* --check reads all and writes nothing: neither where nothing is yet, nor in
 * the directory of a broker that is at work with the same settings. */
TEST(check_says_in_a_line_that_all_is_well_and_writes_nothing)
{
    struct ini *ini = *state;
    struct broker b;
    struct stat before, after;
    char said[4096], deep[400];
    int status;

    ini_write(ini, "data = %s\n");
    snprintf(deep, sizeof(deep), "%s/a/b/", ini->data);
    assert_int_equal(
        broker_run(said, sizeof(said), "--check", "--config", ini->path, NULL),
        0);
    assert_string_equal(said, GOOD);
    assert_int_equal(broker_run(said, sizeof(said), "--check", "--listen",
                                "localhost:0", "--data", deep, NULL),
                     0);
    assert_string_equal(said, GOOD);
    assert_int_equal(folder_count(ini->dir.path), 1); /* the file itself */

    broker_open(&b, NULL);
    broker_halt(&b); /* what it makes itself is not meant */
    assert_int_equal(stat(b.data, &before), 0);
    status = broker_run(said, sizeof(said), "--check", "--listen",
                        b.url + strlen("http://"), "--data", b.data, NULL);
    assert_int_equal(stat(b.data, &after), 0);
    broker_go_on(&b);
    assert_int_equal(status, 0);
    assert_string_equal(said, GOOD);
    assert_memory_equal(&after.st_mtim, &before.st_mtim, sizeof(after.st_mtim));
    broker_stop(&b);
    broker_close(&b);
}

TEST(check_finds_what_would_not_work)
{
    struct ini *ini = *state;
    char said[4096], want[1000], below[400];

    ini_write(ini, "data = %s\n");
    snprintf(below, sizeof(below), "%s/data", ini->path);
    snprintf(want, sizeof(want),
             "tidingsd: --data: cannot use the directory %s: Not a directory\n",
             below);
    assert_int_equal(
        broker_run(said, sizeof(said), "--check", "--data", below, NULL), 2);
    assert_string_equal(said, want);

    snprintf(want, sizeof(want),
             "tidingsd: --data: cannot use the directory %s: Not a directory\n",
             ini->path);
    assert_int_equal(
        broker_run(said, sizeof(said), "--check", "--data", ini->path, NULL),
        2);
    assert_string_equal(said, want);

    /* A number that is no address is not looked up anywhere. */
    assert_int_equal(broker_run(said, sizeof(said), "--check",
                                "--insecure-open", "--data", ini->data,
                                "--listen", "[1:::2]:80", NULL),
                     2);
    assert_non_null(strstr(said, "--listen: cannot listen on 1:::2: "));
}

/* What --example prints is a configuration file. */
TEST(the_example_is_a_file_for_config)
{
    struct ini *ini = *state;
    char text[16384], said[4096];
    FILE *file = fopen(ini->path, "we");

    assert_non_null(file);
    assert_int_equal(broker_run(text, sizeof(text), "--example", NULL), 0);
    fputs(text, file);
    fclose(file);

    assert_int_equal(broker_run(said, sizeof(said), "--check", "--data",
                                ini->data, "--config", ini->path, NULL),
                     0);
    assert_string_equal(said, GOOD);
}

/* Diagnostics are logfmt, a line each, from the first to the last. */
TEST(diagnostics_tell_of_the_start_and_the_end)
{
    static const char *const parts[] = {
        " level=info part=broker msg=\"starting\" version=" TIDINGS_VERSION
        " pid=",
        " level=info part=broker msg=\"ready\" url=http://127.0.0.1:",
        " level=info part=broker msg=\"ending\" signal=SIGTERM\n",
        " level=info part=broker msg=\"ended\"\n",
    };
    struct ini *ini = *state;
    struct broker b;
    char line[4096], said[4096];
    unsigned n = 0;
    FILE *log;

    broker_open(&b, NULL);
    broker_stop(&b);
    log = fopen(b.log, "re");
    assert_non_null(log);
    while (n < 4 && fgets(line, sizeof(line), log)) {
        assert_memory_equal(line, "time=20", 7);
        n += strstr(line, parts[n]) != NULL;
    }
    assert_int_equal(n, 4);
    fclose(log);
    broker_close(&b);

    assert_int_equal(broker_run(said, sizeof(said), "--log-level", "error",
                                "--listen", "127.0.0.1:0", "--data",
                                "/proc/none", NULL),
                     1);
    assert_memory_equal(said, "time=20", 7);
    assert_non_null(strstr(said, " level=error part=broker msg=\"cannot "
                                 "start\" error=\"cannot create the "
                                 "directory /proc/none: "));
    assert_ptr_equal(strchr(said, '\n'), said + strlen(said) - 1);
    assert_int_equal(access(ini->data, F_OK), -1);
}

/* What was asked for and could not be said is a failure. */
TEST(what_cannot_be_said_is_a_failure)
{
    static const char *const wishes[] = {"--help", "--version", "--example",
                                         "--check"};
    struct ini *ini = *state;

    ini_write(ini, "data = %s\n");
    for (size_t i = 0; i < sizeof(wishes) / sizeof(wishes[0]); i++) {
        char line[700];
        int status;

        snprintf(line, sizeof(line),
                 "exec " BIN_DIR "/tidingsd %s --config %s > /dev/full 2>&1",
                 wishes[i], ini->path);
        status = system(line);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 1);
    }
}
