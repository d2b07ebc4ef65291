/* Names of hosts beyond ASCII. */
#include "proto/http/idn.h"

#include "tests/test.h"

/* The samples are of RFC 3492 section 7.1 and of registries. */
TEST(a_name_is_written_as_it_is_looked_up)
{
    static const struct {
        const char *name, *ascii; /* NULL: none */
    } rows[] = {
        {"a.example", "a.example"},
        {"a-b_c.example.", "a-b_c.example."},
        {"", ""},
        {"b\u00fccher.example", "xn--bcher-kva.example"},
        {"b%C3%BCcher.example", "xn--bcher-kva.example"},
        {"b%c3%bccher.m\u00fcnchen.example.",
         "xn--bcher-kva.xn--mnchen-3ya.example."},
        {"\u00fc", "xn--tda"},
        {"\u4ed6\u4eec\u4e3a\u4ec0\u4e48\u4e0d\u8bf4\u4e2d\u6587",
         "xn--ihqwcrb4cv8a8dqg056pqjye"},
        {"\u043f\u043e\u0447\u0435\u043c\u0443\u0436\u0435\u043e\u043d\u0438"
         "\u043d"
         "\u0435\u0433\u043e\u0432\u043e\u0440\u044f\u0442\u043f\u043e\u0440"
         "\u0443"
         "\u0441\u0441\u043a\u0438",
         "xn--b1abfaaepdrnnbgefbadotcwatmq2g4l"},
        {"3\u5e74b\u7d44\u91d1\u516b\u5148\u751f",
         "xn--3b-ww4c5e180e575a65lsy2b"},
        {"\U0001f4a9.la", "xn--ls8h.la"},
        {"%31.example", NULL}, /* an escape of ASCII */
        {"a%2eb.example", NULL},
        {"%C3.example", NULL}, /* no UTF-8 */
        {"\xff.example", NULL},
        {"%.example", NULL},
        {"%zz", NULL},
        {"\u00fcaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
         "a",
         NULL},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct buf to;
        bool is_good;

        buf_init(&to, 1000);
        is_good = idn_add_ascii(&to, slice_of(rows[i].name));
        assert_int_equal(is_good, rows[i].ascii != NULL);
        if (is_good && !slice_is(buf_slice(&to), rows[i].ascii))
            fail_msg("%s became %.*s", rows[i].name, (int)to.size, to.data);
        buf_fini(&to);
    }
}

TEST(a_name_that_finds_no_room_is_none)
{
    struct buf to;

    buf_init(&to, 5);
    assert_false(idn_add_ascii(&to, SLICE("b\u00fccher")));
    buf_fini(&to);
}
