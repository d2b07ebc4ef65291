#include "tests/support/http.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "tests/support/patience.h"
#include "tests/test.h"

/* Largest answer: a Change List has at most 50 MB. */
#define BODY_SIZE_MAX    (256 << 20)
#define HEADERS_SIZE_MAX (64 << 10)

static size_t
take(char *bytes, size_t one, size_t size, void *user)
{
    struct buf *to = user;

    (void)one;
    buf_add(to, bytes, size);
    return to->failed ? 0 : size;
}

void
http_open(struct http *h, const char *url)
{
    *h = (struct http){.url = url};
    buf_init(&h->headers, HEADERS_SIZE_MAX);
    buf_init(&h->body, BODY_SIZE_MAX);
    h->handle = curl_easy_init();
    assert_non_null(h->handle);
}

void
http_close(struct http *h)
{
    curl_easy_cleanup(h->handle);
    buf_fini(&h->headers);
    buf_fini(&h->body);
}

/* Adds a header line; `lines` may be NULL. */
static struct curl_slist *
add_line(struct curl_slist *lines, const char *line)
{
    struct curl_slist *more = curl_slist_append(lines, line);

    assert_non_null(more);
    return more;
}

/* The caller's headers, without those that libcurl would add to a body. */
static struct curl_slist *
lines_of(const char *const *headers)
{
    struct curl_slist *lines = add_line(NULL, "Expect:");
    bool has_type = false;

    for (; headers && *headers; headers++) {
        has_type = has_type || !strncasecmp(*headers, "Content-Type:", 13);
        lines = add_line(lines, *headers);
    }
    return has_type ? lines : add_line(lines, "Content-Type:");
}

long
http_request(struct http *h, const char *method, const char *path,
             const char *const *headers, struct slice body)
{
    struct curl_slist *lines = lines_of(headers);
    char url[4096];
    CURLcode result;

    assert_in_range(snprintf(url, sizeof(url), "%s%s", h->url, path), 1,
                    sizeof(url) - 1);
    buf_clear(&h->headers);
    buf_clear(&h->body);
    h->status = 0;
    h->error[0] = '\0';

    curl_easy_reset(h->handle); /* keeps the connection */
    curl_easy_setopt(h->handle, CURLOPT_URL, url);
    if (getenv("CURL_CA_BUNDLE"))
        curl_easy_setopt(h->handle, CURLOPT_CAINFO, getenv("CURL_CA_BUNDLE"));
    curl_easy_setopt(h->handle, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(h->handle, CURLOPT_PROXY, "");
    curl_easy_setopt(h->handle, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(h->handle, CURLOPT_TIMEOUT_MS, (long)PATIENCE_MS);
    curl_easy_setopt(h->handle, CURLOPT_ERRORBUFFER, h->error);
    curl_easy_setopt(h->handle, CURLOPT_HEADERFUNCTION, take);
    curl_easy_setopt(h->handle, CURLOPT_HEADERDATA, &h->headers);
    curl_easy_setopt(h->handle, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(h->handle, CURLOPT_WRITEDATA, &h->body);
    curl_easy_setopt(h->handle, CURLOPT_HTTPHEADER, lines);
    if (body.data) {
        curl_easy_setopt(h->handle, CURLOPT_POSTFIELDSIZE_LARGE,
                         (curl_off_t)body.size);
        curl_easy_setopt(h->handle, CURLOPT_POSTFIELDS, body.data);
    }
    if (slice_is(slice_of(method), "HEAD"))
        curl_easy_setopt(h->handle, CURLOPT_NOBODY, 1L);
    else
        curl_easy_setopt(h->handle, CURLOPT_CUSTOMREQUEST, method);

    result = curl_easy_perform(h->handle);
    if (!result)
        curl_easy_getinfo(h->handle, CURLINFO_RESPONSE_CODE, &h->status);
    curl_slist_free_all(lines);
    return h->status;
}

long
http_get(struct http *h, const char *path)
{
    return http_request(h, "GET", path, NULL, (struct slice){NULL, 0});
}

long
http_post(struct http *h, const char *path, const char *type, struct slice body)
{
    char line[256];
    const char *const headers[] = {line, NULL};

    snprintf(line, sizeof(line), "Content-Type: %s", type);
    return http_request(h, "POST", path, headers, body);
}

const char *
http_header(struct http *h, const char *name)
{
    size_t size = strlen(name);
    const char *line = h->headers.data;
    const char *end = line ? line + h->headers.size : line;

    while (line < end) {
        const char *next = memchr(line, '\n', (size_t)(end - line));

        next = next ? next + 1 : end;
        if ((size_t)(next - line) > size && line[size] == ':' &&
            !strncasecmp(line, name, size)) {
            const char *value = line + size + 1;
            const char *stop = next; /* the headers are not terminated */

            while (value < stop && (*value == ' ' || *value == '\t'))
                value++;
            while (stop > value && (stop[-1] == '\r' || stop[-1] == '\n'))
                stop--;
            snprintf(h->value, sizeof(h->value), "%.*s", (int)(stop - value),
                     value);
            return h->value;
        }
        line = next;
    }
    return NULL;
}
