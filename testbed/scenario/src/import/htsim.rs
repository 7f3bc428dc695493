//! Connection matrices and topologies of htsim, as scenarios.

mod topology;

use std::path::Path;

use weir_units::{Span, Time};

use super::fabric::{self, FabricOptions};
use super::{ImportErrors, ImportNote, ImportReport, ImportedScenario, read_text};
use crate::workload::ConnectionMatrix;

/// Inputs of an import.
#[derive(Clone, Debug)]
pub struct HtsimOptions<'p> {
    /// Name of the scenario file without `.toml`, with which the matrix's name begins.
    pub stem: String,
    /// Connection matrix.
    pub matrix: &'p Path,
    /// Topology file.
    pub topology: Option<&'p Path>,
    /// Fabric without a topology file.
    pub fabric: FabricOptions,
}

/// Builds a scenario.
///
/// # Errors
/// Errors of a file, and settings that Weir can't simulate.
pub fn import(options: &HtsimOptions<'_>) -> Result<ImportedScenario, ImportErrors> {
    let mut report = ImportReport::default();
    let matrix_file = read_text(options.matrix)?;
    let name = &matrix_file.name;
    let refuse = |error| ImportErrors::of_schedule(name, &error, "write it as htsim reads it");
    let matrix = ConnectionMatrix::read(&matrix_file.text).map_err(refuse)?;
    let topology = options.topology.map(read_text).transpose()?;
    let fabric = match &topology {
        Some(file) => topology::read(file, &mut report)?,
        None => options.fabric.fabric(matrix.nodes())?,
    };
    if let Some(file) = topology.as_ref().filter(|_| fabric.hosts() != matrix.nodes()) {
        let problem = format!("the topology has {} nodes, and {name} has {}", fabric.hosts(), matrix.nodes());
        return Err(ImportErrors::one(&file.name, None, problem, "name files of one fabric"));
    }
    let hosts: Vec<u32> = (0..matrix.nodes() as u32).collect();
    let end = if matrix.is_list() {
        fabric::end_of_list(&matrix.messages(&hosts, Time::ZERO), &fabric, name)?
    } else {
        let graph = matrix.graph(&hosts, Time::ZERO, Time::NEVER).map_err(refuse)?;
        let text = "messages of one pair of nodes share a connection and go out one after the other; in htsim each has its own";
        if matrix.shares_connections() {
            report.approximated.push(ImportNote::for_file(name, text));
        }
        fabric::end_of_graph(&graph, &fabric, name)?
    };
    report_matrix(name, &matrix, &mut report);
    fabric.report_idle(matrix.nodes(), &mut report);
    let copy = format!("{}-matrix.cm", options.stem);
    let sources: Vec<&str> =
        [name].into_iter().chain(topology.as_ref().map(|file| &file.name)).map(String::as_str).collect();
    let scenario = fabric::scenario("htsim", &sources, &fabric, end, ["connection-matrix", &copy], &report);
    Ok(ImportedScenario { scenario, files: vec![(copy, matrix_file.text.into_bytes())], report })
}

fn report_matrix(name: &str, matrix: &ConnectionMatrix, report: &mut ImportReport) {
    let connections = matrix.connections();
    report.taken.push(ImportNote::for_file(name, format!("{} nodes, {} messages", matrix.nodes(), connections.len())));
    let first = |is: fn(Span) -> bool| connections.iter().find(|connection| connection.start.is_some_and(is));
    if let Some(connection) = first(|start| start > Span::ZERO) {
        report.taken.push(ImportNote::for_line(
            name,
            connection.line as usize,
            "starts are in microseconds, as htsim reads them",
        ));
    }
    if let Some(connection) = first(|start| start.as_picos() % 1_000_000 > 0) {
        let text = "starts between whole microseconds are kept, which htsim cuts";
        report.approximated.push(ImportNote::for_line(name, connection.line as usize, text));
    }
    let across = matrix.triggers_across_hosts();
    if across > 0 {
        let text = format!(
            "{across} triggers start messages on other hosts than the end that fires them, at the same instant: hosts run on one thread"
        );
        report.taken.push(ImportNote::for_file(name, text));
    }
    if let Some(connection) = connections.iter().find(|connection| connection.fires_on_receipt) {
        let text = "recv_done_trigger: fires at the receipt; htsim_roce ignores it, and htsim_uec never fires it, so that the next message never starts";
        report.approximated.push(ImportNote::for_line(name, connection.line as usize, text));
    }
    if let Some(connection) = connections.iter().find(|connection| connection.has_priority) {
        report.left.push(ImportNote::for_line(name, connection.line as usize, "prio: all messages have class 3"));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::scenario::TrafficSource;

    /// Imports a matrix, with a topology, and reads the scenario.
    fn imported(matrix: &str, topology: Option<&str>) -> Result<(ImportedScenario, crate::scenario::Scenario), String> {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("m.cm"), matrix).unwrap();
        topology.iter().for_each(|text| fs::write(path("f.topo"), text).unwrap());
        let topology = topology.map(|_| path("f.topo"));
        let (matrix, topology, fabric) = (&path("m.cm"), topology.as_deref(), FabricOptions::default());
        let options = HtsimOptions { stem: "s".to_owned(), matrix, topology, fabric };
        let imported = import(&options).map_err(|errors| errors.to_string())?;
        imported.files.iter().for_each(|(name, content)| fs::write(path(name), content).unwrap());
        let runs = crate::file::parse(&path("s.toml"), &imported.scenario);
        let scenario = runs.unwrap_or_else(|errors| panic!("{}", errors.render(false))).remove(0).scenario;
        Ok((imported, scenario))
    }

    const RING: &str = "Nodes 4\nConnections 3\nTriggers 2\n0->1 id 1 start 0.5 size 1000000 recv_done_trigger 1\n\
                        1->2 id 2 trigger 1 size 1000000 send_done_trigger 2\n2->3 id 3 trigger 2 size 1000000 prio 2\n\
                        trigger id 1 oneshot\ntrigger id 2 oneshot\n";

    #[test]
    fn a_matrix_with_triggers_is_a_graph_that_ends_in_time() {
        let (imported, scenario) = imported(RING, None).unwrap();
        let TrafficSource::Graph(graph) = &scenario.traffic[0].source else { panic!("it has triggers") };
        assert_eq!((graph.messages().count(), graph.has_triggers()), (3, true));
        // Two tiers of k = 4 hold 8 hosts; three messages take 270 us.
        assert_eq!((scenario.hosts.len(), scenario.switches.len(), scenario.end), (8, 6, Time::from_nanos(2_000_000)));
        let notes = |notes: &[ImportNote]| notes.iter().map(|note| note.to_string() + "\n").collect::<String>();
        let approximated = notes(&imported.report.approximated);
        for note in ["m.cm:4: recv_done_trigger: fires at the receipt", "m.cm:4: starts between whole microseconds"] {
            assert!(approximated.contains(note), "{approximated}");
        }
        let taken = notes(&imported.report.taken);
        assert!(
            taken.contains("m.cm: 1 triggers start messages on other hosts")
                && taken.contains("the fabric has 8 hosts"),
            "{taken}"
        );
        assert_eq!(notes(&imported.report.left), "m.cm:6: prio: all messages have class 3\n");
        assert_eq!(imported.files, [("s-matrix.cm".to_owned(), RING.as_bytes().to_vec())]);
    }

    #[test]
    fn a_matrix_without_triggers_is_a_list_if_pairs_repeat() {
        let topology = "Nodes 4\nTiers 2\nPodsize 4\nTier 0\nDownlink_speed_Gbps 25\nRadix_Down 2\nRadix_Up 1\nDownlink_Latency_ns 500\n\
                        Oversubscribed 2\nTier 1\nDownlink_speed_Gbps 25\nRadix_Down 2\nDownlink_Latency_ns 700\n";
        let text = "Nodes 4\nConnections 2\n3->0 start 5000 size 10\n0->1 start 0 size 20\n";
        let (_, scenario) = imported(text, Some(topology)).unwrap();
        let TrafficSource::Graph(graph) = &scenario.traffic[0].source else { panic!("its pairs differ") };
        assert_eq!(graph.messages().count(), 2);
        assert_eq!((scenario.hosts.len(), scenario.switches.len()), (4, 3));
        assert!(scenario.end > Time::from_nanos(5_000_000));
        let again = "Nodes 4\nConnections 2\n3->0 start 5000 size 10\n3->0 start 0 size 20\n";
        let (_, scenario) = imported(again, Some(topology)).unwrap();
        assert_eq!(scenario.traffic[0].messages().len(), 2);
        assert!(scenario.end > Time::from_nanos(5_000_000));
        let error = imported("Nodes 3\nConnections 1\n0->1 start 0 size 20\n", Some(topology)).unwrap_err();
        assert_eq!(error, "f.topo: the topology has 4 nodes, and m.cm has 3; name files of one fabric");
    }

    #[test]
    fn errors_name_file_and_line() {
        let error = imported("Nodes 2\nConnections 1\n0->1 start 0\n", None).unwrap_err();
        assert_eq!(error, "m.cm:3: the size is missing; write for example 0->1 id 1 start 0 size 4096");
        let late = imported("Nodes 2\nConnections 1\n0->1 start 1000000000 size 1\n", None).unwrap_err();
        assert!(
            late.starts_with("m.cm: it takes 1000s at least, longer than a scenario, 1000s; write earlier"),
            "{late}"
        );
    }
}
