/*
 * verify.c - td_verify: proves a history as far as it is sound.
 */
#include "client/verify/verify.h"

#include <string.h>

enum td_status
td_verify(struct td_client *client, const char *where,
          void (*on_list)(const char *list, const struct td_proof *proof,
                          void *user),
          void *user, struct td_proof *proof)
{
    struct td_proof unwanted;
    struct verify v = {
        .client = client,
        .proof = proof ? proof : &unwanted,
        .on_list = on_list,
        .user = user,
    };
    enum status rc;

    client_begin(client);
    memset(v.proof, 0, sizeof(*v.proof));
    if (!where || !where[0])
        rc = client_fail(client, STATUS_INVALID, "no set and no directory");
    else if (uri_is_web(where))
        rc = client_add_source(client, where) ? STATUS_MEMORY
                                              : verify_web(&v, where);
    else
        rc = verify_files(&v, where);
    return client_end(client, rc);
}
