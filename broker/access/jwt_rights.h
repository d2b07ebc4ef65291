/*
 * jwt_rights.h - the rights that the claims of a JSON Web Token give.
 *
 * Ours:
 *
 *     "tidings": {"publish": ["news", "!news-internal"], "subscribe": ["*"],
 *                 "manage": [], "observe": true}
 *
 * Each text is a pattern (rights.h). No claim makes an administrator: only the
 * operator and tokens of ours do. A member of another type, or a text that is
 * no pattern, refuses the token: a list that lost a denial would allow more
 * than the provider meant.
 *
 * Mercure's, as hubs of Mercure read it:
 *
 *     "mercure": {"publish": ["https://example.org/sets/news"],
 *                 "subscribe": ["*"]}
 *
 * Each text selects topics. "*" is every set. The name of a set, or the URL of
 * a set, of its stream, its changes or its notifications, with the public URL
 * before it or as a path alone, is that set; with {NAME} in place of the set it
 * is every set. Others are topics of other hubs, and give nothing.
 *
 * Unknown members give nothing. Both claims together give what each gives.
 */
#pragma once

#include <jansson.h>

#include "broker/access/rights.h"

/* Writes the rights of `claims`. `public_url` has no slash at its end.
 * STATUS_INVALID: `why` names the member. */
MUST_CHECK enum status jwt_rights_read(struct rights *rights,
                                       const json_t *claims,
                                       struct slice public_url,
                                       struct problem *why);
