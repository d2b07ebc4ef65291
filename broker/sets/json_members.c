#include "broker/sets/json_members.h"

#include "base/suggest.h"

struct reading {
    const struct json_members *members;
    void *user;
    unsigned *named;
    bool is_object;
    size_t i; /* the row of the next value */
};

static const char *
name_of(const struct json_members *m, size_t i)
{
    return *(const char *const *)((const char *)m->rows + i * m->row_size);
}

static enum status
on_event(void *user, enum json_event event, struct slice text,
         struct problem *why)
{
    struct reading *r = user;
    const struct json_members *m = r->members;
    struct suggestion meant;

    if (!r->is_object) {
        r->is_object = true;
        return event == JSON_OBJECT
                   ? STATUS_OK
                   : problem(why, STATUS_INVALID, "%s", m->form);
    }
    if (event == JSON_OBJECT_END)
        return STATUS_OK; /* the only one: an object is no value */
    if (event != JSON_KEY)
        return m->take(r->user, r->i, event, text, why);
    if (m->alias[0] && slice_is(text, m->alias[0]))
        text = slice_of(m->alias[1]);
    suggest_begin(&meant, text);
    for (r->i = 0; r->i < m->n && !slice_is(text, name_of(m, r->i)); r->i++)
        suggest_consider(&meant, name_of(m, r->i));
    if (r->i == m->n)
        return problem(why, STATUS_INVALID, "\"%s\" is no %s%s%s%s",
                       problem_quote(text).text, m->what,
                       meant.nearest ? "; is \"" : "",
                       meant.nearest ? meant.nearest : "",
                       meant.nearest ? "\" meant?" : "");
    if (*r->named & 1u << r->i)
        return problem(why, STATUS_INVALID, "%s: is there twice",
                       name_of(m, r->i));
    *r->named |= 1u << r->i;
    return STATUS_OK;
}

enum status
json_members_read(const struct json_members *members, struct slice text,
                  void *user, unsigned *named, struct problem *why)
{
    struct reading r = {.members = members, .user = user, .named = named};

    return json_parse_text(text, on_event, &r, why);
}
