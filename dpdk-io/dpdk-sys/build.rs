//! Finds libdpdk, compiles the C shim and generates bindings to it.

use std::env;
use std::path::PathBuf;
use std::process::exit;

const MIN_VERSION: &str = "22.11";

/// Libraries that the shim calls. Drivers are plugins that EAL loads from
/// the system's folder. Two are linked as well: `rte_net_ring`, whose function
/// makes ports of rings, and `rte_net_vhost`, whose function reports the queues
/// that a guest uses.
const LIBRARIES: [&str; 8] =
    ["rte_net_ring", "rte_net_vhost", "rte_pdump", "rte_ethdev", "rte_mbuf", "rte_mempool", "rte_ring", "rte_eal"];

/// Comments of C, as they are but for indentation, which rustdoc would take for examples in Rust.
#[derive(Debug)]
struct Comments;

impl bindgen::callbacks::ParseCallbacks for Comments {
    fn process_comment(&self, comment: &str) -> Option<String> {
        let lines: Vec<String> = comment.lines().map(|line| format!(" {}", line.trim_start())).collect();
        Some(lines.join("\n"))
    }
}

fn main() {
    for file in ["build.rs", "src/replay.c", "src/shim.c", "src/shim.h"] {
        println!("cargo::rerun-if-changed={file}");
    }

    let dpdk = match pkg_config::Config::new().atleast_version(MIN_VERSION).cargo_metadata(false).probe("libdpdk") {
        Ok(library) => library,
        Err(error) => {
            eprintln!("DPDK {MIN_VERSION} or newer was not found by pkg-config: {error}");
            eprintln!("On Debian or Ubuntu: apt-get install libdpdk-dev libclang-dev pkg-config");
            exit(1);
        }
    };
    let cflags = compile_flags();

    let mut shim = cc::Build::new();
    // Optimised in every profile: the wrappers of the packet path live there.
    shim.files(["src/shim.c", "src/replay.c"]).std("gnu11").opt_level(2);
    for flag in &cflags {
        shim.flag(flag);
    }
    shim.compile("weir_dpdk_shim");

    for path in &dpdk.link_paths {
        println!("cargo::rustc-link-search=native={}", path.display());
    }
    for library in LIBRARIES {
        println!("cargo::rustc-link-lib=dylib={library}");
    }
    println!("cargo::metadata=version={}", dpdk.version);
    println!("cargo::rustc-env=WEIR_DPDK_VERSION={}", dpdk.version);

    generate_bindings(&cflags);
}

/// DPDK's compile flags word by word; the `pkg-config` crate keeps only
/// include paths and macros, and `-march` matters here.
fn compile_flags() -> Vec<String> {
    let pkg_config = env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".to_owned());
    let output = std::process::Command::new(pkg_config)
        .args(["--cflags", "libdpdk"])
        .output()
        .expect("pkg-config ran a moment ago");
    String::from_utf8_lossy(&output.stdout)
        .split_whitespace()
        .map(str::to_owned)
        .chain(["-DALLOW_EXPERIMENTAL_API", "-D_GNU_SOURCE"].map(str::to_owned))
        .collect()
}

fn generate_bindings(cflags: &[String]) {
    let opaque = ["rte_mbuf", "rte_mempool", "rte_ring"];
    let mut builder = bindgen::Builder::default()
        .header("src/shim.h")
        .parse_callbacks(Box::new(Comments))
        .clang_args(cflags)
        .rust_edition(bindgen::RustEdition::Edition2024)
        .allowlist_function("weir_.*")
        .allowlist_recursively(false)
        .allowlist_type("weir_.*|lcore_function_t")
        .allowlist_var("WEIR_.*")
        .use_core()
        .prepend_enum_name(false)
        .layout_tests(true)
        .derive_default(true)
        .no_default("weir_port_info|weir_xstat")
        .generate_comments(true);
    for function in PLAIN_FUNCTIONS {
        builder = builder.allowlist_function(function);
    }
    for name in opaque {
        builder = builder.blocklist_type(name).raw_line(format!(
            "/// Opaque: only DPDK looks inside.\n#[repr(C)]\npub struct {name} {{ _opaque: [u8; 0] }}"
        ));
    }
    let bindings = match builder.generate() {
        Ok(bindings) => bindings,
        Err(error) => {
            eprintln!("bindings to DPDK could not be generated: {error}");
            eprintln!("On Debian or Ubuntu: apt-get install libdpdk-dev libclang-dev pkg-config");
            exit(1);
        }
    };
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    bindings.write_to_file(out.join("bindings.rs")).expect("OUT_DIR is writable");
}

/// Exported functions whose signature needs no DPDK structure and has not
/// changed since 22.11; all others go through the shim.
const PLAIN_FUNCTIONS: [&str; 30] = [
    "rte_eal_init",
    "rte_eal_cleanup",
    "rte_eal_remote_launch",
    "rte_get_main_lcore",
    "rte_get_next_lcore",
    "rte_lcore_to_socket_id",
    "rte_strerror",
    "rte_version",
    "rte_mempool_avail_count",
    "rte_mempool_in_use_count",
    "rte_mempool_free",
    "rte_pktmbuf_free_bulk",
    "rte_pktmbuf_copy",
    "rte_ring_create",
    "rte_ring_free",
    "rte_eth_from_rings",
    "rte_eth_dev_start",
    "rte_eth_dev_stop",
    "rte_eth_dev_socket_id",
    "rte_eth_dev_get_port_by_name",
    "rte_eth_find_next",
    "rte_eth_dev_get_mtu",
    "rte_eth_dev_set_link_up",
    "rte_eth_dev_set_link_down",
    "rte_eth_promiscuous_enable",
    "rte_eth_promiscuous_disable",
    "rte_eth_promiscuous_get",
    "rte_eth_stats_reset",
    "rte_eal_has_hugepages",
    "rte_pdump_init",
];
