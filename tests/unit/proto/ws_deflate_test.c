#include "proto/http/ws_handshake.h"
#include "tests/test.h"

#define AGREED                                         \
    "permessage-deflate; server_no_context_takeover; " \
    "client_no_context_takeover"
#define BITS AGREED "; server_max_window_bits=15"

/* `expected`: the answer; NULL: no offer is acceptable; "": malformed. */
static void
assert_agreed(const char *offers, const char *expected)
{
    struct problem why = {""};
    const char *answer = "unset";
    enum status rc = ws_deflate_agree(slice_of(offers), &answer, &why);
    const char *found = rc ? "" : answer;

    if (rc && (rc != STATUS_MALFORMED || answer || !why.text[0]))
        fail_msg("%s: status %d, \"%s\"", offers, rc, why.text);
    if (!found != !expected || (found && strcmp(found, expected) != 0))
        fail_msg("%s: %s", offers, found ? found : "no answer");
}

/* RFC 7692 section 7.1. */
TEST(accepts_the_first_offer_that_it_can_keep)
{
    static const struct {
        const char *offers, *answer;
    } rows[] = {
        {"permessage-deflate", AGREED},
        {"permessage-deflate; client_max_window_bits", AGREED}, /* browsers */
        {"permessage-deflate; server_no_context_takeover", AGREED},
        {"permessage-deflate; client_no_context_takeover", AGREED},
        {"permessage-deflate;client_no_context_takeover;"
         "server_no_context_takeover;client_max_window_bits=8",
         AGREED},
        {"permessage-deflate; server_max_window_bits=15", BITS},
        {"permessage-deflate; server_max_window_bits=\"15\"", BITS},
        {"permessage-deflate; server_max_window_bits=\"\\15\"", BITS},
        {"permessage-deflate ;\tserver_max_window_bits = 15 "
         "; client_max_window_bits = \"9\"",
         BITS},

        /* The client limits our window. */
        {"permessage-deflate; server_max_window_bits=14", NULL},
        {"permessage-deflate; server_max_window_bits=8", NULL},
        /* Not as the parameter has to be. */
        {"permessage-deflate; server_max_window_bits", NULL},
        {"permessage-deflate; server_max_window_bits=16", NULL},
        {"permessage-deflate; server_max_window_bits=7", NULL},
        {"permessage-deflate; server_max_window_bits=015", NULL},
        {"permessage-deflate; server_max_window_bits=+15", NULL},
        {"permessage-deflate; server_max_window_bits=1500", NULL},
        {"permessage-deflate; server_max_window_bits=15151515", NULL},
        {"permessage-deflate; client_max_window_bits=16", NULL},
        {"permessage-deflate; client_max_window_bits=0", NULL},
        {"permessage-deflate; client_max_window_bits=08", NULL},
        {"permessage-deflate; client_max_window_bits=x", NULL},
        {"permessage-deflate; client_max_window_bits=\"8x\"", NULL},
        {"permessage-deflate; server_no_context_takeover=1", NULL},
        {"permessage-deflate; client_no_context_takeover=\"x\"", NULL},
        /* Twice, or unknown. */
        {"permessage-deflate; client_max_window_bits; client_max_window_bits",
         NULL},
        {"permessage-deflate; server_max_window_bits=15; "
         "server_max_window_bits=15",
         NULL},
        {"permessage-deflate; client_no_context_takeover; "
         "client_no_context_takeover",
         NULL},
        {"permessage-deflate; mem_level=9", NULL},
        {"permessage-deflate; Server_no_context_takeover", NULL},
        {"permessage-deflate; server_max_window_bits=15; x", NULL},

        /* Several offers. */
        {"x-webkit-deflate-frame", NULL},
        {"permessage-deflat, permessage-deflatee", NULL},
        {"x-webkit-deflate-frame, permessage-deflate", AGREED},
        {"permessage-bzip2;level=\"9\", permessage-deflate", AGREED},
        {"permessage-deflate; server_max_window_bits=10, permessage-deflate",
         AGREED},
        {"permessage-deflate; server_max_window_bits=10, permessage-deflate; x,"
         "permessage-deflate; server_max_window_bits=15, permessage-deflate",
         BITS},
        {"permessage-deflate, permessage-deflate; server_max_window_bits=15",
         AGREED},
        {" ,, permessage-deflate ,\t, ", AGREED},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_agreed(rows[i].offers, rows[i].answer);
}

/* RFC 6455 section 9.1: a value that breaks the grammar fails the connection,
 * wherever in it a good offer stands. */
TEST(refuses_what_breaks_the_grammar)
{
    static const char *const rows[] = {
        "",
        " ",
        ",",
        ";",
        "permessage-deflate;",
        "permessage-deflate; ;x",
        "permessage-deflate; =1",
        "permessage-deflate; x=",
        "permessage-deflate; x=,y",
        "permessage-deflate; x==1",
        "permessage-deflate=1",
        "permessage-deflate x",
        "permessage-deflate, x y",
        "permessage-deflate; x=1 2",
        "permessage-deflate; x=\"1\" 2",
        "permessage-deflate; x=\"1\"2",
        "permessage-deflate; x=\"",
        "permessage-deflate; x=\"1",
        "permessage-deflate; x=\"1\\",
        "permessage-deflate; x=\"1\\\"",
        "permessage-deflate; x=\"\"",
        "permessage-deflate; x=\"1 2\"",
        "permessage-deflate; x=\"1,2\"",
        "permessage-deflate; x=\"1\\,2\"",
        "permessage-deflate; x=/",
        "permessage/deflate",
        "\"permessage-deflate\"",
        "permessage-deflate; \"x\"",
        "permessage-deflate; \xc3\xa4",
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_agreed(rows[i], "");
}
