/*
 * Receive: a frame that the chip accepts goes to the packet buffer, and from its head to the descriptors of its queue. At the
 * head a frame without descriptors is dropped where its queue has SRRCTL.Drop_En, and otherwise waits, with all behind it.
 */
#include <stdlib.h>
#include <string.h>

#include "nic.h"

/* Advanced receive descriptor, written back: the lowest bits of status */
#define STATUS_DD 1u
#define STATUS_EOP 2u

/* Frame stores */

void store_init(struct frame_store *store, uint32_t capacity)
{
	*store = (struct frame_store){ .memory = malloc(capacity), .capacity = capacity };
	if (store->memory == NULL)
		fail("no memory for a packet buffer of %u B", capacity);
}

static uint32_t copy_in(struct frame_store *store, uint32_t at, const void *from, uint32_t bytes)
{
	uint32_t first = store->capacity - at < bytes ? store->capacity - at : bytes;
	memcpy(store->memory + at, from, first);
	memcpy(store->memory, (const uint8_t *)from + first, bytes - first);
	return (at + bytes) % store->capacity;
}

static uint32_t copy_out(const struct frame_store *store, uint32_t at, void *to, uint32_t bytes)
{
	uint32_t first = store->capacity - at < bytes ? store->capacity - at : bytes;
	memcpy(to, store->memory + at, first);
	memcpy((uint8_t *)to + first, store->memory, bytes - first);
	return (at + bytes) % store->capacity;
}

/* The room of a frame in a packet buffer: as long as on the wire. */
static uint32_t room(uint32_t length)
{
	return length + FCS_BYTES;
}

bool store_put(struct frame_store *store, const struct frame_note *note, const uint8_t *frame, uint32_t limit)
{
	uint32_t free_bytes = (store->head + store->capacity - store->tail - 1) % store->capacity;
	if (store->used + room(note->length) > limit || free_bytes < sizeof(*note) + note->length)
		return false;
	store->tail = copy_in(store, store->tail, note, sizeof(*note));
	store->tail = copy_in(store, store->tail, frame, note->length);
	store->used += room(note->length);
	return true;
}

bool store_peek(struct frame_store *store, struct frame_note *note, uint8_t *frame)
{
	if (store->head == store->tail)
		return false;
	uint32_t at = copy_out(store, store->head, note, sizeof(*note));
	copy_out(store, at, frame, note->length);
	return true;
}

void store_drop(struct frame_store *store)
{
	struct frame_note note;
	copy_out(store, store->head, &note, sizeof(note));
	store->head = (uint32_t)((store->head + sizeof(note) + note.length) % store->capacity);
	store->used -= room(note.length);
}

/* Descriptors */

/* Writes a frame to the descriptors of its queue: as many as it needs, or none. */
static bool to_descriptors(struct nic *nic, unsigned int queue, const uint8_t *frame, uint32_t length)
{
	uint32_t block = nic->chip->rx_block(queue), size = ring_size(nic, block), head = reg(nic, block + RING_HEAD);
	uint32_t buffer = nic->chip->rx_buffer(nic, queue);

	if (!(reg(nic, block + RING_CONTROL) & RING_ENABLE) || size == 0 || buffer == 0)
		return false;
	uint32_t tail = nic->rx_stopped ? nic->stopped_tail[queue] : reg(nic, block + RING_TAIL);
	uint32_t free_descriptors = (tail + size - head) % size;
	if (free_descriptors < (length + buffer - 1) / buffer)
		return false;
	_Atomic uint64_t *ring = dma(nic, ring_address(nic, block), size * DESCRIPTOR_BYTES);
	if (ring == NULL)
		return true;
	for (uint32_t done = 0; done < length;) {
		uint32_t bytes = length - done < buffer ? length - done : buffer;
		_Atomic uint64_t *descriptor = &ring[2 * (uint64_t)head];
		void *data = dma(nic, atomic_load_explicit(&descriptor[0], memory_order_acquire), bytes);
		if (data != NULL)
			memcpy(data, frame + done, bytes);
		done += bytes;
		/* No RSS type, no packet type, no VLAN tag taken out; the status makes the rest valid. */
		atomic_store_explicit(&descriptor[0], 0, memory_order_relaxed);
		atomic_store_explicit(&descriptor[1], (uint64_t)bytes << 32 | STATUS_DD | (done == length ? STATUS_EOP : 0),
			memory_order_release);
		head = (head + 1) % size;
	}
	set_reg(nic, block + RING_HEAD, head);
	return true;
}

/* With the lock of receive. */
static void deliver(struct nic *nic)
{
	struct frame_note note;

	while (store_peek(&nic->rx_store, &note, nic->rx_frame)) {
		if (to_descriptors(nic, note.queue, nic->rx_frame, note.length)) {
			count(&nic->counters.rx_frames, 1);
			count(&nic->counters.rx_bytes, note.length);
			count(&nic->counters.rx_control_frames, note.control);
			count(&nic->counters.rx_queue_frames[note.queue], 1);
			nic->chip->count_received(nic, note.queue, nic->rx_frame, note.length);
		} else if (nic->chip->drops_without_descriptor(nic, note.queue) != (mutant == MUTANT_DROP_EN_INVERTED)) {
			count(&nic->counters.rx_no_descriptor, 1);
			count(&nic->counters.rx_queue_no_descriptor[note.queue], 1);
			nic->chip->count_no_descriptor(nic, note.queue);
		} else {
			return;
		}
		store_drop(&nic->rx_store);
	}
}

void receive_pending(struct nic *nic)
{
	pthread_mutex_lock(&nic->rx_lock);
	deliver(nic);
	pthread_mutex_unlock(&nic->rx_lock);
}

void receive_stop_tails(struct nic *nic, bool stopped)
{
	pthread_mutex_lock(&nic->rx_lock);
	nic->rx_stopped = stopped;
	for (unsigned int queue = 0; queue < nic->chip->rx_queues; queue++)
		nic->stopped_tail[queue] = reg(nic, nic->chip->rx_block(queue) + RING_TAIL);
	deliver(nic);
	pthread_mutex_unlock(&nic->rx_lock);
}

void receive_reset(struct nic *nic)
{
	nic->rx_store.head = nic->rx_store.tail = nic->rx_store.used = 0;
	nic->rx_stopped = false;
}

void receive(struct nic *nic, const uint8_t *frame, uint32_t length)
{
	struct counters *counters = &nic->counters;

	pthread_mutex_lock(&nic->rx_lock);
	count(&counters->rx_wire_frames, 1);
	count(&counters->rx_wire_bytes, length);
	if (!atomic_load(&nic->link_up) || atomic_load(&nic->removed)) {
		count(&counters->rx_link_down, 1);
	} else if (!nic->chip->rx_enabled(nic)) {
		count(&counters->rx_disabled, 1);
	} else if (nic->chip->accepts(nic, frame, length)) {
		struct frame_note note = { .length = length,
			.queue = (uint16_t)nic->chip->rx_queue(nic, frame, length),
			.control = ether_type(frame) == MAC_CONTROL_TYPE };
		if (store_put(&nic->rx_store, &note, frame, nic->chip->rx_packet_buffer(nic))) {
			deliver(nic);
		} else {
			count(&counters->rx_buffer_full, 1);
			nic->chip->count_buffer_full(nic);
		}
	}
	pthread_mutex_unlock(&nic->rx_lock);
}
