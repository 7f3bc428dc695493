//! Guests of a folder: boot, lookup and end.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use super::accelerator::Accelerator;
use super::image::Image;
use super::machine::{self, GuestLifetime, GuestPlan, SHELLS};
use super::process;
use super::shell::{CommandOutput, Shell, ShellProgram};
use super::{GuestError, while_doing};

/// Folder of guests. Each guest has a subfolder with its plan, its console, QEMU's log and the sockets of its shells.
#[derive(Clone, Debug)]
pub struct Fleet {
    folder: PathBuf,
}

/// Guest that was started.
#[derive(Clone, Debug)]
pub struct RunningGuest {
    /// Plan that the guest was booted from.
    pub plan: GuestPlan,
    /// Accelerator of the guest.
    pub accelerator: Accelerator,
    folder: PathBuf,
}

/// State of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The guest has booted; its shells respond.
    Ready,
    /// QEMU runs, but the guest has not booted.
    Boots,
    /// QEMU has ended.
    Ended,
}

/// Contents of a guest's record file.
#[derive(serde::Serialize, serde::Deserialize)]
struct GuestRecord {
    plan: GuestPlan,
    accelerator: Accelerator,
}

/// Program that runs in a guest, and exchanges lines with this process. Dropping it ends the program.
#[derive(Debug)]
pub struct GuestProgram {
    guest: RunningGuest,
    /// Number of its shell.
    shell: usize,
    program: ShellProgram,
    _claim: File,
}

/// Longest time for a booted guest to respond.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

impl Fleet {
    /// Opens a folder of guests; creates it if missing.
    ///
    /// # Errors
    /// The folder can't be created.
    pub fn open(folder: &Path) -> Result<Fleet, GuestError> {
        let failed = || while_doing(format!("the guests' folder {}", folder.display()));
        fs::create_dir_all(folder).map_err(failed())?;
        // Absolute, since QEMU does not start in our working folder.
        Ok(Fleet { folder: folder.canonicalize().map_err(failed())? })
    }

    /// Opens the folder of this user's guests.
    ///
    /// # Errors
    /// The folder can't be created.
    pub fn by_default() -> Result<Fleet, GuestError> {
        let own = weir_control::make_own_directory().map_err(while_doing("the folder of this user's sockets"))?;
        Fleet::open(&own.join("vm"))
    }

    /// Starts guests and waits until all have booted. If one fails, all are ended. `on_ready` is called for each booted
    /// guest with the time taken.
    ///
    /// # Errors
    /// A name is in use, a switch is missing, or a guest does not boot.
    pub fn up(
        &self,
        image: &Image,
        accelerator: Accelerator,
        plans: &[GuestPlan],
        lifetime: GuestLifetime,
        on_ready: &mut dyn FnMut(&RunningGuest, Duration),
    ) -> Result<Vec<RunningGuest>, GuestError> {
        let started = Instant::now();
        let running = self.start(image, accelerator, plans, lifetime)?;
        let outcome = running.iter().try_for_each(|guest| {
            guest.wait_until_ready(started)?;
            on_ready(guest, started.elapsed());
            Ok(())
        });
        if let Err(error) = outcome {
            running.iter().for_each(RunningGuest::end);
            return Err(error);
        }
        Ok(running)
    }

    /// Starts guests without waiting. If one can't be started, all are ended.
    ///
    /// # Errors
    /// A name is in use, a switch is missing, or QEMU does not start.
    pub fn start(
        &self,
        image: &Image,
        accelerator: Accelerator,
        plans: &[GuestPlan],
        lifetime: GuestLifetime,
    ) -> Result<Vec<RunningGuest>, GuestError> {
        let mut running = Vec::new();
        if let Err(error) = self.start_all(image, accelerator, plans, lifetime, &mut running) {
            running.iter().for_each(RunningGuest::end);
            return Err(error);
        }
        Ok(running)
    }

    /// Returns the guest of a plan before it is started.
    pub fn expected(&self, plan: &GuestPlan) -> RunningGuest {
        RunningGuest { plan: plan.clone(), accelerator: Accelerator::Tcg, folder: self.folder.join(&plan.name) }
    }

    fn start_all(
        &self,
        image: &Image,
        accelerator: Accelerator,
        plans: &[GuestPlan],
        lifetime: GuestLifetime,
        running: &mut Vec<RunningGuest>,
    ) -> Result<(), GuestError> {
        let _lock = self.lock()?;
        for plan in plans {
            let folder = self.folder.join(&plan.name);
            if let Ok(known) = RunningGuest::load(&folder)
                && known.state() != State::Ended
            {
                return Err(GuestError::Exists(plan.name.clone()));
            }
            if !plan.makes_socket && !is_listened_at(&plan.socket) {
                return Err(GuestError::NoSwitch(plan.socket.clone()));
            }
        }
        for plan in plans {
            let guest = RunningGuest { plan: plan.clone(), accelerator, folder: self.folder.join(&plan.name) };
            guest.end();
            let failed = || while_doing(format!("the guest's folder {}", guest.folder.display()));
            fs::create_dir_all(&guest.folder).map_err(failed())?;
            // Written before QEMU starts, so that the guest is found even if this process dies.
            let record = GuestRecord { plan: plan.clone(), accelerator };
            let text = serde_json::to_vec_pretty(&record).expect("a plan is plain data");
            fs::write(guest.record(), text).map_err(failed())?;
            running.push(guest.clone());
            let mut child = machine::start(image, accelerator, plan, &guest.folder, lifetime)?;
            // Reaps the child process.
            if lifetime == GuestLifetime::BoundToThread {
                thread::spawn(move || child.wait());
            }
        }
        Ok(())
    }

    /// Returns all guests by name, running or not.
    pub fn all(&self) -> Vec<RunningGuest> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut guests: Vec<RunningGuest> =
            entries.filter_map(|entry| RunningGuest::load(&entry.path()).ok()).collect();
        guests.sort_by(|one, other| one.plan.name.cmp(&other.plan.name));
        guests
    }

    /// Returns the guest of this name.
    ///
    /// # Errors
    /// No guest has this name.
    pub fn named(&self, name: &str) -> Result<RunningGuest, GuestError> {
        let mut all = self.all();
        match all.iter().position(|guest| guest.plan.name == name) {
            Some(at) => Ok(all.swap_remove(at)),
            None => {
                let known = all.into_iter().map(|guest| guest.plan.name).collect();
                Err(GuestError::Unknown { name: name.to_owned(), known })
            }
        }
    }

    /// Ends these guests and removes their files.
    ///
    /// # Errors
    /// The folder can't be locked.
    pub fn down(&self, guests: &[RunningGuest]) -> Result<(), GuestError> {
        let _lock = self.lock()?;
        thread::scope(|scope| {
            for guest in guests {
                scope.spawn(|| guest.end());
            }
        });
        Ok(())
    }

    /// Locks the folder against other processes that start or end guests.
    fn lock(&self) -> Result<File, GuestError> {
        let failed = || while_doing(format!("the lock in {}", self.folder.display()));
        let file = File::create(self.folder.join("lock")).map_err(failed())?;
        flock(&file, FlockOperation::LockExclusive).map_err(|error| failed()(error.into()))?;
        Ok(file)
    }
}

impl RunningGuest {
    /// CPU time that a guest's QEMU may take until it has booted: five times that of an emulated guest.
    const BOOT_CPU_TIME: Duration = Duration::from_secs(150);
    /// Longest boot time, for a guest that gets no CPU, or hangs.
    const BOOT_WITHIN: Duration = Duration::from_secs(900);

    fn load(folder: &Path) -> io::Result<RunningGuest> {
        let text = fs::read(folder.join("guest.json"))?;
        let GuestRecord { plan, accelerator } = serde_json::from_slice(&text)?;
        Ok(RunningGuest { plan, accelerator, folder: folder.to_owned() })
    }

    fn record(&self) -> PathBuf {
        self.folder.join("guest.json")
    }

    /// Returns the process id of the guest's QEMU.
    pub fn process(&self) -> Option<i32> {
        process::with_argument(&machine::pid_file(&self.folder)).into_iter().next()
    }

    /// Returns the state of the guest.
    pub fn state(&self) -> State {
        self.state_with(self.process())
    }

    fn state_with(&self, process: Option<i32>) -> State {
        if process.is_none() {
            return State::Ended;
        }
        let text = fs::read(machine::console(&self.folder)).unwrap_or_default();
        if String::from_utf8_lossy(&text).contains("weir: ready") { State::Ready } else { State::Boots }
    }

    /// Returns the state of a guest that was started at `started`.
    ///
    /// # Errors
    /// The guest is still booting after [`Self::BOOT_CPU_TIME`] or [`Self::BOOT_WITHIN`].
    pub(crate) fn boot_state(&self, started: Instant) -> Result<State, GuestError> {
        let process = self.process();
        let state = self.state_with(process);
        let cpu_time = process.and_then(process::cpu_time).unwrap_or_default();
        let is_late = cpu_time > Self::BOOT_CPU_TIME || started.elapsed() > Self::BOOT_WITHIN;
        if state == State::Boots && is_late {
            return Err(GuestError::NotBooted {
                name: self.plan.name.clone(),
                seconds: started.elapsed().as_secs(),
                cpu_seconds: cpu_time.as_secs(),
                console: machine::last_output(&self.folder),
            });
        }
        Ok(state)
    }

    fn wait_until_ready(&self, started: Instant) -> Result<(), GuestError> {
        let mut was_seen = false;
        loop {
            match self.boot_state(started)? {
                State::Ready => return Ok(()),
                State::Boots => was_seen = true,
                // A QEMU that could not start leaves its reason in the log, and no other trace.
                State::Ended if was_seen || fs::metadata(machine::log(&self.folder)).is_ok_and(|log| log.len() > 0) => {
                    return Err(self.ended());
                }
                State::Ended if started.elapsed() > Self::BOOT_WITHIN => return Err(self.ended()),
                State::Ended => {}
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Returns the error that the guest's QEMU has ended, with the last output.
    pub fn ended(&self) -> GuestError {
        GuestError::Ended { name: self.plan.name.clone(), output: machine::last_output(&self.folder) }
    }

    fn silent(&self, within: Duration) -> GuestError {
        GuestError::Silent {
            name: self.plan.name.clone(),
            seconds: within.as_secs(),
            output: machine::last_output(&self.folder),
        }
    }

    /// Runs a command in the guest with `sh -c` to its end; returns the exit code. `shown` is called with output as it
    /// arrives. The command is ended when `stop` returns true.
    ///
    /// # Errors
    /// The guest does not respond, all its shells are in use, or the command takes longer than `within`.
    pub fn run(
        &self,
        command: &str,
        within: Duration,
        shown: &mut dyn FnMut(&[u8]),
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<i32, GuestError> {
        let (number, _claim, mut shell) = self.open_shell()?;
        let to_guest_error = |error: io::Error| match error.kind() {
            ErrorKind::TimedOut => GuestError::Overdue {
                name: self.plan.name.clone(),
                seconds: within.as_secs(),
                command: command.to_owned(),
            },
            _ => self.shell_error(error),
        };
        let grouped = grouped(number, command);
        thread::scope(|scope| {
            let (done, is_done) = std::sync::mpsc::channel::<()>();
            scope.spawn(move || {
                while is_done.recv_timeout(Duration::from_millis(50)) == Err(std::sync::mpsc::RecvTimeoutError::Timeout)
                {
                    if stop() {
                        // If this fails, the guest is ending anyway.
                        let _ = self.kill_shell_command(number);
                        return;
                    }
                }
            });
            let code = shell.run(&grouped, within, shown);
            drop(done);
            if code.is_err() {
                let _ = self.kill_shell_command(number);
            }
            code.map_err(to_guest_error)
        })
    }

    /// Runs a command and returns its output.
    ///
    /// # Errors
    /// Same as [`RunningGuest::run`].
    pub fn output(&self, command: &str, within: Duration) -> Result<CommandOutput, GuestError> {
        let mut output = Vec::new();
        let code = self.run(command, within, &mut |piece| output.extend_from_slice(piece), &|| false)?;
        Ok(CommandOutput { code, output: String::from_utf8_lossy(&output).into_owned() })
    }

    /// Starts a command in the guest with `sh -c`, and leaves it running.
    ///
    /// # Errors
    /// The guest does not respond, or all its shells are in use.
    pub fn start(&self, command: &str) -> Result<GuestProgram, GuestError> {
        let (number, claim, shell) = self.open_shell()?;
        let program = shell.start(&grouped(number, command)).map_err(|error| self.shell_error(error))?;
        Ok(GuestProgram { guest: self.clone(), shell: number, program, _claim: claim })
    }

    /// Connects to an unused shell of the guest; returns its number and its lock too.
    fn open_shell(&self) -> Result<(usize, File, Shell), GuestError> {
        let (number, claim) = self.claim_shell()?;
        // A command left by a killed process would block this shell.
        self.kill_shell_command(number)?;
        let shell = Shell::connect(&machine::shell_socket(&self.folder, number), ANSWER_WITHIN);
        let shell = shell.map_err(|error| match error.kind() {
            ErrorKind::TimedOut => self.silent(ANSWER_WITHIN),
            _ => self.shell_error(error),
        })?;
        Ok((number, claim, shell))
    }

    fn shell_error(&self, error: io::Error) -> GuestError {
        match error.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionRefused | ErrorKind::NotFound => {
                self.ended()
            }
            _ => while_doing(format!("the shell of guest {}", self.plan.name))(error),
        }
    }

    /// Claims an unused shell of the guest.
    fn claim_shell(&self) -> Result<(usize, File), GuestError> {
        for number in 1..SHELLS {
            let path = self.folder.join(format!("shell{number}.lock"));
            let file = File::create(&path).map_err(|error| match error.kind() {
                ErrorKind::NotFound => self.ended(),
                _ => while_doing(format!("{}", path.display()))(error),
            })?;
            if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
                return Ok((number, file));
            }
        }
        Err(GuestError::Busy(self.plan.name.clone(), SHELLS - 1))
    }

    /// Ends the command of one shell through another shell.
    fn kill_shell_command(&self, number: usize) -> Result<(), GuestError> {
        let lock = File::create(self.folder.join("shell0.lock")).map_err(|_| self.ended())?;
        let _ = flock(&lock, FlockOperation::LockExclusive);
        let first = machine::shell_socket(&self.folder, 0);
        let mut shell = Shell::connect(&first, ANSWER_WITHIN).map_err(|error| match error.kind() {
            ErrorKind::TimedOut => self.silent(ANSWER_WITHIN),
            _ => self.ended(),
        })?;
        let file = format!("/run/agent/{number}");
        // Without `--`, which the guest's shell parses as a number.
        let command = format!("[ ! -e {file} ] || {{ kill -9 -$(cat {file}); rm {file}; }} 2>/dev/null");
        shell.run(&command, ANSWER_WITHIN, &mut |_| ()).map_err(|_| self.silent(ANSWER_WITHIN))?;
        Ok(())
    }

    /// Ends the guest without shutdown, and removes its files.
    pub fn end(&self) {
        process::end(&machine::pid_file(&self.folder));
        if self.plan.makes_socket {
            let _ = fs::remove_file(&self.plan.socket);
        }
        // Only a guest's folder is removed.
        if self.record().exists() {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

impl GuestProgram {
    /// Queues a line for the program.
    pub fn write(&mut self, line: &str) {
        self.program.write(line);
    }

    /// Sends queued lines, and returns the next line of the program, without waiting; `None` if there is none yet.
    ///
    /// # Errors
    /// The program has ended.
    pub fn poll_line(&mut self) -> io::Result<Option<String>> {
        self.program.poll_line()
    }

    /// Waits until the program has written, or can be written to, for this long at most.
    pub fn wait(&self, most: Duration) {
        self.program.wait(most);
    }
}

impl Drop for GuestProgram {
    fn drop(&mut self) {
        // If this fails, the guest is ending anyway.
        let _ = self.guest.kill_shell_command(self.shell);
    }
}

/// Returns a command in a process group of its own, so that all of it can be ended; by path, since busybox would run its own shell.
fn grouped(shell: usize, command: &str) -> String {
    format!("setsid /bin/sh -c 'echo $$ > /run/agent/{shell}; {}'", command.replace('\'', "'\\''"))
}

/// Whether a process listens at a socket. Does not connect: a vhost-user server would take the connection for a guest.
fn is_listened_at(socket: &Path) -> bool {
    let Ok(table) = fs::read_to_string("/proc/net/unix") else { return socket.exists() };
    let socket = socket.display().to_string();
    // Num RefCount Protocol Flags Type St Inode Path; the flag marks a socket that accepts connections.
    table.lines().any(|line| {
        let mut fields = line.split_whitespace();
        fields.nth(3) == Some("00010000") && line.ends_with(&format!(" {socket}"))
    })
}
