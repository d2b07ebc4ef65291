#include "broker/access/token_json.h"

#include <openssl/crypto.h>

#include "base/clock.h"
#include "proto/json/json_parse.h"
#include "proto/resourcesync/json.h"

/* Writing */

/* "news !x" as ["news","!x"] */
static void
add_patterns(struct buf *to, enum right right, const char *patterns)
{
    struct slice rest = slice_of(patterns);
    const char *before = "";

    buf_add_format(to, ",\"%s\":[", rights_word(right));
    while (rest.size) {
        struct slice one = slice_take(&rest, ' ');

        buf_add_text(to, before);
        json_text(to, one);
        before = ",";
    }
    BUF_ADD(to, "]");
}

static void
add_time(struct buf *to, const char *name, int64_t us)
{
    char text[DATETIME_SIZE];

    if (us <= 0 || us == INT64_MAX)
        return;
    buf_add_format(to, ",\"%s\":\"%.*s\"", name,
                   (int)datetime_write_short(text, us), text);
}

static void
add_terms(struct buf *to, const char *name, const struct rights *rights,
          int64_t ends_us)
{
    BUF_ADD(to, "{\"name\":");
    json_text(to, slice_of(name));
    add_patterns(to, RIGHT_PUBLISH, rights->publish);
    add_patterns(to, RIGHT_SUBSCRIBE, rights->subscribe);
    add_patterns(to, RIGHT_MANAGE, rights->manage);
    buf_add_format(to, ",\"observe\":%s,\"admin\":%s",
                   rights->observe ? "true" : "false",
                   rights->admin ? "true" : "false");
    add_time(to, "expires", ends_us);
}

static void
add_certificate(struct buf *to, const struct token_terms *terms)
{
    if (terms->certificate[0])
        json_text_member(to, "certificate", slice_of(terms->certificate));
}

void
token_json_write(struct buf *to, const struct token_terms *terms)
{
    add_terms(to, terms->name, &terms->rights, terms->ends_us);
    add_certificate(to, terms);
    BUF_ADD(to, "}\n");
}

void
token_json_self(struct buf *text, const struct principal *p)
{
    add_terms(text, p->name[0] ? p->name : PRINCIPAL_EVERYONE, &p->rights,
              atomic_load(&p->authority.ends_us));
    BUF_ADD(text, "}\n");
}

/* Running */

struct showing {
    struct buf *text;
    struct slice name; /* empty: all */
    const char *secret;
    size_t n;
};

/* The newest token of a name is the last, and alone is new: then s->secret is
 * its text. */
static enum status
on_view(const struct token_view *view, void *user)
{
    struct showing *s = user;
    struct buf *to = s->text;
    bool is_new = s->secret[0] &&
                  !memcmp(s->secret + strlen("td_"), view->id, TOKEN_ID_SIZE);

    if ((s->name.size && !slice_is(s->name, view->terms.name)) ||
        (s->secret[0] && !is_new))
        return STATUS_OK;
    if (s->n++)
        BUF_ADD(to, ",\n");
    add_terms(to, view->terms.name, &view->terms.rights, view->terms.ends_us);
    add_certificate(to, &view->terms);
    if (view->id[0])
        json_text_member(to, "id", slice_of(view->id));
    add_time(to, "created", view->created_us);
    add_time(to, "used", view->used_us);
    json_text_member(to, "state",
                     view->terms.ends_us > clock_now_us() ? SLICE("active")
                                                          : SLICE("expired"));
    if (s->secret[0])
        json_text_member(to, "token", slice_of(s->secret));
    BUF_ADD(to, "}");
    return to->failed ? STATUS_MEMORY : STATUS_OK;
}

/* One token as an object, all as {"tokens":[...]}. */
static enum status
show(struct tokens *tokens, struct showing *s, struct problem *why)
{
    bool is_one = s->name.size && s->secret[0];
    enum status rc;

    if (!is_one)
        BUF_ADD(s->text, "{\"tokens\":[");
    rc = tokens_each(tokens, on_view, s);
    if (!is_one)
        BUF_ADD(s->text, "]}");
    BUF_ADD(s->text, "\n");
    if (!rc && s->name.size && !s->n)
        return problem(why, STATUS_NOT_FOUND, "there is no token \"%s\"",
                       problem_quote(s->name).text);
    return rc || s->text->failed ? problem_memory(why) : STATUS_OK;
}

/* Reading */

struct reading {
    bool is_answer;    /* made by on_view; else a request */
    unsigned depth;    /* 1: in the object; 2: in an array of patterns */
    bool is_in_tokens; /* in the array of {"tokens":[...]} */
    enum right right;  /* of the patterns */
    char member[16];
    unsigned given;
    struct token_view view;
    struct slice text;
    token_shown_fn *fn;
    void *user;
};

static const struct member {
    const char *name;
    bool is_asked; /* part of a request */
} members[] = {
    {"name", true},        {"publish", true}, {"subscribe", true},
    {"manage", true},      {"observe", true}, {"admin", true},
    {"expires", true},     {"id", false},     {"created", false},
    {"used", false},       {"state", false},  {"token", false},
    {"certificate", true},
};

#define N_MEMBERS N_ELEMENTS(members)

static enum status
take_member(struct reading *r, struct slice name, struct problem *why)
{
    size_t i = 0;

    while (i < N_MEMBERS && (!slice_is(name, members[i].name) ||
                             !(members[i].is_asked || r->is_answer)))
        i++;
    if (i == N_MEMBERS)
        return problem(why, STATUS_INVALID, "\"%s\" is no member of a token",
                       problem_quote(name).text);
    if (r->given & 1u << i)
        return problem(why, STATUS_INVALID, "%s: is there twice",
                       members[i].name);
    r->given |= 1u << i;
    memcpy(r->member, members[i].name, strlen(members[i].name) + 1);
    return STATUS_OK;
}

static enum status
take_time(struct reading *r, struct slice text, int64_t *us,
          struct problem *why)
{
    if (!datetime_read_any(text, us))
        return STATUS_OK;
    return problem(why, STATUS_INVALID, "%s: \"%s\" is no W3C datetime",
                   r->member, problem_quote(text).text);
}

static enum status
take_text(struct reading *r, struct slice text, struct problem *why)
{
    struct token_view *view = &r->view;

    if (!strcmp(r->member, "expires"))
        return take_time(r, text, &view->terms.ends_us, why);
    if (!strcmp(r->member, "created"))
        return take_time(r, text, &view->created_us, why);
    if (!strcmp(r->member, "used"))
        return take_time(r, text, &view->used_us, why);
    if (!strcmp(r->member, "name")) {
        if (text.size > TOKEN_NAME_MAX && !r->is_answer)
            return problem(why, STATUS_INVALID,
                           "name: has more than %d characters", TOKEN_NAME_MAX);
        /* The name of a JSON Web Token's holder may be longer. */
        if (text.size > TOKEN_NAME_MAX)
            text.size = TOKEN_NAME_MAX;
        memcpy(view->terms.name, text.data, text.size);
        view->terms.name[text.size] = '\0';
    } else if (!strcmp(r->member, "id") && text.size < sizeof(view->id)) {
        memcpy(view->id, text.data, text.size);
    } else if (!strcmp(r->member, "certificate")) {
        return token_certificate_read(view->terms.certificate, text, why);
    } else if (!strcmp(r->member, "token")) {
        r->text = text;
    }
    return STATUS_OK;
}

static enum status
take_value(struct reading *r, enum json_event event, struct slice text,
           struct problem *why)
{
    enum right right = rights_named(r->member);
    bool is_list = (right & RIGHTS_OF_SETS) != 0;
    bool is_true = slice_is(text, "true");

    if (r->depth == 2 && event == JSON_ARRAY_END) {
        r->depth = 1;
        return STATUS_OK;
    }
    if (r->depth == 2 && event == JSON_STRING)
        return rights_add(&r->view.terms.rights, r->right, text, why);
    if (r->depth == 1 && is_list && event == JSON_ARRAY) {
        r->right = right;
        r->depth = 2;
        return STATUS_OK;
    }
    if (r->depth == 1 && !right && event == JSON_STRING)
        return take_text(r, text, why);
    if (r->depth == 1 && right && !is_list && event == JSON_OTHER &&
        !slice_is(text, "null")) {
        *(right == RIGHT_ADMIN ? &r->view.terms.rights.admin
                               : &r->view.terms.rights.observe) = is_true;
        return STATUS_OK;
    }
    return problem(why, STATUS_INVALID, "%s: is %s", r->member,
                   is_list ? "a list of patterns"
                   : right ? "true or false"
                           : "a string");
}

static enum status
on_event(void *user, enum json_event event, struct slice text,
         struct problem *why)
{
    struct reading *r = user;

    if (r->depth == 0 && r->is_in_tokens && event == JSON_ARRAY_END)
        return STATUS_OK;
    if (r->depth == 0 && r->is_in_tokens && event == JSON_OBJECT_END)
        return STATUS_OK; /* behind the array */
    if (r->depth == 0 && event == JSON_OBJECT) {
        r->depth = 1;
        r->given = 0;
        r->text = SLICE("");
        r->view = (struct token_view){.terms = {.ends_us = INT64_MAX}};
        return STATUS_OK;
    }
    if (r->depth == 0)
        return problem(why, STATUS_INVALID,
                       "a token is a JSON object: {\"name\":...}");
    if (event == JSON_KEY && r->is_answer && !r->given &&
        slice_is(text, "tokens")) {
        r->is_in_tokens = true;
        return STATUS_OK;
    }
    if (r->is_in_tokens && !r->given && event == JSON_ARRAY) {
        r->depth = 0;
        return STATUS_OK;
    }
    if (event == JSON_OBJECT_END) {
        if (r->fn)
            r->fn(&r->view, r->text, r->user);
        r->depth = r->is_in_tokens ? 0 : 1;
        return STATUS_OK;
    }
    return event == JSON_KEY ? take_member(r, text, why)
                             : take_value(r, event, text, why);
}

enum status
token_json_read(struct slice json, token_shown_fn *fn, void *user,
                struct problem *why)
{
    struct reading r = {.is_answer = true, .fn = fn, .user = user};

    return json_parse_text(json, on_event, &r, why);
}

/* Makes the token of TOKEN_ADD, or the new secret of TOKEN_ROTATE, and shows
 * it.
 */
static enum status
run_making(struct tokens *tokens, const struct token_command *command,
           struct showing *s, struct problem *why)
{
    struct reading r = {.is_answer = false};
    char secret[TOKEN_TEXT_SIZE];
    enum status rc;

    if (command->act == TOKEN_ADD) {
        rc = json_parse_text(command->json, on_event, &r, why);
        if (!rc)
            rc = tokens_add(tokens, command->by, &r.view.terms, secret, why);
        s->name = slice_of(r.view.terms.name);
    } else {
        rc = tokens_rotate(tokens, command->by, command->name,
                           command->grace_us, secret, why);
    }
    if (rc)
        return rc;
    s->secret = secret;
    rc = show(tokens, s, why);
    OPENSSL_cleanse(secret, sizeof(secret));
    return rc;
}

enum status
token_json_run(struct tokens *tokens, const struct token_command *command,
               struct buf *text, struct problem *why)
{
    struct showing s = {.text = text, .name = command->name, .secret = ""};

    switch (command->act) {
    case TOKEN_ADD:
    case TOKEN_ROTATE:
        return run_making(tokens, command, &s, why);
    case TOKEN_REVOKE:
        return tokens_revoke(tokens, command->by, command->name, why);
    case TOKEN_LIST:
        s.name = (struct slice){NULL, 0};
        return show(tokens, &s, why);
    case TOKEN_SHOW:
        return show(tokens, &s, why);
    }
    return STATUS_INVALID;
}
