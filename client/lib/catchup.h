/*
 * catchup.h - the way back: the change memory, GET SET-URL/changes, page by
 * page.
 */
#ifndef CLIENT_LIB_CATCHUP_H
#define CLIENT_LIB_CATCHUP_H

#include "client/lib/client.h"
#include "client/lib/incoming.h"
#include "client/lib/set_url.h"
#include "proto/position.h"

struct catchup {
    struct incoming message; /* the page that was read last */
    const char *filter;      /* what stands behind "after=": "&tag=a", or "" */
    struct buf body;         /* its bytes */
};

/* TD_MEMORY */
enum td_status catchup_init(struct catchup *catchup, enum td_form form,
                            const char *filter);
void catchup_fini(struct catchup *catchup);

/* Gets and reads the page that follows `after`. TD_REFUSED, TD_GONE,
 * TD_UNREACHABLE, TD_STOPPED, TD_BROKEN, TD_MEMORY: the problem says why. */
enum td_status catchup_page(struct catchup *catchup, struct td_client *client,
                            const struct set_url *url,
                            const struct position *after);

#endif
