#include "tests/bench/source.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <openssl/evp.h>
#include <zlib.h>

#include "tests/bench/bench.h"

#define LIST_MAX   50000
#define EVENTS_MAX 64
#define FILES_MAX  4096
#define HEAD_MAX   4096

#define XML_HEAD                                                     \
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"                   \
    "<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\" " \
    "xmlns:rs=\"http://www.openarchives.org/rs/terms/\">\n"
#define INDEX_HEAD                                                         \
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"                         \
    "<sitemapindex xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\" " \
    "xmlns:rs=\"http://www.openarchives.org/rs/terms/\">\n"

struct page {
    char path[64];
    char *bytes; /* head and body */
    size_t size;
};

/* Of the process that serves. */
static struct {
    const struct source_options *options;
    struct source_counts *counts;
    char url[64];
    struct page *pages;
    size_t n_pages;
    char *body; /* of a file; its number is written into it */

    struct {
        char bytes[HEAD_MAX];
        size_t size;
    } heads[FILES_MAX];

    char out[1 << 20];
    size_t out_size;
} web;

/* Files */

static int
path_of(char to[64], const struct source_options *o, unsigned number)
{
    return snprintf(to, 64, "/r/%03u/%06u.txt", number / o->in_directory,
                    number);
}

static void
make_body(unsigned number)
{
    char digits[16];

    snprintf(digits, sizeof(digits), "%010u\n", number);
    memcpy(web.body, digits, web.options->bytes < 11 ? web.options->bytes : 11);
}

/* Lists */

static void
add_page(const char *path, const char *body, size_t size)
{
    struct page *p;
    bool is_packed = size > 100000;
    z_stream z = {0};
    uLong most;
    int head;

    web.pages = bench_memory(
        realloc(web.pages, (web.n_pages + 1) * sizeof(*web.pages)));
    p = &web.pages[web.n_pages++];
    snprintf(p->path, sizeof(p->path), "%s", path);
    if (deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        bench_fail("zlib");
    most = deflateBound(&z, size);
    p->bytes = bench_memory(malloc(most + size + 300));
    z.next_in = (Bytef *)(uintptr_t)body;
    z.avail_in = (uInt)size;
    z.next_out = (Bytef *)p->bytes + 300;
    z.avail_out = (uInt)most;
    if (is_packed && deflate(&z, Z_FINISH) != Z_STREAM_END)
        bench_fail("zlib");
    if (is_packed)
        size = z.total_out;
    else
        memcpy(p->bytes + 300, body, size);
    deflateEnd(&z);
    head = snprintf(p->bytes, 300,
                    "HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\n"
                    "%sContent-Length: %zu\r\n\r\n",
                    is_packed ? "Content-Encoding: gzip\r\n" : "", size);
    memmove(p->bytes + head, p->bytes + 300, size);
    p->size = (size_t)head + size;
    p->bytes = bench_memory(realloc(p->bytes, p->size));
}

static void
add_digest(FILE *to)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;

    EVP_Digest(web.body, web.options->bytes, digest, &size, EVP_sha256(), NULL);
    fprintf(to, " length=\"%zu\" hash=\"sha-256:", web.options->bytes);
    for (unsigned i = 0; i < size; i++)
        fprintf(to, "%02x", digest[i]);
    fputc('"', to);
}

static void
add_list(const char *path, unsigned first, unsigned end)
{
    char *text, name[64];
    size_t size;
    FILE *to = bench_memory(open_memstream(&text, &size));

    fputs(XML_HEAD "<rs:md capability=\"resourcelist\""
                   " at=\"2026-01-02T00:00:00Z\"/>\n",
          to);
    for (unsigned i = first; i < end; i++) {
        path_of(name, web.options, i);
        fprintf(to,
                "<url><loc>%s%s</loc><lastmod>2026-01-01T00:00:00Z</lastmod>"
                "<rs:md",
                web.url, name);
        if (web.options->has_hashes) {
            make_body(i);
            add_digest(to);
        }
        fputs(" type=\"text/plain\"/></url>\n", to);
    }
    fputs("</urlset>\n", to);
    fclose(to);
    add_page(path, text, size);
    free(text);
}

static void
add_lists(void)
{
    unsigned n = web.options->files;
    char *text, path[64];
    size_t size;
    FILE *to;

    if (n <= LIST_MAX) {
        add_list("/resources.xml", 0, n);
        return;
    }
    to = bench_memory(open_memstream(&text, &size));
    fputs(INDEX_HEAD "<rs:md capability=\"resourcelist\""
                     " at=\"2026-01-02T00:00:00Z\"/>\n",
          to);
    for (unsigned i = 0; i < n; i += LIST_MAX) {
        snprintf(path, sizeof(path), "/resources/%u.xml", i / LIST_MAX);
        fprintf(to, "<sitemap><loc>%s%s</loc></sitemap>\n", web.url, path);
        add_list(path, i, i + LIST_MAX < n ? i + LIST_MAX : n);
    }
    fputs("</sitemapindex>\n", to);
    fclose(to);
    add_page("/resources.xml", text, size);
    free(text);
}

static void
add_documents(void)
{
    char text[2000];
    int size;

    size = snprintf(text, sizeof(text),
                    XML_HEAD "<rs:md capability=\"description\"/>\n"
                             "<url><loc>%s/capability.xml</loc>"
                             "<rs:md capability=\"capabilitylist\"/></url>"
                             "</urlset>\n",
                    web.url);
    add_page("/resourcesync.xml", text, (size_t)size);
    size = snprintf(text, sizeof(text),
                    XML_HEAD "<rs:ln rel=\"up\" href=\"%s/resourcesync.xml\"/>"
                             "<rs:md capability=\"capabilitylist\"/>\n"
                             "<url><loc>%s/resources.xml</loc>"
                             "<rs:md capability=\"resourcelist\"/></url>"
                             "<url><loc>%s/changes.xml</loc>"
                             "<rs:md capability=\"changelist\"/></url>"
                             "</urlset>\n",
                    web.url, web.url, web.url);
    add_page("/capability.xml", text, (size_t)size);
    size = snprintf(text, sizeof(text),
                    XML_HEAD "<rs:md capability=\"changelist\" "
                             "from=\"2026-01-01T00:00:00Z\"/></urlset>\n");
    add_page("/changes.xml", text, (size_t)size);
}

/* Serving */

static void
flush(int fd)
{
    size_t sent = 0;

    while (sent < web.out_size) {
        ssize_t n = send(fd, web.out + sent, web.out_size - sent, MSG_NOSIGNAL);

        if (n <= 0)
            break; /* the next recv() reports the error */
        sent += (size_t)n;
    }
    web.out_size = 0;
}

static void
put(int fd, const char *bytes, size_t size)
{
    while (size > 0) {
        size_t n = sizeof(web.out) - web.out_size;

        if (n > size)
            n = size;
        memcpy(web.out + web.out_size, bytes, n);
        web.out_size += n;
        bytes += n;
        size -= n;
        if (web.out_size == sizeof(web.out))
            flush(fd);
    }
}

static void
answer_file(int fd, unsigned number, bool has_body)
{
    char head[128];
    int size = snprintf(head, sizeof(head),
                        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
                        "Content-Length: %zu\r\n\r\n",
                        web.options->bytes);

    if (!web.counts->first_ns)
        web.counts->first_ns = bench_now_ns();
    web.counts->files++;
    put(fd, head, (size_t)size);
    make_body(number);
    if (has_body)
        put(fd, web.body, web.options->bytes);
}

/* `head`: "GET /path HTTP/1.1" and more, terminated. */
static void
answer(int fd, const char *head)
{
    static const char missing[] =
        "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
    const char *path = strchr(head, ' ');
    unsigned number;

    if (path && sscanf(path, " /r/%*u/%u.txt", &number) == 1 &&
        number < web.options->files) {
        answer_file(fd, number, head[0] == 'G');
        return;
    }
    for (size_t i = 0; path && i < web.n_pages; i++) {
        const struct page *p = &web.pages[i];
        size_t size = strlen(p->path);

        if (!strncmp(path + 1, p->path, size) && path[1 + size] == ' ') {
            put(fd, p->bytes, p->size);
            return;
        }
    }
    put(fd, missing, sizeof(missing) - 1);
}

static void
serve_one(int fd)
{
    char *bytes = web.heads[fd].bytes;
    size_t *size = &web.heads[fd].size;
    ssize_t n = recv(fd, bytes + *size, HEAD_MAX - 1 - *size, 0);
    char *end;

    if (n <= 0) {
        close(fd);
        *size = 0;
        return;
    }
    *size += (size_t)n;
    bytes[*size] = '\0';
    while ((end = strstr(bytes, "\r\n\r\n"))) {
        size_t used = (size_t)(end + 4 - bytes);

        *end = '\0';
        answer(fd, bytes);
        memmove(bytes, bytes + used, *size - used + 1);
        *size -= used;
    }
    flush(fd);
}

static void
greet(int epoll, int listener)
{
    int fd = accept(listener, NULL, NULL), on = 1;
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

    if (fd < 0 || fd >= FILES_MAX)
        bench_fail("accept: %s", strerror(errno));
    web.counts->connections++;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

static void
serve(int listener)
{
    struct epoll_event events[EVENTS_MAX],
        event = {.events = EPOLLIN, .data.fd = listener};
    int epoll = epoll_create1(0);

    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int n = epoll_wait(epoll, events, EVENTS_MAX, -1);

        for (int i = 0; i < n; i++) {
            if (events[i].data.fd == listener)
                greet(epoll, listener);
            else
                serve_one(events[i].data.fd);
        }
    }
}

void
source_start(struct source *source, const struct source_options *options)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(at);
    pid_t parent = getpid();
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (bind(fd, (struct sockaddr *)&at, size) || listen(fd, 4096) ||
        getsockname(fd, (struct sockaddr *)&at, &size))
        bench_fail("cannot listen: %s", strerror(errno));
    source->port = ntohs(at.sin_port);
    source->counts = mmap(NULL, sizeof(*source->counts), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (source->counts == MAP_FAILED)
        bench_fail("mmap: %s", strerror(errno));
    web.options = options;
    web.counts = source->counts;
    web.body = bench_memory(malloc(options->bytes + 1));
    memset(web.body, 'x', options->bytes);
    snprintf(web.url, sizeof(web.url), "http://127.0.0.1:%u", source->port);
    add_documents();
    add_lists();
    source->pid = fork();
    if (source->pid < 0)
        bench_fail("fork: %s", strerror(errno));
    if (source->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        bench_pin(options->core);
        serve(fd);
    }
    close(fd);
}

void
source_stop(struct source *source)
{
    kill(source->pid, SIGKILL);
    while (waitpid(source->pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

void
source_write_urls(const struct source *source,
                  const struct source_options *options, const char *path)
{
    FILE *to = fopen(path, "we");
    char name[64];

    if (!to)
        bench_fail("cannot write %s: %s", path, strerror(errno));
    for (unsigned i = 0; i < options->files; i++) {
        path_of(name, options, i);
        fprintf(to, "http://127.0.0.1:%u%s\n", source->port, name);
    }
    if (fclose(to))
        bench_fail("cannot write %s: %s", path, strerror(errno));
}
