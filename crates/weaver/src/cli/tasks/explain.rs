//! `weaver tasks explain`.

use crate::cli::remote::Remote;
use crate::exit::{Exit, Failure};
use crate::output::{state, visible};

pub(crate) async fn run(remote: &Remote<'_>, id: &str) -> Result<Exit, Failure> {
    let explanation = remote.client.explain(&remote.namespace, id).await?;
    remote.context.output.answer(&explanation, || {
        let mut text = format!("Task {id} is {}.\n", state(explanation.state));
        for reason in &explanation.reasons {
            text.push_str(&format!("  {}\n", visible(&reason.message)));
        }
        text
    })?;
    Ok(Exit::Done)
}
