/*
 * Registers of the 82576 (net_e1000_igb) and of the I225 (net_igc), by their names in e1000_regs.h and igc_regs.h. The two differ in
 * the PHY, in speeds, in packet buffers, and in what clears the counter RQDPC.
 */
#include <string.h>

#include "nic.h"

enum {
	CTRL = 0x00000,
	STATUS = 0x00008,
	EECD = 0x00010,
	EERD = 0x00014,
	CTRL_EXT = 0x00018,
	MDIC = 0x00020,
	VET = 0x00038,
	/* Interrupt registers have these addresses too. */
	OLD_ICR = 0x000C0,
	OLD_ICS = 0x000C8,
	OLD_IMS = 0x000D0,
	OLD_IMC = 0x000D8,
	RCTL = 0x00100,
	TCTL = 0x00400,
	PHPM = 0x00E14,
	EEMNGCTL = 0x01010,
	ICR = 0x01500,
	ICS = 0x01504,
	IMS = 0x01508,
	IMC = 0x0150C,
	GPIE = 0x01514,
	IVAR_MISC = 0x01740,
	RXPBS = 0x02404,
	OLD_RX_BLOCKS = 0x02800,
	TXPBS = 0x03404,
	OLD_TX_BLOCKS = 0x03800,
	CRCERRS = 0x04000,
	MPC = 0x04010,
	GPRC = 0x04074,
	BPRC = 0x04078,
	MPRC = 0x0407C,
	GPTC = 0x04080,
	GORCL = 0x04088,
	GORCH = 0x0408C,
	GOTCL = 0x04090,
	GOTCH = 0x04094,
	TOTL = 0x040C8,
	TOTH = 0x040CC,
	TPT = 0x040D4,
	MPTC = 0x040F0,
	BPTC = 0x040F4,
	RPTHC = 0x04104,
	HGPTC = 0x04118,
	LAST_STATISTIC = 0x0413C,
	RLPML = 0x05004,
	RAL = 0x05400,
	VFTA = 0x05600,
	SWSM = 0x05B50,
	RX_BLOCKS = 0x0C000,
	TX_BLOCKS = 0x0E000,
	/* Counters of an I225's queues; 0x100 for each. */
	PQGPRC = 0x10010,
	PQGPTC = 0x10014,
	PQGORC = 0x10018,
	PQGOTC = 0x10034,
};

#define QUEUES_82576 16
#define QUEUES_I225 4
#define ADDRESSES 16

/* In the block of a receive queue. */
#define SRRCTL 0x0C
#define SRRCTL_BSIZEPACKET 0x7Fu
#define SRRCTL_DROP_EN (1u << 31)
#define RQDPC 0x30

#define CTRL_GIO_DISABLE (1u << 2)
#define CTRL_RST (1u << 26)
#define CTRL_RFCE (1u << 27)
#define CTRL_PHY_RST (1u << 31)
#define STATUS_FD (1u << 0)
#define STATUS_LU (1u << 1)
#define STATUS_LAN_ID(port) ((uint32_t)(port) << 2)
#define STATUS_SPEED_100 (1u << 6)
#define STATUS_SPEED_1000 (2u << 6)
#define STATUS_LAN_INIT_DONE (1u << 9)
#define STATUS_GIO_MASTER (1u << 19)
#define STATUS_SPEED_2500 (1u << 22)
#define EECD_REQ (1u << 6)
#define EECD_GNT (1u << 7)
#define EECD_PRESENT (1u << 8)
#define EECD_AUTO_READ (1u << 9)
/* 4,096 words. */
#define EECD_SIZE (6u << 11)
#define EERD_DONE (1u << 1)
#define CTRL_EXT_EXTENDED_VLAN (1u << 26)
#define MDIC_WRITE (1u << 26)
#define MDIC_READY (1u << 28)
#define RCTL_EN (1u << 1)
#define RCTL_UPE (1u << 3)
#define RCTL_MPE (1u << 4)
#define RCTL_LPE (1u << 5)
#define RCTL_BAM (1u << 15)
#define RCTL_BSIZE(rctl) ((rctl) >> 16 & 3)
#define RCTL_VFE (1u << 18)
#define RCTL_DPF (1u << 22)
#define RCTL_PMCF (1u << 23)
#define TCTL_EN (1u << 1)
#define PHPM_RST_COMPL (1u << 8)
#define CFG_DONE (0xFu << 18)
#define ICR_LSC (1u << 2)
#define GPIE_MULTIPLE_MSIX (1u << 4)
#define IVAR_VALID 0x80u
#define MRQC_ENABLE 7u
#define MRQC_RSS 2u
#define SWSM_SMBI 1u

static bool is_i225(const struct nic *nic)
{
	return nic->chip == &chip_i225;
}

static uint32_t rx_block(unsigned int queue)
{
	return RX_BLOCKS + 0x40 * queue;
}

static uint32_t tx_block(unsigned int queue)
{
	return TX_BLOCKS + 0x40 * queue;
}

/* Registers with two addresses have one here. */
static uint32_t one_address(uint32_t offset)
{
	switch (offset) {
	case OLD_ICR:
		return ICR;
	case OLD_ICS:
		return ICS;
	case OLD_IMS:
		return IMS;
	case OLD_IMC:
		return IMC;
	default:
		break;
	}
	/* The first four queues. */
	bool is_old_rx = offset >= OLD_RX_BLOCKS && offset < OLD_RX_BLOCKS + 0x400 && (offset & 0xFF) < 0x40;
	bool is_old_tx = offset >= OLD_TX_BLOCKS && offset < OLD_TX_BLOCKS + 0x400 && (offset & 0xFF) < 0x40;
	if (is_old_rx)
		return rx_block((offset - OLD_RX_BLOCKS) >> 8) + (offset & 0x3F);
	if (is_old_tx)
		return tx_block((offset - OLD_TX_BLOCKS) >> 8) + (offset & 0x3F);
	return offset;
}

/* Statistics are cleared by being read; so is RQDPC of an 82576. */
static bool is_statistic(struct nic *nic, uint32_t offset)
{
	if (offset >= CRCERRS && offset <= LAST_STATISTIC)
		return true;
	return !is_i225(nic) && offset >= RX_BLOCKS && offset < rx_block(QUEUES_82576) && (offset & 0x3F) == RQDPC;
}

/* Interrupts */

static void update_interrupt(struct nic *nic)
{
	if (!(reg(nic, ICR) & reg(nic, IMS)))
		return;
	uint32_t other = reg(nic, IVAR_MISC) >> 8 & 0xFF;
	bool has_vector = reg(nic, GPIE) & GPIE_MULTIPLE_MSIX && other & IVAR_VALID;
	interrupt(nic, has_vector ? other & 0x1F : 0);
}

static void link_changed(struct nic *nic)
{
	atomic_fetch_or(&nic->registers[ICR / 4], ICR_LSC);
	update_interrupt(nic);
}

/* PHY (IEEE 802.3 clause 22) */

enum { PHY_CONTROL = 0, PHY_STATUS = 1, PHY_ID1 = 2, PHY_ID2 = 3, PHY_PARTNER = 5, PHY_1000T_STATUS = 10 };
#define PHY_RESET_OR_RESTART 0x8200u
#define PHY_STATUS_ABILITIES 0x7949u
#define PHY_STATUS_LINK (1u << 2)
#define PHY_STATUS_AN_COMPLETE (1u << 5)
/* IGP03E1000_E_PHY_ID, the 82576's own. */
#define PHY_ID_82576 0x02A80390u
#define PHY_ID_I225 0x67C9DC00u

static uint16_t phy_read(struct nic *nic, unsigned int number)
{
	uint32_t id = is_i225(nic) ? PHY_ID_I225 : PHY_ID_82576;
	switch (number) {
	case PHY_STATUS:
		return PHY_STATUS_ABILITIES | (atomic_load(&nic->link_up) ? PHY_STATUS_LINK | PHY_STATUS_AN_COMPLETE : 0);
	case PHY_ID1:
		return (uint16_t)(id >> 16);
	case PHY_ID2:
		return (uint16_t)id;
	case PHY_PARTNER:
		/* 10 and 100 Mb/s, no PAUSE, acknowledged. */
		return 0x41E1;
	case PHY_1000T_STATUS:
		/* Partner and local receiver are right, 1000BASE-T full duplex. */
		return 0x3800;
	default:
		return nic->phy[number];
	}
}

static void mdic_write(struct nic *nic, uint32_t value)
{
	unsigned int number = value >> 16 & 0x1F;
	if (value & MDIC_WRITE)
		nic->phy[number] = (uint16_t)(number == PHY_CONTROL ? value & ~PHY_RESET_OR_RESTART : value);
	else
		value = (value & 0xFFFF0000u) | phy_read(nic, number);
	set_reg(nic, MDIC, value | MDIC_READY);
}

/* Accesses */

static uint32_t status(struct nic *nic)
{
	uint32_t value = STATUS_FD | STATUS_LAN_INIT_DONE | STATUS_LAN_ID(nic->index & 1)
		| (reg(nic, CTRL) & CTRL_GIO_DISABLE ? 0 : STATUS_GIO_MASTER);
	uint32_t mbps = atomic_load(&nic->speed_mbps);
	if (!atomic_load(&nic->link_up))
		return value;
	value |= STATUS_LU | (mbps >= 1000 ? STATUS_SPEED_1000 : mbps >= 100 ? STATUS_SPEED_100 : 0);
	return value | (is_i225(nic) && mbps >= 2500 ? STATUS_SPEED_2500 : 0);
}

static uint32_t read_register(struct nic *nic, uint32_t offset)
{
	offset = one_address(offset);
	if (is_statistic(nic, offset))
		return take_reg(nic, offset);
	switch (offset) {
	case STATUS:
		return status(nic);
	case EECD:
		/* An I225 without flash: its driver asks for no NVM then. */
		return EECD_PRESENT | EECD_AUTO_READ | EECD_SIZE | (reg(nic, EECD) & EECD_REQ ? EECD_REQ | EECD_GNT : 0);
	case ICR:
		return take_reg(nic, ICR);
	case PHPM:
		return reg(nic, PHPM) | PHPM_RST_COMPL;
	case EEMNGCTL:
		return reg(nic, offset) | CFG_DONE;
	case SWSM:
		/* A semaphore: reading takes it. */
		return atomic_fetch_or(&nic->registers[SWSM / 4], SWSM_SMBI);
	default:
		return reg(nic, offset);
	}
}

static void write_register(struct nic *nic, uint32_t offset, uint32_t value)
{
	offset = one_address(offset);
	if ((offset >= TX_BLOCKS && offset < tx_block(nic->chip->tx_queues)) || offset == TCTL) {
		uint32_t in_block = offset & 0x3F;
		pthread_mutex_lock(&nic->tx_lock);
		set_reg(nic, offset, value);
		if (offset == TCTL)
			transmit_again(nic);
		else if (in_block == RING_TAIL || in_block == RING_CONTROL)
			transmit_work(nic, (offset - TX_BLOCKS) / 0x40);
		pthread_mutex_unlock(&nic->tx_lock);
		return;
	}
	if (offset >= RX_BLOCKS && offset < rx_block(nic->chip->rx_queues)) {
		set_reg(nic, offset, value);
		if ((offset & 0x3F) == RING_TAIL || (offset & 0x3F) == RING_CONTROL)
			receive_pending(nic);
		return;
	}
	switch (offset) {
	case CTRL:
		if (value & CTRL_RST)
			nic_reset(nic);
		set_reg(nic, CTRL, value & ~(CTRL_RST | CTRL_PHY_RST));
		break;
	case MDIC:
		mdic_write(nic, value);
		break;
	case EERD:
		set_reg(nic, EERD, (uint32_t)nic->nvm[value >> 2 & 0xFFF] << 16 | (value & 0xFFFC) | EERD_DONE);
		break;
	case ICR:
		atomic_fetch_and(&nic->registers[ICR / 4], ~value);
		break;
	case ICS:
		atomic_fetch_or(&nic->registers[ICR / 4], value);
		update_interrupt(nic);
		break;
	case IMS:
		atomic_fetch_or(&nic->registers[IMS / 4], value);
		update_interrupt(nic);
		break;
	case IMC:
		atomic_fetch_and(&nic->registers[IMS / 4], ~value);
		break;
	case STATUS:
		break;
	default:
		set_reg(nic, offset, value);
	}
}

/* Words 0 to 0x3F of the NVM add up to this. */
#define NVM_CHECKSUM 0x3F
#define NVM_SUM 0xBABA

static void power_on(struct nic *nic)
{
	nic->nvm[NVM_CHECKSUM] = NVM_SUM;
}

static void reset(struct nic *nic)
{
	set_address(nic, RAL, nic->mac);
	set_reg(nic, VET, 0x8100);
	/* KiB: defaults of the datasheet of the 82576, and of Linux's igc (I225_RXPBSIZE_DEFAULT, I225_TXPBSIZE_DEFAULT). */
	set_reg(nic, RXPBS, is_i225(nic) ? 34 : 64);
	set_reg(nic, TXPBS, is_i225(nic) ? 20 : 40);
}

/* Receive */

static bool rx_enabled(struct nic *nic)
{
	return reg(nic, RCTL) & RCTL_EN;
}

/*
 * With its FCS. RCTL.LPE: RLPML, all tags included (Linux adds 4 B for one). Else 1,518 B, 4 B more for a tag, and 4 B for a second
 * one with CTRL_EXT.EXTENDED_VLAN.
 */
static uint32_t longest(struct nic *nic, const uint8_t *frame)
{
	uint16_t tag = (uint16_t)reg(nic, VET);

	if (reg(nic, RCTL) & RCTL_LPE)
		return reg(nic, RLPML) & 0x3FFF;
	uint32_t bytes = LONGEST_ORDINARY;
	bool is_tagged = ether_type(frame) == tag;
	if (reg(nic, CTRL_EXT) & CTRL_EXT_EXTENDED_VLAN) {
		is_tagged = ether_type(frame) == reg(nic, VET) >> 16;
		bytes += is_tagged && ether_type(frame + TAG_BYTES) == tag ? TAG_BYTES : 0;
	}
	return bytes + (is_tagged ? TAG_BYTES : 0);
}

/* Whether a MAC control frame reaches software (RCTL.PMCF, RCTL.DPF). */
static bool passes_control(struct nic *nic, const uint8_t *frame)
{
	uint32_t rctl = reg(nic, RCTL);
	if ((frame[14] << 8 | frame[15]) == PAUSE_OPCODE && reg(nic, CTRL) & CTRL_RFCE) {
		count(&nic->counters.rx_pauses_obeyed, 1);
		return !(rctl & RCTL_DPF);
	}
	return rctl & RCTL_PMCF && mutant != MUTANT_PMCF_IGNORED;
}

static struct filters filters(struct nic *nic)
{
	uint32_t rctl = reg(nic, RCTL);

	return (struct filters){
		.all_unicast = rctl & RCTL_UPE, .all_multicast = rctl & RCTL_MPE, .broadcast = rctl & RCTL_BAM, .multicast_table = true,
		.addresses = RAL, .address_count = ADDRESSES, .vlan = rctl & RCTL_VFE, .vlan_type = (uint16_t)reg(nic, VET), .vlan_table = VFTA,
	};
}

static unsigned int rx_queue(struct nic *nic, const uint8_t *frame, uint32_t length)
{
	return (reg(nic, MRQC) & MRQC_ENABLE) == MRQC_RSS ? rss_queue(nic, frame, length) % nic->chip->rx_queues : 0;
}

static uint32_t rx_packet_buffer(struct nic *nic)
{
	return (reg(nic, RXPBS) & (is_i225(nic) ? 0x3Fu : 0xFFFFu)) << 10;
}

static uint32_t rx_buffer(struct nic *nic, unsigned int queue)
{
	uint32_t kib = reg(nic, rx_block(queue) + SRRCTL) & SRRCTL_BSIZEPACKET;
	if (kib == 0)
		return 2048u >> RCTL_BSIZE(reg(nic, RCTL));
	return (kib - (mutant == MUTANT_ONE_KIB_LESS)) << 10;
}

static bool drops_without_descriptor(struct nic *nic, unsigned int queue)
{
	return reg(nic, rx_block(queue) + SRRCTL) & SRRCTL_DROP_EN;
}

static void count_received(struct nic *nic, unsigned int queue, const uint8_t *frame, uint32_t length)
{
	add_reg(nic, GPRC, 1);
	add_reg(nic, RPTHC, 1);
	add_octets(nic, GORCL, GORCH, length + FCS_BYTES);
	if (frame[0] & 1)
		add_reg(nic, frame[0] == 0xFF ? BPRC : MPRC, 1);
	if (is_i225(nic)) {
		add_reg(nic, PQGPRC + 0x100 * queue, 1);
		add_reg(nic, PQGORC + 0x100 * queue, length + FCS_BYTES);
	}
}

static void count_no_descriptor(struct nic *nic, unsigned int queue)
{
	add_reg(nic, rx_block(queue) + RQDPC, 1);
}

static void count_buffer_full(struct nic *nic)
{
	add_reg(nic, MPC, 1);
}

/* Transmit: one class */

static bool tx_enabled(struct nic *nic)
{
	return reg(nic, TCTL) & TCTL_EN;
}

static uint32_t tx_packet_buffer(struct nic *nic, unsigned int traffic_class)
{
	return traffic_class == 0 ? (reg(nic, TXPBS) & 0x3F) << 10 : 0;
}

static unsigned int traffic_class(struct nic *nic, unsigned int queue)
{
	(void)nic;
	(void)queue;
	return 0;
}

static bool strict(struct nic *nic, unsigned int traffic_class)
{
	(void)nic;
	(void)traffic_class;
	return false;
}

static void count_sent(struct nic *nic, unsigned int queue, const uint8_t *frame, uint32_t length)
{
	add_reg(nic, GPTC, 1);
	add_reg(nic, TPT, 1);
	add_reg(nic, HGPTC, 1);
	add_octets(nic, GOTCL, GOTCH, length + FCS_BYTES);
	add_octets(nic, TOTL, TOTH, length + FCS_BYTES);
	if (frame[0] & 1)
		add_reg(nic, frame[0] == 0xFF ? BPTC : MPTC, 1);
	if (is_i225(nic)) {
		add_reg(nic, PQGPTC + 0x100 * queue, 1);
		add_reg(nic, PQGOTC + 0x100 * queue, length + FCS_BYTES);
	}
}

#define CHIP(chip_name, chip_device, queues, mbps) \
	{ \
		.name = chip_name, .vendor = 0x8086, .device = chip_device, .rx_queues = queues, .tx_queues = queues, .speed_mbps = mbps, \
		.power_on = power_on, .read = read_register, .write = write_register, .reset = reset, .link_changed = link_changed, \
		.rx_block = rx_block, .tx_block = tx_block, .rx_enabled = rx_enabled, .tx_enabled = tx_enabled, .longest = longest, \
		.passes_control = passes_control, .filters = filters, .accepts = passes_mac, \
		.rx_queue = rx_queue, .rx_packet_buffer = rx_packet_buffer, .rx_buffer = rx_buffer, \
		.drops_without_descriptor = drops_without_descriptor, .tx_packet_buffer = tx_packet_buffer, \
		.traffic_class = traffic_class, .strict = strict, .count_received = count_received, \
		.count_no_descriptor = count_no_descriptor, .count_buffer_full = count_buffer_full, .count_sent = count_sent, \
	}

const struct chip chip_82576 = CHIP("82576", 0x10C9, QUEUES_82576, 1000);
const struct chip chip_i225 = CHIP("i225", 0x15F2, QUEUES_I225, 2500);
