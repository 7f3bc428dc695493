/* Ports that receive the frames of a capture for ever, and discard sent frames. See shim.h.
 *
 * Distributions of DPDK have no headers for drivers, so a device without traffic of its own has its burst functions replaced, in the table
 * that rte_eth_rx_burst and rte_eth_tx_burst look them up in. */
#include "shim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_ether.h>
#include <rte_memcpy.h>

enum { LINE = 64 };

struct replay {
	struct rte_mempool *pool;
	uint8_t *lines;
	struct weir_replay_frame *frames;
	uint32_t count;
	uint32_t next;
	uint16_t port;
	int discards;
	/* The sender of the frames obeys PFC and PAUSE, of any class, until it is resumed. */
	int is_paused;
	uint64_t sent;
	/* The table's pointer to the queues, all of which are one. */
	void *queues[RTE_MAX_QUEUES_PER_PORT];
};

static struct replay *replays[RTE_MAX_ETHPORTS];

static uint16_t receive_frames(void *queue, struct rte_mbuf **mbufs, uint16_t n)
{
	struct replay *replay = queue;
	uint32_t next = replay->next;

	if (replay->is_paused || rte_mempool_get_bulk(replay->pool, (void **)mbufs, n) != 0)
		return 0;
	for (uint16_t i = 0; i < n; i++) {
		const struct weir_replay_frame *frame = &replay->frames[next];
		const uint8_t *from = replay->lines + (size_t)frame->line * LINE;
		struct rte_mbuf *m = mbufs[i];
		uint8_t *to;

		/* Free mbufs have one segment and one reference. */
		m->data_off = RTE_PKTMBUF_HEADROOM;
		m->port = replay->port;
		m->ol_flags = 0;
		m->packet_type = frame->packet_type;
		m->data_len = frame->length;
		m->pkt_len = frame->length;
		to = rte_pktmbuf_mtod(m, uint8_t *);
		rte_mov64(to, from);
		if (frame->length > LINE)
			memcpy(to + LINE, from + LINE, frame->length - LINE);
		if (++next == replay->count)
			next = 0;
	}
	replay->next = next;
	return n;
}

enum { MAC_CONTROL = 0x8808, PAUSE = 0x0001, PFC = 0x0101, CLASSES = 8 };

static uint16_t word_at(const uint8_t *bytes)
{
	return bytes[0] << 8 | bytes[1];
}

static void obey(struct replay *replay, const struct rte_mbuf *m)
{
	const uint8_t *bytes = rte_pktmbuf_mtod(m, const uint8_t *);

	if (m->data_len < 34 || word_at(bytes + 12) != MAC_CONTROL)
		return;
	if (word_at(bytes + 14) == PAUSE)
		replay->is_paused = word_at(bytes + 16) != 0;
	if (word_at(bytes + 14) == PFC) {
		replay->is_paused = 0;
		for (int n = 0; n < CLASSES; n++)
			replay->is_paused |= (bytes[17] >> n & 1) != 0 && word_at(bytes + 18 + 2 * n) != 0;
	}
}

/* Frees as drivers of NICs do what they have sent: mbufs of one pool together. */
static uint16_t discard_frames(void *queue, struct rte_mbuf **mbufs, uint16_t n)
{
	struct replay *replay = queue;
	uint16_t own = 0;

	for (uint16_t i = 0; i < n; i++) {
		struct rte_mbuf *m = mbufs[i];

		if (unlikely(m->pool != replay->pool || m->nb_segs != 1)) {
			/* Flow control has a pool of its own. */
			obey(replay, m);
			rte_pktmbuf_free(m);
			continue;
		}
		m = rte_pktmbuf_prefree_seg(m);
		if (likely(m != NULL))
			mbufs[own++] = m;
	}
	if (own > 0)
		rte_mempool_put_bulk(replay->pool, (void **)mbufs, own);
	replay->sent += n;
	return n;
}

void weir_port_replay_start(uint16_t port)
{
	struct rte_eth_fp_ops *ops = &rte_eth_fp_ops[port];
	struct replay *replay = replays[port];

	if (replay == NULL)
		return;
	if (replay->count > 0) {
		ops->rx_pkt_burst = receive_frames;
		ops->rxq.data = replay->queues;
	}
	if (replay->discards) {
		ops->tx_pkt_burst = discard_frames;
		ops->txq.data = replay->queues;
	}
}

uint64_t weir_port_replay_sent(uint16_t port)
{
	return port < RTE_MAX_ETHPORTS && replays[port] != NULL ? replays[port]->sent : 0;
}

static uint16_t packet_type_of(const uint8_t *bytes)
{
	uint16_t ether_type = word_at(bytes + 12);

	if (ether_type == RTE_ETHER_TYPE_VLAN)
		ether_type = word_at(bytes + 16);
	if (ether_type == RTE_ETHER_TYPE_IPV4)
		return RTE_PTYPE_L2_ETHER | RTE_PTYPE_L3_IPV4_EXT_UNKNOWN;
	if (ether_type == RTE_ETHER_TYPE_IPV6)
		return RTE_PTYPE_L2_ETHER | RTE_PTYPE_L3_IPV6_EXT_UNKNOWN;
	return RTE_PTYPE_L2_ETHER;
}

int weir_port_replay(uint16_t port, struct rte_mempool *pool, const uint8_t *lines, size_t lines_bytes,
		const struct weir_replay_frame *frames, uint32_t count, int discards)
{
	struct replay *replay;

	if (port >= RTE_MAX_ETHPORTS || replays[port] != NULL || (count == 0 && !discards))
		return -EINVAL;
	replay = calloc(1, sizeof(*replay));
	if (replay == NULL)
		return -ENOMEM;
	replays[port] = replay;
	replay->pool = pool;
	replay->count = count;
	replay->port = port;
	replay->discards = discards;
	for (int queue = 0; queue < RTE_MAX_QUEUES_PER_PORT; queue++)
		replay->queues[queue] = replay;
	replay->lines = aligned_alloc(LINE, RTE_MAX(lines_bytes, (size_t)LINE));
	replay->frames = calloc(RTE_MAX(count, 1u), sizeof(*frames));
	if (replay->lines == NULL || replay->frames == NULL) {
		weir_port_replay_end(port);
		return -ENOMEM;
	}
	if (count > 0) {
		memcpy(replay->lines, lines, lines_bytes);
		memcpy(replay->frames, frames, count * sizeof(*frames));
	}
	for (uint32_t i = 0; i < count; i++)
		replay->frames[i].packet_type = packet_type_of(replay->lines + (size_t)frames[i].line * LINE);
	return 0;
}

void weir_port_replay_end(uint16_t port)
{
	struct replay *replay = port < RTE_MAX_ETHPORTS ? replays[port] : NULL;

	if (replay == NULL)
		return;
	free(replay->lines);
	free(replay->frames);
	free(replay);
	replays[port] = NULL;
}
