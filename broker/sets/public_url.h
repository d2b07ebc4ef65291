/*
 * public_url.h - remembers the last public URL of a data directory.
 *
 * Closed documents keep their URLs. So the broker warns the
 * administrator when the public URL has changed.
 *
 *   tidings-data/public-url        "https://example.org\n"
 *
 * The URL has a file of its own, not a row of tidings.db: only a warning
 * depends on it, the broker writes it before it serves the log, and it survives
 * when the database is made anew from the lists.
 */
#ifndef BROKER_SETS_PUBLIC_URL_H
#define BROKER_SETS_PUBLIC_URL_H

/* Warns once if `dir` was last served under another URL than `url`, then
 * remembers `url`. The caller has the directory's lock. May block. */
void public_url_remember(const char *dir, const char *url);

#endif
