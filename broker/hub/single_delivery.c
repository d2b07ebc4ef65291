#include "broker/hub/single_delivery.h"

#include "broker/hub/delivery.h"
#include "broker/hub/hub_state.h"

struct single_delivery {
    struct subscription *s;
    struct command *command;
    struct reader reader;
    struct filter_class *filter; /* a reference: a renewal may bring another */
    struct attempt attempt;
    struct call call;
    struct attempt_row row; /* the last one: it ends in a text, of none here */
};

/* Answers the command, with the attempt if `rc` is STATUS_OK, and frees. */
static void
end_single(struct single_delivery *d, enum status rc)
{
    struct subscription *s = d->s;
    struct command *command = d->command;

    reader_release(&d->reader);
    filter_class_unref(d->filter);
    buf_fini(&d->attempt.text);
    s->single = NULL;
    free(d);
    if (!rc) {
        attempt_row_report(&command->text, s, s->attempts.newest);
        BUF_ADD(&command->text, "\n");
    }
    command->http = 200;
    command_answer_now(command, rc, NULL);
}

static void
on_done(struct call *call)
{
    struct single_delivery *d = list_entry(call, struct single_delivery, call);

    if (call->failure == CALL_MEMORY) {
        end_single(d, problem_memory(&d->command->why));
        return;
    }
    d->row.n_entries = (uint32_t)d->reader.message->n_entries;
    d->row.outcome = call->failure == CALL_ANSWERED && call->status / 100 == 2
                         ? ATTEMPT_DELIVERED
                         : ATTEMPT_FAILED;
    attempt_log_add(d->s, &d->row, call);
    end_single(d, STATUS_OK);
}

/* Its message is there. */
static void
send_single(struct single_delivery *d)
{
    struct subscription *s = d->s;
    const struct shared_message *body = d->reader.message;

    d->row.name = (struct delivery_name){.after = body->wish.after,
                                         .last = body->last,
                                         .form = attempt_form(s),
                                         .generation = s->generation,
                                         .single_us = clock_now_us()};
    if (!attempt_make(&d->attempt, s, body, &d->row.name,
                      d->row.kind == ATTEMPT_TEST)) {
        end_single(d, problem_memory(&d->command->why));
        return;
    }
    attempt_begin_call(&d->call, s);
    d->call.headers = d->attempt.headers;
    d->call.body = shared_message_slice(body);
    d->call.done = on_done;
    caller_start(s->hub->caller, &d->call);
}

/* Continues with what the reader has come to. */
static void
on_ready(struct reader *reader)
{
    struct single_delivery *d =
        list_entry(reader, struct single_delivery, reader);
    struct problem *why = &d->command->why;

    switch (reader_next(reader)) {
    case READER_READY:
        send_single(d);
        break;
    case READER_LATER:
        break;
    case READER_GONE:
        end_single(d, problem(why, STATUS_GONE,
                              "the entries of that delivery are no longer "
                              "retained"));
        break;
    case READER_REMOVED:
        end_single(d, problem(why, STATUS_NOT_FOUND, "the topic is gone"));
        break;
    case READER_HEAD:
    case READER_FAILED:
        end_single(d, problem(why, STATUS_INVALID,
                              "there is no such message any more: the "
                              "subscription has another filter, or the topic "
                              "no document"));
        break;
    }
}

/* Sets what the reader is to find. */
static enum status
choose_message(struct single_delivery *d, struct problem *why)
{
    const struct subscription *s = d->s;
    struct slice delivery = d->command->key;
    const struct attempt_row *row;
    uint64_t earliest, head;

    if (d->row.kind == ATTEMPT_AGAIN) {
        row = attempt_log_find(s, delivery);
        if (!row)
            return problem(why, STATUS_NOT_FOUND,
                           "the last attempts of subscription %" PRIu64
                           " have no delivery \"%s\"",
                           s->id, problem_quote(delivery).text);
        if (row->kind == ATTEMPT_TEST)
            return problem(why, STATUS_INVALID,
                           "that was a test: it has no entries to send again");
        d->reader.after = d->reader.reached = row->name.after;
        d->reader.upto = row->name.last;
        return STATUS_OK;
    }
    if (s->kind == SUBSCRIPTION_HUB)
        return problem(why, STATUS_INVALID,
                       "another hub would distribute a test to its own "
                       "subscribers");
    if (s->topic->kind == TOPIC_FOREIGN) {
        if (!topic_head(s->topic, &head) || head == 0)
            return problem(why, STATUS_INVALID,
                           "the relay has no document yet to test with");
        d->reader.after = d->reader.reached = head - 1;
        d->reader.upto = head;
        return STATUS_OK;
    }
    earliest = topic_earliest(s->topic);
    if (earliest > s->reader.after)
        d->reader.after = d->reader.reached = earliest;
    d->reader.wants_heartbeat = true;
    return STATUS_OK;
}

static enum status
keep_pace(struct subscription *s, struct problem *why)
{
    int64_t now_us = clock_steady_us();

    if (s->single)
        return problem(why, STATUS_LIMITED,
                       "a test or a repeat of this subscription is under way");
    if (s->singles_paid_us < now_us)
        s->singles_paid_us = now_us;
    if (s->singles_paid_us - now_us >=
        (int64_t)SINGLES_PAUSE_US * SINGLES_AT_ONCE)
        return problem(why, STATUS_LIMITED,
                       "a subscription gets one test or repeat a second");
    s->singles_paid_us += SINGLES_PAUSE_US;
    return STATUS_OK;
}

void
single_delivery_begin(struct subscription *s, struct command *command)
{
    enum status rc = keep_pace(s, &command->why);
    struct single_delivery *d;

    if (rc) {
        command_answer_now(command, rc, NULL);
        return;
    }
    d = s->single = memory_new(1, sizeof(*d));
    d->s = s;
    d->command = command;
    d->row.kind = command->kind == COMMAND_TEST ? ATTEMPT_TEST : ATTEMPT_AGAIN;
    d->row.tries = 1;
    d->filter = filter_class_ref(s->reader.filter);
    reader_init(&d->reader, &s->topic->news, s->reader.after, on_ready);
    d->reader.filter = d->filter;
    d->reader.form = s->reader.form;
    d->reader.client = s->reader.client;
    d->reader.is_suspect = subscription_is_suspect(s);
    rc = choose_message(d, &command->why);
    if (rc)
        end_single(d, rc);
    else
        on_ready(&d->reader);
}

void
single_delivery_cut(struct subscription *s)
{
    struct single_delivery *d = s->single;

    if (!d)
        return;
    caller_cancel(s->hub->caller, &d->call);
    end_single(d, problem(&d->command->why, STATUS_STOPPED,
                          "the subscription has ended, or the hub"));
}
