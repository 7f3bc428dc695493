//! Probe of a host's prerequisites by a single script.

use std::net::Ipv4Addr;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProbeResult {
    pub kernel: String,
    pub programs: Vec<String>,
    /// State, MTU and address of the interface; `None` if it does not exist.
    pub interface: Option<Interface>,
    pub addresses: Vec<Ipv4Addr>,
    /// RDMA device on the interface.
    pub rdma: Option<String>,
    /// Index of the RoCEv2 GID with the host's address.
    pub gid: Option<u32>,
    /// Largest payload of a frame of the RDMA device, in bytes.
    pub active_mtu: Option<u64>,
    /// True if Soft-RoCE is loaded.
    pub has_rxe: bool,
    /// Available TCP congestion controls.
    pub tcp: Vec<String>,
    /// Value of `net.ipv4.tcp_ecn`.
    pub tcp_ecn: Option<u32>,
    /// Classes with PFC enabled at the NIC; `None` if unknown.
    pub pfc: Option<Vec<u8>>,
    /// True if the NIC classifies by DSCP; `None` if unknown.
    pub trusts_dscp: Option<bool>,
    /// True if commands run as root.
    pub is_root: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Interface {
    pub state: String,
    pub mtu: u64,
    pub mac: String,
}

/// Programs probed for.
pub(crate) const PROGRAMS: [&str; 11] = [
    "ib_write_bw",
    "ib_send_bw",
    "ib_read_bw",
    "ib_send_lat",
    "iperf3",
    "rdma",
    "ethtool",
    "nstat",
    "ss",
    "ip",
    "timeout",
];

/// Returns the script for a host with this interface and address.
pub(crate) fn script(interface: &str, rdma: Option<&str>, ip: Ipv4Addr) -> String {
    let [a, b, c, d] = ip.octets();
    let gid = format!("0000:0000:0000:0000:0000:ffff:{a:02x}{b:02x}:{c:02x}{d:02x}");
    let programs = PROGRAMS.join(" ");
    let chosen = rdma.unwrap_or("");
    format!(
        r#"export PATH=$PATH:/usr/sbin:/sbin
echo kernel $(uname -r); [ $(id -u) = 0 ] && echo root
for p in {programs}; do command -v $p > /dev/null && echo program $p; done
n=/sys/class/net/{interface}
[ -e $n ] && echo interface $(cat $n/operstate) $(cat $n/mtu) $(cat $n/address)
ip -4 -o address show dev {interface} 2>/dev/null | while read i n f a r; do echo address $a; done
[ -d /sys/module/rdma_rxe ] && echo rxe
echo tcp $(cat /proc/sys/net/ipv4/tcp_available_congestion_control)
echo ecn $(cat /proc/sys/net/ipv4/tcp_ecn)
dev={chosen}
[ -n "$dev" ] || dev=$(rdma link show 2>/dev/null | grep ' netdev {interface} *$' | head -n 1 | cut -d' ' -f2 | cut -d/ -f1)
if [ -n "$dev" ] && [ -d /sys/class/infiniband/$dev ]; then
  echo rdma $dev
  # There are a thousand. An emulated guest takes a minute where a program reads each, and half of one where the shell does, byte by byte.
  cd /sys/class/infiniband/$dev/ports/1 && for i in $(cd gids && grep -lsx {gid} *); do
    case "$(cat gid_attrs/types/$i 2>/dev/null)" in *v2*) echo gid $i;; esac
  done
  command -v ibv_devinfo > /dev/null && echo mtu $(ibv_devinfo -d $dev 2>/dev/null | grep active_mtu | head -n 1 | sed 's/[^0-9]*\([0-9]*\).*/\1/')
fi
if command -v mlnx_qos > /dev/null; then
  mlnx_qos -i {interface} 2>/dev/null | sed -n 's/.*trust state: */trust /p; s/^ *enabled */mlnxpfc /p'
elif command -v dcb > /dev/null; then
  echo pfc $(dcb pfc show dev {interface} prio-pfc 2>/dev/null)
  echo dscp $(dcb app show dev {interface} dscp-prio 2>/dev/null)
fi
true"#
    )
}

pub(crate) fn parse(output: &str) -> ProbeResult {
    let mut found = ProbeResult::default();
    for line in output.lines() {
        let (key, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        let rest = rest.trim();
        match key {
            "kernel" => found.kernel = rest.to_owned(),
            "root" => found.is_root = true,
            "program" => found.programs.push(rest.to_owned()),
            "interface" => {
                let fields: Vec<&str> = rest.split_whitespace().collect();
                if let [state, mtu, mac] = fields[..] {
                    let mtu = mtu.parse().unwrap_or(0);
                    found.interface = Some(Interface { state: state.to_owned(), mtu, mac: mac.to_owned() });
                }
            }
            "address" => found.addresses.extend(rest.split('/').next().and_then(|ip| ip.parse::<Ipv4Addr>().ok())),
            "rxe" => found.has_rxe = true,
            "tcp" => found.tcp = rest.split_whitespace().map(str::to_owned).collect(),
            "ecn" => found.tcp_ecn = rest.parse().ok(),
            "rdma" => found.rdma = Some(rest.to_owned()),
            "gid" => found.gid = found.gid.or(rest.parse().ok()),
            "mtu" => found.active_mtu = rest.parse().ok(),
            "trust" => found.trusts_dscp = Some(rest == "dscp"),
            // `enabled 0 0 0 1 0 0 0 0`, a number for each class.
            "mlnxpfc" => found.pfc = Some(enabled_classes(rest.split_whitespace().map(|on| on == "1"))),
            // `prio-pfc 0:off 1:off … 3:on`.
            "pfc" if rest.starts_with("prio-pfc") => {
                found.pfc = Some(enabled_classes(rest.split_whitespace().skip(1).map(|word| word.ends_with(":on"))));
            }
            // If the kernel has a DSCP map, the NIC uses it.
            "dscp" if rest.starts_with("dscp-prio") => found.trusts_dscp = Some(rest.split_whitespace().count() > 1),
            _ => {}
        }
    }
    found
}

fn enabled_classes(classes: impl Iterator<Item = bool>) -> Vec<u8> {
    classes.zip(0..8).filter(|(on, _)| *on).map(|(_, class)| class).collect()
}

impl ProbeResult {
    pub(crate) fn has(&self, program: &str) -> bool {
        self.programs.iter().any(|there| there == program)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_with_all_is_read() {
        let output = "kernel 6.1.0\nroot\nprogram ib_write_bw\nprogram iperf3\ninterface up 4200 02:00:00:00:00:01\n\
            address 10.0.0.1/24\nrxe\ntcp reno cubic dctcp\necn 1\nrdma mlx5_0\ngid 3\nmtu 4096\n\
            trust dscp\nmlnxpfc 0   0   0   1   0   0   0   0\n";
        let found = parse(output);
        assert!(found.has("iperf3") && !found.has("ss") && found.is_root && found.has_rxe);
        assert_eq!((found.rdma.as_deref(), found.gid, found.active_mtu), (Some("mlx5_0"), Some(3), Some(4_096)));
        assert_eq!((found.pfc, found.trusts_dscp, found.tcp_ecn), (Some(vec![3]), Some(true), Some(1)));
        let interface = found.interface.unwrap();
        assert_eq!((interface.mtu, interface.state.as_str()), (4_200, "up"));
    }

    #[test]
    fn output_of_dcb_is_read() {
        let found = parse("pfc prio-pfc 0:off 1:off 2:off 3:on 4:on 5:off 6:off 7:off\ndscp dscp-prio 26:3\n");
        assert_eq!((found.pfc, found.trusts_dscp), (Some(vec![3, 4]), Some(true)));
        let silent = parse("pfc \ndscp \n");
        assert_eq!((silent.pfc, silent.trusts_dscp), (None, None));
    }

    /// Loopback device of this machine.
    #[test]
    fn the_script_runs_in_a_plain_shell() {
        let script = script("lo", None, Ipv4Addr::LOCALHOST);
        let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        let found = parse(&String::from_utf8_lossy(&output.stdout));
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(found.addresses, [Ipv4Addr::LOCALHOST]);
        assert!(!found.kernel.is_empty() && found.interface.unwrap().mtu >= 1_500);
    }
}
