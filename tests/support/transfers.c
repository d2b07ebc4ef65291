#include "tests/support/transfers.h"

#include <dlfcn.h>
#include <poll.h>
#include <stdatomic.h>

#include <curl/curl.h>

#include "tests/test.h"

static _Atomic unsigned n_under_way;

unsigned
transfers_under_way(void)
{
    return atomic_load(&n_under_way);
}

bool
transfers_none(void *user)
{
    (void)user;
    return transfers_under_way() == 0;
}

bool
transfers_held(void *site)
{
    return transfers_under_way() == site_held(site);
}

void
transfers_turn(struct loop *loop)
{
    struct pollfd fd = {.fd = loop_fd(loop), .events = POLLIN};

    poll(&fd, 1, loop_timeout_ms(loop));
    assert_int_equal(loop_service(loop), TD_OK);
}

CURLMcode
curl_multi_add_handle(CURLM *multi, CURL *easy)
{
    CURLMcode (*real)(CURLM *, CURL *) =
        (CURLMcode(*)(CURLM *, CURL *))dlsym(RTLD_NEXT, __func__);
    CURLMcode code = real(multi, easy);

    if (!code)
        n_under_way++;
    return code;
}

CURLMcode
curl_multi_remove_handle(CURLM *multi, CURL *easy)
{
    CURLMcode (*real)(CURLM *, CURL *) =
        (CURLMcode(*)(CURLM *, CURL *))dlsym(RTLD_NEXT, __func__);

    n_under_way--;
    return real(multi, easy);
}
