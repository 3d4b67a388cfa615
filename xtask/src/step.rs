//! Steps with progress lines: `Step 2/9: licences … ok (0.3 s)`.

use std::time::Instant;

/// One named piece of work, and the command that repeats it alone.
pub(crate) struct Step<'a> {
    pub(crate) name: String,
    repeat: String,
    /// The step writes to the terminal itself, so its name is shown before it as well as after.
    talks: bool,
    work: Box<dyn Fn() -> Result<(), String> + 'a>,
}

impl<'a> Step<'a> {
    pub(crate) fn quiet(
        name: impl Into<String>,
        repeat: impl Into<String>,
        work: impl Fn() -> Result<(), String> + 'a,
    ) -> Self {
        Self { name: name.into(), repeat: repeat.into(), talks: false, work: Box::new(work) }
    }

    pub(crate) fn talking(
        name: impl Into<String>,
        repeat: impl Into<String>,
        work: impl Fn() -> Result<(), String> + 'a,
    ) -> Self {
        Self { talks: true, ..Self::quiet(name, repeat, work) }
    }
}

/// Run the steps in order; stop at the first that fails unless `keep_going`.
pub(crate) fn run_all(steps: &[Step<'_>], keep_going: bool) -> Result<(), String> {
    let mut failed = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        let label = format!("Step {}/{}: {} …", index + 1, steps.len(), step.name);
        if !run_one(&label, step) {
            failed.push(step);
            if !keep_going {
                break;
            }
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> =
        failed.iter().map(|step| format!("  {} — repeat with `{}`", step.name, step.repeat)).collect();
    Err(format!("{} of {} steps failed:\n{}", failed.len(), steps.len(), lines.join("\n")))
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long a step takes is for people to read; nothing decides on it"
)]
fn run_one(label: &str, step: &Step<'_>) -> bool {
    if step.talks {
        println!("{label}");
    }
    let started_at = Instant::now();
    let result = (step.work)();
    let seconds = started_at.elapsed().as_secs_f64();
    match &result {
        Ok(()) => println!("{label} ok ({seconds:.1} s)"),
        Err(message) => println!("{label} FAILED ({seconds:.1} s)\n{message}"),
    }
    result.is_ok()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn broken<'a>() -> Step<'a> {
        Step::quiet("broken", "cargo repeat-me", || Err("no".into()))
    }

    #[test]
    fn the_first_failure_stops_the_run_and_says_how_to_repeat_it() {
        let later_ran = Cell::new(false);
        let later = Step::quiet("later", "", || {
            later_ran.set(true);
            Ok(())
        });
        let message = run_all(&[broken(), later], false).unwrap_err();
        assert!(!later_ran.get());
        assert!(message.contains("1 of 2") && message.contains("cargo repeat-me"), "{message}");
    }

    #[test]
    fn keep_going_runs_every_step_and_still_fails() {
        let later_ran = Cell::new(false);
        let later = Step::talking("later", "", || {
            later_ran.set(true);
            Ok(())
        });
        assert!(run_all(&[broken(), later], true).is_err());
        assert!(later_ran.get());
    }

    #[test]
    fn steps_that_all_succeed_are_a_success() {
        assert_eq!(run_all(&[Step::quiet("fine", "", || Ok(()))], false), Ok(()));
    }
}
