#include <stdlib.h>

#include "proto/http/link_header.h"
#include "tests/fuzz/fuzz.h"

static bool
lies_within(struct slice part, struct slice whole)
{
    return part.size == 0 || (part.data >= whole.data &&
                              part.data + part.size <= whole.data + whole.size);
}

/* A link that can be read can be written: the first word of its rel, in a
 * header of two, reads back equal. */
static void
check_again(const struct weblink *link)
{
    struct slice rest = link->rel, target;
    struct slice word = slice_take(&rest, ' ');
    char *rel = slice_dup(word);
    struct weblink again;
    struct buf b;
    size_t n = 0;

    FUZZ_ASSERT(rel);
    if (word.size > 0 && strcspn(rel, "\"\\") == word.size) {
        buf_init(&b, 1u << 16);
        weblink_add(&b, SLICE("/"), "hub");
        weblink_add(&b, link->target, rel);
        rest = buf_slice(&b);

        FUZZ_ASSERT(weblink_next(&rest, &again));
        FUZZ_ASSERT(slice_is(again.target, "/") && slice_is(again.rel, "hub"));
        FUZZ_ASSERT(weblink_next(&rest, &again));
        FUZZ_ASSERT(slice_equal(again.target, link->target));
        FUZZ_ASSERT(slice_is(again.rel, rel) && !again.is_of_another);
        FUZZ_ASSERT(rest.size == 0 && !weblink_next(&rest, &again));

        if (!strpbrk(rel, "\t")) {
            FUZZ_ASSERT(slice_has_word(link->rel, rel));
            FUZZ_ASSERT(weblink_find(buf_slice(&b), rel, &target, &n));
            FUZZ_ASSERT(n == 1 + !strcasecmp(rel, "hub"));
        }
        buf_fini(&b);
    }
    free(rel);
}

FUZZ_TARGET(weblink, header)
{
    struct slice rest = header, first = {NULL, 0}, target;
    struct weblink link;
    size_t hubs = 0, n = 0;

    for (size_t before = rest.size; weblink_next(&rest, &link);
         before = rest.size) {
        FUZZ_ASSERT(rest.size < before && lies_within(rest, header));
        FUZZ_ASSERT(lies_within(link.target, header));
        FUZZ_ASSERT(lies_within(link.rel, header));
        FUZZ_ASSERT(link.target.size == 0 ||
                    !memchr(link.target.data, '>', link.target.size));
        check_again(&link);
        if (!link.is_of_another && slice_has_word(link.rel, "hub") &&
            hubs++ == 0)
            first = link.target;
    }
    FUZZ_ASSERT(weblink_find(header, "hub", &target, &n) == (hubs > 0));
    FUZZ_ASSERT(n == hubs && slice_equal(target, first));
}
