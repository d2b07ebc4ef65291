#include "tests/support/inlined.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/hash.h"
#include "tests/support/jsonpath.h"
#include "tests/test.h"

int
inlined_open(void **state)
{
    struct inlined *s = calloc(1, sizeof(*s));
    const char *json[] = {"Content-Type: application/json", NULL};

    assert_non_null(s);
    *state = s;
    broker_open(&s->broker, NULL);
    http_open(&s->http, s->broker.url);
    assert_int_equal(http_request(&s->http, "PUT", "/sets/demo", json,
                                  SLICE("{\"content\":\"inline\"}")),
                     201);
    return 0;
}

int
inlined_close(void **state)
{
    struct inlined *s = *state;

    http_close(&s->http);
    broker_close(&s->broker);
    free(s);
    return 0;
}

/* What is on the disk */

static size_t
count_in(const char *path, int depth)
{
    struct dirent *e;
    size_t n = 0;
    DIR *d = opendir(path);

    while (d && (e = readdir(d)) != NULL) {
        char below[700];

        if (e->d_name[0] == '.')
            continue;
        snprintf(below, sizeof(below), "%s/%s", path, e->d_name);
        n += depth > 0 ? count_in(below, depth - 1) : 1;
    }
    if (d)
        closedir(d);
    return n;
}

size_t
inlined_n_kept(const struct inlined *s)
{
    char path[400];

    snprintf(path, sizeof(path), "%s/sets/demo/content", s->broker.data);
    return count_in(path, 1);
}

size_t
inlined_n_arriving(const struct inlined *s)
{
    char path[400];

    snprintf(path, sizeof(path), "%s/arriving", s->broker.data);
    return count_in(path, 0);
}

void
inlined_assert_kept(const struct inlined *s, struct slice bytes)
{
    char path[500], name[DIGEST_TEXT_SIZE], at_end = 0;
    const char *hex = name + sizeof("sha-256:") - 1;
    struct digest digest;
    char *found;
    FILE *f;

    digest_sha256(&digest, bytes);
    digest_write(name, &digest);
    snprintf(path, sizeof(path), "%s/sets/demo/content/%.2s/%.64s",
             s->broker.data, hex, hex);
    f = fopen(path, "rb");
    if (!f)
        fail_msg("%s is not there", path);
    found = malloc(bytes.size + 1);
    assert_non_null(found);
    assert_int_equal(fread(found, 1, bytes.size, f), bytes.size);
    assert_memory_equal(found, bytes.data ? bytes.data : "", bytes.size);
    assert_int_equal(fread(&at_end, 1, 1, f), 0);
    free(found);
    fclose(f);
}

uint64_t
inlined_last(struct inlined *s)
{
    struct jsonpath j;
    uint64_t last;

    assert_int_equal(http_get(&s->http, "/sets/demo"), 200);
    jsonpath_open(&j, buf_slice(&s->http.body));
    last = (uint64_t)jsonpath_number(&j, "last");
    jsonpath_close(&j);
    return last;
}

void
inlined_assert_state(struct inlined *s, uint64_t last, size_t n_kept)
{
    assert_int_equal(inlined_last(s), last);
    assert_int_equal(inlined_n_kept(s), n_kept);
    assert_int_equal(inlined_n_arriving(s), 0);
}

/* Posting */

long
inlined_post_as(struct inlined *s, const char *path, const char *type,
                const char *another, struct slice body)
{
    char type_line[300];
    const char *headers[] = {type_line, another, NULL};

    snprintf(type_line, sizeof(type_line), "Content-Type: %s", type);
    return http_request(&s->http, "POST", path, headers, body);
}

long
inlined_send_with(struct inlined *s, struct multipart_body *m,
                  const char *another)
{
    multipart_body_close(m);
    assert_false(m->bytes.failed);
    inlined_post_as(s, DEMO_CHANGES, MULTIPART_TYPE, another,
                    buf_slice(&m->bytes));
    multipart_body_free(m);
    return s->http.status;
}

long
inlined_post_one(struct inlined *s, const char *changes, const char *loc,
                 struct slice bytes)
{
    struct multipart_body m;

    multipart_body_open(&m, "application/json", changes);
    multipart_body_add(&m, loc, "text/plain", bytes);
    return inlined_send_with(s, &m, NULL);
}

void
inlined_assert_posted(struct inlined *s, uint64_t first, uint64_t last)
{
    struct jsonpath j;

    if (s->http.status != 200)
        print_error("%.*s\n", SLICE_ARG(buf_slice(&s->http.body)));
    assert_int_equal(s->http.status, 200);
    jsonpath_open(&j, buf_slice(&s->http.body));
    assert_string_equal(jsonpath_text(&j, "set"), "demo");
    assert_int_equal(jsonpath_number(&j, "first"), first);
    assert_int_equal(jsonpath_number(&j, "last"), last);
    jsonpath_close(&j);
}

void
inlined_list(struct inlined *s, struct xpath *x)
{
    assert_int_equal(http_get(&s->http, "/sets/demo/changelist.xml"), 200);
    xpath_open(x, buf_slice(&s->http.body));
}
