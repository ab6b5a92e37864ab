/* MIG devices: one per compute instance, numbered by GPU instance id, then compute instance id. */
#include "call.h"
#include "geometry.h"
#include "handle.h"

static nvmlReturn_t is_mig(const struct sim_body *body, nvmlDevice_t device, unsigned int *out)
{
    struct sim_target target;
    nvmlReturn_t result = sim_resolve_device(body, device, &target);
    if (result != NVML_SUCCESS)
        return result;
    if (!out)
        return NVML_ERROR_INVALID_ARGUMENT;
    *out = target.compute != NULL;
    return NVML_SUCCESS;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *out)
{
    SIM_READ(nvmlDeviceIsMigDeviceHandle, is_mig(body, device, out));
}

static nvmlReturn_t instance_id(const struct sim_body *body, nvmlDevice_t device, unsigned int *id)
{
    struct sim_target target;
    nvmlReturn_t result = sim_resolve_mig(body, device, &target);
    if (result != NVML_SUCCESS)
        return result;
    if (!id)
        return NVML_ERROR_INVALID_ARGUMENT;
    *id = target.instance->id;
    return NVML_SUCCESS;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned int *id)
{
    SIM_READ(nvmlDeviceGetGpuInstanceId, instance_id(body, device, id));
}

static nvmlReturn_t compute_id(const struct sim_body *body, nvmlDevice_t device, unsigned int *id)
{
    struct sim_target target;
    nvmlReturn_t result = sim_resolve_mig(body, device, &target);
    if (result != NVML_SUCCESS)
        return result;
    if (!id)
        return NVML_ERROR_INVALID_ARGUMENT;
    *id = target.compute->id;
    return NVML_SUCCESS;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned int *id)
{
    SIM_READ(nvmlDeviceGetComputeInstanceId, compute_id(body, device, id));
}

static nvmlReturn_t most(const struct sim_body *body, nvmlDevice_t device, unsigned int *count)
{
    struct sim_target target;
    nvmlReturn_t result = sim_resolve_gpu(body, device, &target);
    if (result != NVML_SUCCESS)
        return result;
    if (!count)
        return NVML_ERROR_INVALID_ARGUMENT;
    *count = target.gpu->mode ? target.model->compute_slices : 0;
    return NVML_SUCCESS;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count)
{
    SIM_READ(nvmlDeviceGetMaxMigDeviceCount, most(body, device, count));
}

/* A MIG device's place in the order: how many of its GPU's come before it. */
static unsigned int rank(const struct sim_gpu *gpu, const struct sim_gpu_instance *instance,
                         const struct sim_compute_instance *compute)
{
    unsigned int before = 0;
    for (unsigned int i = 0; i < SIM_MAX_GPU_INSTANCES; i++) {
        const struct sim_gpu_instance *other = &gpu->instances[i];
        for (unsigned int j = 0; other->used && j < SIM_MAX_COMPUTE_INSTANCES; j++)
            before += other->compute[j].used &&
                      (other->id < instance->id || (other == instance && other->compute[j].id < compute->id));
    }
    return before;
}

static nvmlReturn_t by_index(const struct sim_body *body, nvmlDevice_t device, unsigned int index, nvmlDevice_t *found)
{
    struct sim_target target;
    nvmlReturn_t result = sim_resolve_gpu(body, device, &target);
    if (result != NVML_SUCCESS)
        return result;
    if (!sim_mig_capable(body, target.model))
        return NVML_ERROR_NOT_SUPPORTED;
    if (!found || index >= target.model->compute_slices)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned int i = 0; i < SIM_MAX_GPU_INSTANCES; i++) {
        const struct sim_gpu_instance *instance = &target.gpu->instances[i];
        for (unsigned int j = 0; instance->used && j < SIM_MAX_COMPUTE_INSTANCES; j++) {
            const struct sim_compute_instance *compute = &instance->compute[j];
            if (compute->used && rank(target.gpu, instance, compute) == index) {
                *found = sim_mig_handle(target.gpu_index, instance->serial, compute->serial);
                return NVML_SUCCESS;
            }
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index, nvmlDevice_t *found)
{
    SIM_READ(nvmlDeviceGetMigDeviceHandleByIndex, by_index(body, device, index, found));
}

static nvmlReturn_t index_of(const struct sim_body *body, nvmlDevice_t device, unsigned int *index)
{
    struct sim_target target;
    nvmlReturn_t result = sim_resolve_device(body, device, &target);
    if (result != NVML_SUCCESS)
        return result;
    if (!index)
        return NVML_ERROR_INVALID_ARGUMENT;
    *index = target.compute ? rank(target.gpu, target.instance, target.compute) : target.gpu_index;
    return NVML_SUCCESS;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
    SIM_READ(nvmlDeviceGetIndex, index_of(body, device, index));
}

static nvmlReturn_t parent(const struct sim_body *body, nvmlDevice_t device, nvmlDevice_t *gpu)
{
    struct sim_target target;
    nvmlReturn_t result = sim_resolve_mig(body, device, &target);
    if (result != NVML_SUCCESS)
        return result;
    if (!gpu)
        return NVML_ERROR_INVALID_ARGUMENT;
    *gpu = sim_gpu_handle(target.gpu_index);
    return NVML_SUCCESS;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t device, nvmlDevice_t *gpu)
{
    SIM_READ(nvmlDeviceGetDeviceHandleFromMigDeviceHandle, parent(body, device, gpu));
}

static nvmlReturn_t attributes(const struct sim_body *body, nvmlDevice_t device, nvmlDeviceAttributes_t *out)
{
    struct sim_target target;
    nvmlReturn_t result = sim_resolve_device(body, device, &target);
    if (result != NVML_SUCCESS)
        return result;
    if (!target.compute)
        return NVML_ERROR_NOT_SUPPORTED;
    if (!out)
        return NVML_ERROR_INVALID_ARGUMENT;
    const struct model_profile *profile = sim_instance_profile(target.model, target.instance);
    const struct model_compute *compute = sim_compute_profile(profile, target.compute->profile_id);
    *out = (nvmlDeviceAttributes_t){
        .multiprocessorCount = compute->multiprocessors, .sharedCopyEngineCount = profile->copy,
        .sharedDecoderCount = profile->decoders, .sharedEncoderCount = profile->encoders,
        .sharedJpegCount = profile->jpeg, .sharedOfaCount = profile->ofa,
        .gpuInstanceSliceCount = profile->slices, .computeInstanceSliceCount = compute->slices,
        .memorySizeMB = profile->memory_mib};
    return NVML_SUCCESS;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetAttributes(nvmlDevice_t device, nvmlDeviceAttributes_t *out)
{
    SIM_READ(nvmlDeviceGetAttributes, attributes(body, device, out));
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *out)
{
    SIM_READ(nvmlDeviceGetAttributes_v2, attributes(body, device, out));
}
