#include "broker/net/conditional.h"

#include "proto/datetime.h"
#include "proto/http/accept_header.h"
#include "proto/number.h"

struct conditions
conditional_read(struct request *rq)
{
    struct conditions c = {.is_get = rq->method == METHOD_GET};

    request_header(rq, "accept-encoding", &c.accept_encoding);
    request_header(rq, "if-match", &c.if_match);
    request_header(rq, "if-unmodified-since", &c.if_unmodified_since);
    request_header(rq, "if-none-match", &c.if_none_match);
    request_header(rq, "if-modified-since", &c.if_modified_since);
    request_header(rq, "if-range", &c.if_range);
    request_header(rq, "range", &c.range);
    return c;
}

/* Content codings (section 12.5.3). A malformed element counts as absent. */

#define NOT_LISTED (-1)

struct codings {
    int gzip, identity, any;
};

static struct codings
read_codings(struct slice list)
{
    struct codings c = {NOT_LISTED, NOT_LISTED, NOT_LISTED};

    while (list.size) {
        struct slice parameters = accept_take(&list, ',');
        struct slice coding = accept_take(&parameters, ';');
        int weight = accept_weight(parameters);

        if (slice_is_word(coding, "gzip") || slice_is_word(coding, "x-gzip"))
            c.gzip = weight;
        else if (slice_is_word(coding, "identity"))
            c.identity = weight;
        else if (slice_is_word(coding, "*"))
            c.any = weight;
    }
    return c;
}

/* Validators (sections 8.8.3 and 13.1) */

/* True if the list contains the entity tag `etag`, which is strong. */
static bool
names_etag(struct slice list, const char *etag, bool weak_will_do)
{
    if (!etag)
        return false;
    for (;;) {
        struct slice tag;
        const char *end;
        bool is_weak;

        while (list.size && (slice_is_blank(*list.data) || *list.data == ','))
            slice_skip(&list, 1);
        is_weak = slice_starts(list, "W/");
        if (is_weak)
            slice_skip(&list, 2);
        if (list.size < 2 || *list.data != '"')
            return false;
        end = memchr(list.data + 1, '"', list.size - 1);
        if (!end)
            return false;
        tag = slice_between(list.data, end + 1);
        slice_skip(&list, tag.size);
        if (slice_is(tag, etag) && (weak_will_do || !is_weak))
            return true;
    }
}

/* Steps 1 and 2 of section 13.2.2. */
static bool
may_go_on(const struct conditions *c, const struct validators *v)
{
    int64_t since;

    if (c->if_match.size)
        return slice_is(c->if_match, "*") ||
               names_etag(c->if_match, v->etag, false) ||
               names_etag(c->if_match, v->gzip_etag, false);
    if (!c->if_unmodified_since.size || v->modified == DATETIME_NONE)
        return true;
    since = httpdate_read(c->if_unmodified_since);
    return since == DATETIME_NONE || v->modified <= since;
}

/* Steps 3 and 4: true if the client has the current copy. A copy of identity,
 * from before there was a gzip, is as good: for a client that names its ETag
 * this selects identity. */
static bool
is_there_already(const struct conditions *c, const struct validators *v,
                 bool takes_plain, bool *is_gzip)
{
    int64_t since;

    if (c->if_none_match.size) {
        if (slice_is(c->if_none_match, "*"))
            return true;
        if (*is_gzip && names_etag(c->if_none_match, v->gzip_etag, true))
            return true;
        if (!takes_plain || !names_etag(c->if_none_match, v->etag, true))
            return false;
        *is_gzip = false;
        return true;
    }
    if (!c->if_modified_since.size || v->modified == DATETIME_NONE)
        return false;
    since = httpdate_read(c->if_modified_since);
    return since != DATETIME_NONE && v->modified <= since;
}

/* Ranges (section 14) */

struct range {
    enum { RANGE_NONE, RANGE_BYTES, RANGE_OUTSIDE } kind;

    uint64_t first, size;
};

/* Reads "bytes=100-199", "bytes=100-", "bytes=-100". Several ranges, and
 * malformed ones, are RANGE_NONE: then all is sent. */
static struct range
read_range(struct slice text, uint64_t size)
{
    struct range none = {RANGE_NONE, 0, 0}, outside = {RANGE_OUTSIDE, 0, 0};
    struct slice unit = slice_trimmed(slice_take(&text, '=')), from;
    uint64_t first, last;

    text = slice_trimmed(text);
    if (!slice_is_word(unit, "bytes") || !text.size ||
        !memchr(text.data, '-', text.size) || memchr(text.data, ',', text.size))
        return none;
    from = slice_trimmed(slice_take(&text, '-'));
    text = slice_trimmed(text);
    if (!from.size) {
        if (!number_read_large(text, &last))
            return none;
        if (last == 0 || size == 0)
            return outside;
        if (last > size)
            last = size;
        return (struct range){RANGE_BYTES, size - last, last};
    }
    if (!number_read_large(from, &first))
        return none;
    last = UINT64_MAX;
    if (text.size && (!number_read_large(text, &last) || last < first))
        return none;
    if (first >= size)
        return outside;
    if (last >= size)
        last = size - 1;
    return (struct range){RANGE_BYTES, first, last - first + 1};
}

/* True if the client's part is of the same representation. A date serves as a
 * strong validator here: a document with one was made once and never
 * changes. */
static bool
is_same(struct slice if_range, const struct validators *v)
{
    if (!if_range.size)
        return true;
    if (*if_range.data == '"') /* a weak one is no date, and never matches */
        return slice_is(if_range, v->etag);
    return v->modified != DATETIME_NONE &&
           httpdate_read(if_range) == v->modified;
}

struct verdict
conditional_judge(const struct conditions *c, const struct validators *v)
{
    struct codings codings = read_codings(c->accept_encoding);
    struct verdict verdict = {.status = 200};
    struct range range = {RANGE_NONE, 0, 0};
    int gzip = codings.gzip == NOT_LISTED ? codings.any : codings.gzip;
    bool takes_plain = codings.identity == NOT_LISTED ? codings.any != 0
                                                      : codings.identity > 0;

    if (c->is_get && c->range.size && takes_plain)
        range = read_range(c->range, v->size);
    /* A client that accepts gzip, and does not prefer identity. */
    verdict.is_gzip = v->gzip_etag && gzip > 0 && gzip >= codings.identity &&
                      range.kind == RANGE_NONE;
    if (!verdict.is_gzip && !takes_plain) {
        verdict.status = 406;
        return verdict;
    }

    if (!may_go_on(c, v)) {
        verdict.status = 412;
    } else if (is_there_already(c, v, takes_plain, &verdict.is_gzip)) {
        verdict.status = 304;
    } else if (range.kind != RANGE_NONE && is_same(c->if_range, v)) {
        verdict.status = range.kind == RANGE_OUTSIDE ? 416 : 206;
        verdict.first = range.first;
        verdict.size = range.size;
    }
    return verdict;
}
