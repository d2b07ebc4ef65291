#include "broker/hub/remote_command.h"

#include <endian.h>

#include "base/clock.h"
#include "broker/net/response.h"

#define VERSION 1

#define FLAG_RELAY  1
#define FLAG_LOCAL  2
#define FLAG_SIMPLE 4

/* The memory of a command beside its texts, for what the reading of a form
 * keeps: three times the form (handle_hub.c). */
#define KEPT(size) (3 * (size_t)(size))

/* Fields */

static void
put_field(struct buf *to, struct slice bytes)
{
    uint32_t big = htobe32((uint32_t)bytes.size);

    buf_add(to, &big, sizeof(big));
    buf_add_slice(to, bytes);
}

static void
put_number(struct buf *to, uint64_t number)
{
    uint64_t big = htobe64(number);

    put_field(to, (struct slice){(const char *)&big, sizeof(big)});
}

/* Fields as they are read; a missing one is empty and sets `is_bad`. */
struct fields {
    struct slice rest;
    bool is_bad;
};

static struct slice
take_field(struct fields *f)
{
    struct slice field = {NULL, 0};
    uint32_t size;

    if (f->rest.size >= sizeof(size)) {
        memcpy(&size, f->rest.data, sizeof(size));
        size = be32toh(size);
        if (size <= f->rest.size - sizeof(size)) {
            field = (struct slice){f->rest.data + sizeof(size), size};
            slice_skip(&f->rest, sizeof(size) + size);
            return field;
        }
    }
    f->is_bad = true;
    return field;
}

static uint64_t
take_number(struct fields *f)
{
    struct slice field = take_field(f);
    uint64_t big = 0;

    if (field.size != sizeof(big)) {
        f->is_bad = true;
        return 0;
    }
    memcpy(&big, field.data, sizeof(big));
    return be64toh(big);
}

/* Copies a text that must fit, terminated. */
static void
take_text(struct fields *f, char *to, size_t size)
{
    struct slice field = take_field(f);

    if (field.size >= size) {
        f->is_bad = true;
        field.size = 0;
    }
    if (field.size > 0)
        memcpy(to, field.data, field.size);
    to[field.size] = '\0';
}

/* Begins to read. */
static struct fields
read_fields(struct slice bytes)
{
    struct fields f = {bytes, false};

    if (bytes.size == 0 || *bytes.data != VERSION)
        f.is_bad = true;
    else
        f.rest = (struct slice){bytes.data + 1, bytes.size - 1};
    return f;
}

/* A token's principal is the one of this broker, which ends with the token.
 * Another one has an end of its own. */
static enum status
take_principal(struct fields *f, struct tokens *tokens, struct command *command,
               struct problem *why)
{
    char name[PRINCIPAL_NAME_MAX + 1];
    struct rights rights = {.observe = false};
    int64_t ends_us;

    if (!take_number(f))
        return STATUS_OK;
    take_text(f, name, sizeof(name));
    take_text(f, rights.publish, sizeof(rights.publish));
    take_text(f, rights.subscribe, sizeof(rights.subscribe));
    take_text(f, rights.manage, sizeof(rights.manage));
    rights.observe = take_number(f) != 0;
    rights.admin = take_number(f) != 0;
    ends_us = (int64_t)take_number(f);
    if (f->is_bad || !tokens)
        return STATUS_OK;
    if (!principal_is_outside(name)) {
        command->principal =
            tokens_owner(tokens, slice_of(name), clock_now_us());
        return command->principal
                   ? STATUS_OK
                   : problem(why, STATUS_FORBIDDEN,
                             "the broker that owns the hub does not know this "
                             "token");
    }
    command->principal = principal_new(slice_of(name), &rights, ends_us);
    return STATUS_OK;
}

/* Commands */

void
remote_command_write(struct buf *to, const struct command *command)
{
    const struct principal *p = command->principal;

    buf_add(to, &(char){VERSION}, 1);
    put_number(to, command->kind);
    put_number(to, (command->is_relay ? FLAG_RELAY : 0) |
                       (command->is_local ? FLAG_LOCAL : 0) |
                       (command->is_simple ? FLAG_SIMPLE : 0));
    put_number(to, command->id);
    put_field(to, slice_of(command->name));
    put_field(to, slice_of(command->from));
    put_field(to, command->form_text);
    /* Of a form, the others are in it. */
    put_field(to,
              command->form_text.size ? SLICE("") : command->request.callback);
    put_field(to, command->form_text.size ? SLICE("") : command->after);
    put_field(to, command->content_type);
    put_field(to, command->links);
    put_field(to, command->key);
    put_field(to, buf_slice(&command->body));
    put_number(to, p != NULL);
    if (!p)
        return;
    put_field(to, slice_of(p->name));
    put_field(to, slice_of(p->rights.publish));
    put_field(to, slice_of(p->rights.subscribe));
    put_field(to, slice_of(p->rights.manage));
    put_number(to, p->rights.observe);
    put_number(to, p->rights.admin);
    put_number(to, (uint64_t)atomic_load_explicit(&p->authority.ends_us,
                                                  memory_order_relaxed));
}

static enum status
restore_fields(struct command *command, struct fields *f, struct tokens *tokens,
               struct problem *why)
{
    uint64_t flags = take_number(f);
    struct slice form, body;
    enum status rc;

    command->is_relay = flags & FLAG_RELAY;
    command->is_local = flags & FLAG_LOCAL;
    command->is_simple = flags & FLAG_SIMPLE;
    command->id = take_number(f);
    take_text(f, command->name, sizeof(command->name));
    take_text(f, command->from, sizeof(command->from));
    form = take_field(f);
    command->request.callback = command_keep(command, take_field(f));
    command->after = command_keep(command, take_field(f));
    command->has_after = command->after.size > 0;
    command->content_type = command_keep(command, take_field(f));
    command->links = command_keep(command, take_field(f));
    command->key = command_keep(command, take_field(f));
    body = take_field(f);
    rc = take_principal(f, tokens, command, why);
    if (rc)
        return rc;
    if (command->principal)
        command->authority = authority_ref(&command->principal->authority);
    if (f->is_bad || f->rest.size > 0)
        return problem(why, STATUS_INVALID,
                       "another broker of the cluster has another version");
    buf_add_slice(&command->body, form.size > 0 ? form : body);
    if (command->body.failed || command->memory.failed)
        return problem_memory(why);
    if (form.size == 0)
        return STATUS_OK;
    /* Reads the form again. Its text is kept in the body, which has no other
     * use. */
    command->has_after = false;
    command->form_text = buf_slice(&command->body);
    return command->is_simple
               ? command_read_simple(command, command->form_text, why)
               : command_read_form(command, command->form_text, why);
}

enum status
remote_command_read(struct command **command, struct slice bytes,
                    struct tokens *tokens, struct problem *why)
{
    struct fields f = read_fields(bytes);
    uint64_t kind = take_number(&f);
    struct command *c;
    enum status rc;

    if (f.is_bad || kind >= COMMAND_KINDS)
        return problem(why, STATUS_INVALID,
                       "another broker of the cluster has another version");
    c = command_new((enum command_kind)kind, KEPT(bytes.size));
    if (!c)
        return problem_memory(why);
    rc = restore_fields(c, &f, tokens, why);
    if (rc)
        command_free(c);
    else
        *command = c;
    return rc;
}

/* Outcomes */

void
remote_command_write_outcome(struct buf *to, const struct command *command)
{
    buf_add(to, &(char){VERSION}, 1);
    put_number(to, command->status);
    put_number(to, command->http);
    put_field(to, slice_of(command->why.text));
    put_field(to, buf_slice(&command->text));
}

void
remote_command_read_outcome(struct command *command, struct slice bytes)
{
    struct fields f = read_fields(bytes);
    uint64_t status = take_number(&f), http = take_number(&f);

    take_text(&f, command->why.text, sizeof(command->why.text));
    buf_clear(&command->text);
    buf_add_slice(&command->text, take_field(&f));
    if (f.is_bad || status > STATUS_DENIED || http > 599) {
        buf_clear(&command->text);
        command->status =
            problem(&command->why, STATUS_IO,
                    "another broker of the cluster has another version");
        command->http = response_status_of(STATUS_IO);
        return;
    }
    command->status = (enum status)status;
    command->http = (unsigned)http;
}
