/* See shim.h. Burst-wise calls only on the packet path: one call a burst. */
#include "shim.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_bus.h>
#include <rte_cycles.h>
#include <rte_dev.h>
#include <rte_eth_vhost.h>
#include <rte_ether.h>
#include <rte_malloc.h>
#include <rte_ring.h>

/* Its receive queues are files of the kernel, which can be waited for. */
#define TAP_DRIVER "net_tap"

int weir_errno(void)
{
	return rte_errno;
}

uint64_t weir_rdtsc(void)
{
	return rte_rdtsc();
}

int weir_lcore_cpu(unsigned int lcore)
{
	rte_cpuset_t set = rte_lcore_cpuset(lcore);
	int found = -1;

	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &set))
			continue;
		if (found >= 0)
			return -1;
		found = cpu;
	}
	return found;
}

int weir_lcore_is_idle(unsigned int lcore)
{
	return rte_eal_get_lcore_state(lcore) == WAIT;
}

int weir_iova_is_virtual(void)
{
	return rte_eal_iova_mode() == RTE_IOVA_VA;
}

/* Mempools and mbufs */

static unsigned int element_size(uint16_t data_room)
{
	return sizeof(struct rte_mbuf) + data_room;
}

/* The store behind the lcores' caches: rings without locks, as DPDK's "ring_mp_mc", but two. One ring alone has each mbuf come again
 * only after all others, so that where lcores pass mbufs through it every one has left the cache. The warm ring is short, and the
 * other one is asked only where it is full or empty. */
struct store {
	struct rte_ring *warm;
	struct rte_ring *cold;
};

/* A power of two: places of the warm ring. Some bursts of some lcores; headers and short frames of so many mbufs lie in the cache. */
#define WARM 4096

static struct rte_ring *make_ring(const struct rte_mempool *pool, const char *prefix, unsigned int count)
{
	char name[RTE_RING_NAMESIZE];
	int length = snprintf(name, sizeof(name), "%s%s", prefix, pool->name);

	if (length < 0 || length >= (int)sizeof(name)) {
		rte_errno = ENAMETOOLONG;
		return NULL;
	}
	return rte_ring_create(name, rte_align32pow2(count + 1), pool->socket_id, 0);
}

static void free_store(struct rte_mempool *pool)
{
	struct store *store = pool->pool_data;

	if (store == NULL)
		return;
	rte_ring_free(store->warm);
	rte_ring_free(store->cold);
	rte_free(store);
	pool->pool_data = NULL;
}

static int make_store(struct rte_mempool *pool)
{
	struct store *store = rte_zmalloc_socket("store", sizeof(*store), 0, pool->socket_id);

	if (store == NULL)
		return -ENOMEM;
	pool->pool_data = store;
	store->warm = make_ring(pool, "MW_", WARM - 1);
	/* All fit, so that what comes back always finds a place. */
	store->cold = make_ring(pool, "MC_", pool->size);
	if (store->warm == NULL || store->cold == NULL) {
		int error = rte_errno;

		free_store(pool);
		return -error;
	}
	return 0;
}

static int put_in_store(struct rte_mempool *pool, void *const *mbufs, unsigned int n)
{
	struct store *store = pool->pool_data;

	if (rte_ring_mp_enqueue_bulk(store->warm, mbufs, n, NULL) != 0)
		return 0;
	return rte_ring_mp_enqueue_bulk(store->cold, mbufs, n, NULL) != 0 ? 0 : -ENOBUFS;
}

static int take_from_store(struct rte_mempool *pool, void **mbufs, unsigned int n)
{
	struct store *store = pool->pool_data;

	if (rte_ring_mc_dequeue_bulk(store->warm, mbufs, n, NULL) != 0
			|| rte_ring_mc_dequeue_bulk(store->cold, mbufs, n, NULL) != 0)
		return 0;
	/* Neither has all of them. What fills a cache is asked for in part next; what a burst needs is pieced together. Others miss no
	 * more than that meanwhile. */
	if (n > WEIR_PIECED_MAX)
		return -ENOBUFS;
	unsigned int taken = rte_ring_mc_dequeue_burst(store->warm, mbufs, n, NULL);

	taken += rte_ring_mc_dequeue_burst(store->cold, mbufs + taken, n - taken, NULL);
	if (taken == n)
		return 0;
	if (taken > 0)
		rte_ring_mp_enqueue_bulk(store->cold, mbufs, taken, NULL);
	return -ENOBUFS;
}

static unsigned int count_in_store(const struct rte_mempool *pool)
{
	const struct store *store = pool->pool_data;

	return rte_ring_count(store->warm) + rte_ring_count(store->cold);
}

static const struct rte_mempool_ops store_ops = {
	.name = "weir_store",
	.alloc = make_store,
	.free = free_store,
	.enqueue = put_in_store,
	.dequeue = take_from_store,
	.get_count = count_in_store,
};

/* The handler's name, registered once and behind all that EAL loads: other processes know DPDK's own handlers by their numbers. Where
 * there is no number left it is DPDK's one ring. */
static const char *store_name(void)
{
	for (unsigned int i = 0; i < rte_mempool_ops_table.num_ops; i++)
		if (strcmp(rte_mempool_ops_table.ops[i].name, store_ops.name) == 0)
			return store_ops.name;
	return rte_mempool_register_ops(&store_ops) >= 0 ? store_ops.name : "ring_mp_mc";
}

struct rte_mempool *weir_mempool_create(const char *name, unsigned int count,
		unsigned int cache, uint16_t data_room, int socket, int for_devices)
{
	/* rte_pktmbuf_pool_create takes no flags. On ordinary pages each page would
	 * hold one mbuf, and all mbuf headers would fall into the same few cache
	 * sets. NO_IOVA_CONTIG has them lie densely, but takes the addresses away by
	 * which devices find them: RTE_BAD_IOVA, so that NICs write to address 0xff,
	 * and mlx5 registers nothing. */
	unsigned int flags = !rte_eal_has_hugepages() && !for_devices
		? RTE_MEMPOOL_F_NO_IOVA_CONTIG : 0;
	struct rte_pktmbuf_pool_private private_data = {
		.mbuf_data_room_size = data_room,
		.mbuf_priv_size = 0,
	};
	struct rte_mempool *pool = rte_mempool_create_empty(name, count,
			element_size(data_room), cache, sizeof(private_data), socket, flags);
	if (pool == NULL)
		return NULL;
	int ret = rte_mempool_set_ops_byname(pool, store_name(), NULL);
	if (ret == 0) {
		rte_pktmbuf_pool_init(pool, &private_data);
		ret = rte_mempool_populate_default(pool);
	}
	if (ret < 0) {
		rte_mempool_free(pool);
		rte_errno = -ret;
		return NULL;
	}
	rte_mempool_obj_iter(pool, rte_pktmbuf_init, NULL);
	return pool;
}

int weir_mempool_is_for_devices(const struct rte_mempool *pool)
{
	return (pool->flags & RTE_MEMPOOL_F_NON_IO) == 0;
}

static void add_chunk(struct rte_mempool *pool, void *sum, struct rte_mempool_memhdr *chunk,
		unsigned int index)
{
	(void)pool;
	(void)index;
	*(uint64_t *)sum += chunk->len;
}

/* The pool's header with one cache per lcore, and its rings of pointers. */
static uint64_t overhead_bytes(unsigned int count)
{
	ssize_t warm = rte_ring_get_memsize(WARM);
	ssize_t cold = rte_ring_get_memsize(rte_align32pow2(count + 1));

	return sizeof(struct rte_mempool) + RTE_MAX_LCORE * sizeof(struct rte_mempool_cache)
		+ (warm > 0 ? (uint64_t)warm : 0) + (cold > 0 ? (uint64_t)cold : 0);
}

uint64_t weir_mempool_bytes(struct rte_mempool *pool)
{
	uint64_t sum = 0;

	rte_mempool_mem_iter(pool, add_chunk, &sum);
	return sum + overhead_bytes(pool->size);
}

uint64_t weir_mempool_estimate(unsigned int count, uint16_t data_room, uint32_t page)
{
	uint64_t each = rte_mempool_calc_obj_size(element_size(data_room), 0, NULL);
	if (page == 0)
		return each * count + overhead_bytes(count);
	uint64_t per_page = page / each;
	uint64_t pages = per_page == 0 ? (each + page - 1) / page * count
		: (count + per_page - 1) / per_page;
	return pages * page + overhead_bytes(count);
}

struct rte_mbuf *weir_mbuf_alloc(struct rte_mempool *pool)
{
	return rte_pktmbuf_alloc(pool);
}

int weir_mbuf_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **mbufs, unsigned int n)
{
	return rte_pktmbuf_alloc_bulk(pool, mbufs, n);
}

/* A cache line for writing: another lcore that has it loses it at once, and not when it is written. */
static void fetch_to_write(char *line)
{
#ifdef __x86_64__
	__asm__ volatile("prefetchw %0" : : "m"(*line));
#else
	__builtin_prefetch(line, 1);
#endif
}

/* A cache line that comes from memory, into the second-level cache: a core has few on their way to its first-level cache at a time, and
 * would wait with the others. */
static void fetch_early(char *line)
{
	__builtin_prefetch(line, 0, 2);
}

static void fetch_mbuf(char *mbuf, void (*fetch)(char *))
{
	/* Both lines of the header, and the first bytes of a frame. */
	fetch(mbuf);
	fetch(mbuf + RTE_CACHE_LINE_SIZE);
	fetch(mbuf + sizeof(struct rte_mbuf) + RTE_PKTMBUF_HEADROOM);
}

void weir_mempool_fetch_ahead(struct rte_mempool *pool, unsigned int n, int of_others)
{
	struct rte_mempool_cache *cache = rte_mempool_default_cache(pool, rte_lcore_id());

	if (cache == NULL)
		return;
	if (cache->len < n && cache->len < cache->size) {
		/* The next to take some would fill the cache up. */
		unsigned int more = cache->size - cache->len;

		if (rte_mempool_ops_dequeue_bulk(pool, cache->objs + cache->len, more) == 0)
			cache->len += more;
	}
	n = RTE_MIN(n, cache->len);
	for (unsigned int i = 1; i <= n; i++)
		fetch_mbuf(cache->objs[cache->len - i], of_others ? fetch_to_write : fetch_early);
}

void weir_mbuf_free(struct rte_mbuf *m)
{
	rte_pktmbuf_free(m);
}

uint8_t *weir_mbuf_append(struct rte_mbuf *m, uint16_t len)
{
	return (uint8_t *)rte_pktmbuf_append(m, len);
}

uint8_t *weir_mbuf_prepend(struct rte_mbuf *m, uint16_t len)
{
	return (uint8_t *)rte_pktmbuf_prepend(m, len);
}

int weir_mbuf_trim(struct rte_mbuf *m, uint16_t len)
{
	return rte_pktmbuf_trim(m, len);
}

int weir_mbuf_linearize(struct rte_mbuf *m)
{
	return rte_pktmbuf_linearize(m);
}

/* Queues and rings */

uint16_t weir_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n)
{
	return rte_eth_rx_burst(port, queue, mbufs, n);
}

uint16_t weir_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n)
{
	return rte_eth_tx_burst(port, queue, mbufs, n);
}

int weir_rx_fd(uint16_t port, uint16_t queue)
{
	struct rte_eth_dev_info info;

	/* The question is an error in the log of ports without interrupts. */
	if (rte_eth_dev_info_get(port, &info) != 0 || strcmp(info.driver_name, TAP_DRIVER) != 0)
		return -ENOTSUP;
	return rte_eth_dev_rx_intr_ctl_q_get_fd(port, queue);
}

int weir_tx_queue_count(uint16_t port, uint16_t queue)
{
#if RTE_VERSION >= RTE_VERSION_NUM(24, 3, 0, 0)
	return rte_eth_tx_queue_count(port, queue);
#else
	(void)port;
	(void)queue;
	return -ENOTSUP;
#endif
}

unsigned int weir_ring_count(const struct rte_ring *ring)
{
	return rte_ring_count(ring);
}

unsigned int weir_ring_dequeue(struct rte_ring *ring, struct rte_mbuf **mbufs, unsigned int n)
{
	return rte_ring_dequeue_burst(ring, (void **)mbufs, n, NULL);
}

unsigned int weir_ring_enqueue(struct rte_ring *ring, struct rte_mbuf **mbufs, unsigned int n)
{
	return rte_ring_enqueue_burst(ring, (void **)mbufs, n, NULL);
}

/* Ports */

static void copy_name(char *to, size_t size, const char *from)
{
	size_t len = from == NULL ? 0 : strnlen(from, size - 1);

	if (len > 0)
		memcpy(to, from, len);
	to[len] = '\0';
}

static int find_port(const char *devargs, uint16_t *port)
{
	char name[RTE_ETH_NAME_MAX_LEN];
	struct rte_dev_iterator iterator;
	uint16_t found;

	copy_name(name, RTE_MIN(sizeof(name), strcspn(devargs, ",") + 1), devargs);
	if (rte_eth_dev_get_port_by_name(name, port) == 0)
		return 0;
	if (rte_eth_dev_count_avail() == 0)
		return -ENODEV;
	RTE_ETH_FOREACH_MATCHING_DEV(found, devargs, &iterator) {
		*port = found;
		rte_eth_iterator_cleanup(&iterator);
		return 0;
	}
	return -ENODEV;
}

int weir_port_attach(const char *devargs, uint16_t *port, int *attached)
{
	*attached = 0;
	/* EAL has probed the PCI devices that it was told of. */
	int ret = find_port(devargs, port);
	if (ret == 0)
		return 0;
	ret = rte_dev_probe(devargs);
	if (ret == 0)
		*attached = 1;
	else if (ret != -EEXIST)
		return ret < 0 ? ret : -EIO;
	return find_port(devargs, port);
}

/* By port, written by DPDK's interrupt thread and read by any. */
static uint8_t removed[RTE_MAX_ETHPORTS];

static void device_event(const char *name, enum rte_dev_event_type event, void *arg)
{
	uint16_t port;

	(void)arg;
	if (event == RTE_DEV_EVENT_REMOVE && rte_eth_dev_get_port_by_name(name, &port) == 0)
		__atomic_store_n(&removed[port], 1, __ATOMIC_RELAXED);
}

static int removal_event(uint16_t port, enum rte_eth_event_type type, void *arg, void *ret)
{
	(void)type;
	(void)arg;
	(void)ret;
	__atomic_store_n(&removed[port], 1, __ATOMIC_RELAXED);
	return 0;
}

int weir_removals_watch(void)
{
	int ret = rte_dev_event_callback_register(NULL, device_event, NULL);

	return ret != 0 ? ret : rte_eth_dev_callback_register(RTE_ETH_ALL, RTE_ETH_EVENT_INTR_RMV,
			removal_event, NULL);
}

int weir_port_is_removed(uint16_t port)
{
	return __atomic_load_n(&removed[port], __ATOMIC_RELAXED);
}

static void vhost_unwatch(uint16_t port);

int weir_port_close(uint16_t port, int remove)
{
	struct rte_eth_dev_info info;
	int ret = rte_eth_dev_info_get(port, &info);
	struct rte_device *device = ret == 0 ? info.device : NULL;

	vhost_unwatch(port);
	weir_port_replay_end(port);
	/* ixgbe_dev_close and i40e_dev_close return how many interrupt callbacks they removed. */
	ret = RTE_MIN(rte_eth_dev_close(port), 0);
	if (!remove || device == NULL)
		return ret;
	if (rte_eth_find_next_of(0, device) < RTE_MAX_ETHPORTS)
		return ret;
	int removed = rte_dev_remove(device);
	return ret != 0 ? ret : removed;
}

int weir_port_info(uint16_t port, struct weir_port_info *out)
{
	struct rte_eth_dev_info info;

	memset(out, 0, sizeof(*out));
	int ret = rte_eth_dev_info_get(port, &info);
	if (ret != 0)
		return ret;
	rte_eth_dev_get_name_by_port(port, out->name);
	copy_name(out->driver, sizeof(out->driver), info.driver_name);
	if (info.device != NULL)
		copy_name(out->bus, sizeof(out->bus), rte_bus_name(rte_dev_bus(info.device)));
	out->max_rx_queues = info.max_rx_queues;
	out->max_tx_queues = info.max_tx_queues;
	out->max_rx_desc = info.rx_desc_lim.nb_max;
	out->min_rx_desc = info.rx_desc_lim.nb_min;
	out->max_tx_desc = info.tx_desc_lim.nb_max;
	out->min_tx_desc = info.tx_desc_lim.nb_min;
	out->max_mac_addrs = info.max_mac_addrs;
	out->if_index = info.if_index;
	out->speed_capa = info.speed_capa;
	out->max_rx_pktlen = info.max_rx_pktlen;
	out->min_rx_bufsize = info.min_rx_bufsize;
	out->min_mtu = info.min_mtu;
	out->max_mtu = info.max_mtu;
	return 0;
}

int weir_port_configure(uint16_t port, struct weir_port_conf *conf,
		struct rte_mempool *rx_pool, int *step)
{
	struct rte_eth_dev_info info;
	struct rte_eth_conf eth;
	int ret;

	*step = WEIR_STEP_INFO;
	ret = rte_eth_dev_info_get(port, &info);
	if (ret != 0)
		return ret;

	*step = WEIR_STEP_CONFIGURE;
	memset(&eth, 0, sizeof(eth));
	eth.rxmode.mtu = conf->mtu;
	/* Its files are there anyway; other drivers would arm interrupts of NICs. */
	eth.intr_conf.rxq = strcmp(info.driver_name, TAP_DRIVER) == 0;
	if (conf->rx_queues > 1 && info.flow_type_rss_offloads != 0) {
		eth.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		eth.rx_adv_conf.rss_conf.rss_hf = info.flow_type_rss_offloads
			& (RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP | RTE_ETH_RSS_TCP);
	}
	ret = rte_eth_dev_configure(port, conf->rx_queues, conf->tx_queues, &eth);
	if (ret != 0)
		return ret;

	*step = WEIR_STEP_DESCRIPTORS;
	ret = rte_eth_dev_adjust_nb_rx_tx_desc(port, &conf->rx_desc, &conf->tx_desc);
	if (ret != 0)
		return ret;

	int socket = rte_eth_dev_socket_id(port);
	*step = WEIR_STEP_RX_QUEUE;
	for (uint16_t queue = 0; queue < conf->rx_queues; queue++) {
		struct rte_eth_rxconf rx = info.default_rxconf;
		rx.offloads = 0;
		/* With one queue, frames that find no descriptor wait in the NIC's packet buffer, and `imissed` counts those that
		 * find that full (RXMPC, MPC). Dropped at the queue they would be counted where drivers do not look (igb, igc) or
		 * apart (ixgbe: q_errors). With several, one that is not polled would block the others. */
		rx.rx_drop_en = conf->rx_queues > 1;
		ret = rte_eth_rx_queue_setup(port, queue, conf->rx_desc, socket, &rx, rx_pool);
		if (ret == -EINVAL || ret == -ENOTSUP) {
			rx.rx_drop_en = info.default_rxconf.rx_drop_en;
			ret = rte_eth_rx_queue_setup(port, queue, conf->rx_desc, socket, &rx, rx_pool);
		}
		if (ret != 0)
			return ret;
	}

	*step = WEIR_STEP_TX_QUEUE;
	for (uint16_t queue = 0; queue < conf->tx_queues; queue++) {
		struct rte_eth_txconf tx = info.default_txconf;
		/* No MBUF_FAST_FREE: frames of several pools leave by one queue. */
		tx.offloads = 0;
		ret = rte_eth_tx_queue_setup(port, queue, conf->tx_desc, socket, &tx);
		if (ret != 0)
			return ret;
	}
	*step = WEIR_STEP_DONE;
	return 0;
}

/* Queues of vhost ports */

/* By port, written by vhost's own thread and read by any: the queue pairs that the
 * guest has enabled, one bit each. [0] are those that it receives from, [1] those
 * that it sends to. */
static uint64_t vhost_queues[RTE_MAX_ETHPORTS][2];

static int vhost_queue_event(uint16_t port, enum rte_eth_event_type type, void *arg, void *ret)
{
	struct rte_eth_vhost_queue_event event;

	(void)type;
	(void)arg;
	(void)ret;
	/* Several changes may come with one call. */
	while (rte_eth_vhost_get_queue_event(port, &event) == 0) {
		uint64_t bit = (uint64_t)1 << RTE_MIN(event.queue_id, WEIR_QUEUE_BEYOND);
		uint64_t *queues = &vhost_queues[port][event.rx ? 1 : 0];

		if (event.enable)
			__atomic_fetch_or(queues, bit, __ATOMIC_RELAXED);
		else
			__atomic_fetch_and(queues, ~bit, __ATOMIC_RELAXED);
	}
	return 0;
}

/* With the guest its queues go, and the driver tells no event of them. */
static int vhost_link_event(uint16_t port, enum rte_eth_event_type type, void *arg, void *ret)
{
	struct weir_link link;

	(void)type;
	(void)arg;
	(void)ret;
	if (weir_port_link(port, &link) == 0 && link.up)
		return 0;
	__atomic_store_n(&vhost_queues[port][0], 0, __ATOMIC_RELAXED);
	__atomic_store_n(&vhost_queues[port][1], 0, __ATOMIC_RELAXED);
	return 0;
}

int weir_vhost_watch(uint16_t port)
{
	vhost_queues[port][0] = 0;
	vhost_queues[port][1] = 0;
	int ret = rte_eth_dev_callback_register(port, RTE_ETH_EVENT_QUEUE_STATE,
			vhost_queue_event, NULL);
	return ret != 0 ? ret : rte_eth_dev_callback_register(port, RTE_ETH_EVENT_INTR_LSC,
			vhost_link_event, NULL);
}

static void vhost_unwatch(uint16_t port)
{
	rte_eth_dev_callback_unregister(port, RTE_ETH_EVENT_QUEUE_STATE, vhost_queue_event, NULL);
	rte_eth_dev_callback_unregister(port, RTE_ETH_EVENT_INTR_LSC, vhost_link_event, NULL);
}

uint64_t weir_vhost_queues(uint16_t port, int guest_sends)
{
	return __atomic_load_n(&vhost_queues[port][guest_sends != 0], __ATOMIC_RELAXED);
}

int weir_port_scatters(uint16_t port)
{
	struct rte_eth_rxq_info queue;

	memset(&queue, 0, sizeof(queue));
	return rte_eth_rx_queue_info_get(port, 0, &queue) == 0 && queue.scattered_rx != 0;
}

int weir_port_stats(uint16_t port, struct weir_port_stats *out)
{
	struct rte_eth_stats stats;

	memset(out, 0, sizeof(*out));
	int ret = rte_eth_stats_get(port, &stats);
	if (ret != 0)
		return ret;
	out->ipackets = stats.ipackets;
	out->opackets = stats.opackets;
	out->ibytes = stats.ibytes;
	out->obytes = stats.obytes;
	out->imissed = stats.imissed;
	out->ierrors = stats.ierrors;
	out->oerrors = stats.oerrors;
	out->rx_nombuf = stats.rx_nombuf;
	for (unsigned int queue = 0; queue < RTE_DIM(stats.q_errors); queue++)
		out->q_errors += stats.q_errors[queue];
	return 0;
}

int weir_port_link(uint16_t port, struct weir_link *out)
{
	struct rte_eth_link link;

	memset(&link, 0, sizeof(link));
	memset(out, 0, sizeof(*out));
	int ret = rte_eth_link_get_nowait(port, &link);
	if (ret != 0)
		return ret;
	out->up = link.link_status == RTE_ETH_LINK_UP;
	out->full_duplex = link.link_duplex == RTE_ETH_LINK_FULL_DUPLEX;
	out->speed_known = link.link_speed != RTE_ETH_SPEED_NUM_UNKNOWN
		&& link.link_speed != RTE_ETH_SPEED_NUM_NONE;
	out->speed_mbps = out->speed_known ? link.link_speed : 0;
	return 0;
}

int weir_port_mac(uint16_t port, uint8_t mac[6])
{
	struct rte_ether_addr addr;
	int ret = rte_eth_macaddr_get(port, &addr);

	if (ret == 0)
		memcpy(mac, addr.addr_bytes, 6);
	return ret;
}

int weir_port_set_mac(uint16_t port, const uint8_t mac[6])
{
	struct rte_ether_addr addr;

	memcpy(addr.addr_bytes, mac, 6);
	return rte_eth_dev_default_mac_addr_set(port, &addr);
}

int weir_port_xstats(uint16_t port, struct weir_xstat *out, unsigned int n)
{
	int count = rte_eth_xstats_get_names(port, NULL, 0);
	if (count <= 0 || n < (unsigned int)count)
		return count;

	struct rte_eth_xstat_name *names = calloc(count, sizeof(*names));
	struct rte_eth_xstat *values = calloc(count, sizeof(*values));
	int ret = -ENOMEM;
	if (names != NULL && values != NULL) {
		int named = rte_eth_xstats_get_names(port, names, count);
		ret = rte_eth_xstats_get(port, values, count);
		if (named != count || ret > count)
			ret = -EAGAIN;
		for (int i = 0; i < ret; i++) {
			if (values[i].id >= (uint64_t)count) {
				ret = -EIO;
				break;
			}
			memcpy(out[i].name, names[values[i].id].name, sizeof(out[i].name));
			out[i].name[sizeof(out[i].name) - 1] = '\0';
			out[i].value = values[i].value;
		}
	}
	free(names);
	free(values);
	return ret;
}

/* Flow control */

int weir_flow_control_get(uint16_t port, struct weir_flow_control *out)
{
	struct rte_eth_fc_conf conf;

	memset(&conf, 0, sizeof(conf));
	memset(out, 0, sizeof(*out));
	int ret = rte_eth_dev_flow_ctrl_get(port, &conf);
	if (ret != 0)
		return ret;
	out->mode = conf.mode;
	out->mac_ctrl_frame_fwd = conf.mac_ctrl_frame_fwd;
	out->autoneg = conf.autoneg;
	return 0;
}

int weir_flow_control_off(uint16_t port, int forward)
{
	struct rte_eth_fc_conf conf;

	/* Get, then modify: ixgbe refuses zeroed watermarks. */
	memset(&conf, 0, sizeof(conf));
	int ret = rte_eth_dev_flow_ctrl_get(port, &conf);
	if (ret != 0)
		return ret;
	uint8_t autoneg = conf.autoneg;
	conf.mode = RTE_ETH_FC_NONE;
	conf.autoneg = 0;
	conf.mac_ctrl_frame_fwd = forward != 0;
	ret = rte_eth_dev_flow_ctrl_set(port, &conf);
	if (ret == -ENOTSUP && autoneg != 0) {
		/* igb, em and igc take no other autoneg than they have; what they
		 * advertise follows the mode all the same. */
		conf.autoneg = autoneg;
		ret = rte_eth_dev_flow_ctrl_set(port, &conf);
	}
	return ret;
}

int weir_priority_flow_control_off(uint16_t port, uint8_t priority)
{
	struct rte_eth_pfc_conf conf;

	memset(&conf, 0, sizeof(conf));
	(void)rte_eth_dev_flow_ctrl_get(port, &conf.fc);
	conf.fc.mode = RTE_ETH_FC_NONE;
	conf.priority = priority;
	return rte_eth_dev_priority_flow_ctrl_set(port, &conf);
}

int weir_interrupt_register(int fd, weir_interrupt_fn fn, void *arg)
{
	struct rte_intr_handle *handle;
	int ret;

	/* In memory of the process, which is there still when DPDK's is gone. */
	handle = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
	if (handle == NULL)
		return -ENOMEM;
	if (rte_intr_fd_set(handle, fd) != 0 || rte_intr_type_set(handle, RTE_INTR_HANDLE_EXT) != 0) {
		rte_intr_instance_free(handle);
		return -EINVAL;
	}
	ret = rte_intr_callback_register(handle, fn, arg);
	if (ret < 0)
		rte_intr_instance_free(handle);
	return ret;
}
