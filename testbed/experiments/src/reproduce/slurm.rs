//! `--slurm` of `weir explore` and `weir reproduce --farm`: a job array that shares the runs, and a job that says what came of them.

use std::fs;
use std::path::{Path, PathBuf, absolute};

use crate::Failure;
use crate::files::{at, quoted};
use crate::sweep::sbatch;

/// What goes into the job scripts. All tasks work in one directory, which all nodes must see.
pub(super) struct Array<'a> {
    /// Where scripts and logs are.
    pub folder: PathBuf,
    /// The call that each job makes, for a shell, but for what it does of it.
    pub command: String,
    /// The job after the array, and what it does: "map", "draws the map".
    pub last: &'static str,
    pub last_does: &'static str,
    pub tasks: u32,
    /// Cores of a task.
    pub cores: u32,
    /// Further options of sbatch, as they are.
    pub options: &'a [String],
    /// Scripts alone.
    pub is_rehearsal: bool,
}

impl Array<'_> {
    /// Writes the scripts and submits them, unless it is only a rehearsal.
    pub(super) fn submit(&self) -> Result<(), Failure> {
        if !self.is_rehearsal {
            // Before anything is written.
            sbatch(&["--version".to_owned()])?;
        }
        let folder = absolute(&self.folder)?;
        fs::create_dir_all(&folder).map_err(at(&folder))?;
        let (command, tasks) = (&self.command, self.tasks);
        let of_array = format!("#SBATCH --array=1-{tasks}\n#SBATCH --cpus-per-task={}\n", self.cores);
        let shard = format!("--shard \"$SLURM_ARRAY_TASK_ID\"/{tasks} -j \"${{SLURM_CPUS_PER_TASK:-1}}\"");
        let jobs =
            [("array", of_array, shard), (self.last, "#SBATCH --cpus-per-task=1\n".to_owned(), "-j 1".to_owned())];
        let mut scripts = Vec::new();
        for (name, options, more) in jobs {
            let script = folder.join(format!("{name}.sh"));
            let log = folder.join(if name == "array" { "array-%a.log".to_owned() } else { format!("{name}.log") });
            let own: String = self.options.iter().map(|option| format!("#SBATCH {option}\n")).collect();
            let text = format!(
                "#!/bin/bash\n#SBATCH --job-name=weir-{name}\n#SBATCH --ntasks=1\n#SBATCH --output={}\n{options}{own}exec {command} {more}\n",
                log.display()
            );
            fs::write(&script, text).map_err(at(&script))?;
            scripts.push(script);
        }
        println!("written: {}, {}", scripts[0].display(), scripts[1].display());
        if self.is_rehearsal {
            return Ok(());
        }
        let array = sbatch(&["--parsable".to_owned(), scripts[0].display().to_string()])?;
        // After any end: what a task did not finish is finished by the job after them.
        let after = format!("--dependency=afterany:{array}");
        let last = sbatch(&["--parsable".to_owned(), after, scripts[1].display().to_string()])?;
        println!("submitted: job {array}, an array of {tasks} tasks, and job {last}, which {}", self.last_does);
        Ok(())
    }
}

/// This program, for a shell.
pub(super) fn program() -> Result<String, Failure> {
    shown(&std::env::current_exe()?)
}

/// A path from wherever the job runs, for a shell.
pub(super) fn shown(path: &Path) -> Result<String, Failure> {
    Ok(quoted(&absolute(path)?.display().to_string()))
}
