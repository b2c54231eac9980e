/* Regions: what is persisted is there at the next opening, and the calls that are refused. 9 says: not on this machine. */
#define _POSIX_C_SOURCE 200809L
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ferrite.h"

int main(int argc, char **argv)
{
    ferrite_region *region, *other;
    uint64_t bytes;
    void *base;
    char *text;
    int status;
    pid_t pid;

    if (argc < 3 || ferrite_region_open(argv[1], argv[2], NULL) != FERRITE_INVALID)
        return 1;
    if (ferrite_region_open(argv[1], "missing", &region) != FERRITE_NOT_FOUND)
        return 2;
    if (ferrite_region_open(argv[1], argv[2], &region))
        return strstr(ferrite_error(), "userfaultfd") || strstr(ferrite_error(), "Linux 6.4") ? 9 : 3;
    if (ferrite_region_open(argv[1], argv[2], &other) != FERRITE_BUSY)
        return 4;
    if (ferrite_region_memory(region, &base, NULL) != FERRITE_INVALID || ferrite_region_memory(region, &base, &bytes))
        return 5;
    text = base;
    if (bytes != 8 << 20 || text[0] || text[bytes - 1])
        return 6;
    strcpy(text, "kept");
    strcpy(text + 4096, "lost");
    if (ferrite_region_persist(region, 0, 5) || ferrite_region_persist(region, bytes, 1) != FERRITE_INVALID)
        return 7;
    if (ferrite_region_lock(region, 100, 8) || ferrite_region_lock(region, 104, 8) != FERRITE_INVALID ||
        ferrite_region_barrier(region) != FERRITE_INVALID || ferrite_region_unlock(region, 100, 9) != FERRITE_INVALID ||
        ferrite_region_unlock(region, 100, 8))
        return 8;
    if (ferrite_region_barrier(region))
        return 10;
    if ((pid = fork()) == 0)
        _exit(ferrite_region_barrier(region) != FERRITE_INVALID || ferrite_region_close(region));
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
        return 11;
    if (ferrite_region_close(region) || ferrite_region_close(NULL))
        return 12;
    if (ferrite_region_open(argv[1], argv[2], &region) || ferrite_region_memory(region, &base, &bytes))
        return 13;
    text = base;
    if (strcmp(text, "kept") || text[4096])
        return 14;
    return ferrite_region_close(region) ? 15 : 0;
}
