/*
 * sigv4_test.c - the signatures of Amazon's documentation ("Signature
 * Calculations for the Authorization Header", examplebucket, 24 May 2013).
 */
#include "broker/bucket/sigv4.h"

#include "proto/number.h"
#include "tests/test.h"

#define EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define WELCOME \
    "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"
#define HOST    "host:examplebucket.s3.amazonaws.com\n"
#define DATE    "x-amz-date:20130524T000000Z\n"
#define USUAL   "host;x-amz-content-sha256;x-amz-date"
#define NOTHING "x-amz-content-sha256:" EMPTY "\n"

TEST(signs_the_requests_of_the_documentation)
{
    static const struct {
        const char *method, *path, *query, *payload, *names, *headers;
        const char *signature;
    } rows[] = {
        {"GET", "/test.txt", "", EMPTY,
         "host;range;x-amz-content-sha256;x-amz-date",
         HOST "range:bytes=0-9\n" NOTHING DATE,
         "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
        {"PUT", "/test%24file.text", "", WELCOME,
         "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
         "date:Fri, 24 May 2013 00:00:00 GMT\n" HOST
         "x-amz-content-sha256:" WELCOME "\n" DATE
         "x-amz-storage-class:REDUCED_REDUNDANCY\n",
         "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"},
        {"GET", "/", "lifecycle=", EMPTY, USUAL, HOST NOTHING DATE,
         "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
        {"GET", "/", "max-keys=2&prefix=J", EMPTY, USUAL, HOST NOTHING DATE,
         "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
    };

    for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
        struct digest signature = sigv4_sign(&(struct sigv4_request){
            .secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            .time = "20130524T000000Z",
            .region = "us-east-1",
            .method = rows[i].method,
            .path = slice_of(rows[i].path),
            .query = rows[i].query,
            .headers = rows[i].headers,
            .names = rows[i].names,
            .payload = rows[i].payload,
        });
        char digits[2 * DIGEST_SIZE + 1] = "";

        hex_write(digits, signature.bytes, DIGEST_SIZE);
        assert_string_equal(digits, rows[i].signature);
    }
}
