/*
 * config_file.h - reads the file of --config: options, then sections. config.h
 * describes its form.
 */
#ifndef BROKER_CONFIG_CONFIG_FILE_H
#define BROKER_CONFIG_CONFIG_FILE_H

#include "broker/config/config.h"

/* Reads the values of the options into *config, and appends the bridges of the
 * sections. STATUS_INVALID: `why` names file and line. */
MUST_CHECK enum status config_file_read(struct config *config, const char *path,
                                        struct problem *why);

#endif
