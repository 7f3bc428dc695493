//! Command lines in the scripts of the Reverie paper's program, `run-*.sh`.
//!
//! The reader knows the parts of the shell's language that these scripts use: variables, lists, `for`, `if` with a comparison,
//! `continue`, and sums by the shell or Python. Other commands are ignored.

use std::collections::BTreeMap;

use super::text::Source;
use crate::import::{ImportError, ImportErrors};

/// Command line that a script starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    /// Line of the script, from 1.
    pub line: usize,
    /// Arguments of the program.
    pub text: String,
}

/// Program whose command lines are returned.
const PROGRAM: &str = "reverie-evaluation-sigcomm2023";
/// Upper bound of the command lines of a sweep.
const LINES_MAX: usize = 10_000;

/// Returns the command lines that a script starts, in order. The script's own first argument is taken as 1: such scripts start the
/// simulations only then.
///
/// # Errors
/// An unclosed construct; an unknown value that a command line depends on; a script that starts no simulation.
pub fn command_lines(script: &Source) -> Result<Vec<CommandLine>, ImportErrors> {
    let wrong = |(line, problem): Wrong| {
        let help = "name another script, or give its command line with --arguments";
        ImportErrors {
            errors: vec![ImportError { file: script.name.clone(), line: Some(line), problem, help: help.to_owned() }],
            more: 0,
        }
    };
    let statements = statements(&script.text).map_err(wrong)?;
    let mut statements = statements.into_iter().peekable();
    let steps = block(&mut statements, None).map_err(wrong)?;
    let mut shell = Shell { values: BTreeMap::from([("1".to_owned(), vec!["1".to_owned()])]), lines: Vec::new() };
    shell.run(&steps).map_err(wrong)?;
    if shell.lines.is_empty() {
        return Err(wrong((1, format!("this starts no {PROGRAM}"))));
    }
    Ok(shell.lines)
}

/// Line number and error.
type Wrong = (usize, String);

/// Statement, with the line of its start.
type Statement = (usize, String);

/// Splits a script into statements: at ends of lines and semicolons outside of quotes and parentheses, and after words that begin blocks.
fn statements(text: &str) -> Result<Vec<Statement>, Wrong> {
    let mut found = Vec::new();
    let (mut statement, mut begins) = (String::new(), 1);
    let (mut quote, mut depth): (Option<char>, usize) = (None, 0);
    let mut line = 1;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let ends = match character {
            '\\' if characters.peek() == Some(&'\n') => {
                characters.next();
                line += 1;
                statement.push(' ');
                continue;
            }
            '#' if quote.is_none() && (statement.is_empty() || statement.ends_with(char::is_whitespace)) => {
                while characters.next_if(|next| *next != '\n').is_some() {}
                continue;
            }
            '\'' | '"' if quote.is_none() => {
                quote = Some(character);
                false
            }
            _ if quote == Some(character) => {
                quote = None;
                false
            }
            '(' if quote.is_none() => {
                depth += 1;
                false
            }
            ')' if quote.is_none() => {
                depth = depth.saturating_sub(1);
                false
            }
            '\n' | ';' => quote.is_none() && depth == 0,
            _ => false,
        };
        if ends {
            push(&mut found, begins, &statement);
            statement.clear();
        } else {
            statement.push(character);
        }
        if character == '\n' {
            line += 1;
        }
        if statement.trim().is_empty() {
            begins = line;
        }
    }
    if quote.is_some() || depth > 0 {
        return Err((begins, "a quote or parenthesis is not closed".to_owned()));
    }
    push(&mut found, begins, &statement);
    Ok(found)
}

/// Adds a statement; those after `do`, `then` and `else` are separate.
fn push(found: &mut Vec<Statement>, line: usize, statement: &str) {
    let statement = statement.trim();
    let opens = ["do", "then", "else"].into_iter().find_map(|word| {
        let rest = statement.strip_prefix(word)?;
        (rest.is_empty() || rest.starts_with(char::is_whitespace)).then_some((word, rest))
    });
    match opens {
        Some((word, rest)) => {
            found.push((line, word.to_owned()));
            push(found, line, rest);
        }
        None if statement.is_empty() => {}
        None => found.push((line, statement.to_owned())),
    }
}

/// Step of a script that may affect the command lines.
#[derive(Debug)]
enum Step {
    Set {
        name: String,
        value: String,
    },
    For {
        line: usize,
        name: String,
        values: String,
        body: Vec<Step>,
    },
    If {
        line: usize,
        condition: String,
        holds: Vec<Step>,
        fails: Vec<Step>,
    },
    /// A `while` loop.
    While {
        line: usize,
        body: Vec<Step>,
    },
    Continue,
    Start {
        line: usize,
        text: String,
    },
}

impl Step {
    /// Whether the step may start a command line, or affects one.
    fn matters(&self) -> bool {
        match self {
            Step::Set { .. } | Step::Continue | Step::Start { .. } => true,
            Step::For { body, .. } | Step::While { body, .. } => body.iter().any(Step::matters),
            Step::If { holds, fails, .. } => holds.iter().chain(fails).any(Step::matters),
        }
    }
}

/// Reads statements up to a word that ends the block, which is not consumed; `None` is the script's end.
fn block(
    rest: &mut std::iter::Peekable<impl Iterator<Item = Statement>>,
    of: Option<(usize, &[&str])>,
) -> Result<Vec<Step>, Wrong> {
    let mut steps = Vec::new();
    loop {
        let Some((line, text)) = rest.peek().cloned() else {
            return match of {
                Some((line, ends)) => Err((line, format!("there is no `{}` for this", ends[ends.len() - 1]))),
                None => Ok(steps),
            };
        };
        if of.is_some_and(|(_, ends)| ends.contains(&text.as_str())) {
            return Ok(steps);
        }
        rest.next();
        let (word, more) = text.split_once(char::is_whitespace).unwrap_or((&text, ""));
        match word {
            "for" => {
                let (name, values) =
                    more.split_once(" in ").ok_or((line, "this is no `for NAME in LIST`".to_owned()))?;
                let body = body(rest, line, "do", &["done"])?;
                rest.next();
                steps.push(Step::For { line, name: name.trim().to_owned(), values: values.trim().to_owned(), body });
            }
            "while" | "until" => {
                let body = body(rest, line, "do", &["done"])?;
                rest.next();
                steps.push(Step::While { line, body });
            }
            "if" => {
                let holds = body(rest, line, "then", &["else", "fi"])?;
                let fails = match rest.next() {
                    Some((_, word)) if word == "else" => {
                        let fails = block(rest, Some((line, &["fi"])))?;
                        rest.next();
                        fails
                    }
                    _ => Vec::new(),
                };
                steps.push(Step::If { line, condition: more.to_owned(), holds, fails });
            }
            "continue" => steps.push(Step::Continue),
            "elif" | "case" | "function" | "break" | "done" | "fi" | "do" | "then" | "else" => {
                return Err((line, format!("`{word}` is not read here")));
            }
            _ => steps.extend(simple(line, &text)),
        }
    }
}

/// Reads a block after `do` or `then`.
fn body(
    rest: &mut std::iter::Peekable<impl Iterator<Item = Statement>>,
    line: usize,
    begin: &str,
    ends: &[&str],
) -> Result<Vec<Step>, Wrong> {
    match rest.next() {
        Some((_, word)) if word == begin => block(rest, Some((line, ends))),
        _ => Err((line, format!("there is no `{begin}` for this"))),
    }
}

/// Reads a statement that is no block; `None` if it has no effect.
fn simple(line: usize, text: &str) -> Option<Step> {
    if let Some((name, value)) = text.split_once('=')
        && is_name(name)
    {
        return Some(Step::Set { name: name.to_owned(), value: value.to_owned() });
    }
    let at = text.find(PROGRAM)?;
    // A quoted command ends with its quotes; others end at the redirection of their output.
    let (before, text) = text.split_at(at);
    let ends: &[char] = if before.contains('"') { &['"'] } else { &['>', '&', ')', '|'] };
    let text = text.split(ends).next().unwrap_or_default();
    text.contains("--").then(|| Step::Start { line, text: text.to_owned() })
}

fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// State of a shell: variables and started command lines.
struct Shell {
    /// Values of each variable; missing for a variable of unknown value.
    values: BTreeMap<String, Vec<String>>,
    lines: Vec<CommandLine>,
}

impl Shell {
    /// Runs these steps; returns whether the enclosing loop goes on to its next value.
    fn run(&mut self, steps: &[Step]) -> Result<bool, Wrong> {
        for step in steps {
            match step {
                Step::Set { name, value } => match self.words(value) {
                    Ok(words) => drop(self.values.insert(name.clone(), words)),
                    // Not an error unless the variable is used.
                    Err(_) => drop(self.values.remove(name)),
                },
                Step::For { line, name, values, body } => {
                    let words = self.words(values).map_err(|problem| (*line, problem))?;
                    for word in words {
                        self.values.insert(name.clone(), vec![word]);
                        self.run(body)?;
                    }
                }
                Step::If { line, condition, holds, fails } => {
                    let chosen = match self.holds(condition) {
                        Ok(true) => holds,
                        Ok(false) => fails,
                        Err(_) if !step.matters() => continue,
                        Err(problem) => return Err((*line, problem)),
                    };
                    if self.run(chosen)? {
                        return Ok(true);
                    }
                }
                Step::While { line, .. } if step.matters() => {
                    return Err((*line, "how often this goes around is not known".to_owned()));
                }
                Step::While { .. } => {}
                Step::Continue => return Ok(true),
                Step::Start { line, text } => {
                    let text = self.expand(text).map_err(|problem| (*line, problem))?;
                    self.lines.push(CommandLine { line: *line, text });
                    if self.lines.len() > LINES_MAX {
                        return Err((*line, format!("this starts the program more than {LINES_MAX} times")));
                    }
                }
            }
        }
        Ok(false)
    }

    /// Returns the words of a value: a list in parentheses, or text separated by spaces.
    fn words(&self, text: &str) -> Result<Vec<String>, String> {
        let text = text.trim();
        let list = text.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
        let mut words = Vec::new();
        for word in parts(list.unwrap_or(text)) {
            match word.strip_prefix("${").and_then(|word| word.strip_suffix("[@]}")) {
                Some(name) => words.extend(self.value(name)?.iter().cloned()),
                None => words.push(self.expand(&word)?),
            }
        }
        Ok(words)
    }

    fn value(&self, name: &str) -> Result<&[String], String> {
        let values = self.values.get(name).map(Vec::as_slice);
        values.ok_or_else(|| format!("what ${name} is, is not known here"))
    }

    fn holds(&self, condition: &str) -> Result<bool, String> {
        let trimmed = condition.trim().trim_start_matches('[').trim_end_matches(']');
        let words: Vec<String> = parts(trimmed).iter().map(|word| self.expand(word)).collect::<Result<_, _>>()?;
        let [one, comparison, other] = &words[..] else {
            return Err(format!("`{}` is not read here", condition.trim()));
        };
        let numbers = || one.parse::<f64>().ok().zip(other.parse::<f64>().ok());
        let compared = |holds: fn(f64, f64) -> bool| {
            numbers().map(|(one, other)| holds(one, other)).ok_or(format!("{one} or {other} is no number"))
        };
        match comparison.as_str() {
            "==" | "=" => Ok(one == other),
            "!=" => Ok(one != other),
            "-eq" => compared(|one, other| one == other),
            "-ne" => compared(|one, other| one != other),
            "-lt" => compared(|one, other| one < other),
            "-le" => compared(|one, other| one <= other),
            "-gt" => compared(|one, other| one > other),
            "-ge" => compared(|one, other| one >= other),
            _ => Err(format!("`{}` is not read here", condition.trim())),
        }
    }

    /// Replaces variables by their values and commands by their results, and removes quotes.
    fn expand(&self, text: &str) -> Result<String, String> {
        let mut expanded = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            expanded.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            if rest.starts_with('(') {
                let end = closing(rest).ok_or("a parenthesis is not closed")?;
                expanded.push_str(&self.result(&rest[1..end])?);
                rest = &rest[end + 1..];
            } else if let Some(braced) = rest.strip_prefix('{') {
                let (name, after) = braced.split_once('}').ok_or("a brace is not closed")?;
                expanded.push_str(&self.value(name.trim_end_matches("[@]"))?.join(" "));
                rest = after;
            } else {
                let end = rest.find(|it: char| !it.is_ascii_alphanumeric() && it != '_').unwrap_or(rest.len());
                expanded.push_str(&self.value(&rest[..end])?.join(" "));
                rest = &rest[end..];
            }
        }
        expanded.push_str(rest);
        expanded.retain(|it| !['"', '\''].contains(&it));
        Ok(expanded)
    }

    /// Evaluates `$(…)`: an arithmetic sum, or `pwd`, whose value is `.`: files are searched for anew.
    fn result(&self, text: &str) -> Result<String, String> {
        let text = text.trim();
        if text == "pwd" {
            return Ok(".".to_owned());
        }
        let of_shell = text.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
        let of_python = || {
            let text = text.strip_prefix("python3").or(text.strip_prefix("python"))?.trim().strip_prefix("-c")?;
            text.trim().trim_matches('"').strip_prefix("print(")?.strip_suffix(')')
        };
        let sum = of_shell.or_else(of_python).ok_or_else(|| format!("what `{text}` prints is not known"))?;
        let (places, sum) = match sum.trim().strip_prefix("'%.").and_then(|sum| sum.split_once("f'%")) {
            Some((places, sum)) => (places.parse::<usize>().ok(), sum),
            None => (None, sum),
        };
        // Names in the shell's sums need no `$`.
        let sum = self.expand(sum)?;
        let value = Sum { rest: sum.trim() }.whole().ok_or_else(|| format!("`{sum}` is no sum"))?;
        Ok(match places {
            Some(places) => format!("{value:.places$}"),
            // The precision of the arguments' parser.
            None => format!("{}", (value * 1e9).round() / 1e9),
        })
    }
}

/// Splits a text at spaces outside of quotes and parentheses.
fn parts(text: &str) -> Vec<String> {
    let (mut parts, mut part) = (Vec::new(), String::new());
    let (mut quote, mut depth) = (None, 0_usize);
    for it in text.chars() {
        match it {
            '\'' | '"' if quote.is_none() => quote = Some(it),
            _ if quote == Some(it) => quote = None,
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ if it.is_whitespace() && quote.is_none() && depth == 0 => {
                parts.extend((!part.is_empty()).then(|| std::mem::take(&mut part)));
                continue;
            }
            _ => {}
        }
        part.push(it);
    }
    parts.extend((!part.is_empty()).then_some(part));
    parts
}

/// Returns the place of the parenthesis that closes the text's first one.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, it) in text.char_indices() {
        depth += i32::from(it == '(') - i32::from(it == ')');
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// Parser of a sum of numbers.
struct Sum<'t> {
    rest: &'t str,
}

impl Sum<'_> {
    /// Evaluates the entire text.
    fn whole(mut self) -> Option<f64> {
        let value = self.terms()?;
        (self.rest.trim().is_empty() && value.is_finite()).then_some(value)
    }

    fn terms(&mut self) -> Option<f64> {
        let mut value = self.factors()?;
        while let Some(sign) = self.next_of(&['+', '-']) {
            let term = self.factors()?;
            value += if sign == '+' { term } else { -term };
        }
        Some(value)
    }

    fn factors(&mut self) -> Option<f64> {
        let mut value = self.factor()?;
        while let Some(sign) = self.next_of(&['*', '/']) {
            let factor = self.factor()?;
            value = if sign == '*' { value * factor } else { value / factor };
        }
        Some(value)
    }

    fn factor(&mut self) -> Option<f64> {
        if self.next_of(&['-']).is_some() {
            return self.factor().map(|value| -value);
        }
        if self.next_of(&['(']).is_some() {
            let value = self.terms()?;
            return self.next_of(&[')']).map(|_| value);
        }
        self.rest = self.rest.trim_start();
        let end = self.rest.find(|it: char| !it.is_ascii_digit() && it != '.').unwrap_or(self.rest.len());
        let (number, rest) = self.rest.split_at(end);
        self.rest = rest;
        number.parse().ok()
    }

    fn next_of(&mut self, signs: &[char]) -> Option<char> {
        let rest = self.rest.trim_start();
        let sign = rest.chars().next().filter(|sign| signs.contains(sign))?;
        self.rest = &rest[1..];
        Some(sign)
    }
}

#[cfg(test)]
mod tests {
    use super::super::arguments::Arguments;
    use super::*;

    fn lines(text: &str) -> Result<Vec<CommandLine>, String> {
        let script = Source { name: "run.sh".to_owned(), text: text.to_owned() };
        command_lines(&script).map_err(|errors| errors.errors[0].to_string())
    }

    /// Sweep in the form of the paper's: two loops, a choice, a wait for free cores.
    const SWEEP: &str = r#"source config.sh
HERE=$(pwd)
if [ ! -d "$HERE/out" ];then
    mkdir $HERE/out
fi
DT=101
REVERIE=111 # Reverie
POLICIES=($DT "$REVERIE")
EXP=$1
COUNT=0
PER_PORT=5.12
SIZE=$(python3 -c "print(20*25*1000*$PER_PORT)") # in bytes
for load in 0.2 0.6;do
    # rest=none
    rest=$(python3 -c "print('%.1f'%(0.8-$load))")
    if [[ $load == 0.4 ]];then
        continue;
    fi
    for policy in ${POLICIES[@]}; do
        if [[ $policy != $REVERIE ]];then
            MODEL="sonic"
        else
            MODEL="reverie"
        fi
        while [[ $(ps aux | grep reverie-evaluation-sigcomm2023 | wc -l) -gt $CORES ]];do
            sleep 30;
            echo "waiting; $CORES running..."
        done
        if [[ $EXP == 1 ]];then
            (time ./waf --run "reverie-evaluation-sigcomm2023 --bufferalgIngress=$policy --bufferModel=$MODEL --rdmaload=$load \
                --tcpload=${rest} --buffersize=$SIZE --alphasFile=$HERE/alphas" > $HERE/out/$policy.txt 2> /dev/null)&
            sleep 5
        fi
        COUNT=$(( $COUNT+1 ))
    done
done
echo "$COUNT of them"
"#;

    #[test]
    fn a_sweeps_command_lines_are_found() {
        let found = lines(SWEEP).unwrap();
        assert_eq!(found.len(), 4);
        assert!(found.iter().all(|found| found.line == 30), "{found:?}");
        let read: Vec<Arguments> = found.iter().map(|found| Arguments::parse(&found.text).unwrap()).collect();
        let loads = |read: &Arguments| (read.traffic[0].load / 100_000_000, read.traffic[1].load / 100_000_000);
        assert_eq!(read.iter().map(loads).collect::<Vec<_>>(), [(2, 6), (2, 6), (6, 2), (6, 2)]);
        assert_eq!(read.iter().map(|read| read.is_reverie).collect::<Vec<_>>(), [false, true, false, true]);
        assert!(read.iter().all(|read| read.buffer.get() == 2_560_000 && read.files["alphasFile"] == "./alphas"));
    }

    #[test]
    fn a_value_is_passed_over() {
        let text = SWEEP.replace("0.4", "0.6");
        assert_eq!(lines(&text).unwrap().len(), 2);
        let unquoted =
            "for g in 0.9 0.99;do\n./ns3.39-reverie-evaluation-sigcomm2023-optimized --gamma=$g > out.txt &\ndone\n";
        let texts: Vec<String> = lines(unquoted).unwrap().into_iter().map(|line| line.text.trim().to_owned()).collect();
        assert_eq!(
            texts,
            [
                "reverie-evaluation-sigcomm2023-optimized --gamma=0.9",
                "reverie-evaluation-sigcomm2023-optimized --gamma=0.99"
            ]
        );
    }

    #[test]
    fn what_can_not_be_known_is_told_with_its_line() {
        let start = "(./waf --run \"reverie-evaluation-sigcomm2023 --gamma=$gamma\")&\n";
        for (text, expected) in [
            (format!("a=1\n{start}"), "run.sh:2: what $gamma is, is not known here"),
            (format!("gamma=$(date)\n{start}"), "run.sh:2: what $gamma is, is not known here"),
            (format!("gamma=0.9\nfor x in 1 2;do\n{start}"), "run.sh:2: there is no `done` for this"),
            (format!("gamma=0.9\nif [[ -f x ]];then\n{start}fi\n"), "run.sh:2: `[[ -f x ]]` is not read here"),
            (format!("gamma=0.9\nwhile true;do\n{start}done\n"), "run.sh:2: how often this goes around is not known"),
            ("echo \"a\n".to_owned(), "run.sh:1: a quote or parenthesis is not closed"),
            ("echo a\n".to_owned(), "run.sh:1: this starts no reverie-evaluation-sigcomm2023"),
        ] {
            let told = lines(&text).unwrap_err();
            assert!(told.starts_with(expected), "{told}");
        }
    }

    #[test]
    fn sums_are_reckoned() {
        for (text, value) in [
            ("20*25*1000*5.12", Some(2_560_000.0)),
            ("2-(3-4)/2 + -1", Some(1.5)),
            ("1/0", None),
            ("2 3", None),
            ("(1", None),
        ] {
            assert_eq!(Sum { rest: text }.whole(), value, "{text}");
        }
    }
}
