/* MIG mode by GPU generation. */
#include "mig_mode.h"

#include <string.h>

#include "call.h"
#include "geometry.h"
#include "handle.h"

bool sim_gpu_has_clients(const struct sim_body *body, unsigned int gpu, bool whole_only)
{
    for (unsigned int i = 0; i < SIM_MAX_PROCESSES; i++) {
        const struct sim_process *process = &body->processes[i];
        if (process->used && process->gpu == gpu && (!whole_only || process->gpu_instance == NVML_NO_INSTANCE))
            return true;
    }
    return false;
}

bool sim_gpu_has_instances(const struct sim_gpu *gpu)
{
    for (unsigned int i = 0; i < SIM_MAX_GPU_INSTANCES; i++)
        if (gpu->instances[i].used)
            return true;
    return false;
}

void sim_gpu_restart(struct sim_gpu *gpu, const struct model *model)
{
    memset(gpu->instances, 0, sizeof(gpu->instances));
    if (model->resetless) /* the mode lives in the driver, not in the InfoROM */
        gpu->pending = NVML_DEVICE_MIG_DISABLE;
    gpu->mode = gpu->pending;
}

nvmlReturn_t sim_gpu_reset(struct sim_body *body, unsigned int index)
{
    struct sim_gpu *gpu = &body->gpus[index];
    if (gpu->mode_change == CHANGE_REBOOT)
        return NVML_ERROR_NOT_SUPPORTED;
    if (sim_gpu_has_clients(body, index, false))
        return NVML_ERROR_IN_USE;
    sim_gpu_restart(gpu, model_find(gpu->model));
    return NVML_SUCCESS;
}

void sim_node_reboot(struct sim_body *body)
{
    memset(body->processes, 0, sizeof(body->processes));
    for (unsigned int i = 0; i < body->gpu_count; i++)
        sim_gpu_restart(&body->gpus[i], model_find(body->gpus[i].model));
    body->boots++;
}

nvmlReturn_t sim_set_mode(struct sim_body *body, unsigned int index, unsigned int mode, nvmlReturn_t *activation)
{
    struct sim_gpu *gpu = &body->gpus[index];
    *activation = NVML_SUCCESS;
    if (mode == gpu->mode) { /* nothing to do, or a pending change is called off */
        gpu->pending = mode;
        return NVML_SUCCESS;
    }
    if (gpu->mode_change == CHANGE_RESETLESS) {
        if (mode == NVML_DEVICE_MIG_DISABLE && sim_gpu_has_instances(gpu))
            return NVML_ERROR_IN_USE;
        gpu->mode = gpu->pending = mode;
        return NVML_SUCCESS;
    }
    gpu->pending = mode;
    if (sim_gpu_has_instances(gpu) || (gpu->mode_change == CHANGE_DRIVER && sim_gpu_has_clients(body, index, false)))
        *activation = NVML_ERROR_IN_USE;
    else if (gpu->mode_change == CHANGE_DRIVER)
        sim_gpu_restart(gpu, model_find(gpu->model));
    else
        *activation = NVML_ERROR_RESET_REQUIRED;
    return NVML_SUCCESS;
}

static nvmlReturn_t set_mode(struct sim_body *body, nvmlDevice_t device, unsigned int mode, nvmlReturn_t *activation)
{
    struct sim_target target;
    nvmlReturn_t result = sim_resolve_gpu(body, device, &target);
    if (result != NVML_SUCCESS)
        return result;
    if (!activation || mode > NVML_DEVICE_MIG_ENABLE)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!sim_mig_capable(body, target.model))
        return NVML_ERROR_NOT_SUPPORTED;
    if (!sim_privileged())
        return NVML_ERROR_NO_PERMISSION;
    return sim_set_mode(body, target.gpu_index, mode, activation);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceSetMigMode(nvmlDevice_t device, unsigned int mode, nvmlReturn_t *activation)
{
    SIM_CHANGE(nvmlDeviceSetMigMode, set_mode(body, device, mode, activation));
}

static nvmlReturn_t get_mode(const struct sim_body *body, nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
    struct sim_target target;
    nvmlReturn_t result = sim_resolve_gpu(body, device, &target);
    if (result != NVML_SUCCESS)
        return result;
    if (!current || !pending)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!sim_mig_capable(body, target.model))
        return NVML_ERROR_NOT_SUPPORTED;
    *current = target.gpu->mode;
    *pending = target.gpu->pending;
    return NVML_SUCCESS;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
    SIM_READ(nvmlDeviceGetMigMode, get_mode(body, device, current, pending));
}
