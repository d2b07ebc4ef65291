#include "proto/json/json_parse.h"

#include <stdio.h>
#include <stdlib.h>

#include "proto/buf.h"
#include "tests/test.h"

/* Writes each token as one character and its text: k, s, n and o for the name
 * of a member, a string, a number and a word. */
static enum status
add_token(void *user, enum json_event event, struct slice text,
          struct problem *why)
{
    (void)why;
    buf_add(user, &"{}[]ksno"[event], 1);
    buf_add_slice(user, text);
    BUF_ADD((struct buf *)user, " ");
    return STATUS_OK;
}

/* Parses `text` in pieces of `step` bytes, each in memory of its own. */
static enum status
parse(struct slice text, size_t step, bool is_lines, struct buf *tokens,
      struct problem *why)
{
    struct json_parse *json = json_parse_new(is_lines, add_token, tokens);
    enum status rc = STATUS_OK;

    assert_non_null(json);
    buf_init(tokens, 1 << 22);
    while (!rc && text.size > 0) {
        struct slice piece = {text.data, text.size < step ? text.size : step};
        char *copy = slice_dup(piece);

        slice_skip(&text, piece.size);
        piece.data = copy;
        rc = json_parse_feed(json, &piece, why);
        free(copy);
    }
    if (!rc)
        rc = json_parse_end(json, why);
    why->line = json_parse_line(json);
    json_parse_free(json);
    buf_add(tokens, "", 1);
    return rc;
}

/* RFC 8259: the parser reports the same tokens for every cut of a text. */
TEST(reports_the_tokens_of_a_text)
{
    static const struct {
        const char *text;
        const char *tokens;
    } rows[] = {
        {"{}", "{ } "},
        {" [ ] ", "[ ] "},
        {"0", "n0 "},
        {"-0", "n-0 "},
        {"[1,-20,0.5,3e7,3E+7,1.25e-10]",
         "[ n1 n-20 n0.5 n3e7 n3E+7 n1.25e-10 ] "},
        {"true", "otrue "},
        {"[true,false,null]", "[ otrue ofalse onull ] "},
        {"{\"a\":{\"b\":[{}]},\"c\" : \"d\"}", "{ ka { kb [ { } ] } kc sd } "},
        {"\"\"", "s "},
        {"\"a longer string than sixteen bytes\"",
         "sa longer string than sixteen bytes "},
        {"\"\xc3\xa9 and \xf0\x9f\x98\x80\"",
         "s\xc3\xa9 and \xf0\x9f\x98\x80 "},
        {"{\"\\u006b\":\"\\\"\\\\\\/\\n\\r\\t\"}", "{ kk s\"\\/\n\r\t } "},
        {"\"\\u00e9\\u20AC\\ud83d\\uDE00\\u007f\"",
         "s\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\x7f "},
        {"\xef\xbb\xbf\r\n[\t1\n,\n2 ]\n", "[ n1 n2 ] "},
        {"[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]",
         "[ [ [ [ [ [ [ [ [ [ [ [ [ [ [ [ ] ] ] ] ] ] ] ] ] ] ] ] ] ] ] ] "},
    };

    for (size_t i = 0; i < N_ELEMENTS(rows); i++)
        for (size_t step = 1; step < 70; step += step < 20 ? 1 : 40) {
            struct problem why = {""};
            struct buf tokens;
            enum status rc =
                parse(slice_of(rows[i].text), step, false, &tokens, &why);

            if (rc || strcmp(tokens.data, rows[i].tokens) != 0)
                fail_msg("%s in pieces of %zu: %s: %s", rows[i].text, step,
                         why.text, tokens.data);
            buf_fini(&tokens);
        }
}

#define EARLY   "it ends too early"
#define BEHIND  "something behind the end"
#define VALUE   "no value where one must be"
#define NAME    "neither the name of a member nor \"}\" behind \"{\""
#define NUMBER  "neither a number nor true, false or null"
#define NEXT    "neither a comma nor the end of the object or array behind a value"
#define CONTROL "a control character in a string"
#define ESCAPE  "an escape in a string that JSON does not have"
#define UTF8    "a string that is not UTF-8"

/* It refuses a malformed text with the same reason for every cut. */
TEST(refuses_what_is_no_text)
{
    static const struct {
        const char *text;
        const char *reason;
        uint64_t line;
    } rows[] = {
        {"", EARLY, 1},
        {" \n ", EARLY, 2},
        {"[", EARLY, 1},
        {"[1,\n2", EARLY, 2},
        {"\"a", EARLY, 1},
        {"{} \"", BEHIND, 1},
        {"-", NUMBER, 1},
        {"[01]", NUMBER, 1},
        {"[1.]", NUMBER, 1},
        {"[.5]", NUMBER, 1},
        {"[1e]", NUMBER, 1},
        {"[+1]", NUMBER, 1},
        {"[0x1]", NUMBER, 1},
        {"[tru]", NUMBER, 1},
        {"[truE]", NUMBER, 1},
        {"[\nNaN]", NUMBER, 2},
        {"{}{}", BEHIND, 1},
        {"1 2", BEHIND, 1},
        {"[]]", BEHIND, 1},
        {"[1 2]", NEXT, 1},
        {"[1}", NEXT, 1},
        {"{\"a\":1]", NEXT, 1},
        {"[1,]", VALUE, 1},
        {"{\"a\":}", VALUE, 1},
        {",", VALUE, 1},
        {"// a\n1", VALUE, 1},
        {"<a/>", VALUE, 1},
        {"[,1]", "neither a value nor \"]\" behind \"[\"", 1},
        {"{1:2}", NAME, 1},
        {"{,}", NAME, 1},
        {"{\"a\":1,}", "no name of a member behind a comma", 1},
        {"{\"a\" 1}", "no colon behind the name of a member", 1},
        {"{\"a\",1}", "no colon behind the name of a member", 1},
        {"[1\v]", "a vertical tab or form feed", 1},
        {"\"a\tb\"", CONTROL, 1},
        {"\"a\nb\"", CONTROL, 1},
        {"\"a\\\nb\"", CONTROL, 1},
        {"\"\\a\"", ESCAPE, 1},
        {"\"\\u00g0\"", ESCAPE, 1},
        {"\"\\u00\"", ESCAPE, 1},
        {"\"\xff\"", UTF8, 1},
        {"\"\xc0\x80\"", UTF8, 1},
        {"\"\xed\xa0\x80\"", UTF8, 1},
        {"\"\xc3\"", UTF8, 1},
        {"\xef\xbb[]", "it begins with half a byte order mark", 1},
        {"\xef\xbb\xbf\xef\xbb\xbf[]", VALUE, 1},
    };

    char sentence[200];

    for (size_t i = 0; i < N_ELEMENTS(rows); i++)
        for (size_t step = 1; step < 20; step++) {
            struct problem why = {""};
            struct buf tokens;
            enum status rc =
                parse(slice_of(rows[i].text), step, false, &tokens, &why);

            snprintf(sentence, sizeof(sentence), "not JSON: %s",
                     rows[i].reason);
            if (rc != STATUS_MALFORMED || strcmp(why.text, sentence) != 0 ||
                why.line != rows[i].line)
                fail_msg("%s in pieces of %zu: %d %s", rows[i].text, step,
                         (int)rc, why.text);
            buf_fini(&tokens);
        }
}

/* Texts that JSON allows, but XML cannot carry, and limits. */
TEST(refuses_what_it_must_not_take)
{
    static const char *const texts[] = {
        "\"\\u0000\"",       "\"\\u001f\"",        "\"\\b\"",
        "\"\\ufffe\"",       "\"\xef\xbf\xbf\"",   "\"\\ud800\"",
        "\"\\udc00\"",       "\"\\ud800\\u0041\"", "\"\\ud800x\"",
        "[[[[[[[[[[[[[[[[[", "{\"\\u0000\":1}",
    };

    for (size_t i = 0; i < N_ELEMENTS(texts); i++)
        for (size_t step = 1; step < 20; step++) {
            struct problem why = {""};
            struct buf tokens;

            assert_int_equal(
                parse(slice_of(texts[i]), step, false, &tokens, &why),
                STATUS_INVALID);
            buf_fini(&tokens);
        }
}

/* The size of a token does not depend on the pieces that it comes in. */
TEST(refuses_a_token_beyond_its_size)
{
    static char text[JSON_TOKEN_MAX + 10];

    for (size_t size = JSON_TOKEN_MAX - 1; size < JSON_TOKEN_MAX + 3; size++)
        for (size_t step = 100000; step < 1 << 20; step *= 10) {
            static const char *const frames[][2] = {
                {"\"", "a"}, {"1", "1"}, {" ", " "}};

            for (size_t i = 0; i < N_ELEMENTS(frames); i++) {
                struct slice whole = {text, size + 2};
                bool is_string = i == 0;
                struct problem why = {""};
                struct buf tokens;
                enum status rc;

                memset(text, frames[i][1][0], whole.size);
                text[0] = frames[i][0][0];
                if (is_string)
                    text[size + 1] = '"';
                else if (i == 1)
                    whole.size = size;
                else
                    text[whole.size = size] = '1', whole.size++;
                rc = parse(whole, step, false, &tokens, &why);
                assert_int_equal(rc, size > JSON_TOKEN_MAX ? STATUS_INVALID
                                                           : STATUS_OK);
                if (rc)
                    assert_string_equal(
                        why.text,
                        "a string or space of more than 524288 bytes");
                buf_fini(&tokens);
            }
        }
}

/* `size` times the byte, between two texts; again and then a last one. */
static struct slice
fill(char *to, const char *begin, char byte, size_t size, const char *end,
     const char *last)
{
    size_t n = strlen(begin);

    memcpy(to, begin, n);
    memset(to + n, byte, size);
    n += size;
    memcpy(to + n, end, strlen(end));
    n += strlen(end);
    if (last) {
        memset(to + n, byte, size);
        n += size;
        memcpy(to + n, last, strlen(last));
        n += strlen(last);
    }
    return (struct slice){to, n};
}

#define LONG     300000 /* twice: beyond the limit */
#define LONGER   (JSON_TOKEN_MAX + 100)
#define TOO_LONG "a string or space of more than 524288 bytes"

/* The parser names the limit that a text exceeds, and the line, for every cut
 * and whatever follows. Space ends with the piece before a token, or within
 * one. */
TEST(keeps_its_limits_wherever_a_text_is_cut)
{
    static char text[2 * LONGER];

    static const struct {
        const char *begin;
        char byte;
        size_t size;
        const char *end, *last;
        bool is_lines;
        const char *reason; /* NULL: none */
        uint64_t line;
    } rows[] = {
        {"[", ' ', LONG, "1,", "2]", false, NULL, 1},
        {"[", ' ', LONG, "\"a\",", "2]", false, NULL, 1},
        {"", ' ', LONGER, "\n{}", NULL, true, TOO_LONG, 1},
        {"{}", ' ', LONGER, "\n{}", NULL, true, TOO_LONG, 1},
        {"{", ' ', LONGER, "\n", NULL, true, TOO_LONG, 1},
        {"", '\n', LONGER, "[]", NULL, false, TOO_LONG, JSON_TOKEN_MAX + 1},
        {"", '\n', LONGER, "{}", NULL, true, NULL, LONGER + 1},
        {"\"", 'a', LONGER, "\n", NULL, false, TOO_LONG, 1},
        {"{\"", 'a', LONGER, "\n", NULL, true, TOO_LONG, 1},
        {"\"", 'a', LONGER, "\\q\"", NULL, false, TOO_LONG, 1},
        {"\"", 'a', JSON_TOKEN_MAX, "\n", NULL, false,
         "not JSON: a control character in a string", 1},
        {"\"", 'a', JSON_TOKEN_MAX, "", NULL, false,
         "not JSON: it ends too early", 1},
        {"", '1', LONGER, "x", NULL, false, TOO_LONG, 1},
    };

    for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
        struct slice whole = fill(text, rows[i].begin, rows[i].byte,
                                  rows[i].size, rows[i].end, rows[i].last);
        const size_t steps[] = {
            1, 4096, LONG + 1, JSON_TOKEN_MAX, JSON_TOKEN_MAX + 1, sizeof(text),
        };

        for (size_t k = 0; k < N_ELEMENTS(steps); k++) {
            struct problem why = {""};
            struct buf tokens;
            enum status rc =
                parse(whole, steps[k], rows[i].is_lines, &tokens, &why);

            if (!rc != !rows[i].reason || why.line != rows[i].line ||
                strcmp(why.text, rows[i].reason ? rows[i].reason : "") != 0)
                fail_msg("row %zu in pieces of %zu: line %" PRIu64 ": %s", i,
                         steps[k], why.line, why.text);
            buf_fini(&tokens);
        }
    }
}

/* Each line is a text of its own; a fault in one says nothing of the next. */
TEST(reads_lines)
{
    struct problem why = {""};
    struct buf tokens;
    struct json_parse *json;
    struct slice rest = SLICE("\"a\\\n\"}\n{\"b\":2}\n");

    assert_int_equal(
        parse(SLICE("\n {\"a\":1} \r\n\n{}\n{}"), 1, true, &tokens, &why),
        STATUS_OK);
    assert_string_equal(tokens.data, "{ ka n1 } { } { } ");
    assert_int_equal(why.line, 5);
    buf_fini(&tokens);
    assert_int_equal(parse(SLICE("{}\n{\"a\":\n1}"), 2, true, &tokens, &why),
                     STATUS_MALFORMED);
    assert_string_equal(why.text, "not NDJSON: the line ends within its entry");
    assert_int_equal(why.line, 2);
    buf_fini(&tokens);
    assert_int_equal(parse(SLICE("{}\n[]\n"), 3, true, &tokens, &why),
                     STATUS_MALFORMED);
    assert_string_equal(why.text,
                        "not NDJSON: the line does not begin with \"{\"");
    buf_fini(&tokens);

    buf_init(&tokens, 1 << 20);
    json = json_parse_new(true, add_token, &tokens);
    assert_non_null(json);
    assert_int_equal(json_parse_feed(json, &rest, &why), STATUS_MALFORMED);
    assert_true(json_parse_skip_line(json, &rest));
    assert_true(json_parse_skip_line(json, &rest));
    assert_int_equal(json_parse_feed(json, &rest, &why), STATUS_OK);
    assert_int_equal(json_parse_end(json, &why), STATUS_OK);
    buf_add(&tokens, "", 1);
    assert_string_equal(tokens.data, "{ kb n2 } ");
    json_parse_free(json);
    buf_fini(&tokens);

    assert_int_equal(parse(SLICE("\xef\xbb"), 1, true, &tokens, &why),
                     STATUS_MALFORMED);
    assert_string_equal(why.text,
                        "not NDJSON: it begins with half a byte order mark");
    buf_fini(&tokens);
}
