/*
 * vfio as Linux offers it (linux/vfio.h): a container with an IOMMU of type 1, groups of one device, and devices of vfio-pci.
 * Each of these is a file descriptor of an eventfd. This file's functions stand before the C library's, and all other files and paths
 * are the kernel's.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/pci_regs.h>
#include <linux/vfio.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "nic.h"

/* vfio-pci has a region's index in the upper bits of an offset. */
#define REGION_SHIFT 40
#define FIRST_GROUP 100
#define MAX_FILES 4096
#define MAX_MAPPINGS 4096

enum file_kind { FILE_OTHER, FILE_CONTAINER, FILE_GROUP, FILE_DEVICE };

struct file {
	_Atomic int kind;
	struct nic *nic;
};

static struct file files[MAX_FILES];

struct mapping {
	uint64_t iova, vaddr, size;
};

static struct mapping mappings[MAX_MAPPINGS];
static unsigned int mapping_count;
static pthread_rwlock_t mappings_lock = PTHREAD_RWLOCK_INITIALIZER;
static atomic_bool has_iommu_type;

static enum file_kind kind_of(int fd)
{
	return fd >= 0 && fd < MAX_FILES ? (enum file_kind)atomic_load(&files[fd].kind) : FILE_OTHER;
}

static int new_file(enum file_kind kind, struct nic *nic)
{
	int fd = eventfd(0, EFD_CLOEXEC);
	if (fd >= MAX_FILES) {
		real_close(fd);
		errno = EMFILE;
		return -1;
	}
	if (fd >= 0) {
		files[fd].nic = nic;
		atomic_store(&files[fd].kind, (int)kind);
	}
	return fd;
}

static int error(int number)
{
	errno = number;
	return -1;
}

/* DMA */

void *dma(struct nic *nic, uint64_t iova, size_t length)
{
	void *found = NULL;
	pthread_rwlock_rdlock(&mappings_lock);
	for (unsigned int i = 0; i < mapping_count && found == NULL; i++) {
		const struct mapping *m = &mappings[i];
		if (iova >= m->iova && length <= m->size && iova - m->iova <= m->size - length)
			found = (void *)(uintptr_t)(m->vaddr + (iova - m->iova));
	}
	pthread_rwlock_unlock(&mappings_lock);
	/* Bus mastering is off until the driver's bus switches it on. */
	if (!(nic->config[PCI_COMMAND] & PCI_COMMAND_MASTER))
		found = NULL;
	if (found == NULL) {
		count(&nic->counters.dma_faults, 1);
		event("{\"event\": \"dma_fault\", \"nic\": \"%s\", \"iova\": %llu, \"bytes\": %zu}", nic->address,
			(unsigned long long)iova, length);
	}
	return found;
}

static int map_dma(const struct vfio_iommu_type1_dma_map *map)
{
	int result = 0;
	pthread_rwlock_wrlock(&mappings_lock);
	for (unsigned int i = 0; i < mapping_count; i++)
		if (map->iova < mappings[i].iova + mappings[i].size && mappings[i].iova < map->iova + map->size)
			result = error(EEXIST);
	if (result == 0 && mapping_count == MAX_MAPPINGS)
		result = error(ENOSPC);
	if (result == 0)
		mappings[mapping_count++] = (struct mapping){ map->iova, map->vaddr, map->size };
	pthread_rwlock_unlock(&mappings_lock);
	return result;
}

static int unmap_dma(struct vfio_iommu_type1_dma_unmap *unmap)
{
	uint64_t bytes = 0;
	pthread_rwlock_wrlock(&mappings_lock);
	for (unsigned int i = 0; i < mapping_count;) {
		struct mapping *m = &mappings[i];
		if (m->iova < unmap->iova || m->iova + m->size > unmap->iova + unmap->size) {
			i++;
			continue;
		}
		bytes += m->size;
		*m = mappings[--mapping_count];
	}
	pthread_rwlock_unlock(&mappings_lock);
	unmap->size = bytes;
	return 0;
}

/* With its last group a container loses its IOMMU, and all mappings. */
static void leave_container(struct nic *nic)
{
	bool is_used = false;

	nic->in_container = false;
	for (unsigned int i = 0; i < nic_count; i++)
		is_used = is_used || nics[i]->in_container;
	if (is_used)
		return;
	pthread_rwlock_wrlock(&mappings_lock);
	mapping_count = 0;
	pthread_rwlock_unlock(&mappings_lock);
	atomic_store(&has_iommu_type, false);
}

/* Interrupts */

static void ring_bell(int fd)
{
	uint64_t one = 1;
	if (fd >= 0 && syscall(SYS_write, fd, &one, sizeof(one)) < 0)
		say("an interrupt was not taken: %s", strerror(errno));
}

void interrupt(struct nic *nic, unsigned int vector)
{
	if (vector < MSIX_VECTORS)
		ring_bell(nic->interrupts[vector]);
}

void request_removal(struct nic *nic)
{
	atomic_store(&nic->removal_requested, true);
	ring_bell(nic->removal_request);
}

static int set_interrupts(struct nic *nic, const struct vfio_irq_set *set)
{
	const int *fds = (const int *)set->data;
	bool has_fds = set->flags & VFIO_IRQ_SET_DATA_EVENTFD;

	if (!(set->flags & VFIO_IRQ_SET_ACTION_TRIGGER))
		return 0;
	if (set->index == VFIO_PCI_REQ_IRQ_INDEX) {
		nic->removal_request = has_fds && set->count == 1 ? fds[0] : -1;
		return 0;
	}
	if (set->index != VFIO_PCI_MSIX_IRQ_INDEX || set->start + set->count > MSIX_VECTORS)
		return error(EINVAL);
	if (set->count == 0)
		for (unsigned int i = 0; i < MSIX_VECTORS; i++)
			nic->interrupts[i] = -1;
	for (unsigned int i = 0; i < set->count && has_fds; i++)
		nic->interrupts[set->start + i] = fds[i];
	return 0;
}

/* Requests */

static int container_request(unsigned long request, void *argument)
{
	switch (request) {
	case VFIO_GET_API_VERSION:
		return VFIO_API_VERSION;
	case VFIO_CHECK_EXTENSION:
		return (uintptr_t)argument == VFIO_TYPE1_IOMMU;
	case VFIO_SET_IOMMU:
		if ((uintptr_t)argument != VFIO_TYPE1_IOMMU)
			return error(ENODEV);
		atomic_store(&has_iommu_type, true);
		return 0;
	case VFIO_IOMMU_GET_INFO: {
		struct vfio_iommu_type1_info *info = argument;
		info->flags = VFIO_IOMMU_INFO_PGSIZES;
		info->iova_pgsizes = 4096;
		return 0;
	}
	case VFIO_IOMMU_MAP_DMA:
		return atomic_load(&has_iommu_type) ? map_dma(argument) : error(EINVAL);
	case VFIO_IOMMU_UNMAP_DMA:
		return unmap_dma(argument);
	default:
		return error(ENOTTY);
	}
}

static int group_request(struct file *file, unsigned long request, void *argument)
{
	struct nic *nic = file->nic;

	switch (request) {
	case VFIO_GROUP_GET_STATUS: {
		struct vfio_group_status *status = argument;
		status->flags = VFIO_GROUP_FLAGS_VIABLE | (nic->in_container ? VFIO_GROUP_FLAGS_CONTAINER_SET : 0);
		return 0;
	}
	case VFIO_GROUP_SET_CONTAINER:
		if (kind_of(*(int *)argument) != FILE_CONTAINER)
			return error(EINVAL);
		nic->in_container = true;
		return 0;
	case VFIO_GROUP_UNSET_CONTAINER:
		leave_container(nic);
		return 0;
	case VFIO_GROUP_GET_DEVICE_FD:
		if (strcmp(argument, nic->address) != 0 || atomic_load(&nic->removed))
			return error(ENODEV);
		if (!nic->in_container || !atomic_load(&has_iommu_type))
			return error(EINVAL);
		start_all();
		return new_file(FILE_DEVICE, nic);
	default:
		return error(ENOTTY);
	}
}

static int device_request(struct nic *nic, unsigned long request, void *argument)
{
	switch (request) {
	case VFIO_DEVICE_GET_INFO: {
		struct vfio_device_info *info = argument;
		info->flags = VFIO_DEVICE_FLAGS_PCI | VFIO_DEVICE_FLAGS_RESET;
		info->num_regions = VFIO_PCI_NUM_REGIONS;
		info->num_irqs = VFIO_PCI_NUM_IRQS;
		return 0;
	}
	case VFIO_DEVICE_GET_REGION_INFO: {
		struct vfio_region_info *info = argument;
		const uint32_t rw = VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE;
		if (info->index >= VFIO_PCI_NUM_REGIONS)
			return error(EINVAL);
		bool is_bar = info->index == VFIO_PCI_BAR0_REGION_INDEX, is_config = info->index == VFIO_PCI_CONFIG_REGION_INDEX;
		info->offset = (uint64_t)info->index << REGION_SHIFT;
		info->size = is_bar ? BAR_BYTES : is_config ? sizeof(nic->config) : 0;
		info->flags = is_bar ? rw | VFIO_REGION_INFO_FLAG_MMAP : is_config ? rw : 0;
		return 0;
	}
	case VFIO_DEVICE_GET_IRQ_INFO: {
		struct vfio_irq_info *info = argument;
		bool is_msix = info->index == VFIO_PCI_MSIX_IRQ_INDEX, is_request = info->index == VFIO_PCI_REQ_IRQ_INDEX;
		info->count = is_msix ? MSIX_VECTORS : is_request ? 1 : 0;
		info->flags = is_msix || is_request ? VFIO_IRQ_INFO_EVENTFD : 0;
		return 0;
	}
	case VFIO_DEVICE_SET_IRQS:
		return set_interrupts(nic, argument);
	case VFIO_DEVICE_RESET:
		nic_reset(nic);
		return 0;
	default:
		return error(ENOTTY);
	}
}

/* The C library's functions */

/* A path that is no emulated device's: -2. */
static int open_emulated(const char *path)
{
	const char folder[] = "/dev/vfio/";

	if (nic_count == 0 || strncmp(path, folder, sizeof(folder) - 1) != 0)
		return -2;
	path += sizeof(folder) - 1;
	if (strcmp(path, "vfio") == 0)
		return new_file(FILE_CONTAINER, NULL);
	long group = strtol(path, NULL, 10) - FIRST_GROUP;
	if (group < 0 || group >= (long)nic_count)
		return error(ENOENT);
	/* A group can be opened once. */
	if (nics[group]->is_open)
		return error(EBUSY);
	int fd = new_file(FILE_GROUP, nics[group]);
	nics[group]->is_open = fd >= 0;
	return fd;
}

static int do_open(int folder, const char *path, int flags, mode_t mode)
{
	int fd = open_emulated(path);
	return fd != -2 ? fd : (int)syscall(SYS_openat, folder, path, flags, mode);
}

#define MODE_OF(flags, mode) \
	do { \
		va_list arguments; \
		va_start(arguments, flags); \
		if ((flags) & O_CREAT || ((flags) & O_TMPFILE) == O_TMPFILE) \
			mode = va_arg(arguments, mode_t); \
		va_end(arguments); \
	} while (0)

int open(const char *path, int flags, ...)
{
	mode_t mode = 0;
	MODE_OF(flags, mode);
	return do_open(AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
	mode_t mode = 0;
	MODE_OF(flags, mode);
	return do_open(AT_FDCWD, path, flags, mode);
}

/* DPDK looks whether the modules are loaded. */
static bool is_module(const char *path)
{
	return nic_count > 0 && (strcmp(path, "/sys/module/vfio") == 0 || strcmp(path, "/sys/module/vfio_pci") == 0);
}

int stat(const char *path, struct stat *status)
{
	return (int)syscall(SYS_newfstatat, AT_FDCWD, is_module(path) ? "/sys/module" : path, status, 0);
}

int stat64(const char *path, struct stat64 *status)
{
	return (int)syscall(SYS_newfstatat, AT_FDCWD, is_module(path) ? "/sys/module" : path, status, 0);
}

void real_close(int fd)
{
	syscall(SYS_close, fd);
}

static void device_closed(struct nic *nic)
{
	for (unsigned int i = 0; i < MSIX_VECTORS; i++)
		nic->interrupts[i] = -1;
	nic->removal_request = -1;
	atomic_store(&nic->bar, NULL);
	nic_reset(nic);
	if (atomic_load(&nic->removal_requested))
		atomic_store(&nic->removed, true);
}

int close(int fd)
{
	enum file_kind kind = kind_of(fd);
	if (kind != FILE_OTHER) {
		struct nic *nic = files[fd].nic;
		atomic_store(&files[fd].kind, FILE_OTHER);
		if (kind == FILE_DEVICE)
			device_closed(nic);
		if (kind == FILE_GROUP) {
			leave_container(nic);
			nic->is_open = false;
		}
	}
	return (int)syscall(SYS_close, fd);
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list arguments;
	va_start(arguments, request);
	void *argument = va_arg(arguments, void *);
	va_end(arguments);
	switch (kind_of(fd)) {
	case FILE_CONTAINER:
		return container_request(request, argument);
	case FILE_GROUP:
		return group_request(&files[fd], request, argument);
	case FILE_DEVICE:
		return device_request(files[fd].nic, request, argument);
	case FILE_OTHER:
		break;
	}
	return (int)syscall(SYS_ioctl, fd, request, argument);
}

void *mmap64(void *address, size_t length, int protection, int flags, int fd, off64_t offset)
{
	if (kind_of(fd) != FILE_DEVICE)
		return (void *)syscall(SYS_mmap, address, length, protection, flags, fd, offset);
	if (offset >> REGION_SHIFT != VFIO_PCI_BAR0_REGION_INDEX || length != BAR_BYTES) {
		errno = EINVAL;
		return MAP_FAILED;
	}
	void *bar = (void *)syscall(SYS_mmap, address, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | (flags & MAP_FIXED), -1, 0L);
	if (bar != MAP_FAILED)
		atomic_store(&files[fd].nic->bar, bar);
	return bar;
}

void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
	return mmap64(address, length, protection, flags, fd, offset);
}

/* The part of the configuration space that a request is about. */
static uint8_t *config_space(int fd, size_t length, off64_t offset)
{
	uint64_t at = (uint64_t)offset & ((1ull << REGION_SHIFT) - 1);
	if (offset >> REGION_SHIFT != VFIO_PCI_CONFIG_REGION_INDEX || at + length > sizeof(files[fd].nic->config))
		return NULL;
	return files[fd].nic->config + at;
}

ssize_t pread64(int fd, void *buffer, size_t length, off64_t offset)
{
	if (kind_of(fd) != FILE_DEVICE)
		return syscall(SYS_pread64, fd, buffer, length, offset);
	const uint8_t *config = config_space(fd, length, offset);
	if (config == NULL)
		return error(EINVAL);
	memcpy(buffer, config, length);
	return (ssize_t)length;
}

ssize_t pread(int fd, void *buffer, size_t length, off_t offset)
{
	return pread64(fd, buffer, length, offset);
}

ssize_t pwrite64(int fd, const void *buffer, size_t length, off64_t offset)
{
	if (kind_of(fd) != FILE_DEVICE)
		return syscall(SYS_pwrite64, fd, buffer, length, offset);
	uint8_t *config = config_space(fd, length, offset);
	if (config == NULL)
		return error(EINVAL);
	memcpy(config, buffer, length);
	return (ssize_t)length;
}

ssize_t pwrite(int fd, const void *buffer, size_t length, off_t offset)
{
	return pwrite64(fd, buffer, length, offset);
}
