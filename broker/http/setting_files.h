/*
 * setting_files.h - the files that settings name: read at a reload and when
 * they change, and handed to the parts that use them.
 *
 * Each row of the table in setting_files.c is one content, in one file or in
 * files that belong together. A reload reads all of them before any part uses
 * one; a change (watched_files.h) concerns its row alone. A content that cannot
 * be used leaves the earlier one in use. Parts that use the earlier content,
 * such as connections, keep it until they end.
 *
 * Not here: the configuration file, which only SIGHUP reads again, and the
 * files of bridges, which these read for each connection.
 *
 * Only the thread that made it may call it.
 */
#pragma once

#include "broker/base/watched_files.h"
#include "broker/config/config.h"

struct identity;
struct identity_provider;
struct provider_options;
struct provider_settings;
struct server;
struct setting_files;

/* The contents of the files; NULL: the settings name none. */
struct setting_contents {
    struct identity *identity;                /* --tls-cert and --tls-key */
    struct stack_st_X509 *authorities;        /* --ca-file */
    struct stack_st_X509 *client_authorities; /* --tls-client-ca */
    struct provider_settings *provider;       /* --jwt-keys */
};

/* The options of the identity provider, lent by `config`. */
struct provider_options setting_files_provider(const struct config *config);

/* Reads all files that `config` names. A failure names the file, and leaves
 * nothing to be freed. */
MUST_CHECK enum status setting_contents_read(struct setting_contents *contents,
                                             const struct config *config,
                                             struct problem *why);
void setting_contents_free(struct setting_contents *contents);

/* Begins to watch the files that `config`, lent, names. */
struct setting_files *setting_files_new(const struct config *config);
void setting_files_free(struct setting_files *f); /* NULL is allowed */

/* `server`, lent, was opened with the files of its own, since
 * setting_files_new. Reads the others, and uses them for `server` and
 * `provider`, also lent. */
MUST_CHECK enum status setting_files_begin(struct setting_files *f,
                                           struct server *server,
                                           struct identity_provider *provider,
                                           struct problem *why);

/* A reload: watched_files_look first, then setting_contents_read, then
 * setting_files_use, which empties `contents`. */
void setting_files_use(struct setting_files *f, const struct config *next,
                       struct setting_contents *contents);

/* For the loop of the thread: its descriptor, timeout and turn. */
struct watched_files *setting_files_watched(struct setting_files *f);
