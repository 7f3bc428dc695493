//! A switch under test, with the tester on a CPU of its own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_config::{Device, SwitchConfig};
use weir_dpdk_driver::{
    CpuUse, LcoreStats, Memory, Placement, PreparedSwitches, RunningSwitches, Runtime, RuntimeOptions, Stopped, Task,
};
use weir_dpdk_io::Clock;
use weir_units::{Span, Time};

use crate::error::BenchError;
use crate::machine::siblings;
use crate::tester::{MBUFS, Tester, TesterHandle, TesterPort, TrialSpec, TrialStats};

/// Time limit for buffered frames to leave when the switch stops.
const DRAIN: Duration = Duration::from_secs(2);
/// Interval between checks of the links.
const LINKS_EVERY: Duration = Duration::from_millis(20);
/// Ring from the tester to itself.
const DIRECT: &str = "weir-bench-direct";
/// Index of the tester's port pair through the switch.
pub(crate) const THROUGH: usize = 0;
/// Index of the tester's port pair to itself.
pub(crate) const DIRECTLY: usize = 1;

/// CPUs of the switch's lcores and of the tester.
#[derive(Clone, Debug)]
pub(crate) struct CpuPlan {
    pub(crate) placement: Placement,
    /// Position of the tester's CPU in the placement.
    pub(crate) tester: usize,
    /// Warnings about CPUs that distort figures: hyperthreads, and lcores that share a CPU.
    pub(crate) warnings: Vec<String>,
}

impl CpuPlan {
    /// Places a switch and the tester on the CPUs that the process may use.
    ///
    /// # Errors
    /// No CPU is left for the tester. On a shared CPU the tester would take the switch's time.
    pub(crate) fn new(switch: &SwitchConfig, allowed: &[u32]) -> Result<CpuPlan, BenchError> {
        let mut placement = Placement::new(std::slice::from_ref(switch), allowed, 1)?;
        let used = placement.cpus.clone();
        let free = || allowed.iter().copied().filter(|cpu| !used.contains(cpu));
        let shares_core = |cpu: &u32| siblings(*cpu).iter().any(|sibling| used.contains(sibling));
        let Some(own) = free().find(|cpu| !shares_core(cpu)).or_else(|| free().next()) else {
            let list = |cpus: &[u32]| cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
            return Err(BenchError::Plan(format!(
                "the generator needs a CPU of its own, or a figure would be that of generator and switch together: this process may \
                 use CPUs {}, and the switch takes {}; write fewer [lcores] cores in the file, or give the process more CPUs \
                 (taskset, cgroup)",
                list(allowed),
                list(&used)
            )));
        };
        let mut warnings = Vec::new();
        if shares_core(&own) {
            warnings.push(format!(
                "the generator's CPU {own} is a hyperthread of a core that the switch uses: each slows the other down"
            ));
        }
        let on = &placement.switches[0].on;
        if on.len() > used.len() {
            warnings.push(format!(
                "{} lcores of the switch run in turn on {} CPU{}, since the process has no more: figures are those of so many",
                on.len(),
                used.len(),
                if used.len() == 1 { "" } else { "s" }
            ));
        }
        placement.cpus.push(own);
        Ok(CpuPlan { tester: used.len(), placement, warnings })
    }

    /// Describes each lcore's CPU and role.
    pub(crate) fn roles(&self) -> Vec<String> {
        let placed = &self.placement.switches[0];
        let lcores = placed.plan.lcores.iter().zip(&placed.on);
        let lcores = lcores.map(|(role, on)| format!("CPU {}: {role}", self.placement.cpus[*on]));
        lcores.chain([format!("CPU {}: generator", self.placement.cpus[self.tester])]).collect()
    }

    /// Opens the switch's ports.
    pub(crate) fn prepare<'r>(
        &self,
        runtime: &'r Runtime,
        switch: &SwitchConfig,
    ) -> Result<PreparedSwitches<'r>, BenchError> {
        Ok(PreparedSwitches::prepare(runtime, std::slice::from_ref(switch), &self.placement, MBUFS)?)
    }
}

/// Starts DPDK on these CPUs, with memory for the tester and this switch, or others of its size.
pub(crate) fn start_dpdk(
    cpus: &[u32],
    switch: &SwitchConfig,
    pci: &[String],
    eal: &[String],
) -> Result<Runtime, BenchError> {
    let memory = Memory::for_switches(std::slice::from_ref(switch), cpus.len(), MBUFS);
    let options = RuntimeOptions { memory_mb: memory.megabytes(), eal_args: eal.to_vec(), ..RuntimeOptions::default() };
    Ok(Runtime::start("weir-bench", cpus, pci, &options)?)
}

/// Running switch with its tester.
pub(crate) struct Testbed {
    running: RunningSwitches,
    tester: TesterHandle,
    tester_cpu: u32,
    links_looked_at: Instant,
}

/// Result of a trial, with the total time that the switch's lcores were off their CPUs.
pub(crate) struct TrialOutcome {
    pub(crate) stats: TrialStats,
    pub(crate) kept_from_cpu: Duration,
}

impl Testbed {
    /// Starts a switch with open ports, and a tester between these two ends.
    pub(crate) fn start(
        mut prepared: PreparedSwitches<'_>,
        cpu_plan: &CpuPlan,
        ends: [TesterPort; 2],
        mtu: u16,
    ) -> Result<Testbed, BenchError> {
        let (rx, tx) = prepared.open_device(&Device::Ring(DIRECT.to_owned()), mtu)?;
        let direct = [TesterPort::Device(rx, tx), TesterPort::Ring(prepared.open_far_end(DIRECT)?)];
        let (tester, handle) = Tester::new(vec![ends, direct], prepared.store().data.clone());
        let running = start_with(prepared, cpu_plan, Box::new(tester))?;
        let tester_cpu = cpu_plan.placement.cpus[cpu_plan.tester];
        Ok(Testbed { running, tester: handle, tester_cpu, links_looked_at: Instant::now() })
    }

    /// Has the tester run a trial.
    pub(crate) fn run_trial(&mut self, spec: TrialSpec) -> Result<TrialOutcome, BenchError> {
        let uses = |running: &RunningSwitches| -> Vec<CpuUse> {
            let lcores = running.lcores().filter(|(cpu, _)| *cpu != self.tester_cpu);
            lcores.map(|(cpu, stats)| stats.cpu_use(cpu)).collect()
        };
        let before = uses(&self.running);
        let (running, links_looked_at) = (&self.running, &mut self.links_looked_at);
        let outcome = self.tester.run_trial(spec, || {
            if links_looked_at.elapsed() >= LINKS_EVERY {
                *links_looked_at = Instant::now();
                running.netdev_events();
                running.update_links();
            }
            running.has_failed()
        });
        let outcome = outcome.ok_or_else(|| BenchError::Run("an lcore has ended: a bug".to_owned()))?;
        let after = uses(&self.running);
        let kept = after.iter().zip(&before).map(|(after, before)| after.since(before).kept_from_cpu());
        Ok(TrialOutcome { stats: outcome, kept_from_cpu: kept.sum() })
    }

    /// Stops the switch and checks that its frames are accounted for.
    pub(crate) fn stop(self) -> Result<Stopped, BenchError> {
        check_conservation(self.running.stop(DRAIN)?)
    }
}

/// Starts a switch with a task on the tester's CPU.
pub(crate) fn start_with(
    mut prepared: PreparedSwitches<'_>,
    cpu_plan: &CpuPlan,
    task: Box<dyn Task>,
) -> Result<RunningSwitches, BenchError> {
    prepared.add_task(cpu_plan.tester, task);
    Ok(prepared.start()?)
}

/// Returns `stopped` if each frame was sent or dropped and no packet buffer is missing.
pub(crate) fn check_conservation(stopped: Stopped) -> Result<Stopped, BenchError> {
    for balance in stopped.reports.iter().map(|report| report.conservation) {
        let accounted = balance.holds && balance.received + balance.copied == balance.sent + balance.dropped;
        if !accounted || stopped.mbufs_missing > 0 {
            let missing = stopped.mbufs_missing;
            return Err(BenchError::Run(format!(
                "frames are not conserved: {balance:?}, {missing} packet buffers missing"
            )));
        }
    }
    Ok(stopped)
}

/// Returns the stopped lcores except the tester's.
pub(crate) fn lcores_of(stopped: &Stopped, cpu_plan: &CpuPlan) -> Vec<(u32, Arc<LcoreStats>)> {
    let tester = cpu_plan.placement.cpus[cpu_plan.tester];
    stopped.lcores.iter().filter(|(cpu, _)| *cpu != tester).cloned().collect()
}

/// Returns the cost of a clock read, in nanoseconds: the minimum of ten means over 100,000 reads.
pub(crate) fn clock_cost_ns(clock: &Clock) -> f64 {
    const LOOKS: u32 = 100_000;
    let row = || {
        let start = clock.now_ps();
        let mut last = 0;
        for _ in 0..LOOKS {
            last = std::hint::black_box(clock.now_ps());
        }
        Time::from_picos(last).since(Time::from_picos(start))
    };
    let least: Span = (0..10).map(|_| row()).min().unwrap_or(Span::ZERO);
    least.as_picos() as f64 / 1e3 / f64::from(LOOKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switch(lcores: &str) -> SwitchConfig {
        let port = |name: &str| format!("[[ports]]\nname = \"{name}\"\nring = \"{name}\"\nrate = \"10Gbps\"\n");
        let text = format!("[lcores]\n{lcores}\n{}{}", port("a"), port("b"));
        weir_config::parse("test.toml", &text).unwrap()
    }

    #[test]
    fn the_generator_has_a_cpu_of_its_own() {
        let cpu_plan = CpuPlan::new(&switch("layout = \"single\""), &[0, 1]).unwrap();
        assert_eq!(
            (&cpu_plan.placement.cpus[..], cpu_plan.tester, &cpu_plan.placement.switches[0].on[..]),
            (&[1, 0][..], 1, &[0][..])
        );
        assert_eq!(cpu_plan.roles(), ["CPU 1: RX 0,1 + FWD 0,1 + TX 0,1", "CPU 0: generator"]);
        let cpu_plan = CpuPlan::new(&switch("layout = \"single\"\ncores = [0]"), &[0, 1]).unwrap();
        assert_eq!(cpu_plan.placement.cpus, [0, 1]);
    }

    #[test]
    fn lcores_that_share_a_cpu_are_a_warning() {
        let cpu_plan = CpuPlan::new(&switch("layout = \"rx-fwd-tx\""), &[0, 1]).unwrap();
        assert_eq!(cpu_plan.placement.switches[0].on, [0, 0, 0]);
        assert!(
            cpu_plan.warnings.iter().any(|warning| warning.contains("3 lcores of the switch run in turn on 1 CPU"))
        );
    }

    #[test]
    fn without_a_cpu_for_the_generator_nothing_starts() {
        for (lcores, allowed) in [("layout = \"single\"", &[3][..]), ("layout = \"rx-tx\"\ncores = [0, 1]", &[0, 1])] {
            let Err(BenchError::Plan(message)) = CpuPlan::new(&switch(lcores), allowed) else { panic!("seated") };
            assert!(
                message.contains("a CPU of its own") && message.contains("write fewer [lcores] cores"),
                "{message}"
            );
        }
    }

    #[test]
    fn a_look_at_the_clock_costs_something() {
        assert!(clock_cost_ns(&Clock::new()) > 0.0);
    }
}
