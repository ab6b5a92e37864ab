/* The state of one simulated node: one file, mapped into every process that uses the node.
 *
 * Two copies of the body lie in the file. A change is made in the spare copy and becomes valid by one atomic
 * store of its index; readers and writers exclude each other by flock, which the kernel drops when its holder
 * dies. So a process may be killed at any instant: a change is there as a whole or not at all.
 * Counters and faults live beside the bodies and are plain atomics, so that they survive a failed call.
 */
#ifndef SIM_STATE_H
#define SIM_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "abi.h"
#include "functions.h" /* generated: FUNCTION_COUNT, FN_<name>, SIM_LAYOUT_ID */

#define SIM_MAX_GPUS 16
#define SIM_MAX_GPU_INSTANCES 8
#define SIM_MAX_COMPUTE_INSTANCES 8
#define SIM_MAX_PROCESSES 256
#define SIM_MAX_FAULTS 32

enum sim_mode_change {
    CHANGE_DRIVER,   /* SetMigMode resets the GPU by itself when it is idle */
    CHANGE_RESET,    /* stays pending until the GPU is reset */
    CHANGE_REBOOT,   /* as CHANGE_RESET, and the GPU cannot be reset: the node must reboot */
    CHANGE_RESETLESS /* at once (Hopper and newer) */
};

enum sim_process_kind {
    PROCESS_COMPUTE,
    PROCESS_GRAPHICS,
    PROCESS_OPEN /* holds the device open without a context: blocks resets, but NVML lists it nowhere */
};

struct sim_compute_instance {
    uint32_t used, id, profile_id, start, size, reserved;
    uint64_t serial; /* never given twice: tells a stale handle from a new instance with the old id */
};

struct sim_gpu_instance {
    uint32_t used, id, profile_id, start, size, reserved;
    uint64_t serial;
    struct sim_compute_instance compute[SIM_MAX_COMPUTE_INSTANCES];
};

struct sim_gpu {
    char model[64]; /* key of gpus.json */
    char uuid[48];
    uint32_t domain, bus, device;
    uint32_t mode_change; /* enum sim_mode_change */
    uint32_t flipped;     /* numbers its GPU instances from the upper half */
    uint32_t mode, pending;
    uint32_t reserved;
    struct sim_gpu_instance instances[SIM_MAX_GPU_INSTANCES];
};

struct sim_process {
    uint32_t used, pid, kind, gpu;
    uint32_t gpu_instance, compute_instance; /* NVML_NO_INSTANCE: the whole GPU */
    uint64_t memory;                         /* bytes */
    char name[128], pod[192];                /* pod: "namespace/name" or empty */
};

struct sim_body {
    char driver_version[32], nvml_version[32];
    uint32_t cuda_version;
    uint32_t boots;
    uint64_t next_serial;
    uint32_t next_pid;
    uint32_t gpu_count;
    struct sim_gpu gpus[SIM_MAX_GPUS];
    struct sim_process processes[SIM_MAX_PROCESSES];
};

enum sim_kill { KILL_NEVER, KILL_BEFORE, KILL_DURING, KILL_AFTER };

struct sim_fault {
    _Atomic uint32_t active; /* written last */
    uint32_t function;       /* FN_<name> */
    uint64_t nth, times;     /* calls nth .. nth + times - 1, counted from the fault's creation; times 0: no end */
    uint32_t code, latency_ms, kill;
    uint32_t reserved;
    _Atomic uint64_t seen;
};

struct sim_file {
    char magic[8];
    uint64_t layout; /* SIM_LAYOUT_ID */
    _Atomic uint32_t active;
    uint32_t reserved;
    _Atomic uint64_t calls[FUNCTION_COUNT];
    struct sim_fault faults[SIM_MAX_FAULTS];
    struct sim_body bodies[2];
};

struct sim_node {
    int descriptor;
    pid_t owner; /* the process that opened the descriptor */
    struct sim_file *file;
    pthread_mutex_t mutex;
};
#define SIM_NODE_CLOSED {-1, 0, NULL, PTHREAD_MUTEX_INITIALIZER}

/* Makes a new state file without GPUs. NVML_ERROR_OPERATING_SYSTEM with errno set if it cannot. */
nvmlReturn_t sim_node_create(const char *path);

/* NVML_ERROR_DRIVER_NOT_LOADED: no such file. NVML_ERROR_LIB_RM_VERSION_MISMATCH: made by another build. */
nvmlReturn_t sim_node_open(struct sim_node *node, const char *path);
void sim_node_close(struct sim_node *node);

/* Shared access; the body must not be written. */
struct sim_body *sim_read(struct sim_node *node);
void sim_read_done(struct sim_node *node);

/* Exclusive access to a copy, valid once committed. */
struct sim_body *sim_change(struct sim_node *node);
void sim_commit(struct sim_node *node);
void sim_abandon(struct sim_node *node);

/* The node of this process (MIG_SIM_NODE), open between nvmlInit and nvmlShutdown. */
extern struct sim_node sim_current;

#endif
