#include "proto/http/request_head.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/test.h"

/* Reads `text` as it arrives: `step` bytes at a time, from a block of just the
 * bytes that are there, so that a sanitizer sees a look behind them. Slices of
 * the head are moved to `text`. */
static enum status
read_cut(struct request_head *h, struct slice text, size_t step,
         struct problem *why)
{
    struct head_seen seen = {0};
    enum status rc = STATUS_AGAIN;

    for (size_t n = 0; rc == STATUS_AGAIN && n < text.size;) {
        char *copy;

        n = text.size - n < step ? text.size : n + step;
        copy = malloc(n);
        memcpy(copy, text.data, n);
        rc = request_head_read(h, (struct slice){copy, n}, &seen, why);
        free(copy);
        if (rc != STATUS_OK)
            continue;
        seen = (struct head_seen){0};
        return request_head_read(h, text, &seen, why);
    }
    return rc;
}

static void
check_refusal(struct slice text, unsigned status, const char *sentence)
{
    static const size_t steps[] = {SIZE_MAX, 1, 2, 7, 1000};

    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        struct request_head h;
        struct problem why = {""};

        if (read_cut(&h, text, steps[i], &why) != STATUS_INVALID ||
            h.refusal != status || strcmp(why.text, sentence))
            fail_msg("step %zu: %u \"%s\", not %u \"%s\", for:\n%.*s", steps[i],
                     h.refusal, why.text, status, sentence,
                     text.size < 300 ? (int)text.size : 300, text.data);
    }
}

/* Reads a head that is good, whole and byte by byte. */
static void
read_good(struct request_head *h, struct slice text)
{
    struct problem why = {""};

    if (read_cut(h, text, 1, &why) || read_cut(h, text, SIZE_MAX, &why))
        fail_msg("\"%s\" for:\n%.*s", why.text, SLICE_ARG(text));
    assert_int_equal(h->refusal, 0);
}

#define GET  "GET / HTTP/1.1\r\n"
#define HOST "Host: b.example\r\n"
#define END  "\r\n"
#define POST "POST / HTTP/1.1\r\n" HOST

TEST(says_what_was_sent)
{
    static const char text[] =
        "\r\nPOST /a%2Fb/..//c;d?q=%20{x}&?/ HTTP/1.1\r\n"
        "Host:b.example:8080\r\n"
        "X:\r\n"
        "accept: \t a \t b\t \r\n"
        "Content-Length: 5\r\n"
        "ACCEPT:\xc3\xa4\r\n"
        "\r\n";
    char body[sizeof(text) + 5];
    const struct head_field *f;
    struct request_head h;
    size_t at = 0;

    snprintf(body, sizeof(body), "%s%s", text, "GET /");
    read_good(&h, slice_of(body));

    assert_int_equal(h.size, sizeof(text) - 1);
    assert_true(slice_is(h.method, "POST"));
    assert_true(slice_is(h.path, "/a%2Fb/..//c;d"));
    assert_true(h.has_query);
    assert_true(slice_is(h.query, "q=%20{x}&?/"));
    assert_int_equal(h.minor, 1);
    assert_true(slice_is(h.host, "b.example:8080"));
    assert_int_equal(h.n_fields, 5);
    assert_true(slice_is(h.fields[1].name, "X"));
    assert_int_equal(h.fields[1].value.size, 0);

    f = request_head_field(&h, "Accept", &at);
    assert_true(slice_is(f->name, "accept"));
    assert_true(slice_is(f->value, "a \t b"));
    f = request_head_field(&h, "Accept", &at);
    assert_true(slice_is(f->value, "\xc3\xa4"));
    assert_null(request_head_field(&h, "Accept", &at));
    at = 0;
    assert_null(request_head_field(&h, "Accep", &at));
}

TEST(paths_and_queries_stay_as_they_are)
{
    static const struct {
        const char *line, *path, *query; /* NULL: none */
    } rows[] = {
        {"GET /?", "/", ""},
        {"GET /%72elays/%2e%2E/./", "/%72elays/%2e%2E/./", NULL},
        {"GET //b.example/", "//b.example/", NULL},
        {"GET /-._~!$&'()*+,;=:@%7F%ff", "/-._~!$&'()*+,;=:@%7F%ff", NULL},
        {"GET /?a[]=\\^`{|}%25", "/", "a[]=\\^`{|}%25"},
        {"GET http://b.example/a?b", "/a", "b"},
        {"GET HTTPS://B.Example?b", "/", "b"},
        {"GET http://b.example", "/", NULL},
        {"OPTIONS http://b.example", "*", NULL},
        {"OPTIONS http://b.example?", "/", ""},
        {"OPTIONS *", "*", NULL},
        {"OPTIONS /", "/", NULL},
        {"!#$%&'*+-.^_`|~aZ0 /", "/", NULL},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct request_head h;
        char text[200];

        snprintf(text, sizeof(text), "%s HTTP/1.1\r\n" HOST END, rows[i].line);
        read_good(&h, slice_of(text));
        assert_true(slice_is(h.path, rows[i].path));
        assert_int_equal(h.has_query, rows[i].query != NULL);
        assert_true(slice_is(h.query, rows[i].query));
        assert_int_equal(h.is_https, strstr(rows[i].line, "HTTPS:") != NULL);
    }
}

TEST(what_fields_mean)
{
    enum { KEPT = 1, WAITS = 2, CHUNKED = 4, LENGTH = 8, WS = 16, OTHER = 32 };

    static const struct {
        const char *text;
        int means;
        uint64_t length;
    } rows[] = {
        {GET HOST END, KEPT, 0},
        {GET HOST "Connection: close\r\n" END, 0, 0},
        {GET HOST "connection: a, ,b\r\nCONNECTION: x,\tCLOSE ,y\r\n" END, 0,
         0},
        {GET HOST "Connection: closed\r\n" END, KEPT, 0},
        {GET HOST "Connection: keep-alive, close\r\n" END, 0, 0},
        {"GET / HTTP/1.0\r\n" END, 0, 0},
        {"GET / HTTP/1.0\r\nConnection: x,Keep-Alive\r\n" END, KEPT, 0},
        {"GET / HTTP/1.0\r\nConnection: keep-alive\r\nConnection: "
         "close\r\n" END,
         0, 0},

        {POST "Content-Length: 0\r\n" END, KEPT | LENGTH, 0},
        {POST "CONTENT-LENGTH: 0007\r\n" END, KEPT | LENGTH, 7},
        {POST "Content-Length: 9223372036854775807\r\n" END, KEPT | LENGTH,
         INT64_MAX},
        {POST "Transfer-Encoding: Chunked\r\n" END, KEPT | CHUNKED, 0},

        {POST "Expect: 100-Continue\r\n" END, KEPT, 0},
        {POST "Expect: 100-Continue\r\nContent-Length: 0\r\n" END,
         KEPT | LENGTH, 0},
        {POST "Expect: , 100-Continue\r\nContent-Length: 3\r\n" END,
         KEPT | LENGTH | WAITS, 3},
        {POST "Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n" END,
         KEPT | CHUNKED | WAITS, 0},
        {"POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n" END,
         LENGTH, 1},

        {GET HOST "Upgrade: WebSocket\r\nConnection: x, UPGRADE\r\n" END,
         KEPT | WS, 0},
        {GET HOST "Connection: upgrade\r\nUpgrade: h2c, websocket\r\n" END,
         KEPT | WS, 0},
        {GET HOST "Connection: upgrade\r\nUpgrade: h2c\r\n" END, KEPT | OTHER,
         0},
        {GET HOST "Connection: upgrade\r\nUpgrade: websocket/1\r\n" END,
         KEPT | OTHER, 0},
        {GET HOST "Connection: upgrade\r\n" END, KEPT, 0},
        {GET HOST "Connection: upgrade\r\nUpgrade:\r\n" END, KEPT, 0},
        {GET HOST "Connection: upgrade\r\nUpgrade: ,\r\n" END, KEPT, 0},
        {GET HOST "Upgrade: websocket\r\n" END, KEPT, 0},
        {"GET / HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: websocket\r\n" END,
         0, 0},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct request_head h;
        int means;

        read_good(&h, slice_of(rows[i].text));
        means = (h.is_kept ? KEPT : 0) | (h.is_continue ? WAITS : 0) |
                (h.body.is_chunked ? CHUNKED : 0) |
                (h.body.has_length ? LENGTH : 0) |
                (h.upgrade == REQUEST_UPGRADE_WEBSOCKET ? WS : 0) |
                (h.upgrade == REQUEST_UPGRADE_OTHER ? OTHER : 0);
        if (means != rows[i].means || h.body.length != rows[i].length)
            fail_msg("%d, not %d, for:\n%s", means, rows[i].means,
                     rows[i].text);
    }
}

TEST(hosts)
{
    static const char *const good[] = {
        "b",     "b.example", "B_1.-~!$&'()*+,;=", "%c3%a4.example",
        "b:",    "b:0",       "b:65535",           "127.0.0.1:80",
        "[::1]", "[::1]:443", "[::ffff:1.2.3.4]",  "[1:2:3:4:5:6:7:8]:"};
    static const char *const bad[] = {
        "",          "a b",
        "a, b",      "a:b",
        "a:65536",   "a:-1",
        "a:1:2",     ":80",
        "u@a",       "a/",
        "a?",        "a#",
        "a%",        "a%0g",
        "a%00b",     "\xc3\xa4",
        "a\tb",      "[::1",
        "[]",        "[::1]80",
        "[::g]",     "[fe80::1%25eth0]",
        "[v1.a]",    "::1",
        "[1.2.3.4]", "[0000:0000:0000:0000:0000:ffff:255.255.255.255:00000]"};

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct request_head h;
        char text[200];

        snprintf(text, sizeof(text), GET "Host: %s\r\n" END, good[i]);
        read_good(&h, slice_of(text));
        assert_true(slice_is(h.host, good[i]));
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char text[200], sentence[200];

        snprintf(text, sizeof(text), GET "Host: %s\r\n" END, bad[i]);
        snprintf(sentence, sizeof(sentence),
                 "Host is not a host and a port: \"%s\"",
                 problem_quote(slice_of(bad[i])).text);
        check_refusal(slice_of(text), 400, sentence);
    }
}

TEST(what_is_refused)
{
    static const char no_name[] = "a field line without a name and a colon";
    static const char blank[] = "white space behind the name of a field";
    static const char cr[] = "a carriage return without a line feed";
    static const char lf[] = "a line feed without a carriage return";
    static const char control[] = "a control character in the head";
    static const char te[] = "Transfer-Encoding does not end with one chunked";
    static const char other[] = "a transfer coding other than chunked";
    static const char both[] = "Transfer-Encoding beside Content-Length";
    static const char method[] =
        "the request line does not begin with a method";
    static const char version[] =
        "the request line does not end with a version";
    static const char must[] =
        "the target has a character that must be escaped";
    static const char escape[] = "the target has a bad escape";
    static const char no_path[] = "the target is no path";
    static const char number[] = "Content-Length is not one plain number";

    static const struct {
        const char *text;
        unsigned status;
        const char *what, *quoted; /* NULL: nothing is quoted */
    } rows[] = {
        /* The request line */
        {"\r\n\r\n\r\n\r\n\r\n", 400, method, ""},
        {"\n", 400, lf, NULL},
        {" GET / HTTP/1.1\r\n", 400, method, " GET / HTTP/1.1"},
        {"GET\t/ HTTP/1.1\r\n", 400, method, "GET?/ HTTP/1.1"},
        {"G(T / HTTP/1.1\r\n", 400, method, "G(T / HTTP/1.1"},
        {"GET\r\n", 400, method, "GET"},
        {"\x16\x03\x01", 400, control, NULL},
        {"abcdefghijklmnopqrstuvwxyz1234567 / HTTP/1.1\r\n", 501,
         "the method has more than 32 bytes",
         "abcdefghijklmnopqrstuvwxyz1234567 / HTTP/1.1"},
        {"GET /\r\n", 400, version, ""},
        {"GET / \r\n", 400, version, ""},
        {"GET  / HTTP/1.1\r\n", 400, version, "/ HTTP/1.1"},
        {"GET /  HTTP/1.1\r\n", 400, version, " HTTP/1.1"},
        {"GET / HTTP/1.1 \r\n", 400, version, "HTTP/1.1 "},
        {"GET /a b HTTP/1.1\r\n", 400, version, "b HTTP/1.1"},
        {"GET / http/1.1\r\n", 400, version, "http/1.1"},
        {"GET / HTTP/1\r\n", 400, version, "HTTP/1"},
        {"GET / HTTP/1.10\r\n", 400, version, "HTTP/1.10"},
        {"GET / HTTP/11.1\r\n", 400, version, "HTTP/11.1"},
        {"GET / HTTP/1,1\r\n", 400, version, "HTTP/1,1"},
        {"GET / HTTP/x.1\r\n", 400, version, "HTTP/x.1"},
        {"GET / HTTP/1.x\r\n", 400, version, "HTTP/1.x"},
        {"GET / HTTP/1.2\r\n", 505, "neither HTTP/1.0 nor HTTP/1.1",
         "HTTP/1.2"},
        {"GET / HTTP/0.9\r\n", 505, "neither HTTP/1.0 nor HTTP/1.1",
         "HTTP/0.9"},
        {"PRI * HTTP/2.0\r\n", 505, "neither HTTP/1.0 nor HTTP/1.1",
         "HTTP/2.0"},
        {"GET  HTTP/1.1\r\n", 400, "the request line has no target",
         "GET  HTTP/1.1"},

        /* Targets */
        {"GET a HTTP/1.1\r\n", 400, no_path, "a"},
        {"GET * HTTP/1.1\r\n", 400, no_path, "*"},
        {"options * HTTP/1.1\r\n", 400, no_path, "*"},
        {"OPTIONS */ HTTP/1.1\r\n", 400, no_path, "*/"},
        {"CONNECT b.example:443 HTTP/1.1\r\n", 400, no_path, "b.example:443"},
        {"GET ftp://b.example/ HTTP/1.1\r\n", 400, no_path, "ftp://b.example/"},
        {"GET http:/b.example/ HTTP/1.1\r\n", 400, no_path, "http:/b.example/"},
        {"GET http:///a HTTP/1.1\r\n", 400, no_path, "http:///a"},
        {"GET http:// HTTP/1.1\r\n", 400, no_path, "http://"},
        {"GET /a#b HTTP/1.1\r\n", 400, must, "#b"},
        {"GET /a?b#c HTTP/1.1\r\n", 400, must, "#c"},
        {"GET /a\"b HTTP/1.1\r\n", 400, must, "\"b"},
        {"GET /a?<b HTTP/1.1\r\n", 400, must, "<b"},
        {"GET /a?>b HTTP/1.1\r\n", 400, must, ">b"},
        {"GET /a?\"b HTTP/1.1\r\n", 400, must, "\"b"},
        {"GET /a\\b HTTP/1.1\r\n", 400, must, "\\b"},
        {"GET /a[b HTTP/1.1\r\n", 400, must, "[b"},
        {"GET /{ HTTP/1.1\r\n", 400, must, "{"},
        {"GET /\tb HTTP/1.1\r\n", 400, must, "?b"},
        {"GET /?\tb HTTP/1.1\r\n", 400, must, "?b"},
        {"GET /\xc3\xa4 HTTP/1.1\r\n", 400, must, "\xc3\xa4"},
        {"GET /?\xc3\xa4 HTTP/1.1\r\n", 400, must, "\xc3\xa4"},
        {"GET /% HTTP/1.1\r\n", 400, escape, "%"},
        {"GET /%2 HTTP/1.1\r\n", 400, escape, "%2"},
        {"GET /%2g HTTP/1.1\r\n", 400, escape, "%2g"},
        {"GET /%00 HTTP/1.1\r\n", 400, escape, "%00"},
        {"GET /?a=%zz HTTP/1.1\r\n", 400, escape, "%zz"},
        {"GET /?a=%00b HTTP/1.1\r\n", 400, escape, "%00b"},
        {"GET http://a.example/ HTTP/1.1\r\n" HOST END, 400,
         "the target is of another host than Host", "a.example"},
        {"GET http://b.example:80/ HTTP/1.1\r\n" HOST END, 400,
         "the target is of another host than Host", "b.example:80"},
        {"GET http://u@b.example/ HTTP/1.1\r\n" HOST END, 400,
         "the target is of another host than Host", "u@b.example"},
        {"GET http://b.example/ HTTP/1.0\r\n" END, 400, "no Host field", NULL},

        /* Line ends and control characters */
        {"GET / HTTP/1.1\n", 400, lf, NULL},
        {GET "Host: b\n\r\n", 400, lf, NULL},
        {GET "Host: b\r\r\n", 400, cr, NULL},
        {GET "Host: b\rX: y\r\n", 400, cr, NULL},
        {GET HOST "\n", 400, lf, NULL},
        {GET HOST "\r\r\n", 400, cr, NULL},
        {GET "Host: b\x01", 400, control, NULL},
        {GET "Host: b\x7f", 400, control, NULL},
        {GET "Ho\x0bst: b\r\n", 400, control, NULL},
        {"\rGET / HTTP/1.1\r\n", 400, cr, NULL},

        /* Field lines */
        {GET HOST "X\r\n", 400, no_name, "X"},
        {GET HOST ":y\r\n", 400, no_name, ""},
        {GET HOST "X : y\r\n", 400, blank, "X "},
        {GET HOST "X\t: y\r\n", 400, blank, "X?"},
        {GET HOST "Content-Length : 5\r\n", 400, blank, "Content-Length "},
        {GET HOST " X: y\r\n", 400, "a folded field line", NULL},
        {GET HOST "X: y\r\n\tz\r\n", 400, "a folded field line", NULL},
        {GET " Host: b\r\n", 400, "a folded field line", NULL},
        {GET HOST "X\xff: y\r\n", 400, no_name, "X?"},
        {GET HOST "X(a): y\r\n", 400, no_name, "X(a)"},
        {GET HOST "\"X\": y\r\n", 400, no_name, "\"X\""},
        {GET HOST "GET / HTTP/1.1\r\n", 400, blank, "GET / HTTP/1.1"},

        /* Host */
        {GET END, 400, "no Host field", NULL},
        {GET HOST HOST END, 400, "two Host fields", NULL},
        {GET HOST "hOST: b.example\r\n" END, 400, "two Host fields", NULL},

        /* Lengths and codings */
        {POST "Content-Length: 5\r\nContent-Length: 5\r\n" END, 400,
         "two Content-Length fields", NULL},
        {POST "Content-Length: 5\r\ncontent-length: 6\r\n" END, 400,
         "two Content-Length fields", NULL},
        {POST "Content-Length: 5, 5\r\n" END, 400, number, "5, 5"},
        {POST "Content-Length: 5,\r\n" END, 400, number, "5,"},
        {POST "Content-Length:\r\n" END, 400, number, ""},
        {POST "Content-Length: +5\r\n" END, 400, number, "+5"},
        {POST "Content-Length: -5\r\n" END, 400, number, "-5"},
        {POST "Content-Length: 0x5\r\n" END, 400, number, "0x5"},
        {POST "Content-Length: 5 5\r\n" END, 400, number, "5 5"},
        {POST "Content-Length: 5.0\r\n" END, 400, number, "5.0"},
        {POST "Content-Length: 5;a\r\n" END, 400, number, "5;a"},
        {POST "Content-Length: 9223372036854775808\r\n" END, 400, number,
         "9223372036854775808"},
        {POST "Content-Length: 18446744073709551621\r\n" END, 400, number,
         "18446744073709551621"},
        {POST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n" END, 400,
         both, NULL},
        {POST "Content-Length: 5\r\nTransfer-Encoding:\r\n" END, 400, both,
         NULL},
        {"POST / HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n" END, 400,
         "Transfer-Encoding in HTTP/1.0", NULL},
        {POST "Transfer-Encoding: identity\r\n" END, 400, te, NULL},
        {POST "Transfer-Encoding:\r\n" END, 400, te, NULL},
        {POST "Transfer-Encoding: chunked,\r\n" END, 400, te, NULL},
        {POST "Transfer-Encoding: ,chunked\r\n" END, 400, te, NULL},
        {POST "Transfer-Encoding: chunked, chunked\r\n" END, 400, te, NULL},
        {POST "Transfer-Encoding: chunked, gzip\r\n" END, 400, te, NULL},
        {POST "Transfer-Encoding: chunked;a=b\r\n" END, 400, te, NULL},
        {POST "Transfer-Encoding: chunked;\r\n" END, 400, te, NULL},
        {POST "Transfer-Encoding: \"chunked\"\r\n" END, 400, te, NULL},
        {POST "Transfer-Encoding: xchunked\r\n" END, 400, te, NULL},
        {POST "Transfer-Encoding: chunked x\r\n" END, 400, te, NULL},
        {POST
         "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n" END,
         400, te, NULL},
        {POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n" END,
         400, te, NULL},
        {POST "Transfer-Encoding:\r\nTransfer-Encoding: chunked\r\n" END, 400,
         te, NULL},
        {POST "Transfer-Encoding: gzip, chunked\r\n" END, 501, other, NULL},
        {POST
         "Transfer-Encoding: gzip;q=1\r\nTransfer-Encoding: chunked\r\n" END,
         501, other, NULL},

        {POST "Expect: x\r\n" END, 417,
         "an expectation other than 100-continue", NULL},
        {POST "Expect: 100-continue, x=y\r\n" END, 417,
         "an expectation other than 100-continue", NULL},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char sentence[300];

        if (rows[i].quoted)
            snprintf(sentence, sizeof(sentence), "%s: \"%s\"", rows[i].what,
                     rows[i].quoted);
        else
            snprintf(sentence, sizeof(sentence), "%s", rows[i].what);
        check_refusal(slice_of(rows[i].text), rows[i].status, sentence);
    }
    check_refusal(SLICE(GET "X: \0\r\n"), 400, control);
    check_refusal(SLICE("GET /\0 HTTP/1.1\r\n"), 400, control);
}

/* No line of these ever ends, yet what is wrong with them shows at once. */
TEST(control_characters_are_refused_before_the_line_ends)
{
    struct head_seen seen = {0};
    struct request_head h;

    assert_int_equal(request_head_read(&h, SLICE("GET /"), &seen, NULL),
                     STATUS_AGAIN);
    assert_int_equal(request_head_read(&h, SLICE("GET /\x01"), &seen, NULL),
                     STATUS_INVALID);
    assert_int_equal(h.refusal, 400);
}

/* Every other name of a field is just another field, also one that a known name
 * begins with, and swallows nothing. */
TEST(prefixes_of_known_names_are_other_fields)
{
    static const char *const known[] = {
        "Host",       "Content-Length",  "Transfer-Encoding",
        "Connection", "Expect",          "Upgrade",
        "If-Range",   "X-Forwarded-For", "Accept-Encoding"};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        for (size_t n = 1; n < strlen(known[i]); n++) {
            struct request_head h;
            char text[200];

            snprintf(text, sizeof(text),
                     "POST / HTTP/1.1\r\n%.*s: y\r\nHost: b\r\n%.*s: "
                     "close\r\nContent-Length: 3\r\n\r\n",
                     (int)n, known[i], (int)n, known[i]);
            read_good(&h, slice_of(text));
            assert_int_equal(h.n_fields, 4);
            assert_true(slice_is(h.host, "b"));
            assert_int_equal(h.body.length, 3);
            assert_true(h.is_kept);
        }
}

/* Appends `n` times `c`. */
static char *
fill(char *to, char c, size_t n)
{
    memset(to, c, n);
    to[n] = '\0';
    return to + n;
}

TEST(targets_have_a_limit)
{
    static char text[REQUEST_HEAD_MAX + 1];
    struct request_head h;
    char *end;

    strcpy(text, "GET /");
    end = fill(text + 5, 'a', REQUEST_TARGET_MAX - 1);
    strcpy(end, " HTTP/1.1\r\n" HOST END);
    read_good(&h, slice_of(text));
    assert_int_equal(h.path.size, REQUEST_TARGET_MAX);

    strcpy(text, "GET /");
    end = fill(text + 5, 'a', REQUEST_TARGET_MAX);
    strcpy(end, " HTTP/1.1\r\n" HOST END);
    check_refusal(slice_of(text), 414, "the target has more than 8,192 bytes");

    /* Long before its end is there. */
    fill(text + 5, 'a', REQUEST_TARGET_MAX + 100);
    check_refusal(slice_of(text), 414, "the target has more than 8,192 bytes");

    end = fill(text, 'A', REQUEST_METHOD_MAX);
    strcpy(end, " / HTTP/1.1\r\n" HOST END);
    read_good(&h, slice_of(text));
    fill(text, 'A', REQUEST_TARGET_MAX + 100);
    assert_int_equal(
        read_cut(&h, slice_of(text), 1000, &(struct problem){.text = ""}),
        STATUS_INVALID);
    assert_int_equal(h.refusal, 501);
}

TEST(fields_have_limits)
{
    static char text[2 * REQUEST_HEAD_MAX];
    const char *head = GET HOST;
    struct request_head h;
    char *end;

    strcpy(text, GET HOST "X:");
    end = fill(text + strlen(text), 'a', REQUEST_FIELD_MAX - 2);
    strcpy(end, "\r\n\r\n");
    read_good(&h, slice_of(text));
    strcpy(end, "a\r\n\r\n");
    check_refusal(slice_of(text), 431,
                  "a field line has more than 8,192 bytes");
    strcpy(end, "a");
    check_refusal(slice_of(text), 431,
                  "a field line has more than 8,192 bytes");

    strcpy(text, head);
    end = text + strlen(text);
    for (int i = 1; i < REQUEST_FIELDS_MAX; i++)
        end = stpcpy(end, "a:\r\n");
    strcpy(end, END);
    read_good(&h, slice_of(text));
    assert_int_equal(h.n_fields, REQUEST_FIELDS_MAX);
    strcpy(end, "a:\r\n");
    check_refusal(slice_of(text), 431, "more than 100 fields");
}

/* RFC 9112 section 2.2 */
TEST(empty_lines_before_a_head_are_skipped)
{
    static const char text[] = "\r\n\r\n\r\n\r\n" GET HOST END;

    for (size_t i = 0; i <= REQUEST_EMPTY_LINES; i++) {
        struct request_head h;

        read_good(&h, slice_of(text + 2 * i));
        assert_int_equal(h.size, sizeof(text) - 1 - 2 * i);
        assert_true(slice_is(h.path, "/"));
    }
}

/* The last byte of the longest head is byte 16,384, also with an empty line
 * before it. */
TEST(heads_have_a_limit)
{
    static char text[2 * REQUEST_HEAD_MAX];
    static const char *const begins[] = {GET HOST, "\r\n" GET HOST};

    for (size_t i = 0; i < 2; i++) {
        struct request_head h;
        size_t left;
        char *end = stpcpy(text, begins[i]);

        end = stpcpy(end, "X:");
        end = fill(end, 'x', 8180);
        end = stpcpy(end, "\r\nY:");
        left = (size_t)(REQUEST_HEAD_MAX - (end - text) - 4);
        end = fill(end, 'y', left);
        strcpy(end, "\r\n\r\n");
        read_good(&h, slice_of(text));
        assert_int_equal(h.size, REQUEST_HEAD_MAX);

        for (size_t more = 1; more < 6; more++) {
            strcpy(fill(end, 'y', more), "\r\n\r\n");
            check_refusal(slice_of(text), 431,
                          "the head has more than 16,384 bytes");
        }
        /* The caller's buffer is full, and nothing has ended. */
        fill(end, 'y', 4);
        check_refusal(slice_of(text), 431,
                      "the head has more than 16,384 bytes");
    }
}

TEST(the_next_head_begins_behind_the_first)
{
    static const char text[] = GET HOST END "HEAD /b HTTP/1.0\r\n\r\n";
    struct slice bytes = SLICE(text);
    struct head_seen seen = {0};
    struct request_head h;

    assert_int_equal(request_head_read(&h, bytes, &seen, NULL), STATUS_OK);
    bytes = (struct slice){text + h.size, bytes.size - h.size};
    assert_int_equal(request_head_read(&h, bytes, &seen, NULL), STATUS_OK);
    assert_true(slice_is(h.method, "HEAD"));
    assert_int_equal(h.size, bytes.size);
    assert_int_equal(h.minor, 0);
    assert_int_equal(h.host.size, 0);
}
