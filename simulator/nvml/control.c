/* The lab's own door, see control.h. */
#include "control.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "call.h"
#include "dump.h"
#include "geometry.h"
#include "mig_mode.h"

#define FIRST_PID 5000000u /* above any pid that Linux gives: a simulated process never looks like a real one */

static _Thread_local char error_text[256];

SIM_EXPORT const char *migsim_error(void) { return error_text; }

__attribute__((format(printf, 1, 2))) static int fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error_text, sizeof(error_text), format, arguments);
    va_end(arguments);
    return -1;
}

static int open_node(struct sim_node *node, const char *path)
{
    *node = (struct sim_node)SIM_NODE_CLOSED;
    error_text[0] = 0;
    switch (sim_node_open(node, path)) {
    case NVML_SUCCESS: return 0;
    case NVML_ERROR_LIB_RM_VERSION_MISMATCH:
        return fail("%s was made by another version of the simulator: create the node again", path);
    default: return fail("%s: %s", path, strerror(errno));
    }
}

static int finish(struct sim_node *node, int result)
{
    if (result >= 0)
        sim_commit(node);
    else
        sim_abandon(node);
    sim_node_close(node);
    return result;
}

/* Opens the node for a change and checks the GPU's index. NULL: error_text says why. */
static struct sim_body *change_gpu(struct sim_node *node, const char *path, unsigned int gpu)
{
    if (open_node(node, path) != 0)
        return NULL;
    struct sim_body *body = sim_change(node);
    if (gpu < body->gpu_count)
        return body;
    fail("the node has no GPU %u: it has %u", gpu, body->gpu_count);
    finish(node, -1);
    return NULL;
}

static int put_text(char *to, size_t size, const char *what, const char *from)
{
    if (strlen(from) >= size)
        return fail("%s is longer than %zu characters", what, size - 1);
    strcpy(to, from);
    return 0;
}

SIM_EXPORT uint64_t migsim_layout(void) { return SIM_LAYOUT_ID; }

SIM_EXPORT int migsim_create(const char *path, const char *driver_version, const char *nvml_version, unsigned int cuda_version)
{
    struct sim_node node;
    error_text[0] = 0;
    if (sim_node_create(path) != NVML_SUCCESS)
        return fail("%s: %s", path, strerror(errno));
    if (open_node(&node, path) != 0)
        return -1;
    struct sim_body *body = sim_change(&node);
    body->cuda_version = cuda_version;
    body->next_pid = FIRST_PID;
    int result = put_text(body->driver_version, sizeof(body->driver_version), "driver version", driver_version);
    if (result == 0)
        result = put_text(body->nvml_version, sizeof(body->nvml_version), "NVML version", nvml_version);
    return finish(&node, result);
}

static int add_gpu(struct sim_body *body, const struct model *model, const char *uuid, const char *mode_change)
{
    if (body->gpu_count == SIM_MAX_GPUS)
        return fail("a node has at most %d GPUs", SIM_MAX_GPUS);
    struct sim_gpu *gpu = &body->gpus[body->gpu_count];
    memset(gpu, 0, sizeof(*gpu));
    if (put_text(gpu->model, sizeof(gpu->model), "model", model->key) != 0 ||
        put_text(gpu->uuid, sizeof(gpu->uuid), "uuid", uuid) != 0)
        return -1;
    static const char *const names[] = {"driver", "reset", "reboot"};
    gpu->mode_change = model->resetless ? CHANGE_RESETLESS : CHANGE_DRIVER;
    for (uint32_t i = 0; i < 3; i++)
        if (strcmp(mode_change, names[i]) == 0)
            gpu->mode_change = i;
    if (model->resetless && gpu->mode_change != CHANGE_RESETLESS)
        return fail("%s changes its MIG mode without a reset: mode_change does not apply to it", model->key);
    if (*mode_change && !model->resetless && strcmp(mode_change, names[gpu->mode_change]) != 0)
        return fail("mode_change is driver, reset or reboot, not '%s'", mode_change);
    return (int)body->gpu_count++;
}

SIM_EXPORT int migsim_add_gpu(const char *path, const char *model_key, const char *uuid, unsigned int domain,
                              unsigned int bus, unsigned int device, const char *mode_change, int flipped)
{
    struct sim_node node;
    if (open_node(&node, path) != 0)
        return -1;
    struct sim_body *body = sim_change(&node);
    const struct model *model = model_find(model_key);
    int index = model ? add_gpu(body, model, uuid, mode_change) : fail("no GPU model '%s'", model_key);
    if (index >= 0) {
        struct sim_gpu *gpu = &body->gpus[index];
        gpu->domain = domain;
        gpu->bus = bus;
        gpu->device = device;
        gpu->flipped = flipped != 0;
    }
    return finish(&node, index);
}

SIM_EXPORT int migsim_set_mode(const char *path, unsigned int gpu, int enabled)
{
    struct sim_node node;
    struct sim_body *body = change_gpu(&node, path, gpu);
    if (!body)
        return -1;
    const struct model *model = model_find(body->gpus[gpu].model);
    if (!sim_mig_capable(body, model))
        return finish(&node, fail("%s has no MIG with driver %s", model->key, body->driver_version));
    body->gpus[gpu].mode = body->gpus[gpu].pending = enabled != 0;
    return finish(&node, 0);
}

SIM_EXPORT int migsim_add_instance(const char *path, unsigned int gpu_index, const char *profile_name, int start)
{
    struct sim_node node;
    struct sim_body *body = change_gpu(&node, path, gpu_index);
    if (!body)
        return -1;
    struct sim_gpu *gpu = &body->gpus[gpu_index];
    const struct model *model = model_find(gpu->model);
    const struct model_profile *profile = sim_profile_by_name(body, model, profile_name);
    if (!gpu->mode)
        return finish(&node, fail("GPU %u is not in MIG mode", gpu_index));
    if (!profile)
        return finish(&node, fail("%s does not offer %s", model->key, profile_name));
    nvmlPlacement_t wanted = {(unsigned int)start, profile->placements[0].size};
    struct sim_gpu_instance *instance;
    nvmlReturn_t result = sim_create_instance(body, gpu, model, profile, start < 0 ? NULL : &wanted, &instance);
    if (result == NVML_ERROR_INVALID_ARGUMENT)
        return finish(&node, fail("%s cannot start at %d on %s", profile_name, start, model->key));
    if (result != NVML_SUCCESS)
        return finish(&node, fail("no room for %s on GPU %u", profile_name, gpu_index));
    return finish(&node, (int)instance->id);
}

static struct sim_gpu_instance *find_instance(struct sim_gpu *gpu, unsigned int id)
{
    for (unsigned int i = 0; i < SIM_MAX_GPU_INSTANCES; i++)
        if (gpu->instances[i].used && gpu->instances[i].id == id)
            return &gpu->instances[i];
    return NULL;
}

SIM_EXPORT int migsim_add_compute(const char *path, unsigned int gpu_index, unsigned int instance_id, unsigned int slices)
{
    struct sim_node node;
    struct sim_body *body = change_gpu(&node, path, gpu_index);
    if (!body)
        return -1;
    struct sim_gpu *gpu = &body->gpus[gpu_index];
    struct sim_gpu_instance *instance = find_instance(gpu, instance_id);
    if (!instance)
        return finish(&node, fail("GPU %u has no GPU instance %u", gpu_index, instance_id));
    const struct model_profile *profile = sim_instance_profile(model_find(gpu->model), instance);
    const struct model_compute *compute = slices ? NULL : sim_full_compute_profile(profile);
    for (unsigned int i = 0; !compute && i < profile->compute_count; i++)
        if (profile->compute[i].slices == slices)
            compute = &profile->compute[i];
    struct sim_compute_instance *created;
    if (!compute)
        return finish(&node, fail("%s has no compute instance of %u slices", profile->name, slices));
    if (sim_create_compute(body, instance, profile, compute, NULL, &created) != NVML_SUCCESS)
        return finish(&node, fail("no room for a compute instance of %u slices in GPU instance %u", compute->slices, instance_id));
    return finish(&node, (int)created->id);
}

/* Fails with the reason if there is no such place to run on. */
static int check_place(struct sim_gpu *gpu, unsigned int index, int instance_id, int compute_id)
{
    if (instance_id < 0)
        return compute_id < 0 ? 0 : fail("a compute instance needs its GPU instance");
    struct sim_gpu_instance *instance = find_instance(gpu, (unsigned int)instance_id);
    if (!instance)
        return fail("GPU %u has no GPU instance %d", index, instance_id);
    for (unsigned int i = 0; i < SIM_MAX_COMPUTE_INSTANCES; i++)
        if (instance->compute[i].used && instance->compute[i].id == (unsigned int)compute_id)
            return 0;
    return fail("GPU instance %d on GPU %u has no compute instance %d", instance_id, index, compute_id);
}

SIM_EXPORT int migsim_add_process(const char *path, unsigned int gpu, int instance, int compute, const char *kind,
                                  unsigned int pid, const char *name, const char *pod, uint64_t memory)
{
    static const char *const kinds[] = {"compute", "graphics", "open"};
    struct sim_node node;
    struct sim_body *body = change_gpu(&node, path, gpu);
    if (!body)
        return -1;
    if (check_place(&body->gpus[gpu], gpu, instance, compute) != 0)
        return finish(&node, -1);
    for (unsigned int i = 0; i < SIM_MAX_PROCESSES; i++) {
        struct sim_process *process = &body->processes[i];
        if (process->used)
            continue;
        *process = (struct sim_process){.used = 1, .pid = pid ? pid : body->next_pid++, .kind = 3, .gpu = gpu,
                                        .gpu_instance = (uint32_t)instance, .compute_instance = (uint32_t)compute,
                                        .memory = memory};
        for (uint32_t k = 0; k < 3; k++)
            if (strcmp(kind, kinds[k]) == 0)
                process->kind = k;
        if (process->kind == 3)
            return finish(&node, fail("a process is compute, graphics or open, not '%s'", kind));
        if (put_text(process->name, sizeof(process->name), "process name", name) != 0 ||
            put_text(process->pod, sizeof(process->pod), "pod", pod) != 0)
            return finish(&node, -1);
        return finish(&node, (int)process->pid);
    }
    return finish(&node, fail("a node has at most %d processes", SIM_MAX_PROCESSES));
}

SIM_EXPORT int migsim_remove_processes(const char *path, int gpu, int instance, int compute, unsigned int pid,
                                       const char *name, const char *pod)
{
    struct sim_node node;
    if (open_node(&node, path) != 0)
        return -1;
    struct sim_body *body = sim_change(&node);
    int removed = 0;
    for (unsigned int i = 0; i < SIM_MAX_PROCESSES; i++) {
        struct sim_process *process = &body->processes[i];
        if (!process->used || (gpu >= 0 && process->gpu != (uint32_t)gpu) ||
            (instance >= 0 && process->gpu_instance != (uint32_t)instance) ||
            (compute >= 0 && process->compute_instance != (uint32_t)compute) || (pid && process->pid != pid) ||
            (name && *name && strcmp(process->name, name) != 0) || (pod && *pod && strcmp(process->pod, pod) != 0))
            continue;
        process->used = 0;
        removed++;
    }
    return finish(&node, removed);
}

SIM_EXPORT int migsim_reboot(const char *path)
{
    struct sim_node node;
    if (open_node(&node, path) != 0)
        return -1;
    sim_node_reboot(sim_change(&node));
    return finish(&node, 0);
}

SIM_EXPORT const char *migsim_function_name(unsigned int function)
{
    return function < FUNCTION_COUNT ? function_names[function] : NULL;
}

SIM_EXPORT int migsim_fault_add(const char *path, const char *function, uint64_t nth, uint64_t times, int code,
                                unsigned int latency_ms, const char *moment)
{
    static const char *const moments[] = {"", "before", "during", "after"};
    struct sim_node node;
    uint32_t number = 0, when = 0;
    while (number < FUNCTION_COUNT && strcmp(function_names[number], function) != 0)
        number++;
    while (when < 4 && strcmp(moments[when], moment) != 0)
        when++;
    if (number == FUNCTION_COUNT)
        return fail("no function '%s'", function);
    if (when == 4)
        return fail("a process is killed before, during or after a call, not '%s'", moment);
    if (nth == 0)
        return fail("calls are counted from 1");
    if (open_node(&node, path) != 0)
        return -1;
    sim_change(&node); /* for its lock: two writers must not take one entry */
    for (int i = 0; i < SIM_MAX_FAULTS; i++) {
        struct sim_fault *fault = &node.file->faults[i];
        if (atomic_load(&fault->active))
            continue;
        fault->function = number;
        fault->nth = nth;
        fault->times = times;
        fault->code = (uint32_t)code;
        fault->latency_ms = latency_ms;
        fault->kill = when;
        atomic_store(&fault->seen, 0);
        atomic_store(&fault->active, 1);
        sim_abandon(&node);
        sim_node_close(&node);
        return i;
    }
    return finish(&node, fail("a node has at most %d faults", SIM_MAX_FAULTS));
}

SIM_EXPORT int migsim_fault_clear(const char *path)
{
    struct sim_node node;
    if (open_node(&node, path) != 0)
        return -1;
    int cleared = 0;
    for (int i = 0; i < SIM_MAX_FAULTS; i++)
        cleared += (int)atomic_exchange(&node.file->faults[i].active, 0);
    sim_node_close(&node);
    return cleared;
}

SIM_EXPORT int migsim_calls(const char *path, uint64_t *counts, unsigned int size)
{
    struct sim_node node;
    if (open_node(&node, path) != 0)
        return -1;
    for (unsigned int i = 0; i < FUNCTION_COUNT && i < size; i++)
        counts[i] = atomic_load(&node.file->calls[i]);
    sim_node_close(&node);
    return FUNCTION_COUNT;
}

SIM_EXPORT int migsim_calls_reset(const char *path)
{
    struct sim_node node;
    if (open_node(&node, path) != 0)
        return -1;
    for (unsigned int i = 0; i < FUNCTION_COUNT; i++)
        atomic_store(&node.file->calls[i], 0);
    sim_node_close(&node);
    return 0;
}

SIM_EXPORT int migsim_dump(const char *path, char *text, size_t size)
{
    struct sim_node node;
    if (open_node(&node, path) != 0)
        return -1;
    int length = sim_dump(sim_read(&node), node.file->faults, text, size);
    sim_read_done(&node);
    sim_node_close(&node);
    return length;
}

static nvmlReturn_t reset(struct sim_body *body, unsigned int gpu)
{
    if (gpu >= body->gpu_count)
        return NVML_ERROR_INVALID_ARGUMENT;
    return sim_privileged() ? sim_gpu_reset(body, gpu) : NVML_ERROR_NO_PERMISSION;
}

static nvmlReturn_t reset_call(unsigned int gpu) { SIM_CHANGE(migsim_gpu_reset, reset(body, gpu)); }

SIM_EXPORT int migsim_gpu_reset(unsigned int gpu) { return (int)reset_call(gpu); }

SIM_EXPORT int migsim_client(unsigned int gpu, unsigned int index, unsigned int *pid, char *name, size_t size)
{
    if (!sim_current.file)
        return 0;
    int found = 0;
    const struct sim_body *body = sim_read(&sim_current);
    for (unsigned int i = 0; i < SIM_MAX_PROCESSES && !found; i++) {
        const struct sim_process *process = &body->processes[i];
        if (!process->used || process->gpu != gpu || index-- > 0)
            continue;
        *pid = process->pid;
        snprintf(name, size, "%s", process->name);
        found = 1;
    }
    sim_read_done(&sim_current);
    return found;
}
