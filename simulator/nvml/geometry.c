/* Placement rules. The choice among free placements is a reconstruction from observed sequences: the driver
 * keeps as many placements open as it can, and takes the lowest start among equals. */
#include "geometry.h"

#include <stdio.h>
#include <string.h>

bool sim_driver_at_least(const struct sim_body *body, const char *version)
{
    if (!version)
        return true;
    unsigned int have[3] = {0}, need[3] = {0};
    sscanf(body->driver_version, "%u.%u.%u", &have[0], &have[1], &have[2]);
    sscanf(version, "%u.%u.%u", &need[0], &need[1], &need[2]);
    for (int i = 0; i < 3; i++)
        if (have[i] != need[i])
            return have[i] > need[i];
    return true;
}

bool sim_mig_capable(const struct sim_body *body, const struct model *model)
{
    return model->compute_slices > 0 && sim_driver_at_least(body, model->min_driver);
}

unsigned int sim_profile_enum_count(const struct sim_body *body)
{
    static const struct {
        const char *since;
        unsigned int count;
    } known[] = {{"610", 0x12}, {"575", 0x11}, {"570", 0xd}, {"525", 0xa}, {"470", 8}};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (sim_driver_at_least(body, known[i].since))
            return known[i].count;
    return 6;
}

static bool offered(const struct sim_body *body, const struct model_profile *profile)
{
    return profile->enumeration < sim_profile_enum_count(body) && sim_driver_at_least(body, profile->min_driver);
}

const struct model_profile *sim_profile_by_enum(const struct sim_body *body, const struct model *model, unsigned int number)
{
    for (unsigned int i = 0; i < model->profile_count; i++)
        if (model->profiles[i].enumeration == number)
            return offered(body, &model->profiles[i]) ? &model->profiles[i] : NULL;
    return NULL;
}

const struct model_profile *sim_profile_by_id(const struct sim_body *body, const struct model *model, unsigned int id)
{
    for (unsigned int i = 0; i < model->profile_count; i++)
        if (model->profiles[i].id == id)
            return offered(body, &model->profiles[i]) ? &model->profiles[i] : NULL;
    return NULL;
}

const struct model_profile *sim_profile_by_name(const struct sim_body *body, const struct model *model, const char *name)
{
    for (unsigned int i = 0; i < model->profile_count; i++)
        if (strcmp(model->profiles[i].name, name) == 0)
            return offered(body, &model->profiles[i]) ? &model->profiles[i] : NULL;
    return NULL;
}

const struct model_profile *sim_instance_profile(const struct model *model, const struct sim_gpu_instance *instance)
{
    for (unsigned int i = 0; i < model->profile_count; i++)
        if (model->profiles[i].id == instance->profile_id)
            return &model->profiles[i];
    return NULL;
}

const struct model_compute *sim_compute_profile(const struct model_profile *profile, unsigned int id)
{
    for (unsigned int i = 0; i < profile->compute_count; i++)
        if (profile->compute[i].id == id)
            return &profile->compute[i];
    return NULL;
}

const struct model_compute *sim_full_compute_profile(const struct model_profile *profile)
{
    for (unsigned int i = 0; i < profile->compute_count; i++)
        if (profile->compute[i].multiprocessors == profile->multiprocessors)
            return &profile->compute[i];
    return NULL;
}

static uint32_t span(unsigned int start, unsigned int size) { return ((1u << size) - 1u) << start; }

static uint32_t occupied_by_instances(const struct sim_gpu *gpu)
{
    uint32_t occupied = 0;
    for (unsigned int i = 0; i < SIM_MAX_GPU_INSTANCES; i++)
        if (gpu->instances[i].used)
            occupied |= span(gpu->instances[i].start, gpu->instances[i].size);
    return occupied;
}

static uint32_t occupied_by_compute(const struct sim_gpu_instance *instance)
{
    uint32_t occupied = 0;
    for (unsigned int i = 0; i < SIM_MAX_COMPUTE_INSTANCES; i++)
        if (instance->compute[i].used)
            occupied |= span(instance->compute[i].start, instance->compute[i].size);
    return occupied;
}

static unsigned int count_free(const nvmlPlacement_t *placements, unsigned int count, uint32_t occupied)
{
    unsigned int free_placements = 0;
    for (unsigned int i = 0; i < count; i++)
        if (!(span(placements[i].start, placements[i].size) & occupied))
            free_placements++;
    return free_placements;
}

static bool same_shape(const struct model_profile *a, const struct model_profile *b)
{
    return a->slices == b->slices && a->placement_count == b->placement_count &&
           memcmp(a->placements, b->placements, a->placement_count * sizeof(a->placements[0])) == 0;
}

/* Placements still open on the GPU, each shape counted once: 1g and 1g+me are one shape. */
static unsigned int open_instance_placements(const struct model *model, uint32_t occupied)
{
    unsigned int open = 0;
    for (unsigned int i = 0; i < model->profile_count; i++) {
        const struct model_profile *profile = &model->profiles[i];
        bool counted = false;
        for (unsigned int j = 0; j < i && !counted; j++)
            counted = same_shape(profile, &model->profiles[j]);
        if (!counted)
            open += count_free(profile->placements, profile->placement_count, occupied);
    }
    return open;
}

static unsigned int open_compute_placements(const struct model_profile *profile, uint32_t occupied)
{
    unsigned int open = 0;
    for (unsigned int i = 0; i < profile->compute_count; i++)
        open += count_free(profile->compute[i].placements, profile->compute[i].placement_count, occupied);
    return open;
}

/* May the profile join what is on the GPU, apart from room? */
static bool compatible(const struct model *model, const struct sim_gpu *gpu, const struct model_profile *profile)
{
    unsigned int alike = 0;
    for (unsigned int i = 0; i < SIM_MAX_GPU_INSTANCES; i++) {
        if (!gpu->instances[i].used)
            continue;
        const struct model_profile *present = sim_instance_profile(model, &gpu->instances[i]);
        if (!present)
            return false;
        if (present->id == profile->id && ++alike >= profile->max)
            return false;
        if (present->media == MEDIA_EXTRA && profile->media == MEDIA_EXTRA)
            return false;
        if (present->media == MEDIA_ALL && profile->media != MEDIA_NONE)
            return false;
        if (profile->media == MEDIA_ALL && present->media != MEDIA_NONE)
            return false;
    }
    return true;
}

/* Placements of a profile all have one size, so taking them from the lowest start is exact. */
static unsigned int fill(const nvmlPlacement_t *placements, unsigned int count, uint32_t occupied, unsigned int most)
{
    unsigned int fitted = 0;
    for (unsigned int i = 0; i < count && fitted < most; i++) {
        uint32_t units = span(placements[i].start, placements[i].size);
        if (units & occupied)
            continue;
        occupied |= units;
        fitted++;
    }
    return fitted;
}

unsigned int sim_instance_capacity(const struct model *model, const struct sim_gpu *gpu, const struct model_profile *profile)
{
    if (!compatible(model, gpu, profile))
        return 0;
    unsigned int alike = 0;
    for (unsigned int i = 0; i < SIM_MAX_GPU_INSTANCES; i++)
        alike += gpu->instances[i].used && gpu->instances[i].profile_id == profile->id;
    return fill(profile->placements, profile->placement_count, occupied_by_instances(gpu), profile->max - alike);
}

static unsigned int free_multiprocessors(const struct model_profile *profile, const struct sim_gpu_instance *instance)
{
    unsigned int left = profile->multiprocessors;
    for (unsigned int i = 0; i < SIM_MAX_COMPUTE_INSTANCES; i++)
        if (instance->compute[i].used)
            left -= sim_compute_profile(profile, instance->compute[i].profile_id)->multiprocessors;
    return left;
}

unsigned int sim_compute_capacity(const struct model_profile *profile, const struct sim_gpu_instance *instance,
                                  const struct model_compute *wanted)
{
    unsigned int most = free_multiprocessors(profile, instance) / wanted->multiprocessors, alike = 0;
    for (unsigned int i = 0; i < SIM_MAX_COMPUTE_INSTANCES; i++)
        alike += instance->compute[i].used && instance->compute[i].profile_id == wanted->id;
    if (most > wanted->max - alike)
        most = wanted->max - alike;
    return fill(wanted->placements, wanted->placement_count, occupied_by_compute(instance), most);
}

/* Ids go by the share of the memory: whole 0, halves 1-2, quarters 3-6, eighths 7-14. */
static unsigned int instance_id(const struct model *model, const struct sim_gpu *gpu, const nvmlPlacement_t *placement)
{
    unsigned int parts = model->placement_units / placement->size;
    unsigned int position = placement->start / placement->size;
    if (gpu->flipped && parts > 1)
        position = (position + parts / 2) % parts;
    return parts - 1 + position;
}

static bool has_placement(const nvmlPlacement_t *placements, unsigned int count, const nvmlPlacement_t *wanted)
{
    for (unsigned int i = 0; i < count; i++)
        if (placements[i].start == wanted->start && placements[i].size == wanted->size)
            return true;
    return false;
}

nvmlReturn_t sim_create_instance(struct sim_body *body, struct sim_gpu *gpu, const struct model *model,
                                 const struct model_profile *profile, const nvmlPlacement_t *wanted,
                                 struct sim_gpu_instance **created)
{
    if (wanted && !has_placement(profile->placements, profile->placement_count, wanted))
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!compatible(model, gpu, profile))
        return NVML_ERROR_INSUFFICIENT_RESOURCES;
    uint32_t occupied = occupied_by_instances(gpu);
    const nvmlPlacement_t *best = NULL;
    unsigned int best_open = 0;
    for (unsigned int i = 0; i < profile->placement_count; i++) {
        const nvmlPlacement_t *placement = &profile->placements[i];
        uint32_t units = span(placement->start, placement->size);
        if ((units & occupied) || (wanted && placement->start != wanted->start))
            continue;
        unsigned int open = open_instance_placements(model, occupied | units);
        if (!best || open > best_open) {
            best = placement;
            best_open = open;
        }
    }
    for (unsigned int i = 0; best && i < SIM_MAX_GPU_INSTANCES; i++) {
        if (gpu->instances[i].used)
            continue;
        gpu->instances[i] = (struct sim_gpu_instance){
            .used = 1, .id = instance_id(model, gpu, best), .profile_id = profile->id,
            .start = best->start, .size = best->size, .serial = body->next_serial++};
        *created = &gpu->instances[i];
        return NVML_SUCCESS;
    }
    return NVML_ERROR_INSUFFICIENT_RESOURCES;
}

nvmlReturn_t sim_create_compute(struct sim_body *body, struct sim_gpu_instance *instance,
                                const struct model_profile *profile, const struct model_compute *wanted_profile,
                                const nvmlPlacement_t *wanted, struct sim_compute_instance **created)
{
    if (wanted && !has_placement(wanted_profile->placements, wanted_profile->placement_count, wanted))
        return NVML_ERROR_INVALID_ARGUMENT;
    if (sim_compute_capacity(profile, instance, wanted_profile) == 0)
        return NVML_ERROR_INSUFFICIENT_RESOURCES;
    uint32_t occupied = occupied_by_compute(instance);
    const nvmlPlacement_t *best = NULL;
    unsigned int best_open = 0;
    for (unsigned int i = 0; i < wanted_profile->placement_count; i++) {
        const nvmlPlacement_t *placement = &wanted_profile->placements[i];
        uint32_t units = span(placement->start, placement->size);
        if ((units & occupied) || (wanted && placement->start != wanted->start))
            continue;
        unsigned int open = open_compute_placements(profile, occupied | units);
        if (!best || open > best_open) {
            best = placement;
            best_open = open;
        }
    }
    unsigned int id = 0; /* the lowest one free */
    for (unsigned int i = 0; i < SIM_MAX_COMPUTE_INSTANCES; i++) {
        if (instance->compute[i].used && instance->compute[i].id == id) {
            id++;
            i = (unsigned int)-1;
        }
    }
    for (unsigned int i = 0; best && i < SIM_MAX_COMPUTE_INSTANCES; i++) {
        if (instance->compute[i].used)
            continue;
        instance->compute[i] = (struct sim_compute_instance){
            .used = 1, .id = id, .profile_id = wanted_profile->id,
            .start = best->start, .size = best->size, .serial = body->next_serial++};
        *created = &instance->compute[i];
        return NVML_SUCCESS;
    }
    return NVML_ERROR_INSUFFICIENT_RESOURCES;
}

void sim_compute_name(const struct model_profile *profile, const struct model_compute *compute, char *name, size_t size)
{
    if (compute->slices < profile->slices)
        snprintf(name, size, "%uc.%s", compute->slices, profile->name);
    else
        snprintf(name, size, "%s", profile->name);
}
