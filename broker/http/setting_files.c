#include "broker/http/setting_files.h"

#include "base/certificates.h"
#include "broker/access/identity_provider.h"
#include "broker/base/authorities.h"
#include "broker/net/server.h"

#define PATH(member) offsetof(struct config, member)

enum { IDENTITY, AUTHORITIES, CLIENT_AUTHORITIES, PROVIDER, N_ROWS };

static const struct {
    /* Offsets of the file names in struct config. 0: none. */
    size_t paths[WATCHED_FILES_MAX];

    const char *news;  /* what another content means, for the log */
    bool is_of_server; /* server_open has read it */
} rows[N_ROWS] = {
    [IDENTITY] = {{PATH(tls_cert), PATH(tls_key)},
                  "new connections get a new certificate",
                  .is_of_server = true},
    [AUTHORITIES] = {{PATH(ca_file)},
                     "new connections to others trust other authorities"},
    [CLIENT_AUTHORITIES] = {{PATH(tls_client_ca)},
                            "clients of new connections need other "
                            "authorities"},
    [PROVIDER] = {{PATH(jwt_keys)}, NULL},
};

struct setting_files {
    const struct config *config;
    struct server *server;
    struct identity_provider *provider;
    bool is_begun;
    struct watched_files *watched;
};

struct provider_options
setting_files_provider(const struct config *config)
{
    return (struct provider_options){
        .keys = config->jwt_keys,
        .issuer = config->jwt_issuer,
        .audience = config->jwt_audience,
        .client = config->jwt_client,
        .scope = config->jwt_scope,
    };
}

/* The name of its file, or of the first one. */
static const char *
path_of(size_t row, const struct config *config)
{
    return (const char *)config + rows[row].paths[0];
}

/* Reads the content of one row; none if the settings name no file. A URL of
 * --jwt-keys is read, too, but names no file; the settings beside it come with
 * its content. */
static enum status
read_content(size_t row, const struct config *config,
             struct setting_contents *contents, struct problem *why)
{
    const char *path = path_of(row, config);
    struct provider_options options = setting_files_provider(config);

    if (!*path)
        return STATUS_OK;
    if (row == IDENTITY)
        return identity_read(&contents->identity, path, config->tls_key, why);
    if (row == PROVIDER)
        return provider_settings_read(&contents->provider, &options, why);
    return certificates_read(row == AUTHORITIES ? &contents->authorities
                                                : &contents->client_authorities,
                             path, "certificates of authorities", why);
}

/* Hands the content of one row over to the part that uses it. `config`: the
 * settings of which it was read. */
static void
use_content(struct setting_files *f, size_t row, const struct config *config,
            const struct setting_contents *contents)
{
    bool is_new = false;

    if (row == AUTHORITIES)
        is_new = authorities_replace(contents->authorities);
    else if (row == CLIENT_AUTHORITIES)
        is_new = server_trust(f->server, contents->client_authorities);
    else if (row == PROVIDER)
        identity_provider_use(f->provider, contents->provider); /* it logs */
    else if (contents->identity && f->config->tls_cert[0])
        is_new = server_show(f->server, contents->identity);
    else /* whether there is TLS is fixed from start to end (config_compare) */
        identity_free(contents->identity);
    if (is_new && f->is_begun)
        DIAG_REPORT(DIAG_INFO, "broker", rows[row].news,
                    diag_text("file", path_of(row, config)));
}

enum status
setting_contents_read(struct setting_contents *contents,
                      const struct config *config, struct problem *why)
{
    enum status rc = STATUS_OK;

    *contents = (struct setting_contents){.identity = NULL};
    for (size_t i = 0; i < N_ROWS && !rc; i++)
        rc = read_content(i, config, contents, why);
    if (rc)
        setting_contents_free(contents);
    return rc;
}

void
setting_contents_free(struct setting_contents *contents)
{
    identity_free(contents->identity);
    certificates_free(contents->authorities);
    certificates_free(contents->client_authorities);
    provider_settings_free(contents->provider);
    *contents = (struct setting_contents){.identity = NULL};
}

/* Changes */

static enum status
read_row(void *user, size_t row, struct problem *why)
{
    struct setting_files *f = user;
    struct setting_contents contents = {.identity = NULL};
    enum status rc = read_content(row, f->config, &contents, why);

    if (!rc)
        use_content(f, row, f->config, &contents);
    return rc;
}

static void
report_row(void *user, const struct problem *why)
{
    (void)user;
    DIAG_REPORT(DIAG_ERROR, "broker",
                "a file has changed, the old content stays",
                diag_text("error", why->text));
}

static const struct watched_calls calls = {read_row, report_row};

struct setting_files *
setting_files_new(const struct config *config)
{
    struct setting_files *f = memory_new(1, sizeof(*f));
    struct watched_group groups[N_ROWS] = {{{NULL}}};

    f->config = config;
    for (size_t i = 0; i < N_ROWS; i++)
        for (size_t j = 0; j < WATCHED_FILES_MAX; j++)
            if (rows[i].paths[j])
                groups[i].paths[j] = (const char *)config + rows[i].paths[j];
    f->watched = watched_files_new(groups, N_ROWS, &calls, f);
    watched_files_look(f->watched);
    return f;
}

void
setting_files_free(struct setting_files *f)
{
    if (!f)
        return;
    watched_files_free(f->watched);
    free(f);
}

enum status
setting_files_begin(struct setting_files *f, struct server *server,
                    struct identity_provider *provider, struct problem *why)
{
    enum status rc = STATUS_OK;

    f->server = server;
    f->provider = provider;
    for (size_t i = 0; i < N_ROWS && !rc; i++)
        if (!rows[i].is_of_server)
            rc = read_row(f, i, why);
    f->is_begun = true;
    watched_files_settle(f->watched);
    return rc;
}

void
setting_files_use(struct setting_files *f, const struct config *next,
                  struct setting_contents *contents)
{
    for (size_t i = 0; i < N_ROWS; i++)
        use_content(f, i, next, contents);
    *contents = (struct setting_contents){.identity = NULL};
    watched_files_settle(f->watched);
}

struct watched_files *
setting_files_watched(struct setting_files *f)
{
    return f->watched;
}
