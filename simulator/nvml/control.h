/* The lab's own door: what no NVML client can do. Used by miglab (ctypes) and by nvidia-smi.
 *
 * Functions with a path open that state file for the one call. They return 0 or more when done and -1 on
 * failure; migsim_error() then says why, until the thread's next call. */
#ifndef SIM_CONTROL_H
#define SIM_CONTROL_H

#include <stddef.h>
#include <stdint.h>

const char *migsim_error(void);

/* A new state file without GPUs. */
int migsim_create(const char *path, const char *driver_version, const char *nvml_version, unsigned int cuda_version);

/* mode_change: "driver", "reset", "reboot", or "" for what the model does. Returns the GPU's index. */
int migsim_add_gpu(const char *path, const char *model, const char *uuid, unsigned int domain, unsigned int bus,
                   unsigned int device, const char *mode_change, int flipped);

/* Initial state. Mode at once; instance at `start` or where the driver puts it (-1), returns its id;
 * compute instance of `slices` (0: the full one), returns its id. */
int migsim_set_mode(const char *path, unsigned int gpu, int enabled);
int migsim_add_instance(const char *path, unsigned int gpu, const char *profile, int start);
int migsim_add_compute(const char *path, unsigned int gpu, unsigned int instance, unsigned int slices);

/* instance and compute -1: the whole GPU. kind: "compute", "graphics" or "open". pid 0: chosen. Returns the pid. */
int migsim_add_process(const char *path, unsigned int gpu, int instance, int compute, const char *kind, unsigned int pid,
                       const char *name, const char *pod, uint64_t memory);

/* Every criterion that is not -1, 0, NULL or "" must fit. Returns how many were removed. */
int migsim_remove_processes(const char *path, int gpu, int instance, int compute, unsigned int pid, const char *name,
                            const char *pod);

int migsim_reboot(const char *path);

/* function: its symbol. nth 1: the next call. times 0: for ever. kill: "", "before", "during" or "after". */
int migsim_fault_add(const char *path, const char *function, uint64_t nth, uint64_t times, int code,
                     unsigned int latency_ms, const char *kill);
int migsim_fault_clear(const char *path);

/* Functions with counters are numbered from 0; NULL past the last. */
const char *migsim_function_name(unsigned int function);
int migsim_calls(const char *path, uint64_t *counts, unsigned int size);
int migsim_calls_reset(const char *path);

/* The whole state as JSON. Returns the length it has; the text is cut if the buffer is smaller. */
int migsim_dump(const char *path, char *text, size_t size);

/* Number the build's state layout has: a file of another number cannot be opened. */
uint64_t migsim_layout(void);

/* Within nvmlInit: reset one GPU as the driver does for `nvidia-smi --gpu-reset`; returns an NVML code. */
int migsim_gpu_reset(unsigned int gpu);

/* Within nvmlInit: the index-th client of the GPU, of any kind. 0 past the last. */
int migsim_client(unsigned int gpu, unsigned int index, unsigned int *pid, char *name, size_t size);

#endif
