#include "broker/sets/framework_events.h"

#include <stdio.h>
#include <string.h>

#include "broker/readers/message.h"
#include "broker/sets/set_change.h"
#include "tests/support/channel.h"
#include "tests/support/posts.h"
#include "tests/support/set_changes.h"
#include "tests/test.h"
#include "tests/unit/sets/stage.h"

#define LIST(number) "/sets/demo/changes/00000000000" #number ".xml"
#define INDEX        " < /sets/demo/changelist.xml\n"
#define ARCHIVE      "/sets/demo/changelist-archive.xml"
#define PART(from, to)                                                   \
    "/sets/demo/changelist-archive/00000000000" #from "-00000000000" #to \
    ".xml < /sets/demo/changelist-archive.xml\n"
#define CAPABILITIES   "capabilitylist /sets/demo/capabilitylist.xml\n"
#define SOURCE_UPDATED "updated description /.well-known/resourcesync\n"

static struct set *demo;
static uint64_t before; /* the last event that a test has looked at */

static int
configure(void **state)
{
    if (stage_configure(state))
        return -1;
    s.config.rotate_entries = 1000;
    s.config.index_lists = 1000;
    s.config.remove_grace_us = 0;
    before = 0;
    return 0;
}

static int
set_up(void **state)
{
    if (configure(state))
        return -1;
    sets_open(&s);
    return 0;
}

static void
look(void)
{
    before = channel_last(&s);
}

/* The channel of `demo` has exactly `lines` since the last look; looks. */
#define assert_told(lines)                       \
    do {                                         \
        assert_channel(&s, demo, before, lines); \
        look();                                  \
    } while (0)

FIXTURE(set_up, stage_close);

/* the channel of a new set announces it, and every channel
 * announces the changed Source Description. */
TEST(a_new_set_is_told_to_itself_and_the_source_to_all)
{
    struct set *other;

    demo = sets_post(&s, "demo", 1, 3);
    assert_told("created " CAPABILITIES SOURCE_UPDATED);
    other = sets_post(&s, "other", 1, 3);
    assert_channel(&s, other, before,
                   "created capabilitylist "
                   "/sets/other/capabilitylist.xml\n" SOURCE_UPDATED);
    assert_told(SOURCE_UPDATED);
    sets_post(&s, "demo", 4, 3);
    assert_int_equal(channel_last(&s), before); /* changes are no news */
}

/* one payload for a rotation; with the first one
 * the archive begins, and the Capability List names it. */
TEST(a_rotation_tells_of_both_lists_and_the_archive)
{
    demo = sets_post(&s, "demo", 1, 3);
    look();
    sets_rotate(&s, "demo");
    assert_told("updated changelist " LIST(1) INDEX
                "created changelist " LIST(2) INDEX
                "created changelist-archive " ARCHIVE "\n"
                "updated " CAPABILITIES);
    sets_post(&s, "demo", 4, 1);
    look();
    sets_rotate(&s, "demo");
    assert_told("updated changelist " LIST(2) INDEX "created changelist " LIST(
        3) INDEX "updated changelist-archive " ARCHIVE "\n");
}

/* Lists that begin and end in one commit are announced once. */
TEST(a_post_that_fills_several_lists_tells_each_once, configure, stage_close)
{
    s.config.rotate_entries = 2;
    sets_open(&s);
    demo = sets_post(&s, "demo", 1, 1);
    look();
    sets_post(&s, "demo", 2, 6);
    assert_told(
        "updated changelist " LIST(1) INDEX "created changelist " LIST(2) INDEX
        "created changelist " LIST(3) INDEX "created changelist " LIST(4) INDEX
        "created changelist-archive " ARCHIVE "\n"
        "updated " CAPABILITIES);
}

/* if the archive has an index, its parts are announced, under it. */
TEST(a_long_archive_is_told_by_its_parts, configure, stage_close)
{
    s.config.rotate_entries = 1;
    s.config.index_lists = 2;
    sets_open(&s);
    demo = sets_post(&s, "demo", 1, 2);
    look();
    sets_post(&s, "demo", 3, 1); /* the third: there is an index now */
    assert_told("updated changelist " LIST(3) INDEX
                "created changelist " LIST(4) INDEX
                "created changelist-archive " PART(
                    1, 2) "created changelist-archive " PART(3, 4));
    sets_post(&s, "demo", 4, 1);
    assert_told("updated changelist " LIST(4) INDEX "created changelist " LIST(
        5) INDEX "updated changelist-archive " PART(3, 4));
    sets_post(&s, "demo", 5, 1);
    assert_told("updated changelist " LIST(5) INDEX "created changelist " LIST(
        6) INDEX "created changelist-archive " PART(5, 6));
}

/* Lets go of the `n` oldest lists. */
static void
retire(size_t n)
{
    struct head head = sets_head(&s, "demo");
    struct log_set *set = sets_find(&s, "demo")->log;
    struct list_info lists[8];

    sets_file_all(&s);
    assert_int_equal(
        log_lists(s.registry->log, set, head.first_list, lists, &n, NULL),
        STATUS_OK);
    assert_int_equal(log_retire(s.registry->log, set, lists, n, 0, NULL),
                     STATUS_OK);
}

/* the document that named a deleted list is announced as
 * changed. */
TEST(lists_that_go_are_told_by_the_archive, configure, stage_close)
{
    s.config.rotate_entries = 1;
    s.config.index_lists = 3;
    sets_open(&s);
    demo = sets_post(&s, "demo", 1, 5);
    look();
    retire(1); /* four are left: two parts */
    assert_told("updated changelist-archive " PART(1, 3));
    retire(1);
    assert_told("updated changelist-archive " ARCHIVE "\n");
    retire(3);
    assert_told("updated " CAPABILITIES);
    sets_post(&s, "demo", 6, 1);
    assert_told("updated changelist " LIST(6) INDEX
                "created changelist " LIST(7) INDEX
                "created changelist-archive " ARCHIVE "\n"
                "updated " CAPABILITIES);
}

/* Switches to generation `number` of a kind. */
static void
switch_to(enum generation_kind kind, uint64_t number, bool is_archived)
{
    const struct act act = {
        .kind = ACT_GENERATION,
        .generation.build = {.kind = kind,
                             .number = number,
                             .seq = 1,
                             .n = 1,
                             .parts = 1,
                             .is_archived = is_archived},
    };
    struct problem why = {""};

    if (log_act(s.registry->log, demo->log, &act, 0, &why))
        fail_msg("%s", why.text);
}

/* Lets go of the `n` oldest of an archive. */
static void
unarchive(enum generation_kind kind, size_t n)
{
    struct act act = {.kind = ACT_UNARCHIVED,
                      .unarchived = {.kind = kind, .n = n}};
    struct generation all[8];
    struct generation_page page = {kind, 1, all, 8};
    struct log *log = s.registry->log;

    assert_int_equal(log_generations(log, demo->log, &page, NULL), STATUS_OK);
    assert_in_range(n, 1, page.n - 1);
    act.unarchived.from = all[0].number;
    act.unarchived.first_archived = all[n].number;
    assert_int_equal(log_act(log, demo->log, &act, 0, NULL), STATUS_OK);
}

#define GENERATION(folder, number) \
    folder " /sets/demo/" folder "/00000000000" #number ".xml\n"
#define GENERATIONS(folder) \
    folder "-archive /sets/demo/" folder "-archive.xml\n"
#define GENERATIONS_PART(folder, from, to)                            \
    folder "-archive /sets/demo/" folder "-archive/00000000000" #from \
           "-00000000000" #to ".xml < /sets/demo/" folder "-archive.xml\n"

/* a Resource Dump begins under an address of its own, which no other one
 * gets; a Resource List is updated where it is. */
TEST(each_resource_dump_is_created_under_its_own_address)
{
    demo = sets_post(&s, "demo", 1, 1);
    look();
    switch_to(GENERATION_RESOURCEDUMP, 1, false);
    assert_told(
        "created " GENERATION("resourcedump", 1) "updated " CAPABILITIES);
    switch_to(GENERATION_RESOURCEDUMP, 2, false);
    assert_told("created " GENERATION("resourcedump", 2));
    switch_to(GENERATION_RESOURCELIST, 1, false);
    assert_told("created resourcelist /sets/demo/resourcelist.xml\n"
                "updated " CAPABILITIES);
    switch_to(GENERATION_RESOURCELIST, 2, false);
    assert_told("updated resourcelist /sets/demo/resourcelist.xml\n");
}

/* if the archive of lists or dumps has an index, its parts are
 * announced, under it: with two generations a part, those that have any. */
TEST(a_long_archive_of_generations_is_told_by_its_parts, configure, stage_close)
{
#define LIST_UPDATED "updated resourcelist /sets/demo/resourcelist.xml\n"
    enum generation_kind kind = GENERATION_RESOURCELIST;

    s.config.index_lists = 2;
    sets_open(&s);
    demo = sets_post(&s, "demo", 1, 1);
    switch_to(kind, 1, true);
    look();
    switch_to(kind, 2, true);
    assert_told(LIST_UPDATED "updated " GENERATIONS("resourcelist"));
    switch_to(kind, 3, false);
    switch_to(kind, 4, false);
    switch_to(kind, 5, false);
    look();
    switch_to(kind, 6, true); /* the third: there is an index now */
    assert_told(LIST_UPDATED "created " GENERATIONS_PART(
        "resourcelist", 1, 2) "created " GENERATIONS_PART("resourcelist", 5,
                                                          6));
    switch_to(kind, 7, true);
    assert_told(LIST_UPDATED "created " GENERATIONS_PART("resourcelist", 7, 8));
    switch_to(kind, 8, true);
    assert_told(LIST_UPDATED "updated " GENERATIONS_PART("resourcelist", 7, 8));
    unarchive(kind, 1); /* 2, 6, 7 and 8 are left */
    assert_told("updated " GENERATIONS_PART("resourcelist", 1, 2));
    unarchive(kind,
              1); /* 6, 7 and 8: of the part that begins with 5, none went */
    assert_told("");
    unarchive(kind, 1);
    assert_told("updated " GENERATIONS("resourcelist"));
}

/* the same holds for the archives of dumps. */
TEST(archives_of_dumps_are_told_by_their_parts, configure, stage_close)
{
    s.config.index_lists = 1;
    sets_open(&s);
    demo = sets_post(&s, "demo", 1, 1);
    switch_to(GENERATION_RESOURCEDUMP, 1, true);
    switch_to(GENERATION_CHANGEDUMP, 1, true);
    look();
    switch_to(GENERATION_RESOURCEDUMP, 2, true);
    assert_told(
        "created " GENERATION("resourcedump", 2) "created " GENERATIONS_PART(
            "resourcedump", 1, 1) "created " GENERATIONS_PART("resourcedump", 2,
                                                              2));
    switch_to(GENERATION_CHANGEDUMP, 2, true);
    assert_told("created changedump /sets/demo/changedump/000000000002.xml"
                " < /sets/demo/changedump.xml\n"
                "created " GENERATIONS_PART(
                    "changedump", 1,
                    1) "created " GENERATIONS_PART("changedump", 2, 2));
}

/* settings are announced if they change a document. */
TEST(settings_are_told_if_documents_say_otherwise)
{
    set_changes_put(&s, "demo", "{\"description\":\"http://example.org/a\"}");
    demo = sets_find(&s, "demo");
    assert_told("created " CAPABILITIES SOURCE_UPDATED);
    set_changes_put(&s, "demo",
                    "{\"description\":\"http://example.org/a\","
                    "\"title\":\"A\",\"retainLists\":7}");
    assert_int_equal(channel_last(&s), before);
    set_changes_put(&s, "demo", "{\"description\":\"http://example.org/b\"}");
    assert_told("updated " CAPABILITIES SOURCE_UPDATED);
    set_changes_put(&s, "demo", "");
    assert_told("updated " CAPABILITIES SOURCE_UPDATED);
}

/* an end is announced, too; subscribers of the channel get it
 * although the set is gone, and also the set that is made again. */
TEST(a_set_that_ends_is_told_on_its_own_channel)
{
    demo = sets_post(&s, "demo", 1, 3);
    look();
    set_changes_remove(&s, "demo");
    assert_told("deleted " CAPABILITIES SOURCE_UPDATED);
    sets_post(&s, "demo", 1, 1);
    assert_told("created " CAPABILITIES SOURCE_UPDATED);
}

#define DESCRIPTION(from, to)                                        \
    "description /descriptions/00000000000" #from "-00000000000" #to \
    ".xml < /.well-known/resourcesync\n"

#define DESCRIPTION_9                                         \
    "description /descriptions/000000000009-000000000010.xml" \
    " < /.well-known/resourcesync\n"

/* an index itself is not announced; its parts begin,
 * change and end. */
TEST(a_source_with_an_index_is_told_by_its_parts, stage_configure, stage_close)
{
    s.config.description_sets = 2;
    sets_open(&s);
    demo = sets_post(&s, "demo", 1, 1); /* number 2: 1 is the channel's */
    look();
    sets_post(&s, "b", 1, 1);
    assert_told(SOURCE_UPDATED);
    sets_post(&s, "c", 1, 1);
    assert_told("created " DESCRIPTION(1, 2) "created " DESCRIPTION(3, 4));
    sets_post(&s, "d", 1, 1);
    assert_told("created " DESCRIPTION(5, 6));
    set_changes_remove(&s, "c");
    set_changes_remove(&s, "d");
    assert_told("updated " DESCRIPTION(3, 4) SOURCE_UPDATED);
}

/* there is no set left in it; then there is one again. */
TEST(a_part_of_the_source_ends_and_begins_again, stage_configure, stage_close)
{
    s.config.description_sets = 2;
    sets_open(&s);
    demo = sets_post(&s, "demo", 1, 1);
    sets_post(&s, "b", 1, 1);
    sets_post(&s, "c", 1, 1);
    sets_post(&s, "d", 1, 1);
    look();
    set_changes_remove(&s, "d");
    assert_told("deleted " DESCRIPTION(5, 6));
    sets_post(&s, "d", 1, 1);
    assert_told("created " DESCRIPTION(5, 6));
    sets_post(&s, "e", 1, 1);
    set_changes_remove(&s, "e");
    sets_post(&s, "e", 1, 1);
    sets_post(&s, "f", 1, 1);
    assert_told("created " DESCRIPTION(7, 8) "deleted " DESCRIPTION(
        7, 8) "created " DESCRIPTION(7, 8) "created " DESCRIPTION_9);
    set_changes_put(&s, "b", "{\"description\":\"http://example.org/b\"}");
    assert_told("updated " DESCRIPTION(3, 4));

    /* Compared with the last announcement, in any process. */
    stage_restart();
    demo = sets_find(&s, "demo");
    look();
    sets_post(&s, "g", 1, 1);
    set_changes_remove(&s, "f");
    assert_told("updated " DESCRIPTION_9 "updated " DESCRIPTION_9);
}

/* In one transaction with the fact: after any end the event is there, and
 * once. */
TEST(what_was_told_is_told_once_whatever_process_reads)
{
    const char *lines =
        "created " CAPABILITIES SOURCE_UPDATED "updated changelist " LIST(1)
            INDEX "created changelist " LIST(2) INDEX
        "created changelist-archive " ARCHIVE "\n"
        "updated " CAPABILITIES;
    struct head head, then;

    demo = sets_post(&s, "demo", 1, 3);
    sets_rotate(&s, "demo");
    assert_channel(&s, demo, 0, lines);
    log_head(s.registry->framework->log, &head);
    for (int i = 0; i < 2; i++) {
        stage_restart();
        demo = sets_find(&s, "demo");
        assert_int_equal(framework_event_last(demo), 0); /* nobody has looked */
        assert_channel(&s, demo, 0, lines);
        log_head(s.registry->framework->log, &then);
        assert_string_equal(then.epoch, head.epoch);
        assert_memory_equal(&then.digest, &head.digest, sizeof(head.digest));
    }
}

static bool
note_name(struct set *set, const struct head *head, void *user)
{
    char *names = user;

    (void)head;
    strcat(names, set->name);
    return true;
}

/* It is kept as a set is, and none. */
TEST(the_framework_log_is_no_set)
{
    char names[200] = "";
    struct set *page[4];
    struct head heads[4];
    size_t n = 4;

    sets_post(&s, "demo", 1, 1);
    for (int i = 0; i < 2; i++) {
        assert_true(channel_last(&s) > 0);
        assert_null(registry_find(s.registry, SLICE("_framework"), NULL));
        names[0] = '\0';
        registry_each(s.registry, note_name, names);
        assert_string_equal(names, "demo");
        n = 4;
        assert_false(
            registry_page(s.registry, SLICE(""), NULL, page, heads, &n));
        assert_int_equal(n, 1);
        stage_restart();
    }
}

/* Its lists end by number, under any options, without an announcement. */
TEST(the_framework_log_ends_lists_of_its_own, configure, stage_close)
{
    struct event event = {
        .change = CHANGE_UPDATED,
        .capability = CAP_DESCRIPTION,
        .loc = SLICE(SETS_URL "/"),
    };
    struct head head;

    s.config.rotate_entries = 3;
    sets_open(&s);
    channel_add(&s, &event, 10001);
    assert_int_equal(channel_last(&s), 10001);
    log_head(s.registry->framework->log, &head);
    assert_int_equal(head.list, 2);
    assert_int_equal(head.list_after, 10000);
    stage_restart();
    channel_add(&s, &event, 9999);
    assert_int_equal(channel_last(&s), 20000);
    log_head(s.registry->framework->log, &head);
    assert_int_equal(head.list, 3);
}
