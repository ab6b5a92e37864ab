/* Handles given to clients, and what they mean in the node's present state. */
#ifndef SIM_HANDLE_H
#define SIM_HANDLE_H

#include "model.h"
#include "state.h"

/* What a handle refers to. The pointers lead into the body that was passed to the resolving function;
 * write through them only if that body came from sim_change(). */
struct sim_target {
    unsigned int gpu_index;
    struct sim_gpu *gpu;
    const struct model *model;
    struct sim_gpu_instance *instance;    /* NULL for a whole GPU */
    struct sim_compute_instance *compute; /* NULL for a whole GPU or a GPU instance */
};

nvmlDevice_t sim_gpu_handle(unsigned int gpu);
nvmlDevice_t sim_mig_handle(unsigned int gpu, uint64_t instance_serial, uint64_t compute_serial);
nvmlGpuInstance_t sim_instance_handle(unsigned int gpu, uint64_t instance_serial);
nvmlComputeInstance_t sim_compute_handle(unsigned int gpu, uint64_t instance_serial, uint64_t compute_serial);

/* A whole GPU. NVML_ERROR_INVALID_ARGUMENT for anything else. */
nvmlReturn_t sim_resolve_gpu(const struct sim_body *body, nvmlDevice_t device, struct sim_target *target);

/* A whole GPU or a MIG device that still exists. */
nvmlReturn_t sim_resolve_device(const struct sim_body *body, nvmlDevice_t device, struct sim_target *target);

/* A MIG device that still exists. */
nvmlReturn_t sim_resolve_mig(const struct sim_body *body, nvmlDevice_t device, struct sim_target *target);

nvmlReturn_t sim_resolve_instance(const struct sim_body *body, nvmlGpuInstance_t handle, struct sim_target *target);
nvmlReturn_t sim_resolve_compute(const struct sim_body *body, nvmlComputeInstance_t handle, struct sim_target *target);

#endif
