#include "client/harvest/copy.h"

#include "client/lib/fetch.h"
#include "proto/ascii.h"

void
copy_write_loc(struct buf *to, const char *home, struct slice loc)
{
    const char *end = slice_find(loc, "://");

    buf_add_text(to, home);
    if (end) {
        buf_add_slice(to, slice_between(loc.data, end));
        BUF_ADD(to, "/");
        slice_skip(&loc, (size_t)(end + 3 - loc.data));
    }
    for (size_t i = 0; i < loc.size; i++) {
        char c = loc.data[i];
        bool is_first = i == 0 || loc.data[i - 1] == '/';

        if (ascii_is_alnum(c) || (c && strchr("-_:@!$*()+,;=", c)) ||
            (!is_first && (c == '.' || c == '/')))
            buf_add(to, &c, 1);
        else
            buf_add_format(to, "~%02X", (unsigned char)c);
    }
}

struct original {
    struct buf bytes;
    char type[128];
};

static bool
on_bytes(const struct fetch_answer *answer, struct slice bytes, void *user)
{
    struct original *o = user;

    if (is_media_type(slice_of(answer->type)))
        (void)slice_copy(o->type, sizeof(o->type), slice_of(answer->type));
    buf_add_slice(&o->bytes, bytes);
    return !o->bytes.failed;
}

void
copy_add_part(struct buf *parts, const char *boundary, struct slice loc,
              const char *type, struct slice bytes)
{
    buf_add_format(parts,
                   "\r\n--%s\r\nContent-Location: %.*s\r\n"
                   "Content-Type: %s\r\n\r\n",
                   boundary, SLICE_ARG(loc), type);
    buf_add_slice(parts, bytes);
}

enum td_status
copy_fetch(struct td_client *client, const char *url,
           const struct survey_resource *version, struct slice loc,
           const char *boundary, struct buf *parts)
{
    static const char *const headers[] = {"Accept-Encoding: identity", NULL};
    const struct fetch_request request = {.url = url,
                                          .headers = headers,
                                          .redirects = 5,
                                          .skips_refusals = true,
                                          .kind = HOST_PLACE_FILE};
    uint64_t max = client->room.limits.max_file_bytes;
    struct original o = {.bytes.max =
                             max && max < COPY_BYTES_MAX ? max : COPY_BYTES_MAX,
                         .type = "application/octet-stream"};
    struct digest_check *digests =
        digest_check_new(version->hash, version->length, false);
    struct problem *why = &client->problem;
    struct fetch_answer answer = {.status = 0};
    enum status rc;

    client_begin(client);
    if (!digests)
        rc = problem_memory(why);
    else if (loc.size > URI_CHARACTERS_MAX || parts->size > COPY_BYTES_MAX)
        rc = problem(why, STATUS_REFUSED,
                     "its address, or its post, would be too long");
    else
        rc = fetch_run(client, &request, on_bytes, &o, &answer);
    if (o.bytes.failed)
        rc = problem(why, STATUS_REFUSED, "has more bytes than --max-file");
    else if (!rc && answer.status != 200)
        rc = problem(why, fetch_meaning(answer.status), "the server answers %u",
                     answer.status);
    if (!rc)
        rc = digest_check_add(digests, buf_slice(&o.bytes), why);
    if (!rc)
        rc = digest_check_end(digests, why);
    if (!rc)
        copy_add_part(parts, boundary, loc, o.type, buf_slice(&o.bytes));
    digest_check_free(digests);
    buf_fini(&answer.body);
    buf_fini(&o.bytes);
    return client_end(client, rc);
}
