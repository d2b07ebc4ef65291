#include "broker/base/supervisor.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "broker/base/diag.h"

/* The longest wait for a service manager that does not read. */
#define PATIENCE_US 1000000

/* The longest watchdog: a year. */
#define WATCHDOG_MAX_US INT64_C(31536000000000)

static void
report_unheard(int error)
{
    DIAG(DIAG_WARNING, "broker", "the service manager cannot be reached",
         diag_text("error", strerror(error)));
}

void
supervisor_say(struct supervisor *s, const char *format, ...)
{
    char text[700];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (s->fd >= 0 &&
        sendto(s->fd, text, strlen(text), MSG_NOSIGNAL,
               (const struct sockaddr *)&s->address, s->address_size) < 0)
        report_unheard(errno);
}

/* A number of the environment; 0: none. */
static uint64_t
number_of(const char *variable)
{
    const char *text = getenv(variable);

    return text ? strtoull(text, NULL, 10) : 0;
}

void
supervisor_open(struct supervisor *s)
{
    const struct timeval patience = {PATIENCE_US / 1000000,
                                     PATIENCE_US % 1000000};
    const char *name = getenv("NOTIFY_SOCKET");
    uint64_t us = number_of("WATCHDOG_USEC"), pid = number_of("WATCHDOG_PID");
    size_t size;

    *s = (struct supervisor){.fd = -1};
    if (!name || !name[0])
        return;
    size = strlen(name);
    if ((name[0] != '/' && name[0] != '@') || size < 2 ||
        size >= sizeof(s->address.sun_path)) {
        report_unheard(EAFNOSUPPORT);
        return;
    }
    s->address.sun_family = AF_UNIX;
    memcpy(s->address.sun_path, name, size + 1);
    s->address_size =
        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size);
    if (name[0] == '@')
        s->address.sun_path[0] = '\0'; /* an abstract name has no end */
    else
        s->address_size++;
    s->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (s->fd < 0 ||
        setsockopt(s->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)))
        report_unheard(errno);
    /* It may be meant for another process, which passed it on. */
    if (s->fd >= 0 && (!pid || pid == (uint64_t)getpid()))
        s->watchdog_us = us < WATCHDOG_MAX_US ? (int64_t)us : WATCHDOG_MAX_US;
    s->next_us = clock_steady_us();
}

void
supervisor_close(struct supervisor *s)
{
    file_close(&s->fd);
    s->watchdog_us = 0;
}

int
supervisor_wait_ms(const struct supervisor *s)
{
    return s->watchdog_us ? clock_wait_ms(s->next_us) : -1;
}

void
supervisor_turn(struct supervisor *s, const char *thread, int64_t silent_us)
{
    bool is_silent = silent_us > s->watchdog_us / 4 * 3;

    if (supervisor_wait_ms(s))
        return;
    s->next_us = clock_steady_us() + s->watchdog_us / 4;
    /* Logs that signs of life stop, and that they come again. */
    if (is_silent && !s->is_silent)
        DIAG(DIAG_ERROR, "broker",
             "a thread hangs: the service manager gets no signs of life",
             diag_text("thread", thread),
             diag_number("silent_ms", (uint64_t)silent_us / 1000));
    else if (!is_silent && s->is_silent)
        diag(DIAG_WARNING, "broker",
             "no thread hangs: the service manager gets signs of life again");
    s->is_silent = is_silent;
    if (!s->is_silent)
        supervisor_say(s, "WATCHDOG=1");
}
