#include "tests/support/mirrored.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/evp.h>

#include "tests/support/jsonpath.h"
#include "tests/support/patience.h"
#include "tests/test.h"

#define TIDINGS BIN_DIR "/tidings"
#define SET     "news"

int
mirrored_setup(void **state)
{
    struct mirrored *m = calloc(1, sizeof(*m));

    assert_non_null(m);
    *state = m;
    broker_open(&m->broker, "--heartbeat", "0.5", NULL);
    http_open(&m->http, m->broker.url);
    m->site = site_new();
    tempdir_open(&m->home);
    snprintf(m->dir, sizeof(m->dir), "%s/m", m->home.path);
    snprintf(m->set_url, sizeof(m->set_url), "%s/sets/" SET, m->broker.url);
    buf_init(&m->post, 16 * 1024 * 1024);
    return 0;
}

int
mirrored_teardown(void **state)
{
    struct mirrored *m = *state;

    if (m->command.pid) {
        kill(m->command.pid, SIGKILL);
        command_end(&m->command);
    }
    buf_fini(&m->post);
    http_close(&m->http);
    site_free(m->site);
    broker_stop(&m->broker);
    broker_close(&m->broker);
    tempdir_close(&m->home);
    free(m);
    return 0;
}

/* The source */

static struct mirrored_resource *
resource_of(struct mirrored *m, const char *path)
{
    struct mirrored_resource *r;

    for (size_t i = 0; i < m->n_resources; i++)
        if (!strcmp(m->resources[i].path, path))
            return &m->resources[i];
    assert_true(m->n_resources < MIRRORED_MAX);
    r = &m->resources[m->n_resources++];
    snprintf(r->path, sizeof(r->path), "%s", path);
    return r;
}

static void
add_hash(struct buf *to, const char *text)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;

    assert_true(
        EVP_Digest(text, strlen(text), digest, &size, EVP_sha256(), NULL));
    buf_add_hex(to, digest, size);
}

void
mirrored_tell(struct mirrored *m, const char *path, bool is_deleted)
{
    const char *text = resource_of(m, path)->text;

    buf_add_text(&m->post, m->post.size ? "," : "[");
    buf_add_format(&m->post, "{\"loc\":\"%s%s\",\"change\":\"%s\"",
                   site_url(m->site), path, is_deleted ? "deleted" : "updated");
    if (!is_deleted) {
        buf_add_format(&m->post, ",\"length\":%zu,\"hash\":{\"sha-256\":\"",
                       strlen(text));
        add_hash(&m->post, text);
        buf_add_text(&m->post, "\"}");
    }
    buf_add_text(&m->post, "}");
}

void
mirrored_change(struct mirrored *m, const char *path, const char *text)
{
    struct mirrored_resource *r = resource_of(m, path);

    snprintf(r->text, sizeof(r->text), "%s", text ? text : "");
    if (text)
        site_put(m->site, path, "text/plain", slice_of(text));
    else
        site_delete(m->site, path);
    mirrored_tell(m, path, !text);
}

void
mirrored_post_to(struct mirrored *m, const char *set)
{
    char path[80];

    snprintf(path, sizeof(path), "/sets/%s/changes", set);
    buf_add_text(&m->post, "]");
    assert_false(m->post.failed);
    if (http_post(&m->http, path, "application/json", buf_slice(&m->post)) !=
        200)
        fail_msg("%.*s", SLICE_ARG(buf_slice(&m->http.body)));
    buf_clear(&m->post);
}

void
mirrored_post(struct mirrored *m)
{
    mirrored_post_to(m, SET);
}

void
mirrored_await_cut(struct mirrored *m)
{
    struct patience p = {.with = "the oldest lists to go"};
    struct jsonpath j;
    bool is_cut;

    do {
        patience_step(&p);
        assert_int_equal(http_get(&m->http, "/sets/" SET), 200);
        jsonpath_open(&j, buf_slice(&m->http.body));
        is_cut = jsonpath_number(&j, "lists.closed") == 1;
        jsonpath_close(&j);
    } while (!is_cut);
}

/* The mirror */

#define ARGUMENTS_MAX 20

static int
run(struct mirrored *m, const char *const *first, va_list more,
    const char *last)
{
    const char *argv[ARGUMENTS_MAX + 2] = {NULL};
    size_t n = 0;
    int status;

    while (first[n]) {
        argv[n] = first[n];
        n++;
    }
    while (n < ARGUMENTS_MAX && (argv[n] = va_arg(more, const char *)))
        n++;
    argv[n] = last;
    command_start(&m->command, argv);
    status = command_end(&m->command);
    m->command.pid = 0;
    return status;
}

int
mirrored_sync(struct mirrored *m, ...)
{
    const char *const first[] = {
        TIDINGS, "sync", m->set_url, m->dir, "--until-caught-up", NULL};
    va_list more;
    int status;

    va_start(more, m);
    status = run(m, first, more, NULL);
    va_end(more);
    return status;
}

int
mirrored_audit(struct mirrored *m, ...)
{
    const char *const first[] = {TIDINGS, "audit", NULL};
    va_list more;
    int status;

    va_start(more, m);
    status = run(m, first, more, m->dir);
    va_end(more);
    return status;
}

void
mirrored_start(struct mirrored *m)
{
    const char *const argv[] = {TIDINGS, "sync",   m->set_url,
                                m->dir,  "--json", NULL};

    command_start(&m->command, argv);
}

void
mirrored_await(struct mirrored *m, const char *event, const char *part)
{
    char start[64];
    const char *line;

    snprintf(start, sizeof(start), "{\"event\":\"%s\"", event);
    do
        line = command_line(&m->command);
    while (strncmp(line, start, strlen(start)) || !strstr(line, part));
}

const char *
mirrored_place(struct mirrored *m, const char *path)
{
    static char place[400];

    /* http://HOST:PORT/a.txt */
    snprintf(place, sizeof(place), "%s%s", site_url(m->site) + 7, path);
    return place;
}

const char *
mirrored_file(struct mirrored *m, const char *path)
{
    static char file[800];

    snprintf(file, sizeof(file), "%s/%s", m->dir, mirrored_place(m, path));
    return file;
}

void
mirrored_write(struct mirrored *m, const char *place, const char *text)
{
    char path[800];
    int fd;

    mkdir(m->dir, 0755);
    snprintf(path, sizeof(path), "%s/%s", m->dir, place);
    for (char *p = path + strlen(m->dir) + 1; (p = strchr(p, '/')); p++) {
        *p = '\0';
        mkdir(path, 0755);
        *p = '/';
    }
    fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

bool
mirrored_has(struct mirrored *m, const char *place, const char *text)
{
    char path[800];
    char found[256];
    ssize_t size;
    int fd;

    snprintf(path, sizeof(path), "%s/%s", m->dir, place);
    fd = open(path, O_RDONLY | O_NOFOLLOW);
    if (fd < 0)
        return !text;
    size = read(fd, found, sizeof(found) - 1);
    close(fd);
    return text && size == (ssize_t)strlen(text) &&
           !memcmp(found, text, strlen(text));
}

/* nftw has no argument of the caller's. */
static size_t n_files;

static int
count_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)ftw;
    n_files += type != FTW_D && !strstr(path, "/.tidings/");
    return 0;
}

void
mirrored_assert_same_at(struct mirrored *m, const char *file, int line)
{
    size_t n = 0;

    for (size_t i = 0; i < m->n_resources; i++) {
        const struct mirrored_resource *r = &m->resources[i];

        n += r->text[0] != '\0';
        if (!mirrored_has(m, mirrored_place(m, r->path),
                          r->text[0] ? r->text : NULL)) {
            print_error("%s is not \"%s\" in the mirror\n", r->path, r->text);
            _fail(file, line);
        }
    }
    n_files = 0;
    assert_int_equal(nftw(m->dir, count_file, 20, FTW_PHYS), 0);
    if (n_files != n) {
        print_error("the mirror has %zu files, the source %zu\n", n_files, n);
        _fail(file, line);
    }
}
