/*
 * web_files.h - files for browsers, which are part of the program.
 *
 * tools/embed.cmake makes one struct web_file of each file in web/ that
 * CMakeLists.txt names. A row of documents.c gives a file its path, so a file
 * is a document as every other: with an ETag, conditions, ranges and HEAD.
 */
#pragma once

#include "proto/resourcesync/digest.h"

struct web_file {
    struct slice plain; /* terminated */
    struct slice gzip;  /* the same, compressed */
    struct digest tag;  /* SHA-256 of `plain` */
};

extern const struct web_file web_tidings_css;
extern const struct web_file web_tidings_js;
extern const struct web_file web_tidings_d_ts;

/* The console */
extern const struct web_file web_console_js, web_console_harvest_js,
    web_console_parts_js, web_console_readers_js, web_console_set_js,
    web_console_settings_js, web_console_sign_in_js, web_console_tokens_js,
    web_console_css, web_icon_svg;

/* The descriptions of all routes and streams (http/openapi.c) */
extern const struct web_file broker_http_openapi_json,
    broker_http_asyncapi_json;

/* The tables of the outbox, for tidingsd postgresql init */
extern const struct web_file broker_commands_outbox_sql;

/* The records of OAI-PMH, and answers made of them (oai.c) */
extern const struct web_file broker_documents_oai_fold_sql,
    broker_documents_oai_answer_sql;
