/* Running processes of a GPU or a MIG device. */
#include <stdio.h>

#include "call.h"
#include "handle.h"

/* Calls `visit` for each process of the kind on the device; returns how many there are. */
static unsigned int each(const struct sim_body *body, const struct sim_target *target, enum sim_process_kind kind,
                         void (*visit)(const struct sim_process *, unsigned int, void *), void *into)
{
    unsigned int found = 0;
    for (unsigned int i = 0; i < SIM_MAX_PROCESSES; i++) {
        const struct sim_process *process = &body->processes[i];
        if (!process->used || process->gpu != target->gpu_index || process->kind != kind)
            continue;
        if (target->compute &&
            (process->gpu_instance != target->instance->id || process->compute_instance != target->compute->id))
            continue;
        if (visit)
            visit(process, found, into);
        found++;
    }
    return found;
}

static void put_v1(const struct sim_process *process, unsigned int index, void *into)
{
    ((nvmlProcessInfo_v1_t *)into)[index] = (nvmlProcessInfo_v1_t){process->pid, process->memory};
}

static void put(const struct sim_process *process, unsigned int index, void *into)
{
    ((nvmlProcessInfo_t *)into)[index] =
        (nvmlProcessInfo_t){process->pid, process->memory, process->gpu_instance, process->compute_instance};
}

static nvmlReturn_t list(const struct sim_body *body, nvmlDevice_t device, enum sim_process_kind kind,
                         void (*visit)(const struct sim_process *, unsigned int, void *), unsigned int *count, void *infos)
{
    struct sim_target target;
    nvmlReturn_t result = sim_resolve_device(body, device, &target);
    if (result != NVML_SUCCESS)
        return result;
    if (!count || (*count && !infos))
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!target.compute && target.gpu->mode && !sim_privileged())
        return NVML_ERROR_NO_PERMISSION; /* the processes of all instances together are for root */
    unsigned int room = *count;
    *count = each(body, &target, kind, NULL, NULL);
    if (*count > room)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    each(body, &target, kind, visit, infos);
    return NVML_SUCCESS;
}

#define PROCESS_LIST(function, kind, visit, type)                                                \
    SIM_EXPORT nvmlReturn_t function(nvmlDevice_t device, unsigned int *count, type *infos)      \
    {                                                                                            \
        SIM_READ(function, list(body, device, kind, visit, count, infos));                       \
    }

PROCESS_LIST(nvmlDeviceGetComputeRunningProcesses, PROCESS_COMPUTE, put_v1, nvmlProcessInfo_v1_t)
PROCESS_LIST(nvmlDeviceGetComputeRunningProcesses_v2, PROCESS_COMPUTE, put, nvmlProcessInfo_t)
PROCESS_LIST(nvmlDeviceGetComputeRunningProcesses_v3, PROCESS_COMPUTE, put, nvmlProcessInfo_t)
PROCESS_LIST(nvmlDeviceGetGraphicsRunningProcesses, PROCESS_GRAPHICS, put_v1, nvmlProcessInfo_v1_t)
PROCESS_LIST(nvmlDeviceGetGraphicsRunningProcesses_v2, PROCESS_GRAPHICS, put, nvmlProcessInfo_t)
PROCESS_LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, PROCESS_GRAPHICS, put, nvmlProcessInfo_t)

static nvmlReturn_t process_name(const struct sim_body *body, unsigned int pid, char *name, unsigned int length)
{
    if (!name || length == 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned int i = 0; i < SIM_MAX_PROCESSES; i++) {
        const struct sim_process *process = &body->processes[i];
        if (process->used && process->pid == pid) {
            snprintf(name, length, "%s", process->name); /* cropped to the caller's length */
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

SIM_EXPORT nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length)
{
    SIM_READ(nvmlSystemGetProcessName, process_name(body, pid, name, length));
}
