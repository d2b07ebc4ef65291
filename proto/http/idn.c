#include "proto/http/idn.h"

#include "proto/uri.h"
#include "proto/utf8.h"

/* A label has at most 63 characters, a name 255 (RFC 1035). */
#define LABEL_MAX     63
#define NAME_SIZE_MAX 1024 /* as UTF-8 */

/* RFC 3492 section 5. */
#define BASE         36
#define T_MIN        1
#define T_MAX        26
#define SKEW         38
#define DAMP         700
#define INITIAL_BIAS 72
#define INITIAL_N    0x80

static unsigned
adapt(uint64_t delta, size_t n, bool is_first)
{
    unsigned k = 0;

    delta = is_first ? delta / DAMP : delta / 2;
    for (delta += delta / n; delta > (BASE - T_MIN) * T_MAX / 2; k += BASE)
        delta /= BASE - T_MIN;
    return k + (unsigned)((BASE - T_MIN + 1) * delta / (delta + SKEW));
}

static void
add_digit(struct buf *to, uint64_t digit)
{
    char c = (char)(digit < 26 ? 'a' + digit : '0' + digit - 26);

    buf_add(to, &c, 1);
}

static void
add_number(struct buf *to, uint64_t number, unsigned bias)
{
    for (unsigned k = BASE;; k += BASE) {
        unsigned t = k <= bias ? T_MIN : k >= bias + T_MAX ? T_MAX : k - bias;

        if (number < t)
            break;
        add_digit(to, t + (number - t) % (BASE - t));
        number = (number - t) / (BASE - t);
    }
    add_digit(to, number);
}

static void
add_label(struct buf *to, const uint32_t *label, size_t n)
{
    unsigned bias = INITIAL_BIAS;
    uint32_t least = INITIAL_N;
    uint64_t delta = 0;
    size_t n_basic = 0, n_done;

    for (size_t i = 0; i < n; i++)
        n_basic += label[i] < INITIAL_N;
    if (n_basic < n)
        BUF_ADD(to, "xn--");
    for (size_t i = 0; i < n; i++)
        if (label[i] < INITIAL_N)
            buf_add(to, &(char){(char)label[i]}, 1);
    if (n_basic > 0 && n_basic < n)
        BUF_ADD(to, "-");
    for (n_done = n_basic; n_done < n; delta++, least++) {
        uint32_t next = UINT32_MAX;

        /* The smallest of the characters that is at least `least`. */
        for (size_t i = 0; i < n; i++)
            if (label[i] >= least && label[i] < next)
                next = label[i];

        delta += (uint64_t)(next - least) * (n_done + 1);
        least = next;
        for (size_t i = 0; i < n; i++) {
            delta += label[i] < least;
            if (label[i] != least)
                continue;
            add_number(to, delta, bias);
            bias = adapt(delta, n_done + 1, n_done == n_basic);
            delta = 0;
            n_done++;
        }
    }
}

bool
idn_add_ascii(struct buf *to, struct slice name)
{
    char bytes[NAME_SIZE_MAX];
    uint32_t label[LABEL_MAX];
    size_t size = 0, n = 0, step;

    if (slice_is_ascii(name) && !memchr(name.data, '%', name.size)) {
        /* as nearly all */
        buf_add_slice(to, name);
        return !to->failed;
    }
    /* Undoes the escapes of bytes beyond ASCII; there may be no other one. */
    for (; name.size > 0; size++) {
        int escape = uri_escape(name);

        if (size == NAME_SIZE_MAX ||
            (name.data[0] == '%' && (escape < INITIAL_N || escape > 0xff)))
            return false;
        bytes[size] = escape < 0 ? name.data[0] : (char)escape;
        slice_skip(&name, escape < 0 ? 1 : 3);
    }
    for (size_t i = 0; i < size; i += step) {
        uint32_t c;

        step = utf8_read(bytes + i, size - i, &c);
        if (step == 0 || (c != '.' && n == LABEL_MAX))
            return false;
        if (c == '.') {
            add_label(to, label, n);
            BUF_ADD(to, ".");
            n = 0;
        } else {
            label[n++] = c;
        }
    }
    add_label(to, label, n);
    return !to->failed;
}
