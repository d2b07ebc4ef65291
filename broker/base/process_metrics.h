/*
 * process_metrics.h - sets the process_ rows of the metrics, from the system's
 * figures of this process.
 *
 * Reads /proc: may block, and takes time for each descriptor (some milliseconds
 * for 10,000). Any thread that may wait.
 */
#ifndef BROKER_BASE_PROCESS_METRICS_H
#define BROKER_BASE_PROCESS_METRICS_H

/* Sets the rows. A row whose figure cannot be read keeps its value. */
void process_measure(void);

#endif
