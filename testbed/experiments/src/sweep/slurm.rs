//! `weir sweep --slurm`: a job array with one shard per task, and a job that merges the results.

use std::fs;
use std::io;
use std::path::{Path, PathBuf, absolute};
use std::process::{Command, Output};

use super::directory::{Manifest, Origin, check};
use crate::Failure;
use crate::files::{quoted, with_path};

/// Parameters of the job scripts.
pub(super) struct Jobs<'a> {
    pub file: &'a Path,
    pub directory: &'a Path,
    pub tasks: usize,
    pub cores: usize,
    /// Additional options of sbatch, passed unchanged.
    pub options: &'a [String],
}

/// Writes the scripts, and submits them unless this is a rehearsal.
pub(super) fn submit(jobs: &Jobs<'_>, manifest: &Manifest, is_rehearsal: bool) -> Result<(), Failure> {
    let manifest = Manifest { made_by: Origin::Merge, ..manifest.clone() };
    check(jobs.directory, &manifest)?;
    if !is_rehearsal {
        // Fails before anything is written.
        sbatch(&["--version".to_owned()])?;
    }
    let folder = jobs.directory.join("slurm");
    fs::create_dir_all(&folder).map_err(with_path(&folder))?;
    manifest.write(jobs.directory)?;
    let program = std::env::current_exe()?;
    let [array, merge] =
        [("array.sh", jobs.array(&program)?), ("merge.sh", jobs.merge(&program)?)].map(|(name, text)| {
            let path = folder.join(name);
            fs::write(&path, text).map(|()| path.clone()).map_err(with_path(&path))
        });
    let (array, merge) = (array?, merge?);
    println!("written: {}, {}", array.display(), merge.display());
    if is_rehearsal {
        return Ok(());
    }
    let number = sbatch(&["--parsable".to_owned(), array.display().to_string()])?;
    // `afterany`: a task with failed points has exit code 1, and the merge reports missing points.
    let after = format!("--dependency=afterany:{number}");
    let merging = sbatch(&["--parsable".to_owned(), after, merge.display().to_string()])?;
    println!("submitted: job {number}, an array of {} tasks, and job {merging}, which merges them", jobs.tasks);
    println!("the tables will be in {}; the logs are in {}", jobs.directory.display(), folder.display());
    Ok(())
}

impl Jobs<'_> {
    fn array(&self, program: &Path) -> io::Result<String> {
        let log = self.log("array-%a.log")?;
        let [program, file, shards] =
            [program.to_owned(), absolute(self.file)?, self.shards()?].map(|path| quoted(&path.display().to_string()));
        Ok(format!(
            "#!/bin/bash\n#SBATCH --job-name=weir-sweep\n#SBATCH --array=1-{tasks}\n#SBATCH --ntasks=1\n\
             #SBATCH --cpus-per-task={cores}\n#SBATCH --output={log}\n{options}\
             # Each task is a shard. Called again, it goes on where it was stopped.\n\
             exec {program} sweep {file} -o {shards}/\"$SLURM_ARRAY_TASK_ID\" \\\n    \
             --shard \"$SLURM_ARRAY_TASK_ID\"/{tasks} -j \"${{SLURM_CPUS_PER_TASK:-{cores}}}\"\n",
            tasks = self.tasks,
            cores = self.cores,
            options = self.option_lines(),
        ))
    }

    fn merge(&self, program: &Path) -> io::Result<String> {
        let log = self.log("merge.log")?;
        let [program, shards, output] = [program.to_owned(), self.shards()?, absolute(self.directory)?]
            .map(|path| quoted(&path.display().to_string()));
        Ok(format!(
            "#!/bin/bash\n#SBATCH --job-name=weir-merge\n#SBATCH --ntasks=1\n#SBATCH --cpus-per-task=1\n#SBATCH --output={log}\n\
             {options}exec {program} sweep merge {shards}/* -o {output}\n",
            options = self.option_lines(),
        ))
    }

    fn shards(&self) -> io::Result<PathBuf> {
        Ok(absolute(self.directory)?.join("shards"))
    }

    /// Path of a log, unquoted: sbatch's quotes are not the shell's.
    fn log(&self, name: &str) -> io::Result<String> {
        Ok(absolute(self.directory)?.join("slurm").join(name).display().to_string())
    }

    fn option_lines(&self) -> String {
        self.options.iter().map(|option| format!("#SBATCH {option}\n")).collect()
    }
}

/// Runs sbatch and returns its output.
pub(crate) fn sbatch(arguments: &[String]) -> Result<String, Failure> {
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
        let jobs = Jobs {
            file: Path::new("/lab/it's.toml"),
            directory: Path::new("/out/a"),
            tasks: 16,
            cores: 4,
            options: &options,
        };
        let array = jobs.array(Path::new("/bin/weir")).unwrap();
        assert!(array.contains("#SBATCH --array=1-16\n") && array.contains("#SBATCH --partition=long\n"));
        assert!(array.contains("#SBATCH --output=/out/a/slurm/array-%a.log\n"));
        assert!(array.contains("exec /bin/weir sweep '/lab/it'\\''s.toml' -o /out/a/shards/\"$SLURM_ARRAY_TASK_ID\""));
        assert!(array.ends_with("--shard \"$SLURM_ARRAY_TASK_ID\"/16 -j \"${SLURM_CPUS_PER_TASK:-4}\"\n"));
        let merge = jobs.merge(Path::new("/bin/weir")).unwrap();
        assert!(merge.ends_with("exec /bin/weir sweep merge /out/a/shards/* -o /out/a\n"));
        // No option follows the first command.
        for script in [array, merge] {
            let command = script.find("\nexec").unwrap();
            assert!(!script[command..].contains("#SBATCH"));
        }
    }
}
