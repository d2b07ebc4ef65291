#include "tests/unit/lib/transfers.h"

#include <dlfcn.h>
#include <stdatomic.h>

#include <curl/curl.h>

#include "tests/clock.h"
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
transfers_turn(struct handle_loop *loop)
{
    int ms;

    assert_int_equal(handle_loop_service(loop), STATUS_OK);
    ms = handle_loop_timeout_ms(loop);
    if (ms > 0 && transfers_none(NULL))
        clock_pass_us(ms * INT64_C(1000));
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
