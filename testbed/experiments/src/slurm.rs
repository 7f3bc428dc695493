//! `--slurm` of `weir sweep`, `weir explore` and `weir reproduce --farm`: a job array with one shard per task, and a job after it
//! that brings the results together.

use std::fs;
use std::io;
use std::path::{Path, PathBuf, absolute};
use std::process::{Command, Output};

use crate::Failure;
use crate::files::{quoted, with_path};

/// Job of a script.
pub(crate) struct Job {
    /// Name after `weir-`.
    pub name: &'static str,
    /// Shell command.
    pub command: String,
}

/// Parameters of the job scripts. All tasks work in one directory, which all nodes must see.
pub(crate) struct JobArray<'a> {
    /// Folder of scripts and logs.
    pub folder: PathBuf,
    /// Job of each task; the options of its shard are appended to the command.
    pub array: Job,
    /// Job after the array, and its description: "draws the map".
    pub last: Job,
    pub last_does: &'static str,
    pub tasks: usize,
    /// Cores of each task.
    pub cores: usize,
    /// Additional options of sbatch, passed unchanged.
    pub options: &'a [String],
    /// Whether to write scripts without submitting them.
    pub is_rehearsal: bool,
}

impl JobArray<'_> {
    /// Checks that jobs can be submitted, before anything is written.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.is_rehearsal { Ok(()) } else { sbatch(&["--version".to_owned()]).map(drop) }
    }

    /// Writes the scripts, and submits them unless this is a rehearsal.
    pub(crate) fn submit(&self) -> Result<(), Failure> {
        fs::create_dir_all(&self.folder).map_err(with_path(&self.folder))?;
        let [array, last] =
            [("array", self.array_script()?), (self.last.name, self.last_script()?)].map(|(name, text)| {
                let path = self.folder.join(format!("{name}.sh"));
                fs::write(&path, text).map(|()| path.clone()).map_err(with_path(&path))
            });
        let (array, last) = (array?, last?);
        println!("written: {}, {}", array.display(), last.display());
        if self.is_rehearsal {
            return Ok(());
        }
        let number = sbatch(&["--parsable".to_owned(), array.display().to_string()])?;
        // `afterany`: a task with failed points has exit code 1, and the last job reports or runs the missing points.
        let after = format!("--dependency=afterany:{number}");
        let after_it = sbatch(&["--parsable".to_owned(), after, last.display().to_string()])?;
        let (tasks, does) = (self.tasks, self.last_does);
        println!("submitted: job {number}, an array of {tasks} tasks, and job {after_it}, which {does}");
        Ok(())
    }

    fn array_script(&self) -> io::Result<String> {
        let (tasks, cores) = (self.tasks, self.cores);
        Ok(format!(
            "{}# Each task is a shard. Called again, it goes on where it was stopped.\n\
             exec {} --shard \"$SLURM_ARRAY_TASK_ID\"/{tasks} -j \"${{SLURM_CPUS_PER_TASK:-{cores}}}\"\n",
            self.head(self.array.name, &format!("#SBATCH --array=1-{tasks}\n"), cores, "array-%a.log")?,
            self.array.command,
        ))
    }

    fn last_script(&self) -> io::Result<String> {
        let Job { name, command } = &self.last;
        Ok(format!("{}exec {command}\n", self.head(name, "", 1, &format!("{name}.log"))?))
    }

    /// Options of sbatch at the beginning of a script. The log's path is unquoted: sbatch's quotes are not the shell's.
    fn head(&self, name: &str, array: &str, cores: usize, log: &str) -> io::Result<String> {
        let log = absolute(&self.folder)?.join(log);
        let options: String = self.options.iter().map(|option| format!("#SBATCH {option}\n")).collect();
        Ok(format!(
            "#!/bin/bash\n#SBATCH --job-name=weir-{name}\n{array}#SBATCH --ntasks=1\n#SBATCH --cpus-per-task={cores}\n\
             #SBATCH --output={}\n{options}",
            log.display()
        ))
    }
}

/// Path of this program, quoted for a shell.
pub(crate) fn program() -> Result<String, Failure> {
    shown(&std::env::current_exe()?)
}

/// Absolute path, quoted for a shell.
pub(crate) fn shown(path: &Path) -> Result<String, Failure> {
    Ok(quoted(&absolute(path)?.display().to_string()))
}

/// Runs sbatch and returns its output.
fn sbatch(arguments: &[String]) -> Result<String, Failure> {
    let help = "submit from a machine of a Slurm cluster, or write the scripts alone with --dry-run";
    let Output { status, stdout, stderr } = match Command::new("sbatch").args(arguments).output() {
        Ok(output) => output,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(Failure::Argument(format!("--slurm: there is no sbatch on this machine; {help}")));
        }
        Err(error) => return Err(Failure::Run(format!("sbatch can't be started: {error}"))),
    };
    if !status.success() {
        return Err(Failure::Run(format!("sbatch: {}", String::from_utf8_lossy(&stderr).trim())));
    }
    let output = String::from_utf8_lossy(&stdout).trim().to_owned();
    // `JOB;CLUSTER` with several clusters.
    Ok(output.split(';').next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_of_the_shell_and_of_sbatch() {
        let options = ["--partition=long".to_owned()];
        let file = shown(Path::new("/lab/it's.toml")).unwrap();
        let jobs = JobArray {
            folder: PathBuf::from("/out/a/slurm"),
            array: Job { name: "sweep", command: format!("/bin/weir sweep {file} -o /out/a/shards") },
            last: Job { name: "merge", command: "/bin/weir sweep merge /out/a/shards/* -o /out/a".to_owned() },
            last_does: "merges them",
            tasks: 16,
            cores: 4,
            options: &options,
            is_rehearsal: true,
        };
        let array = jobs.array_script().unwrap();
        assert!(array.contains("#SBATCH --array=1-16\n") && array.contains("#SBATCH --partition=long\n"));
        assert!(array.contains("#SBATCH --output=/out/a/slurm/array-%a.log\n"));
        assert!(array.contains("exec /bin/weir sweep '/lab/it'\\''s.toml' -o /out/a/shards --shard"));
        assert!(array.ends_with("--shard \"$SLURM_ARRAY_TASK_ID\"/16 -j \"${SLURM_CPUS_PER_TASK:-4}\"\n"));
        let merge = jobs.last_script().unwrap();
        assert!(merge.ends_with("exec /bin/weir sweep merge /out/a/shards/* -o /out/a\n"));
        // No option follows the first command.
        for script in [array, merge] {
            let command = script.find("\nexec").unwrap();
            assert!(!script[command..].contains("#SBATCH"));
        }
    }
}
