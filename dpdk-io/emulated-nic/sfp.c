/* An 82599's NVM, as far as the driver reads it, and its SFP+ module: a direct-attach copper cable (SFF-8472). */
#include "nic.h"

/* Words of the NVM (ixgbe_type.h). */
enum {
	NVM_PCIE_ANALOG = 0x03,
	NVM_FIRMWARE = 0x0F,
	NVM_SFP_LIST = 0x2B,
	NVM_DEVICE_CAPS = 0x2C,
	NVM_CHECKSUM = 0x3F,
	/* Places of our own. */
	PLACE_FIRMWARE = 0x100,
	PLACE_PATCH = 0x120,
	PLACE_SFP_LIST = 0x140,
	PLACE_SFP_SETUP = 0x160,
};
#define NVM_SUM 0xBABA
#define FIRMWARE_PATCH_CONFIG 4
#define PATCH_VERSION 7
#define FIRMWARE_VERSION 6
/* Modules by the driver's numbers: direct-attach copper at port 0 and 1. */
#define SFP_DA_CU_CORE0 3
#define SFP_DA_CU_CORE1 4
#define END 0xFFFF

void nvm_init_82599(struct nic *nic)
{
	uint16_t *nvm = nic->nvm;

	/* No sections that the checksum goes through, but the firmware's. */
	nvm[NVM_FIRMWARE] = PLACE_FIRMWARE;
	nvm[PLACE_FIRMWARE + FIRMWARE_PATCH_CONFIG] = PLACE_PATCH;
	nvm[PLACE_PATCH + PATCH_VERSION] = FIRMWARE_VERSION;
	/* How each module is set up: a list of modules, each with the place of its settings; there are none. */
	nvm[NVM_SFP_LIST] = PLACE_SFP_LIST;
	nvm[PLACE_SFP_LIST + 1] = SFP_DA_CU_CORE0;
	nvm[PLACE_SFP_LIST + 2] = PLACE_SFP_SETUP;
	nvm[PLACE_SFP_LIST + 3] = SFP_DA_CU_CORE1;
	nvm[PLACE_SFP_LIST + 4] = PLACE_SFP_SETUP;
	nvm[PLACE_SFP_LIST + 5] = END;
	nvm[PLACE_SFP_SETUP + 1] = END;
	nvm[NVM_DEVICE_CAPS] = 0;
	uint16_t sum = 0;
	for (unsigned int i = 0; i < NVM_CHECKSUM; i++)
		sum = (uint16_t)(sum + nvm[i]);
	nvm[NVM_CHECKSUM] = (uint16_t)(NVM_SUM - sum);
}

/* I2CCTL */
#define I2C_CLK_IN 1u
#define I2C_CLK_OUT 2u
#define I2C_DATA_IN 4u
#define I2C_DATA_OUT 8u
/* The module's memory; the lowest bit of the first byte is 1 for a read. */
#define SFP_DEVICE 0xA0
#define READ 1

static uint8_t sfp_byte(uint8_t address)
{
	switch (address) {
	case 0x00: /* identifier: SFP */
		return 0x03;
	case 0x08: /* passive copper cable */
		return 0x04;
	case 0x25: /* vendor OUI: Intel */
		return 0x00;
	case 0x26:
		return 0x1B;
	case 0x27:
		return 0x21;
	default:
		return 0;
	}
}

/* A byte has come in; the module acknowledges it where it is meant. */
static bool i2c_byte(struct i2c *i2c)
{
	switch (i2c->state) {
	case I2C_DEVICE:
		if ((i2c->shift & ~READ) != SFP_DEVICE) {
			i2c->state = I2C_IDLE;
			return false;
		}
		i2c->state = i2c->shift & READ ? I2C_READ : I2C_ADDRESS;
		return true;
	case I2C_ADDRESS:
		i2c->address = i2c->shift;
		i2c->state = I2C_WRITE;
		return true;
	case I2C_WRITE:
		/* It can't be written. */
		return true;
	default:
		return false;
	}
}

static void clock_rises(struct i2c *i2c)
{
	if (i2c->state == I2C_IDLE || i2c->bits == 8)
		return;
	if (i2c->state != I2C_READ)
		i2c->shift = (uint8_t)(i2c->shift << 1 | i2c->data);
}

/* Eight bits of data, then one that acknowledges them. */
static void clock_falls(struct i2c *i2c)
{
	if (i2c->state == I2C_IDLE)
		return;
	if (i2c->bits == 8) {
		i2c->bits = 0;
		if (i2c->state == I2C_READ)
			i2c->shift = sfp_byte(i2c->address++);
		i2c->out = i2c->state == I2C_READ ? i2c->shift >> 7 : true;
		return;
	}
	i2c->bits++;
	if (i2c->state == I2C_READ) {
		/* The reader acknowledges. */
		i2c->out = i2c->bits == 8 ? true : i2c->shift >> (7 - i2c->bits) & 1;
	} else if (i2c->bits == 8) {
		i2c->out = !i2c_byte(i2c);
	}
}

void i2c_write(struct nic *nic, uint32_t value)
{
	struct i2c *i2c = &nic->i2c;
	bool clock = value & I2C_CLK_OUT, data = value & I2C_DATA_OUT;

	if (i2c->clock && clock && i2c->data != data) {
		/* Data changes while the clock is high: a start or a stop. The first fall of the clock after a start is no bit's. */
		i2c->state = data ? I2C_IDLE : I2C_DEVICE;
		i2c->bits = UINT32_MAX;
		i2c->out = true;
	}
	bool rises = clock && !i2c->clock, falls = !clock && i2c->clock;
	i2c->data = data;
	i2c->clock = clock;
	if (rises)
		clock_rises(i2c);
	if (falls)
		clock_falls(i2c);
}

uint32_t i2c_read(struct nic *nic)
{
	const struct i2c *i2c = &nic->i2c;
	return (i2c->clock ? I2C_CLK_IN | I2C_CLK_OUT : 0) | (i2c->data ? I2C_DATA_OUT : 0) | (i2c->data && i2c->out ? I2C_DATA_IN : 0);
}
