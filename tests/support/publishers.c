#include "tests/support/publishers.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proto/document.h"
#include "proto/json.h"
#include "proto/vocab.h"
#include "tests/support/http.h"
#include "tests/test.h"

/* Largest post: 2,000 entries of at most 1 KB. */
#define BODY_MAX (4 << 20)

/* Posts */

static void
write_xml(struct buf *to, const struct posted *e)
{
    BUF_ADD(to, "<url><loc>");
    xml_escape(to, slice_of(e->loc));
    BUF_ADD(to, "</loc><rs:md change=\"created\"");
    if (e->sha256)
        buf_add_format(to, " hash=\"sha-256:%s\" length=\"%" PRIu64 "\"",
                       e->sha256, e->size);
    BUF_ADD(to, "/></url>\n");
}

static void
write_json(struct buf *to, const struct posted *e)
{
    BUF_ADD(to, "{\"change\":\"created\",\"loc\":");
    json_string(to, slice_of(e->loc));
    if (e->sha256)
        buf_add_format(to, ",\"hash\":{\"sha-256\":\"%s\"},\"length\":%" PRIu64,
                       e->sha256, e->size);
    BUF_ADD(to, "}");
}

void
publishers_write(struct buf *to, bool is_xml, const struct posted *entries,
                 size_t n)
{
    if (is_xml)
        BUF_ADD(to, "<urlset xmlns=\"" NS_SITEMAP "\" xmlns:rs=\"" NS_RS "\">\n"
                    "<rs:md capability=\"changelist\"/>\n");
    for (size_t i = 0; i < n; i++) {
        if (is_xml) {
            write_xml(to, &entries[i]);
        } else {
            buf_add_text(to, i ? "," : "[");
            write_json(to, &entries[i]);
        }
    }
    buf_add_text(to, is_xml ? "</urlset>\n" : "]\n");
}

/* Publishers */

/* Takes {"set":...,"first":1,"last":3,"position":"...",...} apart. */
static bool
read_answer(struct slice body, uint64_t *first, uint64_t *last,
            char position[64])
{
    char text[512] = "";
    const char *at;

    if (body.size >= sizeof(text))
        return false;
    memcpy(text, body.data, body.size);
    at = strstr(text, "\"first\":");
    return at && sscanf(at,
                        "\"first\":%" SCNu64 ",\"last\":%" SCNu64
                        ",\"position\":\"%63[0-9a-f-]\"",
                        first, last, position) == 3;
}

/* The answer to the post at work. */
static bool
take_answer(struct publisher *m, struct slice body, size_t n)
{
    struct publishers *p = m->all;
    uint64_t first, last;
    char position[64];

    if (!read_answer(body, &first, &last, position)) {
        problem_set(&m->why, "a post was answered with \"%s\"",
                    problem_quote(body).text);
        return false;
    }
    if (!journal_note(p->journal, first, last, m->entries, n, &m->why))
        return false;
    pthread_mutex_lock(&p->lock);
    p->n_answers++;
    if (last > p->last) {
        p->last = last;
        strcpy(p->position, position);
    }
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    return true;
}

/* Posts once; false: that was the last one. */
static bool
post(struct publisher *m, struct http *h, struct buf *body)
{
    struct publishers *p = m->all;
    bool is_xml = m->who % 2 == 0, is_stopping;
    size_t n;

    pthread_mutex_lock(&p->lock);
    is_stopping = p->is_stopping;
    pthread_mutex_unlock(&p->lock);
    n = is_stopping ? 0 : p->next(m->who, m->entries, p->user);
    if (n == 0)
        return false;
    buf_clear(body);
    publishers_write(body, is_xml, m->entries, n);
    if (body->failed) {
        problem_set(&m->why, "a post is too large");
        return false;
    }
    http_post(h, p->path, is_xml ? "application/xml" : "application/json",
              buf_slice(body));
    if (h->status == 0) {
        m->n_doubt = n;
        return false;
    }
    if (h->status != 200) {
        problem_set(&m->why, "a post was answered with %ld: %s", h->status,
                    problem_quote(buf_slice(&h->body)).text);
        return false;
    }
    return take_answer(m, buf_slice(&h->body), n);
}

static void *
run(void *user)
{
    struct publisher *m = user;
    struct publishers *p = m->all;
    struct http h;
    struct buf body;

    http_open(&h, p->url);
    buf_init(&body, BODY_MAX);
    while (post(m, &h, &body))
        ;
    buf_fini(&body);
    http_close(&h);
    pthread_mutex_lock(&p->lock);
    p->n_running--;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

void
publishers_start(struct publishers *p, unsigned n, const struct broker *b,
                 const char *set, struct journal *journal,
                 publishers_next_fn *next, void *user)
{
    assert_in_range(n, 1, PUBLISHERS_MAX);
    *p = (struct publishers){.url = b->url,
                             .next = next,
                             .user = user,
                             .journal = journal,
                             .n = n,
                             .n_running = n};
    snprintf(p->path, sizeof(p->path), "/sets/%s/changes", set);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    for (unsigned i = 0; i < n; i++) {
        struct publisher *m = &p->each[i];

        m->all = p;
        m->who = i;
        m->entries = calloc(PUBLISHERS_POST_MAX, sizeof(*m->entries));
        assert_non_null(m->entries);
        assert_int_equal(pthread_create(&m->thread, NULL, run, m), 0);
        m->is_started = true;
    }
}

/* Waiting */

/* Waits for a change; false: the deadline is over. The lock is held. */
static bool
wait_for_change(struct publishers *p, const struct timespec *end)
{
    return pthread_cond_clockwait(&p->changed, &p->lock, CLOCK_MONOTONIC,
                                  end) != ETIMEDOUT;
}

static struct timespec
deadline(void)
{
    struct timespec end;

    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += PUBLISHERS_WAIT_MS / 1000;
    return end;
}

void
publishers_await(struct publishers *p, unsigned n)
{
    struct timespec end = deadline();
    bool is_in_time = true;

    pthread_mutex_lock(&p->lock);
    while (is_in_time && p->n_answers < n && p->n_running > 0)
        is_in_time = wait_for_change(p, &end);
    pthread_mutex_unlock(&p->lock);
    if (!is_in_time)
        fail_msg("no %u answers within %d ms", n, PUBLISHERS_WAIT_MS);
}

void
publishers_await_seq(struct publishers *p, uint64_t seq, char position[64])
{
    struct timespec end = deadline();

    pthread_mutex_lock(&p->lock);
    while (p->last < seq && p->n_running > 0 && wait_for_change(p, &end))
        ;
    strcpy(position, p->position);
    pthread_mutex_unlock(&p->lock);
}

static void
join_all(struct publishers *p)
{
    for (unsigned i = 0; i < p->n; i++)
        if (p->each[i].is_started)
            pthread_join(p->each[i].thread, NULL);
    for (unsigned i = 0; i < p->n; i++)
        p->each[i].is_started = false;
}

void
publishers_join(struct publishers *p)
{
    struct timespec end = deadline();
    bool is_in_time = true;

    pthread_mutex_lock(&p->lock);
    while (is_in_time && p->n_running > 0)
        is_in_time = wait_for_change(p, &end);
    pthread_mutex_unlock(&p->lock);
    if (!is_in_time)
        fail_msg("publishers did not end within %d ms", PUBLISHERS_WAIT_MS);
    join_all(p);
    for (unsigned i = 0; i < p->n; i++)
        if (p->each[i].why.text[0])
            fail_msg("publisher %u: %s", i, p->each[i].why.text);
}

void
publishers_fini(struct publishers *p)
{
    if (p->n == 0)
        return;
    pthread_mutex_lock(&p->lock);
    p->is_stopping = true;
    pthread_mutex_unlock(&p->lock);
    join_all(p);
    for (unsigned i = 0; i < p->n; i++)
        free(p->each[i].entries);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
}
