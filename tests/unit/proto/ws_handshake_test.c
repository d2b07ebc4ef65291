#include "proto/http/ws_handshake.h"

#include "tests/test.h"

/* The key of RFC 6455 section 1.3. */
TEST(the_answer_belongs_to_the_key)
{
    char accept[UPGRADE_ACCEPT_SIZE];

    upgrade_accept(accept, "dGhlIHNhbXBsZSBub25jZQ==");
    assert_string_equal(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}
