//! The section `[merge.templates]`: templates for merge queue notifications.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use weaver_merge::notify::Kind;

use crate::config::handlers::explained;
use crate::exit::Failure;

pub(crate) const TEMPLATES: &str = "merge.templates";

/// Texts by kind of notification.
pub(crate) type Templates = BTreeMap<Kind, String>;

#[derive(Deserialize)]
struct Section {
    merge: Merge,
}

/// The other keys of `[merge]` are plain settings.
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
    fn templates_are_read_by_kind_and_a_typo_is_refused_with_its_line_and_the_nearest() {
        let text = "[merge]\ncheck_budget = 2\n[merge.templates]\nmerged = \"{change} is in\"\n";
        let read = |text: &str| read(Path::new("weaver.toml"), text);
        assert_eq!(read(text).unwrap(), Templates::from([(Kind::Merged, "{change} is in".to_owned())]));
        let said = read(&text.replace("merged", "mergd")).unwrap_err().message;
        assert!(said.starts_with("weaver.toml:4: ") && said.ends_with("did you mean `merged`?"), "{said}");
    }
}
