/* Compute instances within a GPU instance. */
#include <stdio.h>
#include <string.h>

#include "call.h"
#include "geometry.h"
#include "handle.h"

/* Profiles: NVML_COMPUTE_INSTANCE_PROFILE_* and the profile id are the same number. */

static nvmlReturn_t find(const struct sim_body *body, nvmlGpuInstance_t handle, unsigned int id, struct sim_target *target,
                         const struct model_profile **profile, const struct model_compute **compute)
{
    nvmlReturn_t result = sim_resolve_instance(body, handle, target);
    if (result != NVML_SUCCESS)
        return result;
    if (id >= NVML_COMPUTE_INSTANCE_PROFILE_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    *profile = sim_instance_profile(target->model, target->instance);
    *compute = sim_compute_profile(*profile, id);
    return *compute ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

static nvmlReturn_t administer(const struct sim_body *body, nvmlGpuInstance_t handle, unsigned int id,
                               struct sim_target *target, const struct model_profile **profile,
                               const struct model_compute **compute)
{
    nvmlReturn_t result = find(body, handle, id, target, profile, compute);
    return result == NVML_SUCCESS && !sim_privileged() ? NVML_ERROR_NO_PERMISSION : result;
}

static void describe(const struct model_profile *profile, const struct model_compute *compute,
                     nvmlComputeInstanceProfileInfo_v2_t *info)
{
    char name[48];
    *info = (nvmlComputeInstanceProfileInfo_v2_t){
        .version = info->version, .id = compute->id, .sliceCount = compute->slices, .instanceCount = compute->max,
        .multiprocessorCount = compute->multiprocessors, .sharedCopyEngineCount = profile->copy,
        .sharedDecoderCount = profile->decoders, .sharedEncoderCount = profile->encoders,
        .sharedJpegCount = profile->jpeg, .sharedOfaCount = profile->ofa};
    sim_compute_name(profile, compute, name, sizeof(name));
    snprintf(info->name, sizeof(info->name), "MIG %s", name);
}

static nvmlReturn_t info_versioned(const struct sim_body *body, nvmlGpuInstance_t handle, unsigned int number,
                                   unsigned int engine, nvmlComputeInstanceProfileInfo_v2_t *info)
{
    struct sim_target target;
    const struct model_profile *profile;
    const struct model_compute *compute;
    if (!info || engine >= NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (info->version != nvmlComputeInstanceProfileInfo_v2 && info->version != nvmlComputeInstanceProfileInfo_v3)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    nvmlReturn_t result = find(body, handle, number, &target, &profile, &compute);
    if (result != NVML_SUCCESS)
        return result;
    describe(profile, compute, info);
    if (info->version == nvmlComputeInstanceProfileInfo_v3)
        ((nvmlComputeInstanceProfileInfo_v3_t *)info)->capabilities =
            profile->gfx ? NVML_COMPUTE_INSTANCE_PROFILE_CAPS_GFX : 0;
    return NVML_SUCCESS;
}

SIM_EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfoV(nvmlGpuInstance_t handle, unsigned int number,
                                                                      unsigned int engine,
                                                                      nvmlComputeInstanceProfileInfo_v2_t *info)
{
    SIM_READ(nvmlGpuInstanceGetComputeInstanceProfileInfoV, info_versioned(body, handle, number, engine, info));
}

static nvmlReturn_t info_v1(const struct sim_body *body, nvmlGpuInstance_t handle, unsigned int number, unsigned int engine,
                            nvmlComputeInstanceProfileInfo_t *info)
{
    nvmlComputeInstanceProfileInfo_v2_t full = {.version = nvmlComputeInstanceProfileInfo_v2};
    if (!info)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = info_versioned(body, handle, number, engine, &full);
    if (result == NVML_SUCCESS) /* v1 is v2 without the version and the name */
        memcpy(info, &full.id, sizeof(*info));
    return result;
}

SIM_EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfo(nvmlGpuInstance_t handle, unsigned int number,
                                                                     unsigned int engine,
                                                                     nvmlComputeInstanceProfileInfo_t *info)
{
    SIM_READ(nvmlGpuInstanceGetComputeInstanceProfileInfo, info_v1(body, handle, number, engine, info));
}

static nvmlReturn_t capacity(const struct sim_body *body, nvmlGpuInstance_t handle, unsigned int id, unsigned int *count)
{
    struct sim_target target;
    const struct model_profile *profile;
    const struct model_compute *compute;
    nvmlReturn_t result = administer(body, handle, id, &target, &profile, &compute);
    if (result != NVML_SUCCESS)
        return result;
    if (!count)
        return NVML_ERROR_INVALID_ARGUMENT;
    *count = sim_compute_capacity(profile, target.instance, compute);
    return NVML_SUCCESS;
}

SIM_EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstanceRemainingCapacity(nvmlGpuInstance_t handle, unsigned int id,
                                                                           unsigned int *count)
{
    SIM_READ(nvmlGpuInstanceGetComputeInstanceRemainingCapacity, capacity(body, handle, id, count));
}

static nvmlReturn_t placements(const struct sim_body *body, nvmlGpuInstance_t handle, unsigned int id, nvmlPlacement_t *out,
                               unsigned int *count)
{
    struct sim_target target;
    const struct model_profile *profile;
    const struct model_compute *compute;
    nvmlReturn_t result = administer(body, handle, id, &target, &profile, &compute);
    if (result != NVML_SUCCESS)
        return result;
    if (!count)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (out)
        memcpy(out, compute->placements, compute->placement_count * sizeof(*out));
    *count = compute->placement_count;
    return NVML_SUCCESS;
}

SIM_EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstancePossiblePlacements(nvmlGpuInstance_t handle, unsigned int id,
                                                                            nvmlPlacement_t *out, unsigned int *count)
{
    SIM_READ(nvmlGpuInstanceGetComputeInstancePossiblePlacements, placements(body, handle, id, out, count));
}

static nvmlReturn_t create(struct sim_body *body, nvmlGpuInstance_t handle, unsigned int id,
                           const nvmlPlacement_t *placement, nvmlComputeInstance_t *created)
{
    struct sim_target target;
    const struct model_profile *profile;
    const struct model_compute *compute;
    struct sim_compute_instance *instance;
    nvmlReturn_t result = administer(body, handle, id, &target, &profile, &compute);
    if (result != NVML_SUCCESS)
        return result;
    if (!created)
        return NVML_ERROR_INVALID_ARGUMENT;
    result = sim_create_compute(body, target.instance, profile, compute, placement, &instance);
    if (result == NVML_SUCCESS)
        *created = sim_compute_handle(target.gpu_index, target.instance->serial, instance->serial);
    return result;
}

SIM_EXPORT nvmlReturn_t nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t handle, unsigned int id,
                                                             nvmlComputeInstance_t *created)
{
    SIM_CHANGE(nvmlGpuInstanceCreateComputeInstance, create(body, handle, id, NULL, created));
}

SIM_EXPORT nvmlReturn_t nvmlGpuInstanceCreateComputeInstanceWithPlacement(nvmlGpuInstance_t handle, unsigned int id,
                                                                          const nvmlPlacement_t *placement,
                                                                          nvmlComputeInstance_t *created)
{
    SIM_CHANGE(nvmlGpuInstanceCreateComputeInstanceWithPlacement,
               placement ? create(body, handle, id, placement, created) : NVML_ERROR_INVALID_ARGUMENT);
}

static nvmlReturn_t destroy(struct sim_body *body, nvmlComputeInstance_t handle)
{
    struct sim_target target;
    nvmlReturn_t result = sim_resolve_compute(body, handle, &target);
    if (result != NVML_SUCCESS)
        return result;
    if (!sim_privileged())
        return NVML_ERROR_NO_PERMISSION;
    for (unsigned int i = 0; i < SIM_MAX_PROCESSES; i++) {
        const struct sim_process *process = &body->processes[i];
        if (process->used && process->gpu == target.gpu_index && process->gpu_instance == target.instance->id &&
            process->compute_instance == target.compute->id)
            return NVML_ERROR_IN_USE;
    }
    target.compute->used = 0;
    return NVML_SUCCESS;
}

SIM_EXPORT nvmlReturn_t nvmlComputeInstanceDestroy(nvmlComputeInstance_t handle)
{
    SIM_CHANGE(nvmlComputeInstanceDestroy, destroy(body, handle));
}

static nvmlReturn_t list(const struct sim_body *body, nvmlGpuInstance_t handle, unsigned int id,
                         nvmlComputeInstance_t *handles, unsigned int *count)
{
    struct sim_target target;
    const struct model_profile *profile;
    const struct model_compute *compute;
    nvmlReturn_t result = administer(body, handle, id, &target, &profile, &compute);
    if (result != NVML_SUCCESS)
        return result;
    if (!handles || !count)
        return NVML_ERROR_INVALID_ARGUMENT;
    *count = 0;
    for (unsigned int number = 0; number < SIM_MAX_COMPUTE_INSTANCES; number++) /* in the order of ids */
        for (unsigned int i = 0; i < SIM_MAX_COMPUTE_INSTANCES; i++) {
            const struct sim_compute_instance *instance = &target.instance->compute[i];
            if (instance->used && instance->profile_id == id && instance->id == number)
                handles[(*count)++] = sim_compute_handle(target.gpu_index, target.instance->serial, instance->serial);
        }
    return NVML_SUCCESS;
}

SIM_EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t handle, unsigned int id,
                                                           nvmlComputeInstance_t *handles, unsigned int *count)
{
    SIM_READ(nvmlGpuInstanceGetComputeInstances, list(body, handle, id, handles, count));
}

static nvmlReturn_t by_id(const struct sim_body *body, nvmlGpuInstance_t handle, unsigned int id,
                          nvmlComputeInstance_t *found)
{
    struct sim_target target;
    nvmlReturn_t result = sim_resolve_instance(body, handle, &target);
    if (result != NVML_SUCCESS)
        return result;
    if (!found)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!sim_privileged())
        return NVML_ERROR_NO_PERMISSION;
    for (unsigned int i = 0; i < SIM_MAX_COMPUTE_INSTANCES; i++) {
        const struct sim_compute_instance *instance = &target.instance->compute[i];
        if (instance->used && instance->id == id) {
            *found = sim_compute_handle(target.gpu_index, target.instance->serial, instance->serial);
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

SIM_EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstanceById(nvmlGpuInstance_t handle, unsigned int id,
                                                              nvmlComputeInstance_t *found)
{
    SIM_READ(nvmlGpuInstanceGetComputeInstanceById, by_id(body, handle, id, found));
}

static nvmlReturn_t instance_info(const struct sim_body *body, nvmlComputeInstance_t handle, nvmlComputeInstanceInfo_t *info)
{
    struct sim_target target;
    nvmlReturn_t result = sim_resolve_compute(body, handle, &target);
    if (result != NVML_SUCCESS)
        return result;
    if (!info)
        return NVML_ERROR_INVALID_ARGUMENT;
    *info = (nvmlComputeInstanceInfo_t){
        .device = sim_mig_handle(target.gpu_index, target.instance->serial, target.compute->serial),
        .gpuInstance = sim_instance_handle(target.gpu_index, target.instance->serial),
        .id = target.compute->id, .profileId = target.compute->profile_id,
        .placement = {target.compute->start, target.compute->size}};
    return NVML_SUCCESS;
}

SIM_EXPORT nvmlReturn_t nvmlComputeInstanceGetInfo(nvmlComputeInstance_t handle, nvmlComputeInstanceInfo_t *info)
{
    SIM_READ(nvmlComputeInstanceGetInfo, instance_info(body, handle, info));
}

SIM_EXPORT nvmlReturn_t nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t handle, nvmlComputeInstanceInfo_t *info)
{
    SIM_READ(nvmlComputeInstanceGetInfo_v2, instance_info(body, handle, info));
}
