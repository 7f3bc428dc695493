//! `--slurm` of `weir explore` and `weir reproduce --farm`: a job array that shares the runs, and a job that evaluates
//! them.

use std::fs;
use std::path::{Path, PathBuf, absolute};

use crate::Failure;
use crate::files::{quoted, with_path};
use crate::sweep::sbatch;

/// Parameters of the job scripts. All tasks work in one directory, which all nodes must see.
pub(super) struct JobArray<'a> {
    /// Folder of scripts and logs.
    pub folder: PathBuf,
    /// Shell command common to all jobs; each job appends its own options.
    pub command: String,
    /// Name of the job after the array, "map"; `last_does` describes it, "draws the map".
    pub last: &'static str,
    pub last_does: &'static str,
    pub tasks: u32,
    pub cores: u32,
    /// Additional options of sbatch, passed unchanged.
    pub options: &'a [String],
    /// Whether to write scripts without submitting them.
    pub is_rehearsal: bool,
}

impl JobArray<'_> {
    /// Writes the scripts and submits them, unless this is a rehearsal.
    pub(super) fn submit(&self) -> Result<(), Failure> {
        if !self.is_rehearsal {
            // Fails before anything is written.
            sbatch(&["--version".to_owned()])?;
        }
        let folder = absolute(&self.folder)?;
        fs::create_dir_all(&folder).map_err(with_path(&folder))?;
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
            fs::write(&script, text).map_err(with_path(&script))?;
            scripts.push(script);
        }
        println!("written: {}, {}", scripts[0].display(), scripts[1].display());
        if self.is_rehearsal {
            return Ok(());
        }
        let array = sbatch(&["--parsable".to_owned(), scripts[0].display().to_string()])?;
        // `afterany`: the last job also runs the points that tasks left unfinished.
        let after = format!("--dependency=afterany:{array}");
        let last = sbatch(&["--parsable".to_owned(), after, scripts[1].display().to_string()])?;
        println!("submitted: job {array}, an array of {tasks} tasks, and job {last}, which {}", self.last_does);
        Ok(())
    }
}

/// Path of this program, quoted for a shell.
pub(super) fn program() -> Result<String, Failure> {
    shown(&std::env::current_exe()?)
}

/// Absolute path, quoted for a shell.
pub(super) fn shown(path: &Path) -> Result<String, Failure> {
    Ok(quoted(&absolute(path)?.display().to_string()))
}
