#include <stdio.h>
#include <string.h>

#include "proto/datetime.h"
#include "proto/resourcesync/digest.h"
#include "tests/clock.h"
#include "tests/support/bodies.h"
#include "tests/support/dumping.h"
#include "tests/support/set_changes.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

#define MINUTE ((int64_t)60 * 1000000)
#define LOC    "http://example.com/r/1.txt"

static struct dumping d;
static int64_t begin_us; /* the whole second of the first version */

/* The versions of LOC, a minute after one another: 1, 2, deleted, and again the
 * bytes of 1, at once 4, and 5. Another resource has the bytes of 1, too. */
static int
set_up(void **state)
{
    static const struct {
        unsigned minute, resource;
        const char *text; /* NULL: deleted */
    } steps[] = {
        {0, 1, "one"}, {0, 2, "one"},  {1, 1, "two"},  {2, 1, NULL},
        {3, 1, "one"}, {3, 1, "four"}, {4, 1, "five"},
    };

    unsigned minute = 0;

    if (tempdir_setup(state))
        return -1;
    dumping_open(&d, state);
    begin_us = clock_day_us() / 1000000 * 1000000;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        if (steps[i].minute > minute)
            clock_pass_us(MINUTE);
        minute = steps[i].minute;
        dumping_post(&d, steps[i].resource,
                     steps[i].text ? "updated" : "deleted", steps[i].text);
    }
    return 0;
}

static int
tear_down(void **state)
{
    dumping_end(&d);
    return tempdir_teardown(state);
}

FIXTURE(set_up, tear_down);

/* Opens a document of a set; `rest` is the end of its path. */
static enum status
try_open(document_open_fn *open, const char *rest, enum memento_form form,
         int64_t at_us, struct document *document)
{
    const struct document_wish wish = {
        .registry = d.sets.registry,
        .set = sets_find(&d.sets, "demo"),
        .head = sets_head(&d.sets, "demo"),
        .patience = LOG_DISK,
        .rest = slice_of(rest),
        .memento = form,
        .at_us = at_us,
    };
    struct problem why = {""};

    memset(document, 0, sizeof(*document));
    return open(&wish, document, &why);
}

/* The address of the version `seq` with these bytes. */
static const char *
address_of(const char *text, unsigned seq)
{
    static char address[300];
    struct digest digest;

    digest_sha256(&digest, slice_of(text));
    snprintf(address, sizeof(address), "%scontent/%s?seq=%u", DUMPING_DEMO,
             digest_text(&digest).text + sizeof("sha-256:") - 1, seq);
    return address;
}

static void
check_gate(int64_t at_us, const char *text, unsigned seq)
{
    struct document document;

    assert_int_equal(
        try_open(timemap_open, LOC, MEMENTO_GATE, at_us, &document), STATUS_OK);
    assert_null(document.body);
    assert_string_equal(document.lasting, address_of(text, seq));
    document_close(&document);
}

/* RFC 7089, sections 4.1 and 4.5: the version of a time. */
static void
check_times(void)
{
    static const struct {
        int64_t after_us; /* the first version */
        const char *text;
        unsigned seq;
    } rows[] = {
        {-MINUTE, "one", 1},                 /* before the first: that one */
        {0, "one", 1},                       /* exactly */
        {MINUTE / 2, "one", 1},              /* between two */
        {MINUTE, "two", 3},                  /* exactly */
        {2 * MINUTE, "two", 3},              /* it is deleted just then */
        {2 * MINUTE + MINUTE / 2, "two", 3}, /* it is deleted */
        {3 * MINUTE, "four", 6},             /* the last of that second */
        {3 * MINUTE - 1000000, "two", 3},
        {4 * MINUTE, "five", 7},
        {1000 * MINUTE, "five", 7}, /* after the last */
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        check_gate(begin_us + rows[i].after_us, rows[i].text, rows[i].seq);
    check_gate(DATETIME_NONE, "five", 7); /* no time: the newest */
}

/* By entries that are not folded, by rows, and by both. */
TEST(finds_the_version_of_a_time)
{
    check_times();
    dumping_work(&d);
    check_times();
    dumping_post(&d, 1, "updated", "six");
    check_gate(begin_us + 4 * MINUTE, "five", 7);
    check_gate(DATETIME_NONE, "six", 8);
}

/* The archive thread makes the file before its tables. */
TEST(finds_it_in_the_log_while_the_rows_are_made)
{
    tempdir_write(tempdir_fd(state), "sets/demo/content.db", "");
    check_times();
    dumping_work(&d);
    check_times();
}

static void
check_text(const char *rest, enum memento_form form, const char *part)
{
    struct buf text = {.max = SIZE_MAX};
    struct document document;

    assert_int_equal(
        try_open(timemap_open, rest, form, DATETIME_NONE, &document),
        STATUS_OK);
    bodies_read(document.body, &text);
    document.body = NULL;
    document_close(&document);
    if (!slice_find(buf_slice(&text), part))
        fail_msg("no %s in %.*s", part, (int)text.size, text.data);
    buf_fini(&text);
}

/* The first and the last have relations of their own; bytes that come twice are
 * two versions. */
TEST(lists_all_versions)
{
    char part[600];
    char date[HTTPDATE_SIZE];

    for (int i = 0; i < 2; i++) {
        httpdate_write(date, begin_us / 1000000);
        snprintf(part, sizeof(part),
                 ", <%s>; rel=\"first memento\"; datetime=\"%s\", ",
                 address_of("one", 1), date);
        check_text(LOC, MEMENTO_LINKS, part);
        httpdate_write(date, (begin_us + 3 * MINUTE) / 1000000);
        snprintf(part, sizeof(part),
                 ", <%s>; rel=\"memento\"; datetime=\"%s\", ",
                 address_of("one", 5), date);
        check_text(LOC, MEMENTO_LINKS, part);
        snprintf(part, sizeof(part), "<%s>; rel=\"last memento\"; ",
                 address_of("five", 7));
        check_text(LOC, MEMENTO_LINKS, part);
        snprintf(part, sizeof(part), "<%s>; rel=\"first last memento\"; ",
                 address_of("one", 2));
        check_text("http://example.com/r/2.txt", MEMENTO_LINKS, part);
        snprintf(part, sizeof(part), "\"uri\":\"%s\"}]}}\n",
                 address_of("five", 7));
        check_text(LOC, MEMENTO_JSON, part);
        dumping_work(&d);
    }
}

/* The status of bytes, by the end of their address. */
static enum status
status_of(const char *text, const char *query)
{
    struct digest digest;
    struct document document;
    char rest[200];
    enum status rc;

    digest_sha256(&digest, slice_of(text));
    snprintf(rest, sizeof(rest), "%s%s",
             digest_text(&digest).text + sizeof("sha-256:") - 1, query);
    rc = try_open(content_open, rest, MEMENTO_LINKS, 0, &document);
    if (!rc)
        document_close(&document);
    return rc;
}

TEST(knows_what_it_keeps_and_what_it_kept)
{
    struct document document;

    for (int i = 0; i < 2; i++) {
        assert_int_equal(status_of("two", ""), STATUS_OK);
        assert_int_equal(status_of("one", ""), STATUS_OK);
        assert_int_equal(status_of("one", "?seq=2"), STATUS_OK);
        assert_int_equal(status_of("one", "?seq=5"), STATUS_OK);
        assert_int_equal(status_of("one", "?seq=3"), STATUS_NOT_FOUND);
        assert_int_equal(status_of("one", "?seq=99"), STATUS_NOT_FOUND);
        assert_int_equal(status_of("one", "?seq=x"), STATUS_NOT_FOUND);
        assert_int_equal(status_of("never", ""), STATUS_NOT_FOUND);
        dumping_work(&d);
    }
    /* Retention takes the entries, and with them the bytes that no current
     * version has. */
    set_changes_put(&d.sets, "demo",
                    "{\"content\":\"inline\",\"retainLists\":1}");
    sets_rotate(&d.sets, "demo");
    dumping_post(&d, 2, "updated", "one");
    sets_rotate(&d.sets, "demo");
    sets_file_all(&d.sets);
    for (int i = 0; i < 3; i++) {
        dumping_work(&d);
        sets_retain(&d.sets);
    }
    dumping_work(&d);
    assert_int_equal(status_of("two", ""), STATUS_GONE);
    assert_int_equal(status_of("four", ""), STATUS_GONE);
    assert_int_equal(status_of("one", ""), STATUS_OK);
    assert_int_equal(status_of("five", ""), STATUS_OK);
    check_gate(begin_us, "five", 7);
    set_changes_put(&d.sets, "demo", "{\"content\":\"none\"}");
    assert_int_equal(status_of("five", ""), STATUS_NOT_FOUND);
    assert_int_equal(try_open(timemap_open, LOC, MEMENTO_LINKS, 0, &document),
                     STATUS_NOT_FOUND);
}
