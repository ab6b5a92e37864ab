/* Handles are addresses of small records that live as long as the process.
 *
 * A record names an instance by its serial, so the handle of a destroyed instance stays invalid even when a new
 * instance takes the old id. A pointer is trusted only if it lies in one of our chunks.
 */
#include "handle.h"

#include <stdlib.h>

enum kind { KIND_GPU, KIND_MIG, KIND_INSTANCE, KIND_COMPUTE };

struct record {
    enum kind kind;
    unsigned int gpu;
    uint64_t instance, compute; /* serials, 0: none */
};

#define CHUNK_RECORDS 1024
struct chunk {
    struct chunk *next;
    size_t used;
    struct record records[CHUNK_RECORDS];
};

static struct chunk first;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *intern(enum kind kind, unsigned int gpu, uint64_t instance, uint64_t compute)
{
    pthread_mutex_lock(&mutex);
    struct record *found = NULL;
    struct chunk *last = &first;
    for (struct chunk *chunk = &first; chunk && !found; chunk = chunk->next) {
        last = chunk;
        for (size_t i = 0; i < chunk->used; i++) {
            struct record *record = &chunk->records[i];
            if (record->kind == kind && record->gpu == gpu && record->instance == instance && record->compute == compute) {
                found = record;
                break;
            }
        }
    }
    if (!found && last->used == CHUNK_RECORDS && (last->next = calloc(1, sizeof(*last))))
        last = last->next;
    if (!found && last->used < CHUNK_RECORDS) {
        found = &last->records[last->used];
        *found = (struct record){kind, gpu, instance, compute};
        last->used++;
    }
    pthread_mutex_unlock(&mutex);
    return found;
}

static bool known(const void *pointer, struct record *copy)
{
    bool found = false;
    uintptr_t address = (uintptr_t)pointer;
    pthread_mutex_lock(&mutex);
    for (const struct chunk *chunk = &first; chunk && !found; chunk = chunk->next) {
        uintptr_t start = (uintptr_t)chunk->records;
        if (address >= start && address < start + chunk->used * sizeof(struct record) &&
            (address - start) % sizeof(struct record) == 0) {
            *copy = chunk->records[(address - start) / sizeof(struct record)];
            found = true;
        }
    }
    pthread_mutex_unlock(&mutex);
    return found;
}

nvmlDevice_t sim_gpu_handle(unsigned int gpu) { return intern(KIND_GPU, gpu, 0, 0); }

nvmlDevice_t sim_mig_handle(unsigned int gpu, uint64_t instance_serial, uint64_t compute_serial)
{
    return intern(KIND_MIG, gpu, instance_serial, compute_serial);
}

nvmlGpuInstance_t sim_instance_handle(unsigned int gpu, uint64_t instance_serial)
{
    return intern(KIND_INSTANCE, gpu, instance_serial, 0);
}

nvmlComputeInstance_t sim_compute_handle(unsigned int gpu, uint64_t instance_serial, uint64_t compute_serial)
{
    return intern(KIND_COMPUTE, gpu, instance_serial, compute_serial);
}

static nvmlReturn_t resolve(const struct sim_body *body, const struct record *record, struct sim_target *target)
{
    if (record->gpu >= body->gpu_count)
        return NVML_ERROR_INVALID_ARGUMENT;
    *target = (struct sim_target){.gpu_index = record->gpu};
    target->gpu = (struct sim_gpu *)&body->gpus[record->gpu];
    target->model = model_find(target->gpu->model);
    if (!target->model)
        return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
    if (record->instance == 0)
        return NVML_SUCCESS;
    for (unsigned int i = 0; i < SIM_MAX_GPU_INSTANCES; i++) {
        struct sim_gpu_instance *instance = &target->gpu->instances[i];
        if (instance->used && instance->serial == record->instance)
            target->instance = instance;
    }
    if (!target->instance)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (record->compute == 0)
        return NVML_SUCCESS;
    for (unsigned int i = 0; i < SIM_MAX_COMPUTE_INSTANCES; i++) {
        struct sim_compute_instance *compute = &target->instance->compute[i];
        if (compute->used && compute->serial == record->compute)
            target->compute = compute;
    }
    return target->compute ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

static nvmlReturn_t resolve_kinds(const struct sim_body *body, const void *handle, enum kind kind, enum kind other,
                                  struct sim_target *target)
{
    struct record record;
    if (!known(handle, &record) || (record.kind != kind && record.kind != other))
        return NVML_ERROR_INVALID_ARGUMENT;
    return resolve(body, &record, target);
}

nvmlReturn_t sim_resolve_gpu(const struct sim_body *body, nvmlDevice_t device, struct sim_target *target)
{
    return resolve_kinds(body, device, KIND_GPU, KIND_GPU, target);
}

nvmlReturn_t sim_resolve_device(const struct sim_body *body, nvmlDevice_t device, struct sim_target *target)
{
    return resolve_kinds(body, device, KIND_GPU, KIND_MIG, target);
}

nvmlReturn_t sim_resolve_mig(const struct sim_body *body, nvmlDevice_t device, struct sim_target *target)
{
    return resolve_kinds(body, device, KIND_MIG, KIND_MIG, target);
}

nvmlReturn_t sim_resolve_instance(const struct sim_body *body, nvmlGpuInstance_t handle, struct sim_target *target)
{
    return resolve_kinds(body, handle, KIND_INSTANCE, KIND_INSTANCE, target);
}

nvmlReturn_t sim_resolve_compute(const struct sim_body *body, nvmlComputeInstance_t handle, struct sim_target *target)
{
    return resolve_kinds(body, handle, KIND_COMPUTE, KIND_COMPUTE, target);
}
