#include "broker/http/setting_files.h"

#include "base/certificates.h"
#include "broker/access/identity_provider.h"
#include "broker/base/authorities.h"
#include "broker/net/server.h"

struct row {
    /* Offsets of the file names in struct config. 0: none. */
    size_t paths[WATCHED_FILES_MAX];

    /* Reads *content; NULL if the settings name no file. `path`: the first of
     * `paths`. */
    enum status (*read)(const struct config *config, const char *path,
                        void **content, struct problem *why);

    /* Takes over `content`, which may be NULL. True: it is another one. */
    bool (*use)(struct setting_files *f, void *content);
    void (*free)(void *content); /* NULL is allowed */

    const char *news;  /* what another content means, for the log */
    bool is_of_server; /* server_open has read it */
};

/* A row that is watched. */
struct watched_row {
    struct setting_files *files;
    const struct row *row;
};

struct setting_files {
    const struct config *config;
    struct server *server;
    struct identity_provider *provider;
    bool is_begun;
    struct watched_files *watched;
    struct watched_row rows[SETTING_FILES_MAX];
};

/* --tls-cert and --tls-key */

static enum status
read_identity(const struct config *config, const char *path, void **content,
              struct problem *why)
{
    struct identity *identity = NULL;
    enum status rc = *path
                         ? identity_read(&identity, path, config->tls_key, why)
                         : STATUS_OK;

    *content = identity;
    return rc;
}

static void
free_identity(void *content)
{
    identity_free(content);
}

/* Whether there is TLS is fixed from start to end (config_compare). */
static bool
use_identity(struct setting_files *f, void *content)
{
    if (content && f->config->tls_cert[0])
        return server_show(f->server, content);
    identity_free(content);
    return false;
}

/* --ca-file */

static enum status
read_authorities(const struct config *config, const char *path, void **content,
                 struct problem *why)
{
    struct stack_st_X509 *all = NULL;
    enum status rc =
        *path
            ? certificates_read(&all, path, "certificates of authorities", why)
            : STATUS_OK;

    (void)config;
    *content = all;
    return rc;
}

static void
free_authorities(void *content)
{
    certificates_free(content);
}

static bool
use_authorities(struct setting_files *f, void *content)
{
    (void)f;
    return authorities_replace(content);
}

/* --tls-client-ca */

static bool
use_client_authorities(struct setting_files *f, void *content)
{
    return server_trust(f->server, content);
}

/* --jwt-keys: a URL is read, too, but names no file. The settings beside it
 * come with its content. */

static enum status
read_provider(const struct config *config, const char *path, void **content,
              struct problem *why)
{
    struct provider_options options = {path, config->jwt_issuer,
                                       config->jwt_audience};
    struct provider_settings *settings = NULL;
    enum status rc = provider_settings_read(&settings, &options, why);

    *content = settings;
    return rc;
}

static void
free_provider(void *content)
{
    provider_settings_free(content);
}

/* It logs its own news. */
static bool
use_provider(struct setting_files *f, void *content)
{
    identity_provider_use(f->provider, content);
    return false;
}

/* The table */

#define PATH(member) offsetof(struct config, member)

static const struct row rows[] = {
    {.paths = {PATH(tls_cert), PATH(tls_key)},
     .read = read_identity,
     .use = use_identity,
     .free = free_identity,
     .is_of_server = true,
     .news = "new connections get a new certificate"},
    {.paths = {PATH(ca_file)},
     .read = read_authorities,
     .use = use_authorities,
     .free = free_authorities,
     .news = "new connections to others trust other authorities"},
    {.paths = {PATH(tls_client_ca)},
     .read = read_authorities,
     .use = use_client_authorities,
     .free = free_authorities,
     .news = "clients of new connections need other authorities"},
    {.paths = {PATH(jwt_keys)},
     .read = read_provider,
     .use = use_provider,
     .free = free_provider},
};

#define N_ROWS N_ELEMENTS(rows)
_Static_assert(N_ROWS <= SETTING_FILES_MAX, "raise SETTING_FILES_MAX");

/* The name of its file, or of the first one. */
static const char *
path_of(const struct row *row, const struct config *config)
{
    return (const char *)config + row->paths[0];
}

/* `config`: the settings of which the content was read. */
static void
use_content(struct setting_files *f, const struct row *row,
            const struct config *config, void *content)
{
    if (row->use(f, content) && f->is_begun)
        DIAG_REPORT(DIAG_INFO, "broker", row->news,
                    diag_text("file", path_of(row, config)));
}

enum status
setting_contents_read(struct setting_contents *contents,
                      const struct config *config, struct problem *why)
{
    enum status rc = STATUS_OK;

    *contents = (struct setting_contents){.of = {NULL}};
    for (size_t i = 0; i < N_ROWS && !rc; i++)
        rc = rows[i].read(config, path_of(&rows[i], config), &contents->of[i],
                          why);
    if (rc)
        setting_contents_free(contents);
    return rc;
}

void
setting_contents_free(struct setting_contents *contents)
{
    for (size_t i = 0; i < N_ROWS; i++) {
        rows[i].free(contents->of[i]);
        contents->of[i] = NULL;
    }
}

/* Changes */

static enum status
read_row(void *user, struct problem *why)
{
    struct watched_row *watched = user;
    struct setting_files *f = watched->files;
    void *content = NULL;
    enum status rc = watched->row->read(
        f->config, path_of(watched->row, f->config), &content, why);

    if (!rc)
        use_content(f, watched->row, f->config, content);
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

struct setting_files *
setting_files_new(const struct config *config)
{
    struct setting_files *f = memory_new(1, sizeof(*f));
    struct watched_group groups[N_ROWS];

    f->config = config;
    for (size_t i = 0; i < N_ROWS; i++) {
        groups[i] = (struct watched_group){
            .read = read_row, .report = report_row, .user = &f->rows[i]};
        f->rows[i] = (struct watched_row){f, &rows[i]};
        for (size_t j = 0; j < WATCHED_FILES_MAX; j++)
            if (rows[i].paths[j])
                groups[i].paths[j] = (const char *)config + rows[i].paths[j];
    }
    f->watched = watched_files_new(groups, N_ROWS);
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
            rc = read_row(&f->rows[i], why);
    f->is_begun = true;
    watched_files_settle(f->watched);
    return rc;
}

void
setting_files_use(struct setting_files *f, const struct config *next,
                  struct setting_contents *contents)
{
    for (size_t i = 0; i < N_ROWS; i++) {
        use_content(f, &rows[i], next, contents->of[i]);
        contents->of[i] = NULL;
    }
    watched_files_settle(f->watched);
}

struct watched_files *
setting_files_watched(struct setting_files *f)
{
    return f->watched;
}
