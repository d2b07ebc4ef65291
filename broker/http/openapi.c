/*
 * openapi.c - the descriptions of all routes in OpenAPI 3.1, and of all streams
 * and the topics of a bridge in AsyncAPI 3.0.
 *
 *     tidingsd --openapi > broker/http/openapi.json
 *     tidingsd --asyncapi > broker/http/asyncapi.json
 *
 * The build embeds both files, so the broker serves them as documents that cost
 * no memory: GET /openapi.json. A test compares them.
 *
 * The first part of each file is written by hand, and copied from there:
 * parameters by "query.NAME", "header.NAME", "path.NAME"; the channels of
 * streams, with what the broker sends and receives. The rest is made anew from
 * the same rows as the tables of doc/http.md (route_table.h, documents.h):
 *
 *     responses   what any route may refuse
 *     schemas     the members of JSON and of forms (schemas.c)
 *     paths       each path of both tables, with its methods
 */
#include <assert.h>
#include <ctype.h>

#include "broker/documents/documents.h"
#include "broker/documents/web_files.h"
#include "broker/http/route_table.h"
#include "proto/http/response_head.h"
#include "proto/input/event_read.h"
#include "proto/resourcesync/json.h"

/* Parameters */

static void
write_reference(struct buf *to, const char *in, struct slice name)
{
    json_separate(to, ",");
    buf_add_format(to, "{\"$ref\":\"#/components/parameters/%s.%.*s\"}", in,
                   SLICE_ARG(name));
}

static void
write_references(struct buf *to, const struct route *route, const char *path)
{
    struct slice query = slice_of(route->parameters ? route->parameters : "");
    struct slice head = slice_of(route->fields ? route->fields : "");

    BUF_ADD(to, "\"parameters\":[");
    for (const char *hole = path; (hole = strchr(hole, '{')); hole++)
        write_reference(to, "path",
                        (struct slice){hole + 1, strcspn(hole + 1, "}")});
    while (query.size > 0)
        write_reference(to, "query", slice_trimmed(slice_take(&query, ',')));
    while (head.size > 0) {
        struct slice name = slice_trimmed(slice_take(&head, ','));

        if (!slice_is(name, "Accept"))
            write_reference(to, "header", name);
    }
    BUF_ADD(to, "],");
}

/* Bodies and answers */

/* Members of "content": the media types of "a, b". `all` may be NULL. Beside a
 * content without a schema a generator has no use for the others. */
static void
write_types(struct buf *to, struct slice types, const char *all)
{
    while (types.size > 0) {
        struct slice type = slice_trimmed(slice_take(&types, ','));
        /* A shape describes the members of JSON and of forms. */
        bool has_members = slice_ends(type, "/json") ||
                           slice_ends(type, "+json") ||
                           slice_is(type, "application/x-www-form-urlencoded");
        const char *schema =
            !has_members                                          ? NULL
            : !event_read_is_structured(type)                     ? all
            : slice_starts(type, "application/cloudevents-batch") ? "Events"
                                                                  : "Event";

        json_separate(to, ",");
        buf_add_format(to, "\"%.*s\":{", SLICE_ARG(type));
        if (schema)
            buf_add_format(to,
                           "\"schema\":{\"$ref\":\"#/components/schemas/%s\"}",
                           schema);
        else if (!slice_is(type, "*/*") && !has_members)
            BUF_ADD(to, "\"schema\":{\"type\":\"string\"}");
        BUF_ADD(to, "}");
    }
}

static void
write_body(struct buf *to, const struct route *route)
{
    struct buf text = {.max = 4096};

    if (!route_takes_body(route))
        return;
    BUF_ADD(to, "\"requestBody\":{\"content\":{");
    for (size_t i = 0; i < ROUTE_BODIES; i++) {
        const struct route_body *body = &route->bodies[i];
        bool is_any = !body->types || !strcmp(body->types, "any");

        if (i > 0 && !body->types)
            break;
        write_types(to, slice_of(is_any ? "*/*" : body->types), body->schema);
        /* How large it may be */
        buf_add_format(&text, "%s%s: ", i ? "; " : "",
                       !body->types ? "ignored"
                       : is_any     ? "any other type"
                                    : body->types);
        if (body->option)
            buf_add_format(&text, "at most `%s` bytes", body->option);
        else
            buf_add_format(&text, "at most %" PRIu64 " bytes", body->bytes);
        if (body->coding)
            buf_add_format(&text, ", also in %s", body->coding);
        if (body->needs_length)
            BUF_ADD(&text, ", with Content-Length");
    }
    buf_add_format(
        to, "},\"required\":%s,\"description\":",
        route->bodies->types && !route->bodies->is_optional ? "true" : "false");
    json_text(to, buf_slice(&text));
    BUF_ADD(to, "},");
    buf_fini(&text);
}

/* The page of a document is for people. */
struct operation {
    const struct route *route;
    const char *path;
    const struct document_found *document; /* NULL: it is no document */
    unsigned rights;
    bool is_head;
};

static void
write_content(struct buf *to, const struct operation *op, const char *types,
              const char *schema)
{
    if (op->is_head)
        return;
    BUF_ADD(to, ",\"content\":{");
    write_types(to, slice_of(types), schema);
    BUF_ADD(to, "}");
}

static void
write_answer(struct buf *to, const struct operation *op,
             const struct route_status *s)
{
    char types[100];
    bool has_types = strchr(s->what, '/');

    buf_add_format(to, "\n   \"%u\":{\"description\":\"%s", s->status,
                   response_reason(s->status));
    if (s->what[0] && !has_types)
        buf_add_format(to, ": %s", s->what);
    BUF_ADD(to, "\"");
    if (op->document && s->status < 300) {
        snprintf(types, sizeof(types), "%.*s%s",
                 (int)strcspn(op->document->content_type, ";"),
                 op->document->content_type,
                 op->document->has_page ? ", text/html" : "");
        write_content(to, op, types, NULL);
    } else if (has_types) {
        write_content(to, op, s->what, s->schema);
    }
    BUF_ADD(to, "},");
}

#define PROBLEM                                 \
    "\"application/problem+json\":{\"schema\":" \
    "{\"$ref\":\"#/components/schemas/Problem\"}}"
#define PLAIN   "{\"schema\":{\"type\":\"string\"}}"
#define REFUSAL PROBLEM ",\"text/html\":" PLAIN

/* What the router says of a status; "": nothing. */
static const char *
general_reason(unsigned status)
{
    for (size_t i = 0; i < route_refusals_size; i++)
        if (route_refusals[i].status == status)
            return route_refusals[i].when;
    return "";
}

/* A reason of the row that begins so goes on from that of the router. */
#define ALSO "also "

static void
write_reason(struct buf *to, const char *own, unsigned status)
{
    bool is_also = slice_starts(slice_of(own), ALSO);
    struct buf text = {.max = 4096};

    buf_add_format(&text, "%s%s%s", is_also ? general_reason(status) : "",
                   is_also ? "; " : "", own);
    json_text(to, buf_slice(&text));
    buf_fini(&text);
}

static void
write_refusal(struct buf *to, const struct operation *op, unsigned status)
{
    const char *own = route_reason(op->route, status);
    bool is_hub = !strcmp(op->path, "/hub"); /* W-032 */

    buf_add_format(to, "\n   \"%u\":{", status);
    if (op->document) {
        buf_add_format(to, "\"$ref\":\"#/components/responses/document.%u\"},",
                       status);
        return;
    }
    if (!own && !is_hub) {
        buf_add_format(to, "\"$ref\":\"#/components/responses/%u\"},", status);
        return;
    }
    BUF_ADD(to, "\"description\":");
    write_reason(to, own ? own : general_reason(status), status);
    if (!op->is_head)
        buf_add_format(to, ",\"content\":{%s}",
                       is_hub ? "\"text/plain\":" PLAIN "," PROBLEM : REFUSAL);
    BUF_ADD(to, "},");
}

/* Operations */

static void
write_operation(struct buf *to, const struct operation *op, const char *method)
{
    const struct route_status *s = op->route->statuses;
    unsigned rights = strcmp(op->path, "/hub") != 0
                          ? op->rights
                          : RIGHT_PUBLISH | RIGHT_SUBSCRIBE;
    bool is_begin = true;
    char lower[8] = "";

    for (size_t i = 0; method[i]; i++)
        lower[i] = (char)tolower((unsigned char)method[i]);
    buf_add_format(to, "\n  \"%s\":{\"operationId\":\"%s", lower, lower);
    for (const char *path = op->path; *path; path++) {
        bool is_letter = isalnum((unsigned char)*path);

        if (is_letter)
            buf_add_format(to, "%c",
                           is_begin ? toupper((unsigned char)*path) : *path);
        is_begin = !is_letter;
    }
    BUF_ADD(to, "\",\"summary\":");
    json_text(to, slice_of(op->route->does ? op->route->does : ""));
    BUF_ADD(to, ",\"security\":[");
    if (rights)
        BUF_ADD(to, "{\"token\":[]},{}");
    BUF_ADD(to, "],\"x-rights\":[");
    rights_write(to, rights, "\"", ",");
    BUF_ADD(to, "],");
    write_references(to, op->route, op->path);
    write_body(to, op->route);
    BUF_ADD(to, "\"responses\":{");
    for (; s->status && s->status < 400; s++)
        write_answer(to, op, s);
    for (unsigned status = 400; status < 600; status++)
        if (route_refuses(op->route, status))
            write_refusal(to, op, status);
    BUF_ADD(to, "\n   \"default\":{\"$ref\":\"#/components/responses/any\"}}}");
}

/* A row of GET also answers HEAD. */
static void
write_methods(struct buf *to, struct operation op)
{
    write_operation(to, &op, method_name(op.route->method));
    if (op.route->method != METHOD_GET)
        return;
    BUF_ADD(to, ",");
    op.is_head = true;
    write_operation(to, &op, "HEAD");
}

static void
write_paths(struct buf *to)
{
    struct document_found row;
    const char *path = "";

    BUF_ADD(to, "\"paths\":{");
    for (size_t i = 0; i < route_table_size; i++) {
        const struct route *route = &route_table[i];

        if (!strcmp(route->path, path)) /* those of a path are neighbours */
            BUF_ADD(to, ",");
        else
            buf_add_format(to, "%s\n \"%s\":{", i ? "}," : "", route->path);
        path = route->path;
        write_methods(
            to, (struct operation){route, path, NULL, route->rights, false});
    }
    BUF_ADD(to, "}");
    for (size_t i = 0; (path = documents_row(i, &row)); i++) {
        buf_add_format(to, ",\n \"%s\":{", path);
        write_methods(to,
                      (struct operation){&route_documents, path, &row,
                                         route_document_rights(&row), false});
        BUF_ADD(to, "}");
    }
    BUF_ADD(to, "}");
}

/* One for each status of the router and the HTTP reader, and one for all of
 * them. */
static void
write_refusals(struct buf *to)
{
    unsigned last = 0;
    struct buf all = {.max = 16384};

    BUF_ADD(&all, "What the router and the HTTP reader refuse:");
    for (size_t i = 0; i < route_refusals_size; i++) {
        const struct route_refusal *refusal = &route_refusals[i];

        buf_add_format(&all, "\n\n- %u: %s", refusal->status, refusal->when);
        if (refusal->status == last)
            continue;
        last = refusal->status;
        buf_add_format(to, "\n\"%u\":{\"description\":", last);
        json_text(to, slice_of(refusal->when));
        BUF_ADD(to, ",\"content\":{" REFUSAL "}},");
    }
    for (unsigned status = 400; status < 600; status++) {
        const char *own = route_reason(&route_documents, status);

        if (!route_refuses(&route_documents, status))
            continue;
        buf_add_format(to, "\n\"document.%u\":{\"description\":", status);
        write_reason(to, own ? own : general_reason(status), status);
        BUF_ADD(to, ",\"content\":{" REFUSAL "}},");
    }
    BUF_ADD(to, "\n\"any\":{\"description\":");
    json_text(to, buf_slice(&all));
    BUF_ADD(to, ",\"content\":{" REFUSAL ",\"text/plain\":" PLAIN "}}},\n");
    buf_fini(&all);
}

/* Copies the part of a file that is written by hand, up to this name. */
static void
copy_begin(struct buf *to, const struct web_file *file, const char *name)
{
    struct slice text = file->plain;
    const char *end = memmem(text.data, text.size, name, strlen(name));

    assert(end);
    buf_add_slice(to, slice_between(text.data, end));
    buf_add_text(to, name);
}

void
route_table_openapi(struct buf *to)
{
    struct buf paths = {.max = OPENAPI_MAX};

    write_paths(&paths);
    copy_begin(to, &broker_http_openapi_json, "\"responses\":{");
    write_refusals(to);
    BUF_ADD(to, "\"schemas\":{");
    schemas_write(to, buf_slice(&paths));
    BUF_ADD(to, "}},\n");
    buf_add_slice(to, buf_slice(&paths));
    BUF_ADD(to, "}\n");
    buf_fini(&paths);
}

void
route_table_asyncapi(struct buf *to)
{
    copy_begin(to, &broker_http_asyncapi_json, "\"schemas\":{");
    schemas_write(to, SLICE(""));
    BUF_ADD(to, "}}}\n");
}
