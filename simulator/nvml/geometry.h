/* How GPU instances and compute instances find their place: rules only, no locking and no handles. */
#ifndef SIM_GEOMETRY_H
#define SIM_GEOMETRY_H

#include "model.h"
#include "state.h"

#define SIM_ANYWHERE 0xffffffffu

/* Is the driver at least this version ("525", "450.80.02")? NULL: yes. */
bool sim_driver_at_least(const struct sim_body *body, const char *version);

/* Has the GPU MIG, with the node's driver? */
bool sim_mig_capable(const struct sim_body *body, const struct model *model);

/* How many NVML_GPU_INSTANCE_PROFILE_* the node's driver knows. */
unsigned int sim_profile_enum_count(const struct sim_body *body);

/* By NVML_GPU_INSTANCE_PROFILE_* or by profile id; NULL if the GPU or the driver does not offer it. */
const struct model_profile *sim_profile_by_enum(const struct sim_body *body, const struct model *model, unsigned int number);
const struct model_profile *sim_profile_by_id(const struct sim_body *body, const struct model *model, unsigned int id);
const struct model_profile *sim_profile_by_name(const struct sim_body *body, const struct model *model, const char *name);

const struct model_profile *sim_instance_profile(const struct model *model, const struct sim_gpu_instance *instance);
const struct model_compute *sim_compute_profile(const struct model_profile *profile, unsigned int id);

/* The compute profile that takes the whole GPU instance: the one with all its multiprocessors. */
const struct model_compute *sim_full_compute_profile(const struct model_profile *profile);

/* How many more instances of the profile fit. */
unsigned int sim_instance_capacity(const struct model *model, const struct sim_gpu *gpu, const struct model_profile *profile);
unsigned int sim_compute_capacity(const struct model_profile *profile, const struct sim_gpu_instance *instance,
                                  const struct model_compute *wanted);

/* Creates at `wanted`, or where the driver would put it if `wanted` is NULL.
 * NVML_ERROR_INVALID_ARGUMENT: not a placement of the profile. NVML_ERROR_INSUFFICIENT_RESOURCES: no room. */
nvmlReturn_t sim_create_instance(struct sim_body *body, struct sim_gpu *gpu, const struct model *model,
                                 const struct model_profile *profile, const nvmlPlacement_t *wanted,
                                 struct sim_gpu_instance **created);
nvmlReturn_t sim_create_compute(struct sim_body *body, struct sim_gpu_instance *instance,
                                const struct model_profile *profile, const struct model_compute *wanted_profile,
                                const nvmlPlacement_t *wanted, struct sim_compute_instance **created);

/* "3g.20gb" or "1c.3g.20gb". */
void sim_compute_name(const struct model_profile *profile, const struct model_compute *compute, char *name, size_t size);

#endif
