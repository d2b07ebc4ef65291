#include "base/openssl.h"

#include <openssl/err.h>

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
