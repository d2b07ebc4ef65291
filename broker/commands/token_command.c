/*
 * token_command.c - tidingsd token: makes and shows tokens, beside a running
 * broker and without one.
 *
 * Only the owner of the data directory's lock changes tokens.db. So the command
 * takes the lock and changes it; if a broker has it, the command asks the
 * broker, by HTTP over its control socket, which only the broker's user may
 * open.
 */
#include <jansson.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/crypto.h>

#include "base/file.h"
#include "broker/access/identity_provider.h"
#include "broker/access/jwt.h"
#include "broker/access/token_json.h"
#include "broker/calls/blocking_call.h"
#include "broker/commands/command_rows.h"
#include "broker/config/config.h"
#include "broker/log/engine.h"
#include "broker/log/journal.h"
#include "broker/net/unix_socket.h"
#include "broker/store/store.h"
#include "proto/number.h"

/* The longest wait for a broker: it may wait for its disk. */
#define ANSWER_US ((int64_t)60 * 1000000)

struct values {
    char data[4096];
    struct rights rights; /* as they were given */
    char certificate[TOKEN_CERTIFICATE_SIZE];
    bool is_json;
    int64_t span_us; /* of --expires or --grace; 0: not given */
    char jwt_keys[4096], jwt_issuer[512], jwt_audience[512];
    char public_url[4096];
};

/* Options */

/* "90d", "1h", "30s": a number and a unit. */
static enum status
read_span(const char *text, void *to, struct problem *why)
{
    static const struct {
        char unit;
        int64_t us;
    } units[] = {{'s', 1000000},
                 {'m', 60000000},
                 {'h', 3600000000},
                 {'d', 86400000000},
                 {'w', 604800000000}};
    struct values *values = to;
    size_t size = strlen(text);
    uint64_t n;

    for (size_t i = 0; size > 1 && i < N_ELEMENTS(units); i++)
        if (text[size - 1] == units[i].unit &&
            number_read((struct slice){text, size - 1}, &n) && n &&
            n <= 36500 * (86400000000ULL / (uint64_t)units[i].us)) {
            values->span_us = (int64_t)n * units[i].us;
            return STATUS_OK;
        }
    return problem(why, STATUS_INVALID,
                   "\"%s\" is no number of s, m, h, d or w, such as 90d",
                   problem_quote(slice_of(text)).text);
}

static enum status
read_certificate(const char *text, void *to, struct problem *why)
{
    struct values *values = to;

    return token_certificate_read(values->certificate, slice_of(text), why);
}

#define ROW_OF struct values
#include "base/option_rows.h"

#define DATA_ROW \
    "data", "DIR", TEXT(data), "./tidings-data", "the broker's data directory"
#define JSON_ROW "json", NULL, FLAG(is_json), NULL, "print JSON"

static const struct option add_rows[] = {
    {"publish", "PATTERNS", TEXT(rights.publish), NULL,
     "may post to these sets: news, news-*, *, with commas between; a ! before "
     "a pattern denies, and wins"},
    {"subscribe", "PATTERNS", TEXT(rights.subscribe), NULL,
     "may read these sets and subscribe to them"},
    {"manage", "PATTERNS", TEXT(rights.manage), NULL,
     "may create, configure and remove these sets, and end their "
     "subscriptions"},
    {"observe", NULL, FLAG(rights.observe), NULL,
     "may read metrics, bridges, relays and subscriptions"},
    {"admin", NULL, FLAG(rights.admin), NULL,
     "may do everything, also with tokens"},
    {"expires", "TIME", OWN(read_span), NULL,
     "ends after so long: 90d, 12h; never if not given"},
    {"certificate", "SHA256", OWN(read_certificate), NULL,
     "a client with this certificate (tidingsd --tls-client-ca) needs no "
     "token; "
     "as printed by openssl x509 -noout -fingerprint -sha256"},
    {DATA_ROW},
    {JSON_ROW},
};

static const struct option list_rows[] = {{DATA_ROW}, {JSON_ROW}};
static const struct option revoke_rows[] = {{DATA_ROW}};

static const struct option check_rows[] = {
    {"jwt-keys", "FILE|URL", TEXT(jwt_keys), NULL,
     "without a running broker: its keys for a JSON Web Token in FILE; needs "
     "--jwt-issuer and --jwt-audience"},
    {"jwt-issuer", "TEXT", TEXT(jwt_issuer), NULL, "as the broker has it"},
    {"jwt-audience", "TEXT", TEXT(jwt_audience), NULL, "likewise"},
    {"public-url", "URL", TEXT(public_url), NULL,
     "likewise, for claims that name sets by URL"},
    {DATA_ROW},
};

static const struct option rotate_rows[] = {
    {"grace", "TIME", OWN(read_span), NULL,
     "the former token holds for so long: 1h; not at all if not given"},
    {DATA_ROW},
    {JSON_ROW},
};

/* Asking a broker */

struct asked {
    const struct token_command *command;
    struct slice
        bearer; /* instead of a command: show the rights of this token */
    struct provider_options provider; /* of `bearer` */
    const char *public_url;           /* likewise */
    bool opens_again;                 /* instead of both; without a broker */
    struct buf *answer;
};

/* Takes the sentence out of {"detail":"..."}. */
static void
say_detail(struct slice json, unsigned http, struct problem *why)
{
    json_t *answer = json_loadb(json.data, json.size, 0, NULL);
    const char *detail = json_string_value(json_object_get(answer, "detail"));

    if (detail)
        problem_set(why, "%s", detail);
    else
        problem_set(why, "the broker answered %u", http);
    json_decref(answer);
}

static enum status
perform(struct blocking *calls, const struct asked *a, struct problem *why)
{
    const struct token_command *c = a->command;
    char url[300], bearer[JWT_BYTES_MAX + 64] = "";
    const char *const headers[] = {"Content-Type: application/json",
                                   a->bearer.size ? bearer : NULL, NULL};
    struct call wish = {.url = url,
                        .headers = headers,
                        .timeout_us = ANSWER_US,
                        .max_answer = a->answer->max};
    const struct call *call;

    if (c && (c->act == TOKEN_ADD || c->act == TOKEN_ROTATE)) {
        wish.method = CALL_POST;
        wish.body = c->json;
    } else if (c && c->act == TOKEN_REVOKE) {
        wish.method = CALL_DELETE;
    }
    if (!c)
        snprintf(url, sizeof(url), "http://localhost/tokens/self");
    else if (c->act == TOKEN_ADD || c->act == TOKEN_LIST)
        snprintf(url, sizeof(url), "http://localhost/tokens");
    else if (c->act == TOKEN_ROTATE)
        snprintf(url, sizeof(url),
                 "http://localhost/tokens/%.*s/rotate?grace=%lld",
                 SLICE_ARG(c->name), (long long)(c->grace_us / 1000000));
    else
        snprintf(url, sizeof(url), "http://localhost/tokens/%.*s",
                 SLICE_ARG(c->name));
    if (a->bearer.size)
        snprintf(bearer, sizeof(bearer), "Authorization: Bearer %.*s",
                 SLICE_ARG(a->bearer));
    call = blocking_run(calls, &wish, a->answer);
    OPENSSL_cleanse(bearer, sizeof(bearer));
    if (call->failure)
        return problem(why, STATUS_UNREACHABLE,
                       "another process has the data directory, and no broker "
                       "answers at its " CONTROL_SOCKET
                       " (%s): it may be starting or ending",
                       call->why);
    if (call->status < 300)
        return STATUS_OK;
    say_detail(buf_slice(a->answer), call->status, why);
    return call->status == 401 || call->status == 404   ? STATUS_NOT_FOUND
           : call->status == 400 || call->status == 422 ? STATUS_INVALID
                                                        : STATUS_REFUSED;
}

static enum status
ask_broker(const char *data, const struct asked *a, struct problem *why)
{
    struct socket_path socket;
    struct blocking *calls = NULL;
    struct slice name = a->command ? a->command->name : SLICE("");
    enum status rc;

    /* A name that no token can have would change the path of the request. */
    if (!slice_is_of(name, "abcdefghijklmnopqrstuvwxyz0123456789._-"))
        return problem(why, STATUS_NOT_FOUND, "there is no token \"%s\"",
                       problem_quote(name).text);
    rc = socket_path_open(&socket, file_path("%s/" CONTROL_SOCKET, data).text,
                          why);
    if (rc)
        return rc;
    rc = blocking_open(
        &calls, &(struct blocking_options){.unix_socket = &socket.address},
        why);
    if (!rc)
        rc = perform(calls, a, why);
    blocking_close(calls);
    socket_path_close(&socket);
    return rc;
}

/* Without a broker */

/* Finds the principal of a JSON Web Token as a broker with these options would.
 */
static enum status
find_jwt(const struct asked *a, struct principal **found, struct problem *why)
{
    struct provider_settings *settings = NULL;
    struct identity_provider *provider;
    enum status rc = provider_options_check(&a->provider, why);

    if (!rc && !a->provider.keys[0])
        return problem(why, STATUS_INVALID,
                       "this is a JSON Web Token: without a running broker, "
                       "--jwt-keys, --jwt-issuer and --jwt-audience say which "
                       "ones count");
    if (!rc)
        rc = provider_settings_read(&settings, &a->provider, why);
    if (rc)
        return rc;
    provider = identity_provider_new(a->public_url);
    identity_provider_use(provider, settings);
    identity_provider_await(provider);
    *found = identity_provider_find(provider, a->bearer, clock_now_us());
    if (!*found)
        rc = problem(why, STATUS_NOT_FOUND,
                     "the JSON Web Token does not count: its key, signature, "
                     "issuer, audience or time is wrong");
    identity_provider_free(provider);
    return rc;
}

/* Refuses to change the tokens of a cluster here: the other brokers would not
 * get the change. */
static enum status
check_alone(const char *data, struct tokens *tokens, struct problem *why)
{
    struct journal_place place;
    bool are_shared = false;
    enum status rc = tokens_look_shared(tokens, &are_shared, why);

    if (rc || !are_shared)
        return rc;
    rc = store_read_place(data, &place, why);
    if (!rc && journal_place_is_set(&place))
        rc = problem(why, STATUS_CONFLICT,
                     "the tokens in %s are those of a cluster: start its "
                     "broker and repeat this, or do it at another broker",
                     data);
    return rc;
}

/* Has the store remember that the broker is closed, or forget it. */
static enum status
set_guard(void *data, bool is_on, struct problem *why)
{
    const struct act act = {.kind = ACT_GUARD, .guard = {is_on}};
    const struct commit commit = {
        .at_us = clock_now_us(), .acts = &act, .n = 1};
    struct engine *engine = NULL;
    atomic_size_t forms = 0;
    bool is_more;
    enum status rc = store_open(&engine, data, &forms, why);

    if (rc)
        return rc;
    rc = engine->ops->commit(engine, &commit, &is_more, why);
    engine->ops->close(engine);
    return rc;
}

static enum status
do_it_here(const char *data, const struct asked *a, struct problem *why)
{
    const struct token_command *c = a->command;
    struct tokens *tokens = NULL;
    struct principal *p = NULL;
    enum status rc = tokens_open(&tokens, data, why);

    if (!rc)
        tokens_guard(tokens, set_guard, (void *)(uintptr_t)data);
    if (!rc &&
        (a->opens_again || (c && c->act != TOKEN_LIST && c->act != TOKEN_SHOW)))
        rc = check_alone(data, tokens, why);
    if (!rc && a->opens_again)
        rc = tokens_open_again(tokens, why);
    else if (!rc && c)
        rc = token_json_run(tokens, c, a->answer, why);
    else if (!rc && jwt_is_like(a->bearer))
        rc = find_jwt(a, &p, why);
    else if (!rc)
        p = tokens_find(tokens, a->bearer, clock_now_us());
    if (p)
        token_json_self(a->answer, p);
    else if (!rc && !c && !a->opens_again)
        rc = problem(why, STATUS_NOT_FOUND,
                     "the token is unknown, or has expired");
    principal_unref(p);
    tokens_close(tokens);
    return rc;
}

/* Only a new token makes the directory. */
static enum status
ask(const char *data, const struct asked *a, struct problem *why)
{
    bool makes = a->command && a->command->act == TOKEN_ADD;
    int lock = -1;
    enum status rc = STATUS_OK;

    umask(S_IRWXG | S_IRWXO);
    if (makes)
        rc = file_make_dirs(data, why);
    else if (access(data, F_OK))
        rc =
            problem(why, STATUS_NOT_FOUND,
                    "there is no data directory \"%s\": --data names it", data);
    if (!rc)
        rc = file_lock(data, &lock, why);
    if (rc == STATUS_BUSY && !a->opens_again)
        return ask_broker(data, a, why);
    if (!rc)
        rc = do_it_here(data, a, why);
    file_close(&lock);
    return rc;
}

/* Printing */

static void
print_time(int64_t us)
{
    char text[DATETIME_SIZE];

    if (us <= 0 || us == INT64_MAX)
        printf("%-20s  ", "never");
    else
        printf("%.*sZ  ", (int)strlen("2026-11-22T12:00:00"),
               (datetime_write(text, us), text));
}

static void
print_rights(FILE *to, const struct rights *rights)
{
    const char *before = "";

    for (unsigned bit = RIGHT_PUBLISH; bit <= RIGHT_MANAGE; bit <<= 1) {
        const char *patterns =
            rights_patterns((struct rights *)rights, (enum right)bit);

        if (!patterns[0])
            continue;
        fprintf(to, "%s%s %s", before, rights_word((enum right)bit), patterns);
        before = "; ";
    }
    if (rights->observe) {
        fprintf(to, "%sobserve", before);
        before = "; ";
    }
    if (rights->admin)
        fprintf(to, "%sadmin", before);
    fputc('\n', to);
}

static void
print_view(const struct token_view *view, struct slice text, void *user)
{
    size_t *n = user;

    (void)text;
    if (!(*n)++)
        printf("%-20s  %-8s %-20s  %-20s  %s\n", "NAME", "STATE", "LAST USE",
               "EXPIRES", "RIGHTS");
    printf("%-20s  %-8s ", view->terms.name,
           view->terms.ends_us > clock_now_us() ? "active" : "expired");
    print_time(view->used_us);
    print_time(view->terms.ends_us);
    print_rights(stdout, &view->terms.rights);
}

/* The token alone goes to standard output, so that scripts can take it. */
static void
print_new(const struct token_view *view, struct slice text, void *user)
{
    (void)user;
    if (text.size)
        printf("%.*s\n", SLICE_ARG(text));
    fflush(stdout);
    fprintf(stderr, "%s may now: ", view->terms.name);
    print_rights(stderr, &view->terms.rights);
    if (text.size)
        fprintf(stderr, "Keep the token: nothing shows it again.\n");
}

/* Commands */

/* Runs the command and prints its answer with `print`. `command` NULL: opens
 * the broker again. */
static enum exit_code
finish(const struct arguments *given, const struct token_command *command,
       token_shown_fn *print)
{
    const struct values *values = given->values;
    struct problem why = {""};
    struct buf answer = {.max = TOKENS_JSON_MAX};
    struct asked a = {
        .command = command, .opens_again = !command, .answer = &answer};
    size_t n = 0;
    enum status rc = ask(values->data, &a, &why);

    if (!rc && answer.failed)
        rc = problem_memory(&why);
    if (!rc && print && values->is_json)
        printf("%.*s", SLICE_ARG(buf_slice(&answer)));
    else if (!rc && print)
        rc = token_json_read(buf_slice(&answer), print, &n, &why);
    if (!rc && print == print_view && !values->is_json && !n)
        printf("There is no token: the broker is open to its own machine, or "
               "stays closed if it had one (tidingsd token open-again).\n");
    if (answer.data)
        OPENSSL_cleanse(answer.data, answer.size);
    buf_fini(&answer);
    return rc ? command_fail(given, rc, &why) : EXIT_GOOD;
}

static enum exit_code
run_add(const struct arguments *given)
{
    struct values *values = given->values;
    struct token_terms terms = {.ends_us = INT64_MAX};
    struct token_command command = {.act = TOKEN_ADD};
    struct problem why = {""};
    struct buf json = {.max = TOKEN_JSON_MAX};
    enum status rc = STATUS_OK;
    enum exit_code result;

    snprintf(terms.name, sizeof(terms.name), "%s", given->operands[0]);
    if (strlen(given->operands[0]) > TOKEN_NAME_MAX)
        return command_fail(given,
                            problem(&why, STATUS_INVALID,
                                    "the name has more than %d characters",
                                    TOKEN_NAME_MAX),
                            &why);
    for (unsigned bit = RIGHT_PUBLISH; !rc && bit <= RIGHT_MANAGE; bit <<= 1)
        rc = rights_add(
            &terms.rights, (enum right)bit,
            slice_of(rights_patterns(&values->rights, (enum right)bit)), &why);
    if (rc)
        return command_fail(given, rc, &why);
    terms.rights.observe = values->rights.observe;
    terms.rights.admin = values->rights.admin;
    memcpy(terms.certificate, values->certificate, sizeof(terms.certificate));
    if (values->span_us)
        terms.ends_us = clock_now_us() + values->span_us;
    token_json_write(&json, &terms);
    command.json = buf_slice(&json);
    result = finish(given, &command, print_new);
    buf_fini(&json);
    return result;
}

/* The commands that are an act, a name, and what to print of the answer. */
static enum exit_code
run_act(const struct arguments *given)
{
    static const struct {
        const struct command *command;
        enum token_act act;
        token_shown_fn *print;
    } acts[] = {{&token_list_command, TOKEN_LIST, print_view},
                {&token_show_command, TOKEN_SHOW, print_view},
                {&token_revoke_command, TOKEN_REVOKE, NULL},
                {&token_rotate_command, TOKEN_ROTATE, print_new}};
    const struct values *values = given->values;
    struct token_command command = {.grace_us = values->span_us};
    size_t i = 0;

    while (acts[i].command != given->command)
        i++;
    command.act = acts[i].act;
    if (given->n_operands)
        command.name = slice_of(given->operands[0]);
    return finish(given, &command, acts[i].print);
}

static enum exit_code
run_open_again(const struct arguments *given)
{
    enum exit_code result = finish(given, NULL, NULL);

    if (result == EXIT_GOOD)
        printf("From its next start on, the broker is open: who reaches it may "
               "publish.\n");
    return result;
}

/* token check */

static void
take_rights(const struct token_view *view, struct slice text, void *user)
{
    struct rights *rights = user;

    (void)text;
    *rights = view->terms.rights;
}

/* Reads the first line of a file. */
static enum status
read_token(const char *path, char *to, size_t size, struct problem *why)
{
    FILE *file = strcmp(path, "-") ? fopen(path, "re") : stdin;
    char *line;

    if (!file)
        return problem_errno(why, "cannot open", path);
    line = fgets(to, (int)size, file);
    if (file != stdin)
        fclose(file);
    if (!line)
        return problem(why, STATUS_INVALID, "%s has no token", path);
    to[strcspn(to, "\r\n")] = '\0';
    return STATUS_OK;
}

static enum exit_code
run_check(const struct arguments *given)
{
    const struct values *values = given->values;
    struct rights rights = {.observe = false};
    struct problem why = {""};
    char text[JWT_BYTES_MAX + 2];
    struct buf answer = {.max = TOKEN_JSON_MAX};
    struct asked a = {.answer = &answer,
                      .provider = {.keys = values->jwt_keys,
                                   .issuer = values->jwt_issuer,
                                   .audience = values->jwt_audience,
                                   .client = "",
                                   .scope = ""},
                      .public_url = values->public_url};
    enum right right = rights_named(given->operands[2]);
    bool may = false;
    enum status rc =
        right ? read_token(given->operands[0], text, sizeof(text), &why)
              : problem(&why, STATUS_INVALID,
                        "\"%s\" is no right: publish, subscribe, manage, "
                        "observe, admin are",
                        problem_quote(slice_of(given->operands[2])).text);

    if (!rc) {
        a.bearer = slice_of(text);
        rc = ask(values->data, &a, &why);
        OPENSSL_cleanse(text, sizeof(text));
    }
    if (!rc)
        rc = token_json_read(buf_slice(&answer), take_rights, &rights, &why);
    buf_fini(&answer);
    if (rc)
        return command_fail(given, rc, &why);
    may = rights_include(&rights, right, slice_of(given->operands[1]));
    printf("%s\n", may ? "yes" : "no");
    return may ? EXIT_GOOD : EXIT_FAILED;
}

/* Rows */

const struct command token_add_command = {
    .name = "token add",
    .operands = "NAME",
    .help = "Makes a token.",
    .more = "Whoever sends it (Authorization: Bearer TOKEN) has its rights. "
            "The first token closes the broker to requests without one; the "
            "name \"everyone\" gives rights to these. Works beside a running "
            "broker, too.\n",
    .examples =
        "tidingsd token add press --publish 'news-*' --manage 'news-*'\n"
        "tidingsd token add everyone --subscribe '*,!internal'\n",
    .options = OPTION_ROWS(add_rows),
    .run = run_add,
};

const struct command token_list_command = {
    .name = "token list",
    .help = "Lists all tokens, without their secrets.",
    .examples = "tidingsd token list --data /var/lib/tidings\n",
    .options = OPTION_ROWS(list_rows),
    .run = run_act,
};

const struct command token_show_command = {
    .name = "token show",
    .operands = "NAME",
    .help = "Shows one token, without its secret.",
    .examples = "tidingsd token show press\n",
    .options = OPTION_ROWS(list_rows),
    .run = run_act,
};

const struct command token_revoke_command = {
    .name = "token revoke",
    .operands = "NAME",
    .help = "Ends a token, and what acts for it.",
    .more = "The last one leaves the broker closed (token open-again).\n",
    .examples = "tidingsd token revoke press\n",
    .options = OPTION_ROWS(revoke_rows),
    .run = run_act,
};

const struct command token_rotate_command = {
    .name = "token rotate",
    .operands = "NAME",
    .help = "Makes a new secret for a token.",
    .examples = "tidingsd token rotate press --grace 1h\n",
    .options = OPTION_ROWS(rotate_rows),
    .run = run_act,
};

const struct command token_open_again_command = {
    .name = "token open-again",
    .help = "Opens a broker that was closed, and has no token any more.",
    .more = "A broker that had a token, or an identity provider, stays closed, "
            "also without them, without tokens.db, and after a restore. This "
            "makes it as before its first token. End the broker first.\n",
    .examples = "tidingsd token open-again --data /var/lib/tidings\n",
    .options = OPTION_ROWS(revoke_rows),
    .run = run_open_again,
};

const struct command token_check_command = {
    .name = "token check",
    .operands = "FILE SET RIGHT",
    .help = "Tells whether the token in a file has a right to a set.",
    .more = "The token is the first line of FILE (- is standard input), the "
            "right publish, subscribe, manage, observe or admin. Prints "
            "\"yes\" and ends with 0, or prints \"no\" and ends with 1. A "
            "running broker answers for itself, also for a JSON Web Token.\n",
    .examples = "tidingsd token check press.token news-sport publish\n",
    .options = OPTION_ROWS(check_rows),
    .run = run_check,
};
