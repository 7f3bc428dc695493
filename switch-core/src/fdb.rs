//! Forwarding database (802.1Q 8.8): the port behind which each station is.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crossbeam_utils::CachePadded;
use prefetch_index::prefetch_index;
use weir_units::{Bytes, MacAddr, PortId, Span, Time};

/// Table of addresses that are static, or learned from source addresses and aged. Lock-free: any lcore learns and looks up. A static
/// address may be behind several ports of equal cost; each flow then takes one of them ([`ForwardingTable::set_routes`]).
///
/// An entry is one word (port and address), so that a reader sees a whole entry or none. Two lcores that learn the same address at once may
/// take two slots; the older one ages out. A full bucket drops its oldest learned entry, of equally old ones one that is not
/// cached (`mark_cached`); frames to that station are then flooded until it sends again. A port with more than its share of the stations
/// drops none that has not aged: a flood of addresses leaves others known. Relaxed unless stated otherwise:
/// an entry publishes nothing but itself.
#[derive(Debug)]
pub struct ForwardingTable {
    buckets: Box<[Bucket]>,
    /// Bits of a key: [`ADDRESS_MASK`], and with VLANs [`VLAN_MASK`].
    key_mask: u64,
    clock: AgeingClock,
    /// Number of changes: incremented after each cached entry that is replaced or removed.
    version: CachePadded<AtomicU64>,
    replaced: AtomicU64,
    /// Learning at each port; empty where it is not counted.
    ports: Box<[PortStations]>,
    /// Stations of a port that may replace others of a full bucket: the capacity, divided by the ports.
    share: u32,
    /// Number of moves of stations that had moved before in the same tick.
    repeated_moves: AtomicU64,
    /// First of them since the last [`ForwardingTable::take_repeated_move`]: address, and the two ports above, eight bits each; 0 for none.
    repeated_move: AtomicU64,
    /// Routes of stations with consecutive addresses: a range of ports, [`GROUP`] and a group, or [`NOWHERE`]. Route sets follow one
    /// another, each with all stations.
    routed: Vec<u16>,
    routed_from: u64,
    stations: u64,
    /// Start of the active route set in `routed`.
    used: AtomicU64,
    /// Sets of equal-cost ports that are no range.
    groups: Vec<Box<[PortId]>>,
}

/// Version of the table and of its clock, for caches of lookups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FdbVersion {
    /// Number of changes to the table.
    pub(crate) changes: u64,
    /// [Tick](AgeingClock) of the ageing clock.
    pub(crate) tick: u64,
}

/// Learning at one port. The control thread corrects the number of stations ([`ForwardingTable::count_stations`]); lcores only approximate it.
#[derive(Debug)]
struct PortStations {
    stations: AtomicU32,
    /// Maximum of `stations`.
    stations_max: AtomicU32,
    /// Number of frames whose sources were not learned, because of the maximum or the share.
    refused: AtomicU64,
    /// Number of stations that moved to the port.
    moves: AtomicU64,
}

/// Learned stations of a port, and events since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StationCounters {
    /// Learned stations that have not aged, as last counted, and those learned since.
    pub stations: u32,
    /// Frames whose sources were not learned, as the port had its maximum of stations, or its share of a full table. A flooded
    /// frame counts twice.
    pub refused: u64,
    /// Stations that moved to the port from another one.
    pub moves: u64,
}

/// Move of a station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacMove {
    /// Address of the station.
    pub station: MacAddr,
    /// Port at which the station was heard before.
    pub from: PortId,
    /// Port to which it returned.
    pub to: PortId,
}

/// Key of an entry: an address, and with VLANs the index of the VLAN, since each VLAN learns independently (802.1Q 8.8.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FdbKey(u64);

impl FdbKey {
    /// Returns the key of an address in a VLAN, by the VLAN's index; index 0 is that of a switch without VLANs.
    #[inline]
    pub(crate) fn in_vlan(index: u8, address: MacAddr) -> FdbKey {
        FdbKey(u64::from(index) << VLAN_MASK.trailing_zeros() | address.to_u64())
    }

    /// Returns the key as a number.
    #[inline]
    pub(crate) fn to_u64(self) -> u64 {
        self.0
    }
}

impl From<MacAddr> for FdbKey {
    #[inline]
    fn from(address: MacAddr) -> FdbKey {
        FdbKey(address.to_u64())
    }
}

/// Entry of the table that has not aged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FdbEntry {
    /// Address of the station.
    pub address: MacAddr,
    /// Index of the VLAN; 0 without VLANs.
    pub vlan_index: u8,
    /// Port behind which the station is.
    pub port: PortId,
    /// Whether the address is configured, not learned.
    pub is_static: bool,
}

/// Location of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination<'t> {
    /// Port behind which the station is.
    Port(PortId),
    /// Ports of equal cost: a flow takes one and keeps to it.
    AnyOf(&'t [PortId]),
}

/// Entries of addresses with equal hashes: one cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Bucket([Entry; BUCKET_ENTRIES]);

#[derive(Debug, Default)]
struct Entry {
    /// Address in the low 48 bits, port above, with VLANs the VLAN's index in [`VLAN_MASK`], and [`CACHED`] and [`MOVED`]; 0 is empty,
    /// since no station has address 0.
    word: AtomicU64,
    /// [Tick](AgeingClock) when the station was last heard; [`STATIC`] for a static entry.
    heard: AtomicU64,
}

/// Ageing clock. Its ticks are coarse, so that an entry is refreshed once a tick and not with each packet.
#[derive(Clone, Copy, Debug)]
struct AgeingClock {
    /// Binary logarithm of a tick's picoseconds. A tick is at most a 256th of the ageing time.
    shift: u32,
    /// Ageing time in ticks, rounded so that an entry ages after its time, and less than 1 % of it later.
    ageing: u64,
}

impl PortStations {
    /// Returns whether the port has its maximum of stations, and counts the frame of a new one.
    #[inline]
    fn refuses(&self) -> bool {
        self.refuses_above(self.stations_max.load(Ordering::Relaxed))
    }

    #[inline]
    fn refuses_above(&self, stations_max: u32) -> bool {
        let is_full = self.stations.load(Ordering::Relaxed) >= stations_max;
        if is_full {
            self.refused.store(self.refused.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        is_full
    }
}

impl AgeingClock {
    fn new(ageing: Span) -> AgeingClock {
        let shift = (ageing.as_picos() / 256).max(1).ilog2();
        // The tick of the last packet may have been about to end.
        AgeingClock { shift, ageing: (ageing.as_picos() >> shift) + 2 }
    }

    #[inline]
    fn tick(self, now: Time) -> u64 {
        now.as_picos() >> self.shift
    }

    /// Returns whether an entry last heard in tick `heard` has not aged.
    #[inline]
    fn is_current(self, heard: u64, now: Time) -> bool {
        heard == STATIC || self.tick(now).saturating_sub(heard) < self.ageing
    }
}

const BUCKET_ENTRIES: usize = 4;
const _: () = assert!(BUCKET_ENTRIES == 4, "two bits of a rank");
/// Entries per station of the capacity: at capacity, fewer than 1 % of stations find their buckets full.
const ENTRIES_PER_STATION: usize = 4;
/// Sets of an lcore's cache per bucket; both take a cache line.
const CACHE_SETS_PER_BUCKET: usize = 2;
const STATIC: u64 = u64::MAX;
const ADDRESS_BITS: u32 = 48;
const ADDRESS_MASK: u64 = (1 << ADDRESS_BITS) - 1;
/// Bits of a VLAN's index, in a table with VLANs. Ports then have the 6 bits below: lcores run at most 64.
const VLAN_MASK: u64 = 0xff << (ADDRESS_BITS + 6);
/// Flag of an entry of which an lcore may have cached a route. If such an entry is replaced or moves, cached routes are outdated.
const CACHED: u64 = 1 << 63;
/// Flag of an entry that moved in its last tick. Its routes are not cached, so that a flapping station outdates caches once a tick at most.
const MOVED: u64 = 1 << 62;
/// Mark of a port set that is no range; the other bits are the index of a group.
const GROUP: u16 = 1 << 15;
const NOWHERE: u16 = u16::MAX;
/// Width of a port range's length, in the lower bits; the first port is in the upper ones.
const COUNT_BITS: u32 = 7;
const PORTS_MAX: usize = 1 << (COUNT_BITS - 1);
/// Table of all port numbers, so that a range of ports is a slice of it, which stays in the cache for any routes.
static PORTS: [PortId; PORTS_MAX] = {
    let mut ports = [PortId(0); PORTS_MAX];
    let mut port = 0;
    while port < PORTS_MAX {
        ports[port] = PortId(port as u16);
        port += 1;
    }
    ports
};

fn is_range(ports: &[u16]) -> bool {
    ports.windows(2).all(|pair| pair[0] + 1 == pair[1])
        && ports.last().is_some_and(|last| usize::from(*last) < PORTS_MAX)
}

impl ForwardingTable {
    /// Returns a table for at least `capacity` addresses. A learned address ages out after `ageing`, or up to 1 % later.
    pub fn new(capacity: usize, ageing: Span) -> ForwardingTable {
        let buckets = (0..ForwardingTable::buckets_for(capacity)).map(|_| Default::default()).collect();
        ForwardingTable {
            key_mask: ADDRESS_MASK,
            buckets,
            clock: AgeingClock::new(ageing),
            version: CachePadded::default(),
            replaced: AtomicU64::new(0),
            ports: Box::default(),
            share: 0,
            repeated_moves: AtomicU64::new(0),
            repeated_move: AtomicU64::new(0),
            routed: Vec::new(),
            routed_from: 0,
            stations: 0,
            used: AtomicU64::new(0),
            groups: Vec::new(),
        }
    }

    /// Returns the table with learning counted for these ports. Each has a maximum of learned stations, or none.
    pub fn with_ports(self, stations_max: impl Iterator<Item = Option<u32>>) -> ForwardingTable {
        let port = |max: Option<u32>| PortStations {
            stations: AtomicU32::new(0),
            stations_max: AtomicU32::new(max.unwrap_or(u32::MAX)),
            refused: AtomicU64::new(0),
            moves: AtomicU64::new(0),
        };
        let ports: Box<[PortStations]> = stations_max.map(port).collect();
        let share = self.buckets.len() / ports.len().max(1);
        ForwardingTable { ports, share: share as u32, ..self }
    }

    /// Sets a port's maximum of learned stations, or none. Stations that it already has stay.
    pub fn set_stations_max(&self, port: PortId, stations_max: Option<u32>) {
        self.ports[port.index()].stations_max.store(stations_max.unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    /// Returns a port's learned stations, and events since the start.
    pub fn station_counters(&self, port: PortId) -> StationCounters {
        self.ports.get(port.index()).map_or_else(StationCounters::default, |port| StationCounters {
            stations: port.stations.load(Ordering::Relaxed),
            refused: port.refused.load(Ordering::Relaxed),
            moves: port.moves.load(Ordering::Relaxed),
        })
    }

    /// Counts the learned stations of each port, from the control thread: about once a second, since aged ones count until then.
    pub fn count_stations(&self, now: Time) {
        let mut counts = vec![0; self.ports.len()];
        for entry in self.current_entries(now) {
            if let Some(count) = counts.get_mut(entry.port.index()).filter(|_| !entry.is_static) {
                *count += 1;
            }
        }
        self.ports.iter().zip(counts).for_each(|(port, count)| port.stations.store(count, Ordering::Relaxed));
    }

    /// Returns the number of moves of stations that had moved before in the same 256th of the ageing time, and takes the first of them since
    /// the last call. Simultaneous ones of several lcores may count as one.
    pub fn take_repeated_move(&self) -> (u64, Option<MacMove>) {
        let held = self.repeated_move.swap(0, Ordering::Relaxed);
        let port = |shift: u32| PortId((held >> shift & 0xff) as u16);
        let repeated_move = (held != 0).then(|| MacMove {
            station: MacAddr::from_u64(held),
            from: port(ADDRESS_BITS),
            to: port(ADDRESS_BITS + 8),
        });
        (self.repeated_moves.load(Ordering::Relaxed), repeated_move)
    }

    /// Returns an empty table whose keys have VLANs, for a switch of at most 64 ports.
    pub(crate) fn with_vlans(self) -> ForwardingTable {
        ForwardingTable { key_mask: ADDRESS_MASK | VLAN_MASK, ..self }
    }

    /// Sets the routes of stations: each has several ports of equal cost, one, or none. The first station has the address `first`, each
    /// further one the next address. Other entries of these stations are ignored.
    ///
    /// # Panics
    /// If there are more than 32,768 different sets of several ports.
    pub fn set_routes<'r>(&mut self, first: MacAddr, ports: impl Iterator<Item = &'r [u16]>) {
        self.routed.clear();
        self.groups.clear();
        self.enter_routes(ports);
        (self.routed_from, self.stations) = (first.to_u64(), self.routed.len() as u64);
        *self.used.get_mut() = 0;
    }

    /// Adds a set of routes to the stations of [`ForwardingTable::set_routes`]. Select it by its number with
    /// [`ForwardingTable::use_routes`]: the set of `set_routes` is 0, the first added one is 1.
    ///
    /// # Panics
    /// If the set has another number of stations, or there are more than 32,768 different sets of several ports.
    pub fn add_routes<'r>(&mut self, ports: impl Iterator<Item = &'r [u16]>) {
        let before = self.routed.len();
        self.enter_routes(ports);
        assert_eq!((self.routed.len() - before) as u64, self.stations, "a route set has a route for each station");
    }

    /// Selects the route set that frames take from now on.
    ///
    /// # Panics
    /// If there is no such set.
    pub fn use_routes(&self, set: usize) {
        let begins = set as u64 * self.stations;
        assert!(begins + self.stations <= self.routed.len() as u64, "route set {set} does not exist");
        self.used.store(begins, Ordering::Relaxed);
        self.bump_version();
    }

    fn enter_routes<'r>(&mut self, ports: impl Iterator<Item = &'r [u16]>) {
        self.routed.reserve_exact(ports.size_hint().0);
        // Neighbouring stations mostly have the same ports.
        let (mut last, mut place) = (&[][..], NOWHERE);
        for ports in ports {
            if ports != last {
                (last, place) = (ports, self.place_of(ports));
            }
            self.routed.push(place);
        }
    }

    /// Returns the code of a port set in `routed`.
    fn place_of(&mut self, ports: &[u16]) -> u16 {
        match ports {
            [] => NOWHERE,
            // Single ports too: a branch on several ports would be mispredicted, as their order is nearly random.
            [first, ..] if is_range(ports) => first << COUNT_BITS | ports.len() as u16,
            several => {
                let several: Box<[PortId]> = several.iter().copied().map(PortId).collect();
                let known = self.groups.iter().position(|group| *group == several);
                let group = known.unwrap_or_else(|| {
                    self.groups.push(several);
                    self.groups.len() - 1
                });
                assert!(group < usize::from(NOWHERE & !GROUP), "too many different sets of ports");
                GROUP | group as u16
            }
        }
    }

    /// Returns the version of lookups. While it stays the same, no cached (`mark_cached`) station has moved or been removed.
    ///
    /// Acquire: pairs with the Release after a change, so that the next lookup is no older.
    #[inline]
    pub(crate) fn version_at(&self, now: Time) -> FdbVersion {
        FdbVersion { changes: self.version.load(Ordering::Acquire), tick: self.clock.tick(now) }
    }

    /// Returns the number of sets of an lcore's cache of routes. With a route per station of the capacity, one in ten finds its set full.
    pub(crate) fn cache_sets(&self) -> usize {
        self.buckets.len() * CACHE_SETS_PER_BUCKET
    }

    /// Returns the bytes of a table for this number of stations, and those of an lcore's cache of routes.
    pub fn memory(stations: u32) -> (Bytes, Bytes) {
        let buckets = ForwardingTable::buckets_for(stations as usize);
        let bytes = |sets: usize| Bytes::new((sets * size_of::<Bucket>()) as u64);
        (bytes(buckets), bytes(buckets * CACHE_SETS_PER_BUCKET))
    }

    fn buckets_for(capacity: usize) -> usize {
        (capacity * ENTRIES_PER_STATION / BUCKET_ENTRIES).max(1).next_power_of_two()
    }

    /// Returns the number of stations that were replaced, before they aged, because their buckets were full. Replacements by several lcores
    /// at once may count as one.
    pub fn replaced(&self) -> u64 {
        self.replaced.load(Ordering::Relaxed)
    }

    /// Increments the version after a cached entry was replaced or removed.
    #[inline]
    fn bump_version(&self) {
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Prefetches the routes, up to 32 cache lines of them.
    #[inline]
    pub(crate) fn prefetch(&self) {
        const LINE: usize = 64 / size_of::<u16>();
        const LINES_MAX: usize = 32;
        let used = self.used.load(Ordering::Relaxed) as usize;
        let lines = (self.stations as usize).div_ceil(LINE).min(LINES_MAX);
        (0..lines).for_each(|line| prefetch_index(&self.routed, used + line * LINE));
    }

    /// Adds a static address; `false` if its bucket is full of static ones.
    pub(crate) fn insert_static(&self, station: impl Into<FdbKey>, port: PortId) -> bool {
        let FdbKey(key) = station.into();
        let bucket = self.bucket(key);
        let free = bucket.iter().find(|entry| entry.heard.load(Ordering::Relaxed) != STATIC);
        let Some(entry) = free else { return false };
        entry.word.store(word(key, port), Ordering::Relaxed);
        entry.heard.store(STATIC, Ordering::Relaxed);
        self.bump_version();
        true
    }

    /// Adds a static address from a control thread, while lcores learn and look up; `false` if its bucket is full of static ones.
    ///
    /// An lcore that has just chosen the same slot for an address that it learns may overwrite the entry. Once each lcore has ended its
    /// current burst, none does any more. Then check [`ForwardingTable::has_static`], and add the address again if it is gone.
    pub fn enter_static(&self, station: impl Into<FdbKey>, port: PortId) -> bool {
        let FdbKey(key) = station.into();
        let known = |entry: &&Entry| self.is_of(entry.word.load(Ordering::Relaxed), key);
        let mut entries = self.bucket(key).iter().filter(known);
        let Some(first) = entries.next() else { return self.insert_static(FdbKey(key), port) };
        first.word.store(word(key, port), Ordering::Relaxed);
        first.heard.store(STATIC, Ordering::Relaxed);
        // Two lcores may have learned it at once.
        entries.for_each(|entry| entry.word.store(0, Ordering::Relaxed));
        self.bump_version();
        true
    }

    /// Whether an address is static behind this port.
    pub fn has_static(&self, station: impl Into<FdbKey>, port: PortId) -> bool {
        let FdbKey(key) = station.into();
        self.bucket(key).iter().any(|entry| {
            let (held, heard) = (entry.word.load(Ordering::Relaxed), entry.heard.load(Ordering::Relaxed));
            held & !(CACHED | MOVED) == word(key, port) && heard == STATIC
        })
    }

    /// Removes a static address, from a control thread; `false` if there is none. Its frames are flooded until it is learned.
    pub fn remove_static(&self, station: impl Into<FdbKey>) -> bool {
        let FdbKey(key) = station.into();
        let is_it = |entry: &&Entry| {
            entry.heard.load(Ordering::Relaxed) == STATIC && self.is_of(entry.word.load(Ordering::Relaxed), key)
        };
        let Some(entry) = self.bucket(key).iter().find(is_it) else { return false };
        // Lcores do not touch the entry until the second store.
        entry.word.store(0, Ordering::Relaxed);
        entry.heard.store(0, Ordering::Relaxed);
        self.bump_version();
        true
    }

    /// Prefetches the bucket of an address, given as [a number](MacAddr::to_u64).
    #[inline]
    pub(crate) fn prefetch_address(&self, address: u64) {
        prefetch_index(&self.buckets, self.bucket_of(address));
    }

    /// Learns that `address` is behind `port`.
    #[inline]
    pub fn learn(&self, address: MacAddr, port: PortId, now: Time) {
        self.learn_number(address.to_u64(), port, now);
    }

    /// [`ForwardingTable::learn`] of a [key](FdbKey) as a number. Returns whether the station was already known, at this port
    /// and in this tick, or is static: only then routes from it may be cached.
    #[inline(always)]
    pub(crate) fn learn_number(&self, address: u64, port: PortId, now: Time) -> bool {
        let tick = self.clock.tick(now);
        let bucket = self.bucket(address);
        for entry in bucket {
            let held = entry.word.load(Ordering::Relaxed);
            if !self.is_of(held, address) {
                continue;
            }
            let heard = entry.heard.load(Ordering::Relaxed);
            // Written when it changes and once a tick, not once a packet: other lcores read this cache line.
            let is_known = heard == tick && self.port_of(held) == port || heard == STATIC;
            if !is_known {
                self.learn_again(entry, held, address, port, tick);
            }
            return is_known;
        }
        self.learn_new(bucket, address, port, tick);
        false
    }

    #[cold]
    fn learn_again(&self, entry: &Entry, mut held: u64, address: u64, port: PortId, tick: u64) {
        let heard = entry.heard.load(Ordering::Relaxed);
        // A station that has aged no longer counts at its former port.
        let is_aged = tick.saturating_sub(heard) >= self.clock.ageing;
        // No station has address 0: an empty entry was found.
        while self.is_of(held, address) && address != 0 {
            let moves = self.port_of(held) != port;
            if (moves || is_aged) && self.ports.get(port.index()).is_some_and(PortStations::refuses) {
                return;
            }
            let word = if moves { word(address, port) | MOVED } else { held & !MOVED };
            match entry.word.compare_exchange_weak(held, word, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    entry.heard.store(tick, Ordering::Relaxed);
                    if is_aged {
                        self.add_station(port);
                    } else if moves {
                        self.count_move(address, self.port_of(held), port, held & MOVED != 0 && heard == tick);
                    }
                    if moves && held & CACHED != 0 {
                        self.bump_version();
                    }
                    return;
                }
                Err(changed) => held = changed,
            }
        }
    }

    /// Counts a station that is learned at a port.
    fn add_station(&self, port: PortId) {
        if let Some(port) = self.ports.get(port.index()) {
            port.stations.store(port.stations.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
    }

    fn remove_station(&self, port: PortId) {
        if let Some(port) = self.ports.get(port.index()) {
            port.stations.store(port.stations.load(Ordering::Relaxed).saturating_sub(1), Ordering::Relaxed);
        }
    }

    fn count_move(&self, address: u64, from: PortId, to: PortId, is_repeated: bool) {
        self.remove_station(from);
        self.add_station(to);
        if let Some(port) = self.ports.get(to.index()) {
            port.moves.store(port.moves.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        if is_repeated {
            self.repeated_moves.fetch_add(1, Ordering::Relaxed);
            let ports = u64::from(to.0 as u8) << (ADDRESS_BITS + 8) | u64::from(from.0 as u8) << ADDRESS_BITS;
            let word = ports | address & ADDRESS_MASK;
            let _ = self.repeated_move.compare_exchange(0, word, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    #[cold]
    fn learn_new(&self, bucket: &[Entry; BUCKET_ENTRIES], address: u64, port: PortId, tick: u64) {
        let own = self.ports.get(port.index());
        if own.is_some_and(PortStations::refuses) {
            return;
        }
        let (mut oldest, mut highest) = (&bucket[0], (0, 0, 0));
        for (n, entry) in bucket.iter().enumerate() {
            let (held, heard) = (entry.word.load(Ordering::Relaxed), entry.heard.load(Ordering::Relaxed));
            let order = n as u64 ^ (address % BUCKET_ENTRIES as u64);
            let rank = match (held, heard) {
                (_, STATIC) => continue,
                // The first of several free ones, where it is found soonest.
                (0, _) => u64::MAX - n as u64,
                // Any of several equally old ones.
                (_, heard) => (tick.saturating_sub(heard) + 1) << 3 | u64::from(held & CACHED == 0) << 2 | order,
            };
            if rank > highest.0 {
                (oldest, highest) = (entry, (rank, held, heard));
            }
        }
        let (entry, (rank, held, heard)) = (oldest, highest);
        let had_station = held != 0 && tick.saturating_sub(heard) < self.clock.ageing;
        if had_station && own.is_some_and(|own| own.refuses_above(self.share)) {
            return;
        }
        // If another lcore took the entry in between, the station's next frame is learned. SeqCst, also of the loads below: of two lcores
        // that enter an address at once, one sees the other's entry.
        if rank == 0
            || address & ADDRESS_MASK == 0
            || entry.word.compare_exchange(held, word(address, port), Ordering::SeqCst, Ordering::Relaxed).is_err()
        {
            return;
        }
        entry.heard.store(tick, Ordering::Relaxed);
        if had_station {
            self.replaced.store(self.replaced.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            self.remove_station(self.port_of(held));
        }
        self.add_station(port);
        let is_again = |other: &&Entry| self.is_of(other.word.load(Ordering::SeqCst), address);
        // Also of a station that has aged: an lcore may have heard it again, and cached its route, since its time was read.
        if held & CACHED != 0 || bucket.iter().filter(is_again).count() > 1 {
            self.bump_version();
        }
    }

    /// Marks the entries of two stations as cached; returns whether the route between them may be cached: each was heard again in a later
    /// tick than its last move, the source is behind `port`, and the destination behind `to`. Routes of static stations need no mark.
    #[inline(never)]
    pub(crate) fn mark_cached(&self, (source, port): (u64, PortId), (destination, to): (u64, PortId)) -> bool {
        let mark = |address, port| {
            let entry =
                self.bucket(address).iter().find(|entry| self.is_of(entry.word.load(Ordering::Relaxed), address));
            entry.is_some_and(|entry| {
                let held = entry.word.load(Ordering::Relaxed);
                let is_there =
                    held != 0 && self.is_of(held, address) && self.port_of(held) == port && held & MOVED == 0;
                // A thread that replaces the entry finds the flag, or makes this fail.
                let sets_mark = |held| {
                    entry.word.compare_exchange(held, held | CACHED, Ordering::Relaxed, Ordering::Relaxed).is_ok()
                };
                entry.heard.load(Ordering::Relaxed) == STATIC || is_there && (held & CACHED != 0 || sets_mark(held))
            })
        };
        mark(destination, to) && mark(source, port)
    }

    /// Returns the location of `address`; `None` if it is unknown or has aged.
    #[inline(always)]
    pub fn lookup(&self, address: MacAddr, now: Time) -> Option<Destination<'_>> {
        self.lookup_number(address.to_u64(), now)
    }

    /// [`ForwardingTable::lookup`] of a [key](FdbKey) as a number.
    #[inline(always)]
    pub(crate) fn lookup_number(&self, address: u64, now: Time) -> Option<Destination<'_>> {
        let routed = address.wrapping_sub(self.routed_from);
        if routed < self.stations {
            return self.place(self.routed[(self.used.load(Ordering::Relaxed) + routed) as usize]);
        }
        for entry in self.bucket(address) {
            let held = entry.word.load(Ordering::Relaxed);
            if self.is_of(held, address) {
                let heard = entry.heard.load(Ordering::Relaxed);
                if self.clock.is_current(heard, now) && held != 0 {
                    return Some(Destination::Port(self.port_of(held)));
                }
            }
        }
        None
    }

    #[inline]
    fn place(&self, place: u16) -> Option<Destination<'_>> {
        match place {
            NOWHERE => None,
            range if range & GROUP == 0 => {
                let (first, count) = (range >> COUNT_BITS, range & ((1 << COUNT_BITS) - 1));
                Some(Destination::AnyOf(&PORTS[usize::from(first)..][..usize::from(count)]))
            }
            group => Some(Destination::AnyOf(&self.groups[usize::from(group & !GROUP)])),
        }
    }

    /// Returns all entries that have not aged, without routes.
    pub fn entries(&self, now: Time) -> Vec<FdbEntry> {
        self.current_entries(now).collect()
    }

    fn current_entries(&self, now: Time) -> impl Iterator<Item = FdbEntry> {
        self.buckets.iter().flat_map(|bucket| &bucket.0).filter_map(move |entry| {
            let (held, heard) = (entry.word.load(Ordering::Relaxed), entry.heard.load(Ordering::Relaxed));
            (held != 0 && self.clock.is_current(heard, now)).then(|| FdbEntry {
                address: MacAddr::from_u64(held & ADDRESS_MASK),
                vlan_index: ((held & self.key_mask & VLAN_MASK) >> VLAN_MASK.trailing_zeros()) as u8,
                port: self.port_of(held),
                is_static: heard == STATIC,
            })
        })
    }

    /// Removes all learned addresses, from the control thread, while lcores learn and look up. Static addresses and routes stay. Returns
    /// the number of removed addresses. Frames to them are flooded until they are learned again.
    pub fn clear_learned(&self) -> usize {
        let entries = self.buckets.iter().flat_map(|bucket| &bucket.0);
        // Only this thread adds static entries, so no entry becomes static in between.
        let learned = entries.filter(|entry| entry.heard.load(Ordering::Relaxed) != STATIC);
        let cleared = learned.filter(|entry| entry.word.swap(0, Ordering::Relaxed) != 0).count();
        self.ports.iter().for_each(|port| port.stations.store(0, Ordering::Relaxed));
        self.bump_version();
        cleared
    }

    #[inline]
    fn bucket(&self, address: u64) -> &[Entry; BUCKET_ENTRIES] {
        &self.buckets[self.bucket_of(address)].0
    }

    #[inline]
    fn bucket_of(&self, address: u64) -> usize {
        // Fibonacci hashing: the high bits of the product depend on every octet. An address has another bucket in each VLAN.
        let hash = address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 ^ address >> VLAN_MASK.trailing_zeros();
        hash as usize & (self.buckets.len() - 1)
    }

    /// Returns whether an entry has this key.
    #[inline(always)]
    fn is_of(&self, held: u64, key: u64) -> bool {
        (held ^ key) & self.key_mask == 0
    }

    #[inline(always)]
    fn port_of(&self, held: u64) -> PortId {
        PortId(((held & !(CACHED | MOVED | self.key_mask)) >> ADDRESS_BITS) as u16)
    }
}

#[inline]
fn word(address: u64, port: PortId) -> u64 {
    debug_assert!(u64::from(port.0) < MOVED >> ADDRESS_BITS);
    u64::from(port.0) << ADDRESS_BITS | address
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mac(n: u32) -> MacAddr {
        let [a, b, c, d] = n.to_be_bytes();
        MacAddr([2, 0, a, b, c, d])
    }

    fn seconds(second: u64) -> Time {
        Time::from_nanos(second * 1_000_000_000)
    }

    fn table() -> ForwardingTable {
        ForwardingTable::new(1_024, Span::from_secs(300))
    }

    #[test]
    fn learned_addresses_age_and_are_refreshed() {
        let table = table();
        table.learn(mac(1), PortId(3), seconds(0));
        assert_eq!(table.lookup(mac(1), seconds(299)), Some(Destination::Port(PortId(3))));
        assert_eq!(table.lookup(mac(1), seconds(303)), None);
        table.learn(mac(1), PortId(3), seconds(250));
        assert_eq!(table.lookup(mac(1), seconds(549)), Some(Destination::Port(PortId(3))));
        assert_eq!(table.lookup(mac(2), seconds(0)), None);
    }

    /// Covers 1 ms to eleven days: an entry ages no earlier than its time, and at most 1 % later.
    #[test]
    fn ageing_holds_to_a_hundredth_whatever_it_is() {
        for ageing in
            [Span::from_millis(1), Span::from_micros(1_999), Span::from_millis(700), Span::from_secs(1_000_000)]
        {
            let (table, hundredth) = (ForwardingTable::new(16, ageing), ageing.divided_by(100));
            for n in 0..100 {
                let heard = Time::from_nanos(7) + hundredth * n;
                table.learn(mac(n as u32 + 1), PortId(3), heard);
                let is_known = |after: Span| table.lookup(mac(n as u32 + 1), heard + after).is_some();
                assert!(is_known(ageing) && !is_known(ageing + hundredth), "{ageing}, {n}");
            }
        }
    }

    #[test]
    fn a_station_that_moves_is_found_behind_its_new_port() {
        let table = table();
        table.learn(mac(1), PortId(3), seconds(0));
        table.learn(mac(1), PortId(0), seconds(1));
        assert_eq!(table.lookup(mac(1), seconds(1)), Some(Destination::Port(PortId(0))));
        assert_eq!(table.entries(seconds(1)).len(), 1);
    }

    #[test]
    fn a_change_of_a_cached_station_makes_routes_stale() {
        let table = ForwardingTable::new(1, Span::from_secs(256));
        let address = |n: u32| mac(n).to_u64();
        let learn = |n, port, now| {
            let before = table.version_at(seconds(now)).changes;
            (
                table.learn_number(address(n), PortId(port), seconds(now)),
                table.version_at(seconds(now)).changes - before,
            )
        };
        let marks = |from, to| table.mark_cached((address(from), PortId(1)), (address(to), PortId(2)));
        assert_eq!([learn(1, 1, 1), learn(2, 2, 1), learn(2, 2, 1)], [(false, 0), (false, 0), (true, 0)]);
        assert_eq!((marks(1, 2), marks(2, 1), marks(1, 3)), (true, false, false));
        // Caches are outdated once, since the station is then not cached in this tick.
        assert_eq!([learn(2, 1, 1), learn(2, 2, 1), learn(2, 2, 1)], [(false, 1), (false, 0), (true, 0)]);
        assert!(!marks(1, 2));
        assert_eq!((learn(2, 2, 3), marks(1, 2)), ((false, 0), true));
        // The bucket is full. Of its equally old entries, those that are not cached are replaced first.
        assert_eq!([1, 3, 4, 5, 6, 7].map(|n| learn(n, 1, 3)), [(false, 0); 6]);
        assert_eq!([1, 2].map(|n| table.lookup(mac(n), seconds(3)).is_some()), [true; 2]);
        // Then the first station is the oldest.
        assert_eq!([(2, 2), (8, 3), (9, 3), (10, 3)].map(|(n, port)| learn(n, port, 5).1), [0, 0, 0, 1]);
        assert_eq!((table.lookup(mac(1), seconds(5)), marks(1, 2)), (None, false));
    }

    #[test]
    fn static_addresses_neither_move_nor_age() {
        let table = table();
        assert!(table.insert_static(mac(1), PortId(2)));
        table.learn(mac(1), PortId(0), seconds(5));
        assert_eq!(table.lookup(mac(1), seconds(1_000_000)), Some(Destination::Port(PortId(2))));
    }

    #[test]
    fn learned_addresses_are_forgotten_at_once_and_learned_again() {
        let table = table();
        assert!(table.insert_static(mac(1), PortId(2)));
        (2..5).for_each(|n| table.learn(mac(n), PortId(3), seconds(0)));
        assert_eq!((table.clear_learned(), table.clear_learned()), (3, 0));
        let left = FdbEntry { address: mac(1), vlan_index: 0, port: PortId(2), is_static: true };
        assert_eq!(table.entries(seconds(0)), [left]);
        assert_eq!(table.lookup(mac(2), seconds(0)), None);
        table.learn(mac(2), PortId(1), seconds(0));
        assert_eq!(table.lookup(mac(2), seconds(0)), Some(Destination::Port(PortId(1))));
    }

    #[test]
    fn a_full_table_forgets_the_oldest_and_keeps_the_static() {
        let table = ForwardingTable::new(1, Span::from_secs(300));
        assert!(table.insert_static(mac(0xffff), PortId(9)));
        for n in 1..=100 {
            table.learn(mac(n), PortId(1), seconds(u64::from(n)));
        }
        assert_eq!(table.lookup(mac(100), seconds(100)), Some(Destination::Port(PortId(1))));
        assert_eq!(table.lookup(mac(1), seconds(100)), None);
        assert_eq!(table.lookup(mac(0xffff), seconds(100)), Some(Destination::Port(PortId(9))));
    }

    /// A flood of new addresses from one port, more than the table holds, and from each bucket's point of view older stations of others.
    #[test]
    fn a_flood_of_addresses_leaves_others_known() {
        let table = ForwardingTable::new(64, Span::from_secs(300)).with_ports([None; 4].into_iter());
        let hosts: Vec<(MacAddr, PortId)> = (0..24u32).map(|n| (mac(n + 1), PortId(n as u16 % 3))).collect();
        hosts.iter().for_each(|(host, port)| table.learn(*host, *port, seconds(1)));
        (0..100_000).for_each(|n| table.learn(mac(0x10_0000 + n), PortId(3), seconds(2 + u64::from(n) / 1_000)));
        for (host, port) in &hosts {
            assert_eq!(table.lookup(*host, seconds(102)), Some(Destination::Port(*port)), "{host}");
        }
        assert!(table.station_counters(PortId(3)).refused > 90_000);
        // A new host is learned among them.
        table.learn(mac(99), PortId(0), seconds(102));
        assert_eq!(table.lookup(mac(99), seconds(102)), Some(Destination::Port(PortId(0))));
        let stations = |port| table.station_counters(PortId(port)).stations;
        let counted = [0, 1, 2, 3].map(stations);
        table.count_stations(seconds(102));
        assert_eq!((counted, [0, 1, 2, 3].map(stations)), ([9, 8, 8, 231], [9, 8, 8, 231]));
        table.count_stations(seconds(1_000));
        assert_eq!(stations(3), 0, "aged");
    }

    #[test]
    fn a_port_is_full_with_its_last_station() {
        let table = table().with_ports([None, Some(2)].into_iter());
        (1..=5).for_each(|n| table.learn(mac(n), PortId(1), seconds(1)));
        assert_eq!([1, 2, 3].map(|n| table.lookup(mac(n), seconds(1)).is_some()), [true, true, false]);
        // Nor does a station of another port move there.
        table.learn(mac(9), PortId(0), seconds(1));
        table.learn(mac(9), PortId(1), seconds(2));
        assert_eq!(table.lookup(mac(9), seconds(2)), Some(Destination::Port(PortId(0))));
        assert_eq!(table.station_counters(PortId(1)), StationCounters { stations: 2, refused: 4, moves: 0 });
        // A known station is refreshed; one that has aged leaves its place to another.
        table.learn(mac(1), PortId(1), seconds(200));
        table.count_stations(seconds(400));
        table.learn(mac(3), PortId(1), seconds(400));
        assert_eq!([1, 2, 3].map(|n| table.lookup(mac(n), seconds(400)).is_some()), [true, false, true]);
        table.set_stations_max(PortId(1), None);
        table.learn(mac(4), PortId(1), seconds(400));
        assert_eq!(table.station_counters(PortId(1)).stations, 3);
    }

    #[test]
    fn moves_are_counted_and_repeated_ones_reported() {
        let table = table().with_ports([None; 3].into_iter());
        let learn = |port, second| table.learn(mac(1), PortId(port), seconds(second));
        [0, 0, 1, 1].into_iter().zip([0, 10, 10, 20]).for_each(|(port, second)| learn(port, second));
        assert_eq!(table.take_repeated_move(), (0, None), "a station that moved once");
        (0..6).for_each(|n| learn(n % 2 + 1, 30));
        // It was heard at port 1 before, and moved to port 2 first.
        let last = MacMove { station: mac(1), from: PortId(2), to: PortId(1) };
        assert_eq!(table.take_repeated_move(), (4, Some(last)));
        assert_eq!(table.take_repeated_move(), (4, None));
        assert_eq!([0, 1, 2].map(|port| table.station_counters(PortId(port)).moves), [0, 3, 3]);
        assert_eq!([0, 1, 2].map(|port| table.station_counters(PortId(port)).stations), [0, 0, 1]);
    }

    #[test]
    fn most_of_the_promised_capacity_is_kept() {
        let table = table();
        (0..1_024).for_each(|n| table.learn(mac(n + 1), PortId(n as u16), seconds(1)));
        let found = (0..1_024)
            .filter(|n| table.lookup(mac(n + 1), seconds(1)) == Some(Destination::Port(PortId(*n as u16))))
            .count();
        assert!(found > 1_014, "{found} of 1024");
    }

    #[test]
    fn an_address_is_elsewhere_in_each_vlan() {
        let table = table().with_vlans();
        let ports = |n: u8| PortId(u16::from(n) % 64);
        for n in 1..=255 {
            table.learn_number(FdbKey::in_vlan(n, mac(7)).to_u64(), ports(n), seconds(1));
        }
        let places = |n| table.lookup_number(FdbKey::in_vlan(n, mac(7)).to_u64(), seconds(1));
        (1..=255).for_each(|n| assert_eq!(places(n), Some(Destination::Port(ports(n))), "VLAN {n}"));
        assert_eq!((places(0), table.entries(seconds(1)).len()), (None, 255));
        assert!(table.insert_static(FdbKey::in_vlan(255, mac(8)), PortId(63)));
        let entry = FdbEntry { address: mac(8), vlan_index: 255, port: PortId(63), is_static: true };
        assert!(table.entries(seconds(1)).contains(&entry));
        assert!(!table.has_static(FdbKey::in_vlan(254, mac(8)), PortId(63)));
        assert!(table.remove_static(FdbKey::in_vlan(255, mac(8))));
        table.learn_number(FdbKey::in_vlan(3, MacAddr::default()).to_u64(), PortId(1), seconds(1));
        assert_eq!(table.clear_learned(), 255);
    }

    #[test]
    fn address_zero_is_not_learned() {
        let table = table();
        table.learn(MacAddr::default(), PortId(1), seconds(1));
        assert_eq!(table.lookup(MacAddr::default(), seconds(1)), None);
    }

    #[test]
    fn routes_have_several_ports_and_equal_groups_are_one() {
        let mut table = table();
        let (two, three) = ([1, 3], [1, 2, 4]);
        let row: Vec<u16> = (0..64).collect();
        table.set_routes(mac(0xff), [&two[..], &three, &two, &[63], &[], &row, &row[62..]].into_iter());
        let ports = |ports: &[u16]| ports.iter().copied().map(PortId).collect::<Vec<_>>();
        assert_eq!(table.lookup(mac(0xff), seconds(0)), Some(Destination::AnyOf(&ports(&two))));
        assert_eq!(table.lookup(mac(0x100), seconds(0)), Some(Destination::AnyOf(&ports(&three))));
        assert_eq!(table.lookup(mac(0x101), seconds(0)), Some(Destination::AnyOf(&ports(&two))));
        assert_eq!(table.lookup(mac(0x102), seconds(0)), Some(Destination::AnyOf(&[PortId(63)])));
        assert_eq!(table.lookup(mac(0x104), seconds(0)), Some(Destination::AnyOf(&ports(&row))));
        assert_eq!(table.lookup(mac(0x105), seconds(0)), Some(Destination::AnyOf(&[PortId(62), PortId(63)])));
        assert_eq!((table.lookup(mac(0x103), seconds(0)), table.groups.len()), (None, 2));
        table.learn(mac(0xfe), PortId(4), seconds(0));
        table.learn(mac(0x106), PortId(5), seconds(0));
        let (other, none): ([&[u16]; 7], [&[u16]; 1]) = ([&[9], &[], &[9], &[9], &[9], &two, &[9]], [&[]]);
        table.add_routes(other.into_iter());
        table.use_routes(1);
        assert_eq!(table.lookup(mac(0xff), seconds(0)), Some(Destination::AnyOf(&[PortId(9)])));
        assert_eq!((table.lookup(mac(0x100), seconds(0)), table.groups.len()), (None, 2));
        assert_eq!(table.lookup(mac(0x104), seconds(0)), Some(Destination::AnyOf(&ports(&two))));
        assert_eq!(table.lookup(mac(0x106), seconds(0)), Some(Destination::Port(PortId(5))), "beyond the last station");
        table.use_routes(0);
        assert_eq!(table.lookup(mac(0xff), seconds(0)), Some(Destination::AnyOf(&ports(&two))));
        let too_few = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| table.add_routes(none.into_iter())));
        assert!(too_few.is_err());
        let neighbours = [0xfe, 0x106].map(|n| table.lookup(mac(n), seconds(0)));
        assert_eq!(neighbours, [4, 5].map(|port| Some(Destination::Port(PortId(port)))));
    }
}
