/*
 * subscribe_command.c - tidings subscriptions add: subscribes a callback of
 * somebody else, as any subscriber would.
 *
 *     the topic and its hub --> POST to the hub --> 202 --> pending ... active
 *                                                              +---> gone
 *
 * The hub asks the callback for its consent. The list of subscriptions shows
 * the outcome, if the token has the right to read it.
 */

#include "client/cli/broker_call.h"
#include "client/cli/cli.h"
#include "client/lib/fetch.h"
#include "client/lib/json_slices.h"
#include "client/websub/hub_subscription.h"
#include "proto/http/websub.h"

#define FORM_MAX 65536

/* The longest answer of a hub, and of the list of one callback. */
#define ANSWER_MAX (1024 * 1024)

/* Between two looks, and the longest wait: three tries of the hub, each of up
 * to --hub-timeout, with pauses between. */
#define LOOK_MS   200
#define LOOKS_MAX 600

enum {
    ADD_SECRET,
    ADD_FRAMEWORK,
    ADD_JSON,
    ADD_FIELDS /* those behind are fields of the form */
};

static const struct option add_options[] = {
    [ADD_SECRET] = {"secret-file", "FILE",
                    .help = "sign the deliveries with the secret in this file"},
    [ADD_FRAMEWORK] = {"framework", NULL,
                       .help = "subscribe to the changes of the set's "
                               "documents"},
    [ADD_JSON] = {"json", NULL, .help = "print the broker's JSON"},
    {"lease", "SECONDS", .help = "the wanted lease"},
    {"after", "POSITION", .help = "begin behind this position; else from now"},
    {"interval", "SECONDS", .help = "the least time between two deliveries"},
    {"form", "xml|json|cloudevents|cloudevent", .help = "of the deliveries"},
    {"signature", "v1a", .help = "sign with the hub's own key, too"},
    FILTER_ROWS,
};

struct subscribing {
    struct broker_call call; /* asks the broker of the set */
    const char *callback;
    char topic[WEBSUB_URL_MAX + 32], hub[WEBSUB_URL_MAX + 1];
    struct buf form;
};

/* A relay says what it relays, and at which hub. A set names its hubs by links,
 * and has its topics below itself. One over https is taken before others. */
static void
find_topic(struct subscribing *s, bool is_framework)
{
    const char *end =
        is_framework ? "framework-notifications" : "notifications";
    struct slice json = buf_slice(&s->call.json), links = SLICE(""), link;
    char rel[40], href[WEBSUB_URL_MAX + 1];

    plain_json_text(json, "topic", s->topic, sizeof(s->topic));
    plain_json_text(json, "hub", s->hub, sizeof(s->hub));
    if (!s->topic[0])
        (void)!json_slices_member(json, "links", &links);
    while (json_slices_element(&links, &link)) {
        plain_json_text(link, "rel", rel, sizeof(rel));
        plain_json_text(link, "href", href, sizeof(href));
        if (!strcmp(rel, "self"))
            snprintf(s->topic, sizeof(s->topic), "%s/%s", href, end);
        else if (!strcmp(rel, "hub") &&
                 (!s->hub[0] || (!strncasecmp(href, "https:", 6) &&
                                 strncasecmp(s->hub, "https:", 6) != 0)))
            strcpy(s->hub, href);
    }
    if (!s->topic[0] || !s->hub[0])
        s->call.code = failed("%s names no hub", s->call.url);
}

/* The request */

static void
add_secret(struct subscribing *s, const char *path)
{
    struct token_text secret;
    struct problem why;

    if (!hub_subscription_is_safe(s->hub))
        s->call.code = failed("a secret would go in the clear to the hub %s: "
                              "it needs https",
                              problem_quote(slice_of(s->hub)).text);
    else if (token_file_read(path, false, &secret, &why))
        s->call.code = failed("%s", why.text);
    else if (strlen(secret.text) > WEBSUB_SECRET_MAX)
        s->call.code = failed("%s: a secret has at most %d bytes", path,
                              WEBSUB_SECRET_MAX);
    else
        urlencoded_add(&s->form, "hub.secret", slice_of(secret.text));
    explicit_bzero(&secret, sizeof(secret));
}

static void
make_form(struct subscribing *s, const struct arguments *arguments)
{
    urlencoded_add(&s->form, "hub.mode", SLICE("subscribe"));
    urlencoded_add(&s->form, "hub.topic", slice_of(s->topic));
    urlencoded_add(&s->form, "hub.callback", slice_of(s->callback));
    for (size_t i = 0; i < arguments->n_given; i++) {
        const struct given *given = &arguments->given[i];
        const char *name;

        if (given->row < ADD_FIELDS || given->row >= N_ELEMENTS(add_options))
            continue;
        name = add_options[given->row].name;
        urlencoded_add(&s->form,
                       strcmp(name, "lease") ? name : "hub.lease_seconds",
                       slice_of(given->value));
    }
    if (arguments->options[ADD_SECRET])
        add_secret(s, arguments->options[ADD_SECRET]);
    if (!s->call.code && s->form.failed)
        s->call.code = bad_usage("the options are too long");
}

/* Asks the hub, which answers with a line of text (W-032). The set names it: so
 * its address is judged by where the set is. */
static void
post_form(struct subscribing *s)
{
    static const char *const headers[] = {
        "Content-Type: application/x-www-form-urlencoded", NULL};
    struct td_client *client = s->call.client;
    struct slice form = buf_slice(&s->form), rest, line;
    const struct fetch_request request = {.url = s->hub,
                                          .headers = headers,
                                          .body = &form,
                                          .max_bytes = ANSWER_MAX};
    struct fetch_answer answer;
    enum status rc;

    client_begin(client);
    rc = client_add_source(client, s->call.url);
    if (!rc) {
        rc = fetch_run(client, &request, NULL, NULL, &answer);
        rest = buf_slice(&answer.body);
        line = slice_trimmed(slice_take(&rest, '\n'));
        if (!rc && answer.status / 100 != 2)
            rc = client_fail(client, fetch_meaning(answer.status),
                             "the hub: %u: %.300s", answer.status,
                             problem_quote(line).text);
        buf_fini(&answer.body);
    }
    if (rc)
        s->call.code = exit_of(client, client_end(client, rc));
}

/* The outcome */

/* What the broker lists of the pair. */
struct standing {
    bool is_pending, is_active;
    char id[24], lease_end[40];
};

/* False: it may not be seen, or the call has failed. */
static bool
look(struct subscribing *s, struct standing *now)
{
    struct slice list, one;
    char text[WEBSUB_URL_MAX + 1];

    *now = (struct standing){.is_pending = false};
    broker_call_send(&s->call, "GET");
    if (s->call.code || s->call.status / 100 != 2 ||
        !json_slices_member(buf_slice(&s->call.json), "subscriptions", &list))
        return false;
    while (json_slices_element(&list, &one)) {
        plain_json_text(one, "topic", text, sizeof(text));
        if (strcmp(text, s->topic))
            continue;
        plain_json_text(one, "state", text, sizeof(text));
        if (strcmp(text, "active")) {
            now->is_pending = true;
            continue;
        }
        now->is_active = true;
        plain_json_text(one, "id", now->id, sizeof(now->id));
        plain_json_text(one, "leaseEnd", now->lease_end,
                        sizeof(now->lease_end));
    }
    return true;
}

/* Asks the hub, and waits until the callback has answered it. */
static void
subscribe(struct subscribing *s, bool is_json)
{
    struct standing before, now = {.is_pending = true};
    bool is_seen;

    s->call.takes_refusals = true;
    is_seen = look(s, &before);
    if (!s->call.code)
        post_form(s);
    if (s->call.code)
        return;
    if (!is_seen) {
        say("requested; the token may not see whether the callback confirms: "
            "that needs the right to manage or observe");
        return;
    }
    for (unsigned i = 0; i < LOOKS_MAX && now.is_pending; i++) {
        client_wait(s->call.client, LOOK_MS, NULL);
        if (!look(s, &now))
            break;
    }
    if (s->call.code)
        return;
    if (now.is_pending)
        s->call.code = failed("the hub still asks the callback");
    else if (!now.is_active ||
             (before.is_active && !strcmp(before.id, now.id) &&
              !strcmp(before.lease_end, now.lease_end)))
        s->call.code = failed("the callback did not confirm: it has to answer "
                              "the hub's GET with 200 and the challenge; the "
                              "broker's log has the reason");
    else if (is_json)
        broker_call_show(&s->call, true);
    else
        print_values(false, "id:t leaseEnd:t", now.id, now.lease_end);
}

static enum exit_code
run_add(const struct arguments *arguments)
{
    struct subscribing s = {.callback = arguments->operands[1]};
    struct slice callback = slice_of(s.callback);
    struct problem why = {""};
    char *set_url = NULL;
    struct buf query = {.max = FORM_MAX};

    if (websub_check_url(callback, "CALLBACK", &why))
        return bad_usage("%s", why.text);
    buf_init(&s.form, FORM_MAX);
    urlencoded_add(&query, "callback", callback);
    broker_call_begin(&s.call, arguments, arguments->operands[0], "");
    broker_call_send(&s.call, "GET");
    if (!s.call.code)
        find_topic(&s, arguments->options[ADD_FRAMEWORK] != NULL);
    if (!s.call.code)
        make_form(&s, arguments);
    if (!s.call.code) {
        set_url = s.call.url;
        if (asprintf(&s.call.url, "%s/subscriptions?%.*s", set_url,
                     SLICE_ARG(buf_slice(&query))) >= 0) {
            subscribe(&s, arguments->options[ADD_JSON] != NULL);
        } else {
            s.call.url = NULL;
            s.call.code = failed(NO_MEMORY);
        }
    }
    free(set_url);
    if (s.form.data) /* there may be a secret */
        explicit_bzero(s.form.data, s.form.size);
    buf_fini(&s.form);
    buf_fini(&query);
    return broker_call_end(&s.call);
}

const struct command subscriptions_add_command = {
    .name = "subscriptions add",
    .operands = "SET-URL CALLBACK",
    .help = "Subscribes a callback to a set or a relay.",
    .more =
        "The hub asks the callback for its consent; the command waits for the "
        "answer, and prints the number of the subscription and the end of its "
        "lease. Exit status 1: the callback did not confirm, or the hub "
        "refused. Run it again before the lease ends: that renews the "
        "subscription.\n\n"
        "--change, --prefix, --type and --tag may be given several times. The "
        "secret of --secret-file signs the deliveries; one that begins with "
        "whsec_ is of Standard Webhooks. Only you may be able to read that "
        "file.\n\n"
        "A relay has subscriptions, too: give its URL instead, "
        "http://host:port/relays/NAME.",
    .examples = "tidings subscriptions add http://127.0.0.1:8787/sets/demo \\\n"
                "    https://example.org/hook/8d1f0c --change deleted\n",
    .options = OPTIONS(add_options),
    .run = run_add,
};
