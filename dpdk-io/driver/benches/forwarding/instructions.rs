//! The packet path, counted in instructions: wall time on a shared machine could not be held against a limit.

use std::process::Command;

/// What one frame may take in an lcore's polls, DPDK's capture ports (about 190 of them) included. From run to run it is 570 to 585,
/// since the number of bursts in flight at the end differs. Raise it only with a reason.
const INSTRUCTIONS_MAX: f64 = 600.0;

/// Runs this program with this argument under callgrind, and holds the instructions of the lcore's polls, for each packet that it
/// says it forwarded, against the limit.
pub(crate) fn count(argument: &str) {
    let own = std::env::current_exe().expect("this program");
    let out = std::env::temp_dir().join(format!("weir-callgrind-{}", std::process::id()));
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--toggle-collect=*SwitchLcore*poll*"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(own)
        .arg(argument)
        .output()
        .unwrap_or_else(|error| panic!("valgrind can't be run: {error}; install it, for Debian: apt install valgrind"));
    let _ = std::fs::remove_file(&out);
    let [told, counted] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    let number_after = |text: &str, word: &str| {
        let rest = text.split(word).nth(1).unwrap_or_else(|| panic!("no `{word}` in what it printed: {told}{counted}"));
        let digits: String =
            rest.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
        digits.parse::<f64>().expect("a number")
    };
    let each = number_after(&counted, "Collected") / number_after(&told, "packets ");
    println!("forwarding: {each:.0} instructions a packet, {INSTRUCTIONS_MAX} at most");
    if each > INSTRUCTIONS_MAX {
        eprintln!("a packet takes more instructions than it should");
        std::process::exit(1);
    }
}
