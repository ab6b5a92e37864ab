/* Counters, faults, permission. */
#define _GNU_SOURCE
#include "call.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static _Thread_local enum sim_kill dies_at = KILL_NEVER;

void sim_call_die_if(enum sim_kill moment)
{
    if (dies_at != moment)
        return;
    kill(getpid(), SIGKILL);
    for (;;) /* the signal ends every thread; do not run on until it does */
        pause();
}

static void sleep_ms(uint32_t milliseconds)
{
    struct timespec left = {milliseconds / 1000, (long)(milliseconds % 1000) * 1000000L};
    while (nanosleep(&left, &left) != 0)
        ;
}

static nvmlReturn_t apply_faults(struct sim_file *file, unsigned int function)
{
    nvmlReturn_t result = NVML_SUCCESS;
    for (unsigned int i = 0; i < SIM_MAX_FAULTS; i++) {
        struct sim_fault *fault = &file->faults[i];
        if (!atomic_load(&fault->active) || fault->function != function)
            continue;
        uint64_t now = atomic_fetch_add(&fault->seen, 1) + 1;
        if (now < fault->nth || (fault->times != 0 && now >= fault->nth + fault->times))
            continue;
        if (fault->latency_ms)
            sleep_ms(fault->latency_ms);
        if (fault->kill)
            dies_at = (enum sim_kill)fault->kill;
        if (fault->code)
            result = (nvmlReturn_t)fault->code;
    }
    return result;
}

nvmlReturn_t sim_enter(unsigned int function)
{
    dies_at = KILL_NEVER;
    if (!sim_current.file)
        return NVML_ERROR_UNINITIALIZED;
    atomic_fetch_add(&sim_current.file->calls[function], 1);
    nvmlReturn_t result = apply_faults(sim_current.file, function);
    sim_call_die_if(KILL_BEFORE);
    return result;
}

nvmlReturn_t sim_leave(nvmlReturn_t result)
{
    sim_call_die_if(KILL_AFTER);
    dies_at = KILL_NEVER;
    return result;
}

bool sim_privileged(void)
{
    const char *told = getenv("MIG_SIM_EUID");
    return told && *told ? strcmp(told, "0") == 0 : geteuid() == 0;
}

nvmlReturn_t sim_copy_text(char *to, size_t size, const char *from)
{
    if (!to)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (strlen(from) + 1 > size)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(to, from, strlen(from) + 1);
    return NVML_SUCCESS;
}
