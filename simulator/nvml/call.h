/* What every call goes through: initialised?, the counter, injected faults, the permission of the caller. */
#ifndef SIM_CALL_H
#define SIM_CALL_H

#include "state.h"

/* Counts the call and applies the faults due now. Anything but NVML_SUCCESS is what the call must return. */
nvmlReturn_t sim_enter(unsigned int function);

/* Ends the call; passes its result on. */
nvmlReturn_t sim_leave(nvmlReturn_t result);

/* SIGKILL to this very process if a fault of the running call says so for this moment. */
void sim_call_die_if(enum sim_kill moment);

/* May the caller do what the driver leaves to root? */
bool sim_privileged(void);

nvmlReturn_t sim_copy_text(char *to, size_t size, const char *from);

/* A call that only reads. `expression` sees `body` and gives the call's result. */
#define SIM_READ(function, expression)                         \
    do {                                                       \
        nvmlReturn_t result = sim_enter(FN_##function);        \
        if (result == NVML_SUCCESS) {                          \
            const struct sim_body *body = sim_read(&sim_current); \
            result = (expression);                             \
            sim_read_done(&sim_current);                       \
        }                                                      \
        return sim_leave(result);                              \
    } while (0)

/* A call that changes the node: all of it if it succeeds, nothing if it fails. */
#define SIM_CHANGE(function, expression)                       \
    do {                                                       \
        nvmlReturn_t result = sim_enter(FN_##function);        \
        if (result == NVML_SUCCESS) {                          \
            struct sim_body *body = sim_change(&sim_current);  \
            result = (expression);                             \
            if (result == NVML_SUCCESS)                        \
                sim_commit(&sim_current);                      \
            else                                               \
                sim_abandon(&sim_current);                     \
        }                                                      \
        return sim_leave(result);                              \
    } while (0)

#endif
