#include "proto/input/page_links.h"
#include "tests/fuzz/fuzz.h"

/* Every reported link can be sent: an absolute URL of characters that URLs
 * have. */
static void
on_link(const struct pagelink *link, void *user)
{
    FUZZ_ASSERT(link->rel.size > 0);
    FUZZ_ASSERT(link->href.size > 0 && link->href.size <= PAGELINK_URL_MAX);
    for (size_t i = 0; i < link->href.size; i++)
        FUZZ_ASSERT(link->href.data[i] > ' ' && link->href.data[i] < 0x7f &&
                    !memchr("\"<>\\^`{|}", link->href.data[i], 9));
    FUZZ_ASSERT(memchr(link->href.data, ':', link->href.size));
    (void)slice_has_word(link->rel, "hub");
    ++*(unsigned *)user;
}

/* The first byte chooses the media type. */
FUZZ_TARGET(pagelinks, rest)
{
    static const char *const types[] = {"", "text/html", "text/xml; a=b",
                                        "text/plain"};
    struct slice first = fuzz_take(&rest, 1);
    const char *type = first.size > 0 ? types[first.data[0] & 3] : "";
    struct problem why = {""};
    unsigned n = 0;
    enum status rc;

    rc = pagelinks_read(rest, slice_of(type), SLICE("https://a.example/b?c#d"),
                        on_link, &n, &why);
    if (rc)
        fuzz_check_problem(&why);
    FUZZ_ASSERT(rc != STATUS_UNSUPPORTED || n == 0);
}
