/*
 * read.c - what it costs to read a post.
 *
 *     bench_read [ENTRIES [POSTS]]
 *
 * Reads a post of ENTRIES (100) entries, POSTS (20,000) times, without a
 * server: XML by libxml2 alone and with the scanner, an array of JSON, and
 * NDJSON. Prints the CPU of an entry.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "proto/buf.h"
#include "proto/input/input_formats.h"
#include "proto/resourcesync/vocab.h"
#include "proto/resourcesync/xml.h"
#include "tests/bench/bench.h"

#define HASH "1584abdf8ebdc9802ac0c6a7402c03b61584abdf8ebdc9802ac0c6a7402c03b6"

static void
add(struct buf *b, const char *format, unsigned long number)
{
    char text[512];
    int size = snprintf(text, sizeof(text), format, number);

    buf_add(b, text, (size_t)size);
}

static void
write_xml(struct buf *b, unsigned long n)
{
    buf_add_slice(b, SLICE("<urlset xmlns=\"" NS_SITEMAP "\" xmlns:rs=\"" NS_RS
                           "\"><rs:md capability=\"changelist\"/>\n"));
    for (unsigned long i = 0; i < n; i++)
        add(b,
            "<url><loc>http://example.com/resources/%016lu</loc>"
            "<lastmod>2026-01-01T00:00:00Z</lastmod><rs:md "
            "change=\"updated\" hash=\"sha-256:" HASH
            "\" length=\"8876\" type=\"text/xml\"/></url>\n",
            i);
    buf_add_slice(b, SLICE("</urlset>\n"));
}

/* Writes changes, with `between` between two. */
static void
write_json(struct buf *b, unsigned long n, const char *between)
{
    for (unsigned long i = 0; i < n; i++) {
        buf_add_text(b, i > 0 ? between : "");
        add(b,
            "{\"loc\":\"http://example.com/resources/%016lu\",\"lastmod\":"
            "\"2026-01-01T00:00:00Z\",\"change\":\"updated\",\"hash\":"
            "{\"sha-256\":\"" HASH "\"},\"length\":8876,\"type\":\"text/xml\"}",
            i);
    }
}

static enum status
on_change(const struct change *change, void *user, struct problem *why)
{
    (void)change;
    (void)why;
    ++*(unsigned long *)user;
    return STATUS_OK;
}

static double
cpu_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void
run(const char *name, const char *type, const struct buf *post,
    unsigned long n_posts)
{
    unsigned long n = 0;
    struct problem why = {""};
    struct input_reader *reader = input_reader_new(
        format_of(slice_of(type)), INPUT_POST, 1000000, on_change, &n);
    double begin = cpu_us();

    for (unsigned long i = 0; reader && i < n_posts; i++) {
        input_reader_reset(reader, on_change, &n);
        if (input_reader_feed(reader, buf_slice(post), &why) ||
            input_reader_end(reader, &why))
            bench_fail("%s: %s", name, why.text);
    }
    if (n == 0)
        bench_fail("%s: nothing was read", name);
    printf("%s entry_us=%.3f\n", name, (cpu_us() - begin) / (double)n);
    fflush(stdout);
    input_reader_free(reader);
}

int
main(int argc, char **argv)
{
    unsigned long entries = argc > 1 ? strtoul(argv[1], NULL, 10) : 100;
    unsigned long posts = argc > 2 ? strtoul(argv[2], NULL, 10) : 20000;
    struct buf xml, json, ndjson;

    buf_init(&xml, SIZE_MAX);
    buf_init(&json, SIZE_MAX);
    buf_init(&ndjson, SIZE_MAX);
    write_xml(&xml, entries);
    BUF_ADD(&json, "[");
    write_json(&json, entries, ",\n");
    BUF_ADD(&json, "]\n");
    write_json(&ndjson, entries, "\n");
    BUF_ADD(&ndjson, "\n");
    xml_scan_switch(false);
    run("libxml2", "application/xml", &xml, posts);
    xml_scan_switch(true);
    run("xml_scan", "application/xml", &xml, posts);
    run("json", "application/json", &json, posts);
    run("ndjson", "application/x-ndjson", &ndjson, posts);
    buf_fini(&xml);
    buf_fini(&json);
    buf_fini(&ndjson);
    return 0;
}
