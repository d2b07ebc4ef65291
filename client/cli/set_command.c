/*
 * set_command.c - tidings set: creates, changes, shows and deletes sets, and
 * makes their documents now.
 */
#include <ctype.h>

#include "client/cli/broker_call.h"
#include "client/cli/cli.h"
#include "client/lib/client.h"
#include "proto/resourcesync/json.h"

/* The options behind the settings, of set change alone. */
enum { OPTION_RESET = 17, OPTION_DISCARD, SETTINGS = OPTION_RESET };

static const struct option options[] = {
    {"title", "TEXT", .help = "title of the set, for people"},
    {"description", "URL", .help = "where it is described"},
    {"rotate-entries", "N", .help = "entries of a Change List"},
    {"rotate-bytes", "N", .help = "bytes of a Change List"},
    {"rotate-age", "SECONDS", .help = "age of a Change List; 0 is never"},
    {"retain-lists", "N", .help = "closed lists that stay; 0 is all"},
    {"retain-age", "SECONDS", .help = "how long they stay; 0 is for ever"},
    {"resource-list-every", "SECONDS",
     .help = "age of a Resource List; 0 is on demand"},
    {"resource-dump-every", "SECONDS",
     .help = "age of a Resource Dump; 0 is on demand"},
    {"resource-list-keep", "daily|none|N",
     .help = "which ones stay in the archive"},
    {"resource-dump-keep", "daily|none|N",
     .help = "likewise, of Resource Dumps"},
    {"content", "none|fetch|inline",
     .help = "whether the broker stores the bytes of resources"},
    {"content-versions", "all|AGE|N", .help = "versions that keep bytes"},
    {"private", NULL, .help = "only for tokens that may read the set"},
    {"no-data", NULL, .help = "refuse changes that have data"},
    {"upstream-topic", "URL", .help = "take the changes of this WebSub topic"},
    {"hub", "URL", .help = "send changes to this hub, too", .may_repeat = true},
    [OPTION_RESET] = {"reset", "OPTION",
                      .help = "the broker's default again, or none",
                      .may_repeat = true},
    [OPTION_DISCARD] = {"discard", NULL,
                        .help = "also where stored bytes are deleted"},
};

/* Of set create. */
static const struct options creation = {options, SETTINGS};

/* Digits, at most one point within them: the broker judges all else. */
static bool
is_number(const char *text)
{
    size_t whole = strspn(text, "0123456789");
    const char *rest = text + whole;

    if (whole == 0 || (whole > 1 && *text == '0'))
        return false;
    if (*rest == '.')
        return rest[1] && rest[1 + strspn(rest + 1, "0123456789")] == '\0';
    return *rest == '\0';
}

static bool
is_number_option(const struct option *o)
{
    return o->argument &&
           (!strcmp(o->argument, "N") || !strcmp(o->argument, "SECONDS"));
}

/* The setting with that option's name; SETTINGS: none. */
static size_t
setting_named(const char *name)
{
    return options_index(&creation, slice_of(name));
}

/* Finds mistakes that the broker could not see. */
static enum exit_code
check_settings(const struct arguments *arguments)
{
    for (size_t i = 0; i < SETTINGS; i++)
        if (is_number_option(&options[i]) && arguments->options[i] &&
            !is_number(arguments->options[i]))
            return bad_usage("--%s is a number", options[i].name);
    for (size_t i = 0; i < arguments->n_given; i++) {
        const char *name = arguments->given[i].value;
        size_t setting = setting_named(name);

        if (!is_given(arguments, &arguments->given[i], "reset"))
            continue;
        if (setting == SETTINGS)
            return bad_usage("--reset %s: there is no such option of a set",
                             name);
        if (arguments->options[setting])
            return bad_usage("--%s and --reset %s contradict each other", name,
                             name);
    }
    return EXIT_GOOD;
}

/* Writes the value of the setting `i`. */
static void
put_value(struct buf *to, const struct arguments *arguments, size_t i)
{
    const char *given = arguments->options[i], *before = "[";
    const struct option *o = &options[i];

    if (o->may_repeat) { /* all of them: ["http://a.example/hub","..."] */
        for (size_t k = 0; k < arguments->n_given; k++) {
            if (arguments->given[k].row != i)
                continue;
            buf_add_text(to, before);
            json_text(to, slice_of(arguments->given[k].value));
            before = ",";
        }
        BUF_ADD(to, "]");
    } else if (!o->argument)
        BUF_ADD(to, "true");
    else if (is_number_option(o) ||
             (slice_ends(slice_of(o->argument), "|N") && is_number(given)))
        buf_add_text(to, given);
    else
        json_text(to, slice_of(given));
}

/* Writes the JSON name of the setting `i`: "rotateEntries" of --rotate-entries,
 * "hubs" of --hub. */
static void
put_name(struct buf *to, size_t i)
{
    BUF_ADD(to, "\"");
    for (const char *c = options[i].name; *c; c++)
        buf_add_format(to, "%c", *c == '-' ? toupper(*++c) : *c);
    buf_add_text(to, options[i].may_repeat ? "s\":" : "\":");
}

/* {"title":"Demo","rotateEntries":1000,"rotateAge":null} */
static void
put_settings(struct buf *to, const struct arguments *arguments)
{
    BUF_ADD(to, "{");
    for (size_t i = 0; i < SETTINGS; i++) {
        bool is_reset = false;

        for (size_t k = 0; k < arguments->n_given; k++)
            is_reset |= is_given(arguments, &arguments->given[k], "reset") &&
                        setting_named(arguments->given[k].value) == i;
        if (!arguments->options[i] && !is_reset)
            continue;
        buf_add_text(to, to->size > 1 ? "," : "");
        put_name(to, i);
        if (arguments->options[i])
            put_value(to, arguments, i);
        else
            BUF_ADD(to, "null");
    }
    BUF_ADD(to, "}");
}

static enum exit_code
run_create_or_change(const struct arguments *arguments)
{
    bool is_new = arguments->command->options == &creation;
    const char *url = arguments->operands[0];
    struct td_client *client = NULL;
    enum exit_code code = check_settings(arguments);
    struct buf settings = {.max = SIZE_MAX / 2};

    put_settings(&settings, arguments);
    if (!code && settings.failed)
        code = failed(NO_MEMORY);
    if (!code && !is_new && settings.size == strlen("{}"))
        code = bad_usage("set change needs a setting, or --reset");
    if (!code)
        client = open_client(arguments, url, NULL, &code);
    if (client)
        code = exit_of(
            client,
            is_new ? td_set_create(client, url, settings.data, settings.size)
                   : td_set_change(client, url, settings.data, settings.size,
                                   arguments->options[OPTION_DISCARD] != NULL));
    if (!code)
        puts(is_new ? "created" : "changed");
    td_close(client);
    buf_fini(&settings);
    return code;
}

/* A link is two values: its relation, then its address. */
static void
show_member(const char *path, const char *value, void *user)
{
    char *rel = user;
    size_t size = strlen(path);

    if (strncmp(path, "links.", 6)) {
        plain_json_pair(path, value, NULL);
    } else if (size > 4 && !strcmp(path + size - 4, ".rel")) {
        snprintf(rel, 64, "link %s", value);
    } else if (size > 5 && !strcmp(path + size - 5, ".href")) {
        plain_json_pair(rel, value, NULL);
    }
}

static enum exit_code
run_show(const struct arguments *arguments)
{
    const char *url = arguments->operands[0];
    bool is_json = arguments->options[0] != NULL;
    char rel[64] = "";
    char *json = NULL;
    enum exit_code code;
    struct td_client *client = open_client(arguments, url, NULL, &code);

    if (!client)
        return code;
    code = exit_of(client, td_set_get(client, url, is_json ? NULL : show_member,
                                      rel, &json));
    if (!code && is_json)
        plain_json_line(slice_of(json));
    free(json);
    td_close(client);
    return code;
}

/* The amount of data that a deletion destroys. */
struct loss {
    unsigned long long entries, lists, files, bytes;
};

static void
count_loss(const char *path, const char *value, void *user)
{
    struct loss *loss = user;

    const struct {
        const char *path;
        unsigned long long *number;
    } rows[] = {
        {"last", &loss->entries},
        {"lists.closed", &loss->lists},
        {"content.kept", &loss->files},
        {"content.bytes", &loss->bytes},
    };

    for (size_t i = 0; i < N_ELEMENTS(rows); i++)
        if (!strcmp(path, rows[i].path))
            *rows[i].number = strtoull(value, NULL, 10);
}

static enum exit_code
run_delete(const struct arguments *arguments)
{
    const char *url = arguments->operands[0];
    struct loss loss = {0};
    char files[80] = "";
    enum exit_code code;
    struct td_client *client = open_client(arguments, url, NULL, &code);

    if (!client)
        return code;
    if (!arguments->options[0]) {
        code = confirm_can_ask("set delete deletes all that the set has");
        if (!code)
            code = exit_of(client,
                           td_set_get(client, url, count_loss, &loss, NULL));
        if (loss.files)
            snprintf(files, sizeof(files),
                     ", %llu files of content (%llu bytes)", loss.files,
                     loss.bytes);
        if (!code)
            code = confirm("deleted",
                           "Delete %s with %llu entries, %llu closed lists%s",
                           url, loss.entries, loss.lists, files);
    }
    if (!code)
        code = exit_of(client, td_set_delete(client, url));
    if (!code)
        puts("deleted");
    td_close(client);
    return code;
}

const struct command set_create_command = {
    .name = "set create",
    .operands = "SET-URL",
    .help = "Creates a set.",
    .more = "What is not given is the broker's default. A set that exists is "
            "left alone, and the exit status is 1.",
    .examples = "tidings set create http://127.0.0.1:8787/sets/demo "
                "--title Demo\n",
    .options = &creation,
    .run = run_create_or_change,
};

const struct command set_change_command = {
    .name = "set change",
    .operands = "SET-URL",
    .help = "Changes settings of a set.",
    .more =
        "Settings that are not given stay as they are; --reset OPTION makes "
        "one what it is without the option.\n\n"
        "The broker refuses a change that would delete stored bytes "
        "(content none, fewer lists, a smaller age), and says how much it "
        "is; --discard lets it.",
    .examples = "tidings set change http://127.0.0.1:8787/sets/demo "
                "--title News\n"
                "tidings set change http://127.0.0.1:8787/sets/demo "
                "--reset rotate-age\n",
    .options = OPTIONS(options),
    .run = run_create_or_change,
};

const struct command set_show_command = {
    .name = "set show",
    .operands = "SET-URL",
    .help = "Shows a set: its position, settings, lists, readers and links.",
    .examples = "tidings set show http://127.0.0.1:8787/sets/demo\n",
    .options = &json_options,
    .run = run_show,
};

const struct command set_delete_command = {
    .name = "set delete",
    .operands = "SET-URL",
    .help = "Deletes a set and all that it has.",
    .more = "Asks on a terminal, and says how much is lost; elsewhere it needs "
            "--yes.",
    .examples = "tidings set delete http://127.0.0.1:8787/sets/demo --yes\n",
    .options = &yes_options,
    .run = run_delete,
};

/* Documents of a set, made now */

/* Longest URL of a document, in bytes. */
#define URL_MAX 4096

/* Between two requests for a document that is not ready. The broker holds each
 * for ten seconds; one that answers at once is not asked in a circle. */
#define PAUSE_MS 1000

/* Prints the URL that the answer has as `name`; "": there is none. */
static void
print_result(struct broker_call *call, const char *name, bool is_json)
{
    char url[URL_MAX];

    if (is_json || call->code) {
        broker_call_show(call, true);
        return;
    }
    plain_json_text(buf_slice(&call->json), name, url, sizeof(url));
    print_plain(url);
    putchar('\n');
}

static enum exit_code
run_rotate(const struct arguments *arguments)
{
    bool is_json = arguments->options[0] != NULL;
    struct broker_call call;
    char number[32];

    broker_call_begin(&call, arguments, arguments->operands[0], "/rotate");
    broker_call_send(&call, "POST");
    plain_json_text(buf_slice(&call.json), "closed", number, sizeof(number));
    if (!call.code && !number[0] && !is_json)
        say("the open Change List is empty and stays open");
    else
        print_result(&call, "list", is_json);
    return broker_call_end(&call);
}

static enum exit_code
run_build(const struct arguments *arguments)
{
    const char *what = arguments->operands[0];
    bool is_dump = !strcmp(what, "resourcedump");
    struct broker_call call;

    if (!is_dump && strcmp(what, "resourcelist"))
        return bad_usage("set build builds a resourcelist or a resourcedump");
    broker_call_begin(&call, arguments, arguments->operands[1],
                      is_dump ? "/resourcedump" : "/resourcelist");
    if (call.client) {
        signals_stop_client(call.client);
        broker_call_send(&call, "POST");
        if (!call.code && call.status == 202)
            say("not ready yet; waiting");
        while (!call.code && call.status == 202)
            if (client_wait(call.client, PAUSE_MS, NULL))
                call.code = failed("stopped");
            else
                broker_call_send(&call, "POST");
        signals_end();
    }
    print_result(&call, is_dump ? "dump" : "list",
                 arguments->options[0] != NULL);
    return broker_call_end(&call);
}

const struct command set_rotate_command = {
    .name = "set rotate",
    .operands = "SET-URL",
    .help = "Closes the open Change List of a set, and prints its URL.",
    .more = "The next change begins a new list. A list without an entry stays "
            "open.",
    .examples = "tidings set rotate http://127.0.0.1:8787/sets/demo\n",
    .options = &json_options,
    .run = run_rotate,
};

const struct command set_build_command = {
    .name = "set build",
    .operands = "resourcelist|resourcedump SET-URL",
    .help = "Builds a Resource List or a Resource Dump, and prints its URL.",
    .more = "Waits until the document is ready. It has all changes that were "
            "posted before. A Resource Dump needs the bytes of all resources: "
            "the set stores them with content fetch or inline.",
    .examples =
        "tidings set build resourcelist http://127.0.0.1:8787/sets/demo\n",
    .options = &json_options,
    .run = run_build,
};
