/* --gpu-reset: each GPU is reset or the reason is said; the exit code is that of the first one refused. */
#include <stdio.h>

#include "smi.h"

static void name_clients(unsigned int gpu)
{
    unsigned int pid;
    char name[128];
    for (unsigned int i = 0; migsim_client(gpu, i, &pid, name, sizeof(name)); i++)
        printf("    process %u (%s)\n", pid, name);
}

int smi_reset(const struct smi_gpus *gpus)
{
    int code = 0;
    for (unsigned int i = 0; i < gpus->count; i++) {
        nvmlPciInfo_t pci;
        nvmlReturn_t result = nvmlDeviceGetPciInfo_v3(gpus->device[i], &pci);
        if (result == NVML_SUCCESS)
            result = (nvmlReturn_t)migsim_gpu_reset(gpus->index[i]);
        if (result == NVML_SUCCESS) {
            printf("GPU %s was successfully reset.\n", pci.busId);
            continue;
        }
        if (code == 0)
            code = (int)result;
        printf("GPU %s could not be reset: %s\n", pci.busId, nvmlErrorString(result));
        if (result == NVML_ERROR_IN_USE) {
            printf("  Processes that use it, to be ended first:\n");
            name_clients(gpus->index[i]);
        } else if (result == NVML_ERROR_NOT_SUPPORTED) {
            printf("  GPU reset is not available on this system: reboot it.\n");
        } else if (result == NVML_ERROR_NO_PERMISSION) {
            printf("  Only root can reset a GPU.\n");
        }
    }
    if (code == 0)
        printf("All done.\n");
    return code;
}
