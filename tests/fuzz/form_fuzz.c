#include "proto/http/websub.h"
#include "proto/urlencoded.h"
#include "proto/utf8.h"
#include "tests/fuzz/fuzz.h"

/* An escape takes three bytes for one. */
#define ROOM (1u << 16)

static bool
is_text(struct slice text)
{
    while (text.size > 0) {
        uint32_t c = 0;
        size_t size = utf8_read(text.data, text.size, &c);

        if (size == 0 || c == 0)
            return false;
        fuzz_take(&text, size);
    }
    return true;
}

/* A form that was read can be written, and reads back equal. */
static void
check_again(const struct urlencoded_data *form)
{
    struct urlencoded_data again;
    struct buf b;

    buf_init(&b, ROOM);
    for (size_t i = 0; i < form->n; i++) {
        char *name = slice_dup(form->fields[i].name);

        FUZZ_ASSERT(name);
        urlencoded_add(&b, name, form->fields[i].value);
        free(name);
    }
    FUZZ_ASSERT(!b.failed);
    for (size_t i = 0; i < b.size; i++)
        FUZZ_ASSERT(b.data[i] > ' ' && b.data[i] < 0x7f);

    FUZZ_ASSERT(!urlencoded_read(&again, buf_slice(&b), NULL));
    FUZZ_ASSERT(again.n == form->n);
    for (size_t i = 0; i < form->n; i++) {
        FUZZ_ASSERT(slice_equal(again.fields[i].name, form->fields[i].name));
        FUZZ_ASSERT(slice_equal(again.fields[i].value, form->fields[i].value));
    }
    urlencoded_fini(&again);
    buf_fini(&b);
}

static void
check_comparable(struct slice url)
{
    struct websub_comparable first, second;
    struct buf host, same_host;
    struct slice text;

    buf_init(&host, ROOM);
    buf_init(&same_host, ROOM);

    text = slice_of(websub_comparable(&first, url));
    FUZZ_ASSERT(text.size == first.size && first.size <= 3 * url.size + 1);
    websub_comparable(&second, text);
    FUZZ_ASSERT(slice_equal(text, slice_of(second.text)));
    if (first.size <= WEBSUB_URL_MAX)
        FUZZ_ASSERT(!websub_check_url(text, "url", NULL));

    /* The owner of a URL does not depend on its spelling. */
    websub_authority(&host, url);
    FUZZ_ASSERT(!host.failed && host.size <= 260);
    websub_authority(&same_host, text);
    FUZZ_ASSERT(slice_equal(buf_slice(&host), buf_slice(&same_host)));

    buf_fini(&host);
    buf_fini(&same_host);
}

/* The parameters behind the callback are a form again, with the same topic and
 * challenge. */
static void
check_parameters(struct slice parameters, struct slice topic,
                 struct slice challenge)
{
    struct urlencoded_data form;
    struct slice value;

    FUZZ_ASSERT(!urlencoded_read(&form, parameters, NULL));
    FUZZ_ASSERT(form.n == 4);
    FUZZ_ASSERT(urlencoded_get(&form, "hub.topic", &value));
    FUZZ_ASSERT(slice_equal(value, topic));
    FUZZ_ASSERT(urlencoded_get(&form, "hub.challenge", &value));
    FUZZ_ASSERT(slice_equal(value, challenge));
    urlencoded_fini(&form);
}

/* The URL begins with the callback, byte for byte; the rest is one query, and
 * the hub can call the URL. */
static void
check_urls(struct slice callback, struct slice topic, struct slice challenge)
{
    const char *query = memchr(callback.data, '?', callback.size);
    size_t offset = callback.size;
    struct slice url;
    struct buf b;

    buf_init(&b, ROOM);
    websub_verification_url(&b, callback, WEBSUB_SUBSCRIBE, topic, challenge,
                            UINT64_MAX);
    FUZZ_ASSERT(!b.failed);
    url = buf_slice(&b);
    FUZZ_ASSERT(!memcmp(url.data, callback.data, callback.size));
    if (url.size <= WEBSUB_URL_MAX)
        FUZZ_ASSERT(!websub_check_url(url, "url", NULL));

    /* Between callback and parameters: "?", or "&" unless the callback ends
     * with that. */
    if (!query)
        FUZZ_ASSERT(url.data[offset++] == '?');
    else if (query + 1 < callback.data + callback.size &&
             callback.data[callback.size - 1] != '&')
        FUZZ_ASSERT(url.data[offset++] == '&');
    fuzz_take(&url, offset);
    FUZZ_ASSERT(slice_starts(url, "hub.mode=subscribe&hub.topic="));
    check_parameters(url, topic, challenge);
    buf_fini(&b);
}

static void
check_request(const struct urlencoded_data *form)
{
    struct websub_request request;
    struct problem why = {""};
    struct slice topic;
    size_t at = 0, topics = 0;

    if (websub_read(form, &request, &why)) {
        fuzz_check_problem(&why);
        return;
    }
    if (request.mode == WEBSUB_PUBLISH) {
        for (; websub_next_topic(form, &at, &topic); topics++)
            check_comparable(topic);
        FUZZ_ASSERT(topics > 0);
        return;
    }
    FUZZ_ASSERT(request.secret.size <= WEBSUB_SECRET_MAX);
    FUZZ_ASSERT(request.mode == WEBSUB_SUBSCRIBE || request.lease_s == 0);
    check_comparable(request.topic);
    check_comparable(request.callback);
    check_urls(request.callback, request.topic, request.secret);
}

/* Few inputs are forms with a URL in them, so the whole input may be one,
 * too. */
static void
check_url(struct slice url)
{
    struct problem why = {""};

    if (websub_check_url(url, "url", &why)) {
        fuzz_check_problem(&why);
        return;
    }
    FUZZ_ASSERT(url.size <= WEBSUB_URL_MAX);
    for (size_t i = 0; i < url.size; i++)
        FUZZ_ASSERT(url.data[i] > ' ' && url.data[i] < 0x7f &&
                    !memchr("\"<>\\#", url.data[i], 5));
    check_comparable(url);
    check_urls(url, url, SLICE("c"));
}

FUZZ_TARGET(form, body)
{
    struct problem why = {""};
    struct urlencoded_data form;

    check_url(body);
    if (urlencoded_read(&form, body, &why)) {
        fuzz_check_problem(&why);
    } else {
        FUZZ_ASSERT(form.n <= URLENCODED_FIELDS_MAX);
        for (size_t i = 0; i < form.n; i++)
            FUZZ_ASSERT(is_text(form.fields[i].name) &&
                        is_text(form.fields[i].value));
        check_again(&form);
        check_request(&form);
    }
    urlencoded_fini(&form);
}
