/* What Rust sees of DPDK. Inline functions, macros, and structures that differ
 * between releases are wrapped here in plain C types; see lib.rs. */
#ifndef WEIR_SHIM_H
#define WEIR_SHIM_H

#include <stddef.h>
#include <stdint.h>

#include <rte_version.h>
#include <rte_config.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_interrupts.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_ring.h>
#include <rte_ethdev.h>
#include <rte_eth_ring.h>
#include <rte_pdump.h>

#if RTE_VERSION < RTE_VERSION_NUM(22, 11, 0, 0)
#error "DPDK 22.11 or newer is required"
#endif

enum {
	WEIR_MBUF_BUF_ADDR = offsetof(struct rte_mbuf, buf_addr),
	WEIR_MBUF_DATA_OFF = offsetof(struct rte_mbuf, data_off),
	WEIR_MBUF_REFCNT = offsetof(struct rte_mbuf, refcnt),
	WEIR_MBUF_NB_SEGS = offsetof(struct rte_mbuf, nb_segs),
	WEIR_MBUF_PKT_LEN = offsetof(struct rte_mbuf, pkt_len),
	WEIR_MBUF_DATA_LEN = offsetof(struct rte_mbuf, data_len),
	WEIR_MBUF_BUF_LEN = offsetof(struct rte_mbuf, buf_len),
	WEIR_MBUF_NEXT = offsetof(struct rte_mbuf, next),
	WEIR_MBUF_SIZE = sizeof(struct rte_mbuf),
	WEIR_PKTMBUF_HEADROOM = RTE_PKTMBUF_HEADROOM,
	WEIR_DEFAULT_DATA_ROOM = RTE_MBUF_DEFAULT_BUF_SIZE,
	WEIR_MAX_LCORE = RTE_MAX_LCORE,
	WEIR_MAX_PORTS = RTE_MAX_ETHPORTS,
	WEIR_MEMPOOL_CACHE_MAX = RTE_MEMPOOL_CACHE_MAX_SIZE,
	WEIR_MEMPOOL_NAME_SIZE = RTE_MEMPOOL_NAMESIZE,
	WEIR_RING_NAME_SIZE = RTE_RING_NAMESIZE,
	WEIR_PORT_NAME_SIZE = RTE_ETH_NAME_MAX_LEN,
	WEIR_XSTAT_NAME_SIZE = RTE_ETH_XSTATS_NAME_SIZE,
	/* The bit of all queue pairs that have none of their own. */
	WEIR_QUEUE_BEYOND = 63,
	WEIR_RING_EXACT_SPSC = RING_F_SP_ENQ | RING_F_SC_DEQ | RING_F_EXACT_SZ,
};

_Static_assert(sizeof(((struct rte_mbuf *)0)->data_off) == 2, "mbuf.data_off");
_Static_assert(sizeof(((struct rte_mbuf *)0)->refcnt) == 2, "mbuf.refcnt");
_Static_assert(sizeof(((struct rte_mbuf *)0)->nb_segs) == 2, "mbuf.nb_segs");
_Static_assert(sizeof(((struct rte_mbuf *)0)->pkt_len) == 4, "mbuf.pkt_len");
_Static_assert(sizeof(((struct rte_mbuf *)0)->data_len) == 2, "mbuf.data_len");
_Static_assert(sizeof(((struct rte_mbuf *)0)->buf_len) == 2, "mbuf.buf_len");

/** rte_errno of the calling thread. */
int weir_errno(void);
/** Time-stamp counter. */
uint64_t weir_rdtsc(void);

/** The only CPU of an lcore's set, or -1 where the set has none or several. */
int weir_lcore_cpu(unsigned int lcore);
/** 1 if the lcore has no function to run (an acquire load), else 0. */
int weir_lcore_is_idle(unsigned int lcore);

/** Whether devices reach memory by virtual addresses: 0 or 1. */
int weir_iova_is_virtual(void);

/* The most mbufs that an lcore pieces together of the store's rings, and that others do not find for that instant. */
#define WEIR_PIECED_MAX 64

/** A pktmbuf pool, or NULL and rte_errno. for_devices: whether devices that read
 * and write memory by themselves use it; then no mbuf crosses a page, and without
 * hugepages it is slower. */
struct rte_mempool *weir_mempool_create(const char *name, unsigned int count,
		unsigned int cache, uint16_t data_room, int socket, int for_devices);
/** Whether devices know where the pool's mbufs are: 0 or 1. */
int weir_mempool_is_for_devices(const struct rte_mempool *pool);
/** Bytes the pool's objects, ring and caches take. */
uint64_t weir_mempool_bytes(struct rte_mempool *pool);
/** Bytes that a pool of this size would take; if page is not 0, with no mbuf
 * across pages of that size. */
uint64_t weir_mempool_estimate(unsigned int count, uint16_t data_room, uint32_t page);

struct rte_mbuf *weir_mbuf_alloc(struct rte_mempool *pool);
/** All or nothing; 0 on success. */
int weir_mbuf_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **mbufs, unsigned int n);
/** Asks the CPU for the next n mbufs that this lcore takes: those of_others lie in another core's cache, the others in memory. */
void weir_mempool_fetch_ahead(struct rte_mempool *pool, unsigned int n, int of_others);
void weir_mbuf_free(struct rte_mbuf *m);
/** Start of the appended bytes in the last segment, or NULL. */
uint8_t *weir_mbuf_append(struct rte_mbuf *m, uint16_t len);
/** Start of the prepended bytes in the first segment, or NULL. */
uint8_t *weir_mbuf_prepend(struct rte_mbuf *m, uint16_t len);
/** Cuts from the end of the last segment; -1 where that is shorter. */
int weir_mbuf_trim(struct rte_mbuf *m, uint16_t len);
/** Moves all segments into the first; -1 and nothing changed where that has no room. */
int weir_mbuf_linearize(struct rte_mbuf *m);

uint16_t weir_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n);
uint16_t weir_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n);
/** A file that is readable while the queue has frames; negative where the driver has none. */
int weir_rx_fd(uint16_t port, uint16_t queue);
/** Descriptors in use, or -ENOTSUP (always before DPDK 24.03). */
int weir_tx_queue_count(uint16_t port, uint16_t queue);

unsigned int weir_ring_count(const struct rte_ring *ring);
/** Takes up to n from the ring, or adds them to it; returns how many. */
unsigned int weir_ring_dequeue(struct rte_ring *ring, struct rte_mbuf **mbufs, unsigned int n);
unsigned int weir_ring_enqueue(struct rte_ring *ring, struct rte_mbuf **mbufs, unsigned int n);

struct weir_port_info {
	char name[RTE_ETH_NAME_MAX_LEN];
	char driver[64];
	char bus[32];
	uint32_t max_rx_queues;
	uint32_t max_tx_queues;
	uint32_t max_rx_desc;
	uint32_t min_rx_desc;
	uint32_t max_tx_desc;
	uint32_t min_tx_desc;
	uint32_t max_mac_addrs;
	uint32_t if_index;
	uint32_t speed_capa;
	/** Largest frame, with FCS, and smallest receive buffer, in bytes. */
	uint32_t max_rx_pktlen;
	uint32_t min_rx_bufsize;
	uint16_t min_mtu;
	uint16_t max_mtu;
};

struct weir_port_conf {
	uint16_t rx_queues;
	uint16_t tx_queues;
	uint16_t rx_desc;
	uint16_t tx_desc;
	/** 0 leaves the driver's default. */
	uint16_t mtu;
};

/** The steps of weir_port_configure, so that an error can name one. */
enum weir_port_step {
	WEIR_STEP_DONE = 0,
	WEIR_STEP_INFO = 1,
	WEIR_STEP_CONFIGURE = 2,
	WEIR_STEP_DESCRIPTORS = 3,
	WEIR_STEP_RX_QUEUE = 4,
	WEIR_STEP_TX_QUEUE = 5,
};

struct weir_port_stats {
	uint64_t ipackets;
	uint64_t opackets;
	uint64_t ibytes;
	uint64_t obytes;
	uint64_t imissed;
	uint64_t ierrors;
	uint64_t oerrors;
	uint64_t rx_nombuf;
	/** Sum over queues. */
	uint64_t q_errors;
};

struct weir_link {
	uint32_t speed_mbps;
	uint8_t up;
	uint8_t full_duplex;
	uint8_t speed_known;
};

struct weir_flow_control {
	uint32_t mode;
	uint8_t mac_ctrl_frame_fwd;
	uint8_t autoneg;
};

struct weir_xstat {
	char name[RTE_ETH_XSTATS_NAME_SIZE];
	uint64_t value;
};

/** Probes the device; 0 and its first port, or a negative errno. A device that
 * EAL already has is found, not probed again: *attached tells which. */
int weir_port_attach(const char *devargs, uint16_t *port, int *attached);
/** Stops and closes the port; with `remove`, detaches the device too, unless
 * another port still belongs to it. 0 or a negative errno. */
int weir_port_close(uint16_t port, int remove);

/* Notes from now on which devices are taken away. Once a process. */
int weir_removals_watch(void);
/* Whether a port's device was: the kernel asks for it (vfio's request interrupt), or its driver says that it is gone. */
int weir_port_is_removed(uint16_t port);
int weir_port_info(uint16_t port, struct weir_port_info *info);
/** Configures the port and all its queues. `conf` comes back with the
 * descriptor counts chosen. Returns 0 or a negative errno with *step set. */
int weir_port_configure(uint16_t port, struct weir_port_conf *conf,
		struct rte_mempool *rx_pool, int *step);
/** A frame that a port repeats: its first line of 64 bytes, and its length without FCS. */
struct weir_replay_frame {
	uint32_t line;
	uint16_t length;
	/** RTE_PTYPE_*, as a NIC reports it; filled in by weir_port_replay. */
	uint16_t packet_type;
};

/** Has the port receive copies of these frames for ever, in turn, as many as are asked for, once it is started; each starts a line of
 * 64 bytes. Without frames the device receives. If it discards, sent frames are freed without the device, and PAUSE among them holds up
 * the frames. Once a port, which keeps copies until it is closed. 0 or a negative errno. */
int weir_port_replay(uint16_t port, struct rte_mempool *pool, const uint8_t *lines, size_t lines_bytes,
		const struct weir_replay_frame *frames, uint32_t count, int discards);
/** To be called after each start of the port, before it is polled; of no effect on other ports. */
void weir_port_replay_start(uint16_t port);
/** Frames discarded so far, which the device does not count. */
uint64_t weir_port_replay_sent(uint16_t port);
/** Forgets the frames of a stopped port. */
void weir_port_replay_end(uint16_t port);
/** Whether a started port may receive a frame in several mbufs: 0 or 1; 0 too
 * where its driver does not say, as such drivers use all of an mbuf. */
int weir_port_scatters(uint16_t port);
int weir_port_stats(uint16_t port, struct weir_port_stats *stats);
int weir_port_link(uint16_t port, struct weir_link *link);
int weir_port_mac(uint16_t port, uint8_t mac[6]);
int weir_port_set_mac(uint16_t port, const uint8_t mac[6]);
/** Fills up to n entries; returns how many there are, or a negative errno. */
int weir_port_xstats(uint16_t port, struct weir_xstat *xstats, unsigned int n);

/** Keeps account of the queues that a vhost port's guest enables, from before
 * the port is configured until it is closed. 0 or a negative errno. */
int weir_vhost_watch(uint16_t port);
/** The queue pairs, one bit each, that the guest of a watched port sends to
 * (`guest_sends`), or receives from. 0 for other ports. */
uint64_t weir_vhost_queues(uint16_t port, int guest_sends);

int weir_flow_control_get(uint16_t port, struct weir_flow_control *out);
/** Reads the settings, then writes them back with mode NONE, no
 * autonegotiation, and MAC control frames forwarded to the host if `forward`. */
int weir_flow_control_off(uint16_t port, int forward);
/** Priority flow control off for one priority. */
int weir_priority_flow_control_off(uint16_t port, uint8_t priority);

/** Has the interrupt thread call `fn(arg)` whenever `fd` can be read, for
 * good. 0 or a negative errno. */
typedef void (*weir_interrupt_fn)(void *arg);
int weir_interrupt_register(int fd, weir_interrupt_fn fn, void *arg);

#endif
