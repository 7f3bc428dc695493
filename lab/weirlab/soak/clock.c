/*
 * A wall clock that steps: CLOCK_REALTIME of the program that it is preloaded into, moved by the nanoseconds in the file that SOAK_CLOCK
 * names. The machine's own clock stays, and so do the kernel's stamps and monotonic clocks.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define NANOS 1000000000ll

static const volatile int64_t *offset;
static int (*kernels)(clockid_t, struct timespec *);

__attribute__((constructor)) static void start(void)
{
	const char *path = getenv("SOAK_CLOCK");
	int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *memory = file < 0 ? MAP_FAILED : mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);

	if (file >= 0)
		close(file);
	if (memory != MAP_FAILED)
		offset = memory;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
	if (!kernels)
		kernels = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	int code = kernels(clock, now);

	if (code == 0 && clock == CLOCK_REALTIME && offset) {
		int64_t nanos = now->tv_sec * NANOS + now->tv_nsec + *offset;

		now->tv_sec = nanos / NANOS;
		now->tv_nsec = nanos % NANOS;
	}
	return code;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	struct timespec time;

	(void)zone;
	clock_gettime(CLOCK_REALTIME, &time);
	now->tv_sec = time.tv_sec;
	now->tv_usec = time.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *out)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (out)
		*out = now.tv_sec;
	return now.tv_sec;
}
