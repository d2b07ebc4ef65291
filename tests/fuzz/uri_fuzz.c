#include "proto/uri.h"

#include <stdlib.h>

#include "proto/resourcesync/vocab.h"
#include "proto/utf8.h"
#include "tests/fuzz/fuzz.h"

static void
check_uri(struct slice text)
{
    struct problem why = {""};

    if (uri_check(text, "href", &why)) {
        fuzz_check_problem(&why);
        FUZZ_ASSERT(uri_check_loc(text, NULL));
        return;
    }
    FUZZ_ASSERT(text.size <= 4 * URI_CHARACTERS_MAX);
    while (text.size > 0) {
        uint32_t c = 0;
        size_t size = utf8_read(text.data, text.size, &c);

        FUZZ_ASSERT(size > 0 && c > 0x20 && (c < 0x7f || c >= 0xa0));
        fuzz_take(&text, size);
    }
}

/* Decoding never makes it longer, and leaves no NUL. */
static void
check_decode(struct slice text)
{
    char *to = malloc(text.size > 0 ? text.size : 1);
    long size;

    FUZZ_ASSERT(to);
    size = uri_decode(text, to);
    FUZZ_ASSERT(size <= (long)text.size);
    for (long i = 0; i < size; i++)
        FUZZ_ASSERT(to[i] != '\0');
    free(to);
}

/* The words beside URIs: their readers stay within the ends of any text. */
static void
check_words(struct slice text)
{
    enum capability capability;
    enum change_kind kind;

    if (is_relation(text) && memchr(text.data, ':', text.size))
        FUZZ_ASSERT(!uri_check(text, "rel", NULL));
    if (is_media_type(text))
        FUZZ_ASSERT(memchr(text.data, '/', text.size));
    FUZZ_ASSERT(!is_priority(text) || text.size <= 16);
    FUZZ_ASSERT(!set_name_is_valid(text) || text.size <= SET_NAME_MAX);
    if (is_ncname(text))
        FUZZ_ASSERT(!memchr(text.data, ':', text.size));
    if (is_changefreq(text))
        FUZZ_ASSERT(is_relation(text));
    if (!change_kind_of(text, &kind))
        FUZZ_ASSERT(slice_is(text, change_kind_names[kind]));
    if (!capability_of(text, &capability))
        FUZZ_ASSERT(slice_is(text, capability_names[capability]) ||
                    slice_is(text, "changelist-notification"));
    (void)format_of(text);
}

FUZZ_TARGET(uri, text)
{
    check_uri(text);
    check_decode(text);
    check_words(text);
}
