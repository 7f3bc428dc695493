//! `weir explore --slurm`: a job array that shares the batches of settings, and a job that draws the map.

use std::fs;
use std::path::{Path, absolute};

use super::ExploreArguments;
use crate::Failure;
use crate::files::{at, quoted};
use crate::reproduce::experiment::Experiment;
use crate::sweep::sbatch;

/// Writes the scripts and submits them, unless it is only a rehearsal. All tasks work in one directory, which all nodes must see.
pub(super) fn submit(arguments: &ExploreArguments, experiment: &Experiment) -> Result<(), Failure> {
    if !arguments.dry_run {
        // Before anything is written.
        sbatch(&["--version".to_owned()])?;
    }
    let folder = absolute(&arguments.output)?.join(&experiment.id).join("slurm");
    fs::create_dir_all(&folder).map_err(at(&folder))?;
    let command = command(arguments, experiment)?;
    let tasks = arguments.tasks;
    let of_array =
        format!("#SBATCH --array=1-{tasks}\n#SBATCH --cpus-per-task={cores}\n", cores = arguments.jobs.unwrap_or(1));
    let shard = format!("--shard \"$SLURM_ARRAY_TASK_ID\"/{tasks} -j \"${{SLURM_CPUS_PER_TASK:-1}}\"");
    let jobs = [("array", of_array, shard), ("map", "#SBATCH --cpus-per-task=1\n".to_owned(), "-j 1".to_owned())];
    let mut scripts = Vec::new();
    for (name, options, more) in jobs {
        let script = folder.join(format!("{name}.sh"));
        let log = folder.join(if name == "array" { "array-%a.log" } else { "map.log" });
        let own: String = arguments.sbatch.iter().map(|option| format!("#SBATCH {option}\n")).collect();
        let text = format!(
            "#!/bin/bash\n#SBATCH --job-name=weir-{name}\n#SBATCH --ntasks=1\n#SBATCH --output={}\n{options}{own}exec {command} {more}\n",
            log.display()
        );
        fs::write(&script, text).map_err(at(&script))?;
        scripts.push(script);
    }
    println!("written: {}, {}", scripts[0].display(), scripts[1].display());
    if arguments.dry_run {
        return Ok(());
    }
    let array = sbatch(&["--parsable".to_owned(), scripts[0].display().to_string()])?;
    // After any end: a batch that a task did not finish is finished by the job that draws the map.
    let after = format!("--dependency=afterany:{array}");
    let map = sbatch(&["--parsable".to_owned(), after, scripts[1].display().to_string()])?;
    println!("submitted: job {array}, an array of {tasks} tasks, and job {map}, which draws the map");
    Ok(())
}

/// The call that each job makes, but for what it does of it.
fn command(arguments: &ExploreArguments, experiment: &Experiment) -> Result<String, Failure> {
    let path = |path: &Path| -> Result<String, Failure> { Ok(quoted(&absolute(path)?.display().to_string())) };
    let program = path(&std::env::current_exe()?)?;
    let (folder, output) = (path(experiment.folder())?, path(&arguments.output)?);
    let settings = arguments.settings.unwrap_or_default();
    let pins: String = arguments.pin.iter().map(|pin| format!(" --pin {}", quoted(pin))).collect();
    Ok(format!("{program} explore {folder} -o {output} --settings {settings}{pins}"))
}
