/*
 * process.h - what the system knows of this process, into the process_ rows of
 * the metrics.
 *
 * Reads /proc: may block, and takes as long as there are descriptors (some
 * milliseconds for 10,000). Any thread that may wait.
 */
#ifndef BROKER_BASE_PROCESS_H
#define BROKER_BASE_PROCESS_H

/* What cannot be read stays as it was. */
void process_measure(void);

#endif
