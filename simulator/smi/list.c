/* Lists: -L, --version, and the overview. */
#include <stdio.h>

#include "smi.h"

static int failed(const char *what, nvmlReturn_t result)
{
    printf("%s: %s\n", what, nvmlErrorString(result));
    return (int)result;
}

/* The profile in a MIG device's name: what follows " MIG ". */
static const char *profile_of(const char *name)
{
    const char *last = name;
    for (const char *c = name; *c; c++)
        if (*c == ' ')
            last = c + 1;
    return last;
}

int smi_list(const struct smi_gpus *gpus)
{
    for (unsigned int i = 0; i < gpus->count; i++) {
        char name[NVML_NAME_SIZE], uuid[NVML_NAME_SIZE];
        nvmlReturn_t result = nvmlDeviceGetName(gpus->device[i], name, sizeof(name));
        if (result == NVML_SUCCESS)
            result = nvmlDeviceGetUUID(gpus->device[i], uuid, sizeof(uuid));
        if (result != NVML_SUCCESS)
            return failed("Unable to read the GPU", result);
        printf("GPU %u: %s (UUID: %s)\n", gpus->index[i], name, uuid);
        unsigned int most = 0;
        nvmlDeviceGetMaxMigDeviceCount(gpus->device[i], &most);
        for (unsigned int j = 0; j < most; j++) {
            nvmlDevice_t device;
            if (nvmlDeviceGetMigDeviceHandleByIndex(gpus->device[i], j, &device) != NVML_SUCCESS ||
                nvmlDeviceGetName(device, name, sizeof(name)) != NVML_SUCCESS ||
                nvmlDeviceGetUUID(device, uuid, sizeof(uuid)) != NVML_SUCCESS)
                continue;
            printf("  MIG %-15s Device %2u: (UUID: %s)\n", profile_of(name), j, uuid);
        }
    }
    return 0;
}

int smi_overview(const struct smi_gpus *gpus)
{
    for (unsigned int i = 0; i < gpus->count; i++) {
        char name[NVML_NAME_SIZE], client[128];
        nvmlPciInfo_t pci;
        unsigned int current = 0, pending = 0, pid;
        nvmlReturn_t result = nvmlDeviceGetName(gpus->device[i], name, sizeof(name));
        if (result == NVML_SUCCESS)
            result = nvmlDeviceGetPciInfo_v3(gpus->device[i], &pci);
        if (result != NVML_SUCCESS)
            return failed("Unable to read the GPU", result);
        result = nvmlDeviceGetMigMode(gpus->device[i], &current, &pending);
        const char *mode = result == NVML_ERROR_NOT_SUPPORTED ? "N/A" : current ? "Enabled" : "Disabled";
        printf("GPU %u  %s  %-46s  MIG %s%s\n", gpus->index[i], pci.busId, name, mode,
               current == pending ? "" : pending ? " (pending: Enabled)" : " (pending: Disabled)");
        for (unsigned int j = 0; migsim_client(gpus->index[i], j, &pid, client, sizeof(client)); j++)
            printf("    process %u  %s\n", pid, client);
    }
    return 0;
}

int smi_version(void)
{
    char driver[80], nvml[80];
    int cuda = 0;
    nvmlReturn_t result = nvmlSystemGetDriverVersion(driver, sizeof(driver));
    if (result == NVML_SUCCESS)
        result = nvmlSystemGetNVMLVersion(nvml, sizeof(nvml));
    if (result == NVML_SUCCESS)
        result = nvmlSystemGetCudaDriverVersion_v2(&cuda);
    if (result != NVML_SUCCESS)
        return failed("Unable to read the versions", result);
    printf("NVIDIA-SMI version  : %s (simulated)\nNVML version        : %s\nDRIVER version      : %s\nCUDA Version        : %d.%d\n",
           driver, nvml, driver, cuda / 1000, cuda % 1000 / 10);
    return 0;
}
