/*
 * What yajl said of many texts (tests/fuzz/json_verdicts.txt), the parser says,
 * too.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/buf.h"
#include "proto/fnv1a.h"
#include "proto/json/json_parse.h"
#include "tests/places.h"
#include "tests/support/tar.h"
#include "tests/test.h"

#define FUZZ_DIR SPEC_DIR "/../fuzz/"
#define MANY     4096

struct verdicts {
    uint64_t texts[MANY];
    uint64_t tokens[MANY]; /* 0: refused */
    bool is_seen[MANY];
    size_t n, n_seen;
};

static void
read_verdicts(struct verdicts *verdicts)
{
    FILE *file = fopen(FUZZ_DIR "json_verdicts.txt", "r");
    char line[200], tokens[32];

    assert_non_null(file);
    while (fgets(line, sizeof(line), file)) {
        size_t i = verdicts->n;

        if (line[0] == '#')
            continue;
        assert_in_range(i, 0, MANY - 1);
        assert_int_equal(
            sscanf(line, "%" SCNx64 " %31s", &verdicts->texts[i], tokens), 2);
        verdicts->tokens[i] =
            strcmp(tokens, "refused") ? strtoull(tokens, NULL, 16) : 0;
        verdicts->n++;
    }
    fclose(file);
}

static enum status
add_token(void *user, enum json_event event, struct slice text,
          struct problem *why)
{
    (void)why;
    buf_add_format(user, "%d:", (int)event);
    buf_add_slice(user, text);
    BUF_ADD((struct buf *)user, "\n");
    return STATUS_OK;
}

/* Texts that came later have no verdict. */
static void
check_text(struct verdicts *verdicts, struct slice text)
{
    uint64_t name = fnv1a(FNV1A_BEGIN, text);
    struct problem why = {""};
    struct buf tokens;

    buf_init(&tokens, 1 << 22);
    for (size_t i = 0; i < verdicts->n; i++) {
        enum status rc;

        if (verdicts->texts[i] != name || verdicts->is_seen[i])
            continue;
        verdicts->is_seen[i] = true;
        verdicts->n_seen++;
        rc = json_parse_text(text, add_token, &tokens, &why);
        if (!rc != (verdicts->tokens[i] != 0) ||
            (!rc &&
             fnv1a(FNV1A_BEGIN, buf_slice(&tokens)) != verdicts->tokens[i]))
            fail_msg("%016" PRIx64 ": %s: %.*s", name, why.text,
                     SLICE_ARG(text));
    }
    buf_fini(&tokens);
}

static void
check_member(void *user, const char *name, struct slice bytes)
{
    (void)name;
    check_text(user, bytes);
}

static void
check_lines(void *user, const char *name, struct slice bytes)
{
    check_member(user, name, bytes);
    while (bytes.size > 0)
        check_text(user, slice_take(&bytes, '\n'));
}

TEST(says_what_yajl_said)
{
    static struct verdicts verdicts;

    read_verdicts(&verdicts);
    tar_each(FUZZ_DIR "inputs/json_parse.tar", check_member, &verdicts);
    tar_each(FUZZ_DIR "inputs/json_read.tar", check_member, &verdicts);
    tar_each(FUZZ_DIR "inputs/ndjson_read.tar", check_lines, &verdicts);
    check_text(&verdicts, SLICE(""));
    assert_int_equal(verdicts.n_seen, verdicts.n);
}
