/* The yardstick: N times /bin/true by posix_spawn, two at a time, and nothing else. */
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

extern char **environ;

int main(int argc, char **argv) {
    int left = argc > 1 ? atoi(argv[1]) : 1000, running = 0;
    char *command[] = {"/bin/true", NULL};
    while (left > 0 || running > 0) {
        if (left > 0 && running < 2) {
            pid_t pid;
            if (posix_spawn(&pid, command[0], NULL, NULL, command, environ) != 0) return 1;
            left--, running++;
        } else if (wait(NULL) > 0) {
            running--;
        }
    }
    return 0;
}
