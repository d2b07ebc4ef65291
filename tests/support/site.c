#include <stdio.h>
#include <time.h>

#include "tests/support/patience.h"
#include "tests/support/site_inside.h"
#include "tests/test.h"

void
site_must(bool is_so, const char *what)
{
    if (!is_so) { /* not the test's thread: cmocka's asserts are not for it */
        perror(what);
        abort();
    }
}

static char *
copy(const char *text)
{
    char *made = text ? strdup(text) : NULL;

    site_must(!text || made, "memory");
    return made;
}

/* Servers */

struct site *
site_new(void)
{
    struct site *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    s->last = &s->first;
    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->changed, NULL);
    site_wire_open(s);
    snprintf(s->url, sizeof(s->url), "http://127.0.0.1:%u", s->port);
    return s;
}

static void
free_page(struct site_page *p)
{
    free(p->path);
    free(p->type);
    free(p->lines);
    free(p->body);
    free(p->manners.status_lines);
}

void
site_free(struct site *s)
{
    if (!s)
        return;
    site_wire_close(s);
    for (struct site_page *p = s->pages, *next; p; p = next) {
        next = p->next;
        free_page(p);
        free(p);
    }
    free_page(&s->all);
    for (struct site_folder *f = s->folders, *next; f; f = next) {
        next = f->next;
        free(f->prefix);
        free(f->dir);
        free(f);
    }
    for (struct site_request *r = s->first, *next; r; r = next) {
        next = r->next;
        free(r->head);
        free(r->body);
        free(r);
    }
    for (struct site_text *t = s->texts, *next; t; t = next) {
        next = t->next;
        free(t);
    }
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->mutex);
    free(s);
}

const char *
site_url(const struct site *s)
{
    return s->url;
}

unsigned
site_port(const struct site *s)
{
    return s->port;
}

/* Keeps a text as long as the site; the mutex is held. */
static const char *
keep(struct site *s, struct slice first, struct slice second)
{
    struct site_text *t = malloc(sizeof(*t) + first.size + second.size + 1);

    site_must(t != NULL, "memory");
    memcpy(t->text, first.data, first.size);
    if (second.size > 0)
        memcpy(t->text + first.size, second.data, second.size);
    t->text[first.size + second.size] = '\0';
    t->next = s->texts;
    s->texts = t;
    return t->text;
}

const char *
site_link(struct site *s, const char *path)
{
    const char *kept;

    pthread_mutex_lock(&s->mutex);
    kept = keep(s, slice_of(s->url), slice_of(path));
    pthread_mutex_unlock(&s->mutex);
    return kept;
}

/* Pages */

static struct site_page *
look_up(struct site *s, struct slice path)
{
    struct site_page *p = s->pages;

    while (p && !slice_is(path, p->path))
        p = p->next;
    return p;
}

struct site_page *
site_page_of(struct site *s, struct slice path)
{
    struct site_page *p = look_up(s, path);

    if (!p) {
        p = calloc(1, sizeof(*p));
        site_must(p != NULL, "memory");
        p->path = slice_dup(path);
        p->next = s->pages;
        s->pages = p;
    }
    return p;
}

struct site_page *
site_page_asked(struct site *s, struct slice target)
{
    struct site_page *p = look_up(s, target);

    return p ? p : site_page_of(s, slice_take(&target, '?'));
}

/* Locks; the page, or all pages. */
static struct site_page *
begin(struct site *s, const char *path)
{
    pthread_mutex_lock(&s->mutex);
    return path ? site_page_of(s, slice_of(path)) : &s->all;
}

static void
end(struct site *s)
{
    pthread_mutex_unlock(&s->mutex);
    site_wire_wake(s);
}

void
site_put(struct site *s, const char *path, const char *type, struct slice body)
{
    struct site_page *p = begin(s, path);

    free(p->type);
    free(p->body);
    p->type = copy(type);
    p->body = slice_dup(body);
    p->size = body.size;
    p->is_put = true;
    p->is_deleted = false;
    end(s);
}

void
site_putf(struct site *s, const char *path, const char *type,
          const char *format, ...)
{
    va_list args;
    char *text;
    int size;

    va_start(args, format);
    size = vasprintf(&text, format, args);
    va_end(args);
    assert_true(size >= 0);
    site_put(s, path, type, (struct slice){text, (size_t)size});
    free(text);
}

void
site_dir(struct site *s, const char *prefix, const char *dir)
{
    struct site_folder *f = calloc(1, sizeof(*f));

    assert_non_null(f);
    f->prefix = copy(prefix);
    f->dir = copy(dir);
    pthread_mutex_lock(&s->mutex);
    f->next = s->folders;
    s->folders = f;
    end(s);
}

void
site_delete(struct site *s, const char *path)
{
    begin(s, path)->is_deleted = true;
    end(s);
}

void
site_headers(struct site *s, const char *path, const char *lines)
{
    struct site_page *p = begin(s, path);

    free(p->lines);
    p->lines = copy(lines);
    end(s);
}

/* Manners */

void
site_status(struct site *s, const char *path, unsigned status,
            const char *lines, unsigned times)
{
    struct site_manners *m = &begin(s, path)->manners;

    free(m->status_lines);
    m->status = status;
    m->status_lines = copy(lines);
    m->status_times = times;
    end(s);
}

void
site_gzip(struct site *s, const char *path, bool does)
{
    begin(s, path)->manners.gzips = does;
    end(s);
}

void
site_ranges(struct site *s, const char *path, bool does)
{
    begin(s, path)->manners.has_no_ranges = !does;
    end(s);
}

void
site_chunked(struct site *s, const char *path, bool does)
{
    begin(s, path)->manners.is_chunked = does;
    end(s);
}

void
site_hold(struct site *s, const char *path)
{
    begin(s, path)->manners.holds = true;
    end(s);
}

void
site_release(struct site *s, const char *path)
{
    begin(s, path)->manners.holds = false;
    end(s);
}

void
site_cut(struct site *s, const char *path, size_t bytes)
{
    site_cuts(s, path, bytes, 1);
}

void
site_cuts(struct site *s, const char *path, size_t bytes, unsigned times)
{
    struct site_manners *m = &begin(s, path)->manners;

    m->cuts = true;
    m->cut_at = bytes;
    m->cut_times = times;
    end(s);
}

/* Requests */

/* Returns the request of the path behind `n` others of it, or NULL, and counts
 * them; the caller holds the mutex. */
static struct site_request *
nth(struct site *s, const char *path, unsigned n, unsigned *count)
{
    struct site_request *r;

    *count = 0;
    for (r = s->first; r; r = r->next)
        if ((!path || slice_is(slice_of(path), r->page->path)) &&
            (*count)++ == n)
            break;
    return r;
}

unsigned
site_count(struct site *s, const char *path)
{
    unsigned n;

    pthread_mutex_lock(&s->mutex);
    nth(s, path, (unsigned)-1, &n);
    pthread_mutex_unlock(&s->mutex);
    return n;
}

void
site_await(struct site *s, const char *path, unsigned n)
{
    struct timespec until;
    unsigned count = 0;
    int late = 0;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += PATIENCE_MS / 1000;
    pthread_mutex_lock(&s->mutex);
    for (;;) {
        nth(s, path, (unsigned)-1, &count);
        if (count >= n || late)
            break;
        late = pthread_cond_clockwait(&s->changed, &s->mutex, CLOCK_MONOTONIC,
                                      &until);
    }
    pthread_mutex_unlock(&s->mutex);
    if (count < n)
        fail_msg("%s%s had %u requests, not %u", s->url, path ? path : "",
                 count, n);
}

static const struct site_request *
request(struct site *s, const char *path, unsigned i)
{
    const struct site_request *r;
    unsigned n;

    pthread_mutex_lock(&s->mutex);
    r = nth(s, path, i, &n);
    pthread_mutex_unlock(&s->mutex);
    if (!r)
        fail_msg("%s%s had %u requests, none is number %u", s->url,
                 path ? path : "", n, i);
    return r;
}

const char *
site_header(struct site *s, const char *path, unsigned i, const char *name)
{
    const struct site_request *r = request(s, path, i);
    struct slice value;
    const char *kept;

    if (!site_value(r->head, name, &value))
        return NULL;
    pthread_mutex_lock(&s->mutex);
    kept = keep(s, value, SLICE(""));
    pthread_mutex_unlock(&s->mutex);
    return kept;
}

const char *
site_head(struct site *s, const char *path, unsigned i)
{
    return request(s, path, i)->head;
}

struct slice
site_body(struct site *s, const char *path, unsigned i)
{
    const struct site_request *r = request(s, path, i);

    return (struct slice){r->body, r->body_size};
}

unsigned
site_answered(struct site *s, const char *path, unsigned i)
{
    const struct site_request *r = request(s, path, i);
    unsigned status;

    pthread_mutex_lock(&s->mutex);
    status = r->status;
    pthread_mutex_unlock(&s->mutex);
    return status;
}

unsigned
site_max_parallel(struct site *s)
{
    unsigned n;

    pthread_mutex_lock(&s->mutex);
    n = s->max_parallel;
    pthread_mutex_unlock(&s->mutex);
    return n;
}

unsigned
site_held(struct site *s)
{
    unsigned n = 0;

    pthread_mutex_lock(&s->mutex);
    for (const struct site_request *r = s->first; r; r = r->next)
        n += !r->status && !r->is_over &&
             (r->page->manners.holds || s->all.manners.holds);
    pthread_mutex_unlock(&s->mutex);
    return n;
}

unsigned
site_connections(struct site *s)
{
    unsigned n;

    pthread_mutex_lock(&s->mutex);
    n = s->n_connections;
    pthread_mutex_unlock(&s->mutex);
    return n;
}
