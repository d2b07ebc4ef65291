#include "base/certificates.h"

#include <time.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

const char *
openssl_reason(void)
{
    unsigned long code = ERR_get_error();
    const char *text = ERR_SYSTEM_ERROR(code)
                           ? strerror(ERR_GET_REASON(code)) /* no such file */
                       : code ? ERR_reason_error_string(code)
                              : NULL;

    ERR_clear_error();
    return text ? text : "OpenSSL does not say why";
}

int
openssl_no_password(char *to, int size, int is_writing, void *is_asked)
{
    (void)to;
    (void)size;
    (void)is_writing;
    if (is_asked)
        *(bool *)is_asked = true;
    return -1;
}

FILE *
certificates_open_file(const char *path, const char *what, struct problem *why)
{
    char doing[64];
    FILE *file = NULL;

    snprintf(doing, sizeof(doing), "cannot read the %s", what);
    file = fopen(path, "re");
    if (!file)
        problem_errno(why, doing, path);
    return file;
}

enum status
certificates_read(struct stack_st_X509 **all, const char *path,
                  const char *what, struct problem *why)
{
    FILE *file = certificates_open_file(path, what, why);
    enum status rc = STATUS_OK;
    X509 *next = NULL;
    unsigned long end;
    bool is_end;
    int n;

    *all = NULL;
    if (!file)
        return STATUS_IO;
    *all = sk_X509_new_null();
    ERR_clear_error();
    while (!rc &&
           (next = PEM_read_X509_AUX(file, NULL, openssl_no_password, NULL))) {
        /* Computes what OpenSSL else stores at the first use: several threads
         * may then use the certificate. */
        (void)X509_check_purpose(next, -1, 0);
        if (!*all || !sk_X509_push(*all, next)) {
            X509_free(next);
            rc = problem_memory(why);
        }
        ERR_clear_error();
    }
    n = sk_X509_num(*all);
    end = ERR_peek_last_error();
    is_end = ERR_GET_LIB(end) == ERR_LIB_PEM &&
             ERR_GET_REASON(end) == PEM_R_NO_START_LINE;
    if (!rc && !is_end && n > 0)
        rc = problem(why, STATUS_IO, "%s: certificate %d of it is broken: %s",
                     path, n + 1, openssl_reason());
    else if (!rc && !is_end)
        rc = problem(why, STATUS_IO, "%s: not a certificate: %s", path,
                     openssl_reason());
    else if (!rc && n <= 0)
        rc = problem(why, STATUS_IO, "%s: there is no certificate in it", path);
    ERR_clear_error();
    fclose(file);
    if (rc) {
        certificates_free(*all);
        *all = NULL;
    }
    return rc;
}

void
certificates_free(struct stack_st_X509 *all)
{
    sk_X509_pop_free(all, X509_free);
}

int64_t
certificate_end_us(const X509 *one)
{
    struct tm tm;

    return ASN1_TIME_to_tm(X509_get0_notAfter(one), &tm)
               ? (int64_t)timegm(&tm) * 1000000
               : INT64_MAX;
}

int64_t
certificates_end_us(const struct stack_st_X509 *all)
{
    int64_t first = INT64_MAX;

    for (int i = 0; i < sk_X509_num(all); i++) {
        int64_t end = certificate_end_us(sk_X509_value(all, i));

        if (end < first)
            first = end;
    }
    return first < INT64_MAX ? first : 0;
}

bool
certificates_digest(const struct stack_st_X509 *all,
                    unsigned char to[CERTIFICATES_DIGEST_SIZE])
{
    EVP_MD_CTX *ctx = all ? EVP_MD_CTX_new() : NULL;
    unsigned char one[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    bool is_good = ctx && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) == 1;

    memset(to, 0, CERTIFICATES_DIGEST_SIZE);
    for (int i = 0; is_good && i < sk_X509_num(all); i++)
        is_good =
            X509_digest(sk_X509_value(all, i), EVP_sha256(), one, &size) == 1 &&
            EVP_DigestUpdate(ctx, one, size) == 1;
    is_good = is_good && EVP_DigestFinal_ex(ctx, to, &size) == 1;
    EVP_MD_CTX_free(ctx);
    return is_good || !all;
}

bool
certificates_find_system(const char *root, char *to, size_t size)
{
    const char *const paths[] = {
        X509_get_default_cert_file(),
        "/etc/ssl/certs/ca-certificates.crt",
        "/etc/pki/tls/certs/ca-bundle.crt",
        "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
        "/etc/ssl/ca-bundle.pem",
        "/etc/ssl/cert.pem",
    };

    for (size_t i = 0; i < N_ELEMENTS(paths); i++)
        if (snprintf(to, size, "%s%s", root, paths[i]) < (int)size &&
            !access(to, R_OK))
            return true;
    return false;
}

void
certificates_use_system(void)
{
    char path[PATH_MAX];

    if (!getenv("SSL_CERT_FILE") && !getenv("SSL_CERT_DIR") &&
        access(X509_get_default_cert_file(), R_OK) &&
        certificates_find_system("", path, sizeof(path)))
        setenv("SSL_CERT_FILE", path, 0);
}
