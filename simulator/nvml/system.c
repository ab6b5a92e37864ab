/* Library and system calls: init, shutdown, versions, error texts. */
#include <stdlib.h>
#include <string.h>

#include "call.h"

static pthread_mutex_t init_mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned int init_count;

static nvmlReturn_t start(unsigned int function)
{
    pthread_mutex_lock(&init_mutex);
    nvmlReturn_t result = NVML_SUCCESS;
    if (!sim_current.file) {
        const char *path = getenv("MIG_SIM_NODE");
        result = path && *path ? sim_node_open(&sim_current, path) : NVML_ERROR_DRIVER_NOT_LOADED;
    }
    if (result == NVML_SUCCESS) {
        result = sim_leave(sim_enter(function));
        if (result == NVML_SUCCESS)
            init_count++;
        else if (init_count == 0)
            sim_node_close(&sim_current);
    }
    pthread_mutex_unlock(&init_mutex);
    return result;
}

SIM_EXPORT nvmlReturn_t nvmlInit(void) { return start(FN_nvmlInit); }
SIM_EXPORT nvmlReturn_t nvmlInit_v2(void) { return start(FN_nvmlInit_v2); }

SIM_EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
    (void)flags; /* they only say whether missing GPUs are an error */
    return start(FN_nvmlInitWithFlags);
}

SIM_EXPORT nvmlReturn_t nvmlShutdown(void)
{
    pthread_mutex_lock(&init_mutex);
    nvmlReturn_t result = sim_leave(sim_enter(FN_nvmlShutdown));
    if (result == NVML_SUCCESS && --init_count == 0)
        sim_node_close(&sim_current);
    pthread_mutex_unlock(&init_mutex);
    return result;
}

SIM_EXPORT const char *nvmlErrorString(nvmlReturn_t result)
{
    switch (result) {
    case NVML_SUCCESS: return "Success";
    case NVML_ERROR_UNINITIALIZED: return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT: return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
    case NVML_ERROR_NO_PERMISSION: return "Insufficient Permissions";
    case NVML_ERROR_NOT_FOUND: return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE: return "Insufficient Size";
    case NVML_ERROR_INSUFFICIENT_POWER: return "Insufficient External Power";
    case NVML_ERROR_DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case NVML_ERROR_TIMEOUT: return "Timeout";
    case NVML_ERROR_IRQ_ISSUE: return "Interrupt Request Issue";
    case NVML_ERROR_LIBRARY_NOT_FOUND: return "NVML Shared Library Not Found";
    case NVML_ERROR_FUNCTION_NOT_FOUND: return "Function Not Found";
    case NVML_ERROR_CORRUPTED_INFOROM: return "Corrupted infoROM";
    case NVML_ERROR_GPU_IS_LOST: return "GPU is lost";
    case NVML_ERROR_RESET_REQUIRED: return "GPU requires reset";
    case NVML_ERROR_OPERATING_SYSTEM: return "The operating system has blocked the request.";
    case NVML_ERROR_LIB_RM_VERSION_MISMATCH: return "Driver/library version mismatch";
    case NVML_ERROR_IN_USE: return "In use by another client";
    case NVML_ERROR_MEMORY: return "Insufficient Memory";
    case NVML_ERROR_NO_DATA: return "No data";
    case NVML_ERROR_VGPU_ECC_NOT_SUPPORTED: return "vGPU operation not allowed with ECC";
    case NVML_ERROR_INSUFFICIENT_RESOURCES: return "Insufficient Resources";
    case NVML_ERROR_FREQ_NOT_SUPPORTED: return "Frequency Not Supported";
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH: return "Argument version mismatch";
    case NVML_ERROR_DEPRECATED: return "Deprecated";
    case NVML_ERROR_NOT_READY: return "Not Ready";
    case NVML_ERROR_GPU_NOT_FOUND: return "GPU Not Found";
    case NVML_ERROR_INVALID_STATE: return "Invalid State";
    case NVML_ERROR_RESET_TYPE_NOT_SUPPORTED: return "Reset type not supported";
    case NVML_ERROR_UNKNOWN: break;
    }
    return "Unknown Error";
}

SIM_EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
    SIM_READ(nvmlSystemGetDriverVersion, sim_copy_text(version, length, body->driver_version));
}

SIM_EXPORT nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
    SIM_READ(nvmlSystemGetNVMLVersion, sim_copy_text(version, length, body->nvml_version));
}

static nvmlReturn_t cuda_version(const struct sim_body *body, int *version)
{
    if (!version)
        return NVML_ERROR_INVALID_ARGUMENT;
    *version = (int)body->cuda_version;
    return NVML_SUCCESS;
}

SIM_EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
    SIM_READ(nvmlSystemGetCudaDriverVersion, cuda_version(body, version));
}

SIM_EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    SIM_READ(nvmlSystemGetCudaDriverVersion_v2, cuda_version(body, version));
}
