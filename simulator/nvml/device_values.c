/* Numbers of a GPU that change or depend on the caller: memory, field values. */
#include <string.h>
#include <time.h>

#include "call.h"
#include "geometry.h"
#include "handle.h"

#define MIB (1024ull * 1024ull)

static nvmlReturn_t memory(const struct sim_body *body, nvmlDevice_t device, nvmlMemory_t *out)
{
    struct sim_target target;
    nvmlReturn_t result = sim_resolve_device(body, device, &target);
    if (result != NVML_SUCCESS)
        return result;
    if (!out)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!target.instance && target.gpu->mode && !sim_privileged())
        return NVML_ERROR_NO_PERMISSION; /* the sum over instances is not everyone's business */
    unsigned long long mib = target.model->memory_mib;
    if (target.instance)
        mib = sim_instance_profile(target.model, target.instance)->memory_mib;
    *out = (nvmlMemory_t){.total = mib * MIB};
    for (unsigned int i = 0; i < SIM_MAX_PROCESSES; i++) {
        const struct sim_process *process = &body->processes[i];
        if (process->used && process->gpu == target.gpu_index &&
            (!target.instance || process->gpu_instance == target.instance->id))
            out->used += process->memory;
    }
    if (out->used > out->total)
        out->used = out->total;
    out->free = out->total - out->used;
    return NVML_SUCCESS;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *out)
{
    SIM_READ(nvmlDeviceGetMemoryInfo, memory(body, device, out));
}

static nvmlReturn_t memory_v2(const struct sim_body *body, nvmlDevice_t device, nvmlMemory_v2_t *out)
{
    nvmlMemory_t plain;
    if (!out)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (out->version != NVML_STRUCT_VERSION(nvmlMemory_v2_t, 2))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    nvmlReturn_t result = memory(body, device, &plain);
    if (result == NVML_SUCCESS) {
        out->total = plain.total;
        out->reserved = 0;
        out->free = plain.free;
        out->used = plain.used;
    }
    return result;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *out)
{
    SIM_READ(nvmlDeviceGetMemoryInfo_v2, memory_v2(body, device, out));
}

static nvmlReturn_t field_values(const struct sim_body *body, nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
    struct sim_target target;
    nvmlReturn_t result = sim_resolve_device(body, device, &target);
    if (result != NVML_SUCCESS)
        return result;
    if (!values || count < 1)
        return NVML_ERROR_INVALID_ARGUMENT;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    for (int i = 0; i < count; i++) {
        nvmlFieldValue_t *value = &values[i];
        value->timestamp = now.tv_sec * 1000000ll + now.tv_nsec / 1000;
        value->latencyUsec = 0;
        value->valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
        value->nvmlReturn = NVML_SUCCESS;
        memset(&value->value, 0, sizeof(value->value));
        switch (value->fieldId) {
        case NVML_FI_DEV_IS_RESETLESS_MIG_SUPPORTED:
            value->value.uiVal = target.model->resetless;
            break;
        case NVML_FI_DEV_IS_MIG_MODE_INDEPENDENT_MIG_QUERY_CAPABLE:
            value->value.uiVal = sim_mig_capable(body, target.model);
            break;
        default:
            value->nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
        }
    }
    return NVML_SUCCESS;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
    SIM_READ(nvmlDeviceGetFieldValues, field_values(body, device, count, values));
}
