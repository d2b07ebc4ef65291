/*
 * session.h - signing in with a browser: a cookie that stands for a token.
 *
 *     POST /session      Authorization: Bearer td_...
 *     Set-Cookie: __Host-tidings=RANDOM; Path=/; HttpOnly; SameSite=Strict;
 *                 Secure
 *
 * The text of the cookie is random (tickets.h) and good for nothing else. Only
 * requests of the broker's own pages may use it:
 *
 *     GET, HEAD    also of an address that the user typed, or that a client
 *                  without any Origin asks for
 *     others, and  with the broker's own Origin. So no foreign page can post
 *     WebSockets   with the rights of the user (CSRF)
 *
 *     POST /session?renew=yes   the same cookie, with a newer token of the same
 *                               client; 410 if the session has ended: a page
 *                               that renews does not undo what another one ended
 *
 * Any other request counts as one without a cookie. So does a cookie that has
 * ended: a browser cannot leave it out, and public pages have to stay readable.
 *
 * Browsers send a cookie to all ports of a host, so its name has the port.
 * Over plain HTTP to another machine it is marked as Secure all the same, and
 * browsers drop it.
 */
#pragma once

#include "broker/access/principal.h"
#include "broker/http/http.h"
#include "broker/net/response.h"

/* Returns a reference to the principal of the session, whose authority it gives
 * the request; NULL: the request has none that counts. During on_request. */
struct principal *session_find(struct http *http, struct request *rq);

/* Gives the session of the request that principal. STATUS_GONE: it has none
 * that counts, or one of another client. */
MUST_CHECK enum status session_renew(struct http *http, struct request *rq,
                                     struct principal *principal,
                                     struct problem *why);

/* Ends the session of the request, if it has one that counts. */
void session_end(struct http *http, struct request *rq);

/* True if a browser says that a page of another origin sent the request (Fetch
 * Metadata). Browsers send it to trustworthy addresses. During on_request. */
bool session_is_of_other_site(struct request *rq);

/* True if a page of another origin sent the request. */
bool session_is_foreign(const struct http *http, struct request *rq);

/* Adds the cookie with that text to the answer; NULL: removes it from the
 * browser. During on_request. */
void session_add_cookie(struct http *http, struct request *rq,
                        struct response *r, const char *text);
