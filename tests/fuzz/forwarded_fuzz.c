#include "proto/http/forwarded.h"

#include "proto/buf.h"
#include "tests/fuzz/fuzz.h"

static bool
find(struct slice forwarded, struct slice x_forwarded_for,
     const struct networks *trusted, struct sockaddr_storage *client)
{
    bool is_found =
        forwarded_client(forwarded, x_forwarded_for, trusted, client);

    FUZZ_ASSERT(!is_found ||
                !networks_contain(trusted, (struct sockaddr *)client));
    return is_found;
}

/* Forwarded, a line feed, X-Forwarded-For. No client is one of the proxies. The
 * address that a proxy adds to X-Forwarded-For counts whatever stands before
 * it. Both fields together name the client that each of them names, or
 * nobody. */
FUZZ_TARGET(forwarded, text)
{
    struct slice forwarded = slice_take(&text, '\n'), none = {NULL, 0};
    struct sockaddr_storage one, other, both;
    struct networks trusted;
    struct buf added;
    bool is_one, is_other;

    FUZZ_ASSERT(
        !networks_read(SLICE("10.0.0.0/8,fd00::/8"), false, &trusted, NULL));
    is_one = find(forwarded, none, &trusted, &one);
    is_other = find(none, text, &trusted, &other);
    if (forwarded.size > 0 && text.size > 0 &&
        find(forwarded, text, &trusted, &both))
        FUZZ_ASSERT(is_one && is_other && !memcmp(&one, &both, sizeof(one)) &&
                    !memcmp(&other, &both, sizeof(other)));

    buf_init(&added, SIZE_MAX);
    buf_add_slice(&added, text);
    BUF_ADD(&added, ", 192.0.2.1, 10.0.0.9");
    FUZZ_ASSERT(address_read("192.0.2.1", &one));
    FUZZ_ASSERT(find(none, buf_slice(&added), &trusted, &other));
    FUZZ_ASSERT(!memcmp(&one, &other, sizeof(one)));
    buf_fini(&added);
}
