//! Conclusion of the paper, confirmed or not by the runs' figures.

use weir_experiments::table::count;
use weir_scenario::victim::PolicyChoice;

use super::comparison::{DemoRun, first_port, flow_bps, gbps};

/// Greatest share, in percent, of the burst for which SPFC may pause P0.
const PAUSED_PERCENT_MAX: f64 = 1.0;
/// Share, in percent, of F1's throughput under SPFC below which a policy harms F1.
const KEPT_PERCENT_MIN: f64 = 90.0;

/// Returns a sentence for each N.
pub(super) fn conclusions(compared: &[DemoRun]) -> Vec<String> {
    let mut sentences = Vec::new();
    let several = compared.iter().any(|run| run.bursts != compared[0].bursts);
    for group in compared.chunk_by(|a, b| a.bursts == b.bursts) {
        let sentence = match group.iter().find(|run| run.policy.kind == PolicyChoice::Spfc) {
            Some(spfc) => of_spfc(spfc, group),
            None => None,
        };
        let place = if several { format!("N = {}: ", group[0].bursts) } else { String::new() };
        sentences.extend(sentence.or_else(|| best_and_worst(group)).map(|sentence| place + &sentence));
    }
    sentences
}

/// Paper's conclusion: SPFC spares F1 and P0 where others do not. It covers only the policies that the paper compares with SPFC.
fn of_spfc(spfc: &DemoRun, group: &[DemoRun]) -> Option<String> {
    let is_classic = |run: &&DemoRun| matches!(run.policy.kind, PolicyChoice::Static | PolicyChoice::Dynamic);
    let others: Vec<&DemoRun> = group.iter().filter(is_classic).collect();
    if others.is_empty() {
        return None;
    }
    let spares = paused_percent(spfc) <= PAUSED_PERCENT_MAX;
    let costs = |run: &&&DemoRun| (f1(run) as f64) < f1(spfc) as f64 * KEPT_PERCENT_MIN / 100.0;
    let costly: Vec<&DemoRun> = others.iter().filter(costs).copied().collect();
    let kept = format!("As the burst begins {} keeps F1 at {} Gb/s and {}", spfc.label, gbps(f1(spfc)), pauses(spfc));
    if spares && costly.len() == others.len() {
        let rates = listed(others.iter().map(|run| gbps(f1(run))));
        return Some(format!("{kept}; {} cut it to {rates} Gb/s.", listed(others.iter().map(|run| run.label.clone()))));
    }
    let figures = std::iter::once(spfc).chain(others.iter().copied()).map(|run| {
        format!("under {} F1 has {} Gb/s as the burst begins, and the switch {}", run.label, gbps(f1(run)), pauses(run))
    });
    let figures = figures.collect::<Vec<_>>().join("; ");
    Some(if spares && !costly.is_empty() {
        format!(
            "The paper's conclusion shows against {} only: {figures}.",
            listed(costly.iter().map(|run| run.label.clone()))
        )
    } else {
        format!("The paper's conclusion, that SPFC spares F1 what ST and DT cost it, does not show: {figures}.")
    })
}

/// Best and worst policy, among policies that the paper does not compare.
fn best_and_worst(group: &[DemoRun]) -> Option<String> {
    let (best, worst) = (group.iter().max_by_key(|run| f1(run))?, group.iter().min_by_key(|run| f1(run))?);
    let describe = |run: &DemoRun| format!("under {} ({} Gb/s; it {})", run.label, gbps(f1(run)), pauses(run));
    (group.len() > 1)
        .then(|| format!("As the burst begins F1 has most {}, and least {}.", describe(best), describe(worst)))
}

/// Throughput of F1 at the onset, where PAUSEs cost F1 most: before F2 has given way, or for the whole burst if it does not.
fn f1(run: &DemoRun) -> u64 {
    flow_bps(&run.summary, 0, "onset")
}

fn paused_percent(run: &DemoRun) -> f64 {
    let burst = run.summary.windows.iter().find(|window| window.name == "burst");
    let length = burst.map_or(0, |window| window.to_ns - window.from_ns).max(1);
    first_port(&run.summary).map_or(0, |port| port.paused_ns) as f64 * 100.0 / length as f64
}

/// `sends no PAUSE on P0`, `sends 7 PAUSEs on P0 (6.1 % of the burst)`.
fn pauses(run: &DemoRun) -> String {
    match first_port(&run.summary).map_or(0, |port| port.pauses_sent) {
        0 if paused_percent(run) == 0.0 => "sends no PAUSE on P0".to_owned(),
        1 => format!("sends one PAUSE on P0 ({:.1} % of the burst)", paused_percent(run)),
        n => format!("sends {} PAUSEs on P0 ({:.1} % of the burst)", count(n), paused_percent(run)),
    }
}

/// `a`, `a and b`, `a, b and c`.
fn listed(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.collect();
    match items.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, first)) => format!("{} and {last}", first.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use weir_results::run_dir::{FlowWindow, PortWindow, Summary, Window};

    use super::*;

    /// A run in which F1 has this many Gb/s, and P0 is paused this often, 100 us each time, in a burst of 10 ms.
    fn run(policy: &str, bursts: u8, gbps: u64, pauses: u64) -> DemoRun {
        let flow = FlowWindow { throughput_bps: gbps * 1_000_000_000, ..FlowWindow::default() };
        let port = PortWindow { pauses_sent: pauses, paused_ns: pauses * 100_000, ..PortWindow::default() };
        let window = Window {
            name: "burst".into(),
            to_ns: 10_000_000,
            flows: vec![flow],
            ports: vec![port],
            ..Window::default()
        };
        let policy = policy.parse().unwrap();
        DemoRun {
            label: format!("{policy}"),
            bursts,
            policy,
            summary: Summary {
                windows: vec![Window { name: "onset".into(), ..window.clone() }, window],
                ..Summary::default()
            },
        }
    }

    #[test]
    fn the_papers_conclusion_is_drawn_from_runs_that_show_it() {
        let runs = [run("st", 9, 8, 40), run("dt", 9, 12, 30), run("sih", 9, 90, 0), run("spfc", 9, 95, 0)];
        assert_eq!(
            conclusions(&runs),
            [
                "As the burst begins spfc-1 keeps F1 at 95.0 Gb/s and sends no PAUSE on P0; st and dt-1 cut it to 8.0 and 12.0 Gb/s."
            ]
        );
    }

    #[test]
    fn runs_that_do_not_show_it_are_listed_with_their_figures() {
        let [conclusion] = &conclusions(&[run("st", 9, 80, 4), run("dt", 9, 94, 0), run("spfc", 9, 95, 1)])[..] else {
            panic!()
        };
        assert_eq!(
            conclusion,
            "The paper's conclusion shows against st only: under spfc-1 F1 has 95.0 Gb/s as the burst begins, and the switch sends one \
             PAUSE on P0 (1.0 % of the burst); under st F1 has 80.0 Gb/s as the burst begins, and the switch sends 4 PAUSEs on P0 (4.0 % \
             of the burst); under dt-1 F1 has 94.0 Gb/s as the burst begins, and the switch sends no PAUSE on P0."
        );
        let [conclusion] = &conclusions(&[run("st", 9, 8, 40), run("spfc", 9, 95, 5)])[..] else { panic!() };
        assert!(conclusion.contains("does not show") && conclusion.contains("5 PAUSEs"), "{conclusion}");
    }

    #[test]
    fn other_policies_are_ranked_best_and_worst() {
        let runs = [run("sih", 4, 50, 1), run("dsh", 4, 60, 0), run("sih", 9, 60, 0), run("spfc", 9, 50, 0)];
        assert_eq!(
            conclusions(&runs),
            [
                "N = 4: As the burst begins F1 has most under dsh-1 (60.0 Gb/s; it sends no PAUSE on P0), and least under sih-1 (50.0 \
                 Gb/s; it sends one PAUSE on P0 (1.0 % of the burst)).",
                "N = 9: As the burst begins F1 has most under sih-1 (60.0 Gb/s; it sends no PAUSE on P0), and least under spfc-1 (50.0 \
                 Gb/s; it sends no PAUSE on P0).",
            ]
        );
        assert_eq!(conclusions(&[run("spfc", 9, 50, 0)]), [""; 0]);
    }
}
