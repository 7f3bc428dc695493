//! A part of a program, counted in instructions: wall time on a shared machine could not be held against a limit.

use std::process::Command;

/// What is counted, and held against what.
#[derive(Clone, Copy, Debug)]
pub struct Counted<'a> {
    /// The name of what is run, as it is told.
    pub name: &'a str,
    /// The calling program's argument with which it runs that.
    pub argument: &'a str,
    /// Its environment besides.
    pub environment: &'a [(&'a str, &'a str)],
    /// The functions whose instructions count, with all that they call: a pattern of callgrind's.
    pub functions: &'a str,
    /// What one of is looked at, as it is told.
    pub each: &'a str,
    /// What stands before their number in what the program prints.
    pub number_after: &'a str,
    /// The most instructions for each.
    pub most: f64,
}

impl Counted<'_> {
    /// Runs the calling program under callgrind, and tells how many instructions each takes. Ends this process with 1 if they are more
    /// than there may be.
    ///
    /// # Panics
    /// If valgrind can't be run, or the program does not print what it is to print.
    pub fn hold(&self) {
        let own = std::env::current_exe().expect("this program");
        let out = std::env::temp_dir().join(format!("weir-callgrind-{}", std::process::id()));
        let output = Command::new("valgrind")
            .args(["--tool=callgrind", &format!("--toggle-collect={}", self.functions)])
            .arg(format!("--callgrind-out-file={}", out.display()))
            .args([own.as_os_str(), self.argument.as_ref()])
            .envs(self.environment.iter().copied())
            .output()
            .unwrap_or_else(|error| {
                panic!("valgrind can't be run: {error}; install it, for Debian: apt install valgrind")
            });
        let _ = std::fs::remove_file(&out);
        let [told, counted] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
        let number_after = |text: &str, word: &str| {
            let rest =
                text.split(word).nth(1).unwrap_or_else(|| panic!("no `{word}` in what it printed: {told}{counted}"));
            let digits: String =
                rest.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
            digits.parse::<f64>().expect("a number")
        };
        let instructions = number_after(&counted, "Collected") / number_after(&told, self.number_after);
        let Counted { name, each, most, .. } = self;
        println!("{name}: {instructions:.0} instructions a {each}, {most} at most");
        if instructions > *most {
            eprintln!("a {each} takes more instructions than it should");
            std::process::exit(1);
        }
    }
}
