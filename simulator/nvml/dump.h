/* The state as JSON, for people and for the lab's Python side. */
#ifndef SIM_DUMP_H
#define SIM_DUMP_H

#include "state.h"

/* As snprintf: the whole length is returned, the text is cut to size. */
int sim_dump(const struct sim_body *body, const struct sim_fault *faults, char *text, size_t size);

#endif
