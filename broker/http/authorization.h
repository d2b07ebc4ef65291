/*
 * authorization.h - whether a request has the right that its route needs.
 *
 *     Authorization: Bearer td_...  --> the principal of a token
 *                    Bearer A.B.C   --> that of a JSON Web Token
 *     Cookie: tidings=...           --> the principal that signed in with a
 *                                       browser (session.h)
 *     none, but a certificate       --> the principal of the token that names
 *                                       the certificate
 *     Sec-WebSocket-Protocol: bearer.td_...  --> the same, of browsers
 *     ?ticket=...                   --> the principal that got the ticket
 *     none                          --> everyone; on an open broker the open
 *                                       principal: all but an administrator
 *
 *     401   a token is missing where everyone has no right, or it is not known
 *           or over: one text, one cost
 *     403   the token lacks the right; the answer names it
 *     404   the same, of a set that does not exist for the token
 */
#pragma once

#include "broker/access/principal.h"
#include "broker/http/http.h"
#include "broker/http/routes.h"

/* What the request has, good or bad; *text is lent. During on_request. */
enum authorization_sent { SENT_NOTHING, SENT_TOKEN, SENT_TICKET };
enum authorization_sent authorization_sent(struct request *rq,
                                           struct slice *text);

/* Returns a reference to the principal of the request; NULL: it was answered
 * 401. During on_request. */
struct principal *authorization_find(struct http *http, struct request *rq);

/* True if a request without a token may read the set, so that a shared cache
 * may keep its documents. */
bool authorization_everyone_reads(struct http *http, const struct set *set);

/* Checks the right that was found, for the name in the path. False: it was
 * answered. */
bool authorization_check(struct http *http, struct request *rq,
                         const struct route_found *found,
                         const struct principal *principal);

/* Answers that `principal` lacks the right, or has ended: 401 or 403; 503 to
 * everyone while this broker does not know whether it is open. `name`: of the
 * set or relay; empty: none. */
void authorization_refuse(struct http *http, struct request *rq,
                          const struct principal *principal, unsigned rights,
                          struct slice name);
