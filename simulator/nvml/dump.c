/* JSON writer for sim_dump(). */
#include "dump.h"

#include <stdarg.h>
#include <stdio.h>

#include "geometry.h"
#include "uuid.h"

struct out {
    char *text;
    size_t size, length;
};

__attribute__((format(printf, 2, 3))) static void add(struct out *out, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    size_t room = out->length < out->size ? out->size - out->length : 0;
    int written = vsnprintf(room ? out->text + out->length : NULL, room, format, arguments);
    va_end(arguments);
    out->length += (size_t)written;
}

static void add_string(struct out *out, const char *key, const char *value)
{
    add(out, "\"%s\": \"", key);
    for (; *value; value++) {
        if (*value == '"' || *value == '\\')
            add(out, "\\%c", *value);
        else if ((unsigned char)*value < 0x20)
            add(out, "\\u%04x", (unsigned int)*value);
        else
            add(out, "%c", *value);
    }
    add(out, "\"");
}

static void add_compute(struct out *out, const struct sim_gpu *gpu, const struct sim_gpu_instance *instance,
                        const struct model_profile *profile)
{
    const char *comma = "";
    for (unsigned int id = 0; id < SIM_MAX_COMPUTE_INSTANCES; id++)
        for (unsigned int i = 0; i < SIM_MAX_COMPUTE_INSTANCES; i++) {
            const struct sim_compute_instance *compute = &instance->compute[i];
            if (!compute->used || compute->id != id)
                continue;
            const struct model_compute *kind = sim_compute_profile(profile, compute->profile_id);
            char uuid[SIM_MIG_UUID_SIZE], name[48];
            sim_mig_uuid(gpu->uuid, instance->id, compute->id, uuid);
            sim_compute_name(profile, kind, name, sizeof(name));
            add(out, "%s{\"id\": %u, \"profile\": \"%s\", \"profile_id\": %u, \"slices\": %u, ", comma, compute->id, name,
                compute->profile_id, kind->slices);
            add(out, "\"multiprocessors\": %u, \"placement\": {\"start\": %u, \"size\": %u}, \"uuid\": \"%s\", \"serial\": %llu}",
                kind->multiprocessors, compute->start, compute->size, uuid, (unsigned long long)compute->serial);
            comma = ", ";
        }
}

static void add_instances(struct out *out, const struct sim_gpu *gpu, const struct model *model)
{
    const char *comma = "";
    for (unsigned int id = 0; id < 2 * model->placement_units; id++)
        for (unsigned int i = 0; i < SIM_MAX_GPU_INSTANCES; i++) {
            const struct sim_gpu_instance *instance = &gpu->instances[i];
            if (!instance->used || instance->id != id)
                continue;
            const struct model_profile *profile = sim_instance_profile(model, instance);
            add(out, "%s{\"id\": %u, \"profile\": \"%s\", \"profile_id\": %u, \"slices\": %u, \"memory_mib\": %llu, ", comma,
                instance->id, profile->name, profile->id, profile->slices, profile->memory_mib);
            add(out, "\"multiprocessors\": %u, \"engines\": {\"copy\": %u, \"decoder\": %u, \"encoder\": %u, \"jpeg\": %u, "
                     "\"ofa\": %u}, ",
                profile->multiprocessors, profile->copy, profile->decoders, profile->encoders, profile->jpeg, profile->ofa);
            add(out, "\"placement\": {\"start\": %u, \"size\": %u}, \"serial\": %llu, \"compute_instances\": [",
                instance->start, instance->size, (unsigned long long)instance->serial);
            add_compute(out, gpu, instance, profile);
            add(out, "]}");
            comma = ", ";
        }
}

static void add_gpu(struct out *out, const struct sim_body *body, unsigned int index)
{
    static const char *const changes[] = {"driver", "reset", "reboot", "resetless"};
    const struct sim_gpu *gpu = &body->gpus[index];
    const struct model *model = model_find(gpu->model);
    add(out, "%s{\"index\": %u, ", index ? ", " : "", index);
    add_string(out, "model", gpu->model);
    add(out, ", ");
    add_string(out, "name", model->name);
    add(out, ", ");
    add_string(out, "uuid", gpu->uuid);
    add(out, ", \"pci_bus_id\": \"%08X:%02X:%02X.0\", \"pci_device_id\": \"0x%08X\"", gpu->domain, gpu->bus, gpu->device,
        model->pci_device_id);
    add(out, ", \"architecture\": %u, \"compute_capability\": \"%u.%u\", \"memory_mib\": %llu, \"multiprocessors\": %u",
        model->architecture, model->compute_major, model->compute_minor, model->memory_mib, model->multiprocessors);
    add(out, ", \"mig_capable\": %s, \"mode_change\": \"%s\", \"flipped\": %s",
        sim_mig_capable(body, model) ? "true" : "false", model->compute_slices ? changes[gpu->mode_change] : "none",
        gpu->flipped ? "true" : "false");
    add(out, ", \"mig\": {\"current\": %s, \"pending\": %s}, \"instances\": [", gpu->mode ? "true" : "false",
        gpu->pending ? "true" : "false");
    add_instances(out, gpu, model);
    add(out, "]}");
}

static void add_processes(struct out *out, const struct sim_body *body)
{
    static const char *const kinds[] = {"compute", "graphics", "open"};
    const char *comma = "";
    for (unsigned int i = 0; i < SIM_MAX_PROCESSES; i++) {
        const struct sim_process *process = &body->processes[i];
        if (!process->used)
            continue;
        add(out, "%s{\"pid\": %u, \"kind\": \"%s\", \"gpu\": %u, ", comma, process->pid, kinds[process->kind], process->gpu);
        if (process->gpu_instance == NVML_NO_INSTANCE)
            add(out, "\"gpu_instance\": null, \"compute_instance\": null, ");
        else
            add(out, "\"gpu_instance\": %u, \"compute_instance\": %u, ", process->gpu_instance, process->compute_instance);
        add_string(out, "name", process->name);
        add(out, ", ");
        add_string(out, "pod", process->pod);
        add(out, ", \"memory\": %llu}", (unsigned long long)process->memory);
        comma = ", ";
    }
}

static void add_faults(struct out *out, const struct sim_fault *faults)
{
    static const char *const moments[] = {"", "before", "during", "after"};
    const char *comma = "";
    for (unsigned int i = 0; i < SIM_MAX_FAULTS; i++) {
        const struct sim_fault *fault = &faults[i];
        if (!atomic_load(&fault->active))
            continue;
        add(out, "%s{\"function\": \"%s\", \"nth\": %llu, \"times\": %llu, \"code\": %u, \"latency_ms\": %u, \"kill\": \"%s\", "
                 "\"seen\": %llu}",
            comma, function_names[fault->function], (unsigned long long)fault->nth, (unsigned long long)fault->times,
            fault->code, fault->latency_ms, moments[fault->kill], (unsigned long long)atomic_load(&fault->seen));
        comma = ", ";
    }
}

int sim_dump(const struct sim_body *body, const struct sim_fault *faults, char *text, size_t size)
{
    struct out out = {text, size, 0};
    add(&out, "{");
    add_string(&out, "driver_version", body->driver_version);
    add(&out, ", ");
    add_string(&out, "nvml_version", body->nvml_version);
    add(&out, ", \"cuda_version\": %u, \"boots\": %u, \"gpus\": [", body->cuda_version, body->boots);
    for (unsigned int i = 0; i < body->gpu_count; i++)
        add_gpu(&out, body, i);
    add(&out, "], \"processes\": [");
    add_processes(&out, body);
    add(&out, "], \"faults\": [");
    add_faults(&out, faults);
    add(&out, "]}");
    return (int)out.length;
}
