/* The receive MAC, alike in all these NICs: lengths, and filters by type, address and VLAN. */
#include <string.h>

#include "nic.h"

/* Statistics and the multicast table have the same addresses in all. */
enum { RUC = 0x040A4, ROC = 0x040AC, TORL = 0x040C0, TORH = 0x040C4, TPR = 0x040D0, MTA = 0x05200 };
#define RAH_AV (1u << 31)

static uint32_t address_low(const uint8_t *address)
{
	return (uint32_t)address[0] | (uint32_t)address[1] << 8 | (uint32_t)address[2] << 16 | (uint32_t)address[3] << 24;
}

static uint32_t address_high(const uint8_t *address)
{
	return RAH_AV | (uint32_t)address[4] | (uint32_t)address[5] << 8;
}

void set_address(struct nic *nic, uint32_t offset, const uint8_t *address)
{
	set_reg(nic, offset, address_low(address));
	set_reg(nic, offset + 4, address_high(address));
}

static bool passes_address(struct nic *nic, const struct filters *filters, const uint8_t *frame)
{
	if (frame[0] & 1) {
		const uint8_t broadcast[6] = { 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF };
		if (filters->all_multicast || (filters->broadcast && memcmp(frame, broadcast, sizeof(broadcast)) == 0))
			return true;
		/* RCTL.MO, MCSTCTRL.MO = 0: bits 47:36 of the address. */
		uint32_t bit = (uint32_t)frame[4] >> 4 | (uint32_t)frame[5] << 4;
		return filters->multicast_table && reg(nic, MTA + 4 * (bit >> 5)) >> (bit & 31) & 1;
	}
	if (filters->all_unicast)
		return true;
	for (uint32_t i = 0; i < filters->address_count; i++) {
		uint32_t at = filters->addresses + 8 * i;
		if (reg(nic, at) == address_low(frame) && (reg(nic, at + 4) & (RAH_AV | 0xFFFF)) == address_high(frame))
			return true;
	}
	return false;
}

static bool passes_vlan(struct nic *nic, const struct filters *filters, const uint8_t *frame)
{
	if (!filters->vlan || ether_type(frame) != filters->vlan_type)
		return true;
	uint32_t vlan = ((uint32_t)frame[14] << 8 | frame[15]) & 0xFFF;
	return reg(nic, filters->vlan_table + 4 * (vlan >> 5)) >> (vlan & 31) & 1;
}

bool passes_mac(struct nic *nic, const uint8_t *frame, uint32_t length)
{
	struct counters *counters = &nic->counters;

	add_reg(nic, TPR, 1);
	add_octets(nic, TORL, TORH, length + FCS_BYTES);
	if (length < MIN_FRAME) {
		add_reg(nic, RUC, 1);
		count(&counters->rx_too_short, 1);
		return false;
	}
	if (length + FCS_BYTES > nic->chip->longest(nic, frame)) {
		add_reg(nic, ROC, 1);
		count(&counters->rx_too_long, 1);
		return false;
	}
	if (ether_type(frame) == MAC_CONTROL_TYPE && !nic->chip->passes_control(nic, frame)) {
		count(&counters->rx_control_filtered, 1);
		return false;
	}
	struct filters filters = nic->chip->filters(nic);
	if (!passes_address(nic, &filters, frame) || !passes_vlan(nic, &filters, frame)) {
		count(&counters->rx_not_accepted, 1);
		return false;
	}
	return true;
}
