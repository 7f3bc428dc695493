"""A guest machine under QEMU with NICs behind an IOMMU, made of Debian's packages: none of them is installed.

`packages` gets and unpacks, `image` puts the guest's file system together, `machine` runs it, `cable` is the far end of a
NIC's cable. `linux` is a small guest at a vhost-user port. All is kept under `target/guest`.
"""
