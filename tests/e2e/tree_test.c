/*
 * tree_test.c - a directory tree with its content: real files and a sparse one
 * of 2 GB, on somebody else's web server, watched, fetched, and packed into
 * dumps that others open.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/broker.h"
#include "tests/support/build.h"
#include "tests/support/command.h"
#include "tests/support/http.h"
#include "tests/support/jsonpath.h"
#include "tests/support/patience.h"
#include "tests/support/sanitized.h"
#include "tests/support/shell.h"
#include "tests/test.h"

/* The large file, where it matters, and where it does not. */
#define LARGE_BYTES ((off_t)(IS_SANITIZED ? 32 : 2048) << 20)
#define SMALL_BYTES ((off_t)1 << 20)

/* A package, so that there are several beside that of the large file. */
#define PACKAGE_BYTES "65536"

struct stage {
    struct broker broker;
    struct http http;
    struct tempdir home;
    struct command server;
    char files[300]; /* what the server has */
    char base[64];   /* "http://127.0.0.1:40123/" */
};

/* Python's own server: a peer that knows nothing of us. */
static void
start_server(struct stage *s)
{
    const char *const argv[] = {
        "/usr/bin/env", "python3",     "-u",     "-m", "http.server", "--bind",
        "127.0.0.1",    "--directory", s->files, "0",  NULL};
    const char *line;
    unsigned port;

    command_start(&s->server, argv);
    line = command_line(&s->server);
    assert_int_equal(sscanf(line, "Serving HTTP on 127.0.0.1 port %u", &port),
                     1);
    snprintf(s->base, sizeof(s->base), "http://127.0.0.1:%u/", port);
}

/* Documents of this project, names that need escapes, nothing, and much. */
static void
make_files(struct stage *s, off_t size)
{
    char path[400];
    int fd;

    snprintf(s->files, sizeof(s->files), "%s/files", s->home.path);
    shell_do("mkdir %s && cp -r %s %s/spec", s->files, SPEC_DIR, s->files);
    shell_do("cd %s && : > empty && printf a > 'a b&c.txt' &&"
             " printf b > $(printf 'gr\\303\\274n.csv')",
             s->files);
    snprintf(path, sizeof(path), "%s/large.bin", s->files);
    fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, size), 0);
    assert_int_equal(pwrite(fd, "near the end", 12, size - 100), 12);
    close(fd);
}

static int
set_up_with(void **state, off_t size)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    *state = s;
    tempdir_open(&s->home);
    make_files(s, size);
    start_server(s);
    broker_open(&s->broker, "--content", "fetch", "--package-bytes",
                PACKAGE_BYTES, NULL);
    http_open(&s->http, s->broker.url);
    return 0;
}

static int
set_up(void **state)
{
    return set_up_with(state, SMALL_BYTES);
}

static int
set_up_large(void **state)
{
    return set_up_with(state, LARGE_BYTES);
}

static int
tear_down(void **state)
{
    struct stage *s = *state;

    kill(s->server.pid, SIGTERM);
    command_end(&s->server);
    http_close(&s->http);
    broker_close(&s->broker);
    tempdir_close(&s->home);
    free(s);
    return 0;
}

/* Tells the broker what the directory has. */
static void
watch(struct stage *s)
{
    shell_do("%s/tidings watch %s %s/sets/files --base-uri %s --once"
             " --state %s/watch",
             BIN_DIR, s->files, s->broker.url, s->base, s->home.path);
}

/* Bytes of files that have not come whole yet. */
static off_t
arriving(const struct stage *s)
{
    char path[400];
    struct dirent *e;
    struct stat st;
    off_t n = 0;
    DIR *d;

    snprintf(path, sizeof(path), "%s/arriving", s->broker.data);
    d = opendir(path);
    while (d && (e = readdir(d)))
        if (!fstatat(dirfd(d), e->d_name, &st, 0) && S_ISREG(st.st_mode))
            n += st.st_size;
    if (d)
        closedir(d);
    return n;
}

/* The bytes of all entries are there; until then more and more of them are. */
static void
await_content(struct stage *s)
{
    struct patience p = {.with = "more of the content of all files"};
    bool is_there = false;
    off_t before = 0, now;

    while (!is_there) {
        struct jsonpath j;

        now = arriving(s);
        if (now != before)
            p.end_us = 0;
        before = now;
        assert_int_equal(http_get(&s->http, "/sets/files"), 200);
        jsonpath_open(&j, buf_slice(&s->http.body));
        is_there =
            jsonpath_number(&j, "content.missing") == 0 &&
            jsonpath_number(&j, "content.last") == jsonpath_number(&j, "last");
        jsonpath_close(&j);
        if (!is_there)
            patience_step(&p);
    }
}

/* Every package on the disk, as unzip and Python see it: whole, and with the
 * members that its manifest names. */
static void
open_packages(struct stage *s, const char *folder)
{
    shell_do("set -e; cd %s/sets/files/%s; for z in */*.zip; do"
             " unzip -tq $z; done",
             s->broker.data, folder);
    shell_do(
        "cd %s/sets/files/%s && python3 - <<'END'\n"
        "import glob, hashlib, xml.etree.ElementTree as E, zipfile\n"
        "S = '{http://www.sitemaps.org/schemas/sitemap/0.9}'\n"
        "R = '{http://www.openarchives.org/rs/terms/}'\n"
        "names = sorted(glob.glob('*/*.zip'))\n"
        "assert len(names) > 3, names\n"
        "for name in names:\n"
        "    z = zipfile.ZipFile(name)\n"
        "    assert z.testzip() is None\n"
        "    told = {}\n"
        "    for u in E.fromstring(z.read('manifest.xml')).iter(S + 'url'):\n"
        "        md = u.find(R + 'md')\n"
        "        if md.get('path'):\n"
        "            told[md.get('path')[1:]] = md\n"
        "    assert set(told) == set(z.namelist()) - {'manifest.xml'}\n"
        "    for path, md in told.items():\n"
        "        assert z.getinfo(path).file_size == int(md.get('length'))\n"
        "        h = hashlib.sha256()\n"
        "        with z.open(path) as f:\n"
        "            while b := f.read(1 << 20):\n"
        "                h.update(b)\n"
        "        assert 'sha-256:' + h.hexdigest() in md.get('hash')\n"
        "END",
        s->broker.data, folder);
}

static void
post(struct stage *s, const char *path)
{
    if (build(&s->http, path) != 200)
        fail_msg("POST %s: %ld %.*s", path, s->http.status,
                 (int)s->http.body.size, s->http.body.data);
}

/* a Resource Dump of the tree is what
 * the tree is, for unzip, for Python, and for a mirror that takes it. */
TEST(a_tree_of_files_becomes_a_dump_that_others_open, set_up_large, tear_down)
{
    struct stage *s = *state;

    watch(s);
    await_content(s);
    post(s, "/sets/files/resourcedump");
    open_packages(s, "resourcedump");
    shell_do("%s/tidings sync %s/sets/files %s/mirror --until-caught-up",
             BIN_DIR, s->broker.url, s->home.path);
    /* Names are made safe there; the bytes are the same. */
    shell_do("cd %s && find files -type f -exec sha256sum {} + |"
             " cut -c1-64 | sort > files.sums &&"
             " find mirror/127* -type f -exec sha256sum {} + |"
             " cut -c1-64 | sort > mirror.sums && cmp files.sums mirror.sums",
             s->home.path);
}

/* each change with the bytes that the file had then. */
TEST(changes_of_a_tree_become_dumps_that_others_open, set_up, tear_down)
{
    struct stage *s = *state;
    struct patience p = {.with = "the Change Dump"};

    watch(s);
    await_content(s);
    for (int i = 0; i < 3; i++) {
        shell_do("printf %d > %s/empty", i, s->files);
        watch(s);
        await_content(s);
    }
    shell_do("rm %s/large.bin", s->files);
    watch(s);
    post(s, "/sets/files/rotate");
    while (http_get(&s->http, "/sets/files/changedump.xml") != 200)
        patience_step(&p);
    open_packages(s, "changedump");
}
