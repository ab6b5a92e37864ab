/* Command line of the small nvidia-smi. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "smi.h"

static const char USAGE[] =
    "nvidia-smi of a simulated node\n"
    "\n"
    "    nvidia-smi                      one line per GPU\n"
    "    nvidia-smi -L                   GPUs and MIG devices with their UUIDs\n"
    "    nvidia-smi --version\n"
    "    nvidia-smi --gpu-reset | -r     reset GPUs (root)\n"
    "    nvidia-smi mig -lgi             GPU instances\n"
    "    nvidia-smi mig -lci             compute instances\n"
    "    nvidia-smi mig -lgip            GPU instance profiles\n"
    "    nvidia-smi mig -lgipp           possible placements of GPU instances\n"
    "\n"
    "    -i ID[,ID...]                   only these GPUs: index, UUID or PCI bus id\n";

static const struct {
    const char *name, *group; /* group: what precedes it on the command line */
    int (*run)(const struct smi_gpus *);
} COMMANDS[] = {
    {"-L", "", smi_list},
    {"--list-gpus", "", smi_list},
    {"-r", "", smi_reset},
    {"--gpu-reset", "", smi_reset},
    {"-lgi", "mig", smi_instances},
    {"--list-gpu-instances", "mig", smi_instances},
    {"-lgip", "mig", smi_instance_profiles},
    {"--list-gpu-instance-profiles", "mig", smi_instance_profiles},
    {"-lgipp", "mig", smi_placements},
    {"--list-gpu-instance-possible-placements", "mig", smi_placements},
    {"-lci", "mig", smi_compute_instances},
    {"--list-compute-instances", "mig", smi_compute_instances},
};

static int add_gpu(struct smi_gpus *gpus, nvmlDevice_t device)
{
    unsigned int is_mig = 0;
    if (gpus->count == SMI_MAX_GPUS || nvmlDeviceIsMigDeviceHandle(device, &is_mig) != NVML_SUCCESS || is_mig)
        return -1;
    gpus->device[gpus->count] = device;
    return nvmlDeviceGetIndex(device, &gpus->index[gpus->count++]) == NVML_SUCCESS ? 0 : -1;
}

static int select_gpus(struct smi_gpus *gpus, char *ids)
{
    nvmlDevice_t device;
    unsigned int count = 0;
    if (!ids) {
        nvmlReturn_t result = nvmlDeviceGetCount_v2(&count);
        for (unsigned int i = 0; result == NVML_SUCCESS && i < count; i++) {
            result = nvmlDeviceGetHandleByIndex_v2(i, &device);
            if (result == NVML_SUCCESS)
                add_gpu(gpus, device);
        }
        return (int)result;
    }
    for (char *id = strtok(ids, ","); id; id = strtok(NULL, ",")) {
        char *end;
        unsigned long index = strtoul(id, &end, 10);
        nvmlReturn_t result;
        if (*end == 0)
            result = nvmlDeviceGetHandleByIndex_v2((unsigned int)index, &device);
        else if (strchr(id, ':'))
            result = nvmlDeviceGetHandleByPciBusId_v2(id, &device);
        else
            result = nvmlDeviceGetHandleByUUID(id, &device);
        if (result != NVML_SUCCESS || add_gpu(gpus, device) != 0) {
            printf("No GPU found with id \"%s\".\n", id);
            return NVML_ERROR_NOT_FOUND;
        }
    }
    return 0;
}

static int usage(const char *argument)
{
    if (argument)
        printf("Invalid option or argument: \"%s\". Run 'nvidia-smi -h' for help.\n", argument);
    else
        fputs(USAGE, stdout);
    return argument ? NVML_ERROR_INVALID_ARGUMENT : 0;
}

int main(int argc, char **argv)
{
    int (*run)(const struct smi_gpus *) = NULL;
    char *ids = NULL;
    int first = 1, version = 0;
    const char *group = argc > 1 && strcmp(argv[1], "mig") == 0 ? argv[first++] : "";
    for (int i = first; i < argc; i++) {
        const char *argument = argv[i];
        int known = 0;
        if (strcmp(argument, "-h") == 0 || strcmp(argument, "--help") == 0)
            return usage(NULL);
        if (strcmp(argument, "-i") == 0 || strcmp(argument, "--id") == 0) {
            if (++i == argc)
                return usage(argument);
            ids = argv[i];
            continue;
        }
        if (strncmp(argument, "--id=", 5) == 0) {
            ids = argv[i] + 5;
            continue;
        }
        if (strcmp(argument, "--version") == 0 && !*group) {
            version = 1;
            continue;
        }
        for (size_t c = 0; c < sizeof(COMMANDS) / sizeof(COMMANDS[0]); c++)
            if (strcmp(COMMANDS[c].name, argument) == 0 && strcmp(COMMANDS[c].group, group) == 0) {
                if (run && run != COMMANDS[c].run)
                    return usage(argument);
                run = COMMANDS[c].run;
                known = 1;
            }
        if (!known)
            return usage(argument);
    }
    if (*group && !run)
        return usage(group);
    nvmlReturn_t started = nvmlInit_v2();
    if (started != NVML_SUCCESS) {
        printf("Failed to initialize NVML: %s\n", nvmlErrorString(started));
        return (int)started;
    }
    struct smi_gpus gpus = {0};
    int code = version ? smi_version() : select_gpus(&gpus, ids);
    if (code == 0 && !version)
        code = run ? run(&gpus) : smi_overview(&gpus);
    nvmlShutdown();
    return code > 255 ? 255 : code;
}
