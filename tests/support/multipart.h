/*
 * multipart.h - bodies of multipart/related, as a source posts them.
 *
 *     struct multipart_body m;
 *
 *     multipart_body_open(&m, "application/json", "{...}");
 *     multipart_body_add(&m, "http://example.com/a", "text/plain", SLICE("a"));
 *     multipart_body_close(&m);
 *     ... http_post(&h, path, MULTIPART_TYPE, buf_slice(&m.bytes)) ...
 *     multipart_body_free(&m);
 */
#ifndef TESTS_SUPPORT_MULTIPART_H
#define TESTS_SUPPORT_MULTIPART_H

#include "proto/buf.h"
#include "proto/slice.h"

#define MULTIPART_TYPE "multipart/related; boundary=b-0"

struct multipart_body {
    struct buf bytes;
};

/* The root part. */
void multipart_body_open(struct multipart_body *m, const char *type,
                         const char *changes);

/* The content of the entry with that loc; `type` may be NULL. */
void multipart_body_add(struct multipart_body *m, const char *loc,
                        const char *type, struct slice content);
void multipart_body_close(struct multipart_body *m);
void multipart_body_free(struct multipart_body *m);

#endif
