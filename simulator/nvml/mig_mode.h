/* MIG mode, reset and reboot: what happens to a GPU as a whole. */
#ifndef SIM_MIG_MODE_H
#define SIM_MIG_MODE_H

#include "model.h"
#include "state.h"

/* Is a process on the GPU, in an instance or outside (only outside if `whole_only`)? */
bool sim_gpu_has_clients(const struct sim_body *body, unsigned int gpu, bool whole_only);

/* Has the GPU any GPU instance? */
bool sim_gpu_has_instances(const struct sim_gpu *gpu);

/* Instances go, pending becomes current; Hopper and newer fall back to MIG off. */
void sim_gpu_restart(struct sim_gpu *gpu, const struct model *model);

/* What `nvidia-smi --gpu-reset` does to one GPU.
 * NVML_ERROR_IN_USE: it has clients. NVML_ERROR_NOT_SUPPORTED: only a reboot resets it. */
nvmlReturn_t sim_gpu_reset(struct sim_body *body, unsigned int gpu);

/* Processes end, every GPU restarts. */
void sim_node_reboot(struct sim_body *body);

/* Turns MIG mode on or off as SetMigMode does for a privileged caller. */
nvmlReturn_t sim_set_mode(struct sim_body *body, unsigned int gpu, unsigned int mode, nvmlReturn_t *activation);

#endif
