/*
 * Register accesses. The BAR's pages can't be read or written, so that each access ends in SIGSEGV: the instruction is decoded,
 * carried out on the register model, and skipped. The signal is synchronous, and code that accesses a register holds no lock of
 * the C library's, so that the model may use what a signal handler otherwise must not.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "nic.h"

static struct sigaction previous;

/* By the number of a register in an instruction (Intel SDM volume 2, table 2-2). */
static const int REGISTERS[16] = { REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI, REG_R8, REG_R9, REG_R10,
	REG_R11, REG_R12, REG_R13, REG_R14, REG_R15 };

struct access {
	enum { ACCESS_UNKNOWN, ACCESS_LOAD, ACCESS_LOAD_SIGNED, ACCESS_STORE, ACCESS_STORE_CONSTANT } kind;
	int reg;
	uint32_t constant;
	unsigned int bytes;
};

/* 32-bit moves between memory and a register or a constant. */
static struct access decode(const uint8_t *start)
{
	struct access access = { .kind = ACCESS_UNKNOWN };
	const uint8_t *p = start;
	uint8_t rex = 0;

	if ((*p & 0xF0) == 0x40)
		rex = *p++;
	if (*p == 0x8B) {
		access.kind = ACCESS_LOAD;
	} else if (*p == 0x63) {
		access.kind = ACCESS_LOAD_SIGNED;
	} else if (*p == 0x89) {
		access.kind = ACCESS_STORE;
	} else if (*p == 0xC7) {
		access.kind = ACCESS_STORE_CONSTANT;
	} else if (p[0] == 0x0F && p[1] == 0x38 && p[2] == 0xF9) {
		/* MOVDIRI */
		access.kind = ACCESS_STORE;
		p += 2;
	} else {
		return access;
	}
	bool is_64_bit = rex & 8;
	if (is_64_bit && access.kind != ACCESS_LOAD_SIGNED)
		return (struct access){ .kind = ACCESS_UNKNOWN };
	uint8_t modrm = *++p;
	unsigned int mod = modrm >> 6, rm = modrm & 7;
	p++;
	access.reg = REGISTERS[(modrm >> 3 & 7) | (rex & 4 ? 8 : 0)];
	if (rm == 4) {
		if (mod == 0 && (*p & 7) == 5)
			p += 4;
		p++;
	} else if (mod == 0 && rm == 5) {
		p += 4;
	}
	p += mod == 1 ? 1 : mod == 2 ? 4 : 0;
	if (access.kind == ACCESS_STORE_CONSTANT) {
		memcpy(&access.constant, p, sizeof(access.constant));
		p += sizeof(access.constant);
	}
	access.bytes = (unsigned int)(p - start);
	return access;
}

static struct nic *nic_with(const uint8_t *address)
{
	for (unsigned int i = 0; i < nic_count; i++) {
		const uint8_t *bar = atomic_load(&nics[i]->bar);
		if (bar != NULL && address >= bar && address < bar + BAR_BYTES)
			return nics[i];
	}
	return NULL;
}

static void pass_on(int number, siginfo_t *info, void *context)
{
	if (previous.sa_flags & SA_SIGINFO)
		previous.sa_sigaction(number, info, context);
	else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN)
		previous.sa_handler(number);
	else
		signal(number, SIG_DFL);
}

static void on_fault(int number, siginfo_t *info, void *context)
{
	const uint8_t *address = info->si_addr;
	struct nic *nic = nic_with(address);
	if (nic == NULL) {
		pass_on(number, info, context);
		return;
	}
	greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
	const uint8_t *instruction = (const uint8_t *)registers[REG_RIP];
	struct access access = decode(instruction);
	if (access.kind == ACCESS_UNKNOWN)
		fail("%s: register %#tx is accessed by an instruction that trap.c does not know: %02x %02x %02x %02x %02x %02x",
			nic->address, address - atomic_load(&nic->bar), instruction[0], instruction[1], instruction[2], instruction[3],
			instruction[4], instruction[5]);
	uint32_t offset = (uint32_t)(address - atomic_load(&nic->bar)) & ~3u;
	bool gone = atomic_load(&nic->removed);
	count(&nic->counters.register_accesses, 1);
	if (access.kind == ACCESS_LOAD || access.kind == ACCESS_LOAD_SIGNED) {
		/* Reads of a device that is gone time out, and the root complex answers all ones. */
		uint32_t value = gone ? UINT32_MAX : nic->chip->read(nic, offset);
		registers[access.reg] = access.kind == ACCESS_LOAD_SIGNED ? (greg_t)(int32_t)value : (greg_t)value;
	} else if (!gone) {
		nic->chip->write(nic, offset, access.kind == ACCESS_STORE ? (uint32_t)registers[access.reg] : access.constant);
	}
	registers[REG_RIP] += access.bytes;
}

void trap_install(void)
{
	/* A register may be accessed while another fault is served: none is blocked. */
	struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER };
	if (sigaction(SIGSEGV, &action, &previous) != 0)
		fail("SIGSEGV can't be caught");
}
