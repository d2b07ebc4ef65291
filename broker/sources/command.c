#include "broker/sources/command.h"

#include <openssl/crypto.h>

#include "broker/net/response.h"
#include "proto/ascii.h"
#include "proto/number.h"

/* The longest interval between two deliveries: a day. */
#define INTERVAL_MAX_S 86400

struct command *
command_new(enum command_kind kind, size_t max)
{
    struct command *command = memory_new(1, sizeof(*command));

    command->kind = kind;
    command->part = -1;
    command->body.max = command->text.max = SIZE_MAX;
    command->memory.max = max;
    /* Makes all room at once: slices point into it, so it must not move. */
    if (max > 0 && !buf_room(&command->memory, max)) {
        command_free(command);
        return NULL;
    }
    return command;
}

void
command_free(struct command *command)
{
    if (!command)
        return;
    urlencoded_fini(&command->form);
    if (command->memory.data) /* it may hold a secret */
        OPENSSL_cleanse(command->memory.data, command->memory.size);
    buf_fini(&command->memory);
    buf_fini(&command->body);
    buf_fini(&command->text);
    principal_unref(command->principal);
    authority_unref(command->authority);
    free(command);
}

enum status
command_allow(const struct command *command, enum right right,
              struct slice name, struct problem *why)
{
    if (!command->principal ||
        rights_include(&command->principal->rights, right, name))
        return STATUS_OK;
    return problem(why, STATUS_FORBIDDEN,
                   "this token has no right to %s \"%s\"", rights_word(right),
                   problem_quote(name).text);
}

struct slice
command_keep(struct command *command, struct slice text)
{
    struct buf *memory = &command->memory;
    size_t at = memory->size;

    buf_add_slice(memory, text);
    if (memory->failed || text.size == 0)
        return (struct slice){NULL, 0};
    return (struct slice){memory->data + at, text.size};
}

/* Reads seconds. */
static bool
read_interval(struct slice text, int64_t *us)
{
    const char *dot = text.size ? memchr(text.data, '.', text.size) : NULL;

    /* Passes over the decimals behind the sixth. */
    while (dot && text.data + text.size > dot + 7 &&
           ascii_is_digit(text.data[text.size - 1]))
        text.size--;
    return seconds_read(text, us) && *us <= (int64_t)INTERVAL_MAX_S * 1000000;
}

/* Takes an optional parameter. A repetition must have the same value. */
static enum status
take_once(struct slice name, struct slice value, struct slice *taken,
          struct problem *why)
{
    if (taken->data && !slice_equal(*taken, value))
        return problem(why, STATUS_MALFORMED,
                       "%s: is there twice, with different values",
                       problem_quote(name).text);
    *taken = value;
    return STATUS_OK;
}

/* Reads the optional parameters of a subscription. */
static enum status
read_wishes(struct command *command, struct problem *why)
{
    struct slice interval = {NULL, 0}, form = {NULL, 0}, signature = {NULL, 0};

    const struct {
        const char *name;
        struct slice *value;
    } wishes[] = {
        {"after", &command->after},
        {"interval", &interval},
        {"form", &form},
        {"signature", &signature},
    };
    enum status rc = STATUS_OK;

    for (size_t i = 0; !rc && i < command->form.n; i++) {
        const struct urlencoded_field *field = &command->form.fields[i];

        if (filter_is_name(field->name))
            rc = filter_add(&command->filter, field->name, field->value, why);
        for (size_t w = 0; w < N_ELEMENTS(wishes); w++)
            if (slice_is(field->name, wishes[w].name))
                rc = take_once(field->name, field->value, wishes[w].value, why);
    }
    command->has_after = command->after.data;
    command->wants_v1a = signature.data;
    if (!rc)
        rc = filter_seal(&command->filter, why);
    if (!rc && interval.data && !read_interval(interval, &command->interval_us))
        rc = problem(why, STATUS_MALFORMED,
                     "interval: \"%s\" is not a number of seconds up to %d",
                     problem_quote(interval).text, INTERVAL_MAX_S);
    if (!rc && form.data &&
        (!message_form_of(form, &command->message_form) ||
         command->message_form == MESSAGE_PLAIN))
        rc = problem(why, STATUS_MALFORMED,
                     "form: \"%s\" is none of xml, json, cloudevents (a batch "
                     "of events), cloudevent (one event a delivery)",
                     problem_quote(form).text);
    if (!rc && command->wants_v1a && !slice_is(signature, "v1a"))
        rc = problem(why, STATUS_MALFORMED,
                     "signature: \"%s\" is not v1a, the only one to ask for",
                     problem_quote(signature).text);
    return rc;
}

/* An unsubscription has no optional parameters. */
enum status
command_read_form(struct command *command, struct slice body,
                  struct problem *why)
{
    enum status rc = urlencoded_read(&command->form, body, why);

    if (!rc)
        rc = websub_read(&command->form, &command->request, why);
    if (rc)
        return rc;
    command->kind = command->request.mode == WEBSUB_PUBLISH ? COMMAND_PUBLISH
                                                            : COMMAND_SUBSCRIBE;
    return command->request.mode == WEBSUB_SUBSCRIBE ? read_wishes(command, why)
                                                     : STATUS_OK;
}

enum status
command_read_simple(struct command *command, struct slice body,
                    struct problem *why)
{
    enum status rc = urlencoded_read(&command->form, body, why);

    command->kind = COMMAND_SUBSCRIBE;
    command->is_simple = true;
    command->request.mode = WEBSUB_SUBSCRIBE;
    for (size_t i = 0; !rc && i < command->form.n; i++)
        if (slice_is(command->form.fields[i].name, "callbackURI"))
            rc = take_once(command->form.fields[i].name,
                           command->form.fields[i].value,
                           &command->request.callback, why);
    if (!rc && !command->request.callback.data)
        rc = problem(why, STATUS_MALFORMED, "callbackURI: is missing");
    if (!rc)
        rc = websub_check_url(command->request.callback, "callbackURI", why);
    return rc ? rc : read_wishes(command, why);
}

void
command_answer_now(struct command *command, enum status status,
                   const struct problem *why)
{
    command->status = status;
    if (why)
        command->why = *why;
    if (status && command->http < 400)
        command->http = response_status_of(status);
    command->done(command);
}

/* Answers a refused command now, another one when its list is answered. */
static void
answer_later(struct command *command, enum status status, unsigned http,
             struct list *with)
{
    if (status) {
        command_answer_now(command, status, NULL);
        return;
    }
    command->http = http;
    list_append(with, &command->task.node);
}

void
command_end(struct command *command, enum status status, unsigned http)
{
    answer_later(command, status, http, &command->answers->kept);
}

void
command_report(struct command *command, enum status status)
{
    if (!status && command->text.failed)
        status = problem_memory(&command->why);
    answer_later(command, status, 200, &command->answers->reports);
}
