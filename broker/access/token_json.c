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

    buf_add_format(to, ",\"%s\":[", rights_word(right));
    while (rest.size) {
        json_separate(to, ",");
        json_text(to, slice_take(&rest, ' '));
    }
    BUF_ADD(to, "]");
}

/* `certificate` may be "". */
static void
add_terms(struct buf *to, const char *name, const struct rights *rights,
          int64_t ends_us, const char *certificate)
{
    BUF_ADD(to, "{\"name\":");
    json_text(to, slice_of(name));
    add_patterns(to, RIGHT_PUBLISH, rights->publish);
    add_patterns(to, RIGHT_SUBSCRIBE, rights->subscribe);
    add_patterns(to, RIGHT_MANAGE, rights->manage);
    json_flag_member(to, "observe", rights->observe);
    json_flag_member(to, "admin", rights->admin);
    json_time_member(to, "expires", ends_us);
    if (certificate[0])
        json_text_member(to, "certificate", slice_of(certificate));
}

void
token_json_write(struct buf *to, const struct token_terms *terms)
{
    add_terms(to, terms->name, &terms->rights, terms->ends_us,
              terms->certificate);
    BUF_ADD(to, "}\n");
}

void
token_json_self(struct buf *text, const struct principal *p)
{
    add_terms(text, p->name[0] ? p->name : PRINCIPAL_EVERYONE, &p->rights,
              atomic_load(&p->authority.ends_us), "");
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
    s->n++;
    json_separate(to, ",\n");
    add_terms(to, view->terms.name, &view->terms.rights, view->terms.ends_us,
              view->terms.certificate);
    if (view->id[0])
        json_text_member(to, "id", slice_of(view->id));
    json_time_member(to, "created", view->created_us);
    json_time_member(to, "used", view->used_us);
    json_text_member(to, "state",
                     view->terms.ends_us > clock_now_us() ? SLICE("active")
                                                          : SLICE("expired"));
    if (s->secret[0])
        json_text_member(to, "token", slice_of(s->secret));
    BUF_ADD(to, "}");
    return to->failed ? STATUS_MEMORY : STATUS_OK;
}

/* Reading */

#define AT(member) offsetof(struct token_view, member)

static const struct member {
    const char *name;
    const char *form; /* "a list of patterns" */
    size_t at;        /* of a time or a flag; in struct token_view */
    bool is_asked;    /* part of a request */
} members[] = {
    {"name", "a string, such as \"shop\"", 0, true},
    {"publish", "a list of patterns, such as [\"news-*\"]", 0, true},
    {"subscribe", "a list of patterns, such as [\"news-*\"]", 0, true},
    {"manage", "a list of patterns, such as [\"news-*\"]", 0, true},
    {"observe", "true or false", AT(terms.rights.observe), true},
    {"admin", "true or false", AT(terms.rights.admin), true},
    {"expires", "a string, such as \"2027-01-01\"", AT(terms.ends_us), true},
    {"certificate", "a string, the SHA-256 of a certificate", 0, true},
    {"id", "a string", 0, false},
    {"created", "a string", AT(created_us), false},
    {"used", "a string", AT(used_us), false},
    {"state", "a string", 0, false},
    {"token", "a string", 0, false},
};

/* A request has some of the members; an answer has all rights. */
static void
write_shape(const struct json_shape *shape, struct buf *to)
{
    bool is_answer = shape == &token_shape;

    for (size_t i = 0; i < N_ELEMENTS(members); i++) {
        const struct member *m = &members[i];
        enum right right = rights_named(m->name);
        bool is_there = !i || (is_answer && right);

        if (is_answer || m->is_asked)
            buf_add_format(to, "%s%s %s, ", m->name, is_there ? "" : "?",
                           !right                   ? "string"
                           : right & RIGHTS_OF_SETS ? "[string]"
                                                    : "flag");
    }
}

const struct json_shape token_shape = {"Token", "A token and its rights",
                                       .write = write_shape};

const struct json_shape token_request_shape = {
    "TokenRequest", "A token that is to be made", .write = write_shape};

const struct json_shape tokens_shape = {"Tokens", "All tokens, or one",
                                        "tokens [Token]"};

struct reading {
    bool is_answer;    /* made by on_view; else a request */
    unsigned depth;    /* 1: in the object; 2: in an array of patterns */
    bool is_in_tokens; /* in the array of {"tokens":[...]} */
    const struct member *member;
    unsigned given; /* bits of `members` */
    struct token_view view;
    struct slice text;
    token_shown_fn *fn;
    void *user;
};

static enum status
take_member(struct reading *r, struct slice name, struct problem *why)
{
    size_t i = 0;

    while (i < N_ELEMENTS(members) && (!slice_is(name, members[i].name) ||
                                       !(members[i].is_asked || r->is_answer)))
        i++;
    if (i == N_ELEMENTS(members))
        return problem(why, STATUS_INVALID, "\"%s\" is no member of a token",
                       problem_quote(name).text);
    if (r->given & 1u << i)
        return problem(why, STATUS_INVALID, "%s: is there twice",
                       members[i].name);
    r->given |= 1u << i;
    r->member = &members[i];
    return STATUS_OK;
}

static enum status
take_text(struct reading *r, struct slice text, struct problem *why)
{
    struct token_view *view = &r->view;
    const char *name = r->member->name;

    if (r->member->at)
        return datetime_read_any(text,
                                 (int64_t *)((char *)view + r->member->at))
                   ? problem(
                         why, STATUS_INVALID,
                         "%s: \"%s\" is no W3C datetime, such as 2027-01-01",
                         name, problem_quote(text).text)
                   : STATUS_OK;
    if (!strcmp(name, "name")) {
        if (text.size > TOKEN_NAME_MAX && !r->is_answer)
            return problem(why, STATUS_INVALID,
                           "name: has more than %d characters", TOKEN_NAME_MAX);
        /* The name of a JSON Web Token's holder may be longer. */
        if (text.size > TOKEN_NAME_MAX)
            text.size = TOKEN_NAME_MAX;
        memcpy(view->terms.name, text.data, text.size);
        view->terms.name[text.size] = '\0';
    } else if (!strcmp(name, "id") && text.size < sizeof(view->id)) {
        memcpy(view->id, text.data, text.size);
    } else if (!strcmp(name, "certificate")) {
        return token_certificate_read(view->terms.certificate, text, why);
    } else if (!strcmp(name, "token")) {
        r->text = text;
    }
    return STATUS_OK;
}

static enum status
take_value(struct reading *r, enum json_event event, struct slice text,
           struct problem *why)
{
    enum right right = rights_named(r->member->name);
    bool is_list = (right & RIGHTS_OF_SETS) != 0;

    if (r->depth == 2 && event == JSON_STRING)
        return rights_add(&r->view.terms.rights, right, text, why);
    if (is_list && event == (r->depth == 1 ? JSON_ARRAY : JSON_ARRAY_END)) {
        r->depth = 3 - r->depth;
        return STATUS_OK;
    }
    if (!right && event == JSON_STRING)
        return take_text(r, text, why);
    if (right && !is_list && event == JSON_OTHER && !slice_is(text, "null")) {
        *((bool *)((char *)&r->view + r->member->at)) = slice_is(text, "true");
        return STATUS_OK;
    }
    return problem(why, STATUS_INVALID, "%s: is %s", r->member->name,
                   r->member->form);
}

static enum status
on_event(void *user, enum json_event event, struct slice text,
         struct problem *why)
{
    static const char form[] = "a token is a JSON object: {\"name\":...}";
    struct reading *r = user;

    if (r->depth == 0 && event == JSON_OBJECT) {
        r->depth = 1;
        r->given = 0;
        r->text = SLICE("");
        r->view = (struct token_view){.terms = {.ends_us = INT64_MAX}};
    } else if (r->depth == 0) { /* the ends of {"tokens":[...]} */
        if (!r->is_in_tokens ||
            (event != JSON_ARRAY_END && event != JSON_OBJECT_END))
            return problem(why, STATUS_INVALID, "%s", form);
    } else if (event == JSON_OBJECT_END) {
        if (r->fn)
            r->fn(&r->view, r->text, r->user);
        r->depth = r->is_in_tokens ? 0 : 1;
    } else if (event == JSON_KEY) {
        if (!r->is_answer || r->given || !slice_is(text, "tokens"))
            return take_member(r, text, why);
        r->is_in_tokens = true;
    } else if (r->given) {
        return take_value(r, event, text, why);
    } else if (event == JSON_ARRAY) { /* of {"tokens":[...]} */
        r->depth = 0;
    } else {
        return problem(why, STATUS_INVALID, "%s", form);
    }
    return STATUS_OK;
}

enum status
token_json_read(struct slice json, token_shown_fn *fn, void *user,
                struct problem *why)
{
    struct reading r = {.is_answer = true, .fn = fn, .user = user};

    return json_parse_text(json, on_event, &r, why);
}

enum status
token_json_run(struct tokens *tokens, const struct token_command *command,
               struct buf *text, struct problem *why)
{
    struct reading r = {.is_answer = false};
    struct showing s = {.text = text, .name = command->name};
    char secret[TOKEN_TEXT_SIZE] = "";
    bool is_one;
    enum status rc = STATUS_OK;

    switch (command->act) {
    case TOKEN_ADD:
        rc = json_parse_text(command->json, on_event, &r, why);
        if (!rc)
            rc = tokens_add(tokens, command->by, &r.view.terms, secret, why);
        s.name = slice_of(r.view.terms.name);
        break;
    case TOKEN_ROTATE:
        rc = tokens_rotate(tokens, command->by, command->name,
                           command->grace_us, secret, why);
        break;
    case TOKEN_REVOKE:
        return tokens_revoke(tokens, command->by, command->name, why);
    case TOKEN_LIST:
        s.name = (struct slice){NULL, 0};
        break;
    case TOKEN_SHOW:
        break;
    }
    s.secret = secret;
    is_one = s.name.size && secret[0];
    if (!rc) {
        /* One token as an object, all as {"tokens":[...]}. */
        if (!is_one)
            BUF_ADD(text, "{\"tokens\":[");
        rc = tokens_each(tokens, on_view, &s);
        if (!is_one)
            BUF_ADD(text, "]}");
        BUF_ADD(text, "\n");
        if (!rc && s.name.size && !s.n)
            rc = problem(why, STATUS_NOT_FOUND, "there is no token \"%s\"",
                         problem_quote(s.name).text);
        else if (rc || text->failed)
            rc = problem_memory(why);
    }
    OPENSSL_cleanse(secret, sizeof(secret));
    return rc;
}
