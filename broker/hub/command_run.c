/*
 * command_run.c - what each kind of command does.
 *
 * COMMAND_END and COMMAND_REDELIVER change memory at once; the answer waits for
 * the commit. If the commit fails the answer is 503, and the change happens all
 * the same: the hub writes memory to hub.db as soon as the disk permits
 * (hub.c). A client may repeat both without harm.
 */
#include <inttypes.h>

#include "broker/hub/foreign_source.h"
#include "broker/hub/hub_state.h"
#include "broker/hub/relay.h"
#include "broker/hub/subscription_report.h"

/* True if the topic belongs to that set or relay. */
static bool
is_topic_of(const struct topic *topic, const char *name, bool is_relay)
{
    const char *of =
        topic->kind == TOPIC_RELAY ? topic->relay->name : topic->set->name;

    return (topic->kind == TOPIC_RELAY) == is_relay &&
           slice_equal(slice_of(of), slice_of(name));
}

static void
run_subscribe(struct command *command)
{
    struct problem why = {""};
    enum status rc = verification_take(command->hub, command, &why);

    if (rc) {
        command_answer_now(command, rc, &why);
        return;
    }
    command->http = 202; /* W-031 */
    command_answer(command);
}

/* Checks that the set or relay of the command exists. */
static enum status
check_name(const struct command *command, struct problem *why)
{
    struct slice name = slice_of(command->name);

    if (command->is_relay
            ? relay_find(command->hub, name) != NULL
            : registry_find(command->hub->registry, name, NULL) != NULL)
        return STATUS_OK;
    return problem(why, STATUS_NOT_FOUND, "there is no %s \"%s\"",
                   command->is_relay ? "relay" : "set", command->name);
}

static void
run_list(struct command *command)
{
    struct problem why = {""};
    enum status rc = check_name(command, &why);

    if (!rc && command->request.callback.size > 0)
        report_callback(&command->text, command->hub, command->name,
                        command->is_relay, command->request.callback);
    else if (!rc)
        report_list(&command->text, command->hub, command->name,
                    command->is_relay, command->id);
    if (command->text.failed)
        rc = problem_memory(&why);
    command->http = 200;
    command_answer_now(command, rc, &why);
}

/* Finds the subscription, or the waiting request, that the command names: one
 * of the two, or STATUS_NOT_FOUND. */
static enum status
find_subscription(const struct command *command, struct subscription **s,
                  struct verification **v, struct problem *why)
{
    enum status rc = check_name(command, why);

    *s = NULL;
    *v = NULL;
    if (rc)
        return rc;
    *s = subscription_by_id(command->hub, command->id);
    if (*s && is_topic_of((*s)->topic, command->name, command->is_relay))
        return STATUS_OK;
    *s = NULL;
    *v = verification_by_id(command->hub, command->id);
    if (*v && is_topic_of((*v)->topic, command->name, command->is_relay))
        return STATUS_OK;
    *v = NULL;
    return problem(
        why, STATUS_NOT_FOUND, "%s \"%s\" has no subscription %" PRIu64,
        command->is_relay ? "relay" : "set", command->name, command->id);
}

static void
run_show(struct command *command)
{
    struct problem why = {""};
    struct subscription *s;
    struct verification *v;
    enum status rc = find_subscription(command, &s, &v, &why);

    if (s)
        report_subscription(&command->text, s);
    else if (v)
        report_verification(&command->text, v);
    BUF_ADD(&command->text, "\n");
    if (command->text.failed)
        rc = problem_memory(&why);
    command->http = 200;
    command_answer_now(command, rc, &why);
}

/* W-042: ends a subscription at once, and denies its callback. */
static void
run_end(struct command *command)
{
    struct problem why = {""};
    struct subscription *s;
    struct verification *v;
    enum status rc = find_subscription(command, &s, &v, &why);

    if (rc) {
        command_answer_now(command, rc, &why);
        return;
    }
    if (s)
        subscription_end(s, END_DELETED);
    else
        verification_end(v);
    command->http = 204;
    command_answer(command);
}

static void
run_redeliver(struct command *command)
{
    struct problem why = {""};
    struct subscription *s;
    struct verification *v;
    uint64_t after = 0;
    enum status rc = find_subscription(command, &s, &v, &why);

    if (!rc && !s)
        rc = problem(&why, STATUS_INVALID,
                     "subscription %" PRIu64 " is not active yet", command->id);
    if (!rc)
        rc = topic_judge(s->topic, command->after, &after, &why);
    if (rc) {
        command_answer_now(command, rc, &why);
        return;
    }
    subscription_redeliver(s, after);
    report_subscription(&command->text, s);
    BUF_ADD(&command->text, "\n");
    command->http = 200;
    command_answer(command);
}

void
command_run(struct command *command)
{
    static void (*const runs[COMMAND_KINDS])(struct command *) = {
        [COMMAND_SUBSCRIBE] = run_subscribe,
        [COMMAND_PUBLISH] = foreign_source_publish,
        [COMMAND_NOTIFY] = foreign_source_notify,
        [COMMAND_LIST] = run_list,
        [COMMAND_SHOW] = run_show,
        [COMMAND_END] = run_end,
        [COMMAND_REDELIVER] = run_redeliver,
        [COMMAND_RELAY_PUT] = relay_put,
        [COMMAND_RELAY_SHOW] = relay_show,
        [COMMAND_RELAY_LIST] = relay_list,
        [COMMAND_RELAY_REMOVE] = relay_remove,
    };

    runs[command->kind](command);
}
