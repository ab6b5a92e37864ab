/* What one GPU model is: constant tables, generated from gpus.json at build time. */
#ifndef SIM_MODEL_H
#define SIM_MODEL_H

#include "abi.h"

#define MODEL_MAX_PLACEMENTS 8
#define MODEL_MAX_COMPUTE 8

struct model_compute { /* a compute instance profile inside one GPU instance profile */
    unsigned int id, slices, multiprocessors, max;
    unsigned int placement_count;
    nvmlPlacement_t placements[MODEL_MAX_PLACEMENTS];
};

enum model_media { /* the profile's claim on decoders, encoders, JPEG and OFA engines */
    MEDIA_SHARE,   /* no suffix */
    MEDIA_EXTRA,   /* +me: one such instance a GPU */
    MEDIA_ALL,     /* +me.all: only -me beside it */
    MEDIA_NONE     /* -me */
};

struct model_profile { /* a GPU instance profile */
    const char *name;  /* without NVML's "MIG " prefix */
    unsigned int enumeration, id, slices, max;
    unsigned long long memory_mib;
    unsigned int multiprocessors, copy, decoders, encoders, jpeg, ofa;
    unsigned int gfx;
    enum model_media media;
    const char *min_driver; /* NULL: any */
    unsigned int placement_count;
    nvmlPlacement_t placements[MODEL_MAX_PLACEMENTS];
    unsigned int compute_count;
    struct model_compute compute[MODEL_MAX_COMPUTE];
};

struct model {
    const char *key, *name;
    unsigned int pci_device_id; /* device << 16 | vendor, as nvmlPciInfo_t has it */
    unsigned int architecture, compute_major, compute_minor, brand;
    unsigned long long memory_mib;
    unsigned int multiprocessors;
    /* MIG; slices 0: the GPU has none */
    const char *min_driver;
    unsigned int resetless, compute_slices, placement_units;
    unsigned int profile_count;
    const struct model_profile *profiles;
};

extern const struct model model_table[];
extern const unsigned int model_count;

/* NULL if there is no such model. */
const struct model *model_find(const char *key);


#endif
