/*
 * sigv4.h - signs a request as S3 wants it: AWS Signature Version 4.
 *
 *     canonical request   METHOD \n path \n query \n headers \n names \n
 *                         payload
 *     text                AWS4-HMAC-SHA256 \n time \n scope \n
 *                         SHA-256(canonical request)
 *     key                 HMAC, begun with "AWS4" and the secret, of the day,
 *                         the region, "s3" and "aws4_request", one by one
 *
 * Pure, any thread.
 */
#pragma once

#include "proto/resourcesync/digest.h"

struct sigv4_request {
    const char *secret;
    const char *time; /* "20130524T000000Z" */
    const char *region;
    const char *method;
    struct slice path;   /* escaped, as it is sent */
    const char *query;   /* escaped and sorted, each name with "="; or "" */
    const char *headers; /* "name:value\n", names in lower case, sorted */
    const char *names;   /* of these: "host;x-amz-date" */
    const char *payload; /* 64 digits: SHA-256 of the body */
};

struct digest sigv4_sign(const struct sigv4_request *request);
