/*
 * world.h - what the processes of a simulated world share: the baton, the time,
 * the network's connections and the trace.
 *
 *     world.py (operator) --world_run--> [task] -> [task] -> ... -> operator
 *
 * Each process of the world is the real program with libworld.so loaded before
 * the C library (world.c). Exactly one thread of all processes runs: it has the
 * baton. At each lock, wait and call of the system it takes a step, where the
 * seed decides who goes on. Nobody sleeps: if nobody can go on, the time
 * advances to the first deadline.
 *
 * All of it lies in one file that every process maps. Whoever has the baton may
 * write it; there is no other lock.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define WORLD_PORTS     65536 /* of the network; a socket of the disk is behind */
#define WORLD_TASKS     512
#define WORLD_LINKS     16384
#define WORLD_PROCESSES 512
#define WORLD_TRACE     4096 /* steps that are kept */
#define WORLD_NEVER     INT64_MAX

enum task_state {
    TASK_FREE,
    TASK_READY,
    TASK_WAITING, /* for a wake of `key`, or until_ns */
    TASK_POLLING  /* for an event of its interest, or until_ns */
};

/* A thread. */
struct world_task {
    uint32_t turn; /* a futex: 1 when it may go on */
    uint32_t state;
    uint32_t process;
    uint32_t woken;
    uint64_t key;
    int64_t until_ns;
    uint64_t interest; /* what it polls: bits of world_bit */
    uint64_t seen;     /* world.events when it looked */
};

/* A connection; side 0 connected, side 1 accepted. */
struct world_link {
    uint32_t port;
    uint32_t process[2];   /* 0: not yet accepted */
    uint32_t is_cut;       /* both sides see a reset */
    uint32_t is_silent;    /* bytes vanish, and nobody is told */
    int64_t visible_ns[2]; /* when a side may read what was written for it */
};

enum process_state { PROCESS_NONE, PROCESS_RUNS, PROCESS_ENDS };

struct world_process {
    uint32_t state;
    uint32_t is_full; /* its disk */
    uint64_t failing; /* so many calls of fsync on, one fails; 0: none */
    int64_t still_ns; /* it is suspended until then; steady clock */
};

struct world_event {
    int64_t ns;
    uint32_t task, process;
    char what[24];
    int64_t number;
};

enum world_end {
    WORLD_LIMIT = 1, /* the steps, or the time, are over */
    WORLD_STILL,     /* nobody can go on, and there is no deadline */
    WORLD_EXIT       /* the process `exiting` ends */
};

struct world {
    uint64_t random[2];
    int64_t now_ns;    /* of the steady clock */
    int64_t offset_ns; /* of the clock of the day: that and now_ns */
    int64_t drift;     /* the day gains so many millionths */
    int64_t limit_ns;
    uint64_t limit; /* of steps */
    uint64_t steps;
    uint64_t hash;    /* of all steps */
    uint64_t events;  /* whatever the operator did that may end any poll */
    uint32_t turn;    /* the operator's futex */
    uint32_t end;     /* enum world_end */
    uint32_t exiting; /* process */
    uint32_t n_links;
    uint32_t n_tasks;  /* no later one was ever used */
    uint32_t switches; /* one of so many steps hands the baton on */
    uint32_t shorts;   /* one of so many reads and writes is short; 0: none */
    int64_t delay_ns;  /* most of what a connection delays bytes */
    int64_t tick_ns;   /* of a step */
    uint32_t name;     /* of its addresses */
    struct world_task tasks[WORLD_TASKS];
    struct world_link links[WORLD_LINKS];
    struct world_process processes[WORLD_PROCESSES];
    struct world_event trace[WORLD_TRACE];
};

/* What the journal of a disk has: a header, then the path (n_path bytes), the
 * second path (n_other), the bytes before (n_old) and after (n_new). */
enum disk_op {
    DISK_WRITE = 1, /* ino, at; old and new */
    DISK_SIZE,      /* ino: old_size -> at; old: the bytes it lost */
    DISK_SYNC,      /* ino */
    DISK_SYNC_ALL,
    DISK_CREATE, /* path, ino */
    DISK_MKDIR,  /* path */
    DISK_LINK,   /* path, ino */
    DISK_RENAME, /* path -> other; ino, kept: the number under which the file
                    that stood there is kept, or 0 */
    DISK_UNLINK, /* path, kept */
    DISK_RMDIR   /* path */
};

struct disk_record {
    uint32_t op;
    uint32_t n_path, n_other, n_old, n_new;
    uint32_t kept;
    uint64_t ino;
    uint64_t at;
    uint64_t old_size;
};

/* Lets the world go on for at most `steps` steps and `ns` nanoseconds. For the
 * operator. Returns enum world_end if it stands already, else 0: then
 * world_await. */
int world_run(struct world *world, uint64_t steps, int64_t ns);

/* Waits until it stands. 0: `timeout_ms` of real time went by: whoever has the
 * baton has died, hangs, or has much to do. */
int world_await(struct world *world, int timeout_ms);

/* Marks the process as ended. */
void world_forget(struct world *world, uint32_t process);

/* The size of struct world, which the operator declares, too. */
unsigned world_size(void);

/* A number below `n`, of the seed. */
uint64_t world_random(struct world *world, uint64_t n);
