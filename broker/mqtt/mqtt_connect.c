#include <arpa/inet.h>
#include <fcntl.h>
#include <mqtt_protocol.h>
#include <sys/socket.h>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/certificates.h"
#include "broker/base/authorities.h"
#include "broker/mqtt/mqtt_client.h"

/* Session Expiry Interval: never (MQTT 5, section 3.1.2.11.2). */
#define EXPIRES_NEVER UINT32_MAX

/* In MQTT a binary field's size has 16 bits. */
#define PASSWORD_MAX 65535

/* The password */

#define PASSWORD_SIZE (PASSWORD_MAX + 3)

/* Reads the first line of the password's file anew for each connection, so a
 * new password needs no restart. */
static enum status
read_password(char to[PASSWORD_SIZE], const char *path, struct problem *why)
{
    FILE *file = fopen(path, "re");
    enum status rc = STATUS_OK;
    size_t size;

    to[0] = '\0';
    if (!file) {
        problem_errno(why, "cannot read the password file", path);
        return STATUS_INVALID;
    }
    /* Unbuffered, so no buffer keeps a second copy. */
    setvbuf(file, NULL, _IONBF, 0);
    errno = 0;
    if (!fgets(to, PASSWORD_SIZE, file) && ferror(file)) {
        problem_errno(why, "cannot read the password file", path);
        rc = STATUS_INVALID;
    }
    size = strcspn(to, "\r\n");
    to[size] = '\0';
    if (!rc && size > PASSWORD_MAX)
        rc = problem(why, STATUS_INVALID, "%s: a password has at most %d bytes",
                     path, PASSWORD_MAX);
    fclose(file);
    return rc;
}

/* TLS */

static bool
is_address(const char *host)
{
    struct in6_addr any;

    return inet_pton(AF_INET, host, &any) == 1 ||
           inet_pton(AF_INET6, host, &any) == 1;
}

/* Sets the host's name for SNI. The library got an address, and would send that
 * as the name of the server (RFC 6066 section 3 forbids addresses). Called when
 * the handshake begins, before the first byte. */
static void
name_host(const SSL *ssl, int where, int result)
{
    const struct mqtt *mqtt = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    char *host = (char *)mqtt->options.config->host;

    (void)result;
    if (where & SSL_CB_HANDSHAKE_START)
        SSL_set_tlsext_host_name((SSL *)ssl, is_address(host) ? NULL : host);
}

/* Keeps the error of a bad certificate: the library frees OpenSSL's SSL before
 * anyone can ask it. */
static int
note_certificate(int is_good, X509_STORE_CTX *store)
{
    SSL *ssl =
        X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    struct mqtt *mqtt = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));

    if (!is_good && !mqtt->bad_certificate)
        mqtt->bad_certificate = X509_STORE_CTX_get_error(store);
    return is_good;
}

static enum status
load_certificate(SSL_CTX *ctx, const struct bridge_config *c,
                 struct problem *why)
{
    if (!c->cert[0])
        return STATUS_OK;
    if (SSL_CTX_use_certificate_chain_file(ctx, c->cert) != 1)
        return problem(why, STATUS_INVALID, "cannot use the certificate %s: %s",
                       c->cert, openssl_reason());
    if (SSL_CTX_use_PrivateKey_file(ctx, c->key, SSL_FILETYPE_PEM) != 1)
        return problem(why, STATUS_INVALID, "cannot use the private key %s: %s",
                       c->key, openssl_reason());
    if (SSL_CTX_check_private_key(ctx) != 1)
        return problem(why, STATUS_INVALID, "%s is not the key of %s: %s",
                       c->key, c->cert, openssl_reason());
    return STATUS_OK;
}

/* Makes a TLS context of our own instead of the library's: it reports why a
 * certificate is bad, checks names as OpenSSL does, and has no race. Reads the
 * files anew for each connection, because certificates are renewed. The
 * context's app data is the struct mqtt that uses it. */
static enum status
make_tls(SSL_CTX **made, const struct bridge_config *c, struct problem *why)
{
    SSL_CTX *ctx = NULL;
    X509_VERIFY_PARAM *param;
    bool expects_host;
    enum status rc = STATUS_OK;

    ERR_clear_error();
    ctx = SSL_CTX_new(TLS_client_method());
    if (!ctx)
        return problem_memory(why);
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_default_passwd_cb(ctx, openssl_no_password);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, note_certificate);
    SSL_CTX_set_info_callback(ctx, name_host);
    /* Always requires a certificate for the host that the configuration
     * names. */
    param = SSL_CTX_get0_param(ctx);
    X509_VERIFY_PARAM_set_hostflags(param,
                                    X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    expects_host = is_address(c->host)
                       ? X509_VERIFY_PARAM_set1_ip_asc(param, c->host)
                       : X509_VERIFY_PARAM_set1_host(param, c->host, 0);

    if (!openssl_raise_level(ctx))
        rc = problem(why, STATUS_INVALID, "this OpenSSL has no TLS 1.2");
    else if (!expects_host)
        rc = problem(why, STATUS_INVALID, "no certificate can be for %s",
                     c->host);
    else if (c->ca[0] && SSL_CTX_load_verify_file(ctx, c->ca) != 1)
        rc = problem(why, STATUS_INVALID,
                     "cannot use the CA certificates %s: %s", c->ca,
                     openssl_reason());
    else if (!c->ca[0] && SSL_CTX_set_default_verify_paths(ctx) != 1)
        rc = problem(why, STATUS_INVALID,
                     "cannot use the system's CA certificates: %s",
                     openssl_reason());
    else
        rc = load_certificate(ctx, c, why);
    if (!c->ca[0])
        authorities_add_to(SSL_CTX_get_cert_store(ctx));
    ERR_clear_error();
    if (rc)
        SSL_CTX_free(ctx);
    else
        *made = ctx;
    return rc;
}

enum status
mqtt_check_files(const struct bridge_config *config, struct problem *why)
{
    char password[PASSWORD_SIZE];
    SSL_CTX *ctx = NULL;
    enum status rc = STATUS_OK;

    if (config->password_file[0]) {
        rc = read_password(password, config->password_file, why);
        explicit_bzero(password, sizeof(password));
    }
    if (!rc && config->is_tls)
        rc = make_tls(&ctx, config, why);
    SSL_CTX_free(ctx);
    return rc;
}

/* The client */

static enum status
status_of(int rc, const char *what, struct problem *why)
{
    return rc ? problem(why, rc == MOSQ_ERR_NOMEM ? STATUS_MEMORY : STATUS_IO,
                        "%s: %s", what, mosquitto_strerror(rc))
              : STATUS_OK;
}

static enum status
set_user(struct mosquitto *client, const struct bridge_config *c,
         struct problem *why)
{
    char password[PASSWORD_SIZE];
    bool has_password = c->password_file[0] != '\0';
    enum status rc = STATUS_OK;

    if (!c->user[0] && !has_password)
        return STATUS_OK;
    if (has_password)
        rc = read_password(password, c->password_file, why);
    if (!rc)
        rc = status_of(
            mosquitto_username_pw_set(client, c->user[0] ? c->user : NULL,
                                      has_password ? password : NULL),
            "the MQTT broker's user cannot be set", why);
    explicit_bzero(password, sizeof(password));
    return rc;
}

static enum status
set_tls(struct mqtt *mqtt, struct mosquitto *client, struct problem *why)
{
    SSL_CTX *ctx = NULL;
    enum status rc = STATUS_OK;
    int error;

    if (!mqtt->options.config->is_tls)
        return STATUS_OK;
    rc = make_tls(&ctx, mqtt->options.config, why);
    if (rc)
        return rc;
    SSL_CTX_set_app_data(ctx, mqtt);
    /* The library takes a reference of its own. */
    error = mosquitto_void_option(client, MOSQ_OPT_SSL_CTX, ctx);
    if (!error)
        error = mosquitto_int_option(client, MOSQ_OPT_SSL_CTX_WITH_DEFAULTS, 0);
    SSL_CTX_free(ctx);
    return status_of(error, "TLS cannot be set", why);
}

static enum status
set_options(const struct mqtt *mqtt, struct mosquitto *client,
            struct problem *why)
{
    const struct bridge_config *c = mqtt->options.config;

    const struct {
        enum mosq_opt_t option;
        int value;
    } options[] = {
        {MOSQ_OPT_PROTOCOL_VERSION,
         c->version == BRIDGE_MQTT_5 ? MQTT_PROTOCOL_V5 : MQTT_PROTOCOL_V311},
        /* The limit of messages in flight, the same in both directions (the
         * library's default is 20) */
        {MOSQ_OPT_SEND_MAXIMUM, (int)c->inflight},
        {MOSQ_OPT_RECEIVE_MAXIMUM, (int)c->inflight},
        {MOSQ_OPT_TCP_NODELAY, 1},
    };

    int error = 0;

    for (size_t i = 0; i < N_ELEMENTS(options) && !error; i++)
        error =
            mosquitto_int_option(client, options[i].option, options[i].value);
    if (!error && mqtt->options.will_topic)
        error = mosquitto_will_set(client, mqtt->options.will_topic,
                                   (int)strlen(mqtt->options.will_payload),
                                   mqtt->options.will_payload, 1, true);
    /* Only queues packets: acknowledgements go out when the round writes, after
     * `turn`. */
    if (!error)
        error = mosquitto_threaded_set(client, true);
    return status_of(error, "the MQTT client cannot be set up", why);
}

/* Sets the properties of CONNECT. mosquitto_connect_bind_async, which does not
 * wait for TCP, takes none. mosquitto_connect_bind_v5 stores them in the client
 * before it refuses a keepalive of 1. That refusal has no other effect, and the
 * next connection uses the properties. (unit/mqtt/mqtt fails if a new version
 * of the library changes that.) */
static enum status
set_properties(const struct mqtt *mqtt, struct mosquitto *client,
               struct problem *why)
{
    mosquitto_property *properties = NULL;
    int error;

    if (!mqtt->options.keeps_session ||
        mqtt->options.config->version != BRIDGE_MQTT_5)
        return STATUS_OK;
    error = mosquitto_property_add_int32(
        &properties, MQTT_PROP_SESSION_EXPIRY_INTERVAL, EXPIRES_NEVER);
    if (!error) {
        error = mosquitto_connect_bind_v5(client, mqtt->address, 1, 1, NULL,
                                          properties);
        error = error == MOSQ_ERR_INVAL ? 0 : error ? error : MOSQ_ERR_UNKNOWN;
    }
    mosquitto_property_free_all(&properties);
    return status_of(error, "the MQTT session cannot be stored", why);
}

enum status
mqtt_connect(struct mqtt *mqtt, struct problem *why)
{
    const struct bridge_config *c = mqtt->options.config;
    struct mosquitto *client = mosquitto_new(
        mqtt->options.client_id, !mqtt->options.keeps_session, mqtt);
    enum status rc = STATUS_OK;
    int error;

    if (!client)
        return problem_memory(why);
    rc = set_user(client, c, why);
    if (!rc)
        rc = set_tls(mqtt, client, why);
    if (!rc)
        rc = set_options(mqtt, client, why);
    if (!rc)
        rc = set_properties(mqtt, client, why);
    if (rc) {
        mosquitto_destroy(client);
        return rc;
    }

    mqtt->client = client;
    mqtt_listen(mqtt);
    error =
        mosquitto_connect_bind_async(client, mqtt->address, (int)c->port,
                                     (int)(c->keepalive_us / 1000000), NULL);
    if (error == MOSQ_ERR_TLS) {
        mqtt_explain(mqtt, error, 0);
        rc = STATUS_IO;
    } else if (error == MOSQ_ERR_ERRNO)
        rc = problem(why, STATUS_IO, "cannot connect to %s port %u: %s",
                     mqtt->address, c->port, strerror(errno));
    else if (error)
        rc = status_of(error, "cannot connect", why);
    else if (mosquitto_socket(client) >= 0)
        fcntl(mosquitto_socket(client), F_SETFD, FD_CLOEXEC);
    return rc;
}
