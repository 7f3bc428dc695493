//! `weir new`: a program of one's own outside of Weir's sources, made from an example's.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use weir_experiments::Failure;
use weir_mmu::policy::BUFFER_POLICIES;

/// Kinds of programs that `weir new` creates.
#[derive(Subcommand)]
pub(crate) enum NewCommand {
    /// A buffer policy: a program that is this command with one more policy, its test, and a scenario that compares it with DT.
    ///
    /// The policy begins as the one of docs/TUTORIAL_POLICY.md. The folder NAME-policy must not exist.
    Policy(NewArguments),
}

/// Arguments of `weir new policy`.
#[derive(clap::Args)]
pub(crate) struct NewArguments {
    /// Name, as in `policy = "NAME"`: small letters, digits and hyphens.
    name: String,
    /// Folder of Weir's sources. Without it, the nearest one above this folder or this program.
    #[arg(long, value_name = "DIR")]
    weir: Option<PathBuf>,
}

/// Files of examples/my-policy, by their paths in a program's folder.
const TEMPLATES: [(&str, &str); 5] = [
    ("Cargo.toml", include_str!("../../examples/my-policy/Cargo.toml")),
    ("src/lib.rs", include_str!("../../examples/my-policy/src/lib.rs")),
    ("src/main.rs", include_str!("../../examples/my-policy/src/main.rs")),
    ("tests/command.rs", include_str!("../../examples/my-policy/tests/command.rs")),
    ("scenario.toml", include_str!("../../examples/my-policy/scenario.toml")),
];

/// Creates the program of a command line, and prints how to build and run it.
pub(crate) fn policy(arguments: &NewArguments) -> Result<(), Failure> {
    let name = &arguments.name;
    check_name(name).map_err(Failure::Argument)?;
    let sources = sources(arguments.weir.as_deref()).map_err(Failure::Argument)?;
    let program = format!("{name}-policy");
    let folder = Path::new(&program);
    let failed = |path: &Path, error: std::io::Error| Failure::Run(format!("{}: {error}", path.display()));
    fs::create_dir(folder).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            Failure::Argument(format!("{program} exists already: choose another name, or another folder to be in"))
        }
        _ => failed(folder, error),
    })?;
    let write = |path: &str, text: &str| {
        let path = folder.join(path);
        let made = fs::create_dir_all(path.parent().unwrap_or(folder)).and_then(|()| fs::write(&path, text));
        made.map_err(|error| failed(&path, error))
    };
    let written = files(name, &sources).into_iter().try_for_each(|(path, text)| write(path, &text)).and_then(|()| {
        // The versions of other crates that Weir is tested with.
        let lock = sources.join("Cargo.lock");
        let copied = fs::copy(&lock, folder.join("Cargo.lock"));
        copied.map(|_| ()).map_err(|error| failed(&lock, error))
    });
    if let Err(failure) = written {
        let _ = fs::remove_dir_all(folder);
        return Err(failure);
    }
    println!(
        "{program}: the policy is in src/lib.rs\n\
         \n  cd {program}\n  cargo run --release -- testbed run scenario.toml --backend sim\n  cargo test --release\n\
         \nThe program is weir with this policy. docs/TUTORIAL_POLICY.md goes on from here."
    );
    Ok(())
}

/// Returns the files of the program: paths in its folder and texts.
fn files(name: &str, sources: &Path) -> Vec<(&'static str, String)> {
    let sources = format!("{:?}", sources.display().to_string());
    let sources = sources.trim_matches('"');
    let snake = name.replace('-', "_");
    let replacements = [
        ("two-steps", name),
        ("TwoSteps", &type_name(name)),
        ("my-policy", &format!("{name}-policy")),
        ("my_policy", &format!("{snake}_policy")),
        ("\"../../", &format!("\"{sources}/")),
    ];
    let text =
        |template: &str| replacements.iter().fold(template.to_owned(), |text, (old, new)| text.replace(old, new));
    let mut files = TEMPLATES.map(|(path, template)| (path, text(template)));
    if !cfg!(feature = "dpdk") {
        let without_dpdk = |text: &mut String, old: &str, new: &str| *text = text.replace(old, new);
        let [(_, manifest), _, (_, main), ..] = &mut files;
        let crate_line = manifest.lines().find(|line| line.starts_with("weir-on-dpdk")).unwrap_or_default().to_owned();
        without_dpdk(manifest, &format!("{crate_line}\n"), "");
        without_dpdk(manifest, "/weir\" }", "/weir\", default-features = false }");
        without_dpdk(main, "BuiltIn(&weir_on_dpdk::Dpdk)", "NotBuilt");
    }
    files.into()
}

/// Checks that a name is fit for a policy, a crate and types.
fn check_name(name: &str) -> Result<(), String> {
    let is_part = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_lowercase())
            && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    let type_name = type_name(name);
    let is_used = |template: &str| {
        let mut names = template.split(|letter: char| !letter.is_alphanumeric());
        names.any(|other| other.strip_prefix(&*type_name).is_some_and(|rest| ["", "Kind", "Config"].contains(&rest)))
    };
    if name.len() > 31 || !name.split('-').all(is_part) {
        Err(format!(
            "{name:?} is no name of a policy: write at most 31 small letters and digits, words joined by -, such as two-steps"
        ))
    } else if BUFFER_POLICIES.names().any(|other| other == name) {
        Err(format!("{name} is a policy of Weir's: choose another name"))
    } else if type_name == "Self" || name != "two-steps" && TEMPLATES.iter().any(|(_, template)| is_used(template)) {
        Err(format!("{type_name} is a type that policies use: choose another name than {name}"))
    } else {
        Ok(())
    }
}

/// Returns a name of words joined by hyphens as a type's: `two-steps` as `TwoSteps`.
fn type_name(name: &str) -> String {
    let capitalised = name.split('-').map(|part| {
        let (first, rest) = part.split_at(part.len().min(1));
        first.to_ascii_uppercase() + rest
    });
    capitalised.collect()
}

/// Finds the folder of Weir's sources: the given one, or the first one above this folder or this program.
///
/// # Errors
/// Message if there is none.
fn sources(given: Option<&Path>) -> Result<PathBuf, String> {
    let is_weir =
        |folder: &Path| folder.join("weir/on-dpdk/Cargo.toml").is_file() && folder.join("Cargo.lock").is_file();
    let found = match given {
        Some(folder) if !is_weir(folder) => {
            return Err(format!(
                "{} has not Weir's sources: give the folder of a clone, with Cargo.lock and mmu",
                folder.display()
            ));
        }
        Some(folder) => Some(folder.to_owned()),
        None => {
            let starts = [std::env::current_dir(), std::env::current_exe()];
            starts
                .iter()
                .flatten()
                .flat_map(|start| start.ancestors())
                .find(|folder| is_weir(folder))
                .map(Path::to_owned)
        }
    };
    let folder =
        found.ok_or("Weir's sources are not above this folder or this program: give their folder with --weir DIR")?;
    folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_differ_from_the_example_in_names_and_paths_alone() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for (path, text) in files("two-steps", Path::new("../..")) {
            let example = fs::read_to_string(root.join("examples/my-policy").join(path)).unwrap();
            let back = text.replace("two-steps-policy", "my-policy").replace("two_steps_policy", "my_policy");
            if cfg!(feature = "dpdk") {
                assert_eq!(back, example);
            }
        }
        for (path, text) in files("big-first", root) {
            let has = |word| text.contains(word);
            assert!(
                !has("two-steps") && !has("TwoSteps") && !has("two_steps") && !has("my-policy") && !has("\"../"),
                "{path}: {text}"
            );
        }
        let manifest = &files("big-first", root)[0].1;
        let paths: Vec<&str> = manifest.split("path = \"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert!(
            paths.len() >= 4 && paths.iter().all(|path| Path::new(path).join("Cargo.toml").is_file()),
            "{manifest}"
        );
    }

    #[test]
    fn wrong_names_are_refused() {
        assert_eq!(type_name("big-first2"), "BigFirst2");
        assert_eq!(check_name("big-first2"), Ok(()));
        for wrong in ["", "Big", "2big", "big_first", "big--first", "-big", "größe", &"a".repeat(32)] {
            assert!(check_name(wrong).unwrap_err().contains("is no name of a policy"), "{wrong}");
        }
        for taken in ["dt", "spfc", "static"] {
            assert!(check_name(taken).unwrap_err().contains("is a policy of Weir's"), "{taken}");
        }
        for used in ["buffer-policy", "threshold", "result", "self"] {
            assert!(check_name(used).unwrap_err().contains("is a type that policies use"), "{used}");
        }
    }
}
