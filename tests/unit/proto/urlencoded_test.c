#include "proto/urlencoded.h"

#include <stdio.h>

#include "tests/test.h"

static void
assert_slice(struct slice s, const char *text)
{
    if (!slice_is(s, text))
        fail_msg("\"%.*s\" is not \"%s\"", SLICE_ARG(s), text);
}

static void
assert_field(const struct urlencoded_data *form, size_t i, const char *name,
             const char *value)
{
    assert_true(i < form->n);
    assert_slice(form->fields[i].name, name);
    assert_slice(form->fields[i].value, value);
}

static void
assert_refused(struct slice body, const char *reason)
{
    struct urlencoded_data form;
    struct problem why = {""};

    assert_int_equal(urlencoded_read(&form, body, &why), STATUS_MALFORMED);
    assert_string_equal(why.text, reason);
    urlencoded_fini(&form);
}

/* W-020 */
TEST(reads_the_fields_in_their_order)
{
    struct urlencoded_data form;

    assert_int_equal(urlencoded_read(&form, SLICE("b=2&a=1&b=3"), NULL), 0);

    assert_int_equal(form.n, 3);
    assert_field(&form, 0, "b", "2");
    assert_field(&form, 1, "a", "1");
    assert_field(&form, 2, "b", "3");
    urlencoded_fini(&form);
}

/* W-026: the result of "%25" is not decoded again. */
TEST(decodes_exactly_once)
{
    struct urlencoded_data form;

    assert_int_equal(
        urlencoded_read(
            &form,
            SLICE("plus=a+b%2Bc&percent=%2541&and=%26amp%3B&equals=a=b%3D"
                  "&%6eame+=%c3%A5"),
            NULL),
        0);

    assert_int_equal(form.n, 5);
    assert_field(&form, 0, "plus", "a b+c");
    assert_field(&form, 1, "percent", "%41");
    assert_field(&form, 2, "and", "&amp;");
    assert_field(&form, 3, "equals", "a=b=");
    assert_field(&form, 4, "name ", "\xc3\xa5");
    urlencoded_fini(&form);
}

TEST(an_empty_body_is_a_form_without_fields)
{
    static const char *const bodies[] = {"", "&", "&&&"};

    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        struct urlencoded_data form;

        assert_int_equal(urlencoded_read(&form, slice_of(bodies[i]), NULL), 0);
        assert_int_equal(form.n, 0);
        urlencoded_fini(&form);
    }
}

TEST(takes_fields_without_a_value_or_a_name)
{
    struct urlencoded_data form;

    assert_int_equal(urlencoded_read(&form, SLICE("&a&&b=&=c&"), NULL), 0);

    assert_int_equal(form.n, 3);
    assert_field(&form, 0, "a", "");
    assert_field(&form, 1, "b", "");
    assert_field(&form, 2, "", "c");
    urlencoded_fini(&form);
}

TEST(refuses_escapes_that_are_none)
{
    assert_refused(SLICE("a=1&b=%"), "form: a bad escape or a NUL in \"b\"");
    assert_refused(SLICE("b=%4"), "form: a bad escape or a NUL in \"b\"");
    assert_refused(SLICE("b=%4&1=2"), "form: a bad escape or a NUL in \"b\"");
    assert_refused(SLICE("b=%4g"), "form: a bad escape or a NUL in \"b\"");
    assert_refused(SLICE("b=%+1"), "form: a bad escape or a NUL in \"b\"");
    assert_refused(SLICE("%41%zz=1"),
                   "form: a bad escape or a NUL in \"%41%zz\"");
}

/* W-163: a NUL would end a URL early for a reader that takes it for a
 * string. */
TEST(refuses_a_nul_escaped_or_not)
{
    assert_refused(SLICE("hub.topic=http://a.example/%00"),
                   "form: a bad escape or a NUL in \"hub.topic\"");
    assert_refused((struct slice){"a=b\0c", 5},
                   "form: a bad escape or a NUL in \"a\"");
    assert_refused(SLICE("a%00=1"), "form: a bad escape or a NUL in \"a%00\"");
}

/* W-020 */
TEST(refuses_what_is_no_utf8)
{
    assert_refused(SLICE("a=%ff"), "form: no UTF-8 in \"a\"");
    assert_refused(SLICE("a=\xc0\xaf"), "form: no UTF-8 in \"a\"");
    assert_refused(SLICE("a=%c3"), "form: no UTF-8 in \"a\"");
    assert_refused(SLICE("a=%c3&b=%a5"), "form: no UTF-8 in \"a\"");
    assert_refused(SLICE("%ed%a0%80=1"), "form: no UTF-8 in \"%ed%a0%80\"");
}

/* W-165 */
TEST(refuses_more_fields_than_there_is_room_for)
{
    char body[3 * URLENCODED_FIELDS_MAX + 8] = "";
    size_t size = 0;
    struct urlencoded_data form;

    for (size_t i = 0; i < URLENCODED_FIELDS_MAX; i++, size += 3)
        memcpy(body + size, "a=&", 3);
    assert_int_equal(urlencoded_read(&form, (struct slice){body, size}, NULL),
                     0);
    assert_int_equal(form.n, URLENCODED_FIELDS_MAX);
    urlencoded_fini(&form);

    body[size++] = 'b';
    assert_refused((struct slice){body, size}, "form: more than 64 fields");
}

TEST(gives_the_first_field_of_a_name)
{
    struct slice value = SLICE("old");
    struct urlencoded_data form;

    assert_int_equal(urlencoded_read(&form, SLICE("a=1&a=2&A=3"), NULL), 0);

    assert_true(urlencoded_get(&form, "a", &value));
    assert_slice(value, "1");
    assert_true(urlencoded_get(&form, "A", &value));
    assert_slice(value, "3");
    assert_false(urlencoded_get(&form, "b", &value));
    assert_int_equal(value.size, 0);
    urlencoded_fini(&form);
}

/* W-026, W-163: nothing that has a meaning in a form, a URL or a header is left
 * as it is. */
TEST(escapes_all_but_the_unreserved_characters)
{
    struct buf b;

    buf_init(&b, 1000);

    urlencoded_add(&b, "hub.topic", SLICE("aZ09-._~ +&=%?#/:;\r\n\"<\xc3\xa5"));
    urlencoded_add(&b, "a&b", SLICE(""));

    assert_slice(buf_slice(&b),
                 "hub.topic=aZ09-._~%20%2B%26%3D%25%3F%23%2F%3A%3B%0D%0A%22%3C"
                 "%C3%A5&a%26b=");
    buf_fini(&b);
}

TEST(puts_an_ampersand_between_fields_only)
{
    static const char *const rows[][2] = {
        {"", "a=1"},     {"/x?", "/x?a=1"}, {"/x?b=2", "/x?b=2&a=1"},
        {"b&", "b&a=1"}, {"b", "b&a=1"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct buf b;

        buf_init(&b, 100);
        buf_add_text(&b, rows[i][0]);
        urlencoded_add(&b, "a", SLICE("1"));
        assert_slice(buf_slice(&b), rows[i][1]);
        buf_fini(&b);
    }
}

/* W-026: every byte survives, but the NUL, which is refused. */
TEST(reads_what_it_wrote)
{
    struct urlencoded_data form;
    struct slice value;
    char bytes[0x7f];
    struct buf b;

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)(i + 1);
    buf_init(&b, 1000);
    urlencoded_add(&b, "all", (struct slice){bytes, sizeof(bytes)});
    urlencoded_add(&b, "iri", SLICE("\xc3\xa5\xf0\x9f\x8c\x8a"));

    assert_int_equal(urlencoded_read(&form, buf_slice(&b), NULL), 0);

    assert_true(urlencoded_get(&form, "all", &value));
    assert_true(slice_equal(value, (struct slice){bytes, sizeof(bytes)}));
    assert_true(urlencoded_get(&form, "iri", &value));
    assert_slice(value, "\xc3\xa5\xf0\x9f\x8c\x8a");
    urlencoded_fini(&form);
    buf_fini(&b);
}
