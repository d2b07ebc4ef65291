#include <stdlib.h>

#include "client/follow/broker_message.h"
#include "client/follow/change_batch.h"
#include "client/harvest/harvest_entry.h"
#include "client/lib/json_slices.h"
#include "proto/buf.h"
#include "proto/resourcesync/fragment.h"
#include "tests/fuzz/fuzz.h"

static uint64_t n_dropped;

static const struct harvest_rules rules = {.source = "0123456789abcdef",
                                           .target = "fedcba9876543210",
                                           .n_dropped = &n_dropped};

static enum status
check_same(const struct change *change, void *user, struct problem *why)
{
    const struct td_change *told = user;

    (void)why;
    FUZZ_ASSERT(slice_is(change->loc, told->loc));
    FUZZ_ASSERT(!strcmp(change_kind_names[change->kind], told->change));
    return STATUS_OK;
}

/* Would a broker take it as a post, seqs and times of another log aside? */
static bool
is_taken(struct slice post, const struct td_change *told)
{
    struct input_reader *reader =
        input_reader_new(format_of(SLICE("application/json")), INPUT_POST, 1,
                         check_same, (void *)told);
    bool is_taken;

    FUZZ_ASSERT(reader);
    reader->options.takes_message = true;
    is_taken = !input_reader_feed(reader, post, NULL) &&
               !input_reader_end(reader, NULL);
    input_reader_free(reader);
    return is_taken;
}

/* The caller frees post->data. */
static enum harvest_verdict
harvest(struct slice *post, struct slice text, const struct harvest_rules *how)
{
    struct buf to;
    enum harvest_verdict verdict;

    buf_init(&to, SIZE_MAX / 2);
    verdict = harvest_entry(&to, "[", text, how);
    if (verdict == HARVEST_WRITTEN)
        BUF_ADD(&to, "]\n");
    FUZZ_ASSERT(!to.failed);
    *post = buf_slice(&to);
    return verdict;
}

/* A change that one broker sends and another one accepts is also accepted when
 * relayed: the same change, with the log of its origin in its path. */
static void
check_harvested(const struct td_change *told)
{
    struct harvest_rules back = {.source = rules.target,
                                 .target = rules.source,
                                 .n_dropped = &n_dropped};
    struct slice text = {told->text, told->text_size};
    struct slice post, again, rest, entry, none;
    enum harvest_verdict verdict = harvest(&post, text, &rules);

    if (verdict == HARVEST_WRITTEN) {
        FUZZ_ASSERT(is_taken(post, told) || !is_taken(text, told));
        rest = post;
        FUZZ_ASSERT(json_slices_element(&rest, &entry));
        FUZZ_ASSERT(!json_slices_element(&rest, &none));
        FUZZ_ASSERT(harvest_is_same(entry, entry));
        FUZZ_ASSERT(harvest(&again, entry, &back) == HARVEST_RING);
        FUZZ_ASSERT(again.size == 0);
        free((char *)again.data);
    } else {
        FUZZ_ASSERT(post.size == 0);
    }
    free((char *)post.data);
}

/* The lines stand in order, do not overlap, and each is a change. */
static void
check_lines(const struct broker_message *in, struct slice message)
{
    static const struct filter nothing = {.text_size = 0};
    const char *end = message.data;
    const struct td_change *told;
    struct change_batch batch;
    struct entry entry;

    entry_init(&entry);
    change_batch_init(&batch, TD_JSON);
    for (size_t i = 0; i < in->n_changes; i++) {
        struct slice line = broker_lines(in)[i].text;
        struct fragment_view view;

        FUZZ_ASSERT(line.data >= end);
        end = line.data + line.size;
        FUZZ_ASSERT(end <= message.data + message.size);
        FUZZ_ASSERT(!fragment_view(line, &view) && view.size == line.size);
        FUZZ_ASSERT(view.seq == broker_lines(in)[i].seq);
        if (change_batch_add_line(&batch, &nothing, &entry, line))
            goto out;
    }
    told = change_batch_seal(&batch);
    for (size_t i = 0; i < in->n_changes; i++)
        check_harvested(&told[i]);
out:
    change_batch_fini(&batch);
    entry_fini(&entry);
}

/* A message is refused with a reason, or each of its changes has its line. */
FUZZ_TARGET(incoming, message)
{
    char *text = message.size > 0 ? slice_dup(message) : NULL;
    struct problem why = {.text = ""};
    struct broker_message in;

    FUZZ_ASSERT(!broker_message_init(&in));
    message.data = text;
    if (broker_message_read(&in, message, &why)) {
        fuzz_check_problem(&why);
    } else {
        FUZZ_ASSERT(epoch_is_valid(slice_of(in.coverage.epoch)));
        check_lines(&in, message);
    }
    broker_message_fini(&in);
    free(text);
}
