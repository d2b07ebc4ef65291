/*
 * site.h - a static web site, for tests: files and documents of a source that
 * has no Tidings in it, and the trouble that web servers make.
 *
 *     struct site *s = site_new();
 *
 *     site_put(s, "/a.xml", "application/xml", SLICE("<urlset .../>"));
 *     site_putf(s, "/list.xml", NULL, "<loc>%s/a.txt</loc>", site_url(s));
 *     site_dir(s, "/files/", dir->path);
 *     site_status(s, "/a.xml", 503, "Retry-After: 1", 2);
 *     site_cut(s, "/files/big.bin", 1000);
 *     ... the code under test asks for site_link(s, "/a.xml") ...
 *     site_await(s, "/a.xml", 3);
 *     site_header(s, "/a.xml", 0, "Authorization");
 *     site_free(s);
 *
 * A thread of its own (poll), raw sockets, HTTP/1.1 with keep-alive; it takes
 * GET, HEAD and any other method (and keeps the bodies). One site is one host:
 * several hosts are several sites, on ports of their own.
 *
 * A path is the target of the request line with its query, or, if that is
 * unknown, without it. For who uses the site as a proxy a path is the whole
 * URL, "http://example.org/a.xml". Everything may be changed at any time and
 * applies to all later answers. The site copies all arguments.
 *
 * A page is as a good server has it: with an ETag, If-None-Match is answered
 * with 304; Range and If-Range with 206 or 416.
 *
 * All functions are the test's thread's. Waiting ends with a failure, after
 * PATIENCE_MS.
 */
#ifndef TESTS_SUPPORT_SITE_H
#define TESTS_SUPPORT_SITE_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/slice.h"

struct site;

/* Listens on a port of its own of 127.0.0.1. */
struct site *site_new(void);

void site_free(struct site *s); /* NULL is allowed */

/* "http://127.0.0.1:40123", without a slash at its end; lent. */
const char *site_url(const struct site *s);
unsigned site_port(const struct site *s);

/* "http://127.0.0.1:40123/a.xml"; lent until the site is freed. */
const char *site_link(struct site *s, const char *path);

/* Pages */

/* `type` NULL: no Content-Type. Replaces an earlier page. */
void site_put(struct site *s, const char *path, const char *type,
              struct slice body);
void site_putf(struct site *s, const char *path, const char *type,
               const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Paths that begin with `prefix` are files of `dir`, read when they are asked
 * for; the rest of the path is decoded. Types: by .xml, .json, .zip, .gz, .tar,
 * .html, .txt; else application/octet-stream. */
void site_dir(struct site *s, const char *prefix, const char *dir);

/* 404 from now on, also for a file of a directory; until it is put again. */
void site_delete(struct site *s, const char *path);

/* More header lines for the page's answers, with "\r\n" between them: "Link:
 * <...>; rel=\"describedby\"". NULL: none. */
void site_headers(struct site *s, const char *path, const char *lines);

/* Manners; `path` NULL: all pages, those to come included. */

/* The next `times` answers (0: all) have that status, those header lines (NULL:
 * none) and no body: site_status(s, "/a", 302, "Location: /b", 0). Status 0: as
 * at the beginning. */
void site_status(struct site *s, const char *path, unsigned status,
                 const char *lines, unsigned times);

void site_gzip(struct site *s, const char *path, bool does);   /* off */
void site_ranges(struct site *s, const char *path, bool does); /* on */

/* Says no Content-Length: chunked, for HTTP/1.1. At first off. */
void site_chunked(struct site *s, const char *path, bool does);

/* Takes requests and answers none, until it is released. The answer then shows
 * the page as it is then. */
void site_hold(struct site *s, const char *path);
void site_release(struct site *s, const char *path);

/* Closes the connection after so many bytes of the body of the next answer; of
 * the next `times` answers (0: of all). */
void site_cut(struct site *s, const char *path, size_t bytes);
void site_cuts(struct site *s, const char *path, size_t bytes, unsigned times);

/* Requests of any method; `path` NULL: all requests of the site */

unsigned site_count(struct site *s, const char *path);

/* Waits until there were `n` requests. */
void site_await(struct site *s, const char *path, unsigned n);

/* The i-th request, from 0, which there must be. Lent until the site is freed.
 * A header's value, its name in any case; NULL: it had none. */
const char *site_header(struct site *s, const char *path, unsigned i,
                        const char *name);
const char *site_head(struct site *s, const char *path, unsigned i);
struct slice site_body(struct site *s, const char *path, unsigned i);

/* The status it was answered with; 0: not yet. */
unsigned site_answered(struct site *s, const char *path, unsigned i);

/* Most requests that were under way at once: from the last byte of a request
 * until the last byte of its answer was handed to the system. Pages are
 * answered at once: hold them to see how many a client dares. */
unsigned site_max_parallel(struct site *s);

/* How many requests are held (site_hold), unanswered. */
unsigned site_held(struct site *s);

/* How many connections there were, in all. */
unsigned site_connections(struct site *s);

#endif
