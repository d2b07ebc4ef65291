/*
 * config_report.h - the present options as JSON, for GET /config. The main
 * thread writes it at the start and at each reload, because it alone reads
 * options that can change; any thread copies it.
 */
#ifndef BROKER_CONFIG_CONFIG_REPORT_H
#define BROKER_CONFIG_CONFIG_REPORT_H

#include <pthread.h>

#include "broker/config/config.h"
#include "proto/buf.h"

/* The longest text: some 100 options, few of them long. */
#define CONFIG_REPORT_MAX ((size_t)1 << 18)

struct config_report {
    pthread_mutex_t mutex;
    struct buf text;
};

void config_report_init(struct config_report *report);
void config_report_fini(struct config_report *report);

/* Replaces the text by that of `config`. */
void config_report_update(struct config_report *report,
                          const struct config *config);

/* Appends the text. Any thread. */
void config_report_copy(struct config_report *report, struct buf *to);

#endif
