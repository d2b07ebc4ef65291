#include "broker/backup/archive_download.h"

#include <unistd.h>

#include "broker/backup/published_documents.h"
#include "proto/http/websub.h"

/* The Source Description, and its index. */
#define DESCRIPTION  "/.well-known/resourcesync"
#define DOCUMENT_MAX ((size_t)64 << 20)

/* A broker may wait for its disk; a server that is silent for so long is given
 * up. */
#define STALL_US ((int64_t)60 * 1000000)

/* Of all of an answer: a long one takes as long as it takes. */
#define DOWNLOAD_US ((int64_t)365 * 86400 * 1000000)

/* Bytes of an answer that is no document. */
#define OTHER_ANSWER_MAX ((size_t)16 * 1024)

struct download {
    struct blocking *calls;
    char base[2048]; /* "http://host", without a slash at the end */
    const char *dir;
    unsigned n_sets;
    const char *set; /* the owner of the parts */
    unsigned n_parts;
    const char *headers[3]; /* Accept-Encoding, Authorization */
};

struct call
download_request(const char *url, const char *const *headers)
{
    return (struct call){.method = CALL_GET,
                         .url = url,
                         .headers = headers,
                         .timeout_us = DOWNLOAD_US,
                         .stall_us = STALL_US,
                         .max_answer = OTHER_ANSWER_MAX,
                         .max_taken = UINT64_MAX};
}

/* Gets `path` of the broker. STATUS_GONE: it has no such document. */
static enum status
get_document(struct download *d, const char *path, struct buf *to,
             struct problem *why)
{
    char url[4096] = "";
    struct call wish = download_request(url, d->headers);
    const struct call *call;

    snprintf(url, sizeof(url), "%s%s", d->base, path);
    buf_clear(to);
    wish.undoes_coding = true;
    call = blocking_run(d->calls, &wish, to);
    if (to->is_starved)
        return problem_memory(why);
    if (call->failure)
        return problem(why, STATUS_UNREACHABLE, "%s: %s", url, call->why);
    if (call->status == 200 && call->is_cut)
        return problem(why, STATUS_TOO_LARGE, "%s is too large", url);
    if (call->status == 200)
        return STATUS_OK;
    return problem(why,
                   call->status == 404 || call->status == 410 ? STATUS_GONE
                                                              : STATUS_REFUSED,
                   "%s: the answer is %u", url, call->status);
}

/* Gets a document into a file. */
static enum status
get_file(struct download *d, const char *path, const char *file,
         struct problem *why)
{
    struct buf text = {.max = DOCUMENT_MAX};
    enum status rc = get_document(d, path, &text, why);

    if (!rc) {
        FILE *to = fopen(file, "wxe");
        bool is_written =
            to && fwrite(text.data, 1, text.size, to) == text.size;

        if ((to && fclose(to)) || !is_written)
            rc = problem_errno(why, "cannot write", file);
    }
    buf_fini(&text);
    return rc;
}

/* Gets a list into a file, and reads its header. */
static enum status
get_list(struct download *d, const char *path, const char *file,
         struct published_list *list, struct problem *why)
{
    bool is_list = false;
    enum status rc = get_file(d, path, file, why);

    if (!rc)
        rc = published_list_look(file, list, &is_list, why);
    if (!rc && !is_list)
        rc = problem(why, STATUS_REFUSED, "%s%s is no Change List of Tidings",
                     d->base, path);
    return rc;
}

/* Calls `fn` for each <loc> of a document, until it fails. */
static enum status
each_loc(struct download *d, struct slice text,
         enum status (*fn)(struct download *d, struct slice loc,
                           struct problem *why),
         struct problem *why)
{
    enum status rc = STATUS_OK;

    while (!rc && slice_skip_past(&text, "<loc>")) {
        const char *end = slice_find(text, "</loc>");

        if (end)
            rc = fn(d, slice_between(text.data, end), why);
    }
    return rc;
}

static bool
is_index(const struct buf *document)
{
    return slice_find(buf_slice(document), "<sitemapindex");
}

/* Gets a part of a Resource List. */
static enum status
get_part(struct download *d, struct slice loc, struct problem *why)
{
    char path[2048], file[4400];
    const char *at = slice_find(loc, "/sets/");
    enum status rc;

    if (!at ||
        !slice_copy(path, sizeof(path), slice_between(at, loc.data + loc.size)))
        return problem(why, STATUS_REFUSED, "a Resource List names %s",
                       problem_quote(loc).text);
    snprintf(file, sizeof(file), "%s/%s-resources-%09u.xml", d->dir, d->set,
             ++d->n_parts);
    rc = get_file(d, path, file, why);
    return rc == STATUS_GONE ? STATUS_OK : rc; /* the list is incomplete */
}

static enum status
get_set(struct download *d, const char *name, struct problem *why)
{
    char path[SET_NAME_MAX + 64], file[4400];
    struct published_list list = {.info = {.after = 0}};
    struct buf text = {.max = PUBLISHED_MAX};
    enum status rc;

    d->n_sets++;
    /* The latest Resource List, before the Change Lists: so these reach its
     * position. A set need not have one. */
    snprintf(path, sizeof(path), "/sets/%s/resourcelist.xml", name);
    snprintf(file, sizeof(file), "%s/%s-resources.xml", d->dir, name);
    rc = get_file(d, path, file, why);
    if (rc && rc != STATUS_GONE)
        return rc;
    snprintf(path, sizeof(path), "/sets/%s/changes/latest.xml", name);
    snprintf(file, sizeof(file), "%s/%s-latest.xml", d->dir, name);
    rc = get_list(d, path, file, &list, why);
    while (!rc && list.info.after > 0) {
        uint64_t number = list.info.number - 1;

        snprintf(path, sizeof(path), "/sets/%s/changes/%012" PRIu64 ".xml",
                 name, number);
        snprintf(file, sizeof(file), "%s/%s-%" PRIu64 ".xml", d->dir, name,
                 number);
        rc = get_list(d, path, file, &list, why);
        if (rc == STATUS_GONE)
            break; /* no longer retained */
        if (!rc && list.info.number != number)
            rc = problem(why, STATUS_REFUSED, "%s%s is another Change List",
                         d->base, path);
    }
    if (rc != STATUS_GONE || list.info.after == 0)
        return rc;
    /* Gets the parts of the Resource List, if it has an index. */
    d->set = name;
    d->n_parts = 0;
    snprintf(file, sizeof(file), "%s/%s-resources.xml", d->dir, name);
    rc = access(file, F_OK) ? STATUS_OK
                            : published_read(file, PUBLISHED_MAX, &text, why);
    if (!rc && is_index(&text))
        rc = each_loc(d, buf_slice(&text), get_part, why);
    buf_fini(&text);
    return rc;
}

/* A Capability List, the address of a set. */
static enum status
take_set(struct download *d, struct slice loc, struct problem *why)
{
    char text[2048] = "";
    char *end = slice_copy(text, sizeof(text), loc)
                    ? strstr(text, "/capabilitylist.xml")
                    : NULL;
    char *name;

    if (end)
        *end = '\0';
    name = strrchr(text, '/');
    if (!end || !name || !set_name_is_valid(slice_of(name + 1)))
        return problem(why, STATUS_REFUSED, "%s%s names no set: %s", d->base,
                       DESCRIPTION, problem_quote(loc).text);
    return get_set(d, name + 1, why);
}

/* The address of a set, or a part of the Source Description. A part has no
 * parts. */
static enum status
take_loc(struct download *d, struct slice loc, struct problem *why)
{
    char text[2048] = "";
    const char *part = slice_copy(text, sizeof(text), loc)
                           ? strstr(text, DESCRIPTION "/")
                           : NULL;
    struct buf document = {.max = DOCUMENT_MAX};
    enum status rc;

    if (!part)
        return take_set(d, loc, why);
    rc = get_document(d, part, &document, why);
    if (!rc && is_index(&document))
        rc = problem(why, STATUS_REFUSED, "%s%s is an index of indexes",
                     d->base, part);
    if (!rc)
        rc = each_loc(d, buf_slice(&document), take_set, why);
    buf_fini(&document);
    return rc;
}

enum status
download_check_safe(const char *url, struct problem *why)
{
    if (!strncmp(url, "https://", 8) || websub_is_loopback(slice_of(url)))
        return STATUS_OK;
    return problem(why, STATUS_INVALID, "a token is not sent without TLS: %s",
                   url);
}

enum status
download_authorization(const char *url, const char *file, char **header,
                       struct problem *why)
{
    enum status rc = *file ? download_check_safe(url, why) : STATUS_OK;

    *header = NULL;
    return rc || !*file ? rc : token_header_read(header, file, false, why);
}

enum status
archive_download(const char *url, const char *token_file, const char *dir,
                 struct problem *why)
{
    struct download d = {.dir = dir, .headers = {"Accept-Encoding: gzip"}};
    char *set, *authorization = NULL;
    struct buf document = {.max = DOCUMENT_MAX};
    enum status rc;

    if (!slice_copy(d.base, sizeof(d.base), slice_of(url)))
        return problem(why, STATUS_INVALID, "the URL is too long");
    for (size_t n = strlen(d.base); n > 0 && d.base[n - 1] == '/';)
        d.base[--n] = '\0';
    set = strstr(d.base, "/sets/");
    if (set) {
        *set = '\0';
        set += strlen("/sets/");
        if (!set_name_is_valid(slice_of(set)))
            return problem(why, STATUS_INVALID,
                           "the URL of a set ends with its name: %s", url);
    }
    rc = download_authorization(d.base, token_file, &authorization, why);
    d.headers[1] = authorization;
    if (!rc)
        rc = blocking_open(&d.calls, &(struct blocking_options){.user = NULL},
                           why);
    if (!rc && set)
        rc = get_set(&d, set, why);
    else if (!rc)
        rc = get_document(&d, DESCRIPTION, &document, why);
    if (!rc && !set)
        rc = each_loc(&d, buf_slice(&document), take_loc, why);
    if (!rc && d.n_sets == 0)
        rc = problem(why, STATUS_NOT_FOUND, "%s has no sets", d.base);
    buf_fini(&document);
    blocking_close(d.calls);
    token_header_free(authorization);
    return rc;
}
