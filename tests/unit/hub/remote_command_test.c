#include <stdio.h>
#include <string.h>

#include "broker/hub/remote_commands.h"
#include "tests/test.h"

#define FORM                                                              \
    "hub.mode=subscribe&hub.topic=http%3A%2F%2Fexample.org%2Ft&"          \
    "hub.callback=http%3A%2F%2Fa.example%2Fcb&hub.secret=s%26t&after=e-3" \
    "&interval=1.5&change=created"

/* Writes a command, frees it, and makes it again. */
static struct command *
send_command(struct command *command)
{
    struct command *restored = NULL;
    struct problem why = {""};
    struct buf bytes;

    buf_init(&bytes, SIZE_MAX);
    remote_command_write(&bytes, command);
    command_free(command);
    if (remote_command_read(&restored, buf_slice(&bytes), NULL, &why))
        fail_msg("%s", why.text);
    buf_fini(&bytes);
    return restored;
}

TEST(a_form_is_read_again)
{
    static const char form[] = FORM;
    struct command *c = command_new(COMMAND_SUBSCRIBE, 3 * sizeof(form));

    assert_int_equal(command_read_form(c, slice_of(form), NULL), STATUS_OK);
    c->form_text = slice_of(form);
    c->is_local = true;
    strcpy(c->from, "192.0.2.1");
    c = send_command(c);

    assert_int_equal(c->kind, COMMAND_SUBSCRIBE);
    assert_int_equal(c->request.mode, WEBSUB_SUBSCRIBE);
    assert_true(slice_is(c->request.callback, "http://a.example/cb"));
    assert_true(slice_is(c->request.topic, "http://example.org/t"));
    assert_int_equal(c->request.secret.size, 3);
    assert_true(slice_is(c->after, "e-3"));
    assert_int_equal(c->interval_us, 1500000);
    assert_true(c->is_local);
    assert_false(c->is_simple);
    assert_string_equal(c->from, "192.0.2.1");
    command_free(c);
}

TEST(a_simple_form_too)
{
    static const char form[] = "callbackURI=http%3A%2F%2Fa.example%2Fcb";
    struct command *c = command_new(COMMAND_SUBSCRIBE, 3 * sizeof(form));

    assert_int_equal(command_read_simple(c, slice_of(form), NULL), STATUS_OK);
    c->form_text = slice_of(form);
    strcpy(c->name, "demo");
    c = send_command(c);

    assert_true(c->is_simple);
    assert_true(slice_is(c->request.callback, "http://a.example/cb"));
    assert_string_equal(c->name, "demo");
    command_free(c);
}

TEST(other_commands_have_all_that_they_need)
{
    struct command *c = command_new(COMMAND_NOTIFY, 100);

    c->content_type = command_keep(c, SLICE("text/plain"));
    c->links = command_keep(c, SLICE("<x>; rel=\"self\""));
    c->key = command_keep(c, SLICE("k"));
    buf_add(&c->body, "a\0b", 3);
    c->id = UINT64_MAX;
    c->is_relay = true;
    c->after = command_keep(c, SLICE("e-4"));
    c->request.callback = command_keep(c, SLICE("http://b.example/"));
    c = send_command(c);

    assert_int_equal(c->kind, COMMAND_NOTIFY);
    assert_true(slice_is(c->content_type, "text/plain"));
    assert_true(slice_is(c->links, "<x>; rel=\"self\""));
    assert_true(slice_is(c->key, "k"));
    assert_int_equal(c->body.size, 3);
    assert_memory_equal(c->body.data, "a\0b", 3);
    assert_true(c->id == UINT64_MAX);
    assert_true(c->is_relay);
    assert_true(c->has_after && slice_is(c->after, "e-4"));
    assert_true(slice_is(c->request.callback, "http://b.example/"));
    command_free(c);
}

/* Every shorter text is refused, and so is a longer one. */
TEST(refuses_other_bytes)
{
    struct command *c = command_new(COMMAND_SHOW, 0), *restored;
    struct buf bytes;

    buf_init(&bytes, SIZE_MAX);
    remote_command_write(&bytes, c);
    command_free(c);
    for (size_t size = 0; size < bytes.size; size++)
        assert_int_equal(remote_command_read(&restored,
                                             (struct slice){bytes.data, size},
                                             NULL, NULL),
                         STATUS_INVALID);
    buf_add(&bytes, "x", 1);
    assert_int_equal(
        remote_command_read(&restored, buf_slice(&bytes), NULL, NULL),
        STATUS_INVALID);
    bytes.data[0] = 2;
    assert_int_equal(
        remote_command_read(&restored, buf_slice(&bytes), NULL, NULL),
        STATUS_INVALID);
    buf_fini(&bytes);
}

TEST(an_outcome_comes_back)
{
    struct command *from = command_new(COMMAND_SHOW, 0);
    struct command *to = command_new(COMMAND_SHOW, 0);
    struct buf bytes;

    from->status = STATUS_NOT_FOUND;
    from->http = 404;
    problem_set(&from->why, "there is none");
    buf_add_text(&from->text, "{}");
    buf_init(&bytes, SIZE_MAX);
    remote_command_write_outcome(&bytes, from);
    remote_command_read_outcome(to, buf_slice(&bytes));

    assert_int_equal(to->status, STATUS_NOT_FOUND);
    assert_int_equal(to->http, 404);
    assert_string_equal(to->why.text, "there is none");
    assert_true(slice_is(buf_slice(&to->text), "{}"));
    bytes.size--;
    remote_command_read_outcome(to, buf_slice(&bytes));
    assert_int_equal(to->status, STATUS_IO);
    buf_fini(&bytes);
    command_free(from);
    command_free(to);
}
