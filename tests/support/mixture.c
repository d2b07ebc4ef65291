#include "tests/support/mixture.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/source.h"
#include "tests/test.h"

/* Each of another period, so that all combinations come about. */
static const char *
change_of(uint64_t n)
{
    static const char *const changes[] = {"created", "updated", "deleted"};

    return changes[n % 3];
}

static bool
is_deleted(uint64_t n)
{
    return n % 3 == 2;
}

static bool
is_b(uint64_t n)
{
    return n % 7 == 0;
}

static const char *
type_of(uint64_t n)
{
    static const char *const types[] = {"image/png", "text/csv",
                                        "Text/HTML; charset=utf-8", NULL,
                                        "image/svg+xml"};

    return is_deleted(n) ? NULL : types[n % 5];
}

static bool
is_image(uint64_t n)
{
    const char *type = type_of(n);

    return type && !strncmp(type, "image/", 6);
}

static bool
is_html_or_svg(uint64_t n)
{
    const char *type = type_of(n);

    return type && (n % 5 == 2 || n % 5 == 4);
}

static bool
has_blue(uint64_t n)
{
    return n % 11 == 3;
}

static bool
has_blue_or_red(uint64_t n)
{
    return n % 11 == 3 || n % 11 == 4 || n % 11 == 7;
}

static bool
is_all_of_it(uint64_t n)
{
    return n % 3 == 1 && !is_b(n) && is_image(n) && has_blue_or_red(n);
}

static bool
is_nothing(uint64_t n)
{
    (void)n;
    return false;
}

static bool
is_anything(uint64_t n)
{
    (void)n;
    return true;
}

const struct mixture_filter mixture_filters[] = {
    {"change=deleted", is_deleted},
    {"prefix=http://example.com/b%26c/", is_b},
    {"prefix=http://example.com/", is_anything},
    {"prefix=http://example.com/b%26amp;c/", is_nothing},
    {"type=image/*", is_image},
    {"type=image/svg+xml&type=text/html", is_html_or_svg},
    {"tag=blue", has_blue},
    {"tag=blue&tag=red%26green", has_blue_or_red},
    {"tag=BLUE", is_nothing},
    {"change=updated&prefix=http://example.com/a&type=image/*&tag=blue"
     "&tag=red%26green",
     is_all_of_it},
    {"change=created&change=updated&change=deleted", is_anything},
};

const size_t mixture_n_filters =
    sizeof(mixture_filters) / sizeof(mixture_filters[0]);

static void
add_entry(struct buf *to, uint64_t n)
{
    const char *type = type_of(n);

    buf_add_format(
        to, "{\"loc\":\"http://example.com/%s/%" PRIu64 "\",\"change\":\"%s\"",
        is_b(n) ? "b&c" : "a", n, change_of(n));
    if (type)
        buf_add_format(to, ",\"type\":\"%s\"", type);
    if (n % 11 == 3)
        BUF_ADD(to, ",\"tags\":[\"green\",\"blue\"]");
    else if (n % 11 == 4 || n % 11 == 7)
        BUF_ADD(to, ",\"tags\":[\"red&green\"]");
    else if (n % 11 == 5)
        BUF_ADD(to, ",\"tags\":[\"red\",\"bluer\"]");
    BUF_ADD(to, "}");
}

void
mixture_post(struct http *h, const char *set, uint64_t from, uint64_t to)
{
    static const uint64_t sizes[] = {1, 40, 2, 7, 1, 300};
    struct receipt receipt;
    struct buf body;

    buf_init(&body, (size_t)1 << 24);
    for (size_t i = 0; from <= to; i++) {
        uint64_t first = from;

        buf_clear(&body);
        BUF_ADD(&body, "[");
        for (uint64_t k = 0; k < sizes[i % 6] && from <= to; k++, from++) {
            if (k > 0)
                BUF_ADD(&body, ",");
            add_entry(&body, from);
        }
        BUF_ADD(&body, "]");
        assert_int_equal(
            source_send(h, set, "application/json", buf_slice(&body), &receipt),
            200);
        assert_int_equal(receipt.first, first);
        assert_int_equal(receipt.last, from - 1);
    }
    buf_fini(&body);
}
