//! Points of small sweeps, and sweeps whose points are no scenarios.

use std::fs;

use tempfile::TempDir;

use super::super::file;
use super::*;

const SCENARIO: &str = "[scenario]\nend = \"1ms\"\n[switch]\nmtu = 1500\n[switch.buffer]\nsize = \"4MB\"\npolicy = \"dt\"\n\
    [switch.buffer.dt]\nalpha = \"1/4\"\n[switch.classes]\npreset = \"roce\"\n[topology]\nkind = \"single\"\nhosts = 3\n\
    rate = \"10Gbps\"\ndelay = \"1us\"\n[[workloads]]\nname = \"incast\"\nkind = \"incast\"\nclass = 3\nsizes = \"10KB\"\n\
    receivers = [\"H0\"]\n[[runs]]\nname = \"DT\"\n[[runs]]\nname = \"DSH\"\nswitch.buffer.policy = \"dsh\"\n\
    switch.buffer.dsh.alpha = \"1/8\"\n";

/// The plan of a sweep's file with [`SCENARIO`], or its error.
pub(crate) fn plan(directory: &TempDir, text: &str) -> Result<SweepPlan, String> {
    fs::write(directory.path().join("lab.toml"), SCENARIO).unwrap();
    let path = directory.path().join("sweep.toml");
    fs::write(&path, format!("scenario = \"lab.toml\"\n{text}")).unwrap();
    let file = file::load(&path).map_err(|errors| errors.to_string())?;
    SweepPlan::new(&file, 2).map_err(|failure| match failure {
        Failure::Input(errors) => errors.to_string().replace(&format!("{}/", directory.path().display()), ""),
        other => format!("{other:?}"),
    })
}

#[test]
fn points_are_the_product_of_axes_seeds_and_runs() {
    let directory = tempfile::tempdir().unwrap();
    let text = "runs = [\"DSH\", \"DT\"]\nseeds = [7, 8]\n[parameters]\nswitch.mtu = [1500, 9000]\n\
        [[zip]]\n\"workloads.incast.sizes\" = [\"10KB\", \"20KB\"]\ntopology.hosts = [3, 4]\n";
    let plan = plan(&directory, text).unwrap();
    let shown = |point: &Point| {
        let values: Vec<String> = point.parameters.iter().map(|(_, value)| value.to_string()).collect();
        format!("{} {} {}", values.join(" "), point.seed.unwrap(), point.run_name)
    };
    assert_eq!(plan.points.len(), 16);
    assert_eq!(
        [0, 1, 2, 4, 8].map(|n: usize| shown(&plan.points[n])),
        [
            "1500 \"10KB\" 3 7 DSH",
            "1500 \"10KB\" 3 7 DT",
            "1500 \"10KB\" 3 8 DSH",
            "1500 \"20KB\" 4 7 DSH",
            "9000 \"10KB\" 3 7 DSH"
        ]
    );
    assert_eq!(plan.points[4].folder, "05-mtu-1500-sizes-20kb-hosts-4-seed-7-dsh");
    let text = plan.text(&plan.points[14]);
    let scenario = scenario_file::parse(&plan.scenario, &text).unwrap().swap_remove(1).scenario;
    assert_eq!((scenario.hosts.len(), scenario.switches[0].mtu.get()), (4, 9_000));
    let mut hashes: Vec<&str> = plan.points.iter().map(|point| point.hash.as_str()).collect();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), 16);
}

#[test]
fn what_changes_the_points_changes_the_identity() {
    let directory = tempfile::tempdir().unwrap();
    let with = |text: &str| plan(&directory, text).unwrap().identity;
    let one = with("seeds = [1, 2]\n");
    assert_eq!(one, with("# A remark.\nseeds = { from = 1, count = 2 }\n[results]\ncolumns = [\"lossless\"]\n"));
    assert_ne!(one, with("seeds = [2, 1]\n"));
    assert_ne!(one, with("seeds = [1, 2]\nruns = [\"DT\"]\n"));

    let listed = "[parameters]\n\"workloads.incast\" = [{ kind = \"list\", class = 3, file = \"list.csv\" }]\n";
    let list = |size: u32| {
        let row = format!("start_us,from,to,bytes\n0,H1,H0,{size}000\n");
        fs::write(directory.path().join("list.csv"), row).unwrap();
        plan(&directory, listed).map(|plan| plan.identity)
    };
    assert_ne!(list(1).unwrap(), list(2).unwrap());
}

#[test]
fn points_that_are_no_scenarios_are_told_before_any_runs() {
    let directory = tempfile::tempdir().unwrap();
    for (text, message) in [
        (
            "[parameters]\n\"switch.buffr.size\" = [\"1MB\"]\n",
            "sweep.toml:3: the scenario with switch.buffr.size = \"1MB\": unknown key `buffr` in [switch]; ",
        ),
        ("[parameters]\n\"switch.mtu\" = [1500, 64000]\n", "sweep.toml:3: the scenario with switch.mtu = 64000: "),
        (
            "[parameters]\n\"workloads.0.sizes\" = [\n\"1KB\",\n1000]\n",
            "sweep.toml:5: the scenario with workloads.0.sizes = 1000: ",
        ),
        (
            "[parameters]\n\"workloads.incas.sizes\" = [\"1KB\"]\n",
            "sweep.toml:3: the scenario's `workloads` have no `incas`; write a place from 0 to 0, * for all, or one of the names: incast",
        ),
        (
            "[parameters]\n\"switch.buffer.policy\" = [\"dt\"]\n",
            "sweep.toml:3: run \"DSH\" of the scenario sets `switch.buffer.policy` itself, so that this does nothing to it; write \
             \"runs.1.switch.buffer.policy\" for that run",
        ),
        ("runs = [\"PFC\"]\n", "sweep.toml:2: lab.toml has no run \"PFC\"; write one of: \"DT\", \"DSH\""),
        (
            "seeds = { from = 1, count = 100000 }\n[parameters]\na = { from = 1, count = 9, step = 1 }\n",
            "sweep.toml:3: the sweep has more",
        ),
    ] {
        let said = plan(&directory, text).unwrap_err();
        assert!(said.starts_with(message), "{said}\n\nexpected: {message}");
    }
}

#[test]
fn what_is_wrong_with_each_value_of_a_parameter_is_told_once() {
    let directory = tempfile::tempdir().unwrap();
    for (text, message) in [
        (
            "[parameters]\n\"switch.buffr.size\" = [\"1MB\", \"2MB\", \"3MB\"]\n\"switch.mtu\" = [1500, 9000]\n",
            "sweep.toml:3: the scenario with switch.buffr.size = \"1MB\", as with 2 others: unknown key `buffr` in [switch]; ",
        ),
        (
            "[parameters]\n\"workloads.incas.sizes\" = [\"1KB\", \"2KB\"]\n",
            "sweep.toml:3: the scenario's `workloads` have no `incas`; ",
        ),
        (
            "[parameters]\n\"switch.buffer.dsh.alpha\" = [1, 2]\n",
            "sweep.toml:3: run \"DSH\" of the scenario sets `switch.buffer.dsh.alpha` itself, so that this does nothing to it; write \
             \"switch.buffer.*.alpha\" for the policies of all runs, or \"runs.1.switch.buffer.dsh.alpha\" for that run",
        ),
    ] {
        let said = plan(&directory, text).unwrap_err();
        assert!(said.starts_with(message) && said.lines().count() == 1, "{said}\n\nexpected: {message}");
    }
}

#[test]
fn a_parameter_may_be_of_whichever_policy_a_run_has() {
    let directory = tempfile::tempdir().unwrap();
    let text =
        "[parameters]\n\"switch.buffer.*.alpha\" = [\"1/16\", 2]\nworkloads.incast.sizes = [\"10KB\", \"20KB\"]\n";
    let plan = plan(&directory, text).unwrap();
    let policies = |point: &Point| -> Vec<String> {
        let runs = scenario_file::parse(&plan.scenario, &plan.text(point)).unwrap();
        runs.iter().map(|run| format!("{:?}", run.scenario.switches[0].buffer.policy)).collect()
    };
    let (first, last) = (policies(&plan.points[0]), policies(&plan.points[7]));
    assert_eq!(plan.points.len(), 8);
    for (n, policy) in ["DynamicThreshold", "Dsh"].iter().enumerate() {
        assert!(first[n].starts_with(policy) && last[n].starts_with(policy), "{first:?} {last:?}");
        assert_ne!(first[n], last[n]);
    }
    assert_eq!(plan.points[0].parameters[0], ("switch.buffer.*.alpha".to_owned(), "1/16".into()));
}

#[test]
fn policies_with_alpha_and_load_are_three_parameters() {
    let directory = tempfile::tempdir().unwrap();
    // The policy stands last in the file, and is set first.
    let text = "runs = [\"DT\"]\n[parameters]\nworkloads.incast.load = [0.1, 0.2]\n\
        \"switch.buffer.*.alpha\" = [\"1/16\", 2]\nswitch.buffer.policy = [\"dt\", \"sih\", \"spfc\"]\n";
    let plan = plan(&directory, text).unwrap();
    let policy = |point: &Point| {
        let runs = scenario_file::parse(&plan.scenario, &plan.text(point)).unwrap();
        format!("{:?}", runs[point.run].scenario.switches[0].buffer.policy)
    };
    let policies: Vec<String> = plan.points.iter().map(policy).collect();
    assert_eq!(policies.len(), 12);
    for (n, name) in ["DynamicThreshold", "Sih", "Spfc"].iter().enumerate() {
        assert!(policies[n].starts_with(name) && policies[n + 3].starts_with(name), "{policies:?}");
        assert_ne!(policies[n], policies[n + 3], "alpha");
        assert_eq!(policies[n], policies[n + 6], "load");
    }
}

#[test]
fn messages_are_drawn_once_for_combinations_that_do_not_change_them() {
    let directory = tempfile::tempdir().unwrap();
    let text = "[parameters]\nworkloads.incast.sizes = [\"10KB\", \"20KB\"]\nswitch.buffer.size = [\"4MB\", \"8MB\"]\n";
    plan(&directory, text).unwrap();
    let file = file::load(&directory.path().join("sweep.toml")).unwrap();
    let base = BaseScenario::load(&file).unwrap();
    let combinations = combinations(&file, 2).unwrap();
    let messages = |n: usize| {
        let table = table_of(&file, &base, &combinations[n]).ok().unwrap();
        let scenarios = check_one(&file, &base, &combinations[n], &table, &[0, 1]).ok().unwrap();
        let weir_scenario::TrafficSource::List(messages) = scenarios[1].traffic[0].source.clone() else {
            panic!("a closed loop")
        };
        messages
    };
    let [first, second, third] = [0, 1, 2].map(messages);
    assert!(std::sync::Arc::ptr_eq(&first, &second));
    assert_eq!((first[0].size.get(), third[0].size.get()), (10_000, 20_000));
}

#[test]
fn a_combination_that_is_wrong_is_found_after_others_with_the_same_messages() {
    let directory = tempfile::tempdir().unwrap();
    let varied = "[parameters]\nscenario.end = [\"40ms\"]\nswitch.mtu = [1500, 9000]\n";
    for (text, message) in [
        // Only the last buffer is too small.
        (
            "switch.buffer.size = [\"4MB\", \"8MB\", \"4KB\"]\n",
            "sweep.toml:5: the scenario with switch.buffer.size = \"4KB\": ",
        ),
        // Only the last workload has too many messages.
        (
            "workloads.incast.every = [\"1ms\", \"2ms\", \"3ns\"]\n",
            "sweep.toml:5: the scenario with scenario.end = \"40ms\", switch.mtu = 1500, workloads.incast.every = \"3ns\", \
             as with another value: workload incast has more than 20000000 messages",
        ),
        ("topology.hosts = [3, 4, 1]\n", "sweep.toml:5: the scenario with topology.hosts = 1: "),
    ] {
        let said = plan(&directory, &format!("{varied}{text}")).unwrap_err();
        assert!(said.starts_with(message), "{said}\n\nexpected: {message}");
    }
}

/// Only the seed of failures determines whether hosts are connected; no message depends on it.
#[test]
fn a_network_that_is_wrong_is_found_among_others() {
    let directory = tempfile::tempdir().unwrap();
    // All eight links must be up: with 0.6 for each to fail, about every second seed has no such draw in a thousand.
    let scenario = "[scenario]\nend = \"1ms\"\n[switch.buffer]\nsize = \"4MB\"\n[switch.classes]\npreset = \"roce\"\n[topology]\n\
        kind = \"leaf-spine\"\nleaves = 8\nspines = 1\nhosts = 1\nrate = \"10Gbps\"\ndelay = \"1us\"\n\
        failure_probability = 0.6\nfailure_seed = SEED\n[[workloads]]\nname = \"W\"\nkind = \"poisson\"\nclass = 3\nsizes = \"10KB\"\nload = 0.1\n";
    let path = directory.path().join("tree.toml");
    let is_good = |seed: &u32| scenario_file::parse(&path, &scenario.replace("SEED", &seed.to_string())).is_ok();
    let (good, bad): (Vec<u32>, Vec<u32>) = (1..=20).partition(is_good);
    let ([first, second, ..], [wrong, ..]) = (&good[..], &bad[..]) else { panic!("{good:?} {bad:?}") };
    fs::write(&path, scenario.replace("SEED", &first.to_string())).unwrap();
    let of_seeds = |only: &str, seeds: &[&u32]| {
        let sweep = directory.path().join("sweep.toml");
        let text = format!("{only}scenario = \"tree.toml\"\n[parameters]\ntopology.failure_seed = {seeds:?}\n");
        fs::write(&sweep, text).unwrap();
        SweepPlan::new(&file::load(&sweep).unwrap(), 1).map(|plan| plan.points.len())
    };
    assert_eq!(of_seeds("", &[first, second]).ok(), Some(2));
    let expected =
        format!("the scenario with topology.failure_seed = {wrong}: `failure_probability`: where links fail with this");
    // No network of one spine has a cycle; errors are reported nevertheless.
    for only in ["", "only = \"prone-to-deadlock\"\n"] {
        let Err(Failure::Input(errors)) = of_seeds(only, &[first, second, wrong]) else { panic!("{wrong} is good") };
        assert!(errors.to_string().contains(&expected), "{errors}\n\nexpected: {expected}");
    }
}

/// Networks omitted by their fabric alone are those whose scenario has no cycle; other errors are reported for any.
#[test]
fn networks_are_left_out_as_their_scenarios_say() {
    let directory = tempfile::tempdir().unwrap();
    let scenario = "[scenario]\nend = \"1ms\"\n[switch.buffer]\nsize = \"4MB\"\n[switch.classes]\npreset = \"roce\"\n[topology]\n\
        kind = \"fat-tree\"\nk = 4\nrate = \"10Gbps\"\ndelay = \"1us\"\nfailure_probability = 0.05\nfailure_seed = 1\n\
        [[workloads]]\nname = \"W\"\nkind = \"poisson\"\nclass = 3\nsizes = \"10KB\"\nload = 0.1\n";
    fs::write(directory.path().join("tree.toml"), scenario).unwrap();
    let of = |only: &str, sizes: &str| {
        let sweep = directory.path().join("sweep.toml");
        let text = format!(
            "scenario = \"tree.toml\"\n{only}[parameters]\nswitch.buffer.size = {sizes}\n\
             topology.failure_seed = {{ from = 1, step = 1, count = 60 }}\n"
        );
        fs::write(&sweep, text).unwrap();
        SweepPlan::new(&file::load(&sweep).unwrap(), 2)
    };
    let all = of("", "[\"4MB\", \"8MB\"]").unwrap();
    let has_circle = |point: &&Point| {
        let run = scenario_file::parse(&all.scenario, &all.text(point)).unwrap().remove(0);
        run.scenario.routes.unwrap().cyclic_dependency().is_some()
    };
    let prone: Vec<&str> = all.points.iter().filter(has_circle).map(|point| point.hash.as_str()).collect();
    let only = "only = \"prone-to-deadlock\"\n";
    let kept = of(only, "[\"4MB\", \"8MB\"]").unwrap();
    assert!((4..40).contains(&prone.len()), "{}", prone.len());
    assert_eq!(kept.points.iter().map(|point| point.hash.as_str()).collect::<Vec<_>>(), prone);
    let Err(Failure::Input(errors)) = of(only, "[\"4MB\", \"4KB\"]") else { panic!("4 KB are enough") };
    assert!(errors.to_string().contains("sweep.toml:4: the scenario with switch.buffer.size = \"4KB\""), "{errors}");
}

#[test]
fn values_that_only_clash_together_are_all_named() {
    let directory = tempfile::tempdir().unwrap();
    let text = "[parameters]\n\"topology.hosts\" = [2, 3]\n\"workloads.incast.receivers\" = [[\"H1\"], [\"H2\"]]\n";
    let said = plan(&directory, text).unwrap_err();
    assert!(said.contains("with topology.hosts = 2, workloads.incast.receivers = [\"H2\"]: "), "{said}");
}

#[test]
fn sweeps_to_start_from_are_good() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/sweeps");
    let points = |name: &str| SweepPlan::new(&file::load(&folder.join(name)).unwrap(), 2).unwrap().points.len();
    let mut names: Vec<String> =
        fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["incast-dcqcn.toml", "websearch-load.toml"]);
    assert_eq!([points(&names[0]), points(&names[1])], [18, 24]);
}

#[test]
fn a_points_scenario_has_its_tables_in_the_order_of_the_file() {
    // Ports of a switch are numbered as links and hosts stand in the file.
    let directory = tempfile::tempdir().unwrap();
    let text = "runs = [\"DT\"]\n[parameters]\nswitch.mtu = [1500]\n";
    let plan = plan(&directory, text).unwrap();
    let written = plan.text(&plan.points[0]);
    let tables = ["[scenario]", "[switch]", "[switch.buffer]", "[topology]", "[[workloads]]", "[[runs]]"];
    let places: Vec<usize> = tables.iter().map(|table| written.find(table).unwrap()).collect();
    assert!(places.is_sorted(), "{written}");
}

#[test]
fn the_time_that_real_frames_take_is_each_points_own() {
    let directory = tempfile::tempdir().unwrap();
    let takes = |text: &str, backend: Backend| {
        let scenario =
            SCENARIO.replacen("[[workloads]]", "[[flows]]\nfrom = \"H1\"\nto = \"H2\"\nclass = 3\n[[workloads]]", 1);
        let (flows, runs) = (scenario.find("[[workloads]]").unwrap(), scenario.find("[[runs]]").unwrap());
        fs::write(directory.path().join("lab.toml"), scenario[..flows].to_owned() + &scenario[runs..]).unwrap();
        let path = directory.path().join("sweep.toml");
        fs::write(&path, format!("scenario = \"lab.toml\"\n{text}")).unwrap();
        let file = SweepFile { backend, ..file::load(&path).unwrap() };
        SweepPlan::new(&file, 1).unwrap().real_time().unwrap()
    };
    // Two runs of a millisecond in each of two settings, and three seconds besides.
    let dilations = "[parameters]\n\"scenario.time_dilation\" = [1000, 3000]\n";
    assert_eq!(takes(dilations, Backend::Dpdk), Duration::from_secs(2 * (1 + 3) + 2 * (3 + 3)));
    // One run with two seeds; the second setting is nine times as long.
    let ends = "seeds = [1, 2]\nruns = [\"DT\"]\n[[zip]]\n\"scenario.time_dilation\" = [1000, 1000]\n\"scenario.end\" = [\"1ms\", \"9ms\"]\n";
    assert_eq!(takes(ends, Backend::Dpdk), Duration::from_secs(2 * (1 + 3) + 2 * (9 + 3)));
}

/// Only the fabric with two failed links has paths with a cyclic dependency.
#[test]
fn a_sweep_may_be_of_what_is_prone_to_deadlock_alone() {
    let directory = tempfile::tempdir().unwrap();
    let fabric = |failed: &str| {
        format!(
            "{{ kind = \"leaf-spine\", leaves = 4, spines = 2, hosts = 1, rate = \"10Gbps\", delay = \"1us\", failed = {failed} }}"
        )
    };
    let text = |only: &str, last: &str| {
        format!("{only}seeds = [1, 2]\nruns = [\"DT\"]\n[parameters]\ntopology = [{}, {last}]\n", fabric("[]"))
    };
    let only = "only = \"prone-to-deadlock\"\n";
    let prone = fabric("[[\"S0\", \"L3\"], [\"S1\", \"L0\"]]");
    let all = plan(&directory, &text("", &prone)).unwrap();
    let kept = plan(&directory, &text(only, &prone)).unwrap();
    assert_eq!((all.points.len(), kept.points.len()), (4, 2));
    assert!(kept.points.iter().all(|point| point.parameters[0].1["failed"][0][0] == "S0"), "{:?}", kept.points);
    assert_eq!(kept.points.iter().map(|point| point.number).collect::<Vec<_>>(), [1, 2]);
    // Text and hash are those of the same point among all.
    assert_eq!((kept.text(&kept.points[0]), &kept.points[0].hash), (all.text(&all.points[2]), &all.points[2].hash));
    let wrong = plan(&directory, &text(only, &fabric("[[\"S0\", \"L3\"]]"))).unwrap_err();
    assert!(
        wrong.contains("sweep.toml:2: no combination of the parameters has paths with a cyclic buffer dependency"),
        "{wrong}"
    );
    let wrong = plan(&directory, &format!("{only}[parameters]\nscenario.forwarding = [\"static\"]\n")).unwrap_err();
    assert!(wrong.contains("`only` needs equal-cost paths, and the scenario's routes are static"), "{wrong}");
    let wrong = plan(&directory, "only = \"prone\"\n").unwrap_err();
    assert!(wrong.contains("sweep.toml:2: ") && wrong.contains("prone-to-deadlock"), "{wrong}");
}
