//! Check of a host at a port of the switch, by ssh: its sending in the lossless classes, and its response to PFC.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

use weir_config::SwitchConfig;
use weir_experiments::real_frames::{CheckResult, Health};

use super::lossless;

/// Script that prints the host's state, part by part: a line `@@PART INTERFACE`, then a program's output. It changes nothing.
const SCRIPT: &str = r#"
PATH=$PATH:/sbin:/usr/sbin
echo '@@tools -'
for tool in dcb ethtool ibv_devinfo ib_write_bw rdma cma_roce_tos mlnx_qos; do command -v $tool >/dev/null && echo $tool; done
if [ -z "$IFACE" ]; then
  for device in /sys/class/infiniband/*/device/net/*; do [ -e "$device" ] && IFACE="$IFACE ${device##*/}"; done
fi
for iface in $IFACE; do
  echo "@@mtu $iface"; cat /sys/class/net/$iface/mtu 2>&1
  echo "@@pfc $iface"; dcb pfc show dev $iface 2>&1
  echo "@@app $iface"; dcb app show dev $iface 2>&1
  echo "@@pause $iface"; ethtool -a $iface 2>&1
  echo "@@gid $iface"
  for device in /sys/class/infiniband/*; do
    [ -e "$device/device/net/$iface" ] && cat $device/ports/*/gid_attrs/types/* 2>/dev/null
  done
done
echo '@@end -'
"#;

/// Output of the host by part and interface, in its order.
type ScriptOutput = BTreeMap<(String, String), Vec<String>>;

/// Examines a host with the script; returns findings with advice.
pub(super) fn examine(host: &str, switch: Option<&SwitchConfig>) -> Vec<CheckResult> {
    let (address, iface) = host.split_once(':').unwrap_or((host, ""));
    let subject = format!("host {address}");
    let failed = |message: String| {
        let fix = format!("ssh-copy-id {address}, and try: ssh -o BatchMode=yes {address} true");
        vec![CheckResult::bad(Health::Error, &subject, message, fix)]
    };
    let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-@".contains(&byte));
    if address.is_empty() || address.starts_with('-') || !is_plain(address) || !is_plain(iface) {
        let message = format!("`{host}` is no host");
        return vec![CheckResult::bad(Health::Error, &subject, message, "write --host USER@NAME, or USER@NAME:IFACE")];
    }
    match ask(address, iface) {
        Ok(text) => of_host(address, &parts(&text), switch),
        Err(message) => failed(message),
    }
}

fn ask(address: &str, iface: &str) -> Result<String, String> {
    let mut ssh = Command::new("ssh");
    ssh.args(["-o", "BatchMode=yes", "-o", "ConnectTimeout=10", address, "sh", "-s"]);
    ssh.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut ssh = ssh.spawn().map_err(|error| format!("ssh can't be started: {error}"))?;
    if let Some(mut input) = ssh.stdin.take() {
        // A host that refused has closed its input; its output has the reason.
        let _ = input.write_all(format!("IFACE={iface}\n{SCRIPT}").as_bytes());
    }
    let output = ssh.wait_with_output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if text.contains("@@end") {
        return Ok(text);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let last = errors.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it breaks off");
    Err(format!("it can't be asked: {}", last.trim()))
}

fn parts(text: &str) -> ScriptOutput {
    let mut parts = ScriptOutput::new();
    let mut at = None;
    for line in text.lines() {
        if let Some((part, iface)) = line.strip_prefix("@@").and_then(|line| line.split_once(' ')) {
            at = Some((part.to_owned(), iface.to_owned()));
            parts.entry((part.to_owned(), iface.to_owned())).or_default();
        } else if let Some(at) = &at {
            parts.entry(at.clone()).or_default().push(line.to_owned());
        }
    }
    parts
}

fn of_host(address: &str, parts: &ScriptOutput, switch: Option<&SwitchConfig>) -> Vec<CheckResult> {
    let subject = format!("host {address}");
    let output = |part: &str, iface: &str| parts.get(&(part.to_owned(), iface.to_owned())).cloned().unwrap_or_default();
    let tools = output("tools", "-");
    let mut findings = Vec::new();
    for (tool, package) in
        [("dcb", "iproute2"), ("ethtool", "ethtool"), ("ibv_devinfo", "ibverbs-utils"), ("ib_write_bw", "perftest")]
    {
        if !tools.iter().any(|there| there == tool) {
            let fix = format!("ssh {address} apt-get install {package}");
            findings.push(CheckResult::bad(Health::Warning, &subject, format!("{tool} is not installed"), fix));
        }
    }
    let ifaces: Vec<&String> = parts.keys().filter(|(part, _)| part == "mtu").map(|(_, iface)| iface).collect();
    if ifaces.is_empty() {
        let fix = format!(
            "name one: --host {address}:IFACE; for RDMA without such a NIC: rdma link add rxe0 type rxe netdev IFACE"
        );
        findings.push(CheckResult::bad(Health::Warning, &subject, "no interface has RDMA", fix));
    }
    for iface in ifaces {
        let subject = format!("host {address}, {iface}");
        let run = |command: String| format!("ssh {address} {command}");
        findings.push(mtu(&subject, output("mtu", iface), iface, switch, &run));
        for (class, points) in lossless(switch) {
            findings.push(pfc(&subject, &output("pfc", iface).join(" "), iface, class, &run));
            findings.push(trust(&subject, &output("app", iface).join(" "), iface, class, &points, &run));
        }
        let pause = output("pause", iface);
        let is_on = |direction: &str| {
            pause.iter().any(|line| line.trim_start().starts_with(direction) && line.trim_end().ends_with("on"))
        };
        if is_on("RX:") || is_on("TX:") {
            let fix = run(format!("ethtool -A {iface} autoneg off rx off tx off"));
            findings.push(CheckResult::bad(
                Health::Error,
                &subject,
                "PAUSE of the whole link is on, which PFC excludes",
                fix,
            ));
        }
        let gids = output("gid", iface);
        if gids.iter().any(|kind| kind.contains("v2")) {
            findings.push(CheckResult::good(&subject, "it has a GID of RoCEv2"));
        } else {
            let fix = run(format!("ip address add 10.0.0.1/24 dev {iface}; ibv_devinfo -v shows GIDs"));
            findings.push(CheckResult::bad(Health::Warning, &subject, "it has no GID of RoCEv2", fix));
        }
    }
    findings
}

fn mtu(
    subject: &str,
    output: Vec<String>,
    iface: &str,
    switch: Option<&SwitchConfig>,
    run: &dyn Fn(String) -> String,
) -> CheckResult {
    let Some(mtu) = output.first().and_then(|text| text.trim().parse::<u64>().ok()) else {
        let fix = run("ip link".to_owned());
        return CheckResult::bad(Health::Error, subject, format!("there is no interface {iface}"), fix);
    };
    match switch.map(|switch| switch.mtu.get()) {
        Some(most) if mtu > most => {
            let message = format!("its MTU is {mtu}, and the switch drops what is longer than {most}");
            CheckResult::bad(Health::Error, subject, message, run(format!("ip link set {iface} mtu {most}")))
        }
        Some(most) => CheckResult::good(subject, format!("its MTU is {mtu}, the switch's {most}")),
        None => CheckResult::good(subject, format!("its MTU is {mtu}")),
    }
}

/// `prio-pfc 0:off 1:off 2:off 3:on …` of `dcb pfc show`.
fn pfc(subject: &str, output: &str, iface: &str, class: usize, run: &dyn Fn(String) -> String) -> CheckResult {
    if output.split_whitespace().any(|word| word == format!("{class}:on")) {
        return CheckResult::good(subject, format!("PFC of class {class} is on"));
    }
    let fix = run(format!("dcb pfc set dev {iface} prio-pfc all:off {class}:on"));
    let found = match output.contains("prio-pfc") {
        true => format!("PFC of class {class} is off"),
        false => format!("PFC of class {class} can't be read ({}): the NIC or its driver may have none", output.trim()),
    };
    CheckResult::bad(Health::Error, subject, found, fix)
}

/// `dscp-prio 26:3 …` of `dcb app show`, against the code points that have the class at the switch.
fn trust(
    subject: &str,
    output: &str,
    iface: &str,
    class: usize,
    points: &[usize],
    run: &dyn Fn(String) -> String,
) -> CheckResult {
    let Some(first) = points.first() else {
        let fix =
            "give the class a code point in [classes.dscp]; where ports trust the PCP, hosts send it in a VLAN tag";
        let message = format!("no DSCP has class {class} at each port of the switch");
        return CheckResult::bad(Health::Warning, subject, message, fix);
    };
    let after = output.split_once("dscp-prio").map_or("", |(_, after)| after);
    let maps = |word: &str| {
        let (point, to) = word.split_once(':')?;
        Some((point.parse::<usize>().ok()?, to.parse::<usize>().ok()?))
    };
    let trusted: Vec<usize> =
        after.split_whitespace().map_while(maps).filter(|(_, to)| *to == class).map(|(point, _)| point).collect();
    if let Some(point) = trusted.iter().find(|point| points.contains(point)) {
        return CheckResult::good(subject, format!("DSCP {point} is trusted for class {class}"));
    }
    let fix = run(format!("dcb app replace dev {iface} dscp-prio {first}:{class}"));
    let found = match trusted.first() {
        Some(point) => {
            format!("DSCP {point} is trusted for class {class}, and has another class at a port of the switch")
        }
        None => format!("no DSCP is trusted for class {class}"),
    };
    CheckResult::bad(Health::Error, subject, found, fix)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "@@tools -\ndcb\nethtool\nibv_devinfo\n@@mtu enp1\n9000\n@@pfc enp1\npfc-cap 8 macsec-bypass off delay 0\n\
                        prio-pfc 0:off 1:off 2:off 3:on 4:off 5:off 6:off 7:off\n@@app enp1\ndscp-prio 26:3 48:6\n@@pause enp1\n\
                        Pause parameters for enp1:\nAutonegotiate:\toff\nRX:\t\ton\nTX:\t\toff\n@@gid enp1\nIB/RoCE v1\nRoCE v2\n@@end -\n";

    fn lacking(text: &str, switch: Option<&SwitchConfig>) -> Vec<String> {
        let found = of_host("u@h", &parts(text), switch).into_iter().filter(|found| found.state == Health::Error);
        found.map(|found| format!("{} -> {}", found.message, found.fix.unwrap())).collect()
    }

    #[test]
    fn missing_settings_are_reported_with_their_command() {
        let pause =
            "PAUSE of the whole link is on, which PFC excludes -> ssh u@h ethtool -A enp1 autoneg off rx off tx off";
        assert_eq!(lacking(OUTPUT, None), [pause]);
        let off = OUTPUT.replace("3:on", "3:off").replace("dscp-prio 26:3 48:6", "").replace("RX:\t\ton", "RX:\t\toff");
        assert_eq!(
            lacking(&off, None),
            [
                "PFC of class 3 is off -> ssh u@h dcb pfc set dev enp1 prio-pfc all:off 3:on",
                "no DSCP is trusted for class 3 -> ssh u@h dcb app replace dev enp1 dscp-prio 26:3",
            ]
        );
        // The classes and the MTU of the given switch.
        let text = "[classes]\nlossless = [5]\n[classes.dscp]\n46 = 5\n[[ports]]\nname = \"a\"\nring = \"l\"\nrate = \"1Gbps\"\n[[ports]]\n\
                    name = \"b\"\nring = \"l\"\nrate = \"1Gbps\"\n";
        let switch = weir_config::parse("lab", text).unwrap();
        let found = lacking(OUTPUT, Some(&switch));
        assert!(found[0].starts_with("its MTU is 9000, and the switch drops what is longer than 1500"), "{found:?}");
        assert!(found.iter().any(|found| found.contains("dscp-prio 46:5")), "{found:?}");
        // The map of the switch's ports, and not the number alone.
        let trusted = |map: &str, text: &str| {
            let text = text.replace("lossless = [5]\n[classes.dscp]\n46 = 5", map);
            let switch = weir_config::parse("lab", &text).unwrap_or_else(|error| panic!("{error}"));
            of_host("u@h", &parts(OUTPUT), Some(&switch)).into_iter().map(|found| found.message).collect::<Vec<_>>()
        };
        let other = trusted("lossless = [3]\n[classes.dscp]\n26 = 1\n24 = 3", text);
        let expected = "DSCP 26 is trusted for class 3, and has another class at a port of the switch";
        assert!(other.iter().any(|found| found == expected), "{other:?}");
        let of_port = trusted("lossless = [3]\n[classes.dscp]\n26 = 1", &format!("{text}dscp = {{ 26 = 3 }}\n"));
        assert!(of_port.iter().any(|found| found == expected), "{of_port:?}");
        let by_pcp = trusted("lossless = [3]\ntrust = \"pcp\"", text);
        assert!(by_pcp.iter().any(|found| found == "no DSCP has class 3 at each port of the switch"), "{by_pcp:?}");
        let warnings = of_host("u@h", &parts(OUTPUT), None);
        assert!(warnings.iter().any(|found| found.message == "ib_write_bw is not installed"));
    }

    #[test]
    fn a_name_that_ssh_would_take_for_an_option_is_refused() {
        for host in ["-oProxyCommand=x", "u@h;reboot", "", "u@h:a b"] {
            let found = examine(host, None);
            assert!(found.len() == 1 && found[0].message.contains("is no host"), "{host}: {found:?}");
        }
    }
}
