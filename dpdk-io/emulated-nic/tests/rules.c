/*
 * The rules of the emulated 82599, by registers, descriptors and frames alone: two NICs that are cabled to each other, without DPDK.
 * The set-up has two NICs; what leaves the first is held, until it is released.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/pci_regs.h>
#include <linux/vfio.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../nic.h"

/* The addresses that the NICs see are not the program's. */
#define IOVA 0x7000000000ull
#define ARENA (8u << 20)
#define RING 512u
#define RX_DATA (1u << 20)
#define TX_DATA (4u << 20)

/* Registers of the 82599. */
enum {
	CTRL_EXT = 0x18, EICR = 0x800, EIMS = 0x880, RX = 0x1000, SRRCTL = 0x2100, RXCTRL = 0x3000, QPRC = 0x1030, QPRDC = 0x1430,
	RXPBSIZE = 0x3C00, RXMPC = 0x3FA0, GPRC = 0x4074, GORCL = 0x4088, ROC = 0x40AC, HLREG0 = 0x4240, MAXFRS = 0x4268, MFLCN = 0x4294,
	LINKS = 0x42A4, DMATXCTL = 0x4A80, FCTRL = 0x5080, TX = 0x6000, MTQC = 0x8120, TXPBSIZE = 0xCC00, RTTPT2C = 0xCD20,
};

#define CHECK(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
			exit(1); \
		} \
	} while (0)

static uint8_t *arena;
static volatile uint8_t *bars[2];
static int device_fds[2], bell;
static struct nic *a, *b;

static uint32_t get(int nic, uint32_t offset)
{
	return *(volatile uint32_t *)(bars[nic] + offset);
}

static void put(int nic, uint32_t offset, uint32_t value)
{
	*(volatile uint32_t *)(bars[nic] + offset) = value;
}

static void attach(int number, int container, const char *address)
{
	char path[64];
	uint16_t command = PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER;

	snprintf(path, sizeof(path), "/dev/vfio/%d", 100 + number);
	int group = open(path, O_RDWR);
	CHECK(group >= 0 && open(path, O_RDWR) < 0);
	CHECK(ioctl(group, VFIO_GROUP_SET_CONTAINER, &container) == 0);
	if (number == 0) {
		struct vfio_iommu_type1_dma_map map = { .argsz = sizeof(map), .vaddr = (uintptr_t)arena, .iova = IOVA, .size = ARENA };
		CHECK(ioctl(container, VFIO_SET_IOMMU, VFIO_TYPE1_IOMMU) == 0);
		CHECK(ioctl(container, VFIO_IOMMU_MAP_DMA, &map) == 0);
	}
	int device = device_fds[number] = ioctl(group, VFIO_GROUP_GET_DEVICE_FD, address);
	CHECK(device >= 0);
	CHECK(pwrite(device, &command, sizeof(command), ((off_t)VFIO_PCI_CONFIG_REGION_INDEX << 40) + PCI_COMMAND) == sizeof(command));
	bars[number] = mmap(NULL, BAR_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, device, 0);
	CHECK(bars[number] != MAP_FAILED);
}

/* Both as after a reset, a transmit queue of the first and a receive queue of the second with buffers of so many KiB. */
static void begin(uint32_t kib)
{
	struct {
		struct vfio_irq_set set;
		int fd;
	} irq = { { sizeof(irq), VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER, VFIO_PCI_MSIX_IRQ_INDEX, 0, 1 }, bell };

	for (int i = 0; i < 2; i++)
		CHECK(ioctl(device_fds[i], VFIO_DEVICE_RESET) == 0);
	CHECK(ioctl(device_fds[1], VFIO_DEVICE_SET_IRQS, &irq) == 0);
	memset(arena, 0, ARENA);
	memset(&a->counters, 0, sizeof(a->counters));
	memset(&b->counters, 0, sizeof(b->counters));
	put(1, FCTRL, 0x700);
	put(1, HLREG0, 0x6);
	put(1, MAXFRS, 9018u << 16);
	put(1, RX, (uint32_t)IOVA);
	put(1, RX + RING_HIGH, IOVA >> 32);
	put(1, RX + RING_LENGTH, RING * DESCRIPTOR_BYTES);
	put(1, SRRCTL, 1u << 25 | kib);
	put(1, RX + RING_CONTROL, RING_ENABLE);
	put(1, RXCTRL, 1);
	for (uint32_t i = 0; i < RING; i++)
		*(uint64_t *)(arena + 16 * i) = IOVA + RX_DATA + 4096 * i;
	put(0, DMATXCTL, 1);
}

/* The ring of a transmit queue has its own page. */
static uint8_t *tx_ring(unsigned int queue)
{
	return arena + (1 + queue % 32) * 16384;
}

static void open_queue(unsigned int queue)
{
	uint32_t block = TX + 0x40 * queue;
	put(0, block, (uint32_t)(IOVA + (uint64_t)(tx_ring(queue) - arena)));
	put(0, block + RING_HIGH, IOVA >> 32);
	put(0, block + RING_LENGTH, RING * DESCRIPTOR_BYTES);
	put(0, block + RING_CONTROL, RING_ENABLE);
}

/* Posts a descriptor with so many bytes of a frame, which has `payload` bytes, and rings the bell with its last. */
static void post(unsigned int queue, const uint8_t *data, uint32_t bytes, uint32_t payload, bool is_last)
{
	static uint32_t used;
	uint32_t block = TX + 0x40 * queue, tail = get(0, block + RING_TAIL);
	uint64_t *descriptor = (uint64_t *)(tx_ring(queue) + DESCRIPTOR_BYTES * tail);

	used = (used + 16384) % (2u << 20);
	memcpy(arena + TX_DATA + used, data, bytes);
	descriptor[0] = IOVA + TX_DATA + used;
	descriptor[1] = bytes | 3u << 20 | 1u << 29 | 1u << 27 | (is_last ? 1u << 24 : 0) | (uint64_t)payload << 46;
	put(0, block + RING_TAIL, (tail + 1) % RING);
}

static uint8_t *frame_of(uint32_t length, uint16_t type, uint16_t next)
{
	static uint8_t frame[MAX_FRAME];
	for (uint32_t i = 0; i < length; i++)
		frame[i] = (uint8_t)(i * 7);
	memset(frame, 0x02, 12);
	frame[12] = (uint8_t)(type >> 8), frame[13] = (uint8_t)type, frame[14] = (uint8_t)(next >> 8), frame[15] = (uint8_t)next;
	return frame;
}

/* A frame of the second NIC's cable. */
static void arrive(uint32_t length, uint16_t type, uint16_t next)
{
	receive(b, frame_of(length, type, next), length);
}

static uint64_t written_back(uint32_t descriptor)
{
	return *(uint64_t *)(arena + 16 * descriptor + 8);
}

static void wait_for(const _Atomic uint64_t *counter, uint64_t value)
{
	for (int i = 0; i < 2000 && atomic_load(counter) != value; i++)
		poll(NULL, 0, 1);
	CHECK(atomic_load(counter) == value);
}

static void release(uint64_t frames)
{
	pthread_mutex_lock(&a->tx_lock);
	a->may_pass += frames;
	transmit_again(a);
	pthread_mutex_unlock(&a->tx_lock);
}

static void frames_over_descriptors(void)
{
	begin(1);
	put(1, RX + RING_TAIL, RING - 1);
	open_queue(0);
	const uint8_t *frame = frame_of(2500, 0x0800, 0);
	post(0, frame, 1000, 2500, false);
	post(0, frame + 1000, 1500, 2500, true);
	release(1);
	wait_for(&b->counters.rx_frames, 1);
	CHECK(written_back(0) == (1024ull << 32 | 1) && written_back(1) == (1024ull << 32 | 1) && written_back(2) == (452ull << 32 | 3));
	for (uint32_t i = 0; i < 2500; i++)
		CHECK(arena[RX_DATA + i / 1024 * 4096 + i % 1024] == frame[i]);
	CHECK(get(1, RX + RING_HEAD) == 3 && get(0, TX + RING_HEAD) == 2);
	CHECK(*(uint32_t *)(tx_ring(0) + 12) & 1 && *(uint32_t *)(tx_ring(0) + 28) & 1);
	CHECK(get(1, QPRC) == 1 && get(1, QPRC) == 0 && get(1, GPRC) == 1 && get(1, GORCL) == 2500 && get(1, GORCL) == 0);
	CHECK(a->counters.tx_damaged == 0 && b->counters.dma_faults == 0);
}

static void a_descriptor_whose_lengths_disagree(void)
{
	begin(4);
	put(1, RX + RING_TAIL, RING - 1);
	open_queue(0);
	post(0, frame_of(4096, 0x0800, 0), 4096, 4214, true);
	release(1);
	wait_for(&b->counters.rx_frames, 1);
	CHECK(a->counters.tx_damaged == 1 && b->counters.rx_bytes == 4096);
}

static void addresses_without_a_mapping(void)
{
	begin(2);
	put(1, RX + RING_TAIL, RING - 1);
	*(uint64_t *)arena = IOVA + ARENA;
	arrive(100, 0x0800, 0);
	CHECK(b->counters.dma_faults == 1);
}

/* The number that a test frame has in its first byte after the header. */
static void check_order(const uint8_t *numbers, uint32_t count)
{
	wait_for(&b->counters.rx_frames, count);
	for (uint32_t i = 0; i < count; i++)
		CHECK(arena[RX_DATA + 4096 * i + 14] == numbers[i]);
}

static void queues_in_turn_and_what_was_fetched(void)
{
	begin(2);
	put(1, MFLCN, 1);
	put(1, RX + RING_TAIL, RING - 1);
	open_queue(0);
	open_queue(9);
	put(0, DMATXCTL, 0);
	for (uint8_t i = 0; i < 3; i++) {
		post(0, frame_of(100, 0x0800, (uint16_t)(i << 8)), 100, 100, true);
		post(9, frame_of(100, 0x0800, (uint16_t)((16 + i) << 8)), 100, 100, true);
	}
	CHECK(get(0, TX + RING_HEAD) == 0);
	put(0, DMATXCTL, 1);
	/* All is fetched before the cable takes any. */
	CHECK(get(0, TX + RING_HEAD) == 3 && b->counters.rx_frames == 0);
	post(0, frame_of(100, 0x0800, 3 << 8), 100, 100, true);
	post(9, frame_of(60, 0x8808, 0x0101), 60, 60, true);
	release(8);
	check_order((const uint8_t[]){ 0, 16, 1, 17, 2, 18, 3, 1 }, 8);
	CHECK(a->counters.tx_control_frames_ahead_max == 7 && a->counters.tx_control_bytes_ahead_max == 700);
	CHECK(a->counters.tx_queue_frames[0] == 4 && a->counters.tx_queue_frames[9] == 4);
}

static void a_buffer_that_is_full(void)
{
	begin(2);
	put(1, RX + RING_TAIL, RING - 1);
	open_queue(0);
	for (uint32_t i = 0; i < 120; i++)
		post(0, frame_of(1500, 0x0800, 0), 1500, 1500, true);
	/* 160 KB hold 108 frames of 1,504 B. */
	CHECK(get(0, TX + RING_HEAD) == 108);
	release(120);
	wait_for(&b->counters.rx_frames, 120);
}

static void classes_with_strict_priority(void)
{
	begin(2);
	put(1, RX + RING_TAIL, RING - 1);
	put(1, MFLCN, 1);
	/* Four classes; queue 112 is the first of the last. */
	put(0, MTQC, 0x9);
	for (uint32_t class = 0; class < 4; class++)
		put(0, TXPBSIZE + 4 * class, 40u << 10);
	put(0, RTTPT2C + 4 * 3, 1u << 31);
	open_queue(0);
	open_queue(112);
	for (uint8_t i = 0; i < 3; i++)
		post(0, frame_of(100, 0x0800, (uint16_t)(i << 8)), 100, 100, true);
	post(112, frame_of(60, 0x8808, 0x0101), 60, 60, true);
	release(4);
	check_order((const uint8_t[]){ 1, 0, 1, 2 }, 4);
	CHECK(a->counters.tx_control_frames_ahead_max == 0);
}

static void the_longest_frame(void)
{
	const struct {
		uint32_t hlreg0, maxfrs, ctrl_ext;
		uint16_t type;
		uint32_t longest;
	} cases[] = {
		{ 0x2, 9018, 0, 0x0800, 1514 },
		{ 0x2, 9018, 0, 0x8100, 1518 },
		{ 0x6, 9018, 0, 0x0800, 9014 },
		{ 0x6, 9018, 0, 0x8100, 9018 },
		{ 0x6, 9018, 0, 0x88A8, 9014 },
		{ 0x6, 9018, 1u << 26, 0x88A8, 9022 },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		begin(16);
		put(1, RX + RING_TAIL, RING - 1);
		put(1, HLREG0, cases[i].hlreg0);
		put(1, MAXFRS, cases[i].maxfrs << 16);
		put(1, CTRL_EXT, cases[i].ctrl_ext);
		arrive(cases[i].longest, cases[i].type, 0x8100);
		CHECK(b->counters.rx_frames == 1 && get(1, ROC) == 0);
		arrive(cases[i].longest + 1, cases[i].type, 0x8100);
		CHECK(b->counters.rx_frames == 1 && b->counters.rx_too_long == 1 && get(1, ROC) == 1 && get(1, ROC) == 0);
	}
}

static void mac_control_frames(void)
{
	enum { PMCF = 1, DPF = 2, RPFCE = 4, RFCE = 8 };
	const struct {
		uint32_t mflcn;
		bool pause, pfc;
	} cases[] = {
		{ 0, false, false }, { PMCF, true, true }, { PMCF | DPF, true, true }, { PMCF | DPF | RFCE, false, true },
		{ PMCF | DPF | RPFCE, true, false }, { DPF | RFCE, false, false }, { RFCE, true, false }, { RPFCE, false, true },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		begin(2);
		put(1, RX + RING_TAIL, RING - 1);
		put(1, MFLCN, cases[i].mflcn);
		arrive(60, 0x8808, 0x0001);
		CHECK(b->counters.rx_control_frames == cases[i].pause && b->counters.rx_control_filtered == !cases[i].pause);
		arrive(60, 0x8808, 0x0101);
		CHECK(b->counters.rx_control_frames == (uint64_t)cases[i].pause + cases[i].pfc);
	}
}

static void frames_without_a_descriptor(void)
{
	/* Three descriptors, Drop_En: what finds none is dropped at its queue. */
	begin(2);
	put(1, SRRCTL, 1u << 25 | 1u << 28 | 2);
	put(1, RX + RING_TAIL, 3);
	for (int i = 0; i < 5; i++)
		arrive(1000, 0x0800, 0);
	CHECK(b->counters.rx_frames == 3 && b->counters.rx_no_descriptor == 2 && get(1, QPRDC) == 2 && get(1, RXMPC) == 0);

	/* Without it they wait in the packet buffer, here of 4 KiB, and those that find that full are lost. */
	begin(2);
	put(1, RXPBSIZE, 4096);
	put(1, RX + RING_TAIL, 3);
	for (int i = 0; i < 9; i++)
		arrive(1000, 0x0800, 0);
	CHECK(b->counters.rx_frames == 3 && b->counters.rx_buffer_full == 2 && get(1, RXMPC) == 2 && get(1, QPRDC) == 0);
	put(1, RX + RING_TAIL, RING - 1);
	CHECK(b->counters.rx_frames == 7 && b->rx_store.used == 0);
}

static void links_and_their_interrupt(void)
{
	uint64_t rung;

	begin(2);
	put(1, EIMS, 1u << 20);
	CHECK(get(1, LINKS) >> 28 == 0xF && read(bell, &rung, sizeof(rung)) < 0);
	atomic_store(&b->link_up, false);
	b->chip->link_changed(b);
	CHECK(read(bell, &rung, sizeof(rung)) == sizeof(rung) && get(1, LINKS) >> 30 == 0);
	CHECK(get(1, EICR) == 1u << 20 && get(1, EICR) == 0);
	put(1, RX + RING_TAIL, RING - 1);
	arrive(100, 0x0800, 0);
	CHECK(b->counters.rx_frames == 0 && b->counters.rx_link_down == 1);
	atomic_store(&b->link_up, true);
	atomic_store(&b->speed_mbps, 1000);
	CHECK((get(1, LINKS) >> 28 & 3) == 2);
	atomic_store(&b->removed, true);
	CHECK(get(1, LINKS) == UINT32_MAX);
}

int main(void)
{
	CHECK(nic_count == 2);
	a = nics[0];
	b = nics[1];
	arena = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bell = eventfd(0, EFD_NONBLOCK);
	int container = open("/dev/vfio/vfio", O_RDWR);
	CHECK(arena != MAP_FAILED && bell >= 0 && container >= 0);
	attach(0, container, a->address);
	attach(1, container, b->address);
	frames_over_descriptors();
	a_descriptor_whose_lengths_disagree();
	addresses_without_a_mapping();
	queues_in_turn_and_what_was_fetched();
	a_buffer_that_is_full();
	classes_with_strict_priority();
	the_longest_frame();
	mac_control_frames();
	frames_without_a_descriptor();
	links_and_their_interrupt();
	puts("the rules hold");
	return 0;
}
