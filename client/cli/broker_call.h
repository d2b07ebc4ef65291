/*
 * broker_call.h - requests to a broker whose answers are JSON.
 *
 *   GET /sets          {"sets":[{...},{...}],"next":"http://.../sets?after=z"}
 *   GET /sets?after=z  {"sets":[{...}]}
 *
 * The broker may be slow, silent or hostile. A request ends after 120 seconds
 * of silence; an answer of more than 32 MB, or of anything but JSON, is an
 * error. A list is handed over page by page; the caller prints each object at
 * once, so a list without an end costs no memory. If a page is empty and names
 * a next one, or names itself, that is an error. Requests go to the server of
 * the user's URL only: of a `next` the query alone counts.
 */
#pragma once

#include "client/cli/cli.h"

/* --json: an object of the broker a line; the broker's JSON. --yes: does not
 * ask. */
extern const struct options rows_options, json_options, yes_options;

struct broker_call {
    struct td_client *client;
    char *url;           /* whole */
    unsigned status;     /* of the last answer */
    struct buf json;     /* of the last answer: one valid value, or empty */
    bool takes_refusals; /* 401 and 403 are no failures: see `status` */
    bool takes_text;     /* any answer of 2xx is good; `json` stays empty */
    enum exit_code code; /* not EXIT_GOOD: the first failure; it was printed,
                            and the functions below do nothing */
};

/* Opens a handle, for requests to `url`, a broker's, a set's or a relay's, with
 * `path` behind it. */
void broker_call_begin(struct broker_call *call,
                       const struct arguments *arguments, const char *url,
                       const char *path);

/* Frees it, and returns its code. */
enum exit_code broker_call_end(struct broker_call *call);

/* Sends a request without a body: GET, POST or DELETE. It fails if the answer
 * is no 2xx with JSON or without a body. */
void broker_call_send(struct broker_call *call, const char *method);

/* How a list is printed for people: a row of a table for each object. */
struct broker_call_rows {
    const char *name; /* of the list, in the answer */
    const struct table_column *columns;

    /* Adds the rows of an object; NULL: table_add. */
    void (*add)(struct table *table, struct slice object);
};

/* Prints a list, all pages: as a table or, `is_json`, an object a line. After a
 * failure it says that the list is not complete if it has printed a part. */
void broker_call_list(struct broker_call *call,
                      const struct broker_call_rows *rows, bool is_json);

/* Prints the last answer: all values in lines NAME VALUE or, `is_json`, the
 * object in a line. */
void broker_call_show(struct broker_call *call, bool is_json);
