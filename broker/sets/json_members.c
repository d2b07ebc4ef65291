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
refuse_unknown(const struct json_members *m, struct slice name,
               struct problem *why)
{
    struct suggestion meant;

    suggest_begin(&meant, name);
    for (size_t i = 0; i < m->n; i++)
        suggest_consider(&meant, name_of(m, i));
    return problem(
        why, STATUS_INVALID, "\"%s\" is no %s%s%s%s", problem_quote(name).text,
        m->what, meant.nearest ? "; is \"" : "",
        meant.nearest ? meant.nearest : "", meant.nearest ? "\" meant?" : "");
}

static enum status
take_name(struct reading *r, struct slice name, struct problem *why)
{
    const struct json_members *m = r->members;

    if (m->alias[0] && slice_is(name, m->alias[0]))
        name = slice_of(m->alias[1]);
    for (r->i = 0; r->i < m->n && !slice_is(name, name_of(m, r->i));)
        r->i++;
    if (r->i == m->n)
        return refuse_unknown(m, name, why);
    if (*r->named & 1u << r->i)
        return problem(why, STATUS_INVALID, "%s: is there twice",
                       name_of(m, r->i));
    *r->named |= 1u << r->i;
    return STATUS_OK;
}

static enum status
on_event(void *user, enum json_event event, struct slice text,
         struct problem *why)
{
    struct reading *r = user;

    if (!r->is_object) {
        r->is_object = true;
        return event == JSON_OBJECT
                   ? STATUS_OK
                   : problem(why, STATUS_INVALID, "%s", r->members->form);
    }
    if (event == JSON_OBJECT_END)
        return STATUS_OK; /* the only one: an object is no value */
    return event == JSON_KEY
               ? take_name(r, text, why)
               : r->members->take(r->user, r->i, event, text, why);
}

enum status
json_members_read(const struct json_members *members, struct slice text,
                  void *user, unsigned *named, struct problem *why)
{
    struct reading r = {.members = members, .user = user, .named = named};

    return json_parse_text(text, on_event, &r, why);
}
