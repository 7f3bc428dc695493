/* Cables: to another port of this process, or to a tap device, which is made where there is none. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "nic.h"

static void *read_tap(void *argument)
{
	struct nic *nic = argument;
	uint8_t *frame = calloc(1, MAX_FRAME);

	for (;;) {
		ssize_t bytes = syscall(SYS_read, nic->tap, frame, MAX_FRAME);
		if (bytes < (ssize_t)ETHER_HEADER) {
			/* EIO: its interface is down. */
			if (bytes < 0 && errno != EINTR)
				poll(NULL, 0, 1);
			continue;
		}
		if (bytes < (ssize_t)MIN_FRAME) {
			memset(frame + bytes, 0, (size_t)(MIN_FRAME - bytes));
			bytes = MIN_FRAME;
		}
		receive(nic, frame, (uint32_t)bytes);
	}
	return NULL;
}

void cable_open(struct nic *nic)
{
	nic->tap = -1;
	if (nic->tap_name[0] == 0)
		return;
	struct ifreq request = { .ifr_flags = IFF_TAP | IFF_NO_PI };
	memcpy(request.ifr_name, nic->tap_name, sizeof(nic->tap_name));
	nic->tap = (int)syscall(SYS_openat, AT_FDCWD, "/dev/net/tun", O_RDWR | O_CLOEXEC, 0);
	if (nic->tap < 0 || syscall(SYS_ioctl, nic->tap, TUNSETIFF, &request) < 0)
		fail("tap device %s: %s", nic->tap_name, strerror(errno));
	if (pthread_create(&nic->tap_thread, NULL, read_tap, nic) != 0)
		fail("no thread for tap device %s", nic->tap_name);
}

bool cable_send(struct nic *nic, const uint8_t *frame, uint32_t length)
{
	if (nic->peer != NULL) {
		receive(nic->peer, frame, length);
		return true;
	}
	return nic->tap >= 0 && syscall(SYS_write, nic->tap, frame, length) == (ssize_t)length;
}
