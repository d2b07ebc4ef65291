#include "client/cli/input_check.h"

#include "proto/resourcesync/fragment.h"
#include "proto/resourcesync/json.h"

/* Most bytes of the rewritten changes: an escape takes at most six. */
#define CHANGES_MAX ((size_t)6 << 30)

static void
on_entry_fault(const struct problem *why, void *user)
{
    struct input_check *check = user;

    check->n_faults++;
    check->on_fault(why, check->user);
}

/* The broker refuses an entry that it cannot write as a fragment. */
static enum status
on_change(const struct change *change, void *user, struct problem *why)
{
    struct input_check *check = user;
    struct fragment fragment;
    enum status rc;

    buf_clear(&check->fragment);
    rc = fragment_write(&check->fragment, change, &fragment, why);
    if (rc)
        return rc;
    check->n_changes++;
    if (!check->ignores_unknown)
        return STATUS_OK;
    if (check->changes.size > 0)
        BUF_ADD(&check->changes, ",\n");
    json_change(&check->changes, change);
    return check->changes.failed ? problem_memory(why) : STATUS_OK;
}

bool
input_check_open(struct input_check *check, const char *type)
{
    const struct format *format = format_of(slice_of(type));

    buf_init(&check->fragment, SIZE_MAX);
    buf_init(&check->changes, CHANGES_MAX);
    check->reader = input_reader_new(
        format, INPUT_POST, format_entries_max(format), on_change, check);
    return check->reader != NULL;
}

void
input_check_close(struct input_check *check)
{
    input_reader_free(check->reader);
    check->reader = NULL;
    buf_fini(&check->fragment);
    buf_fini(&check->changes);
}

bool
input_check_read(struct input_check *check, struct slice document)
{
    struct problem why = {""};
    uint64_t n_faults = check->n_faults;
    enum status rc;

    input_reader_reset(check->reader, on_change, check);
    buf_clear(&check->changes);
    check->reader->options = (struct input_options){
        .ignores_unknown = check->ignores_unknown,
        .on_fault = on_entry_fault,
        .fault_user = check,
    };

    rc = input_reader_feed(check->reader, document, &why);
    if (!rc)
        rc = input_reader_end(check->reader, &why);
    if (rc)
        on_entry_fault(&why, check);
    return check->n_faults == n_faults;
}
