/* nvidia-smi mig: tables of instances, profiles and placements. */
#include <stdio.h>
#include <string.h>

#include "smi.h"

#define MAX_INSTANCES 16

/* Calls `visit` for each profile of each GPU in MIG mode. Returns an exit code; `found` counts the GPUs. */
static int each_profile(const struct smi_gpus *gpus, unsigned int *found,
                        int (*visit)(unsigned int, nvmlDevice_t, const nvmlGpuInstanceProfileInfo_v2_t *))
{
    *found = 0;
    for (unsigned int i = 0; i < gpus->count; i++) {
        unsigned int current = 0, pending;
        if (nvmlDeviceGetMigMode(gpus->device[i], &current, &pending) != NVML_SUCCESS || !current)
            continue;
        ++*found;
        for (unsigned int number = 0;; number++) {
            nvmlGpuInstanceProfileInfo_v2_t info = {.version = nvmlGpuInstanceProfileInfo_v2};
            nvmlReturn_t result = nvmlDeviceGetGpuInstanceProfileInfoV(gpus->device[i], number, &info);
            if (result == NVML_ERROR_NOT_SUPPORTED)
                continue;
            if (result == NVML_ERROR_INVALID_ARGUMENT)
                break;
            int code = result == NVML_SUCCESS ? visit(gpus->index[i], gpus->device[i], &info) : (int)result;
            if (code != 0)
                return code;
        }
    }
    return 0;
}

static int finish(int code, unsigned int gpus, unsigned int rows, const char *what)
{
    if (code != 0)
        printf("Unable to list %s: %s\n", what, nvmlErrorString((nvmlReturn_t)code));
    else if (gpus == 0)
        printf("No MIG-enabled devices found.\n");
    else if (rows == 0)
        printf("No %s found: Not Found\n", what);
    return code ? code : gpus && rows ? 0 : NVML_ERROR_NOT_FOUND;
}

/* A table whose head appears with its first row. */
static unsigned int rows;

static void row(const char *head, const char *line)
{
    char rule[96] = {0};
    size_t width = strchr(head, '\n') - head;
    memset(rule, '-', width);
    rule[0] = rule[width - 1] = '+';
    if (rows++ == 0)
        printf("%s\n%s", rule, head);
    printf("%s\n%s\n", line, rule);
}

static const char INSTANCE_HEAD[] =
    "| GPU instances:                                          |\n"
    "| GPU   Name               Profile  Instance   Placement  |\n"
    "|                            ID       ID       Start:Size |\n"
    "|=========================================================|\n";

static int visit_instances(unsigned int gpu, nvmlDevice_t device, const nvmlGpuInstanceProfileInfo_v2_t *profile)
{
    nvmlGpuInstance_t handles[MAX_INSTANCES];
    unsigned int count = 0;
    nvmlReturn_t result = nvmlDeviceGetGpuInstances(device, profile->id, handles, &count);
    for (unsigned int i = 0; result == NVML_SUCCESS && i < count; i++) {
        nvmlGpuInstanceInfo_t info;
        char line[256];
        result = nvmlGpuInstanceGetInfo(handles[i], &info);
        if (result != NVML_SUCCESS)
            break;
        snprintf(line, sizeof(line), "| %3u  %-18s  %4u     %4u       %4u:%-4u  |", gpu, profile->name, info.profileId,
                 info.id, info.placement.start, info.placement.size);
        row(INSTANCE_HEAD, line);
    }
    return (int)result;
}

int smi_instances(const struct smi_gpus *gpus)
{
    unsigned int found;
    int code = each_profile(gpus, &found, visit_instances);
    return finish(code, found, rows, "GPU instances");
}

static const char COMPUTE_HEAD[] =
    "| Compute instances:                                                   |\n"
    "| GPU     GPU       Name               Profile   Instance   Placement  |\n"
    "|       Instance                         ID        ID       Start:Size |\n"
    "|         ID                                                           |\n"
    "|======================================================================|\n";

static nvmlReturn_t compute_rows(unsigned int gpu, nvmlGpuInstance_t instance)
{
    nvmlGpuInstanceInfo_t parent;
    nvmlReturn_t result = nvmlGpuInstanceGetInfo(instance, &parent);
    for (unsigned int number = 0; result == NVML_SUCCESS; number++) {
        nvmlComputeInstanceProfileInfo_v2_t profile = {.version = nvmlComputeInstanceProfileInfo_v2};
        nvmlComputeInstance_t handles[MAX_INSTANCES];
        unsigned int count = 0;
        nvmlReturn_t known = nvmlGpuInstanceGetComputeInstanceProfileInfoV(instance, number, 0, &profile);
        if (known == NVML_ERROR_INVALID_ARGUMENT)
            break;
        if (known == NVML_SUCCESS)
            result = nvmlGpuInstanceGetComputeInstances(instance, profile.id, handles, &count);
        for (unsigned int i = 0; result == NVML_SUCCESS && i < count; i++) {
            nvmlComputeInstanceInfo_t info;
            char line[256];
            result = nvmlComputeInstanceGetInfo_v2(handles[i], &info);
            snprintf(line, sizeof(line), "| %3u   %4u       %-18s  %4u      %4u       %4u:%-4u  |", gpu, parent.id,
                     profile.name, info.profileId, info.id, info.placement.start, info.placement.size);
            row(COMPUTE_HEAD, line);
        }
    }
    return result;
}

static int visit_compute(unsigned int gpu, nvmlDevice_t device, const nvmlGpuInstanceProfileInfo_v2_t *profile)
{
    nvmlGpuInstance_t handles[MAX_INSTANCES];
    unsigned int count = 0;
    nvmlReturn_t result = nvmlDeviceGetGpuInstances(device, profile->id, handles, &count);
    for (unsigned int i = 0; result == NVML_SUCCESS && i < count; i++)
        result = compute_rows(gpu, handles[i]);
    return (int)result;
}

int smi_compute_instances(const struct smi_gpus *gpus)
{
    unsigned int found;
    int code = each_profile(gpus, &found, visit_compute);
    return finish(code, found, rows, "compute instances");
}

static const char PROFILE_HEAD[] =
    "| GPU instance profiles:                                                        |\n"
    "| GPU   Name               ID    Instances   Memory     P2P    SM    DEC   ENC  |\n"
    "|                                Free/Total   GiB              CE    JPEG  OFA  |\n"
    "|===============================================================================|\n";

static int visit_profile(unsigned int gpu, nvmlDevice_t device, const nvmlGpuInstanceProfileInfo_v2_t *profile)
{
    unsigned int free_instances = 0;
    char lines[640];
    nvmlReturn_t result = nvmlDeviceGetGpuInstanceRemainingCapacity(device, profile->id, &free_instances);
    if (result != NVML_SUCCESS)
        return (int)result;
    snprintf(lines, sizeof(lines),
             "| %3u  %-18s %3u     %u/%-5u  %7.2f      No    %4u  %4u  %4u  |\n"
             "|                                                             %4u  %4u  %4u  |",
             gpu, profile->name, profile->id, free_instances, profile->instanceCount, (double)profile->memorySizeMB / 1024.0,
             profile->multiprocessorCount, profile->decoderCount, profile->encoderCount, profile->copyEngineCount,
             profile->jpegCount, profile->ofaCount);
    row(PROFILE_HEAD, lines);
    return 0;
}

int smi_instance_profiles(const struct smi_gpus *gpus)
{
    unsigned int found;
    int code = each_profile(gpus, &found, visit_profile);
    return finish(code, found, rows, "GPU instance profiles");
}

static int visit_placements(unsigned int gpu, nvmlDevice_t device, const nvmlGpuInstanceProfileInfo_v2_t *profile)
{
    nvmlPlacement_t placements[MAX_INSTANCES];
    unsigned int count = 0;
    nvmlReturn_t result = nvmlDeviceGetGpuInstancePossiblePlacements_v2(device, profile->id, placements, &count);
    if (result != NVML_SUCCESS)
        return (int)result;
    printf("GPU %2u Profile ID %2u Placement%s: {", gpu, profile->id, count == 1 ? " " : "s");
    for (unsigned int i = 0; i < count; i++)
        printf("%s%u", i ? "," : "", placements[i].start);
    printf("}:%u\n", placements[0].size);
    rows++;
    return 0;
}

int smi_placements(const struct smi_gpus *gpus)
{
    unsigned int found;
    int code = each_profile(gpus, &found, visit_placements);
    return finish(code, found, rows, "placements");
}
