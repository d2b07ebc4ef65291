/*
 * route_table.h - the routes: one row for each method of each path, with the
 * bodies that it takes and the statuses that it answers with.
 *
 * By its row the router (routes.h) refuses requests that a route does not
 * accept: for a set that does not exist, or an impossible name, with a body of
 * another media type or coding, or with a body that is too large. Debug builds
 * check the status of every answer against the row. doc/http.md is the output
 * of route_table_print.
 */
#pragma once

#include "broker/access/rights.h"
#include "broker/config/config.h"
#include "broker/http/routes.h"

/* The meaning of {set} or {relay} in a path. */
enum route_of {
    OF_NOTHING,
    OF_SET,     /* a set that exists */
    OF_NEW_SET, /* a name that a set can have */
    OF_RELAY    /* a name that a relay can have */
};

/* A body that a route takes. */
struct route_body {
    const char *types;  /* media types, ", " between; "any"; NULL: the route
                           ignores the body */
    const char *option; /* the option for the largest size; NULL: `bytes` */
    size_t member;      /* of struct config: the value of the option */
    uint64_t bytes;
    const char *coding;  /* the only Content-Encoding; NULL: none */
    const char *prefix;  /* of the first body: a request with a field that
                            begins so may have any other media type, or none */
    bool is_optional;    /* the body may be missing */
    bool needs_length;   /* chunked is not enough */
    handler_fn *handler; /* of such a body; NULL: the route's */
    const char *schema;  /* of JSON, or of a form: its name; or NULL */
};

#define ROUTE_BODIES 2

/* A status that a route answers with. */
struct route_status {
    unsigned status;
    const char *what; /* below 400 the content of the answer, else the reason */
    const char *schema; /* of JSON in it: its name; or NULL */
};

#define ROUTE_STATUSES 12

struct route {
    enum method method; /* METHOD_GET: HEAD, too */
    const char *path;   /* NULL: each of the documents (documents.h) */
    handler_fn *handler;
    enum route_of of;
    int act;                /* for the handler: see route_call */
    const char *does;       /* a summary: verb and object */
    unsigned rights;        /* bits of enum right, one of which is needed for
                               the set or relay of the path, or for any; 0:
                               none, or its handler asks */
    bool is_publisher;      /* on an open broker only for clients that may
                               publish (answers_may_publish) */
    bool is_probe;          /* answers by any name (Host), and what a proxy
                               sends: for monitors that know an address alone */
    bool is_stream;         /* a WebSocket may begin here */
    bool has_positions;     /* its parameters name positions: a copy that may
                               lack them waits (postponement.h) */
    uint32_t effort;        /* units that it may cost in a turn (effort.h); 0:
                               little, or its documents have their own */
    unsigned rejected;      /* enum metric of refusals, by status; 0: none */
    const char *parameters; /* of the query, ", " between; or NULL */
    const char *secrets;    /* those of them that may hold a secret: the access
                               log shows none of these; or NULL */
    const char
        *fields; /* of the head that matter here, ", " between; or NULL */
    struct route_body bodies[ROUTE_BODIES];
    struct route_status statuses[ROUTE_STATUSES]; /* of its own code; see also
                                                     route_may_answer */
};

extern const struct route route_table[];
extern const size_t route_table_size;

/* The row of all documents. */
extern const struct route route_documents;

/* The rights of a document, like route.rights. */
struct document_found;
unsigned route_document_rights(const struct document_found *document);

/* The methods of a row: for GET "GET, HEAD". */
const char *route_method(enum method method);

/* For request.may_answer: true if the handler of the struct route, or the
 * router by its row, may answer with this status. */
bool route_may_answer(const void *row, unsigned status);

/* True if the handler of the route, or the router by its row, refuses requests
 * with this status. Statuses that any route may have are not among them. */
bool route_refuses(const struct route *route, unsigned status);

/* The handler's own reason for a status; NULL: it has none. */
const char *route_reason(const struct route *route, unsigned status);

/* The statuses that the router and the HTTP reader answer with, in order. A
 * status may have several rows. `where`: "any", or a part that its route has:
 * "a right", "a body", "{set}". */
extern const struct route_refusal {
    unsigned status;
    const char *where, *when;
} route_refusals[];

extern const size_t route_refusals_size;

/* True if a body is accepted, also to be ignored. */
bool route_takes_body(const struct route *route);

/* Prints the table as Markdown: all routes, all documents, and the statuses
 * that any of them may have. */
void route_table_print(FILE *to);

/* Descriptions (openapi.c) */

/* The most bytes of one; some 180,000. */
#define OPENAPI_MAX ((size_t)1 << 20)

/* Appends the description of all routes in OpenAPI 3.1, and of all streams in
 * AsyncAPI 3.0. */
void route_table_openapi(struct buf *to);
void route_table_asyncapi(struct buf *to);

/* Appends the schemas that `users` or `to` name, and those that these name
 * (schemas.c): "NAME":{...},... */
void schemas_write(struct buf *to, struct slice users);
