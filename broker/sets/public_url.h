/*
 * public_url.h - the public URL that a data directory was last served under.
 *
 * Documents that were closed keep the URLs they were closed with (R-223,
 * When the public URL is another one than the last time, somebody
 * should know.
 *
 *   tidings-data/public-url        "https://example.org\n"
 *
 * A file of its own, not a row of tidings.db: nothing depends on it but a
 * warning, it is written while the log is not yet served, and a database that
 * was made anew from the lists has it still.
 */
#ifndef BROKER_SETS_PUBLIC_URL_H
#define BROKER_SETS_PUBLIC_URL_H

/* Warns if `dir` was last served under another URL than `url`, once: then it
 * remembers `url`. Whoever calls has the directory's lock. May block. */
void public_url_remember(const char *dir, const char *url);

#endif
