/*
 * publish_full.c - publishes all resources of a source to a set.
 *
 * Gathers them in a temporary file first: a server wants to know the length of
 * a body, and a source that cannot be read to its end must not be sent.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/lib/client.h"
#include "client/lib/fetch.h"
#include "client/lib/json_fields.h"
#include "client/lib/set_url.h"
#include "client/lib/temporary_file.h"
#include "client/publish/post.h"
#include "client/publish/resource_collector.h"

/* The broker is silent while it compares. */
#define SILENCE_S 3600

static bool
read_receipt(struct slice body, struct td_full_receipt *receipt)
{
    struct json_fields_member members[] = {
        {.name = "created", .number = &receipt->created},
        {.name = "updated", .number = &receipt->updated},
        {.name = "deleted", .number = &receipt->deleted},
        {.name = "unchanged", .number = &receipt->unchanged},
        {.name = "newer", .number = &receipt->newer},
        {.name = "position",
         .text = receipt->position,
         .size = sizeof(receipt->position)},
    };
    size_t n = sizeof(members) / sizeof(members[0]);
    bool is_good;

    memset(receipt, 0, sizeof(*receipt));
    is_good = json_fields_read(body, members, n);
    for (size_t i = 0; i + 1 < n; i++) /* a position may be null */
        is_good = is_good && members[i].is_there;
    return is_good;
}

/* Reads the number of deletions that the broker refused. */
static void
read_refusal(const struct fetch_answer *answer, struct td_full_receipt *receipt)
{
    struct json_fields_member deleted = {.name = "deleted",
                                         .number = &receipt->deleted};

    if (answer->status == 409)
        json_fields_read(buf_slice(&answer->body), &deleted, 1);
}

static enum status
put_resources(struct td_client *client, const char *target, struct slice body,
              struct td_full_receipt *receipt)
{
    static const char *const headers[] = {"Content-Type: application/x-ndjson",
                                          "Accept: application/json", NULL};
    const struct fetch_request request = {
        .url = target,
        .headers = headers,
        .body = &body,
        .max_bytes = POST_ANSWER_MAX,
        .method = "PUT",
        .silence_s = SILENCE_S,
    };
    struct fetch_answer answer;
    enum status rc = fetch_run(client, &request, &answer);

    if (!rc && answer.status != 200) {
        read_refusal(&answer, receipt);
        rc = client_refused(client, &answer);
    } else if (!rc && !read_receipt(buf_slice(&answer.body), receipt)) {
        rc = client_fail(client, STATUS_MALFORMED,
                         "200, but the answer is none of a whole state");
    }
    fetch_answer_fini(&answer);
    return rc;
}

static enum status
put_file(struct td_client *client, const char *target, int fd, uint64_t size,
         struct td_full_receipt *receipt)
{
    struct slice body = {"", size};
    void *map = NULL;
    enum status rc;

    if (size > 0) {
        map = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (map == MAP_FAILED)
            return client_fail(client, STATUS_IO,
                               "cannot read the temporary file: %s",
                               strerror(errno));
        body.data = map;
    }
    rc = put_resources(client, target, body, receipt);
    if (map)
        munmap(map, size);
    return rc;
}

enum td_status
td_publish_full(struct td_client *client, const char *set_url, const char *from,
                const struct td_full_options *options,
                struct td_full_receipt *receipt)
{
    struct td_full_receipt unwanted;
    struct gathered gathered;
    struct set_url url;
    char target[SET_URL_MAX + 64];
    unsigned max_delete = options ? options->max_delete : 0;
    char *known = options ? options->known : NULL;
    struct problem why = {.text = ""};
    int fd;
    enum status rc;

    receipt = receipt ? receipt : &unwanted;
    problem_clear(&why);
    memset(receipt, 0, sizeof(*receipt));
    client_begin(client);
    rc = set_url_read(client, set_url, &url);
    if (!rc && max_delete > 100)
        rc = client_fail(client, STATUS_INVALID,
                         "max_delete is a number of percent, up to 100");
    if (!rc) /* a file is not a URL: does nothing */
        rc = client_add_source(client, from);
    if (rc)
        return client_end(client, rc);
    if (max_delete)
        snprintf(target, sizeof(target), "%s/resources?max-delete=%u", url.text,
                 max_delete);
    else
        snprintf(target, sizeof(target), "%s/resources", url.text);

    fd = temporary_file_open(&why);
    rc = fd < 0 ? client_told(client, &why)
                : gather(client, from, known, fd, &gathered);
    if (!rc && gathered.is_same)
        receipt->is_same = 1;
    else if (!rc)
        rc = put_file(client, target, fd, gathered.size, receipt);
    if (!rc && known && !receipt->is_same)
        memcpy(known, gathered.known, sizeof(gathered.known));
    if (fd >= 0)
        close(fd);
    return client_end(client, rc);
}
