#include "tests/support/seen.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "tests/test.h"

/* How far the time of an attempt may be from ours, in seconds. */
#define TIMESTAMP_SLACK 300

/* Headers */

/* The next header line of that name after `line`, from its value on; NULL:
 * there is no more. */
static const char *
next_value(const char *line, const char *name)
{
    size_t size = strlen(name);

    while ((line = strstr(line, "\r\n"))) {
        line += 2;
        if (!strncasecmp(line, name, size) && line[size] == ':')
            return line + size + 1;
    }
    return NULL;
}

static const char *
head_of(const struct seen *s)
{
    if (!s->head)
        fail_msg("request %u: its head was not kept", s->order);
    return s->head;
}

size_t
seen_count(const struct seen *s, const char *name)
{
    const char *at = head_of(s);
    size_t n = 0;

    while ((at = next_value(at, name)))
        n++;
    return n;
}

const char *
seen_header(const struct seen *s, const char *name, char *to, size_t size)
{
    const char *at = next_value(head_of(s), name);
    size_t n;

    if (!at)
        return NULL;
    at += strspn(at, " \t");
    n = strcspn(at, "\r");
    while (n > 0 && (at[n - 1] == ' ' || at[n - 1] == '\t'))
        n--;
    snprintf(to, size, "%.*s", (int)n, at);
    return to;
}

void
seen_assert_header(const struct seen *s, const char *name, const char *value)
{
    char text[1024];

    if (seen_count(s, name) != 1)
        fail_msg("request %u has %zu lines %s:\n%s", s->order,
                 seen_count(s, name), name, s->head);
    assert_string_equal(seen_header(s, name, text, sizeof(text)), value);
}

/* Parameters */

static int
digit_of(char c)
{
    const char *digits = "0123456789abcdef0123456789ABCDEF";
    const char *at = c ? strchr(digits, c) : NULL;

    return at ? (int)(at - digits) % 16 : -1;
}

/* Decodes one value, up to "&" or the end. */
static void
decode(const struct seen *s, const char *from, char *to, size_t size)
{
    size_t n = 0;

    for (; *from && *from != '&'; from++) {
        char c = *from == '+' ? ' ' : *from;

        if (c == '%') {
            if (digit_of(from[1]) < 0 || digit_of(from[2]) < 0)
                fail_msg("request %u has a bad escape: %s", s->order, s->added);
            c = (char)(digit_of(from[1]) * 16 + digit_of(from[2]));
            from += 2;
        }
        assert_true(n + 1 < size);
        to[n++] = c;
    }
    to[n] = '\0';
}

const char *
seen_parameter(const struct seen *s, const char *name, char *to, size_t size)
{
    const char *found = NULL;
    size_t length = strlen(name);

    for (const char *at = s->added; *at;) {
        if (!strncmp(at, name, length) && at[length] == '=') {
            if (found)
                fail_msg("request %u has %s twice: %s", s->order, name,
                         s->added);
            found = at + length + 1;
        }
        at += strcspn(at, "&");
        at += *at == '&';
    }
    if (!found)
        return NULL;
    decode(s, found, to, size);
    return to;
}

void
seen_assert_parameter(const struct seen *s, const char *name, const char *value)
{
    char text[4096];

    if (!seen_parameter(s, name, text, sizeof(text)))
        fail_msg("request %u has no %s: %s", s->order, name, s->target);
    assert_string_equal(text, value);
}

/* Links */

static size_t
count_of(const char *text, const char *part)
{
    size_t n = 0;

    while ((text = strstr(text, part))) {
        text++;
        n++;
    }
    return n;
}

void
seen_assert_links(const struct seen *s, const char *self, const char *hub)
{
    char line[2048], wanted[1024];

    if (seen_count(s, "Link") != 1)
        fail_msg("request %u has %zu lines Link:\n%s", s->order,
                 seen_count(s, "Link"), s->head);
    seen_header(s, "Link", line, sizeof(line));
    snprintf(wanted, sizeof(wanted), "<%s>; rel=\"self\"", self);
    if (!strstr(line, wanted) || count_of(line, "rel=\"self\"") != 1)
        fail_msg("not one link to itself, %s: %s", self, line);
    snprintf(wanted, sizeof(wanted), "<%s>; rel=\"hub\"", hub);
    if (!strstr(line, wanted))
        fail_msg("no link to the hub, %s: %s", hub, line);
}

/* Signatures */

static struct slice
body_of(const struct seen *s)
{
    if (s->body_size > 0 && !s->body)
        fail_msg("request %u: its body was not kept", s->order);
    return (struct slice){s->body, s->body_size};
}

/* Appends the HMAC in hexadecimal. */
static void
write_hmac(char *to, const EVP_MD *md, struct slice key, struct slice text)
{
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned size = 0;

    assert_non_null(HMAC(md, key.data, (int)key.size,
                         (const unsigned char *)text.data, text.size, mac,
                         &size));
    to += strlen(to);
    for (unsigned i = 0; i < size; i++)
        to += sprintf(to, "%02x", mac[i]);
}

void
seen_assert_signature(const struct seen *s, const char *method,
                      const char *secret)
{
    char wanted[16 + 2 * EVP_MAX_MD_SIZE];
    const EVP_MD *md;

    if (!secret) {
        assert_int_equal(seen_count(s, "X-Hub-Signature"), 0);
        return;
    }
    md = EVP_get_digestbyname(method);
    assert_non_null(md);
    snprintf(wanted, sizeof(wanted), "%s=", method);
    write_hmac(wanted, md, slice_of(secret), body_of(s));
    seen_assert_header(s, "X-Hub-Signature", wanted);
}

void
seen_assert_webhook(const struct seen *s, const char *secret)
{
    static const char prefix[] = "whsec_";
    struct slice body = body_of(s);
    unsigned char key[128], mac[EVP_MAX_MD_SIZE];
    char text[256], wanted[128] = "v1,", *end, *signed_text;
    size_t size = strlen(secret) - strlen(prefix);
    unsigned mac_size = 0;
    int key_size;
    long long timestamp;

    assert_true(slice_starts(slice_of(secret), prefix));
    assert_true(size <= 88);
    key_size = EVP_DecodeBlock(
        key, (const unsigned char *)secret + strlen(prefix), (int)size);
    assert_true(key_size > 0);
    for (const char *at = secret + strlen(secret); at[-1] == '='; at--)
        key_size--;

    assert_string_not_equal(s->id, "");
    seen_assert_header(s, "webhook-id", s->id);
    assert_int_equal(seen_count(s, "webhook-timestamp"), 1);
    seen_header(s, "webhook-timestamp", text, sizeof(text));
    timestamp = strtoll(text, &end, 10);
    assert_true(*text && !*end);
    assert_in_range(timestamp, time(NULL) - TIMESTAMP_SLACK,
                    time(NULL) + TIMESTAMP_SLACK);

    assert_true(
        asprintf(&signed_text, "%s.%s.%.*s", s->id, text, SLICE_ARG(body)) > 0);
    assert_non_null(HMAC(EVP_sha256(), key, key_size,
                         (unsigned char *)signed_text, strlen(signed_text), mac,
                         &mac_size));
    free(signed_text);
    EVP_EncodeBlock((unsigned char *)wanted + 3, mac, (int)mac_size);
    seen_assert_header(s, "webhook-signature", wanted);
}

void
seen_assert_same_body(const struct seen *a, const struct seen *b)
{
    struct slice one = body_of(a), other = body_of(b);

    if (!slice_equal(one, other))
        fail_msg("requests %u and %u differ in their bodies:\n%.*s\n%.*s",
                 a->order, b->order, SLICE_ARG(one), SLICE_ARG(other));
}
