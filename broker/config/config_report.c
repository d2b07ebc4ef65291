#include "broker/config/config_report.h"

void
config_report_init(struct config_report *report)
{
    pthread_mutex_init(&report->mutex, NULL);
    buf_init(&report->text, CONFIG_REPORT_MAX);
}

void
config_report_fini(struct config_report *report)
{
    buf_fini(&report->text);
    pthread_mutex_destroy(&report->mutex);
}

void
config_report_update(struct config_report *report, const struct config *config)
{
    struct buf text, before;

    buf_init(&text, CONFIG_REPORT_MAX);
    config_write(config, &text);
    pthread_mutex_lock(&report->mutex);
    before = report->text;
    report->text = text;
    pthread_mutex_unlock(&report->mutex);
    buf_fini(&before);
}

void
config_report_copy(struct config_report *report, struct buf *to)
{
    pthread_mutex_lock(&report->mutex);
    to->failed |= report->text.failed;
    buf_add_slice(to, buf_slice(&report->text));
    pthread_mutex_unlock(&report->mutex);
}
