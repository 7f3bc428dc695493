/* The ports of Weir's measurements for other programs of DPDK, which preload this: their devices repeat captures and discard what is sent by
 * dpdk-io/dpdk-sys/src/replay.c, and report the types of packets as NICs do.
 *
 * WEIR_REPLAY names a capture for each port, with a colon between them. */
#include "shim.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 64, FILE_HEADER = 24, FRAME_HEADER = 16 };

static struct rte_mempool *pools[RTE_MAX_ETHPORTS];

/* DPDK's function behind the one of this name here. */
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static void fail(const char *what)
{
	fprintf(stderr, "WEIR_REPLAY: %s\n", what);
	exit(1);
}

/* The capture of a port; exits without one. */
static FILE *open_capture(uint16_t port)
{
	const char *files = getenv("WEIR_REPLAY");
	char path[4096];
	FILE *file;

	for (; files != NULL && port > 0; port--) {
		files = strchr(files, ':');
		files = files != NULL ? files + 1 : NULL;
	}
	if (files == NULL)
		fail("no capture for a port");
	snprintf(path, sizeof(path), "%.*s", (int)strcspn(files, ":"), files);
	file = fopen(path, "rb");
	if (file == NULL || fseek(file, FILE_HEADER, SEEK_SET) != 0)
		fail(path);
	return file;
}

/* Reads a capture in this machine's byte order, as the measurements write it. */
static void replay(uint16_t port)
{
	FILE *file = open_capture(port);
	uint8_t *lines = NULL;
	struct weir_replay_frame *frames = NULL;
	size_t bytes = 0;
	uint32_t header[FRAME_HEADER / sizeof(uint32_t)], count = 0;

	while (fread(header, FRAME_HEADER, 1, file) == 1) {
		uint32_t length = header[2];
		size_t end = bytes + RTE_ALIGN_CEIL(length, LINE);

		lines = realloc(lines, end);
		frames = realloc(frames, (count + 1) * sizeof(*frames));
		if (lines == NULL || frames == NULL || fread(lines + bytes, length, 1, file) != 1)
			fail("a frame that can't be read");
		frames[count++] = (struct weir_replay_frame){ .line = bytes / LINE, .length = length };
		bytes = end;
	}
	fclose(file);
	weir_port_replay_end(port);
	if (weir_port_replay(port, pools[port], lines, bytes, frames, count, 1) != 0)
		fail("no frames");
	weir_port_replay_start(port);
	free(lines);
	free(frames);
}

int rte_eth_rx_queue_setup(uint16_t port, uint16_t queue, uint16_t descriptors, unsigned int socket, const struct rte_eth_rxconf *conf,
		struct rte_mempool *pool)
{
	pools[port] = pool;
	return REAL(rte_eth_rx_queue_setup)(port, queue, descriptors, socket, conf, pool);
}

int rte_eth_dev_start(uint16_t port)
{
	int ret = REAL(rte_eth_dev_start)(port);

	if (ret == 0)
		replay(port);
	return ret;
}

int rte_eth_stats_get(uint16_t port, struct rte_eth_stats *stats)
{
	int ret = REAL(rte_eth_stats_get)(port, stats);

	if (ret == 0)
		stats->opackets = weir_port_replay_sent(port);
	return ret;
}

int rte_eth_dev_get_supported_ptypes(uint16_t port, uint32_t mask, uint32_t *types, int room)
{
	const uint32_t all[] = { RTE_PTYPE_L2_ETHER, RTE_PTYPE_L3_IPV4_EXT_UNKNOWN, RTE_PTYPE_L3_IPV6_EXT_UNKNOWN };
	int count = 0;

	(void)port;
	for (size_t n = 0; n < RTE_DIM(all); n++) {
		if ((all[n] & mask) == 0)
			continue;
		if (count < room)
			types[count] = all[n];
		count++;
	}
	return count;
}
