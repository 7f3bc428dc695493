/*
 * Emulated Intel NICs below DPDK's unchanged drivers, for tests.
 *
 * The library is preloaded into a program that uses DPDK. It answers DPDK's requests to vfio-pci in place of Linux: a container
 * (an IOMMU), groups, devices, register memory and interrupts. EAL, the PCI bus and the driver of the NIC are DPDK's own and
 * unchanged, and so is the program. The interface is Linux's, and no structure of DPDK's is used: DPDK's version does not matter. A
 * folder that is mounted over /sys/bus/pci/devices names the devices (lab/weirlab/emulated_nic.py makes it).
 *
 *   vfio.c         open, ioctl, mmap, pread, pwrite, close and stat of vfio, and the IOMMU
 *   trap.c         register accesses: the memory of a BAR can't be read or written, and each access is decoded and carried out
 *   ixgbe.c        registers of the 82599 (net_ixgbe); sfp.c: its SFP+ module and its NVM
 *   e1000.c        registers of the 82576 (net_e1000_igb) and of the I225 (net_igc)
 *   filter.c       lengths, and filters by type, address and VLAN
 *   rss.c          the hash that chooses a receive queue
 *   receive.c      frames that a NIC accepts, to the packet buffer, and from there to descriptors
 *   transmit.c     transmit descriptors to the transmit packet buffer, and from there to the cable
 *   cable.c        another port of this process, or a tap device
 *   control.c      the file of the set-up, a socket for commands, counters as JSON, events
 *
 * The file that EMULATED_NICS names has lines of these kinds:
 *
 *   nic ADDRESS 82599|82576|i225 peer ADDRESS | tap NAME      options: paced, rate BITS_PER_S, held, down, speed MBIT_PER_S
 *   control PATH      unix socket (SOCK_STREAM); a line is a command, a line of JSON the answer
 *   counters PATH     gets the counters at exit
 *   events PATH       gets a line of JSON for each event
 *
 * Commands: counters | ADDRESS up | down | speed MBIT_PER_S | hold | release [FRAMES] | stop-descriptors | resume-descriptors |
 * request-removal | remove. Between stop-descriptors and resume-descriptors the NIC has no receive descriptors but those that it had
 * before, as if the program did not poll.
 * EMULATED_NIC_MUTANT makes the model wrong on purpose, to test tests: pmcf-ignored, drop-en-inverted, one-kib-less.
 *
 * Sources: the drivers of DPDK 22.11.11 (drivers/net/ixgbe, e1000, igc), Linux's drivers, and the datasheets of the 82599 and 82576, whose
 * rules are named by their registers. Nothing here was compared with silicon. Not modelled: checksum, TSO, RSC, header split, VLAN
 * stripping and insertion, flow director, VFs, Rx queue interrupts, MACsec, timestamps, the time that DMA takes, the weights of traffic
 * classes, and the granularity in which packet buffers hold frames.
 *
 * Counters, by port: rx_wire_frames came by the cable, and rx_frames of them went to descriptors, rx_control_frames among these being MAC
 * control frames. The others: rx_link_down, rx_disabled, rx_too_long (ROC), rx_too_short (RUC), rx_control_filtered, rx_not_accepted (address or
 * VLAN), rx_buffer_full (RXMPC, MPC), rx_no_descriptor (QPRDC, RQDPC). rx_pauses_obeyed: messages that the NIC would have obeyed itself.
 * tx_frames left, tx_control_frames of them MAC control frames, with the most frames and bytes that left ahead of one after it had been
 * posted. tx_damaged: PAYLEN is not the sum of the lengths. tx_unsupported: an offload that is not modelled. dma_faults: accesses that the
 * IOMMU stopped. Lists are by queue.
 */
#ifndef EMULATED_NIC_H
#define EMULATED_NIC_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Register memory (BAR 0). */
#define BAR_BYTES 0x20000u
#define MAX_NICS 8
#define MAX_QUEUES 128
#define MSIX_VECTORS 64u
/* The longest frame without FCS: 15.5 KB on an 82599. */
#define MAX_FRAME 16384u
#define MIN_FRAME 60u
#define FCS_BYTES 4u
#define ETHER_HEADER 14u
#define TAG_BYTES 4u
/* The longest frame, with FCS, unless longer ones are switched on. */
#define LONGEST_ORDINARY 1518u
#define MAC_CONTROL_TYPE 0x8808
#define PAUSE_OPCODE 0x0001

enum mutant { MUTANT_NONE, MUTANT_PMCF_IGNORED, MUTANT_DROP_EN_INVERTED, MUTANT_ONE_KIB_LESS };
extern enum mutant mutant;

struct nic;

/* Frames in the order of their arrival, at most `limit` bytes of them. */
struct frame_store {
	uint8_t *memory;
	uint32_t capacity, head, tail, used;
};

/* A stored frame's length and place; its bytes follow. */
struct frame_note {
	uint32_t length;
	uint16_t queue, traffic_class;
	bool damaged, control;
	/* Frames and bytes that had been sent when the descriptor of a MAC control frame was posted. */
	uint64_t posted_ns, frames_before, bytes_before;
};

/* Frames by what happened to them; read from any thread. */
struct counters {
	_Atomic uint64_t rx_wire_frames, rx_wire_bytes, rx_link_down, rx_disabled, rx_too_long, rx_too_short, rx_control_filtered,
		rx_pauses_obeyed, rx_not_accepted, rx_buffer_full, rx_no_descriptor, rx_frames, rx_bytes, rx_control_frames,
		tx_frames, tx_bytes, tx_damaged, tx_unsupported, tx_control_frames, tx_cable_refused, tx_control_frames_ahead_max,
		tx_control_bytes_ahead_max, dma_faults, register_accesses;
	_Atomic uint64_t rx_queue_frames[MAX_QUEUES], rx_queue_no_descriptor[MAX_QUEUES], tx_queue_frames[MAX_QUEUES],
		tx_queue_bytes[MAX_QUEUES];
};

/* Receive filters as registers set them. The tables are offsets of registers. */
struct filters {
	bool all_unicast, all_multicast, broadcast, multicast_table, vlan;
	uint16_t vlan_type;
	uint32_t addresses, address_count, vlan_table;
};

/* A kind of NIC: questions that the rest of the model asks of its registers. */
struct chip {
	const char *name;
	uint16_t vendor, device;
	unsigned int rx_queues, tx_queues, speed_mbps;
	/* Its NVM and PHY. */
	void (*power_on)(struct nic *);
	uint32_t (*read)(struct nic *, uint32_t offset);
	void (*write)(struct nic *, uint32_t offset, uint32_t value);
	/* Registers as after power-on. With both locks, and all registers 0. */
	void (*reset)(struct nic *);
	void (*link_changed)(struct nic *);
	/* Where the registers of a queue begin: base address low and high, length, head (+0x10), tail (+0x18), control (+0x28). */
	uint32_t (*rx_block)(unsigned int queue);
	uint32_t (*tx_block)(unsigned int queue);
	bool (*rx_enabled)(struct nic *);
	bool (*tx_enabled)(struct nic *);
	/* Bytes of the longest frame of this type that is received, with FCS. */
	uint32_t (*longest)(struct nic *, const uint8_t *frame);
	/* Whether a MAC control frame reaches software. */
	bool (*passes_control)(struct nic *, const uint8_t *frame);
	struct filters (*filters)(struct nic *);
	/* Whether a frame passes the MAC and the filters. Counts those that do not. */
	bool (*accepts)(struct nic *, const uint8_t *frame, uint32_t length);
	unsigned int (*rx_queue)(struct nic *, const uint8_t *frame, uint32_t length);
	uint32_t (*rx_packet_buffer)(struct nic *);
	uint32_t (*rx_buffer)(struct nic *, unsigned int queue);
	bool (*drops_without_descriptor)(struct nic *, unsigned int queue);
	/* Bytes that the transmit packet buffer of a traffic class holds. */
	uint32_t (*tx_packet_buffer)(struct nic *, unsigned int traffic_class);
	unsigned int (*traffic_class)(struct nic *, unsigned int queue);
	/* Whether a class is served before all lower ones. */
	bool (*strict)(struct nic *, unsigned int traffic_class);
	void (*count_received)(struct nic *, unsigned int queue, const uint8_t *frame, uint32_t length);
	void (*count_no_descriptor)(struct nic *, unsigned int queue);
	void (*count_buffer_full)(struct nic *);
	void (*count_sent)(struct nic *, unsigned int queue, const uint8_t *frame, uint32_t length);
};

extern const struct chip chip_82599, chip_82576, chip_i225;

#define MAX_CLASSES 8
#define MAX_POSTED 1024

/* A MAC control frame in a transmit ring. */
struct posted_control {
	uint32_t descriptor;
	uint64_t ns, frames, bytes;
};

struct tx_queue {
	struct posted_control posted[MAX_POSTED];
	unsigned int posted_head, posted_tail;
	/* Up to where the ring has been searched for MAC control frames. */
	uint32_t searched;
};

/* One bit at a time to the SFP+ module (I2CCTL). */
struct i2c {
	enum { I2C_IDLE, I2C_DEVICE, I2C_ADDRESS, I2C_WRITE, I2C_READ } state;
	bool clock, data, out;
	uint8_t shift, address;
	unsigned int bits;
};

struct nic {
	char address[16];
	unsigned int index;
	const struct chip *chip;
	uint8_t mac[6];

	/* vfio */
	uint8_t config[256];
	int interrupts[MSIX_VECTORS];
	int removal_request;
	_Atomic(uint8_t *) bar;
	/* State of its IOMMU group. */
	bool is_open, in_container;
	atomic_bool removed, removal_requested;

	/* Registers, by offset / 4. */
	_Atomic uint32_t *registers;
	uint16_t nvm[4096];
	uint16_t phy[32];
	struct i2c i2c;

	atomic_bool link_up;
	_Atomic uint32_t speed_mbps;

	/* Receive; never takes the lock of transmit. */
	pthread_mutex_t rx_lock;
	struct frame_store rx_store;
	uint8_t *rx_frame;
	bool rx_stopped;
	uint32_t stopped_tail[MAX_QUEUES];

	/* Transmit */
	pthread_mutex_t tx_lock;
	pthread_cond_t tx_work;
	pthread_t tx_thread;
	struct tx_queue *tx;
	struct frame_store tx_store[MAX_CLASSES];
	unsigned int next_queue[MAX_CLASSES], next_class;
	uint8_t *tx_frame;
	uint64_t wire_free_ns;
	/* A thread sends: the cable takes time, or holds frames. */
	bool has_thread, paced, held;
	uint64_t rate_bps, may_pass;

	/* Cable: one of the two. */
	char peer_address[16], tap_name[16];
	struct nic *peer;
	int tap;
	pthread_t tap_thread;

	struct counters counters;
};

extern struct nic *nics[MAX_NICS];
extern unsigned int nic_count;

/* control.c */
struct nic *nic_at(const char *address);
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
void event(const char *format, ...) __attribute__((format(printf, 1, 2)));
void nic_reset(struct nic *nic);
/* Starts cables and the command socket, once: when the first device is opened. */
void start_all(void);
uint64_t now_ns(void);

/* vfio.c */
/* The memory at an address of the device's; NULL and a DMA fault where the IOMMU has no such range. */
void *dma(struct nic *nic, uint64_t iova, size_t length);
void interrupt(struct nic *nic, unsigned int vector);
void request_removal(struct nic *nic);
void real_close(int fd);

/* trap.c */
void trap_install(void);

/* filter.c */
/* Sets an entry of the address table. */
void set_address(struct nic *nic, uint32_t offset, const uint8_t *address);
/* Whether a frame passes lengths and filters. Counts those that do not. */
bool passes_mac(struct nic *nic, const uint8_t *frame, uint32_t length);

/* receive.c */
/* A frame without FCS from the cable. */
void receive(struct nic *nic, const uint8_t *frame, uint32_t length);
/* Descriptors were added, or a queue was enabled. */
void receive_pending(struct nic *nic);
/* The tails of receive queues stay where they are, until they are not stopped any more. */
void receive_stop_tails(struct nic *nic, bool stopped);
/* With the lock of receive. */
void receive_reset(struct nic *nic);

/* transmit.c */
void transmit_init(struct nic *nic);
/* A tail was written, or the link or the cable changed. With the lock of transmit. */
void transmit_work(struct nic *nic, unsigned int queue);
void transmit_again(struct nic *nic);
/* With the lock of transmit. */
void transmit_reset(struct nic *nic);

/* cable.c */
void cable_open(struct nic *nic);
/* False where the cable does not take it. */
bool cable_send(struct nic *nic, const uint8_t *frame, uint32_t length);

/* rss.c */
#define MRQC 0x05818
/* The queue by the hash of a frame's addresses and ports; 0 of a frame that has none. */
unsigned int rss_queue(struct nic *nic, const uint8_t *frame, uint32_t length);

/* sfp.c */
void nvm_init_82599(struct nic *nic);
void i2c_write(struct nic *nic, uint32_t value);
uint32_t i2c_read(struct nic *nic);

static inline uint32_t reg(struct nic *nic, uint32_t offset)
{
	return atomic_load_explicit(&nic->registers[offset / 4], memory_order_relaxed);
}

static inline void set_reg(struct nic *nic, uint32_t offset, uint32_t value)
{
	atomic_store_explicit(&nic->registers[offset / 4], value, memory_order_relaxed);
}

static inline void add_reg(struct nic *nic, uint32_t offset, uint32_t value)
{
	atomic_fetch_add_explicit(&nic->registers[offset / 4], value, memory_order_relaxed);
}

static inline uint32_t take_reg(struct nic *nic, uint32_t offset)
{
	return atomic_exchange_explicit(&nic->registers[offset / 4], 0, memory_order_relaxed);
}

/* Adds to a counter of two registers, the upper 32 bits behind the lower ones. */
static inline void add_octets(struct nic *nic, uint32_t low, uint32_t high, uint32_t value)
{
	uint32_t before = atomic_fetch_add_explicit(&nic->registers[low / 4], value, memory_order_relaxed);
	if (before + value < before)
		add_reg(nic, high, 1);
}

static inline void count(_Atomic uint64_t *counter, uint64_t by)
{
	atomic_fetch_add_explicit(counter, by, memory_order_relaxed);
}

static inline void count_max(_Atomic uint64_t *counter, uint64_t value)
{
	if (atomic_load_explicit(counter, memory_order_relaxed) < value)
		atomic_store_explicit(counter, value, memory_order_relaxed);
}

static inline uint16_t ether_type(const uint8_t *frame)
{
	return (uint16_t)(frame[12] << 8 | frame[13]);
}

/* Offsets in the block of a queue, the same for all these NICs. */
enum { RING_LOW = 0x00, RING_HIGH = 0x04, RING_LENGTH = 0x08, RING_HEAD = 0x10, RING_TAIL = 0x18, RING_CONTROL = 0x28 };
#define RING_ENABLE (1u << 25)
#define DESCRIPTOR_BYTES 16u

static inline uint64_t ring_address(struct nic *nic, uint32_t block)
{
	return reg(nic, block + RING_LOW) | (uint64_t)reg(nic, block + RING_HIGH) << 32;
}

static inline uint32_t ring_size(struct nic *nic, uint32_t block)
{
	return reg(nic, block + RING_LENGTH) / DESCRIPTOR_BYTES;
}

/* Frame stores, in receive.c. */
void store_init(struct frame_store *store, uint32_t capacity);
bool store_put(struct frame_store *store, const struct frame_note *note, const uint8_t *frame, uint32_t limit);
bool store_peek(struct frame_store *store, struct frame_note *note, uint8_t *frame);
void store_drop(struct frame_store *store);

#endif
