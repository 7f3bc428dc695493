/* The set-up, commands while the program runs, counters and events. The formats are described in nic.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/pci_regs.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "nic.h"

struct nic *nics[MAX_NICS];
unsigned int nic_count;
enum mutant mutant;

static char control_path[108], counters_path[256], events_path[256];
static int events_file = -1;

static const struct chip *const CHIPS[] = { &chip_82599, &chip_82576, &chip_i225 };

/* Messages */

void say(const char *format, ...)
{
	char text[512];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	dprintf(STDERR_FILENO, "emulated NIC: %s\n", text);
}

void fail(const char *format, ...)
{
	char text[512];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	say("%s", text);
	abort();
}

void event(const char *format, ...)
{
	char text[512];
	if (events_file < 0)
		return;
	va_list arguments;
	va_start(arguments, format);
	int bytes = vsnprintf(text, sizeof(text) - 1, format, arguments);
	va_end(arguments);
	if (bytes >= (int)sizeof(text) - 1)
		bytes = sizeof(text) - 2;
	text[bytes] = '\n';
	if (syscall(SYS_write, events_file, text, (size_t)bytes + 1) < 0)
		say("an event could not be written: %s", strerror(errno));
}

uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

struct nic *nic_at(const char *address)
{
	for (unsigned int i = 0; i < nic_count; i++)
		if (strcmp(nics[i]->address, address) == 0)
			return nics[i];
	return NULL;
}

void nic_reset(struct nic *nic)
{
	pthread_mutex_lock(&nic->tx_lock);
	pthread_mutex_lock(&nic->rx_lock);
	for (uint32_t offset = 0; offset < BAR_BYTES; offset += 4)
		set_reg(nic, offset, 0);
	transmit_reset(nic);
	receive_reset(nic);
	nic->chip->reset(nic);
	pthread_mutex_unlock(&nic->rx_lock);
	pthread_mutex_unlock(&nic->tx_lock);
}

/* Counters */

static void write_queues(FILE *out, const char *name, const _Atomic uint64_t *queues, unsigned int number)
{
	/* Up to the last that counted something. */
	while (number > 1 && atomic_load(&queues[number - 1]) == 0)
		number--;
	fprintf(out, ", \"%s\": [", name);
	for (unsigned int i = 0; i < number; i++)
		fprintf(out, "%s%llu", i == 0 ? "" : ", ", (unsigned long long)atomic_load(&queues[i]));
	fprintf(out, "]");
}

/* Bytes of frames that were fetched and not yet sent, or received and not yet delivered. */
static uint32_t held_bytes(struct nic *nic, bool to_wire)
{
	uint32_t bytes = 0;
	pthread_mutex_t *lock = to_wire ? &nic->tx_lock : &nic->rx_lock;
	pthread_mutex_lock(lock);
	for (unsigned int i = 0; i < MAX_CLASSES && to_wire; i++)
		bytes += nic->tx_store[i].used;
	if (!to_wire)
		bytes = nic->rx_store.used;
	pthread_mutex_unlock(lock);
	return bytes;
}

static void write_counters(FILE *out)
{
	fprintf(out, "{");
	for (unsigned int i = 0; i < nic_count; i++) {
		struct nic *nic = nics[i];
		struct counters *c = &nic->counters;
		fprintf(out, "%s\"%s\": {\"chip\": \"%s\", \"link_up\": %s, \"speed_mbps\": %u", i == 0 ? "" : ", ", nic->address,
			nic->chip->name, atomic_load(&nic->link_up) ? "true" : "false", atomic_load(&nic->speed_mbps));
#define COUNTER(name) fprintf(out, ", \"" #name "\": %llu", (unsigned long long)atomic_load(&c->name))
		COUNTER(rx_wire_frames);
		COUNTER(rx_wire_bytes);
		COUNTER(rx_link_down);
		COUNTER(rx_disabled);
		COUNTER(rx_too_long);
		COUNTER(rx_too_short);
		COUNTER(rx_control_filtered);
		COUNTER(rx_pauses_obeyed);
		COUNTER(rx_not_accepted);
		COUNTER(rx_buffer_full);
		COUNTER(rx_no_descriptor);
		COUNTER(rx_frames);
		COUNTER(rx_bytes);
		COUNTER(rx_control_frames);
		COUNTER(tx_frames);
		COUNTER(tx_bytes);
		COUNTER(tx_damaged);
		COUNTER(tx_unsupported);
		COUNTER(tx_control_frames);
		COUNTER(tx_control_frames_ahead_max);
		COUNTER(tx_control_bytes_ahead_max);
		COUNTER(tx_cable_refused);
		COUNTER(dma_faults);
		COUNTER(register_accesses);
#undef COUNTER
		fprintf(out, ", \"rx_held_bytes\": %u, \"tx_held_bytes\": %u", held_bytes(nic, false), held_bytes(nic, true));
		write_queues(out, "rx_queue_frames", c->rx_queue_frames, nic->chip->rx_queues);
		write_queues(out, "rx_queue_no_descriptor", c->rx_queue_no_descriptor, nic->chip->rx_queues);
		write_queues(out, "tx_queue_frames", c->tx_queue_frames, nic->chip->tx_queues);
		write_queues(out, "tx_queue_bytes", c->tx_queue_bytes, nic->chip->tx_queues);
		fprintf(out, "}");
	}
	fprintf(out, "}\n");
}

static void write_counters_file(void)
{
	FILE *out = counters_path[0] != 0 ? fopen(counters_path, "w") : NULL;
	if (out == NULL)
		return;
	write_counters(out);
	fclose(out);
}

/* Commands */

static void change_link(struct nic *nic, bool up, uint32_t speed_mbps)
{
	pthread_mutex_lock(&nic->tx_lock);
	atomic_store(&nic->link_up, up);
	atomic_store(&nic->speed_mbps, speed_mbps);
	nic->chip->link_changed(nic);
	transmit_again(nic);
	pthread_mutex_unlock(&nic->tx_lock);
}

/* A cable has one state at both of its ends. */
static void change_cable(struct nic *nic, bool up, uint32_t speed_mbps)
{
	change_link(nic, up, speed_mbps);
	if (nic->peer != NULL && nic->peer != nic)
		change_link(nic->peer, up, speed_mbps);
}

static void set_held(struct nic *nic, bool held, uint64_t may_pass)
{
	pthread_mutex_lock(&nic->tx_lock);
	nic->held = held;
	nic->may_pass = may_pass;
	transmit_again(nic);
	pthread_mutex_unlock(&nic->tx_lock);
}

/* The text of an error, or NULL. */
static const char *command(struct nic *nic, const char *verb, const char *argument)
{
	uint64_t number = argument != NULL ? strtoull(argument, NULL, 10) : 0;

	if (strcmp(verb, "up") == 0 || strcmp(verb, "down") == 0) {
		change_cable(nic, verb[0] == 'u', atomic_load(&nic->speed_mbps));
	} else if (strcmp(verb, "speed") == 0 && number != 0) {
		/* A link is down while its speed is negotiated. */
		change_cable(nic, false, (uint32_t)number);
		change_cable(nic, true, (uint32_t)number);
	} else if (strcmp(verb, "hold") == 0 || strcmp(verb, "release") == 0) {
		if (!nic->has_thread)
			return "the cable takes no time: write paced, rate or held on the line of the NIC";
		set_held(nic, verb[0] == 'h' || argument != NULL, number);
	} else if (strcmp(verb, "stop-descriptors") == 0 || strcmp(verb, "resume-descriptors") == 0) {
		receive_stop_tails(nic, verb[0] == 's');
	} else if (strcmp(verb, "request-removal") == 0) {
		request_removal(nic);
	} else if (strcmp(verb, "remove") == 0) {
		atomic_store(&nic->removed, true);
	} else {
		return "no such command";
	}
	return NULL;
}

static void answer(FILE *out, char *line)
{
	char *rest = NULL, *first = strtok_r(line, " \n", &rest), *verb = strtok_r(NULL, " \n", &rest);
	char *argument = strtok_r(NULL, " \n", &rest);

	if (first != NULL && strcmp(first, "counters") == 0) {
		write_counters(out);
		return;
	}
	struct nic *nic = first != NULL ? nic_at(first) : NULL;
	const char *error = nic == NULL || verb == NULL ? "write: counters, or ADDRESS COMMAND" : command(nic, verb, argument);
	if (error != NULL)
		fprintf(out, "{\"error\": \"%s\"}\n", error);
	else
		fprintf(out, "{\"ok\": true}\n");
}

static void *serve(void *argument)
{
	int listening = (int)(intptr_t)argument;
	for (;;) {
		int connection = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
		FILE *stream = connection >= 0 ? fdopen(connection, "r+") : NULL;
		if (stream == NULL)
			continue;
		char line[256];
		while (fgets(line, sizeof(line), stream) != NULL) {
			fseek(stream, 0, SEEK_CUR);
			answer(stream, line);
			fflush(stream);
		}
		fclose(stream);
	}
	return NULL;
}

static void listen_for_commands(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	pthread_t thread;

	memcpy(address.sun_path, control_path, sizeof(control_path));
	unlink(control_path);
	int listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (listening < 0 || bind(listening, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(listening, 4) != 0)
		fail("%s: %s", control_path, strerror(errno));
	if (pthread_create(&thread, NULL, serve, (void *)(intptr_t)listening) != 0)
		fail("no thread for commands");
}

static void start(void)
{
	if (events_path[0] != 0) {
		events_file = (int)syscall(SYS_openat, AT_FDCWD, events_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
		if (events_file < 0)
			fail("%s: %s", events_path, strerror(errno));
	}
	trap_install();
	for (unsigned int i = 0; i < nic_count; i++)
		cable_open(nics[i]);
	for (unsigned int i = 0; i < nic_count; i++)
		transmit_init(nics[i]);
	if (control_path[0] != 0)
		listen_for_commands();
	atexit(write_counters_file);
}

void start_all(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, start);
}

/* The set-up */

static void config_word(struct nic *nic, unsigned int at, uint16_t value)
{
	nic->config[at] = (uint8_t)value;
	nic->config[at + 1] = (uint8_t)(value >> 8);
}

static struct nic *new_nic(const char *address, const char *kind)
{
	struct nic *nic = calloc(1, sizeof(*nic));
	pthread_condattr_t attributes;

	if (nic == NULL || nic_count == MAX_NICS)
		fail("there can be %u NICs", MAX_NICS);
	if (strlen(address) >= sizeof(nic->address))
		fail("%s is no PCI address", address);
	strcpy(nic->address, address);
	for (unsigned int i = 0; i < sizeof(CHIPS) / sizeof(CHIPS[0]); i++)
		if (strcmp(CHIPS[i]->name, kind) == 0)
			nic->chip = CHIPS[i];
	if (nic->chip == NULL)
		fail("%s is no kind of NIC", kind);
	nic->index = nic_count;
	nic->tap = nic->removal_request = -1;
	for (unsigned int i = 0; i < MSIX_VECTORS; i++)
		nic->interrupts[i] = -1;
	memcpy(nic->mac, (uint8_t[]){ 0x00, 0x1B, 0x21, 0, 0, (uint8_t)(nic_count + 1) }, sizeof(nic->mac));
	config_word(nic, PCI_VENDOR_ID, nic->chip->vendor);
	config_word(nic, PCI_DEVICE_ID, nic->chip->device);
	config_word(nic, PCI_CLASS_DEVICE, 0x0200);
	nic->registers = calloc(BAR_BYTES / 4, sizeof(*nic->registers));
	nic->rx_frame = malloc(MAX_FRAME);
	if (nic->registers == NULL || nic->rx_frame == NULL)
		fail("no memory for registers");
	pthread_mutex_init(&nic->rx_lock, NULL);
	pthread_mutex_init(&nic->tx_lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&nic->tx_work, &attributes);
	atomic_store(&nic->link_up, true);
	atomic_store(&nic->speed_mbps, nic->chip->speed_mbps);
	store_init(&nic->rx_store, 4u << 20);
	nic->chip->power_on(nic);
	nics[nic_count++] = nic;
	return nic;
}

static void copy_word(char *to, size_t bytes, const char *word)
{
	if (word == NULL || strlen(word) >= bytes)
		fail("a word of the set-up is missing or too long");
	strcpy(to, word);
}

static void parse_nic(char **rest)
{
	const char *address = strtok_r(NULL, " \n", rest), *kind = strtok_r(NULL, " \n", rest), *word;
	if (address == NULL || kind == NULL)
		fail("write: nic ADDRESS KIND");
	struct nic *nic = new_nic(address, kind);
	while ((word = strtok_r(NULL, " \n", rest)) != NULL) {
		if (strcmp(word, "peer") == 0)
			copy_word(nic->peer_address, sizeof(nic->peer_address), strtok_r(NULL, " \n", rest));
		else if (strcmp(word, "tap") == 0)
			copy_word(nic->tap_name, sizeof(nic->tap_name), strtok_r(NULL, " \n", rest));
		else if (strcmp(word, "paced") == 0)
			nic->has_thread = nic->paced = true;
		else if (strcmp(word, "held") == 0)
			nic->has_thread = nic->held = true;
		else if (strcmp(word, "down") == 0)
			atomic_store(&nic->link_up, false);
		else if (strcmp(word, "rate") == 0 && (word = strtok_r(NULL, " \n", rest)) != NULL)
			nic->has_thread = (nic->rate_bps = strtoull(word, NULL, 10)) != 0;
		else if (word != NULL && strcmp(word, "speed") == 0 && (word = strtok_r(NULL, " \n", rest)) != NULL)
			atomic_store(&nic->speed_mbps, (uint32_t)strtoul(word, NULL, 10));
		else
			fail("%s: what is %s?", address, word != NULL ? word : "missing");
	}
}

static void parse(const char *path)
{
	FILE *file = fopen(path, "r");
	char line[512];

	if (file == NULL)
		fail("%s: %s", path, strerror(errno));
	while (fgets(line, sizeof(line), file) != NULL) {
		char *rest = NULL, *first = strtok_r(line, " \n", &rest);
		if (first == NULL)
			continue;
		if (strcmp(first, "nic") == 0)
			parse_nic(&rest);
		else if (strcmp(first, "control") == 0)
			copy_word(control_path, sizeof(control_path), strtok_r(NULL, " \n", &rest));
		else if (strcmp(first, "counters") == 0)
			copy_word(counters_path, sizeof(counters_path), strtok_r(NULL, " \n", &rest));
		else if (strcmp(first, "events") == 0)
			copy_word(events_path, sizeof(events_path), strtok_r(NULL, " \n", &rest));
		else
			fail("%s: what is %s?", path, first);
	}
	fclose(file);
	for (unsigned int i = 0; i < nic_count; i++)
		if (nics[i]->peer_address[0] != 0 && (nics[i]->peer = nic_at(nics[i]->peer_address)) == NULL)
			fail("%s: there is no NIC %s", path, nics[i]->peer_address);
}

static void choose_mutant(const char *name)
{
	const char *const names[] = { "", "pmcf-ignored", "drop-en-inverted", "one-kib-less" };
	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(name, names[i]) == 0) {
			mutant = (enum mutant)i;
			return;
		}
	fail("%s is no mutant", name);
}

__attribute__((constructor)) static void set_up(void)
{
	const char *path = getenv("EMULATED_NICS"), *name = getenv("EMULATED_NIC_MUTANT");
	if (name != NULL)
		choose_mutant(name);
	if (path != NULL)
		parse(path);
}
