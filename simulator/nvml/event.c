/* Event sets. Nothing ever happens to a simulated GPU, so every wait times out. */
#include <time.h>

#include "call.h"
#include "handle.h"

#define XID_CRITICAL 0x8ull
#define MAX_SETS 64

static struct nvmlEventSet_st {
    bool used;
} sets[MAX_SETS];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static bool valid(nvmlEventSet_t set) { return set >= sets && set < sets + MAX_SETS && set->used; }

static nvmlReturn_t create(nvmlEventSet_t *set)
{
    nvmlReturn_t result = set ? NVML_ERROR_MEMORY : NVML_ERROR_INVALID_ARGUMENT;
    pthread_mutex_lock(&mutex);
    for (unsigned int i = 0; result == NVML_ERROR_MEMORY && i < MAX_SETS; i++)
        if (!sets[i].used) {
            sets[i].used = true;
            *set = &sets[i];
            result = NVML_SUCCESS;
        }
    pthread_mutex_unlock(&mutex);
    return result;
}

SIM_EXPORT nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
    nvmlReturn_t result = sim_enter(FN_nvmlEventSetCreate);
    return sim_leave(result == NVML_SUCCESS ? create(set) : result);
}

SIM_EXPORT nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
    nvmlReturn_t result = sim_enter(FN_nvmlEventSetFree);
    if (result == NVML_SUCCESS && !valid(set))
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        set->used = false;
    return sim_leave(result);
}

static nvmlReturn_t wait_for(unsigned int function, nvmlEventSet_t set, void *data, unsigned int timeout_ms)
{
    nvmlReturn_t result = sim_enter(function);
    if (result == NVML_SUCCESS && (!valid(set) || !data))
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS) {
        struct timespec left = {timeout_ms / 1000, (long)(timeout_ms % 1000) * 1000000L};
        nanosleep(&left, NULL);
        result = NVML_ERROR_TIMEOUT;
    }
    return sim_leave(result);
}

SIM_EXPORT nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, void *data, unsigned int timeout_ms)
{
    return wait_for(FN_nvmlEventSetWait, set, data, timeout_ms);
}

SIM_EXPORT nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, void *data, unsigned int timeout_ms)
{
    return wait_for(FN_nvmlEventSetWait_v2, set, data, timeout_ms);
}

static nvmlReturn_t supported(const struct sim_body *body, nvmlDevice_t device, unsigned long long *types)
{
    struct sim_target target;
    nvmlReturn_t result = sim_resolve_gpu(body, device, &target);
    if (result != NVML_SUCCESS)
        return result;
    if (!types)
        return NVML_ERROR_INVALID_ARGUMENT;
    *types = XID_CRITICAL;
    return NVML_SUCCESS;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *types)
{
    SIM_READ(nvmlDeviceGetSupportedEventTypes, supported(body, device, types));
}

static nvmlReturn_t watch(const struct sim_body *body, nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set)
{
    struct sim_target target;
    nvmlReturn_t result = sim_resolve_gpu(body, device, &target);
    if (result != NVML_SUCCESS)
        return result;
    if (!valid(set))
        return NVML_ERROR_INVALID_ARGUMENT;
    return types & ~XID_CRITICAL ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set)
{
    SIM_READ(nvmlDeviceRegisterEvents, watch(body, device, types, set));
}
