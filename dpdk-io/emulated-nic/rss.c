/* Receive-side scaling: the Toeplitz hash over a frame's addresses and ports chooses its queue. */
#include <string.h>

#include "nic.h"

/* Addresses that all these NICs share. */
#define RETA 0x05C00u
#define RETA_ENTRIES 128u
#define RSSRK 0x05C80u
/* Bits of MRQC. */
#define FIELD_IPV4_TCP (1u << 16)
#define FIELD_IPV4 (1u << 17)
#define FIELD_IPV6 (1u << 20)
#define FIELD_IPV6_TCP (1u << 21)
#define FIELD_IPV4_UDP (1u << 22)
#define FIELD_IPV6_UDP (1u << 23)
#define TYPE_IPV4 0x0800
#define TYPE_IPV6 0x86DD
#define TCP 6
#define UDP 17

static uint32_t toeplitz(const uint8_t key[40], const uint8_t *input, unsigned int bytes)
{
	uint32_t hash = 0, window = (uint32_t)key[0] << 24 | (uint32_t)key[1] << 16 | (uint32_t)key[2] << 8 | key[3];

	for (unsigned int i = 0; i < bytes; i++)
		for (int bit = 7; bit >= 0; bit--) {
			if (input[i] >> bit & 1)
				hash ^= window;
			window = window << 1 | (key[i + 4] >> bit & 1);
		}
	return hash;
}

unsigned int rss_queue(struct nic *nic, const uint8_t *frame, uint32_t length)
{
	uint8_t input[36], key[40];
	uint32_t fields = reg(nic, MRQC);
	const uint8_t *ip = frame + ETHER_HEADER;
	bool is_ipv4 = ether_type(frame) == TYPE_IPV4 && length >= ETHER_HEADER + 24;
	bool is_ipv6 = ether_type(frame) == TYPE_IPV6 && length >= ETHER_HEADER + 44;
	if (!is_ipv4 && !is_ipv6)
		return 0;
	uint32_t header = is_ipv4 ? (ip[0] & 0xFu) * 4 : 40, addresses = is_ipv4 ? 8 : 32;
	uint8_t protocol = is_ipv4 ? ip[9] : ip[6];
	bool is_fragment = is_ipv4 && ((ip[6] & 0x3F) != 0 || ip[7] != 0);
	uint32_t with_tcp = is_ipv4 ? FIELD_IPV4_TCP : FIELD_IPV6_TCP, with_udp = is_ipv4 ? FIELD_IPV4_UDP : FIELD_IPV6_UDP;
	bool has_ports = !is_fragment && length >= ETHER_HEADER + header + 4
		&& ((protocol == TCP && fields & with_tcp) || (protocol == UDP && fields & with_udp));
	if (!has_ports && !(fields & (is_ipv4 ? FIELD_IPV4 : FIELD_IPV6)))
		return 0;
	memcpy(input, ip + (is_ipv4 ? 12 : 8), addresses);
	if (has_ports)
		memcpy(input + addresses, ip + header, 4);
	for (uint32_t i = 0; i < sizeof(key); i++)
		key[i] = (uint8_t)(reg(nic, RSSRK + (i & ~3u)) >> 8 * (i & 3));
	uint32_t entry = toeplitz(key, input, addresses + (has_ports ? 4 : 0)) & (RETA_ENTRIES - 1);
	return reg(nic, RETA + (entry & ~3u)) >> 8 * (entry & 3) & 0xFF;
}
