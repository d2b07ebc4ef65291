#include "tests/support/dumped.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/multipart.h"
#include "tests/support/patience.h"
#include "tests/support/schema.h"
#include "tests/test.h"

void
dumped_begin(struct dumped *s)
{
    static const char *const json[] = {"Content-Type: application/json", NULL};

    http_open(&s->http, s->broker.url);
    assert_int_equal(http_request(&s->http, "PUT", "/sets/demo", json,
                                  SLICE("{\"content\":\"inline\"}")),
                     201);
}

int
dumped_setup(void **state)
{
    *state = calloc(1, sizeof(struct dumped));
    assert_non_null(*state);
    ((struct dumped *)*state)->random = 11;
    return 0;
}

int
dumped_teardown(void **state)
{
    struct dumped *s = *state;

    http_close(&s->http);
    if (s->broker.pid)
        broker_stop(&s->broker);
    broker_close(&s->broker);
    free(s);
    return 0;
}

/* The source */

uint32_t
dumped_random_below(struct dumped *s, uint32_t n)
{
    s->random = s->random * 1103515245 + 12345;
    return (s->random >> 8) % n;
}

/* The next change of some resource, and its bytes. */
static struct dumped_told
next_change(struct dumped *s, size_t most)
{
    unsigned number = dumped_random_below(s, DUMPED_RESOURCES);
    struct dumped_told t = {
        .number = number,
        .kind = s->is_there[number] ? dumped_random_below(s, 4) == 0
                                          ? CHANGE_DELETED
                                          : CHANGE_UPDATED
                                    : CHANGE_CREATED,
    };

    if (t.kind != CHANGE_DELETED) {
        t.size = dumped_random_below(s, (uint32_t)most);
        t.byte = (char)('a' + dumped_random_below(s, 26));
    }
    s->is_there[number] = t.kind != CHANGE_DELETED;
    return t;
}

static void
add_part(struct multipart_body *m, const struct dumped_told *t)
{
    char *bytes = malloc(t->size + 1);
    char loc[60];

    assert_non_null(bytes);
    memset(bytes, t->byte, t->size);
    snprintf(loc, sizeof(loc), "http://example.com/r/%u.bin", t->number);
    multipart_body_add(m, loc, "application/octet-stream",
                       (struct slice){bytes, t->size});
    free(bytes);
}

void
dumped_change(struct dumped *s, unsigned n, size_t most)
{
    struct multipart_body m;
    struct buf json;

    buf_init(&json, 1 << 20);
    for (unsigned i = 1; i <= n; i++) {
        struct dumped_told *t = &s->told[s->last + i];

        *t = next_change(s, most);
        buf_add_format(&json,
                       "%s{\"loc\":\"http://example.com/r/%u.bin\","
                       "\"change\":\"%s\"}",
                       i == 1 ? "[" : ",", t->number,
                       change_kind_name(t->kind));
    }
    BUF_ADD(&json, "]");
    buf_add(&json, "", 1);
    multipart_body_open(&m, "application/json", json.data);
    for (unsigned i = 1; i <= n; i++)
        if (s->told[s->last + i].kind != CHANGE_DELETED)
            add_part(&m, &s->told[s->last + i]);
    multipart_body_close(&m);
    if (http_post(&s->http, "/sets/demo/changes", MULTIPART_TYPE,
                  buf_slice(&m.bytes)) != 200)
        fail_msg("%ld %.*s", s->http.status, (int)s->http.body.size,
                 s->http.body.data);
    s->last += n;
    multipart_body_free(&m);
    buf_fini(&json);
}

/* Reading */

void
dumped_document(struct dumped *s, const char *url, struct xpath *x)
{
    size_t root = strlen(s->broker.url);

    if (strncmp(url, s->broker.url, root) != 0)
        root = 0;
    if (http_get(&s->http, url + root) != 200)
        fail_msg("%s: %ld", url, s->http.status);
    assert_valid(buf_slice(&s->http.body));
    xpath_open(x, buf_slice(&s->http.body));
}

const char *
dumped_of_entry(struct xpath *x, size_t number, const char *what)
{
    char question[120];

    snprintf(question, sizeof(question), "string(/*/s:*[%zu]/%s)", number,
             what);
    return xpath_get(x, question);
}

const char *
dumped_offered(struct dumped *s, const char *capability, char to[300])
{
    char question[100];
    struct xpath x;

    dumped_document(s, "/sets/demo/capabilitylist.xml", &x);
    snprintf(question, sizeof(question),
             "string(/*/s:url[rs:md/@capability='%s']/s:loc)", capability);
    snprintf(to, 300, "%s", xpath_get(&x, question));
    xpath_close(&x);
    return to;
}

/* How far the dumps reach. */
static uint64_t
reached(struct dumped *s)
{
    char url[300];
    struct xpath x;
    uint64_t last;

    if (!dumped_offered(s, "changedump", url)[0])
        return 0;
    dumped_document(s, url, &x);
    if (xpath_count(&x, "/s:sitemapindex") > 0) {
        snprintf(url, sizeof(url), "%s",
                 xpath_get(&x, "string(/*/s:sitemap[last()]/s:loc)"));
        xpath_close(&x);
        dumped_document(s, url, &x);
    }
    last = strtoull(xpath_get(&x, "string(/*/rs:md/@td:last)"), NULL, 10);
    xpath_close(&x);
    return last;
}

void
dumped_await(struct dumped *s, uint64_t seq)
{
    struct patience p = {.with = "the Change Dump"};

    while (reached(s) < seq)
        patience_step(&p);
}

void
dumped_assert_told(struct dumped *s, const char *document,
                   const char *capability, const char *change_name)
{
    struct patience p = {.with = document};
    char question[400];
    bool is_told;

    snprintf(question, sizeof(question),
             "/*/s:url[s:loc='%s/sets/demo/%s']/rs:md[@capability='%s' and "
             "@change='%s']",
             s->broker.url, document, capability, change_name);
    do {
        struct xpath x;

        patience_step(&p);
        dumped_document(s, "/sets/demo/framework-notifications", &x);
        is_told = xpath_count(&x, question) == 1;
        xpath_close(&x);
    } while (!is_told);
}
