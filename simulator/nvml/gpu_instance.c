/* GPU instances: profiles, placements, capacity, create, list, destroy. */
#include <stdio.h>
#include <string.h>

#include "call.h"
#include "geometry.h"
#include "handle.h"
#include "mig_mode.h"

/* A GPU that has MIG at all. */
static nvmlReturn_t capable(const struct sim_body *body, nvmlDevice_t device, struct sim_target *target)
{
    nvmlReturn_t result = sim_resolve_gpu(body, device, target);
    if (result == NVML_SUCCESS && !sim_mig_capable(body, target->model))
        return NVML_ERROR_NOT_SUPPORTED;
    return result;
}

/* A GPU in MIG mode and a caller who may change it. */
static nvmlReturn_t administer(const struct sim_body *body, nvmlDevice_t device, struct sim_target *target)
{
    nvmlReturn_t result = capable(body, device, target);
    if (result != NVML_SUCCESS)
        return result;
    if (!target->gpu->mode)
        return NVML_ERROR_NOT_SUPPORTED;
    return sim_privileged() ? NVML_SUCCESS : NVML_ERROR_NO_PERMISSION;
}

static nvmlReturn_t find_by_enum(const struct sim_body *body, nvmlDevice_t device, unsigned int number,
                                 const struct model_profile **profile)
{
    struct sim_target target;
    nvmlReturn_t result = sim_resolve_gpu(body, device, &target);
    if (result != NVML_SUCCESS)
        return result;
    if (number >= sim_profile_enum_count(body))
        return NVML_ERROR_INVALID_ARGUMENT;
    *profile = sim_mig_capable(body, target.model) ? sim_profile_by_enum(body, target.model, number) : NULL;
    return *profile ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

static nvmlReturn_t find_by_id(const struct sim_body *body, nvmlDevice_t device, unsigned int id,
                               const struct model_profile **profile)
{
    struct sim_target target;
    nvmlReturn_t result = capable(body, device, &target);
    if (result != NVML_SUCCESS)
        return result;
    *profile = sim_profile_by_id(body, target.model, id);
    return *profile ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

static nvmlReturn_t info_v1(const struct sim_body *body, nvmlDevice_t device, unsigned int number,
                            nvmlGpuInstanceProfileInfo_t *info)
{
    const struct model_profile *profile;
    if (!info)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = find_by_enum(body, device, number, &profile);
    if (result == NVML_SUCCESS)
        *info = (nvmlGpuInstanceProfileInfo_t){
            .id = profile->id, .sliceCount = profile->slices, .instanceCount = profile->max,
            .multiprocessorCount = profile->multiprocessors, .copyEngineCount = profile->copy,
            .decoderCount = profile->decoders, .encoderCount = profile->encoders, .jpegCount = profile->jpeg,
            .ofaCount = profile->ofa, .memorySizeMB = profile->memory_mib};
    return result;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t device, unsigned int number,
                                                            nvmlGpuInstanceProfileInfo_t *info)
{
    SIM_READ(nvmlDeviceGetGpuInstanceProfileInfo, info_v1(body, device, number, info));
}

/* Fills the structure whose version word the caller set: v2 or v3. */
static nvmlReturn_t fill_versioned(const struct model_profile *profile, nvmlGpuInstanceProfileInfo_v2_t *info)
{
    if (info->version == nvmlGpuInstanceProfileInfo_v2) {
        *info = (nvmlGpuInstanceProfileInfo_v2_t){
            .version = nvmlGpuInstanceProfileInfo_v2, .id = profile->id, .sliceCount = profile->slices,
            .instanceCount = profile->max, .multiprocessorCount = profile->multiprocessors,
            .copyEngineCount = profile->copy, .decoderCount = profile->decoders, .encoderCount = profile->encoders,
            .jpegCount = profile->jpeg, .ofaCount = profile->ofa, .memorySizeMB = profile->memory_mib};
        snprintf(info->name, sizeof(info->name), "MIG %s", profile->name);
        return NVML_SUCCESS;
    }
    nvmlGpuInstanceProfileInfo_v3_t v3 = {
        .version = nvmlGpuInstanceProfileInfo_v3, .id = profile->id, .sliceCount = profile->slices,
        .instanceCount = profile->max, .multiprocessorCount = profile->multiprocessors,
        .copyEngineCount = profile->copy, .decoderCount = profile->decoders, .encoderCount = profile->encoders,
        .jpegCount = profile->jpeg, .ofaCount = profile->ofa, .memorySizeMB = profile->memory_mib,
        .capabilities = profile->gfx ? NVML_GPU_INSTANCE_PROFILE_CAPS_GFX : 0};
    snprintf(v3.name, sizeof(v3.name), "MIG %s", profile->name);
    memcpy(info, &v3, sizeof(v3));
    return NVML_SUCCESS;
}

static nvmlReturn_t check_version(const nvmlGpuInstanceProfileInfo_v2_t *info)
{
    if (!info)
        return NVML_ERROR_INVALID_ARGUMENT;
    return info->version == nvmlGpuInstanceProfileInfo_v2 || info->version == nvmlGpuInstanceProfileInfo_v3
               ? NVML_SUCCESS
               : NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
}

static nvmlReturn_t info_by_enum(const struct sim_body *body, nvmlDevice_t device, unsigned int number,
                                 nvmlGpuInstanceProfileInfo_v2_t *info)
{
    const struct model_profile *profile;
    nvmlReturn_t result = check_version(info);
    if (result == NVML_SUCCESS)
        result = find_by_enum(body, device, number, &profile);
    return result == NVML_SUCCESS ? fill_versioned(profile, info) : result;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t device, unsigned int number,
                                                             nvmlGpuInstanceProfileInfo_v2_t *info)
{
    SIM_READ(nvmlDeviceGetGpuInstanceProfileInfoV, info_by_enum(body, device, number, info));
}

static nvmlReturn_t info_by_id(const struct sim_body *body, nvmlDevice_t device, unsigned int id,
                               nvmlGpuInstanceProfileInfo_v2_t *info)
{
    const struct model_profile *profile;
    nvmlReturn_t result = check_version(info);
    if (result == NVML_SUCCESS)
        result = find_by_id(body, device, id, &profile);
    return result == NVML_SUCCESS ? fill_versioned(profile, info) : result;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoByIdV(nvmlDevice_t device, unsigned int id,
                                                                 nvmlGpuInstanceProfileInfo_v2_t *info)
{
    SIM_READ(nvmlDeviceGetGpuInstanceProfileInfoByIdV, info_by_id(body, device, id, info));
}

/* All placements of the profile, taken or free, whether MIG mode is on or off. */
static nvmlReturn_t placements(const struct sim_body *body, nvmlDevice_t device, unsigned int id, nvmlPlacement_t *out,
                               unsigned int *count)
{
    const struct model_profile *profile;
    nvmlReturn_t result = find_by_id(body, device, id, &profile);
    if (result != NVML_SUCCESS)
        return result;
    if (!count)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!sim_privileged())
        return NVML_ERROR_NO_PERMISSION;
    if (out)
        memcpy(out, profile->placements, profile->placement_count * sizeof(*out));
    *count = profile->placement_count;
    return NVML_SUCCESS;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements(nvmlDevice_t device, unsigned int id,
                                                                   nvmlPlacement_t *out, unsigned int *count)
{
    SIM_READ(nvmlDeviceGetGpuInstancePossiblePlacements, placements(body, device, id, out, count));
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t device, unsigned int id,
                                                                      nvmlPlacement_t *out, unsigned int *count)
{
    SIM_READ(nvmlDeviceGetGpuInstancePossiblePlacements_v2, placements(body, device, id, out, count));
}

static nvmlReturn_t capacity(const struct sim_body *body, nvmlDevice_t device, unsigned int id, unsigned int *count)
{
    struct sim_target target;
    nvmlReturn_t result = administer(body, device, &target);
    if (result != NVML_SUCCESS)
        return result;
    const struct model_profile *profile = sim_profile_by_id(body, target.model, id);
    if (!count)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!profile)
        return NVML_ERROR_NOT_SUPPORTED;
    *count = sim_instance_capacity(target.model, target.gpu, profile);
    return NVML_SUCCESS;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceRemainingCapacity(nvmlDevice_t device, unsigned int id, unsigned int *count)
{
    SIM_READ(nvmlDeviceGetGpuInstanceRemainingCapacity, capacity(body, device, id, count));
}

static nvmlReturn_t create(struct sim_body *body, nvmlDevice_t device, unsigned int id, const nvmlPlacement_t *placement,
                           nvmlGpuInstance_t *handle)
{
    struct sim_target target;
    nvmlReturn_t result = administer(body, device, &target);
    if (result != NVML_SUCCESS)
        return result;
    const struct model_profile *profile = sim_profile_by_id(body, target.model, id);
    if (!handle || !profile)
        return NVML_ERROR_INVALID_ARGUMENT;
    /* Without a reset at mode change, clients of the whole GPU stand in the way only now. */
    if (target.gpu->mode_change == CHANGE_RESETLESS && !sim_gpu_has_instances(target.gpu) &&
        sim_gpu_has_clients(body, target.gpu_index, true))
        return NVML_ERROR_IN_USE;
    struct sim_gpu_instance *instance;
    result = sim_create_instance(body, target.gpu, target.model, profile, placement, &instance);
    if (result == NVML_SUCCESS)
        *handle = sim_instance_handle(target.gpu_index, instance->serial);
    return result;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceCreateGpuInstance(nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t *handle)
{
    SIM_CHANGE(nvmlDeviceCreateGpuInstance, create(body, device, id, NULL, handle));
}

SIM_EXPORT nvmlReturn_t nvmlDeviceCreateGpuInstanceWithPlacement(nvmlDevice_t device, unsigned int id,
                                                                 const nvmlPlacement_t *placement, nvmlGpuInstance_t *handle)
{
    SIM_CHANGE(nvmlDeviceCreateGpuInstanceWithPlacement,
               placement ? create(body, device, id, placement, handle) : NVML_ERROR_INVALID_ARGUMENT);
}

static nvmlReturn_t destroy(struct sim_body *body, nvmlGpuInstance_t handle)
{
    struct sim_target target;
    nvmlReturn_t result = sim_resolve_instance(body, handle, &target);
    if (result != NVML_SUCCESS)
        return result;
    if (!sim_privileged())
        return NVML_ERROR_NO_PERMISSION;
    for (unsigned int i = 0; i < SIM_MAX_COMPUTE_INSTANCES; i++)
        if (target.instance->compute[i].used)
            return NVML_ERROR_IN_USE;
    for (unsigned int i = 0; i < SIM_MAX_PROCESSES; i++) {
        const struct sim_process *process = &body->processes[i];
        if (process->used && process->gpu == target.gpu_index && process->gpu_instance == target.instance->id)
            return NVML_ERROR_IN_USE;
    }
    target.instance->used = 0;
    return NVML_SUCCESS;
}

SIM_EXPORT nvmlReturn_t nvmlGpuInstanceDestroy(nvmlGpuInstance_t handle)
{
    SIM_CHANGE(nvmlGpuInstanceDestroy, destroy(body, handle));
}

static nvmlReturn_t list(const struct sim_body *body, nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t *handles,
                         unsigned int *count)
{
    struct sim_target target;
    nvmlReturn_t result = administer(body, device, &target);
    if (result != NVML_SUCCESS)
        return result;
    if (!handles || !count || !sim_profile_by_id(body, target.model, id))
        return NVML_ERROR_INVALID_ARGUMENT;
    *count = 0;
    for (unsigned int number = 0; number < 2 * target.model->placement_units; number++) /* in the order of ids */
        for (unsigned int i = 0; i < SIM_MAX_GPU_INSTANCES; i++) {
            const struct sim_gpu_instance *instance = &target.gpu->instances[i];
            if (instance->used && instance->profile_id == id && instance->id == number)
                handles[(*count)++] = sim_instance_handle(target.gpu_index, instance->serial);
        }
    return NVML_SUCCESS;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetGpuInstances(nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t *handles,
                                                  unsigned int *count)
{
    SIM_READ(nvmlDeviceGetGpuInstances, list(body, device, id, handles, count));
}

static nvmlReturn_t by_id(const struct sim_body *body, nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t *handle)
{
    struct sim_target target;
    nvmlReturn_t result = administer(body, device, &target);
    if (result != NVML_SUCCESS)
        return result;
    if (!handle)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned int i = 0; i < SIM_MAX_GPU_INSTANCES; i++) {
        const struct sim_gpu_instance *instance = &target.gpu->instances[i];
        if (instance->used && instance->id == id) {
            *handle = sim_instance_handle(target.gpu_index, instance->serial);
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceById(nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t *handle)
{
    SIM_READ(nvmlDeviceGetGpuInstanceById, by_id(body, device, id, handle));
}

static nvmlReturn_t instance_info(const struct sim_body *body, nvmlGpuInstance_t handle, nvmlGpuInstanceInfo_t *info)
{
    struct sim_target target;
    nvmlReturn_t result = sim_resolve_instance(body, handle, &target);
    if (result != NVML_SUCCESS)
        return result;
    if (!info)
        return NVML_ERROR_INVALID_ARGUMENT;
    *info = (nvmlGpuInstanceInfo_t){.device = sim_gpu_handle(target.gpu_index), .id = target.instance->id,
                                    .profileId = target.instance->profile_id,
                                    .placement = {target.instance->start, target.instance->size}};
    return NVML_SUCCESS;
}

SIM_EXPORT nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t handle, nvmlGpuInstanceInfo_t *info)
{
    SIM_READ(nvmlGpuInstanceGetInfo, instance_info(body, handle, info));
}
