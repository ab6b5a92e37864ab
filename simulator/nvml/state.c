/* The state file: create, map, lock, commit. */
#define _GNU_SOURCE
#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "call.h"

static const char MAGIC[8] = "MIGSIM1";

struct sim_node sim_current = SIM_NODE_CLOSED;

/* No thread may be inside a change while another forks: the child would inherit a locked mutex. */
static void before_fork(void) { pthread_mutex_lock(&sim_current.mutex); }
static void after_fork(void) { pthread_mutex_unlock(&sim_current.mutex); }

__attribute__((constructor)) static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork, after_fork);
}

nvmlReturn_t sim_node_create(const char *path)
{
    int descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor < 0)
        return NVML_ERROR_OPERATING_SYSTEM;
    struct sim_file *file = MAP_FAILED;
    if (ftruncate(descriptor, sizeof(struct sim_file)) == 0)
        file = mmap(NULL, sizeof(*file), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    close(descriptor);
    if (file == MAP_FAILED)
        return NVML_ERROR_OPERATING_SYSTEM;
    memcpy(file->magic, MAGIC, sizeof(MAGIC));
    file->layout = SIM_LAYOUT_ID;
    file->bodies[0].next_serial = 1;
    munmap(file, sizeof(*file));
    return NVML_SUCCESS;
}

nvmlReturn_t sim_node_open(struct sim_node *node, const char *path)
{
    int descriptor = open(path, O_RDWR | O_CLOEXEC);
    if (descriptor < 0)
        return errno == EACCES ? NVML_ERROR_NO_PERMISSION : NVML_ERROR_DRIVER_NOT_LOADED;
    struct stat status;
    if (fstat(descriptor, &status) != 0 || status.st_size != (off_t)sizeof(struct sim_file)) {
        close(descriptor);
        return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
    }
    struct sim_file *file = mmap(NULL, sizeof(*file), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (file == MAP_FAILED) {
        close(descriptor);
        return NVML_ERROR_OPERATING_SYSTEM;
    }
    if (memcmp(file->magic, MAGIC, sizeof(MAGIC)) != 0 || file->layout != SIM_LAYOUT_ID) {
        munmap(file, sizeof(*file));
        close(descriptor);
        return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
    }
    node->descriptor = descriptor;
    node->owner = getpid();
    node->file = file;
    return NVML_SUCCESS;
}

void sim_node_close(struct sim_node *node)
{
    munmap(node->file, sizeof(*node->file));
    close(node->descriptor);
    node->file = NULL;
    node->descriptor = -1;
}

static void lock(struct sim_node *node, int how)
{
    pthread_mutex_lock(&node->mutex);
    if (node->owner != getpid()) {
        /* After a fork the descriptor shares its lock with the parent's: open the file anew. */
        char self[64];
        snprintf(self, sizeof(self), "/proc/self/fd/%d", node->descriptor);
        int own = open(self, O_RDWR | O_CLOEXEC);
        if (own >= 0) {
            close(node->descriptor);
            node->descriptor = own;
        }
        node->owner = getpid();
    }
    while (flock(node->descriptor, how) != 0 && errno == EINTR)
        ;
}

static void unlock(struct sim_node *node)
{
    flock(node->descriptor, LOCK_UN);
    pthread_mutex_unlock(&node->mutex);
}

struct sim_body *sim_read(struct sim_node *node)
{
    lock(node, LOCK_SH);
    return &node->file->bodies[atomic_load(&node->file->active) & 1u];
}

void sim_read_done(struct sim_node *node) { unlock(node); }

struct sim_body *sim_change(struct sim_node *node)
{
    lock(node, LOCK_EX);
    uint32_t active = atomic_load(&node->file->active) & 1u;
    struct sim_body *spare = &node->file->bodies[active ^ 1u];
    memcpy(spare, &node->file->bodies[active], sizeof(*spare));
    return spare;
}

void sim_commit(struct sim_node *node)
{
    sim_call_die_if(KILL_DURING);
    atomic_fetch_add(&node->file->active, 1u); /* its last bit chooses the copy; the lab's agent watches the rest */
    unlock(node);
}

void sim_abandon(struct sim_node *node) { unlock(node); }
