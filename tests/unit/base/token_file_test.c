/*
 * token_file_test.c - bearer tokens, and the files that have one.
 */
#include "base/token_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/tempdir.h"
#include "tests/test.h"

FIXTURE(tempdir_setup, tempdir_teardown);

static const char secret[] = "td_0123456789ab_s3cr3t";

static const char *
write_file(void **state, const char *text, size_t size, mode_t mode)
{
    static char path[500];
    FILE *file;

    snprintf(path, sizeof(path), "%s/token", tempdir_path(state));
    unlink(path);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, size, file), size);
    fclose(file);
    assert_false(chmod(path, mode));
    return path;
}

/* An end of line behind the token does not count; all else is an error that
 * names the file and no byte of it. */
TEST(a_token_file_is_one_line)
{
    static const struct {
        const char *text;
        const char *token; /* NULL: refused */
        const char *why;
    } rows[] = {
        {"td_0123456789ab_s3cr3t", "td_0123456789ab_s3cr3t"},
        {"td_0123456789ab_s3cr3t\n", "td_0123456789ab_s3cr3t"},
        {"td_0123456789ab_s3cr3t\r\n", "td_0123456789ab_s3cr3t"},
        {"eyJ.eyJ-_~+/.x==\n", "eyJ.eyJ-_~+/.x=="},
        {"", NULL, "there is no token in it"},
        {"\n", NULL, "there is no token in it"},
        {"==", NULL, "there is no token in it"},
        {"s3cr3t\n\n", NULL, "one line, this one has more"},
        {"s3cr3t\ns3cr3t\n", NULL, "one line, this one has more"},
        {" s3cr3t", NULL, "byte 1 is none that a token may have"},
        {"Bearer s3cr3t", NULL, "byte 7 is none"},
        {"s3cr3t\xc3\xa4", NULL, "byte 7 is none"},
        {"s3=cr3t", NULL, "byte 3 is none"},
        {"s3cr3t\r\r\n", NULL, "byte 7 is none"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *path =
            write_file(state, rows[i].text, strlen(rows[i].text), 0600);
        struct token_text token = {.text = "old"};
        struct problem why = {.text = ""};
        enum status rc = token_file_read(path, false, &token, &why);

        if (rows[i].token) {
            assert_int_equal(rc, STATUS_OK);
            assert_string_equal(token.text, rows[i].token);
            assert_true(token.is_regular);
            continue;
        }
        assert_int_equal(rc, STATUS_INVALID);
        assert_string_equal(token.text, "old");
        assert_non_null(strstr(why.text, rows[i].why));
        assert_non_null(strstr(why.text, path));
        assert_null(strstr(why.text, "s3"));
    }
}

TEST(a_token_has_at_most_8192_bytes)
{
    char text[TOKEN_MAX + 4];
    struct problem why = {.text = ""};
    struct token_text token;

    memset(text, 'x', sizeof(text));
    text[TOKEN_MAX] = '\r';
    text[TOKEN_MAX + 1] = '\n';
    assert_int_equal(
        token_file_read(write_file(state, text, TOKEN_MAX + 2, 0600), false,
                        &token, &why),
        STATUS_OK);
    assert_int_equal(strlen(token.text), TOKEN_MAX);
    text[TOKEN_MAX] = text[TOKEN_MAX + 1] = 'x';
    for (size_t size = TOKEN_MAX + 1; size <= sizeof(text); size++) {
        const char *path = write_file(state, text, size, 0600);

        assert_int_equal(token_file_read(path, false, &token, &why),
                         STATUS_INVALID);
    }
    assert_non_null(strstr(why.text, "longer than 8192 bytes"));
}

/* A NUL would cut the token off. */
TEST(a_token_has_no_nul)
{
    struct problem why = {.text = ""};
    struct token_text token;

    assert_int_equal(token_file_read(write_file(state, "abc\0def", 7, 0600),
                                     false, &token, &why),
                     STATUS_INVALID);
    assert_non_null(strstr(why.text, "byte 4 is none"));
}

/* As ssh does with a private key; a file of somebody else's is theirs to
 * judge (another user's is not made here: that needs root). */
TEST(others_must_not_reach_it)
{
    static const mode_t modes[] = {0640, 0604, 0644, 0620, 0601};

    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        const char *path = write_file(state, secret, strlen(secret), modes[i]);
        struct problem why = {.text = ""};
        struct token_text token;

        assert_int_equal(token_file_read(path, false, &token, &why), STATUS_IO);
        assert_non_null(strstr(why.text, "chmod 600"));
        assert_null(strstr(why.text, "s3cr3t"));
    }
}

TEST(a_file_that_is_missing_is_named)
{
    struct problem why = {.text = ""};
    struct token_text token;

    assert_int_equal(
        token_file_read("/proc/nowhere/token", false, &token, &why), STATUS_IO);
    assert_string_equal(why.text,
                        "cannot read the token file /proc/nowhere/token: "
                        "No such file or directory");
}

/* --token-file <(pass show tidings): read once, never again. */
TEST(a_pipe_is_read_once)
{
    char path[60];
    struct problem why = {.text = ""};
    struct token_text token;
    int ends[2];

    assert_false(pipe(ends));
    assert_int_equal(write(ends[1], "abc\n", 4), 4);
    close(ends[1]);
    snprintf(path, sizeof(path), "/dev/fd/%d", ends[0]);
    assert_int_equal(token_file_read(path, false, &token, &why), STATUS_OK);
    assert_string_equal(token.text, "abc");
    assert_false(token.is_regular);
    assert_int_equal(token_file_read(path, true, &token, &why), STATUS_IO);
    close(ends[0]);
}
