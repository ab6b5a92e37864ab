/* Name-based UUIDs (version 5), as the driver makes those of MIG devices. */
#ifndef SIM_UUID_H
#define SIM_UUID_H

#define SIM_MIG_UUID_SIZE 41 /* "MIG-" and a UUID */

/* The UUID of a MIG device: always the same for the same instance ids on the same GPU. */
void sim_mig_uuid(const char *gpu_uuid, unsigned int gpu_instance, unsigned int compute_instance,
                  char uuid[SIM_MIG_UUID_SIZE]);

#endif
