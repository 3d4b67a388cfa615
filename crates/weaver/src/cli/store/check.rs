//! `weaver store check`.

use serde_json::json;

use crate::cli::store::{IfMissing, StoreTask};
use crate::exit::{Exit, Failure};
use crate::output::{Progress, Tone};

pub(crate) async fn run(task: &StoreTask) -> Result<Exit, Failure> {
    let progress = Progress::new(format!("checking {}", task.url));
    let report = task.on_store(IfMissing::Refuse, &progress, |store| Ok(store.check()?)).await?;
    let answer = json!({
        "store": task.url.to_string(),
        "is_clean": report.is_clean(),
        "rows": report.rows,
        "tasks": report.tasks,
        "problems": report.problems,
    });
    let output = &task.context.output;
    output.answer(&answer, || {
        let read = format!("{}: {} tasks in {} rows", task.url, report.tasks, report.rows);
        if report.is_clean() {
            return format!("{read}: {}.\n", output.paint.tone(Tone::Good, "nothing is wrong"));
        }
        let mut text = format!("{read}: {}\n", output.paint.tone(Tone::Bad, "something is wrong"));
        for problem in &report.problems {
            text.push_str(&format!("  {problem}\n"));
        }
        text.push_str("Restore the latest backup of this directory, or export what can be read: `weaver store export`.\n");
        text
    })?;
    Ok(if report.is_clean() { Exit::Done } else { Exit::Damaged })
}
