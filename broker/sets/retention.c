#include "broker/sets/retention.h"

#include "base/clock.h"

uint64_t
retention_over(const struct retention *r, uint64_t n)
{
    return r->lists > 0 && n > r->lists ? n - r->lists : 0;
}

int64_t
retention_since_us(const struct retention *r)
{
    return r->age_us > 0 ? clock_now_us() - r->age_us : INT64_MIN;
}
