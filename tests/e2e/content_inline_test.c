/*
 * content_inline_test.c - changes are posted together with the bytes of their
 * resources: by any way that a post goes, once, and by the command.
 */
#include <stdio.h>
#include <string.h>

#include "proto/hash.h"
#include "proto/vocab.h"
#include "tests/support/command.h"
#include "tests/support/inlined.h"
#include "tests/support/refusal.h"
#include "tests/test.h"

#define JSON   "application/json"
#define NDJSON "application/x-ndjson"
#define XML    "application/xml"
#define A      "http://example.com/a"
#define B      "http://example.com/b"

FIXTURE(inlined_open, inlined_close);

/* the entry tells what the bytes are. */
TEST(bytes_come_along_and_the_entry_tells_what_they_are)
{
    struct inlined *s = *state;
    struct slice bytes = SLICE("\0\x01\r\n--b\r\n--b-\r\n\0\xff\xfe\r\n");
    struct multipart_body m;
    struct digest digest;
    char name[DIGEST_TEXT_SIZE + 1] = "", size[20];
    struct xpath x;

    multipart_body_open(&m, JSON, ENTRY(A, "created"));
    multipart_body_add(&m, A, "application/octet-stream", bytes);
    inlined_send_with(s, &m, NULL);
    inlined_assert_posted(s, 1, 1);

    digest_sha256(&digest, bytes);
    digest_write(name, &digest);
    snprintf(size, sizeof(size), "%zu", bytes.size);
    inlined_assert_kept(s, bytes);
    inlined_assert_state(s, 1, 1);
    inlined_list(s, &x);
    assert_xpath_text(&x, "//s:url/rs:md/@hash", name);
    assert_xpath_text(&x, "//s:url/rs:md/@length", size);
    assert_xpath_text(&x, "//s:url/rs:md/@type", "application/octet-stream");
    xpath_close(&x);
}

TEST(no_bytes_are_content_too)
{
    struct inlined *s = *state;
    struct xpath x;

    inlined_post_one(s, ENTRY(A, "created"), A, SLICE(""));
    inlined_assert_posted(s, 1, 1);

    inlined_assert_kept(s, SLICE(""));
    inlined_assert_state(s, 1, 1);
    inlined_list(s, &x);
    assert_xpath_text(&x, "//s:url/rs:md/@length", "0");
    xpath_close(&x);
}

/* What is told is checked and stays; what is not is added. */
TEST(what_the_source_tells_stays_as_it_told_it)
{
    struct inlined *s = *state;
    struct xpath x;

    inlined_post_one(s,
                     ENTRY_OF(A, "created",
                              "\"hash\":{\"md5\":\"" HELLO_MD5 "\"},"
                              "\"type\":\"text/x-hello\",\"length\":6"),
                     A, SLICE("hello\n"));
    inlined_assert_posted(s, 1, 1);
    inlined_list(s, &x);
    assert_xpath_text(&x, "//s:url/rs:md/@hash",
                      "md5:" HELLO_MD5 " sha-256:" HELLO_SHA256);
    assert_xpath_text(&x, "//s:url/rs:md/@length", "6");
    assert_xpath_text(&x, "//s:url/rs:md/@type", "text/x-hello");
    xpath_close(&x);
}

TEST(the_changes_have_any_form_that_a_post_has)
{
    struct inlined *s = *state;

    static const struct {
        const char *type, *changes;
    } forms[] = {
        {NDJSON, ENTRY(A, "updated") "\n" ENTRY(B, "deleted") "\n"},
        {JSON "; charset=utf-8",
         "[" ENTRY(A, "updated") "," ENTRY(B, "deleted") "]"},
        {XML, "<urlset xmlns='" NS_SITEMAP "' xmlns:rs='" NS_RS "'>"
              "<rs:md capability='changelist'/>"
              "<url><loc>" A "</loc><rs:md change='updated'/></url>"
              "<url><loc>" B "</loc><rs:md change='deleted'/></url></urlset>"},
    };

    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        struct multipart_body m;

        multipart_body_open(&m, forms[i].type, forms[i].changes);
        multipart_body_add(&m, A, NULL, SLICE("hello\n"));
        inlined_send_with(s, &m, NULL);
        inlined_assert_posted(s, 2 * i + 1, 2 * i + 2);
    }
    inlined_assert_kept(s, SLICE("hello\n"));
    inlined_assert_state(s, 6, 1);
}

/* RFC 2387: what curl and others send. */
TEST(type_start_preamble_and_other_headers_are_fine)
{
    struct inlined *s = *state;

    inlined_post_as(
        s, DEMO_CHANGES,
        "multipart/related; boundary=\"a b\"; type=\"application/json\"; "
        "start=\"<root@x>\"",
        NULL,
        SLICE("see below\r\n"
              "--a b\r\n"
              "Content-ID: <root@x>\r\n"
              "Content-Disposition: form-data; name=changes\r\n\r\n" ENTRY(
                  A, "created") "\r\n"
                                "--a b  \r\n"
                                "Content-Location: " A "\r\n"
                                "Content-Transfer-Encoding: binary\r\n\r\n"
                                "hello\n\r\n"
                                "--a b--\r\nand so on"));
    inlined_assert_posted(s, 1, 1);
    inlined_assert_kept(s, SLICE("hello\n"));
}

/* The n-th part of a loc is of its n-th created or updated entry. */
TEST(two_changes_of_one_resource_have_two_contents)
{
    struct inlined *s = *state;
    struct multipart_body m;
    struct xpath x;

    multipart_body_open(&m, NDJSON,
                        ENTRY(A, "created") "\n" ENTRY(B, "created") "\n" ENTRY(
                            A, "deleted") "\n" ENTRY(A, "created") "\n");
    multipart_body_add(&m, A, NULL, SLICE("one"));
    multipart_body_add(&m, A, NULL, SLICE("three"));
    multipart_body_add(&m, B, NULL, SLICE("b"));
    inlined_send_with(s, &m, NULL);
    inlined_assert_posted(s, 1, 4);

    inlined_assert_kept(s, SLICE("one"));
    inlined_assert_kept(s, SLICE("three"));
    inlined_assert_state(s, 4, 3);
    inlined_list(s, &x);
    assert_xpath_text(&x, "//s:url[1]/rs:md/@length", "3");
    assert_xpath_text(&x, "//s:url[2]/rs:md/@length", "1");
    assert_xpath_text(&x, "//s:url[4]/rs:md/@length", "5");
    xpath_close(&x);
}

/* Equal bytes are kept once, and need not come again. */
TEST(bytes_that_are_there_serve_again)
{
    struct inlined *s = *state;
    struct multipart_body m;

    inlined_post_one(s, ENTRY(A, "created"), A, SLICE("hello\n"));
    inlined_assert_posted(s, 1, 1);
    inlined_post_one(s, ENTRY(A, "updated"), A, SLICE("hello\n"));
    inlined_assert_posted(s, 2, 2);
    inlined_post_as(
        s, DEMO_CHANGES, JSON, NULL,
        SLICE(ENTRY_OF(B, "created",
                       "\"hash\":{\"sha-256\":\"" HELLO_SHA256 "\"}")));
    inlined_assert_posted(s, 3, 3);
    multipart_body_open(&m, NDJSON,
                        ENTRY_OF(B, "updated",
                                 "\"hash\":{\"sha-256\":\"" HELLO_SHA256
                                 "\"}") "\n" ENTRY(A, "updated") "\n");
    multipart_body_add(&m, A, NULL, SLICE("new"));
    inlined_send_with(s, &m, NULL);
    inlined_assert_posted(s, 4, 5);

    inlined_assert_state(s, 5, 2);
}

/* what is deleted has no representation. */
TEST(deletions_need_nothing)
{
    struct inlined *s = *state;
    struct multipart_body m;

    inlined_post_as(s, DEMO_CHANGES, JSON, NULL, SLICE(ENTRY(A, "deleted")));
    inlined_assert_posted(s, 1, 1);
    multipart_body_open(&m, JSON, ENTRY(A, "deleted"));
    inlined_send_with(s, &m, NULL);
    inlined_assert_posted(s, 2, 2);
    inlined_assert_state(s, 2, 0);
}

/* Repeats */

TEST(a_key_keeps_repeats_from_being_kept_twice)
{
    struct inlined *s = *state;
    struct multipart_body m;

    for (int i = 0; i < 2; i++) {
        multipart_body_open(&m, JSON, ENTRY(A, "created"));
        multipart_body_add(&m, A, NULL, SLICE("hello\n"));
        inlined_send_with(s, &m, "Idempotency-Key: one");
        inlined_assert_posted(s, 1, 1);
    }
    multipart_body_open(&m, JSON, ENTRY(A, "created"));
    multipart_body_add(&m, A, NULL, SLICE("other"));
    inlined_send_with(s, &m, "Idempotency-Key: one");
    assert_refused(&s->http, 422, "Idempotency-Key");
    assert_int_equal(inlined_last(s), 1);
    multipart_body_open(&m, JSON, ENTRY(A, "created"));
    multipart_body_add(&m, A, NULL, SLICE("hello\n"));
    inlined_send_with(s, &m, "Idempotency-Key: \"\"");
    assert_refused(&s->http, 400, "");
    inlined_assert_kept(s, SLICE("hello\n"));
}

/* The command */

static int
publish(struct inlined *s, struct command *c, const char *kind,
        const char *file, const char *more, const char *value)
{
    char url[100];
    const char *argv[] = {BIN_DIR "/tidings",
                          "publish",
                          url,
                          "--change",
                          kind,
                          "--content",
                          file,
                          A,
                          more,
                          value,
                          NULL};

    snprintf(url, sizeof(url), "%s/sets/demo", s->broker.url);
    command_start(c, argv);
    return command_end(c);
}

TEST(the_command_brings_a_file_along)
{
    struct inlined *s = *state;
    static struct command c;
    struct xpath x;
    char path[400];
    FILE *f;

    snprintf(path, sizeof(path), "%s/hello", s->broker.dir.path);
    f = fopen(path, "wb");
    assert_non_null(f);
    fputs("hello\n", f);
    fclose(f);

    assert_int_equal(
        publish(s, &c, "created", path, "--media-type", "text/plain"), 0);
    assert_string_equal(c.err_text, "");
    inlined_assert_kept(s, SLICE("hello\n"));
    inlined_list(s, &x);
    assert_xpath_text(&x, "//s:url/rs:md/@hash", "sha-256:" HELLO_SHA256);
    assert_xpath_text(&x, "//s:url/rs:md/@type", "text/plain");
    xpath_close(&x);

    assert_int_equal(publish(s, &c, "updated", path, "--length", "5"), 1);
    assert_non_null(strstr(c.err_text, "the content of \"" A "\""));
    assert_int_equal(publish(s, &c, "updated", "/nowhere", NULL, NULL), 1);
    assert_non_null(strstr(c.err_text, "cannot read /nowhere"));
    assert_int_equal(publish(s, &c, "deleted", path, NULL, NULL), 2);
    assert_int_equal(publish(s, &c, "updated", path, B, NULL), 2);
    assert_non_null(strstr(c.err_text, "--content is of one LOC"));
    inlined_assert_state(s, 1, 1);
}
