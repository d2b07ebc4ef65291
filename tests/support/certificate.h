/*
 * certificate.h - a CA and a certificate of it, made for one test.
 *
 *     struct certificate c;
 *
 *     certificate_make(&c, b.dir.path, NULL);
 *     ... "--tls-cert", c.cert, "--tls-key", c.key ...
 *     ... curl --cacert c.ca ...
 *
 * P-256 keys. An intermediate CA, which stands behind the certificate in the
 * file, signs it: a client that trusts only the root needs the chain.
 */
#ifndef TESTS_SUPPORT_CERTIFICATE_H
#define TESTS_SUPPORT_CERTIFICATE_H

#include <stdbool.h>

struct certificate {
    char ca[300];   /* the root, PEM */
    char cert[300]; /* certificate, then the intermediate, PEM */
    char key[300];  /* of the certificate, PEM, mode 600 */
};

struct certificate_wish {
    const char *names;    /* NULL: "DNS:localhost,IP:127.0.0.1,IP:::1" */
    bool is_expired;      /* since yesterday */
    int rsa_bits;         /* an RSA key of so many; 0: P-256 */
    const char *password; /* of the key's file; NULL: none */
};

/* Makes the three files in the directory `dir`. Fails the test if it cannot.
 * `wish` may be NULL. */
void certificate_make(struct certificate *c, const char *dir,
                      const struct certificate_wish *wish);

#endif
