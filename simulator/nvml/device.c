/* What a GPU is: handles, names, addresses, architecture. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "call.h"
#include "geometry.h"
#include "handle.h"
#include "uuid.h"

/* Answers `value` through `out`, for calls that ask one number. */
static nvmlReturn_t give(nvmlReturn_t resolved, unsigned int *out, unsigned int value)
{
    if (resolved != NVML_SUCCESS)
        return resolved;
    if (!out)
        return NVML_ERROR_INVALID_ARGUMENT;
    *out = value;
    return NVML_SUCCESS;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetCount(unsigned int *count)
{
    SIM_READ(nvmlDeviceGetCount, give(NVML_SUCCESS, count, body->gpu_count));
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
    SIM_READ(nvmlDeviceGetCount_v2, give(NVML_SUCCESS, count, body->gpu_count));
}

static nvmlReturn_t by_index(const struct sim_body *body, unsigned int index, nvmlDevice_t *device)
{
    if (!device || index >= body->gpu_count)
        return NVML_ERROR_INVALID_ARGUMENT;
    *device = sim_gpu_handle(index);
    return NVML_SUCCESS;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device)
{
    SIM_READ(nvmlDeviceGetHandleByIndex, by_index(body, index, device));
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
    SIM_READ(nvmlDeviceGetHandleByIndex_v2, by_index(body, index, device));
}

static nvmlReturn_t by_uuid(const struct sim_body *body, const char *uuid, nvmlDevice_t *device)
{
    if (!uuid || !device)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned int i = 0; i < body->gpu_count; i++) {
        const struct sim_gpu *gpu = &body->gpus[i];
        if (strcasecmp(gpu->uuid, uuid) == 0) {
            *device = sim_gpu_handle(i);
            return NVML_SUCCESS;
        }
        for (unsigned int j = 0; j < SIM_MAX_GPU_INSTANCES; j++) {
            const struct sim_gpu_instance *instance = &gpu->instances[j];
            for (unsigned int k = 0; instance->used && k < SIM_MAX_COMPUTE_INSTANCES; k++) {
                const struct sim_compute_instance *compute = &instance->compute[k];
                char own[SIM_MIG_UUID_SIZE];
                if (!compute->used)
                    continue;
                sim_mig_uuid(gpu->uuid, instance->id, compute->id, own);
                if (strcasecmp(own, uuid) == 0) {
                    *device = sim_mig_handle(i, instance->serial, compute->serial);
                    return NVML_SUCCESS;
                }
            }
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    SIM_READ(nvmlDeviceGetHandleByUUID, by_uuid(body, uuid, device));
}

/* "0000:07:00.0", "00000000:07:00.0" and "07:00.0" name one place. */
static nvmlReturn_t by_bus_id(const struct sim_body *body, const char *text, nvmlDevice_t *device)
{
    if (!text || !device)
        return NVML_ERROR_INVALID_ARGUMENT;
    unsigned int domain = 0, bus, slot, function = 0;
    int end = 0;
    if (sscanf(text, "%x:%x:%x.%x%n", &domain, &bus, &slot, &function, &end) != 4 || text[end]) {
        domain = 0;
        if (sscanf(text, "%x:%x.%x%n", &bus, &slot, &function, &end) != 3 || text[end])
            return NVML_ERROR_INVALID_ARGUMENT;
    }
    for (unsigned int i = 0; i < body->gpu_count; i++) {
        const struct sim_gpu *gpu = &body->gpus[i];
        if (gpu->domain == domain && gpu->bus == bus && gpu->device == slot && function == 0)
            return by_index(body, i, device);
    }
    return NVML_ERROR_NOT_FOUND;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *bus_id, nvmlDevice_t *device)
{
    SIM_READ(nvmlDeviceGetHandleByPciBusId, by_bus_id(body, bus_id, device));
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *device)
{
    SIM_READ(nvmlDeviceGetHandleByPciBusId_v2, by_bus_id(body, bus_id, device));
}

static nvmlReturn_t pci_info(const struct sim_body *body, nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    struct sim_target target;
    nvmlReturn_t result = sim_resolve_gpu(body, device, &target);
    if (result != NVML_SUCCESS)
        return result;
    if (!pci)
        return NVML_ERROR_INVALID_ARGUMENT;
    const struct sim_gpu *gpu = target.gpu;
    memset(pci, 0, sizeof(*pci));
    snprintf(pci->busIdLegacy, sizeof(pci->busIdLegacy), "%04X:%02X:%02X.0", gpu->domain & 0xffffu, gpu->bus & 0xffu,
             gpu->device & 0xffu);
    snprintf(pci->busId, sizeof(pci->busId), "%08X:%02X:%02X.0", gpu->domain, gpu->bus & 0xffu, gpu->device & 0xffu);
    pci->domain = gpu->domain;
    pci->bus = gpu->bus;
    pci->device = gpu->device;
    pci->pciDeviceId = target.model->pci_device_id;
    return NVML_SUCCESS;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    SIM_READ(nvmlDeviceGetPciInfo_v3, pci_info(body, device, pci));
}

static nvmlReturn_t pci_info_v2(const struct sim_body *body, nvmlDevice_t device, nvmlPciInfo_v2_t *old)
{
    nvmlPciInfo_t pci;
    nvmlReturn_t result = pci_info(body, device, &pci);
    if (result != NVML_SUCCESS)
        return result;
    if (!old)
        return NVML_ERROR_INVALID_ARGUMENT;
    *old = (nvmlPciInfo_v2_t){.domain = pci.domain, .bus = pci.bus, .device = pci.device,
                              .pciDeviceId = pci.pciDeviceId, .pciSubSystemId = pci.pciSubSystemId};
    memcpy(old->busId, pci.busIdLegacy, sizeof(old->busId));
    return NVML_SUCCESS;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_v2_t *pci)
{
    SIM_READ(nvmlDeviceGetPciInfo_v2, pci_info_v2(body, device, pci));
}

static nvmlReturn_t name(const struct sim_body *body, nvmlDevice_t device, char *text, unsigned int length)
{
    struct sim_target target;
    nvmlReturn_t result = sim_resolve_device(body, device, &target);
    if (result != NVML_SUCCESS)
        return result;
    if (!target.compute)
        return sim_copy_text(text, length, target.model->name);
    char profile_name[48], full[NVML_NAME_SIZE + 64];
    const struct model_profile *profile = sim_instance_profile(target.model, target.instance);
    sim_compute_name(profile, sim_compute_profile(profile, target.compute->profile_id), profile_name, sizeof(profile_name));
    snprintf(full, sizeof(full), "%s MIG %s", target.model->name, profile_name);
    return sim_copy_text(text, length, full);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *text, unsigned int length)
{
    SIM_READ(nvmlDeviceGetName, name(body, device, text, length));
}

static nvmlReturn_t uuid(const struct sim_body *body, nvmlDevice_t device, char *text, unsigned int length)
{
    struct sim_target target;
    nvmlReturn_t result = sim_resolve_device(body, device, &target);
    if (result != NVML_SUCCESS)
        return result;
    if (!target.compute)
        return sim_copy_text(text, length, target.gpu->uuid);
    char own[SIM_MIG_UUID_SIZE];
    sim_mig_uuid(target.gpu->uuid, target.instance->id, target.compute->id, own);
    return sim_copy_text(text, length, own);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *text, unsigned int length)
{
    SIM_READ(nvmlDeviceGetUUID, uuid(body, device, text, length));
}

static nvmlReturn_t minor_number(const struct sim_body *body, nvmlDevice_t device, unsigned int *minor)
{
    struct sim_target target = {0};
    nvmlReturn_t result = sim_resolve_gpu(body, device, &target);
    return give(result, minor, target.gpu_index);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minor)
{
    SIM_READ(nvmlDeviceGetMinorNumber, minor_number(body, device, minor));
}

/* A GPU that only a reboot resets is one that is lent to a virtual machine. */
static nvmlReturn_t virtualization_mode(const struct sim_body *body, nvmlDevice_t device, unsigned int *mode)
{
    struct sim_target target = {0};
    nvmlReturn_t result = sim_resolve_gpu(body, device, &target);
    if (result != NVML_SUCCESS)
        return result;
    bool lent = target.gpu->mode_change == CHANGE_REBOOT;
    return give(result, mode, lent ? NVML_GPU_VIRTUALIZATION_MODE_PASSTHROUGH : NVML_GPU_VIRTUALIZATION_MODE_NONE);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetVirtualizationMode(nvmlDevice_t device, unsigned int *mode)
{
    SIM_READ(nvmlDeviceGetVirtualizationMode, virtualization_mode(body, device, mode));
}

/* What a MIG device shares with its GPU. */
static nvmlReturn_t of_model(const struct sim_body *body, nvmlDevice_t device, const struct model **model)
{
    struct sim_target target;
    nvmlReturn_t result = sim_resolve_device(body, device, &target);
    *model = result == NVML_SUCCESS ? target.model : &model_table[0];
    return result;
}

static nvmlReturn_t architecture(const struct sim_body *body, nvmlDevice_t device, unsigned int *out)
{
    const struct model *model;
    nvmlReturn_t result = of_model(body, device, &model);
    return give(result, out, model->architecture);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, unsigned int *out)
{
    SIM_READ(nvmlDeviceGetArchitecture, architecture(body, device, out));
}

static nvmlReturn_t brand(const struct sim_body *body, nvmlDevice_t device, unsigned int *out)
{
    const struct model *model;
    nvmlReturn_t result = of_model(body, device, &model);
    return give(result, out, model->brand);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t device, unsigned int *out)
{
    SIM_READ(nvmlDeviceGetBrand, brand(body, device, out));
}

static nvmlReturn_t capability(const struct sim_body *body, nvmlDevice_t device, int *major, int *minor)
{
    const struct model *model;
    nvmlReturn_t result = of_model(body, device, &model);
    if (result != NVML_SUCCESS)
        return result;
    if (!major || !minor)
        return NVML_ERROR_INVALID_ARGUMENT;
    *major = (int)model->compute_major;
    *minor = (int)model->compute_minor;
    return NVML_SUCCESS;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    SIM_READ(nvmlDeviceGetCudaComputeCapability, capability(body, device, major, minor));
}
