/*
 * host_name.c - the host that a URL asks.
 */
#include "client/lib/host_name.h"

bool
host_name_read(struct slice url, struct websub_origin *name)
{
    struct websub_origin origin;

    if (!slice_starts_word(url, "http://") &&
        !slice_starts_word(url, "https://"))
        return false;
    for (size_t i = 0; i < url.size; i++)
        if ((unsigned char)url.data[i] <= ' ' || url.data[i] == 0x7f)
            return false;
    origin = websub_origin(url);
    if (name)
        *name = origin;
    return !slice_ends(slice_of(origin.text), "/"); /* it has a host */
}
