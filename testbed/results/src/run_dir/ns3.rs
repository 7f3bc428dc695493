//! `fct.txt`, `pfc.txt` and `qlen.txt`: results in the formats of the public HPCC simulator and its descendants.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use weir_units::{Bytes, Span, Time};

/// Writer of `fct.txt`, `pfc.txt` and `qlen.txt`. [`Ns3Nodes`] numbers the nodes. Interfaces of a node are numbered from 1.
///
/// | file | lines |
/// |---|---|
/// | `fct.txt` | `sip dip sport dport size start_ns fct_ns standalone_ns` for each completed message; addresses in hexadecimal, 0x0b000001 + 256 n of node n |
/// | `pfc.txt` | `time_ns node nodetype ifindex type` for each change of a pause, when its frame reaches the paused node: node type 0 is a host, 1 a switch; type 1 pauses, 0 resumes. A frame for several classes has a line for each; pause refreshes, GFC stages and credit have none |
/// | `qlen.txt` | `time: NS`, and then for each switch port `node ifindex n0 n1 n2 ...`: numbers of samples so far with 0 to below 1 KB (1000 B), 1 to below 2 KB and so on in its egress queues; at each 100 ms and at the end |
///
/// Differences from the simulators: `standalone_ns` is the time in an empty fabric, with each link's rate, store and forward, and
/// the acknowledgement; queues are sampled with the scenario's series. `pfc.txt` includes frames lost to an injected fault.
pub struct Ns3Files<W: Write> {
    fct: W,
    pauses: Ns3Pauses<W>,
    qlen: W,
    /// Samples by node and interface, and length in KB.
    lengths: BTreeMap<(usize, usize), Vec<u64>>,
    lengths_at: Time,
}

/// Writes `pfc.txt`, see [`Ns3Files`].
pub struct Ns3Pauses<W: Write> {
    pfc: W,
    /// Pauses that have not reached their node yet.
    in_flight: Vec<(Time, [usize; 4])>,
}

impl<W: Write> Ns3Pauses<W> {
    /// Creates the writer of `pfc.txt`.
    pub fn new(pfc: W) -> Ns3Pauses<W> {
        Ns3Pauses { pfc, in_flight: Vec::new() }
    }

    /// Queues the arrival of a pause or resume frame at a node's interface.
    pub fn pause(&mut self, arrives: Time, node: usize, is_switch: bool, interface: usize, is_pause: bool) {
        self.in_flight.push((arrives, [node, usize::from(is_switch), interface, usize::from(is_pause)]));
    }

    /// Advances to `now`, and writes the pauses that have arrived by then.
    pub fn advance(&mut self, now: Time) -> io::Result<()> {
        // Stable: of frames that arrive at one instant, the first to be sent is first.
        self.in_flight.sort_by_key(|(arrives, _)| *arrives);
        let arrived = self.in_flight.partition_point(|(arrives, _)| *arrives <= now);
        for (at, [node, kind, interface, is_pause]) in self.in_flight.drain(..arrived) {
            writeln!(self.pfc, "{} {node} {kind} {interface} {is_pause}", at.as_nanos())?;
        }
        Ok(())
    }

    /// Flushes the buffered lines.
    pub fn flush(&mut self) -> io::Result<()> {
        self.pfc.flush()
    }
}

/// Numbers of the nodes. If all names are a letter H or S and a number, and no two nodes share a number, these are the numbers, as
/// in an imported topology; H5-2 is another NIC of node 5. Otherwise hosts are numbered from 0, then switches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ns3Nodes {
    /// Node and interface of each host and further port, in the order of the scenario.
    pub hosts: Vec<[usize; 2]>,
    /// Numbers of the switches.
    pub switches: Vec<usize>,
}

impl Ns3Nodes {
    /// Numbers a scenario's hosts and switches by their names. `hosts` has each host and further port, with the number of the port at
    /// its host, from 0.
    pub fn from_names(hosts: &[(&str, usize)], switches: &[&str]) -> Ns3Nodes {
        let number = |name: &str, letter: char| name.strip_prefix(letter)?.parse().ok().filter(|n| *n < 1 << 16);
        let host = |(name, port): &(&str, usize)| match name.split_once('-') {
            Some((node, nic)) => Some([number(node, 'H')?, nic.parse::<usize>().ok()? + port]),
            None => Some([number(name, 'H')?, port + 1]),
        };
        let named: Option<Vec<[usize; 2]>> = hosts.iter().map(host).collect();
        let named_switches: Option<Vec<usize>> = switches.iter().map(|name| number(name, 'S')).collect();
        if let Some((hosts, switches)) = named.zip(named_switches) {
            let mut all: Vec<usize> = hosts.iter().filter(|[_, nic]| *nic == 1).map(|[node, _]| *node).collect();
            all.extend(&switches);
            all.sort();
            if all.windows(2).all(|pair| pair[0] < pair[1]) {
                return Ns3Nodes { hosts, switches };
            }
        }
        let firsts = hosts.iter().filter(|(_, port)| *port == 0).map(|(name, _)| *name);
        let numbers: HashMap<&str, usize> = firsts.zip(0..).collect();
        let count = numbers.len();
        let hosts = hosts.iter().map(|(name, port)| [numbers[name], port + 1]).collect();
        Ns3Nodes { hosts, switches: (count..count + switches.len()).collect() }
    }
}

/// Completed message.
#[derive(Clone, Copy, Debug)]
pub struct Ns3Message {
    /// Number of the sending host.
    pub from: usize,
    /// Number of the receiving host.
    pub to: usize,
    /// Port numbers of the connection.
    pub ports: [u16; 2],
    /// Payload.
    pub size: Bytes,
    /// Instant at which the message was handed to the NIC.
    pub start: Time,
    /// Flow completion time.
    pub fct: Span,
    /// Flow completion time in an empty fabric.
    pub standalone: Span,
}

/// Interval between reports in `qlen.txt`.
const LENGTHS_EVERY: Span = Span::from_millis(100);
/// Bin width in `qlen.txt`: 1 KB.
const LENGTH_BIN: u64 = 1_000;

impl<W: Write> Ns3Files<W> {
    /// Creates the writer of `fct.txt`, `pfc.txt` and `qlen.txt`.
    pub fn new(fct: W, pfc: W, qlen: W) -> Ns3Files<W> {
        let lengths_at = Time::ZERO + LENGTHS_EVERY;
        Ns3Files { fct, pauses: Ns3Pauses::new(pfc), qlen, lengths: BTreeMap::new(), lengths_at }
    }

    /// Adds a message.
    pub fn message(&mut self, message: &Ns3Message) -> io::Result<()> {
        let Ns3Message { from, to, ports: [sport, dport], size, start, fct, standalone } = message;
        let address = |node: usize| 0x0b00_0001 + 256 * node;
        writeln!(
            self.fct,
            "{:08x} {:08x} {sport} {dport} {} {} {} {}",
            address(*from),
            address(*to),
            size.get(),
            start.as_nanos(),
            fct.as_nanos(),
            standalone.as_nanos()
        )
    }

    /// Returns the writer of pauses.
    pub fn pauses(&mut self) -> &mut Ns3Pauses<W> {
        &mut self.pauses
    }

    /// Advances to `now`, and writes the pauses that have arrived and the reports due by then.
    pub fn advance(&mut self, now: Time) -> io::Result<()> {
        self.pauses.advance(now)?;
        while self.lengths_at <= now {
            self.write_lengths(self.lengths_at)?;
            self.lengths_at += LENGTHS_EVERY;
        }
        Ok(())
    }

    /// Adds a sample of the queue at a switch's interface.
    pub fn queue(&mut self, node: usize, interface: usize, length: Bytes) {
        let counts = self.lengths.entry((node, interface)).or_default();
        let bin = (length.get() / LENGTH_BIN) as usize;
        counts.resize(counts.len().max(bin + 1), 0);
        counts[bin] += 1;
    }

    fn write_lengths(&mut self, at: Time) -> io::Result<()> {
        writeln!(self.qlen, "time: {}", at.as_nanos())?;
        for ((node, interface), counts) in &self.lengths {
            write!(self.qlen, "{node} {interface}")?;
            counts.iter().try_for_each(|count| write!(self.qlen, " {count}"))?;
            writeln!(self.qlen)?;
        }
        Ok(())
    }

    /// Completes the files at `now`.
    pub fn finish(mut self, now: Time) -> io::Result<()> {
        self.advance(now)?;
        self.write_lengths(now)?;
        [&mut self.fct, &mut self.pauses.pfc, &mut self.qlen].into_iter().try_for_each(Write::flush)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_have_the_numbers_of_their_names() {
        let nodes = |hosts: &[(&str, usize)], switches: &[&str]| {
            let found = Ns3Nodes::from_names(hosts, switches);
            (found.hosts, found.switches)
        };
        assert_eq!(
            nodes(&[("H1", 0), ("H2", 0), ("H1-2", 0), ("H2", 1)], &["S0"]),
            (vec![[1, 1], [2, 1], [1, 2], [2, 2]], vec![0])
        );
        let counted = (vec![[0, 1], [1, 1], [0, 2], [1, 2]], vec![2, 3]);
        assert_eq!(nodes(&[("H0", 0), ("H1", 0), ("H0", 1), ("H1", 1)], &["S0", "S1"]), counted, "two have one number");
        assert_eq!(nodes(&[("client", 0), ("H7", 0)], &["S9"]), (vec![[0, 1], [1, 1]], vec![2]));
    }

    #[test]
    fn lines_are_as_scripts_read_them() {
        let [mut fct, mut pfc, mut qlen] = [Vec::new(), Vec::new(), Vec::new()];
        let mut files = Ns3Files::new(&mut fct, &mut pfc, &mut qlen);
        let message = Ns3Message {
            from: 1,
            to: 300,
            ports: [10_000, 100],
            size: Bytes::kb(64),
            start: Time::from_nanos(2_000),
            fct: Span::from_nanos(7_500),
            standalone: Span::from_nanos(6_000),
        };
        files.message(&message).unwrap();
        files.pauses().pause(Time::from_nanos(9), 1, false, 1, true);
        files.pauses().pause(Time::from_nanos(8), 301, true, 4, false);
        files.pauses().pause(Time::from_nanos(20), 1, false, 1, false);
        files.advance(Time::from_nanos(10)).unwrap();
        for length in [0, 999, 2_000] {
            files.queue(301, 4, Bytes::new(length));
        }
        files.finish(Time::from_nanos(15)).unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        assert_eq!(text(fct), "0b000101 0b012c01 10000 100 64000 2000 7500 6000\n");
        assert_eq!(text(pfc), "8 301 1 4 0\n9 1 0 1 1\n", "what has not arrived by the end is left out");
        assert_eq!(text(qlen), "time: 15\n301 4 2 0 1\n");
    }
}
