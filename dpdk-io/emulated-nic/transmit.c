/*
 * Transmit: frames are fetched from the queues, one of each in turn, to the transmit packet buffer of their traffic class, and
 * leave from its head. A descriptor that asks for it (RS) is written back once its frame has been fetched. A fetched frame can't be
 * overtaken by another queue of its class: without traffic classes there is one buffer for all queues (TXPBSIZE).
 *
 * A cable that takes no time empties the buffer at once. One that is paced, or holds frames, is served by a thread.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "nic.h"

/* The longest transmit packet buffer. */
#define STORE_BYTES (1u << 20)
/* Preamble, start of frame and interpacket gap. */
#define WIRE_OVERHEAD 20u
/* A sleep that lasted longer, by as much as this, is made up for. */
#define LATE_NS 2000000u

/* Fields of transmit descriptors (advanced, and legacy where DEXT is 0): in the upper 64 bits. */
#define DTYP(d) ((unsigned int)((d) >> 20) & 0xF)
#define DTYP_CONTEXT 2
#define DTYP_DATA 3
#define DCMD_EOP (1ull << 24)
#define DCMD_RS (1ull << 27)
#define DCMD_DEXT (1ull << 29)
#define DCMD_VLE (1ull << 30)
#define DCMD_TSE (1ull << 31)
#define DTALEN(d) ((uint32_t)(d) & 0xFFFF)
#define POPTS_CHECKSUMS (3ull << 40)
#define STA_DD (1ull << 32)
#define PAYLEN(d) ((uint32_t)((d) >> 46))

void transmit_reset(struct nic *nic)
{
	for (unsigned int i = 0; i < MAX_CLASSES; i++)
		nic->tx_store[i].head = nic->tx_store[i].tail = nic->tx_store[i].used = nic->next_queue[i] = 0;
	for (unsigned int queue = 0; queue < nic->chip->tx_queues; queue++) {
		nic->tx[queue].posted_head = nic->tx[queue].posted_tail = 0;
		nic->tx[queue].searched = 0;
	}
}

/* MAC control frames */

/* Remembers when MAC control frames were posted, of the descriptors up to the tail. */
static void search_control(struct nic *nic, unsigned int queue, uint32_t block, _Atomic uint64_t *ring, uint32_t size)
{
	struct tx_queue *tx = &nic->tx[queue];
	uint32_t tail = reg(nic, block + RING_TAIL);

	for (; tx->searched != tail; tx->searched = (tx->searched + 1) % size) {
		uint64_t fields = atomic_load_explicit(&ring[2 * (uint64_t)tx->searched + 1], memory_order_acquire);
		/* In the middle of a frame any data may look like a control frame: note_control forgets it. */
		if ((fields & DCMD_DEXT && DTYP(fields) != DTYP_DATA) || DTALEN(fields) < ETHER_HEADER)
			continue;
		const uint8_t *data = dma(nic, atomic_load_explicit(&ring[2 * (uint64_t)tx->searched], memory_order_relaxed), ETHER_HEADER);
		if (data == NULL || ether_type(data) != MAC_CONTROL_TYPE || tx->posted_tail - tx->posted_head == MAX_POSTED)
			continue;
		tx->posted[tx->posted_tail++ % MAX_POSTED] = (struct posted_control){ .descriptor = tx->searched,
			.ns = now_ns(),
			.frames = atomic_load(&nic->counters.tx_frames),
			.bytes = atomic_load(&nic->counters.tx_bytes) };
	}
}

static void note_control(struct tx_queue *tx, uint32_t descriptor, struct frame_note *note)
{
	note->control = true;
	while (tx->posted_head != tx->posted_tail) {
		const struct posted_control *posted = &tx->posted[tx->posted_head++ % MAX_POSTED];
		if (posted->descriptor != descriptor)
			continue;
		note->posted_ns = posted->ns;
		note->frames_before = posted->frames;
		note->bytes_before = posted->bytes;
		return;
	}
	note->posted_ns = 0;
}

static void control_sent(struct nic *nic, const struct frame_note *note, const uint8_t *frame, uint64_t at_ns)
{
	struct counters *counters = &nic->counters;

	count(&counters->tx_control_frames, 1);
	if (note->posted_ns == 0)
		return;
	uint64_t frames = atomic_load(&counters->tx_frames) - note->frames_before;
	uint64_t bytes = atomic_load(&counters->tx_bytes) - note->bytes_before;
	count_max(&counters->tx_control_frames_ahead_max, frames);
	count_max(&counters->tx_control_bytes_ahead_max, bytes);
	event("{\"event\": \"control_sent\", \"nic\": \"%s\", \"queue\": %u, \"opcode\": %u, \"classes\": %u, \"quanta\": [%u, %u, %u, %u, "
	      "%u, %u, %u, %u], \"frames_ahead\": %llu, \"bytes_ahead\": %llu, \"waited_ns\": %llu}",
		nic->address, note->queue, frame[14] << 8 | frame[15], frame[17], frame[18] << 8 | frame[19], frame[20] << 8 | frame[21],
		frame[22] << 8 | frame[23], frame[24] << 8 | frame[25], frame[26] << 8 | frame[27], frame[28] << 8 | frame[29],
		frame[30] << 8 | frame[31], frame[32] << 8 | frame[33], (unsigned long long)frames, (unsigned long long)bytes,
		(unsigned long long)(at_ns - note->posted_ns));
}

/* Fetching */

/* Appends a descriptor's data to the frame. */
static bool append(struct nic *nic, struct frame_note *note, uint64_t address, uint32_t bytes)
{
	if (bytes == 0)
		return true;
	if (note->length + bytes > MAX_FRAME)
		return false;
	const uint8_t *data = dma(nic, address, bytes);
	if (data == NULL)
		return false;
	memcpy(nic->tx_frame + note->length, data, bytes);
	note->length += bytes;
	return true;
}

/* Fetches the next frame of a queue to the buffer of its class. False where there is none, or no room. */
static bool fetch(struct nic *nic, unsigned int queue)
{
	struct counters *counters = &nic->counters;
	uint32_t block = nic->chip->tx_block(queue), size = ring_size(nic, block);
	uint32_t head = reg(nic, block + RING_HEAD), tail = reg(nic, block + RING_TAIL);

	if (!(reg(nic, block + RING_CONTROL) & RING_ENABLE) || head == tail || size == 0)
		return false;
	_Atomic uint64_t *ring = dma(nic, ring_address(nic, block), size * DESCRIPTOR_BYTES);
	if (ring == NULL) {
		set_reg(nic, block + RING_HEAD, tail);
		return false;
	}
	struct frame_note note = { .queue = (uint16_t)queue, .traffic_class = (uint16_t)nic->chip->traffic_class(nic, queue) };
	uint32_t at = head, first = head, announced = 0;
	bool is_complete = false, is_whole = true, is_first = true, is_unsupported = false;
	while (at != tail && !is_complete) {
		uint64_t fields = atomic_load_explicit(&ring[2 * (uint64_t)at + 1], memory_order_acquire);
		bool is_advanced = fields & DCMD_DEXT;
		if (!is_advanced || DTYP(fields) == DTYP_DATA) {
			uint32_t bytes = DTALEN(fields);
			if (is_first) {
				first = at;
				announced = is_advanced ? PAYLEN(fields) : 0;
				is_unsupported = fields & (DCMD_VLE | DCMD_TSE) || (is_advanced && fields & POPTS_CHECKSUMS);
			}
			if (!append(nic, &note, atomic_load_explicit(&ring[2 * (uint64_t)at], memory_order_relaxed), bytes))
				is_whole = false;
			is_first = false;
			is_complete = fields & DCMD_EOP;
			/* A legacy descriptor announces nothing. */
			if (is_complete && !is_advanced && announced == 0)
				announced = note.length;
		}
		at = (at + 1) % size;
	}
	if (!is_complete)
		return false;
	/* PAYLEN has to be the sum of the lengths of the frame's descriptors. Where it is not, the chip's behaviour is not specified. */
	note.damaged = !is_whole || note.length != announced;
	if (is_whole && note.length >= ETHER_HEADER && ether_type(nic->tx_frame) == MAC_CONTROL_TYPE)
		note_control(&nic->tx[queue], first, &note);
	/* HLREG0.TXPADEN, TCTL.PSP. */
	uint32_t announced_length = note.length;
	if (note.length < MIN_FRAME) {
		memset(nic->tx_frame + note.length, 0, MIN_FRAME - note.length);
		note.length = MIN_FRAME;
	}
	if (is_whole && !store_put(&nic->tx_store[note.traffic_class], &note, nic->tx_frame,
				nic->chip->tx_packet_buffer(nic, note.traffic_class))) {
		/* Fetched again once there is room. */
		if (note.control && note.posted_ns != 0)
			nic->tx[queue].posted_head--;
		return false;
	}
	if (note.damaged) {
		count(&counters->tx_damaged, 1);
		event("{\"event\": \"tx_damaged\", \"nic\": \"%s\", \"queue\": %u, \"descriptor\": %u, \"data_length\": %u, \"paylen\": %u}",
			nic->address, queue, first, announced_length, announced);
	}
	count(&counters->tx_unsupported, is_unsupported);
	for (; head != at; head = (head + 1) % size) {
		uint64_t fields = atomic_load_explicit(&ring[2 * (uint64_t)head + 1], memory_order_relaxed);
		if (fields & DCMD_RS)
			atomic_store_explicit(&ring[2 * (uint64_t)head + 1], fields | STA_DD, memory_order_release);
	}
	set_reg(nic, block + RING_HEAD, at);
	return true;
}

static bool may_send(struct nic *nic)
{
	return nic->chip->tx_enabled(nic) && atomic_load(&nic->link_up) && !atomic_load(&nic->removed);
}

/* Fetches a frame of a class, of each queue in turn. */
static bool fetch_next(struct nic *nic, unsigned int traffic_class)
{
	unsigned int queues = nic->chip->tx_queues;
	for (unsigned int i = 0; i < queues; i++) {
		unsigned int queue = (nic->next_queue[traffic_class] + i) % queues;
		if (nic->chip->traffic_class(nic, queue) != traffic_class || !fetch(nic, queue))
			continue;
		nic->next_queue[traffic_class] = (queue + 1) % queues;
		return true;
	}
	return false;
}

/* Fetches as many as there is room for. */
static void fetch_all(struct nic *nic)
{
	if (!may_send(nic))
		return;
	for (unsigned int i = 0; i < MAX_CLASSES; i++)
		while (nic->chip->tx_packet_buffer(nic, i) != 0 && fetch_next(nic, i))
			;
}

/* Sending */

/* The class whose frame is the next: the highest of those with strict priority, else each in turn. -1 where there is none. */
static int next_class(struct nic *nic)
{
	for (int i = MAX_CLASSES - 1; i >= 0; i--)
		if (nic->tx_store[i].head != nic->tx_store[i].tail && nic->chip->strict(nic, (unsigned int)i))
			return i;
	for (unsigned int i = 0; i < MAX_CLASSES; i++) {
		unsigned int candidate = (nic->next_class + i) % MAX_CLASSES;
		if (nic->tx_store[candidate].head == nic->tx_store[candidate].tail)
			continue;
		nic->next_class = (candidate + 1) % MAX_CLASSES;
		return (int)candidate;
	}
	return -1;
}

/* Sends a frame, if there is one. The bytes that it took on the wire, or 0. */
static uint32_t send_one(struct nic *nic)
{
	struct counters *counters = &nic->counters;
	struct frame_note note;

	if (!may_send(nic))
		return 0;
	fetch_all(nic);
	int from = next_class(nic);
	if (from < 0)
		return 0;
	store_peek(&nic->tx_store[from], &note, nic->tx_frame);
	store_drop(&nic->tx_store[from]);
	if (note.control)
		control_sent(nic, &note, nic->tx_frame, now_ns());
	count(&counters->tx_frames, 1);
	count(&counters->tx_bytes, note.length);
	count(&counters->tx_queue_frames[note.queue], 1);
	count(&counters->tx_queue_bytes[note.queue], note.length);
	nic->chip->count_sent(nic, note.queue, nic->tx_frame, note.length);
	if (!cable_send(nic, nic->tx_frame, note.length))
		count(&counters->tx_cable_refused, 1);
	return note.length + FCS_BYTES + WIRE_OVERHEAD;
}

static void *send_paced(void *argument)
{
	struct nic *nic = argument;

	pthread_mutex_lock(&nic->tx_lock);
	for (;;) {
		uint32_t bytes = nic->held && nic->may_pass == 0 ? 0 : send_one(nic);
		if (bytes == 0) {
			pthread_cond_wait(&nic->tx_work, &nic->tx_lock);
			continue;
		}
		if (nic->held)
			nic->may_pass--;
		uint64_t rate = nic->rate_bps != 0 ? nic->rate_bps : nic->paced ? atomic_load(&nic->speed_mbps) * 1000000ull : 0;
		if (rate == 0)
			continue;
		uint64_t now = now_ns(), earliest = now - LATE_NS;
		nic->wire_free_ns = (nic->wire_free_ns > earliest ? nic->wire_free_ns : earliest) + bytes * 8ull * 1000000000ull / rate;
		if (nic->wire_free_ns > now) {
			struct timespec until = { .tv_sec = (time_t)(nic->wire_free_ns / 1000000000u),
				.tv_nsec = (long)(nic->wire_free_ns % 1000000000u) };
			pthread_mutex_unlock(&nic->tx_lock);
			while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
				;
			pthread_mutex_lock(&nic->tx_lock);
		}
	}
	return NULL;
}

void transmit_work(struct nic *nic, unsigned int queue)
{
	uint32_t block = nic->chip->tx_block(queue), size = ring_size(nic, block);

	if (size != 0 && reg(nic, block + RING_CONTROL) & RING_ENABLE) {
		_Atomic uint64_t *ring = dma(nic, ring_address(nic, block), size * DESCRIPTOR_BYTES);
		if (ring != NULL)
			search_control(nic, queue, block, ring, size);
	}
	transmit_again(nic);
}

void transmit_again(struct nic *nic)
{
	fetch_all(nic);
	if (nic->has_thread)
		pthread_cond_signal(&nic->tx_work);
	else
		while (send_one(nic) != 0)
			;
}

void transmit_init(struct nic *nic)
{
	nic->tx = calloc(nic->chip->tx_queues, sizeof(*nic->tx));
	nic->tx_frame = malloc(MAX_FRAME);
	if (nic->tx == NULL || nic->tx_frame == NULL)
		fail("no memory for transmit queues");
	for (unsigned int i = 0; i < MAX_CLASSES; i++)
		store_init(&nic->tx_store[i], STORE_BYTES);
	if (nic->has_thread && pthread_create(&nic->tx_thread, NULL, send_paced, nic) != 0)
		fail("no thread for the cable of %s", nic->address);
}
