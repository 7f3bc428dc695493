/* The Toeplitz hash over a frame's addresses and ports (82599 7.1.2.8.1). */
#include <string.h>

#include "nic.h"

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

bool rss_hash(const uint8_t key[40], unsigned int fields, const uint8_t *frame, uint32_t length, uint32_t *hash)
{
	uint8_t input[36];
	const uint8_t *ip = frame + ETHER_HEADER;
	bool is_ipv4 = ether_type(frame) == TYPE_IPV4 && length >= ETHER_HEADER + 24;
	bool is_ipv6 = ether_type(frame) == TYPE_IPV6 && length >= ETHER_HEADER + 44;
	if (!is_ipv4 && !is_ipv6)
		return false;
	uint32_t header = is_ipv4 ? (ip[0] & 0xFu) * 4 : 40, addresses = is_ipv4 ? 8 : 32;
	uint8_t protocol = is_ipv4 ? ip[9] : ip[6];
	bool is_fragment = is_ipv4 && ((ip[6] & 0x3F) != 0 || ip[7] != 0);
	unsigned int with_tcp = is_ipv4 ? RSS_IPV4_TCP : RSS_IPV6_TCP, with_udp = is_ipv4 ? RSS_IPV4_UDP : RSS_IPV6_UDP;
	bool has_ports = !is_fragment && length >= ETHER_HEADER + header + 4
		&& ((protocol == TCP && fields & with_tcp) || (protocol == UDP && fields & with_udp));
	if (!has_ports && !(fields & (is_ipv4 ? RSS_IPV4 : RSS_IPV6)))
		return false;
	memcpy(input, ip + (is_ipv4 ? 12 : 8), addresses);
	if (has_ports)
		memcpy(input + addresses, ip + header, 4);
	*hash = toeplitz(key, input, addresses + (has_ports ? 4 : 0));
	return true;
}
