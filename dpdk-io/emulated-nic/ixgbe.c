/* Registers of the 82599, by their names in ixgbe_type.h and in the datasheet. */
#include <string.h>

#include "nic.h"

enum {
	CTRL = 0x00000,
	STATUS = 0x00008,
	CTRL_EXT = 0x00018,
	ESDP = 0x00020,
	I2CCTL = 0x00028,
	EICR = 0x00800,
	EICS = 0x00808,
	EIMS = 0x00880,
	EIMC = 0x00888,
	GPIE = 0x00898,
	IVAR_MISC = 0x00A00,
	RX_BLOCKS = 0x01000,
	RX_BLOCKS_FROM_64 = 0x0D000,
	SRRCTL_UP_TO_15 = 0x02100,
	RQSMR = 0x02300,
	RDRXCTL = 0x02F00,
	RXCTRL = 0x03000,
	PXON2OFFCNT = 0x03240,
	RXPBSIZE = 0x03C00,
	PXONTXC = 0x03F00,
	LXONTXC = 0x03F60,
	LXOFFTXC = 0x03F68,
	RXMPC = 0x03FA0,
	CRCERRS = 0x04000,
	GPRC = 0x04074,
	BPRC = 0x04078,
	MPRC = 0x0407C,
	GPTC = 0x04080,
	GORCL = 0x04088,
	GORCH = 0x0408C,
	GOTCL = 0x04090,
	GOTCH = 0x04094,
	TPT = 0x040D4,
	MPTC = 0x040F0,
	BPTC = 0x040F4,
	XEC = 0x04120,
	PXONRXCNT = 0x04140,
	PXOFFRXCNT = 0x04160,
	LXONRXCNT = 0x041A4,
	LXOFFRXCNT = 0x041A8,
	HLREG0 = 0x04240,
	MSCA = 0x0425C,
	MSRWD = 0x04260,
	MAXFRS = 0x04268,
	MFLCN = 0x04294,
	AUTOC = 0x042A0,
	LINKS = 0x042A4,
	ANLP1 = 0x042B0,
	DMATXCTL = 0x04A80,
	FCTRL = 0x05080,
	VLNCTRL = 0x05088,
	MCSTCTRL = 0x05090,
	RAL_UP_TO_15 = 0x05400,
	TX_BLOCKS = 0x06000,
	MTQC = 0x08120,
	TQSM = 0x08600,
	QBTC = 0x08700,
	SECTXSTAT = 0x08804,
	SECRXCTRL = 0x08D00,
	SECRXSTAT = 0x08D04,
	VFTA = 0x0A000,
	RAL = 0x0A200,
	TXPBSIZE = 0x0CC00,
	RTTPT2C = 0x0CD20,
	FDIRCTRL = 0x0EE00,
	EEC = 0x10010,
	EERD = 0x10014,
	SWSM = 0x10140,
};

#define RX_QUEUES 128
#define TX_QUEUES 128
#define ADDRESSES 128
#define STAT_COUNTERS 16

/* In the block of a receive queue. */
#define SRRCTL 0x14
#define SRRCTL_BSIZEPACKET 0x1Fu
#define SRRCTL_DROP_EN (1u << 28)
/* The counters that RQSMR and TQSM number are in the blocks of the first queues. */
#define QPRC(i) (RX_BLOCKS + 0x40 * (i) + 0x30)
#define QBRC_L(i) (RX_BLOCKS + 0x40 * (i) + 0x34)
#define QBRC_H(i) (RX_BLOCKS + 0x40 * (i) + 0x38)
#define QPRDC(i) (RX_BLOCKS + 0x400 + 0x40 * (i) + 0x30)
#define QPTC(i) (TX_BLOCKS + 0x40 * (i) + 0x30)
#define QBTC_L(i) (QBTC + 8 * (i))
#define QBTC_H(i) (QBTC + 8 * (i) + 4)

#define CTRL_GIO_DIS (1u << 2)
#define CTRL_LNK_RST (1u << 3)
#define CTRL_RST (1u << 26)
#define STATUS_LAN_ID(port) ((uint32_t)(port) << 2)
#define STATUS_GIO (1u << 19)
#define CTRL_EXT_EXTENDED_VLAN (1u << 26)
#define ESDP_SDP2 (1u << 2)
#define EICR_LSC (1u << 20)
#define GPIE_MULTIPLE_MSIX (1u << 4)
#define IVAR_VALID 0x80u
#define RDRXCTL_DMAIDONE (1u << 3)
#define RXCTRL_RXEN 1u
#define HLREG0_RXCRCSTRP (1u << 1)
#define HLREG0_JUMBOEN (1u << 2)
#define MSCA_MDICMD (1u << 30)
#define MFLCN_PMCF (1u << 0)
#define MFLCN_DPF (1u << 1)
#define MFLCN_RPFCE (1u << 2)
#define MFLCN_RFCE (1u << 3)
#define AUTOC_RESTART_AN (1u << 12)
#define AUTOC_LMS_10G_SERIAL (3u << 13)
#define LINKS_UP (1u << 30)
#define LINKS_KX_AN_COMP (1u << 31)
#define LINKS_SPEED_100 (1u << 28)
#define LINKS_SPEED_1G (2u << 28)
#define LINKS_SPEED_10G (3u << 28)
#define ANLP1_AN_STATE 0x000F0000u
#define DMATXCTL_TE 1u
#define FCTRL_MPE (1u << 8)
#define FCTRL_UPE (1u << 9)
#define FCTRL_BAM (1u << 10)
#define VLNCTRL_VET 0xFFFFu
#define VLNCTRL_VFE (1u << 30)
#define MCSTCTRL_MFE (1u << 2)
#define MRQC_MRQE 0xFu
#define MRQC_RSS 1u
#define MTQC_RT_ENA 1u
#define MTQC_NUM_TC 0xCu
#define MTQC_8_TC 0xCu
#define RTTPT2C_STRICT (3u << 30)
#define SECSTAT_READY 1u
#define SECRXCTRL_RX_DIS (1u << 1)
#define FDIRCTRL_INIT_DONE (1u << 3)
#define EEC_REQ (1u << 6)
#define EEC_GNT (1u << 7)
#define EEC_PRESENT (1u << 8)
#define EEC_AUTO_READ (1u << 9)
/* 4,096 words. */
#define EEC_SIZE (6u << 11)
#define EERD_DONE (1u << 1)
#define SWSM_SMBI 1u

#define PFC_OPCODE 0x0101

static uint32_t rx_block(unsigned int queue)
{
	return queue < 64 ? RX_BLOCKS + 0x40 * queue : RX_BLOCKS_FROM_64 + 0x40 * (queue - 64);
}

static uint32_t tx_block(unsigned int queue)
{
	return TX_BLOCKS + 0x40 * queue;
}

/* Registers with two addresses have one here. */
static uint32_t one_address(uint32_t offset)
{
	if (offset >= SRRCTL_UP_TO_15 && offset < SRRCTL_UP_TO_15 + 4 * 16)
		return rx_block((offset - SRRCTL_UP_TO_15) / 4) + SRRCTL;
	if (offset >= RAL_UP_TO_15 && offset < RAL_UP_TO_15 + 8 * 16)
		return offset - RAL_UP_TO_15 + RAL;
	return offset;
}

/* Statistics are cleared by being read. */
static bool is_statistic(uint32_t offset)
{
	const struct {
		uint32_t first, last;
	} ranges[] = {
		{ PXON2OFFCNT, PXON2OFFCNT + 4 * 7 }, { PXONTXC, LXOFFTXC }, { RXMPC, RXMPC + 4 * 7 }, { CRCERRS, XEC },
		{ PXONRXCNT, PXOFFRXCNT + 4 * 7 }, { LXONRXCNT, LXOFFRXCNT }, { QBTC_L(0), QBTC_H(STAT_COUNTERS - 1) },
	};
	for (unsigned int i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
		if (offset >= ranges[i].first && offset <= ranges[i].last)
			return true;
	uint32_t in_block = offset & 0x3F;
	if (offset >= RX_BLOCKS && offset < rx_block(STAT_COUNTERS))
		return in_block >= 0x30;
	if (offset >= rx_block(STAT_COUNTERS) && offset < rx_block(2 * STAT_COUNTERS))
		return in_block == 0x30;
	return offset >= TX_BLOCKS && offset < tx_block(STAT_COUNTERS) && in_block == 0x30;
}

/* Interrupts */

static void update_interrupt(struct nic *nic)
{
	if (!(reg(nic, EICR) & reg(nic, EIMS)))
		return;
	uint32_t other = reg(nic, IVAR_MISC) >> 8 & 0xFF;
	bool has_vector = reg(nic, GPIE) & GPIE_MULTIPLE_MSIX && other & IVAR_VALID;
	interrupt(nic, has_vector ? other & 0x3F : 0);
}

static void link_changed(struct nic *nic)
{
	atomic_fetch_or(&nic->registers[EICR / 4], EICR_LSC);
	update_interrupt(nic);
}

static uint32_t links(struct nic *nic)
{
	if (!atomic_load(&nic->link_up))
		return 0;
	uint32_t mbps = atomic_load(&nic->speed_mbps);
	uint32_t speed = mbps >= 10000 ? LINKS_SPEED_10G : mbps >= 1000 ? LINKS_SPEED_1G : LINKS_SPEED_100;
	return LINKS_UP | LINKS_KX_AN_COMP | speed;
}

/* Accesses */

static uint32_t read_register(struct nic *nic, uint32_t offset)
{
	offset = one_address(offset);
	if (is_statistic(offset))
		return take_reg(nic, offset);
	switch (offset) {
	case STATUS:
		return STATUS_LAN_ID(nic->index & 1) | (reg(nic, CTRL) & CTRL_GIO_DIS ? 0 : STATUS_GIO);
	case ESDP:
		/* SDP2: a module is plugged in. */
		return reg(nic, ESDP) | ESDP_SDP2;
	case I2CCTL:
		return i2c_read(nic);
	case EICR:
		return take_reg(nic, EICR);
	case RDRXCTL:
		return reg(nic, RDRXCTL) | RDRXCTL_DMAIDONE;
	case LINKS:
		return links(nic);
	case ANLP1:
		return ANLP1_AN_STATE;
	case SECTXSTAT:
	case SECRXSTAT:
		return SECSTAT_READY;
	case FDIRCTRL:
		return reg(nic, FDIRCTRL) | FDIRCTRL_INIT_DONE;
	case EEC:
		/* By SPI all words are 0. The driver's first read is by SPI, and its result is not used. */
		return EEC_PRESENT | EEC_AUTO_READ | EEC_SIZE | (reg(nic, EEC) & EEC_REQ ? EEC_REQ | EEC_GNT : 0);
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
	if (offset >= TX_BLOCKS && offset < tx_block(TX_QUEUES)) {
		uint32_t in_block = offset & 0x3F;
		pthread_mutex_lock(&nic->tx_lock);
		set_reg(nic, offset, value);
		if (in_block == RING_TAIL || in_block == RING_CONTROL)
			transmit_work(nic, (offset - TX_BLOCKS) / 0x40);
		pthread_mutex_unlock(&nic->tx_lock);
		return;
	}
	bool is_rx_block = (offset >= RX_BLOCKS && offset < RX_BLOCKS + 0x40 * 64)
		|| (offset >= RX_BLOCKS_FROM_64 && offset < RX_BLOCKS_FROM_64 + 0x40 * 64);
	if (is_rx_block) {
		set_reg(nic, offset, value);
		if ((offset & 0x3F) == RING_TAIL || (offset & 0x3F) == RING_CONTROL)
			receive_pending(nic);
		return;
	}
	switch (offset) {
	case CTRL:
		if (value & (CTRL_RST | CTRL_LNK_RST))
			nic_reset(nic);
		set_reg(nic, CTRL, value & ~(CTRL_RST | CTRL_LNK_RST));
		break;
	case I2CCTL:
		i2c_write(nic, value);
		break;
	case EICR:
		atomic_fetch_and(&nic->registers[EICR / 4], ~value);
		break;
	case EICS:
		atomic_fetch_or(&nic->registers[EICR / 4], value);
		update_interrupt(nic);
		break;
	case EIMS:
		atomic_fetch_or(&nic->registers[EIMS / 4], value);
		update_interrupt(nic);
		break;
	case EIMC:
		atomic_fetch_and(&nic->registers[EIMS / 4], ~value);
		break;
	case AUTOC:
		set_reg(nic, AUTOC, value & ~AUTOC_RESTART_AN);
		break;
	case MSCA:
		/* Nobody answers on MDIO. */
		set_reg(nic, MSCA, value & ~MSCA_MDICMD);
		set_reg(nic, MSRWD, 0xFFFF0000u);
		break;
	case EERD:
		set_reg(nic, EERD, (uint32_t)nic->nvm[value >> 2 & 0xFFF] << 16 | (value & 0xFFFC) | EERD_DONE);
		break;
	case DMATXCTL:
		pthread_mutex_lock(&nic->tx_lock);
		set_reg(nic, DMATXCTL, value);
		transmit_again(nic);
		pthread_mutex_unlock(&nic->tx_lock);
		break;
	case STATUS:
	case LINKS:
	case ANLP1:
	case SECTXSTAT:
	case SECRXSTAT:
		break;
	default:
		set_reg(nic, offset, value);
	}
}

/* Defaults are those of the datasheet and of an NVM for SFP+. */
static void reset(struct nic *nic)
{
	set_address(nic, RAL, nic->mac);
	set_reg(nic, AUTOC, AUTOC_LMS_10G_SERIAL);
	set_reg(nic, HLREG0, HLREG0_RXCRCSTRP);
	set_reg(nic, MAXFRS, LONGEST_ORDINARY << 16);
	set_reg(nic, VLNCTRL, 0x8100);
	set_reg(nic, RXPBSIZE, 512u << 10);
	set_reg(nic, TXPBSIZE, 160u << 10);
	nic->i2c = (struct i2c){ .clock = true, .data = true, .out = true };
}

/* Receive */

static bool rx_enabled(struct nic *nic)
{
	return reg(nic, RXCTRL) & RXCTRL_RXEN && !(reg(nic, SECRXCTRL) & SECRXCTRL_RX_DIS);
}

/*
 * MAXFRS.MFS: the longest frame with its FCS and without a VLAN tag. One with a tag of VLNCTRL.VET may be 4 B longer (Linux writes
 * mtu + 18, and its interfaces take tagged frames of the full MTU); with CTRL_EXT.EXTENDED_VLAN any frame may be 8 B longer.
 */
static uint32_t longest(struct nic *nic, const uint8_t *frame)
{
	uint32_t bytes = reg(nic, HLREG0) & HLREG0_JUMBOEN ? reg(nic, MAXFRS) >> 16 : LONGEST_ORDINARY;
	if (reg(nic, CTRL_EXT) & CTRL_EXT_EXTENDED_VLAN)
		return bytes + 2 * TAG_BYTES;
	return bytes + (ether_type(frame) == (reg(nic, VLNCTRL) & VLNCTRL_VET) ? TAG_BYTES : 0);
}

/* Whether a MAC control frame reaches software (MFLCN). */
static bool passes_control(struct nic *nic, const uint8_t *frame)
{
	uint32_t mflcn = reg(nic, MFLCN);
	unsigned int opcode = (unsigned int)frame[14] << 8 | frame[15];

	if ((opcode == PAUSE_OPCODE && mflcn & MFLCN_RFCE) || (opcode == PFC_OPCODE && mflcn & MFLCN_RPFCE)) {
		count(&nic->counters.rx_pauses_obeyed, 1);
		if (opcode == PAUSE_OPCODE)
			add_reg(nic, frame[16] | frame[17] ? LXOFFRXCNT : LXONRXCNT, 1);
		for (unsigned int class = 0; class < 8 && opcode == PFC_OPCODE; class++)
			if (frame[17] >> class & 1)
				add_reg(nic, (frame[18 + 2 * class] | frame[19 + 2 * class] ? PXOFFRXCNT : PXONRXCNT) + 4 * class, 1);
		return !(mflcn & MFLCN_DPF);
	}
	return mflcn & MFLCN_PMCF && mutant != MUTANT_PMCF_IGNORED;
}

static struct filters filters(struct nic *nic)
{
	uint32_t fctrl = reg(nic, FCTRL), vlnctrl = reg(nic, VLNCTRL);

	return (struct filters){
		.all_unicast = fctrl & FCTRL_UPE, .all_multicast = fctrl & FCTRL_MPE, .broadcast = fctrl & FCTRL_BAM,
		.multicast_table = reg(nic, MCSTCTRL) & MCSTCTRL_MFE, .addresses = RAL, .address_count = ADDRESSES,
		.vlan = vlnctrl & VLNCTRL_VFE, .vlan_type = vlnctrl & VLNCTRL_VET, .vlan_table = VFTA,
	};
}

static uint32_t counted_bytes(struct nic *nic, uint32_t length)
{
	return length + (reg(nic, HLREG0) & HLREG0_RXCRCSTRP ? 0 : FCS_BYTES);
}

static bool accepts(struct nic *nic, const uint8_t *frame, uint32_t length)
{
	if (!passes_mac(nic, frame, length))
		return false;
	/* Frames that the packet buffer has no room for count too (the driver's comment on GPRC). */
	add_reg(nic, GPRC, 1);
	add_octets(nic, GORCL, GORCH, counted_bytes(nic, length));
	if (frame[0] & 1)
		add_reg(nic, frame[0] == 0xFF ? BPRC : MPRC, 1);
	return true;
}

static unsigned int rx_queue(struct nic *nic, const uint8_t *frame, uint32_t length)
{
	return (reg(nic, MRQC) & MRQC_MRQE) == MRQC_RSS ? rss_queue(nic, frame, length) & 0xF : 0;
}

static uint32_t rx_packet_buffer(struct nic *nic)
{
	return reg(nic, RXPBSIZE);
}

static uint32_t rx_buffer(struct nic *nic, unsigned int queue)
{
	uint32_t kib = reg(nic, rx_block(queue) + SRRCTL) & SRRCTL_BSIZEPACKET;
	return (kib - (mutant == MUTANT_ONE_KIB_LESS && kib != 0)) << 10;
}

static bool drops_without_descriptor(struct nic *nic, unsigned int queue)
{
	return reg(nic, rx_block(queue) + SRRCTL) & SRRCTL_DROP_EN;
}

/* The counter of a queue, of those that RQSMR or TQSM names. */
static unsigned int stat_counter(struct nic *nic, uint32_t map, unsigned int queue)
{
	return reg(nic, map + (queue & ~3u)) >> 8 * (queue & 3) & (STAT_COUNTERS - 1);
}

static void count_received(struct nic *nic, unsigned int queue, const uint8_t *frame, uint32_t length)
{
	(void)frame;
	unsigned int counter = stat_counter(nic, RQSMR, queue);
	add_reg(nic, QPRC(counter), 1);
	add_octets(nic, QBRC_L(counter), QBRC_H(counter), counted_bytes(nic, length));
}

static void count_no_descriptor(struct nic *nic, unsigned int queue)
{
	add_reg(nic, QPRDC(stat_counter(nic, RQSMR, queue)), 1);
}

static void count_buffer_full(struct nic *nic)
{
	add_reg(nic, RXMPC, 1);
}

/* Transmit */

static bool tx_enabled(struct nic *nic)
{
	return reg(nic, DMATXCTL) & DMATXCTL_TE;
}

static uint32_t tx_packet_buffer(struct nic *nic, unsigned int traffic_class)
{
	return reg(nic, TXPBSIZE + 4 * traffic_class);
}

/* With traffic classes each has a range of queues (MTQC; ixgbe_dev_get_dcb_info). */
static unsigned int traffic_class(struct nic *nic, unsigned int queue)
{
	const uint8_t first_of_8[8] = { 0, 32, 64, 80, 96, 104, 112, 120 }, first_of_4[4] = { 0, 64, 96, 112 };
	uint32_t mtqc = reg(nic, MTQC);

	if (!(mtqc & MTQC_RT_ENA))
		return 0;
	bool has_8 = (mtqc & MTQC_NUM_TC) == MTQC_8_TC;
	const uint8_t *first = has_8 ? first_of_8 : first_of_4;
	unsigned int class = has_8 ? 7 : 3;
	while (queue < first[class])
		class--;
	return class;
}

static bool strict(struct nic *nic, unsigned int traffic_class)
{
	return reg(nic, MTQC) & MTQC_RT_ENA && reg(nic, RTTPT2C + 4 * traffic_class) & RTTPT2C_STRICT;
}

static void count_sent(struct nic *nic, unsigned int queue, const uint8_t *frame, uint32_t length)
{
	unsigned int counter = stat_counter(nic, TQSM, queue);
	add_reg(nic, GPTC, 1);
	add_reg(nic, TPT, 1);
	add_octets(nic, GOTCL, GOTCH, length + FCS_BYTES);
	add_reg(nic, QPTC(counter), 1);
	add_octets(nic, QBTC_L(counter), QBTC_H(counter), length + FCS_BYTES);
	if (frame[0] & 1)
		add_reg(nic, frame[0] == 0xFF ? BPTC : MPTC, 1);
}

const struct chip chip_82599 = {
	.name = "82599",
	.vendor = 0x8086,
	.device = 0x10FB,
	.rx_queues = RX_QUEUES,
	.tx_queues = TX_QUEUES,
	.speed_mbps = 10000,
	.power_on = nvm_init_82599,
	.read = read_register,
	.write = write_register,
	.reset = reset,
	.link_changed = link_changed,
	.rx_block = rx_block,
	.tx_block = tx_block,
	.rx_enabled = rx_enabled,
	.tx_enabled = tx_enabled,
	.longest = longest,
	.passes_control = passes_control,
	.filters = filters,
	.accepts = accepts,
	.rx_queue = rx_queue,
	.rx_packet_buffer = rx_packet_buffer,
	.rx_buffer = rx_buffer,
	.drops_without_descriptor = drops_without_descriptor,
	.tx_packet_buffer = tx_packet_buffer,
	.traffic_class = traffic_class,
	.strict = strict,
	.count_received = count_received,
	.count_no_descriptor = count_no_descriptor,
	.count_buffer_full = count_buffer_full,
	.count_sent = count_sent,
};
