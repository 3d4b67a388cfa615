//! The section `[merge.templates]`: other words for what people are told about merge queues.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use weaver_merge::notify::Kind;

use crate::config::handlers::explained;
use crate::exit::Failure;

/// The section's name.
pub(crate) const TEMPLATES: &str = "merge.templates";

/// Words by what a message is about.
pub(crate) type Templates = BTreeMap<Kind, String>;

#[derive(Deserialize)]
struct Section {
    merge: Merge,
}

/// The other settings of `[merge]` are read as settings are.
#[derive(Deserialize)]
struct Merge {
    templates: Templates,
}

pub(super) fn read(path: &Path, text: &str) -> Result<Templates, Failure> {
    toml::from_str::<Section>(text)
        .map(|section| section.merge.templates)
        .map_err(|error| explained(path, text, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_by_kind_and_a_slip_is_refused_with_its_line_and_the_nearest() {
        let text = "[merge]\ncheck_budget = 2\n[merge.templates]\nmerged = \"{change} is in\"\n";
        let read = |text: &str| read(Path::new("weaver.toml"), text);
        assert_eq!(read(text).unwrap(), Templates::from([(Kind::Merged, "{change} is in".to_owned())]));
        let said = read(&text.replace("merged", "mergd")).unwrap_err().message;
        assert!(said.starts_with("weaver.toml:4: ") && said.ends_with("did you mean `merged`?"), "{said}");
    }
}
